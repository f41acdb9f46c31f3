/* SPDX-License-Identifier: Apache-2.0 */
/* The runtime's pure functions behind the judge's interface. */
#include <stdlib.h>
#include <string.h>

#include "replay.h"

#include "layout/chunks.h"
#include "layout/coordinator.h"
#include "layout/keys.h"
#include "layout/lookup_plan.h"
#include "worker/batch.h"
#include "worker/staging.h"

/* A recording that the runtime can't even be set up for is a failure of the whole run. */
static void must(bool condition)
{
	if (!condition)
		abort();
}

static char *compose(struct arena *arena, const struct pure_key *in, struct kvh_prefix_text *text)
{
	char *model = arena_text(arena, "%s", in->model);
	const struct kvh_key_parts parts = {.cache_prefix = in->cache_prefix,
	                                    .model = model,
	                                    .name_space = in->store_namespace,
	                                    .tp_rank = (uint32_t)in->tp_rank,
	                                    .pcp_rank = (uint32_t)in->pcp_rank,
	                                    .dcp_rank = (uint32_t)in->dcp_rank,
	                                    .pp_rank = (uint32_t)in->pp_rank,
	                                    .group = (uint32_t)in->group};

	/* The recordings give the model as it stands in keys; a slash would cut it. */
	for (char *c = model; *c; c++)
		if (*c == '/')
			*c = '|';
	must(kvh_key_compose(&parts, text, NULL) == KVH_OK);
	return model;
}

static char *with_slashes(char *text)
{
	for (char *c = text; *c; c++)
		if (*c == '|')
			*c = '/';
	return text;
}

static char *key(struct arena *arena, const struct pure_key *in)
{
	struct kvh_prefix_text text;

	compose(arena, in, &text);
	return with_slashes(arena_text(arena, "%s%s", text.text, in->hash));
}

static char *group_id(struct arena *arena, const struct pure_key *in)
{
	struct kvh_prefix_text text;
	uint8_t hash[64];
	size_t bytes = strlen(in->hash) / 2;
	char out[1024];

	compose(arena, in, &text);
	must(bytes <= sizeof(hash));
	for (size_t i = 0; i < bytes; i++) {
		const char digits[] = {in->hash[2 * i], in->hash[2 * i + 1], 0};

		hash[i] = (uint8_t)strtoul(digits, NULL, 16);
	}
	must(kvh_group_id_text(text.text, text.family_bytes, hash, bytes, out, sizeof(out)) ==
	     KVH_OK);
	return with_slashes(arena_text(arena, "%s", out));
}

static void process_tokens(struct arena *arena, const struct pure_chunks *in, struct ints *out)
{
	uint32_t bs = (uint32_t)in->block_size;
	uint64_t first = kvh_div_up((uint64_t)in->first_token, bs);
	uint64_t end = kvh_chunk_count((uint64_t)in->token_len, bs);

	for (uint64_t c = first; c < end; c++) {
		struct kvh_chunk chunk =
			kvh_chunk_at(c, bs, (uint32_t)in->hash_block_size, (uint64_t)in->token_len);
		bool masked = in->chunk_mask && (c - first >= strlen(in->chunk_mask) ||
		                                 in->chunk_mask[c - first] != '1');

		/* Here the phase is given; kvh_chunk_is_mine adds rank and group up to it. */
		if (masked || chunk.hash_index >= (uint64_t)in->hash_count ||
		    !kvh_chunk_is_mine(c, (uint32_t)in->put_step, (uint32_t)in->put_step_rank, 0))
			continue;
		ints_push(arena, out, (int64_t)chunk.start_token);
		ints_push(arena, out, (int64_t)chunk.end_token);
		ints_push(arena, out, (int64_t)chunk.hash_index);
	}
}

/* ---- coordinator ----------------------------------------------------------------------- */

static enum kvh_attention attention(enum group_kind kind)
{
	static const enum kvh_attention kinds[] = {
		[GROUP_FULL] = KVH_ATTENTION_FULL,
		[GROUP_SLIDING_WINDOW] = KVH_ATTENTION_SLIDING_WINDOW,
		[GROUP_MAMBA] = KVH_ATTENTION_MAMBA,
		[GROUP_CHUNKED_LOCAL] = KVH_ATTENTION_CHUNKED_LOCAL};

	return kinds[kind];
}

static struct kvh_coordinator *coordinator(const struct pure_setup *setup)
{
	struct kvh_group groups[TRACE_MAX_GROUPS];
	const struct kvh_coordinator_config config = {
		.groups = groups,
		.group_count = setup->group_count,
		.hash_tokens = (uint32_t)setup->hash_block_size,
		.lcm_tokens = (uint32_t)setup->lcm_block_size,
		.partial_hits = setup->partial_hash_hits,
		.use_eagle = setup->use_eagle,
		.has_retention = setup->has_retention,
		.retention_tokens = (uint32_t)setup->retention_interval};
	struct kvh_coordinator *out;

	for (size_t g = 0; g < setup->group_count; g++)
		groups[g] =
			(struct kvh_group){.kind = attention(setup->groups[g].kind),
		                           .block_tokens = (uint32_t)setup->groups[g].block_size,
		                           .window_tokens = (uint32_t)setup->groups[g].window,
		                           .eagle = setup->groups[g].eagle,
		                           .opts_out = !setup->groups[g].participates};
	must(kvh_coordinator_create(&config, &out, NULL) == KVH_OK);
	return out;
}

/* first: the chunk that character 0 stands for. NULL stands for all ones. */
static void mask_text(struct arena *arena, const struct kvh_mask *mask, uint64_t first,
                      bool none_is_all, const char **out)
{
	uint64_t end = mask->first_chunk + mask->count;
	size_t count = end > first ? (size_t)(end - first) : 0;
	char *text;

	if (none_is_all && mask->all) {
		*out = NULL;
		return;
	}
	text = arena_take(arena, count + 1, 1);
	for (size_t i = 0; i < count; i++)
		text[i] = kvh_mask_has(mask, first + i) ? '1' : '0';
	*out = text;
}

/* Mamba groups of a store mask are all false, over as many chunks as the others would have. */
static void zero_text(struct arena *arena, uint64_t first, uint64_t end, const char **out)
{
	size_t count = end > first ? (size_t)(end - first) : 0;
	char *text = arena_take(arena, count + 1, 1);

	memset(text, '0', count);
	*out = text;
}

static bool store_mask(struct arena *arena, const struct pure_setup *setup,
                       const struct pure_store_mask *in, struct pure_masks *out)
{
	struct kvh_coordinator *c = coordinator(setup);
	struct kvh_masks masks = {0};
	kvh_status status = kvh_store_mask(c, (uint64_t)in->token_len, (uint64_t)in->start,
	                                   in->has_prompt, (uint64_t)in->prompt, &masks);

	for (size_t g = 0; g < setup->group_count && !status; g++) {
		uint64_t bs = (uint64_t)setup->groups[g].block_size;
		uint64_t first = kvh_div_up((uint64_t)in->start, bs);

		if (setup->groups[g].kind == GROUP_MAMBA)
			zero_text(arena, first, (uint64_t)in->token_len / bs, &out->by_group[g]);
		else
			mask_text(arena, &masks.group[g], first, true, &out->by_group[g]);
	}
	kvh_masks_fini(&masks);
	kvh_coordinator_destroy(c);
	return !status;
}

static bool load_mask(struct arena *arena, const struct pure_setup *setup, size_t hash_count,
                      int64_t token_len, struct pure_masks *out)
{
	struct kvh_coordinator *c = coordinator(setup);
	struct kvh_masks masks = {0};
	kvh_status status = kvh_load_mask(c, hash_count, (uint64_t)token_len, &masks);

	for (size_t g = 0; g < setup->group_count && !status; g++)
		mask_text(arena, &masks.group[g], 0, false, &out->by_group[g]);
	kvh_masks_fini(&masks);
	kvh_coordinator_destroy(c);
	return !status;
}

static bool lookup_mask(struct arena *arena, const struct pure_setup *setup, int64_t token_len,
                        struct pure_masks *out)
{
	struct kvh_coordinator *c = coordinator(setup);
	struct kvh_masks masks = {0};
	kvh_status status = kvh_lookup_mask(c, (uint64_t)token_len, &masks);

	for (size_t g = 0; g < setup->group_count && !status; g++)
		mask_text(arena, &masks.group[g], 0, true, &out->by_group[g]);
	kvh_masks_fini(&masks);
	kvh_coordinator_destroy(c);
	return !status;
}

static bool is_present(void *user, uint32_t group, uint64_t hash_index)
{
	const struct pure_present *present = user;

	return !present->by_group[group] || present->by_group[group][hash_index];
}

static void find_hit(struct arena *arena, const struct pure_setup *setup,
                     const struct pure_present *present, int64_t max_len, struct pure_hit *out)
{
	struct kvh_coordinator *c = coordinator(setup);
	struct pure_present copy = *present;
	const struct kvh_presence presence = {.present = is_present, .user = &copy};
	struct kvh_masks masks = {0};
	uint64_t hit;

	must(kvh_coordinator_hit(c, &presence, present->hash_count, (uint64_t)max_len, &hit,
	                         &masks) == KVH_OK);
	out->tokens = (int64_t)hit;
	for (size_t g = 0; g < setup->group_count; g++)
		mask_text(arena, &masks.group[g], 0, false, &out->needed.by_group[g]);
	kvh_masks_fini(&masks);
	kvh_coordinator_destroy(c);
}

/* ---- staging and rotation -------------------------------------------------------------- */

static int64_t staging_bytes(const struct ints *segment_bytes)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < segment_bytes->count; i++)
		sum += (uint64_t)segment_bytes->at[i];
	return (int64_t)kvh_staging_bytes(sum);
}

static int64_t usable_budget(int64_t raw_bytes, double ratio)
{
	return (int64_t)kvh_staging_usable((uint64_t)raw_bytes, ratio);
}

/* kvh_staging_take asks for value bytes; the recordings list what staging makes of them. */
static uint64_t value_of(const void *user, size_t index)
{
	const struct ints *staging = user;

	return (uint64_t)staging->at[index] - 8192;
}

static void split(struct arena *arena, const struct ints *staging, int64_t usable_bytes,
                  int64_t raw_bytes, struct pure_split *out)
{
	size_t first = 0;
	size_t room = 0;

	*out = (struct pure_split){.oversized = -1};
	for (size_t i = 0; i < staging->count && out->oversized < 0; i++)
		if (staging->at[i] > raw_bytes)
			out->oversized = (int64_t)i;
	while (first < staging->count && out->oversized < 0) {
		size_t count = kvh_staging_take(value_of, staging, first, staging->count,
		                                (uint64_t)usable_bytes);

		out->batches = arena_grow(arena, out->batches, out->batch_count, &room,
		                          sizeof(*out->batches));
		out->batches[out->batch_count] = (struct ints){0};
		for (size_t i = 0; i < count; i++)
			ints_push(arena, &out->batches[out->batch_count], (int64_t)(first + i));
		out->batch_count++;
		first += count;
	}
}

static void rotate(struct arena *arena, size_t count, int64_t rank, struct ints *out)
{
	struct worker_batch batch = {0};

	must(kvh_batch_reserve(&batch, count) == KVH_OK);
	for (size_t i = 0; i < count; i++) {
		size_t k = kvh_batch_next(&batch);

		batch.keys[k] = (struct kvh_key){0};
		batch.values[k] = (struct kvh_value){0};
		batch.items[k] = (struct batch_item){.chunk = i};
	}
	if (count)
		kvh_batch_rotate(&batch, (size_t)rank % count);
	for (size_t i = 0; i < count; i++)
		ints_push(arena, out, (int64_t)batch.items[i].chunk);
	kvh_batch_fini(&batch);
}

const struct pure_ops *golden_runtime_pure_ops(void)
{
	static const struct pure_ops ops = {.name = "runtime",
	                                    .key = key,
	                                    .group_id = group_id,
	                                    .process_tokens = process_tokens,
	                                    .store_mask = store_mask,
	                                    .load_mask = load_mask,
	                                    .lookup_mask = lookup_mask,
	                                    .find_hit = find_hit,
	                                    .staging_bytes = staging_bytes,
	                                    .usable_budget = usable_budget,
	                                    .split = split,
	                                    .rotate = rotate};

	return &ops;
}
