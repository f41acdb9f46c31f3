/* SPDX-License-Identifier: Apache-2.0 */
/* Full attention (C-10, C-33): every chunk from the start is needed. */
#include "layout/attention.h"

static uint64_t present_chunks(const struct kvh_spec *spec, const struct kvh_search *search)
{
	uint64_t chunk_count = search->max_tokens / spec->shape.block_tokens;
	uint64_t chunk = 0;

	if (!search->presence)
		return chunk_count;
	while (chunk < chunk_count && kvh_spec_has_chunk(spec, search, chunk))
		chunk++;
	return chunk;
}

/* The highest present hash boundary inside the block that begins at start_tokens, or start_tokens.
 */
static uint64_t inner_boundary(const struct kvh_spec *spec, const struct kvh_search *search,
                               uint64_t start_tokens)
{
	const uint32_t hash_tokens = search->coordinator->hash_tokens;
	uint64_t inside = spec->shape.block_tokens - hash_tokens;
	uint64_t left = search->max_tokens - start_tokens;
	uint64_t end = start_tokens + kvh_round_down(left < inside ? left : inside, hash_tokens);

	while (end > start_tokens && !kvh_spec_has(spec, search, end))
		end -= hash_tokens;
	return end;
}

static struct kvh_run search_full(const struct kvh_spec *spec, const struct kvh_search *search)
{
	const uint32_t block_tokens = spec->shape.block_tokens;
	const uint32_t align_tokens = search->coordinator->align_tokens;
	uint64_t tokens = present_chunks(spec, search) * block_tokens;

	if (align_tokens < block_tokens)
		tokens = inner_boundary(spec, search, tokens);
	/* The whole unit goes: tokens is 0 or at least this much. */
	if (search->drop && tokens)
		tokens -= align_tokens < block_tokens ? align_tokens : block_tokens;
	return (struct kvh_run){.tokens = kvh_round_down(tokens, align_tokens)};
}

enum kvh_keep kvh_keep_all(const struct kvh_shape *shape, const struct kvh_keep_query *query)
{
	(void)shape;
	(void)query;
	return KVH_KEEP_ALL;
}

const struct kvh_attention_ops kvh_attention_full = {
	.inner_boundaries = true,
	.drops = true,
	.search = search_full,
	.keep = kvh_keep_all,
};
