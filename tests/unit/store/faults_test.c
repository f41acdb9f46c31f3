/* SPDX-License-Identifier: Apache-2.0 */
/* The fault points of the front door. */
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "scripted.h"

enum { COUNT = 4 };

/* Four keys, hashes "k0......" to "k3......", in one batch. */
struct four {
	uint8_t hash[COUNT][8];
	struct kvh_key keys[COUNT];
	struct kvh_value values[COUNT];
	struct kvh_result results[COUNT];
	struct kvh_token tokens[COUNT];
	struct kvh_batch batch;
};

static void make_four(struct scripted *scripted, struct four *four)
{
	memset(four, 0, sizeof(*four));
	for (size_t i = 0; i < COUNT; i++) {
		memcpy(four->hash[i], "k.......", 8);
		four->hash[i][1] = (uint8_t)('0' + i);
		four->keys[i] = (struct kvh_key){four->hash[i], 8, scripted->prefix_id};
		four->values[i] = scripted->value_of_key;
	}
	four->batch = (struct kvh_batch){COUNT, four->keys, four->values, four->results};
}

/* Fires at one point, for one key (by its text) or for each. */
struct rule {
	enum kvh_fault_point point;
	const char *key; /* NULL: each */
	int64_t number;
};

static bool follow_rule(void *user, enum kvh_fault_point point, const void *key, size_t key_bytes,
                        int64_t *number)
{
	const struct rule *rule = user;

	if (point != rule->point || (rule->key && (strlen(rule->key) != key_bytes ||
	                                           memcmp(rule->key, key, key_bytes) != 0)))
		return false;
	*number = rule->number;
	return true;
}

static void arm(struct rule *rule)
{
	assert_true(kvh_fault_arm(follow_rule, rule));
}

static int disarm_teardown(void **state)
{
	kvh_fault_disarm_all();
	return scripted_teardown(state);
}

#define fault_test(fn) cmocka_unit_test_setup_teardown(fn, scripted_setup, disarm_teardown)

/* "s@0@" and "k2......" in hex. */
#define KEY_2_TEXT "s@0@6b322e2e2e2e2e2e"

/* proves: B43 */
static void a_whole_call_can_fail_before_anything_is_done(void **state)
{
	static const char *const points[] = {
		"store/exists",       "store/put",     "store/get",      "store/remove",
		"store/commit",       "store/abort",   "store/clear",    "store/tiers",
		"store/take_evicted", "store/quiesce", "store/register", "store/unregister",
		"store/prefix",       "store/list",
	};
	struct scripted *scripted = *state;
	struct kvh_store *store = scripted->store;
	const struct kvh_prefix prefix = {
		.struct_bytes = sizeof(prefix), .text = "z@", .text_bytes = 2};
	uint8_t hashes[KVH_KEY_HASH_BYTES_MAX];
	struct kvh_listed object;
	const struct kvh_list list = {.struct_bytes = sizeof(list),
	                              .objects = &object,
	                              .capacity = 1,
	                              .hashes = hashes,
	                              .hashes_bytes = sizeof(hashes)};
	uint64_t cursor = 0;
	struct kvh_evicted_key evicted;
	struct kvh_token token;
	enum kvh_tier tier;
	kvh_region_id region;
	unsigned char memory[8];
	uint32_t id;
	size_t count;
	bool lost;

	for (size_t i = 0; i < COUNT_OF(points); i++) {
		kvh_status status[COUNT_OF(points)];

		assert_true(kvh_fault_arm_nth(points[i], 1, -4242));
		status[0] = kvh_store_exists(store, &scripted->batch, 0, NULL);
		status[1] = kvh_store_put(store, &scripted->batch, NULL, NULL);
		status[2] = kvh_store_get(store, &scripted->batch, NULL);
		status[3] = kvh_store_remove(store, &scripted->batch, NULL);
		status[4] = kvh_store_commit(store, &token, 1, &scripted->result);
		status[5] = kvh_store_abort(store, &token, 1, &scripted->result);
		status[6] = kvh_store_clear(store, NULL, NULL);
		status[7] = kvh_store_tiers(store, &scripted->key, 1, &tier, NULL);
		status[8] = kvh_store_take_evicted(store, &evicted, 1, &count, &lost);
		status[9] = kvh_store_quiesce(store, 0);
		status[10] = kvh_store_register(store, memory, 8, 1, &region, NULL);
		status[12] = kvh_store_prefix(store, &prefix, &id, NULL);
		status[13] = kvh_store_list(store, &list, &cursor, &count, NULL);
		if (status[10])
			assert_int_equal(kvh_store_register(store, memory, 8, 1, &region, NULL),
			                 KVH_OK);
		status[11] = kvh_store_unregister(store, region, 0);
		kvh_fault_disarm_all();
		if (status[11])
			assert_int_equal(kvh_store_unregister(store, region, 0), KVH_OK);
		for (size_t k = 0; k < COUNT_OF(points); k++)
			assert_int_equal(status[k] == -4242, k == i);
		/* The scripted backend gives a new id each time: start where the front door is. */
		scripted->next_prefix_id = status[12] ? scripted->next_prefix_id : id;
	}
}

/* proves: B43, B14 */
static void one_key_of_a_put_can_fail_and_is_not_put(void **state)
{
	struct scripted *scripted = *state;
	struct rule rule = {KVH_FAULT_STORE_PUT_KEY, KEY_2_TEXT, KVH_TRANSFER_FAIL};
	struct four four;
	const struct kvh_put_options options = {
		.struct_bytes = sizeof(options), .flags = KVH_PUT_HOLD, .tokens = four.tokens};

	make_four(scripted, &four);
	scripted->value = 0;
	arm(&rule);
	assert_int_equal(kvh_store_put(scripted->store, &four.batch, &options, NULL), KVH_OK);
	assert_int_equal(scripted->last_count, COUNT - 1);
	assert_ptr_not_equal(scripted->last_put.tokens, four.tokens);
	for (size_t i = 0; i < COUNT; i++) {
		assert_int_equal(four.results[i].value, i == 2 ? KVH_TRANSFER_FAIL : 0);
		assert_int_equal(four.results[i].flags, KVH_RESULT_QUIET);
	}
	assert_int_equal(kvh_fault_fired(KVH_FAULT_STORE_PUT_KEY), 1);
}

/* proves: B43, B06 */
static void one_answer_can_be_lost(void **state)
{
	struct scripted *scripted = *state;
	struct rule rule = {KVH_FAULT_STORE_GET_ANSWER, KEY_2_TEXT, KVH_NO_ANSWER};
	struct four four;

	make_four(scripted, &four);
	scripted->value = 64;
	arm(&rule);
	assert_int_equal(kvh_store_get(scripted->store, &four.batch, NULL), KVH_OK);
	assert_int_equal(scripted->last_count, COUNT);
	for (size_t i = 0; i < COUNT; i++)
		assert_int_equal(four.results[i].value, i == 2 ? KVH_NO_ANSWER : 64);
	/* A get of fewer bytes than asked (D-4). */
	rule.number = 63;
	assert_int_equal(kvh_store_get(scripted->store, &four.batch, NULL), KVH_OK);
	assert_int_equal(four.results[2].value, 63);
}

/* proves: B43, D-23 */
static void a_key_in_doubt_is_not_quiet(void **state)
{
	struct scripted *scripted = *state;
	struct rule rule = {KVH_FAULT_STORE_GET_ANSWER, KEY_2_TEXT, KVH_IN_DOUBT};
	struct kvh_store_stats stats = {.struct_bytes = sizeof(stats)};
	struct four four;

	make_four(scripted, &four);
	arm(&rule);
	assert_int_equal(kvh_store_get(scripted->store, &four.batch, NULL), KVH_OK);
	for (size_t i = 0; i < COUNT; i++)
		assert_int_equal(four.results[i].flags, i == 2 ? 0 : KVH_RESULT_QUIET);
	assert_int_equal(kvh_store_get_stats(scripted->store, &stats), KVH_OK);
	assert_int_equal(stats.unquiet_keys, 1);
}

/* proves: B43 */
static void when_every_key_fails_the_backend_is_not_called(void **state)
{
	static const enum kvh_fault_point points[] = {
		KVH_FAULT_STORE_EXISTS_KEY, KVH_FAULT_STORE_PUT_KEY, KVH_FAULT_STORE_GET_KEY,
		KVH_FAULT_STORE_REMOVE_KEY};
	struct scripted *scripted = *state;
	struct four four;

	make_four(scripted, &four);
	for (size_t i = 0; i < COUNT_OF(points); i++) {
		struct rule rule = {points[i], NULL, KVH_RPC_FAIL};
		kvh_status status;

		arm(&rule);
		if (i == 0)
			status = kvh_store_exists(scripted->store, &four.batch, 0, NULL);
		else if (i == 1)
			status = kvh_store_put(scripted->store, &four.batch, NULL, NULL);
		else if (i == 2)
			status = kvh_store_get(scripted->store, &four.batch, NULL);
		else
			status = kvh_store_remove(scripted->store, &four.batch, NULL);
		assert_int_equal(status, KVH_OK);
		for (size_t k = 0; k < COUNT; k++)
			assert_int_equal(four.results[k].value, KVH_RPC_FAIL);
	}
	assert_int_equal(scripted_calls(scripted), 0);
}

/* proves: B43 */
static void an_answer_can_be_replaced_though_the_backend_did_its_work(void **state)
{
	static const enum kvh_fault_point points[] = {KVH_FAULT_STORE_EXISTS_ANSWER,
	                                              KVH_FAULT_STORE_PUT_ANSWER,
	                                              KVH_FAULT_STORE_REMOVE_ANSWER};
	struct scripted *scripted = *state;
	struct four four;

	make_four(scripted, &four);
	scripted->value = 0;
	for (size_t i = 0; i < COUNT_OF(points); i++) {
		struct rule rule = {points[i], KEY_2_TEXT, KVH_RPC_TIMEOUT};
		kvh_status status;

		arm(&rule);
		if (i == 0)
			status = kvh_store_exists(scripted->store, &four.batch, 0, NULL);
		else if (i == 1)
			status = kvh_store_put(scripted->store, &four.batch, NULL, NULL);
		else
			status = kvh_store_remove(scripted->store, &four.batch, NULL);
		assert_int_equal(status, KVH_OK);
		assert_int_equal(scripted->last_count, COUNT);
		for (size_t k = 0; k < COUNT; k++)
			assert_int_equal(four.results[k].value, k == 2 ? KVH_RPC_TIMEOUT : 0);
	}
}

/* proves: T4 */
static void no_memory_behind_a_fault_point_fails_the_call(void **state)
{
	struct scripted *scripted = *state;
	struct four four;

	make_four(scripted, &four);
	assert_true(kvh_fault_arm_nth("base/alloc", 2, KVH_NO_MEMORY));
	assert_int_equal(kvh_store_get(scripted->store, &four.batch, NULL), KVH_NO_MEMORY);
	for (size_t i = 0; i < COUNT; i++)
		assert_int_equal(four.results[i].value, KVH_NO_ANSWER);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		fault_test(a_whole_call_can_fail_before_anything_is_done),
		fault_test(one_key_of_a_put_can_fail_and_is_not_put),
		fault_test(one_answer_can_be_lost),
		fault_test(a_key_in_doubt_is_not_quiet),
		fault_test(when_every_key_fails_the_backend_is_not_called),
		fault_test(an_answer_can_be_replaced_though_the_backend_did_its_work),
		fault_test(no_memory_behind_a_fault_point_fails_the_call),
	};

	return cmocka_run_group_tests_name("store_faults", tests, NULL, NULL);
}
