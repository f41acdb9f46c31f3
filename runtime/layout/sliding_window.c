/* SPDX-License-Identifier: Apache-2.0 */
/* Sliding window attention (C-11, C-34): only the chunks that the window reaches back to are
 * needed. */
#include <string.h>

#include "layout/attention.h"

/* Chunks in a row that a hit needs, the dropped one included. A window of 1 reaches back to none.
 */
static uint64_t needed_chunks(const struct kvh_shape *shape, bool drop)
{
	return kvh_div_up((uint64_t)shape->window_tokens - 1, shape->block_tokens) + drop;
}

/* Blocks between two hit lengths that are multiples of A: hits are whole blocks here. */
static uint64_t align_chunks(const struct kvh_spec *spec, const struct kvh_search *search)
{
	uint64_t chunk_count = search->coordinator->align_tokens / spec->shape.block_tokens;

	return chunk_count ? chunk_count : 1;
}

/* The highest end <= limit of which, after the drop, a multiple of A is left; 0: there is none. */
static uint64_t allowed_end(uint64_t limit, uint64_t unit, bool drop)
{
	return limit > drop ? kvh_round_down(limit - drop, unit) + drop : 0;
}

/* Present chunks in a row before end, counted up to most. */
static uint64_t present_before(const struct kvh_spec *spec, const struct kvh_search *search,
                               uint64_t end, uint64_t most)
{
	uint64_t chunk_count = 0;

	if (!search->presence)
		return end < most ? end : most;
	while (chunk_count < most && chunk_count < end &&
	       kvh_spec_has_chunk(spec, search, end - chunk_count - 1))
		chunk_count++;
	return chunk_count;
}

static struct kvh_run search_sliding_window(const struct kvh_spec *spec,
                                            const struct kvh_search *search)
{
	const uint64_t unit = align_chunks(spec, search);
	/* A window that reaches back to nothing still ends at a chunk that is there. */
	const uint64_t reach = needed_chunks(&spec->shape, search->drop);
	const uint64_t need = reach ? reach : 1;
	uint64_t end =
		allowed_end(search->max_tokens / spec->shape.block_tokens, unit, search->drop);
	uint64_t found = 0;
	struct kvh_run run = {0};

	while (end) {
		found = present_before(spec, search, end, need);
		if (found == need || found == end)
			break;
		end = allowed_end(end - found - 1, unit, search->drop);
	}
	/* A run that reaches chunk 0 counts though it is short; only then can it be off the grid.
	 */
	if (found < need)
		end = kvh_round_down(end, unit);
	run.first_chunk = end > found ? end - found : 0;
	if (search->drop && end)
		end = kvh_round_down(end - 1, unit);
	if (run.first_chunk > end)
		run.first_chunk = end;
	run.tokens = end * spec->shape.block_tokens;
	return run;
}

/* ---- masks ---------------------------------------------------------------------------- */

/*
 * Chunks from one kept tail to the next; 0: no regular tails. A lookup asks for every length that a
 * hit may have, whatever was retained.
 */
static uint64_t interval_chunks(const struct kvh_shape *shape, const struct kvh_keep_query *query)
{
	const struct kvh_coordinator *coordinator = query->coordinator;
	uint32_t interval_tokens = coordinator->has_retention && !query->lookup
	                                   ? coordinator->retention_tokens
	                                   : coordinator->lcm_tokens;

	return interval_tokens / shape->block_tokens;
}

static enum kvh_keep keep_sliding_window(const struct kvh_shape *shape,
                                         const struct kvh_keep_query *query)
{
	uint64_t per = interval_chunks(shape, query);

	return per && needed_chunks(shape, shape->eagle) >= per ? KVH_KEEP_ALL : KVH_KEEP_SOME;
}

/* Sets [first, end), as far as the mask has these chunks. */
static void keep_chunks(struct kvh_mask *mask, uint64_t first, uint64_t end)
{
	uint64_t mask_end = mask->first_chunk + mask->count;

	if (first < mask->first_chunk)
		first = mask->first_chunk;
	if (end > mask_end)
		end = mask_end;
	if (first < end)
		memset(mask->bits + (first - mask->first_chunk), 1, (size_t)(end - first));
}

/* The tail of every interval, counted from the shift. */
static void keep_regular_tails(struct kvh_mask *mask, uint64_t per, uint64_t need, uint64_t shift)
{
	uint64_t mask_end = mask->first_chunk + mask->count;
	uint64_t from = mask->first_chunk > shift ? mask->first_chunk - shift : 0;
	uint64_t tail_end = kvh_round_down(from, per) + per + shift;

	for (; tail_end - need < mask_end; tail_end += per)
		keep_chunks(mask, tail_end - need, tail_end);
}

static void keep_window_tails(const struct kvh_shape *shape, const struct kvh_keep_query *query,
                              struct kvh_mask *mask)
{
	const struct kvh_coordinator *coordinator = query->coordinator;
	const uint64_t need = needed_chunks(shape, shape->eagle);
	const uint64_t per = interval_chunks(shape, query);
	const uint64_t shift = shape->eagle;

	if (per)
		keep_regular_tails(mask, per, need, shift);
	for (uint32_t index = 0; coordinator->has_retention && index < query->replay_count;
	     index++) {
		uint64_t replay =
			kvh_round_down(query->replay_tokens[index], coordinator->lcm_tokens);
		uint64_t end = replay / shape->block_tokens + shift;

		keep_chunks(mask, end > need ? end - need : 0, end);
	}
}

const struct kvh_attention_ops kvh_attention_sliding_window = {
	.drops = true,
	.search = search_sliding_window,
	.keep = keep_sliding_window,
	.keep_some = keep_window_tails,
};
