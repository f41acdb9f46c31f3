/* SPDX-License-Identifier: Apache-2.0 */
/* Conformance: the handle itself: memory, options, deadlines, forks, counts. */
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "conformance.h"

/* proves: D-23, T3, T21 */
static void unregistered_memory_is_the_callers_alone(void **state)
{
	struct conf *conf = *state;
	unsigned char *memory = aligned_alloc(4096, 65536);
	const struct kvh_segment segment = {memory, 4096};
	const struct kvh_value value = {.segments = &segment, .segment_count = 1};
	const struct kvh_segment_template block = {memory, 4096, 4096};
	struct kvh_layout *layout;
	struct kvh_result result = {0};
	struct conf_key key;
	const struct kvh_batch batch = {
		.count = 1, .keys = &key.key, .values = &value, .results = &result};
	kvh_region_id region, again;

	assert_non_null(memory);
	conf_fill(memory, 4096, 1);
	conf_key_make(&key, conf->prefix_id, 1);
	assert_int_equal(kvh_store_register(conf->store, memory, 65536, 0, &region, NULL), KVH_OK);
	assert_int_equal(kvh_layout_create(conf->store, &block, 1, 16, &layout, NULL), KVH_OK);
	assert_int_equal(kvh_store_put(conf->store, &batch, NULL, NULL), KVH_OK);
	assert_int_equal(result.value, 0);
	assert_int_equal(kvh_store_unregister(conf->store, region, 0), KVH_BUSY);
	kvh_layout_destroy(layout);
	assert_int_equal(kvh_store_unregister(conf->store, region, 0), KVH_OK);
	assert_int_equal(kvh_store_unregister(conf->store, region, 0), KVH_INVALID_PARAMS);
	assert_int_equal(kvh_store_get(conf->store, &batch, NULL), KVH_INVALID_PARAMS);
	assert_int_equal(result.value, KVH_NO_ANSWER);
	/* What was stored from there is not touched by this, and the memory can come again. */
	assert_int_equal(conf_get(conf, &key.key, 4096), 4096);
	conf_assert_filled(conf->target, 4096, 1);
	assert_int_equal(kvh_store_register(conf->store, memory, 65536, 0, &again, NULL), KVH_OK);
	assert_int_not_equal(again, region);
	assert_int_equal(kvh_store_get(conf->store, &batch, NULL), KVH_OK);
	assert_int_equal(result.value, 4096);
	assert_int_equal(kvh_store_unregister(conf->store, again, 0), KVH_OK);
	free(memory);
}

static kvh_status put_with(struct conf *conf, uint64_t number,
                           const struct kvh_put_options *options, const struct kvh_call *call,
                           struct kvh_result *result)
{
	const struct kvh_segment segment = {conf->source, 100};
	const struct kvh_value value = {.segments = &segment, .segment_count = 1};
	struct conf_key key;
	const struct kvh_batch batch = {
		.count = 1, .keys = &key.key, .values = &value, .results = result};

	conf_key_make(&key, conf->prefix_id, number);
	return kvh_store_put(conf->store, &batch, options, call);
}

/* proves: D-22 */
static void what_caps_deny_is_refused_and_what_they_claim_works(void **state)
{
	struct conf *conf = *state;
	struct kvh_token token;
	struct kvh_put_options hold = {
		.struct_bytes = sizeof(hold), .flags = KVH_PUT_HOLD, .tokens = &token};
	struct kvh_put_options group = {.struct_bytes = sizeof(group),
	                                .flags = KVH_PUT_LIFECYCLE_GROUP};
	struct kvh_put_options copies = {.struct_bytes = sizeof(copies),
	                                 .replicas = (uint32_t)conf->caps.replicas_max + 1};
	struct kvh_result result = {0};
	kvh_status no = KVH_NOT_SUPPORTED;
	uint8_t hashes[KVH_KEY_HASH_BYTES_MAX];
	struct kvh_listed object;
	const struct kvh_list list = {.struct_bytes = sizeof(list),
	                              .objects = &object,
	                              .capacity = 1,
	                              .hashes = hashes,
	                              .hashes_bytes = sizeof(hashes)};
	uint64_t cursor = 0;
	struct kvh_evicted_key evicted;
	enum kvh_tier tier;
	struct conf_key key;
	size_t count;
	bool lost;

	conf_key_make(&key, conf->prefix_id, 1);
	assert_int_equal(put_with(conf, 1, &hold, NULL, &result), conf->caps.hold ? 0 : no);
	assert_int_equal(put_with(conf, 2, &group, NULL, &result), conf->caps.lifecycle ? 0 : no);
	assert_int_equal(result.value, conf->caps.lifecycle ? 0 : KVH_NO_ANSWER);
	assert_int_equal(put_with(conf, 3, &copies, NULL, &result), no);
	assert_int_equal(result.value, KVH_NO_ANSWER);
	assert_false(conf_has_number(conf, conf->prefix_id, 3));
	assert_int_equal(kvh_store_tiers(conf->store, &key.key, 1, &tier, NULL),
	                 conf->caps.tiers ? 0 : no);
	assert_int_equal(kvh_store_take_evicted(conf->store, &evicted, 1, &count, &lost),
	                 conf->caps.evicted ? 0 : no);
	assert_int_equal(kvh_store_list(conf->store, &list, &cursor, &count, NULL),
	                 conf->caps.list ? 0 : no);
	if (conf->caps.hold)
		assert_int_equal(kvh_store_abort(conf->store, &token, 1, &result), KVH_OK);
	else
		assert_int_equal(kvh_store_abort(conf->store, &token, 1, &result), no);
}

/* proves: S-9 */
static void a_call_that_is_over_before_it_begins_does_nothing(void **state)
{
	struct conf *conf = *state;
	struct kvh_cancel cancel = {0};
	const struct kvh_call late = {.struct_bytes = sizeof(late), .deadline_ns = 1};
	const struct kvh_call cancelled = {.struct_bytes = sizeof(cancelled), .cancel = &cancel};
	struct kvh_result result = {0};

	kvh_cancel_request(&cancel);
	assert_int_equal(put_with(conf, 1, NULL, &late, &result), KVH_TIMEOUT);
	assert_int_equal(result.value, KVH_NO_ANSWER);
	assert_int_equal(result.flags, KVH_RESULT_QUIET);
	assert_int_equal(put_with(conf, 1, NULL, &cancelled, &result), KVH_CANCELLED);
	assert_int_equal(result.value, KVH_NO_ANSWER);
	assert_false(conf_has_number(conf, conf->prefix_id, 1));
}

/* proves: S-9, B06 */
static void a_put_behind_a_held_key_ends_at_its_deadline(void **state)
{
	struct conf *conf = *state;
	const struct kvh_env *env = &conf->clock.env;
	struct kvh_token token;
	const struct kvh_put_options hold = {
		.struct_bytes = sizeof(hold), .flags = KVH_PUT_HOLD, .tokens = &token};
	struct kvh_call call = {.struct_bytes = sizeof(call)};
	struct kvh_result result = {0};
	kvh_status status;

	if (!conf->caps.hold)
		skip();
	assert_int_equal(put_with(conf, 1, &hold, NULL, &result), KVH_OK);
	call.deadline_ns = env->ops->now_ns(env->ctx) + 20000000;
	status = put_with(conf, 1, NULL, &call, &result);
	/* Told per key or as a whole; that it returned at all is the point. */
	assert_true(status == KVH_TIMEOUT || (status == KVH_OK && result.value < 0));
	assert_int_equal(kvh_store_abort(conf->store, &token, 1, &result), KVH_OK);
	assert_int_equal(result.value, 0);
}

/* proves: B32 */
static void a_child_process_is_refused(void **state)
{
	struct conf *conf = *state;
	struct conf_key key;
	int child_status = -1;
	pid_t child;

	conf_key_make(&key, conf->prefix_id, 1);
	assert_int_equal(conf_put(conf, &key.key, 1, 100, NULL), 0);
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		struct kvh_result result = {0};
		const struct kvh_batch batch = {.count = 1, .keys = &key.key, .results = &result};
		kvh_status exists = kvh_store_exists(conf->store, &batch, 0, NULL);
		kvh_status close = kvh_store_close(conf->store, 0);

		_exit(exists == KVH_FORKED && close == KVH_FORKED ? 0 : 1);
	}
	assert_int_equal(waitpid(child, &child_status, 0), child);
	assert_true(WIFEXITED(child_status));
	assert_int_equal(WEXITSTATUS(child_status), 0);
	assert_int_equal(conf_get(conf, &key.key, 100), 100);
	conf_assert_filled(conf->target, 100, 1);
}

/* proves: B42 */
static void counts_say_what_happened(void **state)
{
	struct conf *conf = *state;
	struct kvh_store_stats stats;
	struct conf_key key;

	conf_key_make(&key, conf->prefix_id, 1);
	conf_exists(conf, &key.key, 0);
	conf_put(conf, &key.key, 1, 5000, NULL);
	conf_put(conf, &key.key, 1, 5000, NULL);
	conf_exists(conf, &key.key, 0);
	conf_get(conf, &key.key, 5000);
	conf_get(conf, &key.key, 5001);
	stats = conf_stats(conf);
	assert_int_equal(stats.objects, 1);
	assert_true(stats.used_bytes >= 5000 && stats.used_bytes <= stats.capacity_bytes);
	assert_true(stats.capacity_bytes > 0);
	assert_int_equal(stats.put_keys, 2);
	assert_int_equal(stats.put_failed_keys, 1);
	assert_int_equal(stats.put_bytes, 5000);
	assert_int_equal(stats.get_keys, 2);
	assert_int_equal(stats.get_failed_keys, 1);
	assert_int_equal(stats.get_bytes, 5000);
	assert_int_equal(stats.exists_keys, 2);
	assert_int_equal(stats.exists_hits, 1);
	assert_int_equal(stats.reserved_objects, 0);
	assert_int_equal(stats.pinned_objects, 0);
	conf_remove(conf, &key.key);
	stats = conf_stats(conf);
	assert_int_equal(stats.removed_keys, 1);
	assert_int_equal(stats.objects, 0);
	assert_int_equal(stats.used_bytes, 0);
}

static const struct CMUnitTest tests[] = {
	conf_test(unregistered_memory_is_the_callers_alone),
	conf_test(what_caps_deny_is_refused_and_what_they_claim_works),
	conf_test(a_call_that_is_over_before_it_begins_does_nothing),
	conf_test(a_put_behind_a_held_key_ends_at_its_deadline),
	conf_test(a_child_process_is_refused),
	conf_test(counts_say_what_happened),
};

CONF_GROUP(conf_handle_group, tests);
