/* SPDX-License-Identifier: Apache-2.0 */
/* Chunked local attention (C-13): only the attention chunk that is being filled is needed. */
#include "layout/attention.h"

static struct kvh_run search_chunked_local(const struct kvh_spec *spec,
                                           const struct kvh_search *search)
{
	const uint32_t block_tokens = spec->shape.block_tokens;
	uint64_t chunk_count = search->max_tokens / block_tokens;
	uint64_t local_start = kvh_round_down(search->max_tokens, spec->shape.window_tokens);
	uint64_t first_chunk = local_start / block_tokens;
	uint64_t end_chunk = search->presence ? first_chunk : chunk_count;

	while (end_chunk < chunk_count && kvh_spec_has_chunk(spec, search, end_chunk))
		end_chunk++;
	return (struct kvh_run){.tokens = end_chunk * block_tokens, .first_chunk = first_chunk};
}

const struct kvh_attention_ops kvh_attention_chunked_local = {
	.search = search_chunked_local,
	.keep = kvh_keep_all,
};
