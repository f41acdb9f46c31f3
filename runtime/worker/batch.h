/* SPDX-License-Identifier: Apache-2.0 */
/* The arrays of one store call, grown once and reused from job to job. */
#ifndef KVH_WORKER_BATCH_H
#define KVH_WORKER_BATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <kvhold/store.h>

#include "base/check.h"

/* What a key of the batch stands for. */
struct batch_item {
	uint64_t chunk; /* absolute chunk index of the group */
	uint32_t group;
	bool by_other; /* stored, but by another writer (D-11) */
};

struct worker_batch {
	size_t count;
	size_t capacity;
	struct kvh_key *keys;
	struct kvh_value *values;
	struct kvh_result *results;
	struct batch_item *items;
	uint32_t *slots; /* open addressing table of the duplicate check */
	size_t slot_capacity;
};

void kvh_batch_fini(struct worker_batch *batch);
/* Makes room for count items in all. KVH_NO_MEMORY; KVH_TOO_LARGE above KVH_BATCH_KEYS_MAX. */
kvh_status kvh_batch_reserve(struct worker_batch *batch, size_t count);
/* The index of one more item, which the caller fills. Room must have been reserved. */
static inline size_t kvh_batch_next(struct worker_batch *batch)
{
	KVH_CHECK(batch->count < batch->capacity);
	return batch->count++;
}
/* Drops every item whose key stands earlier in the batch (D-10). KVH_NO_MEMORY. */
kvh_status kvh_batch_drop_duplicates(struct worker_batch *batch);
/* Keeps the items whose exists result is not 1, in their order. */
void kvh_batch_keep_missing(struct worker_batch *batch);
/* Rotates keys, values and items left. */
void kvh_batch_rotate(struct worker_batch *batch, size_t by);
/* For one call; the store presets the results. */
struct kvh_batch kvh_batch_view(const struct worker_batch *batch, size_t first, size_t count);

#endif
