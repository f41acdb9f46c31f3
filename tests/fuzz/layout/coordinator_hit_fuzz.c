/* SPDX-License-Identifier: Apache-2.0 */
/* The coordinator with any configuration: refused, or every answer keeps its promises. */
#include "fuzz/fuzz.h"

#include "base/check.h"
#include "base/size.h"
#include "layout/lookup_plan.h"

enum { GROUPS = 4, HASHES = 64 };

/* The input, eaten from the front; zeros when it is used up. */
struct input {
	const uint8_t *data;
	size_t bytes;
	uint8_t store[GROUPS][HASHES];
};

static uint64_t take(struct input *input, size_t bytes)
{
	uint64_t value = 0;

	for (; bytes && input->bytes; bytes--, input->bytes--)
		value = value << 8 | *input->data++;
	return value;
}

/* Mostly small and related numbers, sometimes any. */
static uint32_t take_tokens(struct input *input)
{
	uint8_t how = (uint8_t)take(input, 1);

	return how >= 240 ? (uint32_t)take(input, 4) : (uint32_t)(how % 3 + 1) << how / 3 % 5;
}

static struct kvh_group take_group(struct input *input)
{
	uint8_t flags = (uint8_t)take(input, 1);
	struct kvh_group group = {.kind = (enum kvh_attention)(flags % 4 + 1),
	                          .eagle = flags >> 2 & 1,
	                          .opts_out = (flags >> 3 & 7) == 7};

	group.block_tokens = take_tokens(input);
	group.window_tokens = take_tokens(input);
	return group;
}

static bool has(void *user, uint32_t group, uint64_t hash_index)
{
	const struct input *input = user;

	KVH_CHECK(group < GROUPS && hash_index < HASHES);
	return input->store[group][hash_index] & 1;
}

/* C-20, C-23: on the grid, within the limit, nothing needed beyond the hit. */
static void check_hit(const struct kvh_coordinator *coordinator, struct input *input,
                      uint64_t max_tokens)
{
	const struct kvh_presence presence = {has, input};
	struct kvh_masks masks = {0};
	uint64_t hit_tokens = UINT64_MAX;

	KVH_CHECK(kvh_coordinator_hit(coordinator, &presence, HASHES, max_tokens, &hit_tokens,
	                              &masks) == KVH_OK);
	KVH_CHECK(hit_tokens <= max_tokens);
	KVH_CHECK(hit_tokens % kvh_coordinator_align_tokens(coordinator) == 0);
	for (uint32_t group = 0; group < GROUPS; group++)
		KVH_CHECK(masks.group[group].first_chunk + masks.group[group].count <= hit_tokens);
	kvh_load_mask(coordinator, HASHES, max_tokens, &masks);
	KVH_CHECK(masks.memory == NULL);
}

static void check_masks(const struct kvh_coordinator *coordinator, struct input *input)
{
	const uint64_t token_count =
		(uint64_t)kvh_coordinator_align_tokens(coordinator) * (take(input, 1) % HASHES);
	struct kvh_masks masks = {0};
	uint64_t start_token = take(input, 2);
	uint64_t replay_tokens = take(input, 2);
	/* A mask has a byte a chunk: bounded here, so that the fuzzer stays quick. */
	bool small = token_count <= 1 << 20;

	if (small && kvh_store_mask(coordinator, token_count, start_token, replay_tokens & 1,
	                            replay_tokens, &masks) == KVH_OK) {
		for (uint32_t group = 0; group < GROUPS; group++)
			KVH_CHECK(!kvh_mask_has(&masks.group[group], token_count));
	}
	kvh_masks_fini(&masks);
}

static void check_lookup(const struct kvh_coordinator *coordinator, struct input *input,
                         uint64_t token_count)
{
	const uint32_t counts[GROUPS] = {1, 2, 3, 1};
	struct kvh_lookup_cursor cursor = {0};
	struct kvh_lookup_candidate candidate;
	struct kvh_lookup_plan plan = {0};
	struct kvh_lookup_result result;

	KVH_CHECK(kvh_lookup_plan_make(&plan, coordinator, token_count, HASHES, counts) == KVH_OK);
	while (kvh_lookup_plan_next(&plan, &cursor, &candidate, 1))
		kvh_lookup_plan_answer(&plan, &candidate,
		                       has(input, candidate.group, candidate.hash_index));
	kvh_lookup_plan_result(&plan, &result);
	KVH_CHECK(result.hit_tokens < token_count || result.hit_tokens == 0);
	KVH_CHECK(result.tail_key_count <= GROUPS);
	kvh_lookup_plan_fini(&plan);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct input input = {.data = data, .bytes = bytes};
	struct kvh_group groups[GROUPS];
	uint8_t flags = (uint8_t)take(&input, 1);
	struct kvh_coordinator_config config = {.groups = groups,
	                                        .group_count = flags % GROUPS + 1,
	                                        .partial_hits = flags >> 2 & 1,
	                                        .use_eagle = flags >> 3 & 1,
	                                        .has_retention = flags >> 4 & 1};
	struct kvh_coordinator *coordinator = NULL;
	uint64_t max_tokens;

	config.hash_tokens = take_tokens(&input);
	config.lcm_tokens = flags >> 5 & 1 ? take_tokens(&input) : 0;
	config.retention_tokens = flags >> 6 & 1 ? take_tokens(&input) : 0;
	for (size_t group = 0; group < GROUPS; group++)
		groups[group] = take_group(&input);
	if (kvh_coordinator_create(&config, &coordinator, NULL) != KVH_OK)
		return 0;
	max_tokens = take(&input, flags >> 7 ? 8 : 1);
	check_masks(coordinator, &input);
	for (size_t index = 0; index < sizeof(input.store); index++)
		input.store[index / HASHES][index % HASHES] = (uint8_t)take(&input, 1);
	check_hit(coordinator, &input, max_tokens);
	check_lookup(coordinator, &input, max_tokens);
	kvh_coordinator_destroy(coordinator);
	return 0;
}
