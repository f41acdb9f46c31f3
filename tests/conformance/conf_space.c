/* SPDX-License-Identifier: Apache-2.0 */
/* Conformance: a store that is full, and space that comes back. */
#include <stdlib.h>
#include <string.h>

#include "conformance.h"

/* proves: S-14, B20, B21 */
static void a_full_store_makes_room_and_keeps_right_bytes(void **state)
{
	struct conf *conf = *state;
	size_t fit = conf_fill_up(conf, conf->prefix_id, 0);
	size_t present = 0;

	/* At least half of what was asked for is there for objects. */
	assert_true(fit * CONF_OBJECT_BYTES >= CONF_CAPACITY_BYTES / 2);
	for (size_t i = 0; i < 2 * fit; i++)
		assert_int_equal(conf_put_number(conf, conf->prefix_id, 1000000 + i, NULL), 0);
	for (size_t i = 0; i < 2 * fit; i++) {
		if (!conf_has_number(conf, conf->prefix_id, 1000000 + i))
			continue;
		conf_get_number(conf, conf->prefix_id, 1000000 + i);
		present++;
	}
	assert_true(present >= fit / 2 && present <= fit + 1);
	assert_true(conf_has_number(conf, conf->prefix_id, 1000000 + 2 * fit - 1));
	if (conf->caps.evicted)
		assert_true(conf_stats(conf).evicted_keys > 0);
}

/* proves: S-14, D-22 */
static void what_can_never_fit_is_no_pressure(void **state)
{
	struct conf *conf = *state;
	enum { PIECES = 2 * CONF_CAPACITY_BYTES / CONF_MEMORY_BYTES + 2 };
	struct kvh_segment segments[PIECES];
	const struct kvh_value value = {.segments = segments, .segment_count = PIECES};
	struct kvh_result result = {0};
	struct conf_key key;
	const struct kvh_batch batch = {
		.count = 1, .keys = &key.key, .values = &value, .results = &result};

	for (size_t i = 0; i < PIECES; i++)
		segments[i] = (struct kvh_segment){conf->source, CONF_MEMORY_BYTES};
	assert_int_equal(conf_put_number(conf, conf->prefix_id, 1, NULL), 0);
	conf_key_make(&key, conf->prefix_id, 2);
	assert_int_equal(kvh_store_put(conf->store, &batch, NULL, NULL), KVH_OK);
	if (result.value != KVH_INVALID_PARAMS)
		assert_int_equal(result.value, KVH_TOO_LARGE);
	assert_int_equal(conf_exists(conf, &key.key, 0), 0);
	/* It put nobody out. */
	conf_get_number(conf, conf->prefix_id, 1);
	assert_int_equal(conf_stats(conf).evicted_keys, 0);
}

/* proves: S-23 */
static void removed_space_comes_back(void **state)
{
	struct conf *conf = *state;
	size_t fit = conf_fill_up(conf, conf->prefix_id, 0);
	uint64_t evicted;

	assert_int_equal(kvh_store_clear(conf->store, NULL, NULL), KVH_OK);
	assert_int_equal(conf_stats(conf).used_bytes, 0);
	evicted = conf_stats(conf).evicted_keys;
	for (uint64_t i = 0; i < 4 * fit; i++) {
		struct conf_key key;

		conf_key_make(&key, conf->prefix_id, 1000000 + i);
		assert_int_equal(conf_put(conf, &key.key, i, CONF_OBJECT_BYTES, NULL), 0);
		assert_int_equal(conf_remove(conf, &key.key), 0);
	}
	assert_int_equal(conf_stats(conf).evicted_keys, evicted);
	assert_int_equal(conf_stats(conf).objects, 0);
	assert_int_equal(conf_stats(conf).used_bytes, 0);
}

/* proves: B21 */
static void holes_left_by_small_objects_take_a_large_one(void **state)
{
	struct conf *conf = *state;
	size_t fit = conf_fill_up(conf, conf->prefix_id, 0);
	uint64_t evicted;
	struct conf_key key;

	for (uint64_t i = 0; i <= fit; i++) {
		conf_key_make(&key, conf->prefix_id, i);
		conf_remove(conf, &key.key);
	}
	evicted = conf_stats(conf).evicted_keys;
	for (uint64_t i = 0; i < 4; i++) {
		conf_key_make(&key, conf->prefix_id, 2000000 + i);
		assert_int_equal(conf_put(conf, &key.key, i, (size_t)8 * CONF_OBJECT_BYTES, NULL),
		                 0);
		assert_int_equal(conf_get(conf, &key.key, (size_t)8 * CONF_OBJECT_BYTES),
		                 (size_t)8 * CONF_OBJECT_BYTES);
		conf_assert_filled(conf->target, (size_t)8 * CONF_OBJECT_BYTES, i);
	}
	assert_int_equal(conf_stats(conf).evicted_keys, evicted);
}

/* proves: B21 */
static void sizes_mixed_at_random_always_find_room(void **state)
{
	static const size_t sizes[] = {65536, 98304, 262144, 4096, 20000, 500000};
	struct conf *conf = *state;
	uint64_t random = 12345;

	for (uint64_t i = 0; i < 1000; i++) {
		struct conf_key key;
		size_t bytes;

		random = random * 6364136223846793005 + 1442695040888963407;
		bytes = sizes[(random >> 33) % 6];
		conf_key_make(&key, conf->prefix_id, i);
		assert_int_equal(conf_put(conf, &key.key, i, bytes, NULL), 0);
		assert_int_equal(conf_get(conf, &key.key, bytes), bytes);
		conf_assert_filled(conf->target, bytes, i);
		conf_key_make(&key, conf->prefix_id, (random >> 40) % (i + 1));
		if (i % 2)
			conf_remove(conf, &key.key);
	}
}

/* Marks what the feed names; true: it ran over. */
static bool drain_feed(struct conf *conf, uint32_t prefix_id, const struct conf_key *keys,
                       bool *named, size_t count)
{
	struct kvh_evicted_key taken[64];
	size_t taken_count = 0;
	bool any_lost = false;

	do {
		bool lost = false;

		assert_int_equal(
			kvh_store_take_evicted(conf->store, taken, 64, &taken_count, &lost),
			KVH_OK);
		any_lost |= lost;
		for (size_t i = 0; i < taken_count; i++) {
			assert_int_equal(taken[i].prefix_id, prefix_id);
			assert_int_equal(taken[i].hash_bytes, CONF_HASH_BYTES);
			for (size_t k = 0; k < count; k++)
				named[k] |=
					memcmp(keys[k].hash, taken[i].hash, CONF_HASH_BYTES) == 0;
		}
	} while (taken_count);
	return any_lost;
}

/* proves: S-13 */
static void every_evicted_key_is_in_the_feed(void **state)
{
	struct conf *conf = *state;
	enum { COUNT = 3 * CONF_CAPACITY_BYTES / CONF_OBJECT_BYTES };
	struct conf_key *keys;
	bool *named;
	size_t gone = 0;
	bool lost = false;

	if (!conf->caps.evicted)
		skip();
	keys = calloc(COUNT, sizeof(*keys));
	named = calloc(COUNT, sizeof(*named));
	assert_true(keys && named);
	for (size_t i = 0; i < COUNT; i++) {
		conf_key_make(&keys[i], conf->prefix_id, i);
		assert_int_equal(conf_put_number(conf, conf->prefix_id, i, NULL), 0);
		if (i % 100 == 0)
			lost |= drain_feed(conf, conf->prefix_id, keys, named, COUNT);
	}
	lost |= drain_feed(conf, conf->prefix_id, keys, named, COUNT);
	/* Never more than 100 wait: a feed that runs over then is none. */
	assert_false(lost);
	for (size_t i = 0; i < COUNT; i++) {
		bool present = conf_has_number(conf, conf->prefix_id, i);

		gone += !present;
		if (!present && !named[i])
			fail_msg("key %zu is gone and was not in the feed", i);
	}
	assert_true(gone > 0);
	free(keys);
	free(named);
}

/* proves: S-13 */
static void a_feed_that_runs_over_says_so(void **state)
{
	enum { COUNT = 12000, BYTES = 4096, PART = 500 };
	struct conf *conf = *state;
	struct conf_key *keys;
	bool *named;
	bool lost;

	if (!conf->caps.evicted)
		skip();
	keys = calloc(COUNT, sizeof(*keys));
	named = calloc(COUNT, sizeof(*named));
	assert_true(keys && named);
	for (size_t i = 0; i < COUNT; i++) {
		conf_key_make(&keys[i], conf->prefix_id, i);
		assert_int_equal(conf_put(conf, &keys[i].key, i, BYTES, NULL), 0);
	}
	lost = drain_feed(conf, conf->prefix_id, keys, named, COUNT);
	for (size_t i = 0; i < COUNT && !lost; i++) {
		if (!named[i] && !conf_has_number(conf, conf->prefix_id, i))
			fail_msg("key %zu is gone, not in the feed, and nothing says lost", i);
	}
	/* Said once, then the feed goes on. */
	assert_false(drain_feed(conf, conf->prefix_id, keys, named, 0));
	free(keys);
	free(named);
}

/* proves: T14 */
static void a_prefix_stays_within_its_quota(void **state)
{
	enum { QUOTA_OBJECTS = 16 };
	struct conf *conf = *state;
	const struct kvh_prefix prefix = {
		.struct_bytes = sizeof(prefix),
		.text = "conf@q@",
		.text_bytes = 7,
		.quota_bytes = (uint64_t)QUOTA_OBJECTS * CONF_OBJECT_BYTES,
	};
	uint32_t id;
	size_t present;

	for (uint64_t i = 0; i < 20; i++)
		assert_int_equal(conf_put_number(conf, conf->prefix_id, i, NULL), 0);
	assert_int_equal(kvh_store_prefix(conf->store, &prefix, &id, NULL), KVH_OK);
	for (uint64_t i = 0; i < (uint64_t)4 * QUOTA_OBJECTS; i++) {
		int64_t result = conf_put_number(conf, id, i, NULL);

		/* Its own oldest may go, or it may be told that there is no room: S-14. */
		if (result)
			assert_int_equal(result, KVH_NO_AVAILABLE_HANDLE);
	}
	present = conf_count_numbers(conf, id, 0, (size_t)4 * QUOTA_OBJECTS);
	assert_in_range(present, QUOTA_OBJECTS / 2, QUOTA_OBJECTS);
	/* The others did not pay for it. */
	assert_int_equal(conf_count_numbers(conf, conf->prefix_id, 0, 20), 20);
}

static const struct CMUnitTest tests[] = {
	conf_test(a_full_store_makes_room_and_keeps_right_bytes),
	conf_test(what_can_never_fit_is_no_pressure),
	conf_test(removed_space_comes_back),
	conf_test(holes_left_by_small_objects_take_a_large_one),
	conf_test(sizes_mixed_at_random_always_find_room),
	conf_test(every_evicted_key_is_in_the_feed),
	conf_test(a_feed_that_runs_over_says_so),
	conf_test(a_prefix_stays_within_its_quota),
};

CONF_GROUP(conf_space_group, tests);
