/* SPDX-License-Identifier: Apache-2.0 */
/* The null store: answers, and touches nothing. */
#include <string.h>

#include "scripted.h"

static struct kvh_store *open_null(const char *url)
{
	struct kvh_error error = {0};
	struct kvh_store *store = NULL;

	if (kvh_store_open(url, NULL, &store, &error))
		fail_msg("%s", error.text);
	return store;
}

static void assert_answers(const char *url, int64_t exists)
{
	struct kvh_store *store = open_null(url);
	const struct kvh_prefix prefix = {
		.struct_bytes = sizeof(prefix), .text = "m@", .text_bytes = 2};
	unsigned char memory[256];
	const struct kvh_segment segments[] = {{memory, 100}, {memory + 128, 28}};
	const struct kvh_segment_template block = {memory, 64, 48};
	struct kvh_value value = {.segments = segments, .segment_count = 2};
	struct kvh_key key = {(const uint8_t *)"hash", 4, 0};
	struct kvh_result result;
	const struct kvh_batch batch = {1, &key, &value, &result};
	struct kvh_layout *layout;
	kvh_region_id region;
	uint64_t removed = 9;

	memset(memory, 0xee, sizeof(memory));
	assert_int_equal(kvh_store_prefix(store, &prefix, &key.prefix_id, NULL), KVH_OK);
	assert_int_equal(kvh_store_register(store, memory, sizeof(memory), 0, &region, NULL),
	                 KVH_OK);
	assert_int_equal(kvh_store_exists(store, &batch, 0, NULL), KVH_OK);
	assert_int_equal(result.value, exists);
	assert_int_equal(kvh_store_put(store, &batch, NULL, NULL), KVH_OK);
	assert_int_equal(result.value, 0);
	assert_int_equal(kvh_store_exists(store, &batch, 0, NULL), KVH_OK);
	assert_int_equal(result.value, exists);
	assert_int_equal(kvh_store_get(store, &batch, NULL), KVH_OK);
	assert_int_equal(result.value, 128);
	assert_int_equal(result.flags, KVH_RESULT_QUIET);
	assert_int_equal(kvh_store_remove(store, &batch, NULL), KVH_OK);
	assert_int_equal(result.value, exists ? 0 : KVH_OBJECT_NOT_FOUND);
	assert_int_equal(kvh_store_clear(store, NULL, &removed), KVH_OK);
	assert_int_equal(removed, 0);
	assert_int_equal(kvh_store_quiesce(store, 0), KVH_OK);
	assert_int_equal(kvh_layout_create(store, &block, 1, 4, &layout, NULL), KVH_OK);
	value = (struct kvh_value){.layout = layout, .block_id = 3};
	assert_int_equal(kvh_store_get(store, &batch, NULL), KVH_OK);
	assert_int_equal(result.value, 48);
	kvh_layout_destroy(layout);
	for (size_t i = 0; i < sizeof(memory); i++)
		assert_int_equal(memory[i], 0xee);
	assert_int_equal(kvh_store_unregister(store, region, 0), KVH_OK);
	assert_int_equal(kvh_store_close(store, 0), KVH_OK);
}

static void null_answers_without_touching_memory(void **state)
{
	(void)state;
	assert_answers("null:", 0);
	assert_answers("null:?exists=0", 0);
	assert_answers("null:?exists=1", 1);
}

/* proves: D-22 */
static void null_claims_nothing(void **state)
{
	struct kvh_store *store = open_null("null:");
	struct kvh_store_caps caps = {.struct_bytes = sizeof(caps)};
	struct kvh_store_stats stats = {.struct_bytes = sizeof(stats)};

	(void)state;
	assert_int_equal(kvh_store_get_caps(store, &caps), KVH_OK);
	assert_false(caps.hold || caps.lifecycle || caps.tiers || caps.evicted);
	assert_int_equal(caps.capacity_bytes, 0);
	assert_int_equal(caps.stop_ms_max, 0);
	assert_int_equal(kvh_store_get_stats(store, &stats), KVH_OK);
	assert_int_equal(stats.objects, 0);
	assert_int_equal(kvh_store_close(store, 0), KVH_OK);
}

static void sessions_are_asked_for_properly(void **state)
{
	struct kvh_store *store = open_null("null:");
	struct kvh_store_session session;
	size_t count = 77, bytes = sizeof(session);

	(void)state;
	assert_int_equal(kvh_store_get_sessions(NULL, &session, bytes, 1, &count),
	                 KVH_INVALID_PARAMS);
	assert_int_equal(kvh_store_get_sessions(store, NULL, bytes, 1, &count), KVH_INVALID_PARAMS);
	assert_int_equal(kvh_store_get_sessions(store, &session, bytes - 1, 1, &count),
	                 KVH_INVALID_PARAMS);
	assert_int_equal(kvh_store_get_sessions(store, &session, bytes, 1, NULL),
	                 KVH_INVALID_PARAMS);
	assert_int_equal(kvh_store_get_sessions(store, NULL, bytes, 0, &count), KVH_NOT_SUPPORTED);
	assert_int_equal(count, 77);
	assert_int_equal(kvh_store_close(store, 0), KVH_OK);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(null_answers_without_touching_memory),
		cmocka_unit_test(null_claims_nothing),
		cmocka_unit_test(sessions_are_asked_for_properly),
	};

	return cmocka_run_group_tests_name("store_null", tests, NULL, NULL);
}
