/* SPDX-License-Identifier: Apache-2.0 */
/* The index: from a key's hash to slots. Readers need no lock; entries never move. */
#ifndef KVH_POOL_CORE_INDEX_H
#define KVH_POOL_CORE_INDEX_H

#include "base/lock.h"
#include "pool/core/area.h"

/* Where a search stands; begin with kvh_index_begin. */
struct kvh_index_search {
	uint32_t bucket;
	uint32_t entry;
	uint32_t tag;
	uint32_t buckets_left;
};

uint32_t kvh_index_bucket(const struct kvh_area *area, uint64_t hash);

static inline void kvh_index_begin(const struct kvh_area *area, uint64_t hash,
                                   struct kvh_index_search *search)
{
	search->bucket = kvh_index_bucket(area, hash);
	search->entry = 0;
	search->tag = (uint32_t)(hash >> 32);
	search->buckets_left = area->geometry.bucket_count;
}

/* The next slot with this tag, in bounds; KVH_NONE: no more. Any thread. */
uint32_t kvh_index_next(const struct kvh_area *area, struct kvh_index_search *search);

/* Lock held. A slot is in at most once; there are more entries than slots. */
void kvh_index_insert(struct kvh_area *area, uint64_t hash, uint32_t slot)
	KVH_REQUIRES(kvh_role_pool);
/* Nothing happens if the slot is not in. */
void kvh_index_remove(struct kvh_area *area, uint64_t hash, uint32_t slot)
	KVH_REQUIRES(kvh_role_pool);

#endif
