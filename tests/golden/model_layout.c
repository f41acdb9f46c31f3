/* SPDX-License-Identifier: Apache-2.0 */
/* The model's keys (R-1, R-3), chunks, staging budget (R-33) and rotation (R-32). */
#include "model_pure.h"

#include <string.h>

#define STAGING_UNIT_BYTES     4096
#define STAGING_OVERHEAD_BYTES 8192

static const char *prefix_mark(const struct pure_key *key)
{
	return key->cache_prefix[0] == '\0' ? "" : "@";
}

char *model_key(struct arena *arena, const struct pure_key *key)
{
	return arena_text(arena, "%s%s%s%s@tp_rank:%lld@pcp%lld@dcp%lld@pp_rank:%lld@group:%lld@%s",
	                  key->cache_prefix, prefix_mark(key), key->model, key->store_namespace,
	                  (long long)key->tp_rank, (long long)key->pcp_rank,
	                  (long long)key->dcp_rank, (long long)key->pp_rank, (long long)key->group,
	                  key->hash);
}

char *model_group_id(struct arena *arena, const struct pure_key *key)
{
	return arena_text(arena, "vllm-mooncake-store:%s%s%s%s@%s", key->cache_prefix,
	                  prefix_mark(key), key->model, key->store_namespace, key->hash);
}

void model_process_tokens(struct arena *arena, const struct pure_chunks *in, struct ints *out)
{
	int64_t bs = in->block_size;
	int64_t first = ceil_div(in->first_token, bs);
	int64_t mask_count = in->chunk_mask == NULL ? 0 : (int64_t)strlen(in->chunk_mask);

	for (int64_t i = first; i * bs < in->token_len; i++) {
		int64_t end = (i + 1) * bs < in->token_len ? (i + 1) * bs : in->token_len;

		if (i % in->put_step != in->put_step_rank)
			continue;
		if (in->chunk_mask != NULL &&
		    (i - first >= mask_count || in->chunk_mask[i - first] != '1'))
			continue;
		ints_push(arena, out, i * bs);
		ints_push(arena, out, end);
		ints_push(arena, out, end / in->hash_block_size - 1);
	}
}

int64_t model_staging_bytes(const struct ints *segment_bytes)
{
	int64_t bytes = 0;

	for (size_t i = 0; i < segment_bytes->count; i++)
		bytes += segment_bytes->at[i];
	return ceil_div(bytes, STAGING_UNIT_BYTES) * STAGING_UNIT_BYTES + STAGING_OVERHEAD_BYTES;
}

int64_t model_usable_budget(int64_t raw_bytes, double ratio)
{
	int64_t usable = (int64_t)((double)raw_bytes * ratio);

	return usable < 1 ? 1 : usable;
}

void model_split(struct arena *arena, const struct ints *staging_bytes, int64_t usable_bytes,
                 int64_t raw_bytes, struct pure_split *out)
{
	int64_t filled = 0;

	*out = (struct pure_split){.oversized = -1};
	for (size_t i = 0; i < staging_bytes->count && out->oversized < 0; i++)
		if (staging_bytes->at[i] > raw_bytes)
			out->oversized = (int64_t)i;
	if (out->oversized >= 0)
		return;
	out->batches = arena_take(arena, staging_bytes->count + 1, sizeof(*out->batches));
	for (size_t i = 0; i < staging_bytes->count; i++) {
		int64_t bytes = staging_bytes->at[i];

		if (out->batch_count == 0 || filled + bytes > usable_bytes) {
			out->batch_count++;
			filled = 0;
		}
		ints_push(arena, &out->batches[out->batch_count - 1], (int64_t)i);
		filled += bytes;
	}
}

void model_rotate(struct arena *arena, size_t count, int64_t rank, struct ints *out)
{
	for (size_t i = 0; i < count; i++)
		ints_push(arena, out, (int64_t)((i + (size_t)rank % count) % count));
}

const struct pure_ops *model_pure_ops(void)
{
	static const struct pure_ops ops = {
		.name = "model",
		.key = model_key,
		.group_id = model_group_id,
		.process_tokens = model_process_tokens,
		.store_mask = model_store_mask,
		.load_mask = model_load_mask,
		.lookup_mask = model_lookup_mask,
		.find_hit = model_find_hit,
		.staging_bytes = model_staging_bytes,
		.usable_budget = model_usable_budget,
		.split = model_split,
		.rotate = model_rotate,
		.lookup = model_lookup,
	};

	return &ops;
}
