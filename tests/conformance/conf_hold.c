/* SPDX-License-Identifier: Apache-2.0 */
/* Conformance: objects that are held back between put and commit. */
#include "conformance.h"

static int64_t put_held(struct conf *conf, uint64_t number, struct kvh_token *token)
{
	const struct kvh_put_options options = {
		.struct_bytes = sizeof(options), .flags = KVH_PUT_HOLD, .tokens = token};

	return conf_put_number(conf, conf->prefix_id, number, &options);
}

static int64_t settle(struct conf *conf, const struct kvh_token *token, bool commit)
{
	struct kvh_result result = {0};
	kvh_status status = commit ? kvh_store_commit(conf->store, token, 1, &result)
	                           : kvh_store_abort(conf->store, token, 1, &result);

	assert_int_equal(status, KVH_OK);
	return result.value;
}

/* proves: S-1 */
static void a_held_object_is_seen_only_after_commit(void **state)
{
	struct conf *conf = *state;
	struct kvh_token token;
	struct conf_key key;
	int64_t early;

	if (!conf->caps.hold)
		skip();
	conf_key_make(&key, conf->prefix_id, 1);
	assert_int_equal(put_held(conf, 1, &token), 0);
	assert_int_equal(conf_exists(conf, &key.key, KVH_EXISTS_LOOKUP), 0);
	assert_int_equal(conf_exists(conf, &key.key, KVH_EXISTS_DEDUP), 0);
	early = conf_get(conf, &key.key, CONF_OBJECT_BYTES);
	if (early != KVH_REPLICA_IS_NOT_READY)
		assert_int_equal(early, KVH_OBJECT_NOT_FOUND);
	assert_int_equal(conf->target[0], 0xee);
	assert_int_equal(settle(conf, &token, true), 0);
	assert_int_equal(conf_exists(conf, &key.key, KVH_EXISTS_LOOKUP), 1);
	conf_get_number(conf, conf->prefix_id, 1);
}

/* proves: S-11, B23 */
static void an_aborted_object_never_was(void **state)
{
	struct conf *conf = *state;
	struct kvh_token token;

	if (!conf->caps.hold)
		skip();
	assert_int_equal(put_held(conf, 1, &token), 0);
	assert_int_equal(settle(conf, &token, false), 0);
	assert_false(conf_has_number(conf, conf->prefix_id, 1));
	assert_int_equal(conf_stats(conf).used_bytes, 0);
	assert_int_equal(conf_put_number(conf, conf->prefix_id, 1, NULL), 0);
	conf_get_number(conf, conf->prefix_id, 1);
}

/* proves: S-11 */
static void a_token_works_once(void **state)
{
	const struct kvh_token nonsense = {{0, 0, 0}};
	struct conf *conf = *state;
	struct kvh_token committed, aborted;

	if (!conf->caps.hold)
		skip();
	assert_int_equal(put_held(conf, 1, &committed), 0);
	assert_int_equal(put_held(conf, 2, &aborted), 0);
	assert_int_equal(settle(conf, &committed, true), 0);
	assert_int_equal(settle(conf, &aborted, false), 0);
	assert_int_equal(settle(conf, &committed, true), KVH_OBJECT_NOT_FOUND);
	assert_int_equal(settle(conf, &committed, false), KVH_OBJECT_NOT_FOUND);
	assert_int_equal(settle(conf, &aborted, true), KVH_OBJECT_NOT_FOUND);
	assert_int_equal(settle(conf, &nonsense, true), KVH_OBJECT_NOT_FOUND);
	assert_int_equal(settle(conf, &nonsense, false), KVH_OBJECT_NOT_FOUND);
	/* None of these changed anything. */
	conf_get_number(conf, conf->prefix_id, 1);
	assert_false(conf_has_number(conf, conf->prefix_id, 2));
}

/* proves: S-2, S-11 */
static void an_old_token_does_not_commit_a_newer_put(void **state)
{
	struct conf *conf = *state;
	struct kvh_token old, young;

	if (!conf->caps.hold)
		skip();
	assert_int_equal(put_held(conf, 1, &old), 0);
	assert_int_equal(settle(conf, &old, false), 0);
	assert_int_equal(put_held(conf, 1, &young), 0);
	assert_int_equal(settle(conf, &old, true), KVH_OBJECT_NOT_FOUND);
	assert_false(conf_has_number(conf, conf->prefix_id, 1));
	assert_int_equal(settle(conf, &young, true), 0);
	conf_get_number(conf, conf->prefix_id, 1);
}

/* proves: S-10, B23 */
static void a_second_writer_of_a_held_key_is_told_to_come_back(void **state)
{
	struct conf *conf = *state;
	struct kvh_token token;

	if (!conf->caps.hold)
		skip();
	assert_int_equal(put_held(conf, 1, &token), 0);
	/* Not -705: the other one may never commit (D-11). */
	assert_int_equal(conf_put_number(conf, conf->prefix_id, 1, NULL), KVH_REPLICA_IS_NOT_READY);
	assert_int_equal(settle(conf, &token, true), 0);
	assert_int_equal(conf_put_number(conf, conf->prefix_id, 1, NULL),
	                 KVH_OBJECT_ALREADY_EXISTS);
	conf_get_number(conf, conf->prefix_id, 1);
}

/* proves: S-4, S-14, R-20 */
static void held_objects_are_not_evicted_and_then_there_is_no_room(void **state)
{
	enum { COUNT = 4 * CONF_CAPACITY_BYTES / CONF_OBJECT_BYTES };
	struct conf *conf = *state;
	static struct kvh_token tokens[COUNT];
	size_t held = 0;
	int64_t result;

	if (!conf->caps.hold)
		skip();
	while ((result = put_held(conf, held, &tokens[held])) == 0) {
		held++;
		assert_true(held < COUNT);
	}
	assert_int_equal(result, KVH_NO_AVAILABLE_HANDLE);
	assert_int_equal(conf_put_number(conf, conf->prefix_id, 999999, NULL),
	                 KVH_NO_AVAILABLE_HANDLE);
	assert_true(conf_stats(conf).no_space_keys >= 2);
	assert_int_equal(conf_stats(conf).reserved_objects, held);
	for (size_t i = 0; i < held; i++)
		assert_int_equal(settle(conf, &tokens[i], i % 2), 0);
	assert_int_equal(conf_stats(conf).reserved_objects, 0);
	for (size_t i = 0; i < held; i++) {
		if (i % 2)
			conf_get_number(conf, conf->prefix_id, i);
	}
	assert_int_equal(conf_put_number(conf, conf->prefix_id, 999999, NULL), 0);
}

/* proves: S-4 */
static void clear_leaves_held_objects_alone(void **state)
{
	struct conf *conf = *state;
	struct kvh_token token;
	uint64_t removed = 99;

	if (!conf->caps.hold)
		skip();
	assert_int_equal(put_held(conf, 1, &token), 0);
	assert_int_equal(conf_put_number(conf, conf->prefix_id, 2, NULL), 0);
	assert_int_equal(kvh_store_clear(conf->store, NULL, &removed), KVH_OK);
	assert_int_equal(removed, 1);
	assert_int_equal(settle(conf, &token, true), 0);
	conf_get_number(conf, conf->prefix_id, 1);
}

static const struct CMUnitTest tests[] = {
	conf_test(a_held_object_is_seen_only_after_commit),
	conf_test(an_aborted_object_never_was),
	conf_test(a_token_works_once),
	conf_test(an_old_token_does_not_commit_a_newer_put),
	conf_test(a_second_writer_of_a_held_key_is_told_to_come_back),
	conf_test(held_objects_are_not_evicted_and_then_there_is_no_room),
	conf_test(clear_leaves_held_objects_alone),
};

CONF_GROUP(conf_hold_group, tests);
