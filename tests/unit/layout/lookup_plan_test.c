/* SPDX-License-Identifier: Apache-2.0 */
/* Lookup plans: what is asked, in which order, and what the answers mean. */
#include <string.h>

#include "base/fault.h"
#include "layout/lookup_plan.h"
#include "unit/layout/presence.h"

enum { CANDIDATES_MAX = 256 };

static void make_plan(struct kvh_lookup_plan *plan, const struct kvh_coordinator *coordinator,
                      uint64_t token_count, size_t hash_count, uint32_t name_spaces)
{
	uint32_t counts[KVH_GROUPS_MAX];

	for (size_t group = 0; group < KVH_GROUPS_MAX; group++)
		counts[group] = name_spaces;
	assert_int_equal(kvh_lookup_plan_make(plan, coordinator, token_count, hash_count, counts),
	                 KVH_OK);
}

static size_t list_all(const struct kvh_lookup_plan *plan, struct kvh_lookup_candidate *list)
{
	struct kvh_lookup_cursor cursor = {0};
	size_t count = kvh_lookup_plan_next(plan, &cursor, list, CANDIDATES_MAX);

	assert_int_equal(kvh_lookup_plan_next(plan, &cursor, list + count, CANDIDATES_MAX - count),
	                 0);
	assert_int_equal(count, plan->candidate_count);
	return count;
}

static uint64_t hit_after(const struct kvh_lookup_plan *plan)
{
	struct kvh_lookup_result result;

	kvh_lookup_plan_result(plan, &result);
	return result.hit_tokens;
}

/* proves: B10, R-40 */
static void a_chunk_that_one_rank_lacks_ends_the_hit(void **state)
{
	struct kvh_group group = full_of(16);
	struct kvh_coordinator_config config = {
		.groups = &group, .group_count = 1, .hash_tokens = 16};
	struct kvh_coordinator *coordinator = coordinator_of(&config);
	struct kvh_lookup_candidate list[CANDIDATES_MAX];
	struct kvh_lookup_plan plan = {0};
	size_t count;

	(void)state;
	/* Four ranks, four chunks of a longer prompt; chunk 2 is missing for rank 3 only. */
	make_plan(&plan, coordinator, 65, 4, 4);
	count = list_all(&plan, list);
	assert_int_equal(count, 16);
	for (size_t index = 0; index < count; index++) {
		assert_int_equal(list[index].hash_index, index / 4);
		assert_int_equal(list[index].name_space, index % 4);
		kvh_lookup_plan_answer(&plan, &list[index],
		                       list[index].hash_index != 2 || list[index].name_space != 3);
	}
	assert_int_equal(hit_after(&plan), 32);
	kvh_lookup_plan_fini(&plan);
	kvh_coordinator_destroy(coordinator);
}

/* proves: R-40 */
static void a_prompt_is_never_hit_whole(void **state)
{
	struct kvh_group group = full_of(8);
	struct kvh_coordinator_config config = {
		.groups = &group, .group_count = 1, .hash_tokens = 4};
	struct kvh_lookup_plan plan = {0};

	(void)state;
	for (int partial = 0; partial <= 1; partial++) {
		struct kvh_coordinator *coordinator;

		config.partial_hits = partial;
		coordinator = coordinator_of(&config);
		make_plan(&plan, coordinator, 16, 4, 1);
		assert_int_equal(hit_after(&plan), partial ? 12 : 8);
		make_plan(&plan, coordinator, 17, 4, 1);
		assert_int_equal(hit_after(&plan), 16);
		/* All that is asked for is less than one block of the prompt. */
		make_plan(&plan, coordinator, 8, 2, 1);
		assert_int_equal(hit_after(&plan), partial ? 4 : 0);
		kvh_coordinator_destroy(coordinator);
	}
	kvh_lookup_plan_fini(&plan);
}

/* proves: R-40 */
static void only_what_a_hit_can_end_at_is_asked_for(void **state)
{
	struct kvh_group groups[3] = {full_of(8), window_of(4, 5), full_of(4)};
	struct kvh_coordinator_config config = {
		.groups = groups, .group_count = 3, .hash_tokens = 2};
	struct kvh_coordinator *coordinator;
	struct kvh_lookup_candidate list[CANDIDATES_MAX];
	struct kvh_lookup_plan plan = {0};

	(void)state;
	groups[2].opts_out = true;
	coordinator = coordinator_of(&config);
	make_plan(&plan, coordinator, 20, 100, 1);
	/* Two chunks of 8 tokens by their last hash; of the window the chunk before each 8. */
	assert_int_equal(list_all(&plan, list), 4);
	assert_int_equal(list[0].hash_index, 3);
	assert_int_equal(list[1].hash_index, 7);
	assert_int_equal(list[2].group, 1);
	assert_int_equal(list[2].hash_index, 3);
	assert_int_equal(list[3].hash_index, 7);
	kvh_coordinator_destroy(coordinator);
	/* With partial hits every hash, up to those that there are. */
	config.partial_hits = true;
	coordinator = coordinator_of(&config);
	make_plan(&plan, coordinator, 20, 7, 1);
	assert_int_equal(list_all(&plan, list), 14);
	for (size_t index = 0; index < 14; index++)
		assert_int_equal(list[index].hash_index, index % 7);
	kvh_lookup_plan_fini(&plan);
	kvh_coordinator_destroy(coordinator);
}

/* proves: R-40 */
static void a_hash_known_to_be_absent_is_not_asked_for_again(void **state)
{
	struct kvh_group group = full_of(4);
	struct kvh_coordinator_config config = {
		.groups = &group, .group_count = 1, .hash_tokens = 4};
	struct kvh_coordinator *coordinator = coordinator_of(&config);
	struct kvh_lookup_cursor cursor = {0};
	struct kvh_lookup_candidate one;
	struct kvh_lookup_plan plan = {0};
	size_t asked = 0;

	(void)state;
	make_plan(&plan, coordinator, 13, 3, 3);
	/* Rank 1 of three lacks hash 1: rank 2 is not asked about it, but about hash 2 all are. */
	while (kvh_lookup_plan_next(&plan, &cursor, &one, 1)) {
		assert_false(one.hash_index == 1 && one.name_space == 2);
		kvh_lookup_plan_answer(&plan, &one, one.hash_index != 1 || one.name_space != 1);
		asked++;
	}
	assert_int_equal(asked, 8);
	assert_int_equal(plan.candidate_count, 9);
	assert_int_equal(hit_after(&plan), 4);
	kvh_lookup_plan_fini(&plan);
	kvh_coordinator_destroy(coordinator);
}

/* proves: R-40 */
static void too_few_tokens_or_hashes_ask_for_nothing(void **state)
{
	struct kvh_group group = full_of(8);
	struct kvh_coordinator_config config = {
		.groups = &group, .group_count = 1, .hash_tokens = 4};
	struct kvh_coordinator *coordinator = coordinator_of(&config);
	const uint64_t tokens[] = {0, 7, 100, UINT64_MAX};
	const size_t hashes[] = {100, 100, 1, 0};
	struct kvh_lookup_candidate list[CANDIDATES_MAX];
	struct kvh_lookup_plan plan = {0};

	(void)state;
	for (size_t index = 0; index < COUNT_OF(tokens); index++) {
		make_plan(&plan, coordinator, tokens[index], hashes[index], 2);
		assert_int_equal(list_all(&plan, list), 0);
		assert_int_equal(hit_after(&plan), 0);
	}
	kvh_lookup_plan_fini(&plan);
	kvh_coordinator_destroy(coordinator);
}

/* proves: R-40 */
static void a_plan_that_can_not_be_made_is_empty(void **state)
{
	struct kvh_group groups[2] = {full_of(4), window_of(4, 5)};
	struct kvh_coordinator_config config = {
		.groups = groups, .group_count = 2, .hash_tokens = 4, .lcm_tokens = 16};
	struct kvh_coordinator *coordinator = coordinator_of(&config);
	const uint32_t counts[2] = {1, 1};
	struct kvh_lookup_candidate list[CANDIDATES_MAX];
	struct kvh_lookup_plan plan = {0};

	(void)state;
	assert_int_equal(kvh_lookup_plan_make(&plan, coordinator, UINT64_MAX, SIZE_MAX, counts),
	                 KVH_INVALID_PARAMS);
	assert_int_equal(list_all(&plan, list), 0);
	assert_int_equal(hit_after(&plan), 0);
	/* Two allocations: the answers, and the window's mask. */
	for (uint64_t nth = 1; nth <= 2; nth++) {
		struct kvh_lookup_plan fresh = {0};

		assert_true(kvh_fault_arm_nth("base/alloc", nth, -1));
		assert_int_equal(kvh_lookup_plan_make(&fresh, coordinator, 64, 16, counts),
		                 KVH_NO_MEMORY);
		kvh_fault_disarm_all();
		assert_int_equal(list_all(&fresh, list), 0);
		assert_int_equal(hit_after(&fresh), 0);
		kvh_lookup_plan_fini(&fresh);
	}
	kvh_lookup_plan_fini(&plan);
	kvh_coordinator_destroy(coordinator);
}

/* proves: R-40 */
static void a_plan_used_again_allocates_only_to_grow(void **state)
{
	struct kvh_group groups[2] = {full_of(4), window_of(4, 5)};
	struct kvh_coordinator_config config = {
		.groups = groups, .group_count = 2, .hash_tokens = 4, .lcm_tokens = 16};
	struct kvh_coordinator *coordinator = coordinator_of(&config);
	struct kvh_lookup_plan plan = {0};

	(void)state;
	make_plan(&plan, coordinator, 64, 16, 1);
	assert_true(kvh_fault_arm_nth("base/alloc", 1, -1));
	make_plan(&plan, coordinator, 64, 16, 1);
	make_plan(&plan, coordinator, 32, 16, 4);
	kvh_fault_disarm_all();
	kvh_lookup_plan_fini(&plan);
	kvh_coordinator_destroy(coordinator);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_chunk_that_one_rank_lacks_ends_the_hit),
		cmocka_unit_test(a_prompt_is_never_hit_whole),
		cmocka_unit_test(only_what_a_hit_can_end_at_is_asked_for),
		cmocka_unit_test(a_hash_known_to_be_absent_is_not_asked_for_again),
		cmocka_unit_test(too_few_tokens_or_hashes_ask_for_nothing),
		cmocka_unit_test(a_plan_that_can_not_be_made_is_empty),
		cmocka_unit_test(a_plan_used_again_allocates_only_to_grow),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
