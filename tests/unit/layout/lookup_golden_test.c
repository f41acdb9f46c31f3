/* SPDX-License-Identifier: Apache-2.0 */
/* Lookups ask for the recorded keys in the recorded order and find the recorded hits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "layout/keys.h"
#include "layout/lookup_plan.h"
#include "layout/shards.h"
#include "unit/layout/recorded.h"

enum { LINES = 207, CASES = 1242, NAME_SPACES_MAX = 8, GROUPS_MAX = 4, BATCH_KEYS = 7 };

struct run {
	const json_t *line;
	const json_t *recorded; /* the case */
	struct kvh_coordinator *coordinator;
	struct kvh_lookup_plan plan;
	struct kvh_prefix_text prefixes[GROUPS_MAX][NAME_SPACES_MAX];
	uint32_t name_space_counts[KVH_GROUPS_MAX];
	size_t line_count;
	size_t case_count;
};

static void differs(const struct run *run, const char *what)
{
	fail_msg("%s: %s, num_tokens %zu", recorded_text(run->line, "name"), what,
	         (size_t)recorded_number(run->recorded, "num_tokens"));
}

/* The recordings have no group with a factor, so a group with default heads stands for each. */
static void compose_prefixes(struct run *run)
{
	const struct kvh_group group = {.kind = KVH_ATTENTION_FULL};
	const struct kvh_worker_config config = {
		.tp_size = (uint32_t)recorded_number(run->line, "tp_size"),
		.pp_size = (uint32_t)recorded_number(run->line, "pp_size")};
	const json_t *expected = recorded_member(run->line, "lookup_key_prefixes");
	struct kvh_sharding sharding;

	assert_int_equal(kvh_sharding_choose(&config, &sharding, NULL, 0, NULL), KVH_OK);
	for (uint32_t index = 0; index < json_array_size(expected); index++) {
		const json_t *texts = json_array_get(expected, index);
		size_t count = kvh_key_ranks_count(&sharding, &config, &group);

		assert_int_equal(count, json_array_size(texts));
		run->name_space_counts[index] = (uint32_t)count;
		for (size_t space = 0; space < count; space++) {
			struct kvh_key_ranks ranks =
				kvh_key_ranks_at(&sharding, &config, &group, space);
			struct kvh_key_parts parts = {
				.cache_prefix = recorded_text(run->line, "cache_prefix"),
				.model = recorded_text(run->line, "model"),
				.name_space = sharding.name_space,
				.tp_rank = ranks.tp_rank,
				.pcp_rank = ranks.pcp_rank,
				.dcp_rank = ranks.dcp_rank,
				.pp_rank = ranks.pp_rank,
				.group = index};
			struct kvh_prefix_text *prefix = &run->prefixes[index][space];
			const char *text = json_string_value(json_array_get(texts, space));

			assert_int_equal(kvh_key_compose(&parts, prefix, NULL), KVH_OK);
			assert_int_equal(prefix->text_bytes, strlen(text) + 1);
			assert_memory_equal(prefix->text, text, strlen(text));
		}
	}
}

static bool store_has(const struct run *run, const char *key)
{
	const json_t *present = recorded_member(run->recorded, "present");

	for (size_t index = 0; index < json_array_size(present); index++) {
		if (strcmp(json_string_value(json_array_get(present, index)), key) == 0)
			return true;
	}
	return false;
}

static void key_text(const struct run *run, const struct kvh_lookup_candidate *candidate, char *out,
                     size_t out_bytes)
{
	const json_t *hashes = recorded_member(run->line, "block_hashes_hex");

	assert_in_range(candidate->hash_index, 0, json_array_size(hashes) - 1);
	snprintf(out, out_bytes, "%s%s",
	         run->prefixes[candidate->group][candidate->name_space].text,
	         json_string_value(json_array_get(hashes, candidate->hash_index)));
}

/* The recorded store is asked once, with everything. */
static void check_queried(const struct run *run)
{
	const json_t *calls = recorded_member(run->recorded, "queried_keys");
	const json_t *keys = json_array_get(calls, 0);
	struct kvh_lookup_cursor cursor = {0};
	struct kvh_lookup_candidate candidate;
	char key[KVH_PREFIX_TEXT_BYTES_MAX + 64];
	size_t count = 0;

	assert_int_equal(json_array_size(calls), run->plan.candidate_count ? 1 : 0);
	while (kvh_lookup_plan_next(&run->plan, &cursor, &candidate, 1)) {
		key_text(run, &candidate, key, sizeof(key));
		if (count >= json_array_size(keys) ||
		    strcmp(key, json_string_value(json_array_get(keys, count))) != 0)
			differs(run, key);
		count++;
	}
	assert_int_equal(count, json_array_size(keys));
	assert_int_equal(count, run->plan.candidate_count);
}

/* In small batches with answers in between, as a long lookup goes. */
static void answer_all(struct run *run)
{
	struct kvh_lookup_cursor cursor = {0};
	struct kvh_lookup_candidate batch[BATCH_KEYS];
	char key[KVH_PREFIX_TEXT_BYTES_MAX + 64];
	size_t count;

	while ((count = kvh_lookup_plan_next(&run->plan, &cursor, batch, BATCH_KEYS)) > 0) {
		for (size_t index = 0; index < count; index++) {
			key_text(run, &batch[index], key, sizeof(key));
			kvh_lookup_plan_answer(&run->plan, &batch[index], store_has(run, key));
		}
	}
}

static void check_result(struct run *run)
{
	const json_t *tails = recorded_member(run->recorded, "tail_key_boundaries");
	struct kvh_lookup_result result = {0};

	/* A store error is hit 0 without boundaries, whatever else was answered. */
	if (!recorded_bool(run->recorded, "store_raises"))
		kvh_lookup_plan_result(&run->plan, &result);
	if (result.hit_tokens != recorded_number(run->recorded, "hit_length"))
		differs(run, "hit_length");
	if (result.tail_key_count != json_array_size(tails))
		differs(run, "count of tail_key_boundaries");
	for (size_t index = 0; index < result.tail_key_count; index++) {
		const json_t *tail = json_array_get(tails, index);

		if (result.tail_keys[index].group !=
		            (uint64_t)json_integer_value(json_array_get(tail, 0)) ||
		    result.tail_keys[index].tokens !=
		            (uint64_t)json_integer_value(json_array_get(tail, 1)))
			differs(run, "tail_key_boundaries");
	}
}

static void check_line(const json_t *line, void *user)
{
	struct run *run = user;
	const json_t *cases = recorded_member(line, "cases");
	size_t hash_count = json_array_size(recorded_member(line, "block_hashes_hex"));

	run->line = line;
	run->coordinator = recorded_coordinator(line);
	compose_prefixes(run);
	for (size_t index = 0; index < json_array_size(cases); index++) {
		run->recorded = json_array_get(cases, index);
		assert_int_equal(kvh_lookup_plan_make(&run->plan, run->coordinator,
		                                      recorded_number(run->recorded, "num_tokens"),
		                                      hash_count, run->name_space_counts),
		                 KVH_OK);
		check_queried(run);
		answer_all(run);
		check_result(run);
		run->case_count++;
	}
	run->line_count++;
	kvh_coordinator_destroy(run->coordinator);
}

/* proves, C-40 */
static void every_recorded_lookup_is_answered_alike(void **state)
{
	struct run run = {0};

	(void)state;
	recorded_each_line("lookup.jsonl", check_line, &run);
	kvh_lookup_plan_fini(&run.plan);
	assert_int_equal(run.line_count, LINES);
	assert_int_equal(run.case_count, CASES);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_recorded_lookup_is_answered_alike),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
