/* SPDX-License-Identifier: Apache-2.0 */
/* Mamba (C-12, C-32, C-35): one state stands for the whole prefix, so only the last chunk is
 * needed. */
#include "layout/attention.h"

/*
 * Hits end at multiples of A: of whole blocks when A is the lcm, of hashes with partial hits. Both
 * are the same walk, for every group's block divides the lcm.
 */
static struct kvh_run search_mamba(const struct kvh_spec *spec, const struct kvh_search *search)
{
	const uint32_t align_tokens = search->coordinator->align_tokens;
	uint64_t end = kvh_round_down(search->max_tokens, align_tokens);

	while (end && !kvh_spec_has(spec, search, end))
		end -= align_tokens;
	return (struct kvh_run){.tokens = end,
	                        .first_chunk = end ? (end - 1) / spec->shape.block_tokens : 0};
}

/* C-32: the normal save puts no state; put them explicitly. */
static enum kvh_keep keep_mamba(const struct kvh_shape *shape, const struct kvh_keep_query *query)
{
	(void)shape;
	return query->lookup ? KVH_KEEP_ALL : KVH_KEEP_NONE;
}

const struct kvh_attention_ops kvh_attention_mamba = {
	.search = search_mamba,
	.keep = keep_mamba,
};
