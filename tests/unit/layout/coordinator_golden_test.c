/* SPDX-License-Identifier: Apache-2.0 */
/* The coordinator answers every recorded case of the reference alike. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/size.h"
#include "layout/coordinator.h"
#include "unit/layout/recorded.h"

enum { HASHES_MAX = 256, LINES = 495, CASES = 2970 };

struct run {
	const json_t *line;
	const json_t *recorded; /* the case */
	const struct kvh_coordinator *coordinator;
	struct kvh_masks masks;
	bool present[KVH_GROUPS_MAX][HASHES_MAX];
	size_t line_count;
	size_t case_count;
};

static bool is_present(void *user, uint32_t group, uint64_t hash_index)
{
	const struct run *run = user;

	assert_true(hash_index < HASHES_MAX);
	return run->present[group][hash_index];
}

static uint64_t block_tokens(const struct run *run, size_t group)
{
	return recorded_number(json_array_get(recorded_member(run->line, "groups"), group),
	                       "block_size");
}

/* Where in the recordings something differs, for the message of a failed test. */
static void differs(const struct run *run, const char *what, size_t group, uint64_t chunk)
{
	char *text = json_dumps(run->recorded, JSON_COMPACT);

	fail_msg("%s: %s, group %zu, chunk %zu: %s", recorded_text(run->line, "name"), what, group,
	         (size_t)chunk, text);
}

/* expected: a list of 0 and 1 from first_chunk on, or null for all count chunks. */
static void check_mask(const struct run *run, const char *what, size_t group,
                       const json_t *expected, uint64_t first_chunk, uint64_t count)
{
	const struct kvh_mask *mask = &run->masks.group[group];

	if (!json_is_null(expected))
		count = json_array_size(expected);
	for (uint64_t index = 0; index < count; index++) {
		bool wanted = json_is_null(expected) ||
		              json_integer_value(json_array_get(expected, index)) != 0;

		if (kvh_mask_has(mask, first_chunk + index) != wanted)
			differs(run, what, group, first_chunk + index);
	}
	if (kvh_mask_has(mask, first_chunk + count) ||
	    mask->first_chunk + mask->count > first_chunk + count)
		differs(run, what, group, first_chunk + count);
}

static void check_masks(const struct run *run, const char *what, const json_t *expected,
                        uint64_t start_token)
{
	uint64_t token_count = recorded_number(run->recorded, "token_len");
	size_t group_count = json_array_size(recorded_member(run->line, "groups"));

	assert_int_equal(json_array_size(expected), group_count);
	for (size_t group = 0; group < group_count; group++) {
		uint64_t first = kvh_div_up(start_token, block_tokens(run, group));
		uint64_t end = token_count / block_tokens(run, group);

		check_mask(run, what, group, json_array_get(expected, group), first,
		           first < end ? end - first : 0);
	}
}

/* A hit mask ends where the hit ends, also when its last chunks are not needed. */
static void check_run_masks(const struct run *run, const char *what)
{
	const json_t *expected = recorded_member(run->recorded, what);

	check_masks(run, what, expected, 0);
	for (size_t group = 0; group < json_array_size(expected); group++) {
		const struct kvh_mask *mask = &run->masks.group[group];

		if (mask->first_chunk + mask->count !=
		    json_array_size(json_array_get(expected, group)))
			differs(run, what, group, mask->first_chunk + mask->count);
	}
}

static void check_hit(struct run *run, size_t hash_count, uint64_t token_count)
{
	const struct kvh_presence presence = {is_present, run};
	const json_t *exists = recorded_member(run->recorded, "exists");
	uint64_t hit_tokens = UINT64_MAX;

	memset(run->present, 0, sizeof(run->present));
	for (size_t index = 0; index < json_array_size(exists); index++) {
		const json_t *pair = json_array_get(exists, index);
		json_int_t hash_index = json_integer_value(json_array_get(pair, 1));

		assert_in_range(hash_index, 0, HASHES_MAX - 1);
		run->present[json_integer_value(json_array_get(pair, 0))][hash_index] = true;
	}
	assert_int_equal(kvh_coordinator_hit(run->coordinator, &presence, hash_count, token_count,
	                                     &hit_tokens, &run->masks),
	                 KVH_OK);
	if (hit_tokens != recorded_number(run->recorded, "hit_length"))
		differs(run, "hit_length", 0, hit_tokens);
	check_run_masks(run, "hit_masks");
}

static void check_store(struct run *run, uint64_t token_count)
{
	const json_t *store = recorded_member(run->recorded, "store");
	const json_t *prompt = recorded_member(store, "num_prompt_tokens");
	uint64_t start_token = recorded_number(store, "start_token");

	assert_int_equal(kvh_store_mask(run->coordinator, token_count, start_token,
	                                json_is_integer(prompt),
	                                (uint64_t)json_integer_value(prompt), &run->masks),
	                 KVH_OK);
	check_masks(run, "store", recorded_member(store, "masks"), start_token);
}

static void check_case(struct run *run, size_t hash_count)
{
	uint64_t token_count = recorded_number(run->recorded, "token_len");
	uint32_t align_tokens = kvh_coordinator_align_tokens(run->coordinator);

	assert_int_equal(kvh_round_down(recorded_number(run->recorded, "num_tokens"), align_tokens),
	                 recorded_number(run->recorded, "aligned_len"));
	check_hit(run, hash_count, token_count);
	assert_int_equal(kvh_load_mask(run->coordinator, hash_count, token_count, &run->masks),
	                 KVH_OK);
	check_run_masks(run, "load_masks");
	check_store(run, token_count);
	assert_int_equal(kvh_lookup_mask(run->coordinator, token_count, &run->masks), KVH_OK);
	check_masks(run, "lookup_masks", recorded_member(run->recorded, "lookup_masks"), 0);
	run->case_count++;
}

static void check_line(const json_t *line, void *user)
{
	struct run *run = user;
	const json_t *cases = recorded_member(line, "cases");
	struct kvh_coordinator *coordinator = recorded_coordinator(line);

	run->line = line;
	run->coordinator = coordinator;
	for (size_t index = 0; index < json_array_size(cases); index++) {
		run->recorded = json_array_get(cases, index);
		check_case(run, recorded_number(line, "num_hashes"));
	}
	run->line_count++;
	kvh_coordinator_destroy(coordinator);
}

/* proves: C-2, C-3, C-10, C-11, C-12, C-20, C-21, C-22, C-23, C-30, C-31, C-32, C-33, C-34, C-35,
 * C-36
 */
static void every_recorded_case_is_answered_alike(void **state)
{
	struct run run = {0};

	(void)state;
	recorded_each_line("coordinator.jsonl", check_line, &run);
	kvh_masks_fini(&run.masks);
	assert_int_equal(run.line_count, LINES);
	assert_int_equal(run.case_count, CASES);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_recorded_case_is_answered_alike),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
