/* SPDX-License-Identifier: Apache-2.0 */
/* What the front door counts, and how it tells it. */
#include <stdio.h>
#include <string.h>

#include "scripted.h"

static struct kvh_store_stats stats_of(struct scripted *scripted)
{
	struct kvh_store_stats stats = {.struct_bytes = sizeof(stats)};

	assert_int_equal(kvh_store_get_stats(scripted->store, &stats), KVH_OK);
	return stats;
}

static void put(struct scripted *scripted, int64_t value)
{
	scripted->value = value;
	assert_int_equal(kvh_store_put(scripted->store, &scripted->batch, NULL, NULL), KVH_OK);
}

/* proves: B42 */
static void keys_and_bytes_are_counted_by_outcome(void **state)
{
	struct scripted *scripted = *state;
	struct kvh_store_stats stats;

	put(scripted, 0);
	put(scripted, KVH_NO_AVAILABLE_HANDLE);
	put(scripted, KVH_OBJECT_ALREADY_EXISTS);
	scripted->value = 64;
	assert_int_equal(kvh_store_get(scripted->store, &scripted->batch, NULL), KVH_OK);
	scripted->value = KVH_OBJECT_NOT_FOUND;
	assert_int_equal(kvh_store_get(scripted->store, &scripted->batch, NULL), KVH_OK);
	scripted->value = 1;
	assert_int_equal(kvh_store_exists(scripted->store, &scripted->batch, 0, NULL), KVH_OK);
	scripted->value = 0;
	assert_int_equal(kvh_store_exists(scripted->store, &scripted->batch, 0, NULL), KVH_OK);
	assert_int_equal(kvh_store_remove(scripted->store, &scripted->batch, NULL), KVH_OK);
	assert_int_equal(kvh_store_clear(scripted->store, NULL, NULL), KVH_OK);
	stats = stats_of(scripted);
	assert_int_equal(stats.put_keys, 3);
	assert_int_equal(stats.put_failed_keys, 2);
	assert_int_equal(stats.put_bytes, 64);
	assert_int_equal(stats.no_space_keys, 1);
	assert_int_equal(stats.get_keys, 2);
	assert_int_equal(stats.get_failed_keys, 1);
	assert_int_equal(stats.get_bytes, 64);
	assert_int_equal(stats.exists_keys, 2);
	assert_int_equal(stats.exists_hits, 1);
	/* One by remove, three by clear. */
	assert_int_equal(stats.removed_keys, 4);
	assert_int_equal(stats.unquiet_keys, 0);
	/* What the backend says. */
	assert_int_equal(stats.objects, 5);
	assert_int_equal(stats.capacity_bytes, 1000);
}

/* proves: B42 */
static void bytes_of_a_batch_are_those_of_its_good_keys(void **state)
{
	struct scripted *scripted = *state;
	const struct kvh_segment_template block = {scripted->memory, 1000, 1000};
	struct kvh_key keys[2] = {scripted->key, scripted->key};
	struct kvh_value values[2] = {{.block_id = 1}, {.block_id = 2}};
	struct kvh_result results[2];
	const struct kvh_batch batch = {2, keys, values, results};
	struct kvh_layout *layout;

	assert_int_equal(kvh_layout_create(scripted->store, &block, 1, 8, &layout, NULL), KVH_OK);
	values[0].layout = values[1].layout = layout;
	scripted->value = 0;
	assert_int_equal(kvh_store_put(scripted->store, &batch, NULL, NULL), KVH_OK);
	assert_int_equal(stats_of(scripted).put_bytes, 2000);
	/* A whole batch that failed: nobody answered, nothing was stored. */
	scripted->answer = -4242;
	scripted->value = KVH_NO_ANSWER;
	assert_int_equal(kvh_store_put(scripted->store, &batch, NULL, NULL), -4242);
	scripted->answer = KVH_OK;
	assert_int_equal(stats_of(scripted).put_bytes, 2000);
	assert_int_equal(stats_of(scripted).put_failed_keys, 2);
	kvh_layout_destroy(layout);
}

/* proves: T21 */
static void stats_and_caps_go_into_structs_of_other_sizes(void **state)
{
	struct scripted *scripted = *state;
	struct {
		struct kvh_store_stats stats;
		uint64_t behind;
	} larger = {.stats = {.struct_bytes = sizeof(larger)}, .behind = 7};
	struct kvh_store_stats smaller = {
		.struct_bytes = offsetof(struct kvh_store_stats, used_bytes), .used_bytes = 7};
	struct kvh_store_caps caps = {.struct_bytes = offsetof(struct kvh_store_caps, replicas_max),
	                              .replicas_max = 7};

	assert_int_equal(kvh_store_get_stats(scripted->store, &larger.stats), KVH_OK);
	assert_int_equal(larger.stats.objects, 5);
	assert_int_equal(larger.behind, 0);
	assert_int_equal(larger.stats.struct_bytes, sizeof(larger));
	assert_int_equal(kvh_store_get_stats(scripted->store, &smaller), KVH_OK);
	assert_int_equal(smaller.objects, 5);
	assert_int_equal(smaller.used_bytes, 7);
	assert_int_equal(kvh_store_get_caps(scripted->store, &caps), KVH_OK);
	assert_true(caps.hold);
	assert_int_equal(caps.replicas_max, 7);
	caps.struct_bytes = 0;
	assert_int_equal(kvh_store_get_caps(scripted->store, &caps), KVH_INVALID_PARAMS);
	assert_int_equal(kvh_store_get_caps(scripted->store, NULL), KVH_INVALID_PARAMS);
	assert_int_equal(kvh_store_get_stats(scripted->store, NULL), KVH_INVALID_PARAMS);
	smaller.struct_bytes = 1;
	assert_int_equal(kvh_store_get_stats(scripted->store, &smaller), KVH_INVALID_PARAMS);
}

/* Each sample line has a name that a TYPE line before it announced; counters end in _total. */
static void assert_exposition(char *text)
{
	char announced[96] = "";
	char kind[16] = "";
	size_t samples = 0;

	for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
		size_t bytes = strlen(announced);

		if (strncmp(line, "# HELP kvhold_store_", 20) == 0)
			continue;
		if (sscanf(line, "# TYPE %95s %15s", announced, kind) == 2) {
			bool total = strcmp(announced + strlen(announced) - 6, "_total") == 0;

			assert_int_equal(total, strcmp(kind, "counter") == 0);
			continue;
		}
		assert_true(bytes > 0);
		assert_int_equal(strncmp(line, announced, bytes), 0);
		assert_int_equal(strncmp(line + bytes, "{store=\"scripted\"", 17), 0);
		samples++;
	}
	assert_true(samples > 19);
}

/* proves: B42 */
static void metrics_are_prometheus_text(void **state)
{
	struct scripted *scripted = *state;
	char text[16384];
	size_t needed = 0;

	put(scripted, 0);
	assert_int_equal(kvh_store_stats_text(scripted->store, NULL, 0, &needed), KVH_BUSY);
	assert_true(needed < sizeof(text));
	memset(text, '!', sizeof(text));
	assert_int_equal(kvh_store_stats_text(scripted->store, text, 100, NULL), KVH_BUSY);
	assert_int_equal(text[99], 0);
	assert_int_equal(text[100], '!');
	assert_int_equal(kvh_store_stats_text(scripted->store, text, sizeof(text), &needed),
	                 KVH_OK);
	assert_int_equal(strlen(text) + 1, needed);
	assert_non_null(strstr(text, "kvhold_store_put_bytes_total{store=\"scripted\"} 64\n"));
	assert_non_null(
		strstr(text, "kvhold_store_calls_total{store=\"scripted\",op=\"put\"} 1\n"));
	assert_non_null(strstr(text, "# TYPE kvhold_store_objects gauge\n"));
	assert_exposition(text);
	assert_int_equal(kvh_store_stats_text(scripted->store, NULL, 5, &needed),
	                 KVH_INVALID_PARAMS);
	assert_int_equal(kvh_store_stats_text(NULL, text, 5, &needed), KVH_INVALID_PARAMS);
}

/* proves: B42 */
static void refused_calls_are_counted_as_failures(void **state)
{
	struct scripted *scripted = *state;
	char text[16384];

	scripted->key.hash = NULL;
	assert_int_equal(kvh_store_get(scripted->store, &scripted->batch, NULL),
	                 KVH_INVALID_PARAMS);
	assert_int_equal(kvh_store_stats_text(scripted->store, text, sizeof(text), NULL), KVH_OK);
	assert_non_null(strstr(
		text, "kvhold_store_call_failures_total{store=\"scripted\",op=\"get\"} 1\n"));
	assert_int_equal(stats_of(scripted).get_keys, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		scripted_test(keys_and_bytes_are_counted_by_outcome),
		scripted_test(bytes_of_a_batch_are_those_of_its_good_keys),
		scripted_test(stats_and_caps_go_into_structs_of_other_sizes),
		scripted_test(metrics_are_prometheus_text),
		scripted_test(refused_calls_are_counted_as_failures),
	};

	return cmocka_run_group_tests_name("store_metrics", tests, NULL, NULL);
}
