/* SPDX-License-Identifier: Apache-2.0 */
/* Counts how much of a trace's prompts comes again: the hit rate of an endless store. */
#include "trace.h"

#include <stdlib.h>

/* Open addressing over hash ids; id + 1 is stored, 0 is an empty place. */
struct id_set {
	uint64_t *places;
	size_t mask;
};

static bool set_init(struct id_set *set, size_t id_count)
{
	size_t capacity = 64;

	while (capacity < id_count * 2)
		capacity *= 2;
	set->places = calloc(capacity, sizeof(*set->places));
	set->mask = capacity - 1;
	return set->places;
}

static size_t set_place(const struct id_set *set, uint64_t id)
{
	size_t at = (id * 0x9e3779b97f4a7c15u >> 20) & set->mask;

	while (set->places[at] && set->places[at] != id + 1)
		at = (at + 1) & set->mask;
	return at;
}

static bool set_has(const struct id_set *set, uint64_t id)
{
	return set->places[set_place(set, id)] != 0;
}

/* True when the id is new. */
static bool set_add(struct id_set *set, uint64_t id)
{
	size_t at = set_place(set, id);

	if (set->places[at])
		return false;
	set->places[at] = id + 1;
	return true;
}

static uint64_t reused_blocks(const struct id_set *seen, const uint64_t *ids, uint64_t block_count,
                              uint64_t limit)
{
	uint64_t count = 0;

	while (count < block_count && count < limit && set_has(seen, ids[count]))
		count++;
	return count;
}

static void measure_request(const struct kvh_trace_request *request, const uint64_t *ids,
                            struct id_set *seen, uint64_t stride, struct kvh_trace_reuse *reuse)
{
	uint64_t full = request->prompt_tokens / KVH_TRACE_BLOCK_TOKENS;
	uint64_t saved = full - full % stride;
	uint64_t limit = (request->prompt_tokens - 1) / KVH_TRACE_BLOCK_TOKENS;
	uint64_t reused = reused_blocks(seen, ids, saved, limit);

	reuse->prompt_tokens += request->prompt_tokens;
	reuse->reused_tokens += (reused - reused % stride) * KVH_TRACE_BLOCK_TOKENS;
	for (uint64_t i = 0; i < saved; i++) {
		if (!set_add(seen, ids[i]))
			continue;
		reuse->distinct_blocks++;
		reuse->distinct_strides += (i + 1) % stride == 0;
	}
}

bool kvh_trace_measure(const struct kvh_trace *trace, size_t stride_blocks,
                       struct kvh_trace_reuse *reuse)
{
	struct kvh_trace_reuse counted = {0};
	struct id_set seen;

	if (!set_init(&seen, trace->hash_count))
		return false;
	for (size_t i = 0; i < trace->request_count; i++)
		measure_request(&trace->requests[i],
		                trace->hash_ids + trace->requests[i].hash_first, &seen,
		                stride_blocks, &counted);
	free(seen.places);
	*reuse = counted;
	return true;
}
