/* SPDX-License-Identifier: Apache-2.0 */
/* Bad arguments of the batch calls: refused as a whole, before the backend hears of anything. */
#include <stdlib.h>
#include <string.h>

#include "scripted.h"

typedef kvh_status (*call_fn)(struct scripted *scripted);

static kvh_status do_exists(struct scripted *scripted)
{
	return kvh_store_exists(scripted->store, &scripted->batch, 0, NULL);
}

static kvh_status do_put(struct scripted *scripted)
{
	return kvh_store_put(scripted->store, &scripted->batch, NULL, NULL);
}

static kvh_status do_get(struct scripted *scripted)
{
	return kvh_store_get(scripted->store, &scripted->batch, NULL);
}

static kvh_status do_remove(struct scripted *scripted)
{
	return kvh_store_remove(scripted->store, &scripted->batch, NULL);
}

static const call_fn all_calls[] = {do_exists, do_put, do_get, do_remove};
static const call_fn value_calls[] = {do_put, do_get};

/* Refused, nothing reached the backend, and the result says that nobody answered. */
static void assert_refused(struct scripted *scripted, call_fn call)
{
	scripted->result = (struct kvh_result){.value = 77, .reserved = 5};
	assert_int_equal(call(scripted), KVH_INVALID_PARAMS);
	assert_int_equal(scripted_calls(scripted), 0);
	assert_int_equal(scripted->result.value, KVH_NO_ANSWER);
	assert_int_equal(scripted->result.flags, KVH_RESULT_QUIET);
	assert_int_equal(scripted->result.reserved, 0);
}

static void assert_all_refused(struct scripted *scripted)
{
	for (size_t i = 0; i < COUNT_OF(all_calls); i++)
		assert_refused(scripted, all_calls[i]);
}

static void assert_values_refused(struct scripted *scripted)
{
	for (size_t i = 0; i < COUNT_OF(value_calls); i++)
		assert_refused(scripted, value_calls[i]);
}

/* proves: T21 */
static void a_good_batch_reaches_the_backend(void **state)
{
	struct scripted *scripted = *state;

	for (size_t i = 0; i < COUNT_OF(all_calls); i++) {
		assert_int_equal(all_calls[i](scripted), KVH_OK);
		assert_int_equal(scripted_calls(scripted), i + 1);
		assert_int_equal(scripted->last_call.struct_bytes, sizeof(struct kvh_call));
		assert_int_equal(scripted->last_call.deadline_ns, 0);
	}
}

/* proves: T7, T21 */
static void batches_without_shape_are_refused(void **state)
{
	struct scripted *scripted = *state;
	struct kvh_batch *batch = &scripted->batch;

	for (size_t i = 0; i < COUNT_OF(all_calls); i++) {
		batch->count = 0;
		assert_int_equal(all_calls[i](scripted), KVH_INVALID_PARAMS);
		batch->count = KVH_BATCH_KEYS_MAX + 1;
		assert_int_equal(all_calls[i](scripted), KVH_INVALID_PARAMS);
		batch->count = SIZE_MAX;
		assert_int_equal(all_calls[i](scripted), KVH_INVALID_PARAMS);
		batch->count = 1;
		batch->results = NULL;
		assert_int_equal(all_calls[i](scripted), KVH_INVALID_PARAMS);
		batch->results = &scripted->result;
	}
	batch->keys = NULL;
	assert_all_refused(scripted);
	batch->keys = &scripted->key;
	batch->values = NULL;
	assert_values_refused(scripted);
	assert_int_equal(kvh_store_exists(scripted->store, NULL, 0, NULL), KVH_INVALID_PARAMS);
	assert_int_equal(kvh_store_put(scripted->store, NULL, NULL, NULL), KVH_INVALID_PARAMS);
	assert_int_equal(kvh_store_get(scripted->store, NULL, NULL), KVH_INVALID_PARAMS);
	assert_int_equal(kvh_store_remove(scripted->store, NULL, NULL), KVH_INVALID_PARAMS);
	assert_int_equal(scripted_calls(scripted), 0);
}

/* proves: T21 */
static void no_store_is_refused(void **state)
{
	struct scripted *scripted = *state;
	struct kvh_store *store = scripted->store;

	scripted->store = NULL;
	assert_all_refused(scripted);
	scripted->store = store;
}

/* proves: T21, S-15 */
static void keys_that_fit_no_prefix_are_refused(void **state)
{
	static const uint32_t bad_ids[] = {1, 100, KVH_PREFIXES_MAX - 1, KVH_PREFIXES_MAX,
	                                   UINT32_MAX};
	static const uint32_t bad_lengths[] = {0, 1, 7, 9, 1024, UINT32_MAX};
	struct scripted *scripted = *state;

	for (size_t i = 0; i < COUNT_OF(bad_ids); i++) {
		scripted->key.prefix_id = bad_ids[i];
		assert_all_refused(scripted);
	}
	scripted->key.prefix_id = scripted->prefix_id;
	for (size_t i = 0; i < COUNT_OF(bad_lengths); i++) {
		scripted->key.hash_bytes = bad_lengths[i];
		assert_all_refused(scripted);
	}
	scripted->key.hash_bytes = 8;
	scripted->key.hash = NULL;
	assert_all_refused(scripted);
}

/* proves: T21 */
static void any_length_of_a_free_prefix_is_taken(void **state)
{
	static uint8_t hash[KVH_KEY_HASH_BYTES_MAX + 1];
	struct scripted *scripted = *state;
	const struct kvh_prefix prefix = {
		.struct_bytes = sizeof(prefix), .text = "any@", .text_bytes = 4};

	assert_int_equal(kvh_store_prefix(scripted->store, &prefix, &scripted->key.prefix_id, NULL),
	                 KVH_OK);
	scripted->calls = 0;
	scripted->key.hash = hash;
	scripted->key.hash_bytes = 0;
	assert_all_refused(scripted);
	scripted->key.hash_bytes = KVH_KEY_HASH_BYTES_MAX + 1;
	assert_all_refused(scripted);
	scripted->key.hash_bytes = 1;
	assert_int_equal(do_exists(scripted), KVH_OK);
	scripted->key.hash_bytes = KVH_KEY_HASH_BYTES_MAX;
	assert_int_equal(do_exists(scripted), KVH_OK);
}

/* proves: T21 */
static void one_bad_key_anywhere_refuses_the_batch(void **state)
{
	enum { COUNT = 130 };
	struct scripted *scripted = *state;
	struct kvh_key keys[COUNT];
	struct kvh_result results[COUNT];
	const struct kvh_batch batch = {.count = COUNT, .keys = keys, .results = results};

	for (size_t bad = 0; bad < COUNT; bad++) {
		for (size_t i = 0; i < COUNT; i++)
			keys[i] = scripted->key;
		keys[bad].hash_bytes = 5;
		memset(results, 0, sizeof(results));
		assert_int_equal(kvh_store_exists(scripted->store, &batch, 0, NULL),
		                 KVH_INVALID_PARAMS);
		for (size_t i = 0; i < COUNT; i++)
			assert_int_equal(results[i].value, KVH_NO_ANSWER);
	}
	assert_int_equal(scripted_calls(scripted), 0);
}

/* proves: T21 */
static void the_log_names_the_index_and_the_fault(void **state)
{
	struct scripted *scripted = *state;
	struct kvh_key keys[3] = {scripted->key, scripted->key, scripted->key};
	struct kvh_result results[3];
	const struct kvh_batch batch = {.count = 3, .keys = keys, .results = results};

	keys[2].hash_bytes = 5;
	assert_int_equal(kvh_store_exists(scripted->store, &batch, 0, NULL), KVH_INVALID_PARAMS);
	assert_non_null(strstr(scripted->log, "exists: key 2: hash of 5 bytes"));
}

/* proves: T15 */
static void refused_calls_do_not_flood_the_log(void **state)
{
	struct scripted *scripted = *state;
	size_t lines = 0;

	scripted->key.hash = NULL;
	for (int i = 0; i < 1000; i++) {
		scripted->log[0] = 0;
		assert_int_equal(do_exists(scripted), KVH_INVALID_PARAMS);
		lines += scripted->log[0] != 0;
	}
	/* 1, 2, 4, ... 512. */
	assert_int_equal(lines, 10);
}

/* proves: T21, T6 */
static void segments_outside_of_registered_memory_are_refused(void **state)
{
	struct scripted *scripted = *state;
	unsigned char *memory = scripted->memory;
	unsigned char elsewhere[64];
	const struct kvh_segment bad[] = {
		{NULL, 64},
		{elsewhere, 64},
		{memory, 0},
		{memory - 1, 1},
		{memory - 1, 64},
		{memory, SCRIPTED_MEMORY_BYTES + 1},
		{memory + SCRIPTED_MEMORY_BYTES, 1},
		{memory + SCRIPTED_MEMORY_BYTES - 1, 2},
		{memory + 10, SIZE_MAX},
		{memory + 10, SIZE_MAX - (uintptr_t)memory},
		{memory, SIZE_MAX / 2},
	};

	for (size_t i = 0; i < COUNT_OF(bad); i++) {
		scripted->segment = bad[i];
		assert_values_refused(scripted);
	}
	scripted->segment = (struct kvh_segment){memory, SCRIPTED_MEMORY_BYTES};
	assert_int_equal(do_put(scripted), KVH_OK);
	scripted->segment = (struct kvh_segment){memory + SCRIPTED_MEMORY_BYTES - 1, 1};
	assert_int_equal(do_put(scripted), KVH_OK);
}

/* proves: T21 */
static void lists_without_shape_are_refused(void **state)
{
	struct scripted *scripted = *state;
	struct kvh_value *value = &scripted->value_of_key;
	struct kvh_segment *many = calloc(KVH_SEGMENTS_MAX + 1, sizeof(*many));

	assert_non_null(many);
	value->segments = NULL;
	assert_values_refused(scripted);
	value->segment_count = 0;
	assert_values_refused(scripted);
	value->segments = &scripted->segment;
	assert_values_refused(scripted);
	for (size_t i = 0; i <= KVH_SEGMENTS_MAX; i++)
		many[i] = scripted->segment;
	value->segments = many;
	value->segment_count = KVH_SEGMENTS_MAX + 1;
	assert_values_refused(scripted);
	value->segment_count = SIZE_MAX;
	assert_values_refused(scripted);
	value->segment_count = KVH_SEGMENTS_MAX;
	assert_int_equal(do_put(scripted), KVH_OK);
	/* The last one counts too. */
	scripted->calls = 0;
	many[KVH_SEGMENTS_MAX - 1].bytes = 0;
	assert_values_refused(scripted);
	free(many);
}

/* proves: T21 */
static void blocks_outside_of_their_layout_are_refused(void **state)
{
	struct scripted *scripted = *state;
	struct scripted *other = scripted_new();
	const struct kvh_segment_template mine = {scripted->memory, 1024, 512};
	struct kvh_segment_template theirs;
	struct kvh_value *value = &scripted->value_of_key;
	struct kvh_layout *layout, *foreign;

	scripted_open(other);
	theirs = (struct kvh_segment_template){other->memory, 1024, 512};
	assert_int_equal(kvh_layout_create(scripted->store, &mine, 1, 64, &layout, NULL), KVH_OK);
	assert_int_equal(kvh_layout_create(other->store, &theirs, 1, 64, &foreign, NULL), KVH_OK);
	*value = (struct kvh_value){.layout = layout, .block_id = 64};
	assert_values_refused(scripted);
	value->block_id = UINT64_MAX;
	assert_values_refused(scripted);
	*value = (struct kvh_value){.layout = foreign, .block_id = 1};
	assert_values_refused(scripted);
	*value = (struct kvh_value){.layout = layout, .segments = &scripted->segment};
	assert_values_refused(scripted);
	*value = (struct kvh_value){.layout = layout, .segment_count = 1};
	assert_values_refused(scripted);
	*value = (struct kvh_value){.layout = layout, .block_id = 63};
	assert_int_equal(do_put(scripted), KVH_OK);
	kvh_layout_destroy(layout);
	kvh_layout_destroy(foreign);
	assert_int_equal(kvh_store_close(other->store, 0), KVH_OK);
	free(other);
}

static kvh_status put_with(struct scripted *scripted, const struct kvh_put_options *options)
{
	return kvh_store_put(scripted->store, &scripted->batch, options, NULL);
}

/* proves: T21 */
static void put_options_out_of_range_are_refused(void **state)
{
	static char long_name[300];
	struct scripted *scripted = *state;
	struct kvh_token token;
	const struct kvh_put_options bad[] = {
		{.struct_bytes = 0},
		{.struct_bytes = 7},
		{.struct_bytes = SIZE_MAX},
		{.struct_bytes = sizeof(bad[0]), .flags = 4},
		{.struct_bytes = sizeof(bad[0]), .flags = UINT32_MAX, .tokens = &token},
		{.struct_bytes = sizeof(bad[0]), .flags = KVH_PUT_HOLD},
		{.struct_bytes = sizeof(bad[0]), .tokens = &token},
		{.struct_bytes = sizeof(bad[0]), .priority = 4},
		{.struct_bytes = sizeof(bad[0]), .reserved = 1},
		{.struct_bytes = sizeof(bad[0]), .keep_seconds = 1, .expire_seconds = 1},
		{.struct_bytes = sizeof(bad[0]), .preferred_node = ""},
		{.struct_bytes = sizeof(bad[0]), .preferred_node = "a b"},
		{.struct_bytes = sizeof(bad[0]), .preferred_node = long_name},
	};

	memset(long_name, 'n', sizeof(long_name) - 1);
	for (size_t i = 0; i < COUNT_OF(bad); i++) {
		scripted->result = (struct kvh_result){.value = 77};
		assert_int_equal(put_with(scripted, &bad[i]), KVH_INVALID_PARAMS);
		assert_int_equal(scripted->result.value, KVH_NO_ANSWER);
	}
	assert_int_equal(scripted_calls(scripted), 0);
	assert_int_equal(kvh_store_exists(scripted->store, &scripted->batch, 2, NULL),
	                 KVH_INVALID_PARAMS);
	assert_int_equal(scripted_calls(scripted), 0);
}

/* proves: T21 */
static void put_options_in_range_arrive(void **state)
{
	struct scripted *scripted = *state;
	struct kvh_token token = {{1, 2, 3}};
	const struct kvh_put_options options = {
		.struct_bytes = sizeof(options),
		.flags = KVH_PUT_HOLD | KVH_PUT_LIFECYCLE_GROUP,
		.replicas = 2,
		.priority = 3,
		.keep_seconds = 60,
		.preferred_node = "node-7",
		.tokens = &token,
	};

	assert_int_equal(put_with(scripted, &options), KVH_OK);
	assert_int_equal(scripted->last_put.flags, options.flags);
	assert_int_equal(scripted->last_put.replicas, 2);
	assert_int_equal(scripted->last_put.priority, 3);
	assert_int_equal(scripted->last_put.keep_seconds, 60);
	assert_string_equal(scripted->last_put.preferred_node, "node-7");
	/* A token of a put that failed is worthless, not old. */
	assert_int_equal(token.word[0] | token.word[1] | token.word[2], 0);
	assert_int_equal(put_with(scripted, NULL), KVH_OK);
	assert_int_equal(scripted->last_put.replicas, 1);
	assert_null(scripted->last_put.tokens);
}

/* One page of one object; the cursor stays where it is. */
static kvh_status list_one(struct scripted *scripted, uint32_t flags, size_t *count)
{
	static uint8_t hashes[KVH_KEY_HASH_BYTES_MAX];
	struct kvh_listed object;
	const struct kvh_list list = {.struct_bytes = sizeof(list),
	                              .flags = flags,
	                              .objects = &object,
	                              .capacity = 1,
	                              .hashes = hashes,
	                              .hashes_bytes = sizeof(hashes)};
	uint64_t cursor = 0;

	scripted->listed.key.hash = hashes;
	return kvh_store_list(scripted->store, &list, &cursor, count, NULL);
}

/* proves: D-22 */
static void what_the_store_can_not_do_is_not_asked_of_it(void **state)
{
	struct scripted *scripted = *state;
	struct scripted *poor = scripted_new();
	struct kvh_token token;
	const struct kvh_put_options wishes[] = {
		{.struct_bytes = sizeof(wishes[0]), .flags = KVH_PUT_HOLD, .tokens = &token},
		{.struct_bytes = sizeof(wishes[0]), .flags = KVH_PUT_LIFECYCLE_GROUP},
		{.struct_bytes = sizeof(wishes[0]), .replicas = 2},
	};
	struct kvh_evicted_key evicted;
	enum kvh_tier tier;
	size_t count;
	bool lost;

	(void)scripted;
	memset(&poor->caps, 0, sizeof(poor->caps));
	scripted_open(poor);
	for (size_t i = 0; i < COUNT_OF(wishes); i++)
		assert_int_equal(put_with(poor, &wishes[i]), KVH_NOT_SUPPORTED);
	memset(&token, 0, sizeof(token));
	assert_int_equal(kvh_store_commit(poor->store, &token, 1, &poor->result),
	                 KVH_NOT_SUPPORTED);
	assert_int_equal(kvh_store_abort(poor->store, &token, 1, &poor->result), KVH_NOT_SUPPORTED);
	assert_int_equal(kvh_store_tiers(poor->store, &poor->key, 1, &tier, NULL),
	                 KVH_NOT_SUPPORTED);
	assert_int_equal(kvh_store_take_evicted(poor->store, &evicted, 1, &count, &lost),
	                 KVH_NOT_SUPPORTED);
	assert_int_equal(list_one(poor, 0, &count), KVH_NOT_SUPPORTED);
	assert_int_equal(scripted_calls(poor), 0);
	assert_int_equal(kvh_store_close(poor->store, 0), KVH_OK);
	free(poor);
}

/* proves: R-3, T21 */
static void a_lifecycle_group_needs_a_family(void **state)
{
	struct scripted *scripted = *state;
	const struct kvh_put_options options = {.struct_bytes = sizeof(options),
	                                        .flags = KVH_PUT_LIFECYCLE_GROUP};
	const struct kvh_prefix prefix = {
		.struct_bytes = sizeof(prefix), .text = "alone@", .text_bytes = 6};

	assert_int_equal(kvh_store_prefix(scripted->store, &prefix, &scripted->key.prefix_id, NULL),
	                 KVH_OK);
	scripted->calls = 0;
	assert_int_equal(put_with(scripted, &options), KVH_INVALID_PARAMS);
	assert_int_equal(scripted_calls(scripted), 0);
}

/* proves: T21 */
static void structs_of_other_versions_are_taken_by_their_size(void **state)
{
	struct scripted *scripted = *state;
	struct {
		struct kvh_put_options known;
		uint64_t unknown;
	} newer = {.known = {.struct_bytes = sizeof(newer), .priority = 1}};
	/* Ends before keep_seconds; what lies behind is not its. */
	struct kvh_put_options older = {
		.struct_bytes = offsetof(struct kvh_put_options, keep_seconds),
		.priority = 2,
		.keep_seconds = 99,
		.expire_seconds = 99,
	};

	assert_int_equal(put_with(scripted, &newer.known), KVH_OK);
	assert_int_equal(scripted->last_put.priority, 1);
	assert_int_equal(scripted->last_put.struct_bytes, sizeof(struct kvh_put_options));
	newer.unknown = 1;
	assert_int_equal(put_with(scripted, &newer.known), KVH_INVALID_PARAMS);
	assert_int_equal(put_with(scripted, &older), KVH_OK);
	assert_int_equal(scripted->last_put.priority, 2);
	assert_int_equal(scripted->last_put.keep_seconds, 0);
}

/* proves: S-9 */
static void a_call_that_is_over_is_not_begun(void **state)
{
	struct scripted *scripted = *state;
	struct kvh_cancel cancel = {0};
	struct kvh_call call = {.struct_bytes = sizeof(call), .cancel = &cancel};

	assert_int_equal(kvh_store_get(scripted->store, &scripted->batch, &call), KVH_OK);
	assert_ptr_equal(scripted->last_call.cancel, &cancel);
	call.deadline_ns = 1;
	assert_int_equal(kvh_store_get(scripted->store, &scripted->batch, &call), KVH_TIMEOUT);
	assert_int_equal(kvh_store_clear(scripted->store, &call, NULL), KVH_TIMEOUT);
	kvh_cancel_request(&cancel);
	assert_int_equal(kvh_store_get(scripted->store, &scripted->batch, &call), KVH_CANCELLED);
	assert_int_equal(scripted->result.value, KVH_NO_ANSWER);
	call.struct_bytes = 3;
	assert_int_equal(kvh_store_get(scripted->store, &scripted->batch, &call),
	                 KVH_INVALID_PARAMS);
	assert_int_equal(scripted_calls(scripted), 1);
}

/* proves: T21 */
static void the_other_calls_refuse_what_is_missing(void **state)
{
	struct scripted *scripted = *state;
	struct kvh_store *store = scripted->store;
	const struct kvh_token token = {{0}};
	struct kvh_evicted_key evicted;
	enum kvh_tier tier;
	struct kvh_key bad = scripted->key;
	size_t count;
	bool lost;
	kvh_status no = KVH_INVALID_PARAMS;

	bad.hash = NULL;
	assert_int_equal(kvh_store_commit(store, NULL, 1, &scripted->result), no);
	assert_int_equal(kvh_store_commit(store, &token, 0, &scripted->result), no);
	assert_int_equal(kvh_store_commit(store, &token, KVH_BATCH_KEYS_MAX + 1, &scripted->result),
	                 no);
	assert_int_equal(kvh_store_abort(store, &token, 1, NULL), no);
	assert_int_equal(kvh_store_tiers(store, NULL, 1, &tier, NULL), no);
	assert_int_equal(kvh_store_tiers(store, &scripted->key, 0, &tier, NULL), no);
	assert_int_equal(kvh_store_tiers(store, &scripted->key, 1, NULL, NULL), no);
	assert_int_equal(kvh_store_tiers(store, &bad, 1, &tier, NULL), no);
	assert_int_equal(tier, KVH_TIER_UNKNOWN);
	assert_int_equal(kvh_store_take_evicted(store, NULL, 1, &count, &lost), no);
	assert_int_equal(kvh_store_take_evicted(store, &evicted, 0, &count, &lost), no);
	assert_int_equal(kvh_store_take_evicted(store, &evicted, 1, NULL, &lost), no);
	assert_int_equal(kvh_store_take_evicted(store, &evicted, 1, &count, NULL), no);
	assert_int_equal(kvh_store_clear(NULL, NULL, NULL), no);
	assert_int_equal(kvh_store_quiesce(NULL, 0), no);
	assert_int_equal(scripted_calls(scripted), 0);
}

/* proves: D-5 */
static void outputs_are_written_on_success_only(void **state)
{
	struct scripted *scripted = *state;
	struct kvh_evicted_key evicted;
	uint64_t removed = 7;
	size_t count = 7;
	bool lost = false;

	scripted->answer = -4242;
	assert_int_equal(kvh_store_clear(scripted->store, NULL, &removed), -4242);
	assert_int_equal(removed, 7);
	assert_int_equal(kvh_store_take_evicted(scripted->store, &evicted, 1, &count, &lost),
	                 -4242);
	assert_int_equal(count, 7);
	assert_false(lost);
	scripted->answer = KVH_OK;
	assert_int_equal(kvh_store_clear(scripted->store, NULL, &removed), KVH_OK);
	assert_int_equal(removed, 3);
	assert_int_equal(kvh_store_take_evicted(scripted->store, &evicted, 1, &count, &lost),
	                 KVH_OK);
	assert_int_equal(count, 0);
	assert_true(lost);
	/* More keys than there is room for: nobody may walk them. */
	scripted->evicted_count = 2;
	count = 77;
	assert_int_equal(kvh_store_take_evicted(scripted->store, &evicted, 1, &count, &lost),
	                 KVH_INTERNAL);
	assert_int_equal(count, 77);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		scripted_test(a_good_batch_reaches_the_backend),
		scripted_test(batches_without_shape_are_refused),
		scripted_test(no_store_is_refused),
		scripted_test(keys_that_fit_no_prefix_are_refused),
		scripted_test(any_length_of_a_free_prefix_is_taken),
		scripted_test(one_bad_key_anywhere_refuses_the_batch),
		scripted_test(the_log_names_the_index_and_the_fault),
		scripted_test(refused_calls_do_not_flood_the_log),
		scripted_test(segments_outside_of_registered_memory_are_refused),
		scripted_test(lists_without_shape_are_refused),
		scripted_test(blocks_outside_of_their_layout_are_refused),
		scripted_test(put_options_out_of_range_are_refused),
		scripted_test(put_options_in_range_arrive),
		scripted_test(what_the_store_can_not_do_is_not_asked_of_it),
		scripted_test(a_lifecycle_group_needs_a_family),
		scripted_test(structs_of_other_versions_are_taken_by_their_size),
		scripted_test(a_call_that_is_over_is_not_begun),
		scripted_test(the_other_calls_refuse_what_is_missing),
		scripted_test(outputs_are_written_on_success_only),
	};

	return cmocka_run_group_tests_name("store_arguments", tests, NULL, NULL);
}
