/* SPDX-License-Identifier: Apache-2.0 */
/* Store and lookup masks of all groups (C-31..C-36), and the memory of masks. */
#include <string.h>

#include "base/fault.h"
#include "layout/attention.h"

void kvh_masks_fini(struct kvh_masks *masks)
{
	kvh_free(masks->memory);
	*masks = (struct kvh_masks){0};
}

bool kvh_bytes_reserve(uint8_t **memory, size_t *memory_bytes, size_t bytes)
{
	uint8_t *grown;

	if (bytes <= *memory_bytes)
		return true;
	if (bytes < 2 * *memory_bytes)
		bytes = 2 * *memory_bytes;
	grown = kvh_alloc(bytes);
	if (!grown)
		return false;
	kvh_free(*memory);
	*memory = grown;
	*memory_bytes = bytes;
	return true;
}

/* C-31: the group's chunks between the two. */
static struct kvh_mask chunks_between(const struct kvh_shape *shape, uint64_t start_token,
                                      uint64_t token_count)
{
	uint64_t first_chunk = kvh_div_up(start_token, shape->block_tokens);
	uint64_t end_chunk = token_count / shape->block_tokens;

	return (struct kvh_mask){.first_chunk = first_chunk,
	                         .count = first_chunk < end_chunk ? end_chunk - first_chunk : 0};
}

/* The group's mask without its bits. It wants some when it has a count and is not all. */
static struct kvh_mask plan_mask(const struct kvh_shape *shape, const struct kvh_keep_query *query,
                                 uint64_t start_token, uint64_t token_count)
{
	struct kvh_mask mask = {.all = true};
	enum kvh_keep keep = shape->ops ? shape->ops->keep(shape, query) : KVH_KEEP_NONE;

	if (keep == KVH_KEEP_NONE)
		return mask;
	mask = chunks_between(shape, start_token, token_count);
	mask.all = keep == KVH_KEEP_ALL;
	return mask;
}

static kvh_status make_masks(const struct kvh_keep_query *query, uint64_t token_count,
                             uint64_t start_token, struct kvh_masks *masks)
{
	const struct kvh_coordinator *coordinator = query->coordinator;
	struct kvh_mask planned[KVH_GROUPS_MAX];
	size_t bit_bytes = 0;
	uint8_t *bits;

	/* The bound also keeps the sum below from wrapping: 64 groups of 2^30 chunks. */
	if (token_count % coordinator->align_tokens || token_count > KVH_TOKENS_MAX)
		return KVH_INVALID_PARAMS;
	for (uint32_t group = 0; group < coordinator->group_count; group++) {
		planned[group] =
			plan_mask(&coordinator->groups[group], query, start_token, token_count);
		if (!planned[group].all)
			bit_bytes += planned[group].count;
	}
	if (!kvh_bytes_reserve(&masks->memory, &masks->memory_bytes, bit_bytes))
		return KVH_NO_MEMORY;
	bits = masks->memory;
	if (bit_bytes)
		memset(bits, 0, bit_bytes);
	for (uint32_t group = 0; group < coordinator->group_count; group++) {
		struct kvh_mask *mask = &planned[group];

		if (!mask->all && mask->count) {
			mask->bits = bits;
			bits += mask->count;
			coordinator->groups[group].ops->keep_some(&coordinator->groups[group],
			                                          query, mask);
		}
		masks->group[group] = *mask;
	}
	return KVH_OK;
}

/* C-36, one of the two boundaries under drafting: an lcm block before the floor of tokens. */
static uint64_t drafting_boundary(uint64_t tokens, uint32_t lcm_tokens)
{
	uint64_t floor_tokens = kvh_round_down(tokens, lcm_tokens);

	return floor_tokens > lcm_tokens ? floor_tokens - lcm_tokens : 0;
}

static void set_replay(struct kvh_keep_query *query, uint64_t replay_tokens)
{
	const struct kvh_coordinator *coordinator = query->coordinator;
	uint64_t last_token = replay_tokens ? replay_tokens - 1 : 0;

	query->replay_count = 1;
	query->replay_tokens[0] = last_token;
	if (!coordinator->drafting)
		return;
	query->replay_tokens[0] = drafting_boundary(last_token, coordinator->lcm_tokens);
	query->replay_tokens[1] = drafting_boundary(replay_tokens, coordinator->lcm_tokens);
	query->replay_count = 2;
}

kvh_status kvh_store_mask(const struct kvh_coordinator *coordinator, uint64_t token_count,
                          uint64_t start_token, bool has_replay, uint64_t replay_tokens,
                          struct kvh_masks *masks)
{
	struct kvh_keep_query query = {.coordinator = coordinator};

	if (has_replay)
		set_replay(&query, replay_tokens);
	return make_masks(&query, token_count, start_token, masks);
}

kvh_status kvh_lookup_mask(const struct kvh_coordinator *coordinator, uint64_t token_count,
                           struct kvh_masks *masks)
{
	struct kvh_keep_query query = {.coordinator = coordinator, .lookup = true};

	return make_masks(&query, token_count, 0, masks);
}
