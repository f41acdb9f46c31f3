/* SPDX-License-Identifier: Apache-2.0 */
/* Conformance: what a key is, and what put, exists, get and remove say of it. */
#include <stdlib.h>
#include <string.h>

#include "conformance.h"

/* proves: S-1, S-10 */
static void a_key_goes_from_absent_to_present_and_back(void **state)
{
	struct conf *conf = *state;
	struct conf_key key;

	conf_key_make(&key, conf->prefix_id, 1);
	for (int round = 0; round < 3; round++) {
		/* Another length each time. */
		size_t bytes = 1000 + 4000 * (size_t)round;

		assert_int_equal(conf_exists(conf, &key.key, KVH_EXISTS_LOOKUP), 0);
		assert_int_equal(conf_exists(conf, &key.key, KVH_EXISTS_DEDUP), 0);
		assert_int_equal(conf_get(conf, &key.key, bytes), KVH_OBJECT_NOT_FOUND);
		assert_int_equal(conf_remove(conf, &key.key), KVH_OBJECT_NOT_FOUND);
		assert_int_equal(conf_put(conf, &key.key, 1, bytes, NULL), 0);
		assert_int_equal(conf_exists(conf, &key.key, KVH_EXISTS_LOOKUP), 1);
		assert_int_equal(conf_exists(conf, &key.key, KVH_EXISTS_DEDUP), 1);
		assert_int_equal(conf_get(conf, &key.key, bytes), bytes);
		conf_assert_filled(conf->target, bytes, 1);
		assert_int_equal(conf_remove(conf, &key.key), 0);
	}
}

/* proves: B12 */
static void a_missing_key_leaves_the_buffer_alone(void **state)
{
	struct conf *conf = *state;
	struct conf_key key;

	conf_key_make(&key, conf->prefix_id, 1);
	assert_int_equal(conf_get(conf, &key.key, 4096), KVH_OBJECT_NOT_FOUND);
	for (size_t i = 0; i < 4096; i++)
		assert_int_equal(conf->target[i], 0xee);
}

/* proves: D-11, B16 */
static void a_second_put_is_told_so_and_changes_nothing(void **state)
{
	struct conf *conf = *state;
	struct conf_key key;

	conf_key_make(&key, conf->prefix_id, 1);
	assert_int_equal(conf_put(conf, &key.key, 1, 5000, NULL), 0);
	assert_int_equal(conf_put(conf, &key.key, 2, 5000, NULL), KVH_OBJECT_ALREADY_EXISTS);
	assert_int_equal(conf_put(conf, &key.key, 3, 6000, NULL), KVH_OBJECT_ALREADY_EXISTS);
	assert_int_equal(conf_get(conf, &key.key, 5000), 5000);
	conf_assert_filled(conf->target, 5000, 1);
}

static void make_twins(struct conf *conf, struct conf_key *key, struct kvh_key *keys,
                       struct kvh_segment *segments, struct kvh_value *values)
{
	for (size_t i = 0; i < 3; i++) {
		conf_key_make(&key[i], conf->prefix_id, i == 1 ? 8 : 7);
		keys[i] = key[i].key;
		conf_fill(conf->source + i * 8192, 5000, 100 + i);
		segments[i] = (struct kvh_segment){conf->source + i * 8192, 5000};
		values[i] = (struct kvh_value){.segments = &segments[i], .segment_count = 1};
	}
}

/* proves: S-10, D-10, B16 */
static void a_key_twice_in_a_batch_is_one_object(void **state)
{
	struct conf *conf = *state;
	struct conf_key key[3];
	struct kvh_key keys[3];
	struct kvh_segment segments[3];
	struct kvh_value values[3];
	struct kvh_result results[3];
	const struct kvh_batch batch = {
		.count = 3, .keys = keys, .values = values, .results = results};

	make_twins(conf, key, keys, segments, values);
	assert_int_equal(kvh_store_put(conf->store, &batch, NULL, NULL), KVH_OK);
	for (size_t i = 0; i < 3; i++)
		assert_int_equal(results[i].value, 0);
	assert_int_equal(conf_stats(conf).objects, 2);
	assert_int_equal(conf_get(conf, &keys[2], 5000), 5000);
	conf_assert_filled(conf->target, 5000, 100);
	/* Again: now both are told that it is there. */
	assert_int_equal(kvh_store_put(conf->store, &batch, NULL, NULL), KVH_OK);
	assert_int_equal(results[0].value, KVH_OBJECT_ALREADY_EXISTS);
	assert_int_equal(results[2].value, KVH_OBJECT_ALREADY_EXISTS);
}

/* proves: S-10 */
static void a_key_twice_in_a_get_fills_both(void **state)
{
	struct conf *conf = *state;
	struct conf_key key[3];
	struct kvh_key keys[3];
	struct kvh_segment segments[3];
	struct kvh_value values[3];
	struct kvh_result results[3];
	const struct kvh_batch batch = {
		.count = 3, .keys = keys, .values = values, .results = results};

	make_twins(conf, key, keys, segments, values);
	assert_int_equal(conf_put(conf, &keys[0], 7, 5000, NULL), 0);
	assert_int_equal(kvh_store_get(conf->store, &batch, NULL), KVH_OK);
	assert_int_equal(results[0].value, 5000);
	assert_int_equal(results[1].value, KVH_OBJECT_NOT_FOUND);
	assert_int_equal(results[2].value, 5000);
	conf_assert_filled(conf->source, 5000, 7);
	conf_assert_filled(conf->source + 16384, 5000, 7);
}

/* proves: S-12 */
static void keys_that_differ_in_one_byte_are_two(void **state)
{
	struct conf *conf = *state;
	struct conf_key key, other;

	conf_key_make(&key, conf->prefix_id, 1);
	assert_int_equal(conf_put(conf, &key.key, 1, 3000, NULL), 0);
	for (size_t i = 0; i < CONF_HASH_BYTES; i++) {
		conf_key_make(&other, conf->prefix_id, 1);
		other.hash[i] ^= 1;
		assert_int_equal(conf_exists(conf, &other.key, 0), 0);
		assert_int_equal(conf_put(conf, &other.key, 100 + i, 3000, NULL), 0);
	}
	for (size_t i = 0; i < CONF_HASH_BYTES; i++) {
		conf_key_make(&other, conf->prefix_id, 1);
		other.hash[i] ^= 1;
		assert_int_equal(conf_get(conf, &other.key, 3000), 3000);
		conf_assert_filled(conf->target, 3000, 100 + i);
	}
	assert_int_equal(conf_get(conf, &key.key, 3000), 3000);
	conf_assert_filled(conf->target, 3000, 1);
}

/* proves: S-12, R-1 */
static void the_prefix_is_part_of_the_key(void **state)
{
	struct conf *conf = *state;
	uint32_t other_id = conf_prefix(conf, "conf@1@", NULL);
	struct conf_key key, other;

	assert_int_not_equal(other_id, conf->prefix_id);
	conf_key_make(&key, conf->prefix_id, 1);
	conf_key_make(&other, other_id, 1);
	assert_int_equal(conf_put(conf, &key.key, 1, 3000, NULL), 0);
	assert_int_equal(conf_exists(conf, &other.key, 0), 0);
	assert_int_equal(conf_get(conf, &other.key, 3000), KVH_OBJECT_NOT_FOUND);
	assert_int_equal(conf_put(conf, &other.key, 2, 3000, NULL), 0);
	assert_int_equal(conf_get(conf, &key.key, 3000), 3000);
	conf_assert_filled(conf->target, 3000, 1);
	assert_int_equal(conf_remove(conf, &key.key), 0);
	assert_int_equal(conf_exists(conf, &other.key, 0), 1);
}

/* proves: S-12, B13 */
static void the_identity_is_part_of_the_key(void **state)
{
	struct conf *conf = *state;
	uint32_t old_id = conf_prefix(conf, "conf@i@", "weights 1");
	uint32_t new_id = conf_prefix(conf, "conf@i@", "weights 2");
	uint32_t none_id = conf_prefix(conf, "conf@i@", NULL);
	struct conf_key key, other;

	assert_int_not_equal(old_id, new_id);
	assert_int_not_equal(old_id, none_id);
	assert_int_equal(conf_prefix(conf, "conf@i@", "weights 1"), old_id);
	assert_int_equal(conf_prefix(conf, "conf@i@", NULL), none_id);
	conf_key_make(&key, old_id, 1);
	conf_key_make(&other, new_id, 1);
	assert_int_equal(conf_put(conf, &key.key, 1, 3000, NULL), 0);
	assert_int_equal(conf_exists(conf, &other.key, 0), 0);
	assert_int_equal(conf_get(conf, &other.key, 3000), KVH_OBJECT_NOT_FOUND);
}

/* proves: S-12 */
static void hashes_of_every_length_are_compared_whole(void **state)
{
	static const uint32_t lengths[] = {1, 2, 8, 16, 31, 32, 33, 40, 64, 65, 255, 1024};
	enum { COUNT = sizeof(lengths) / sizeof(lengths[0]) };
	struct conf *conf = *state;
	uint8_t hash[KVH_KEY_HASH_BYTES_MAX];
	struct kvh_key key = {.hash = hash, .prefix_id = conf->prefix_id};

	/* Each is the beginning of the next. */
	memset(hash, 0x5a, sizeof(hash));
	for (size_t i = 0; i < COUNT; i++) {
		key.hash_bytes = lengths[i];
		assert_int_equal(conf_exists(conf, &key, 0), 0);
		assert_int_equal(conf_put(conf, &key, i, 2000, NULL), 0);
	}
	for (size_t i = 0; i < COUNT; i++) {
		key.hash_bytes = lengths[i];
		assert_int_equal(conf_get(conf, &key, 2000), 2000);
		conf_assert_filled(conf->target, 2000, i);
		/* And its last byte counts. */
		hash[lengths[i] - 1] ^= 0xff;
		assert_int_equal(conf_exists(conf, &key, 0), 0);
		assert_int_equal(conf_get(conf, &key, 2000), KVH_OBJECT_NOT_FOUND);
		hash[lengths[i] - 1] ^= 0xff;
	}
}

static void put_batch(struct conf *conf, struct conf_key *key, struct kvh_key *keys, size_t count)
{
	struct kvh_segment *segments = calloc(count, sizeof(*segments));
	struct kvh_value *values = calloc(count, sizeof(*values));
	struct kvh_result *results = calloc(count, sizeof(*results));
	const struct kvh_batch batch = {
		.count = count, .keys = keys, .values = values, .results = results};

	assert_true(segments && values && results);
	for (size_t i = 0; i < count; i++) {
		conf_key_make(&key[i], conf->prefix_id, count * 10000 + i);
		keys[i] = key[i].key;
		segments[i] = (struct kvh_segment){conf->source + i * 512, 500};
		conf_fill(segments[i].addr, 500, i);
		values[i] = (struct kvh_value){.segments = &segments[i], .segment_count = 1};
	}
	assert_int_equal(kvh_store_put(conf->store, &batch, NULL, NULL), KVH_OK);
	for (size_t i = 0; i < count; i++)
		assert_int_equal(results[i].value, 0);
	for (size_t i = 0; i < count; i++)
		segments[i].addr = conf->target + i * 512;
	memset(conf->target, 0xee, count * 512);
	assert_int_equal(kvh_store_get(conf->store, &batch, NULL), KVH_OK);
	for (size_t i = 0; i < count; i++) {
		assert_int_equal(results[i].value, 500);
		conf_assert_filled(segments[i].addr, 500, i);
	}
	assert_int_equal(kvh_store_remove(conf->store, &batch, NULL), KVH_OK);
	for (size_t i = 0; i < count; i++)
		assert_int_equal(results[i].value, 0);
	free(segments);
	free(values);
	free(results);
}

/* proves: S-8 */
static void batches_of_every_size_work(void **state)
{
	static const size_t counts[] = {1, 2, 63, 64, 65, 127, 128, 129, 1000};
	struct conf_key *key = calloc(1000, sizeof(*key));
	struct kvh_key *keys = calloc(1000, sizeof(*keys));

	assert_true(key && keys);
	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
		put_batch(*state, key, keys, counts[i]);
	free(key);
	free(keys);
}

/* proves: S-9 */
static void the_largest_exists_batch_is_answered(void **state)
{
	struct conf *conf = *state;
	struct conf_key *key = calloc(KVH_BATCH_KEYS_MAX, sizeof(*key));
	struct kvh_key *keys = calloc(KVH_BATCH_KEYS_MAX, sizeof(*keys));
	struct kvh_result *results = calloc(KVH_BATCH_KEYS_MAX, sizeof(*results));
	const struct kvh_batch batch = {
		.count = KVH_BATCH_KEYS_MAX, .keys = keys, .results = results};

	assert_true(key && keys && results);
	for (size_t i = 0; i < KVH_BATCH_KEYS_MAX; i++) {
		conf_key_make(&key[i], conf->prefix_id, i);
		keys[i] = key[i].key;
	}
	for (size_t i = 0; i < KVH_BATCH_KEYS_MAX; i += 1000)
		assert_int_equal(conf_put(conf, &keys[i], i, 100, NULL), 0);
	assert_int_equal(kvh_store_exists(conf->store, &batch, 0, NULL), KVH_OK);
	for (size_t i = 0; i < KVH_BATCH_KEYS_MAX; i++)
		assert_int_equal(results[i].value, i % 1000 == 0);
	free(key);
	free(keys);
	free(results);
}

/* proves: S-1 */
static void clear_removes_all_and_counts_them(void **state)
{
	struct conf *conf = *state;
	uint64_t removed = 0;

	for (uint64_t i = 0; i < 10; i++)
		assert_int_equal(conf_put_number(conf, conf->prefix_id, i, NULL), 0);
	assert_int_equal(kvh_store_clear(conf->store, NULL, &removed), KVH_OK);
	assert_int_equal(removed, 10);
	assert_int_equal(conf_count_numbers(conf, conf->prefix_id, 0, 10), 0);
	assert_int_equal(conf_stats(conf).objects, 0);
	assert_int_equal(kvh_store_clear(conf->store, NULL, &removed), KVH_OK);
	assert_int_equal(removed, 0);
	assert_int_equal(conf_put_number(conf, conf->prefix_id, 1, NULL), 0);
	conf_get_number(conf, conf->prefix_id, 1);
}

/* proves: R-37 */
static void tiers_tell_present_from_missing(void **state)
{
	struct conf *conf = *state;
	struct conf_key key[2];
	struct kvh_key keys[2];
	enum kvh_tier tiers[2];

	if (!conf->caps.tiers)
		skip();
	for (size_t i = 0; i < 2; i++) {
		conf_key_make(&key[i], conf->prefix_id, i);
		keys[i] = key[i].key;
	}
	assert_int_equal(conf_put(conf, &keys[1], 1, 100, NULL), 0);
	assert_int_equal(kvh_store_tiers(conf->store, keys, 2, tiers, NULL), KVH_OK);
	assert_int_equal(tiers[0], KVH_TIER_UNKNOWN);
	assert_int_not_equal(tiers[1], KVH_TIER_UNKNOWN);
}

static const struct CMUnitTest tests[] = {
	conf_test(a_key_goes_from_absent_to_present_and_back),
	conf_test(a_missing_key_leaves_the_buffer_alone),
	conf_test(a_second_put_is_told_so_and_changes_nothing),
	conf_test(a_key_twice_in_a_batch_is_one_object),
	conf_test(a_key_twice_in_a_get_fills_both),
	conf_test(keys_that_differ_in_one_byte_are_two),
	conf_test(the_prefix_is_part_of_the_key),
	conf_test(the_identity_is_part_of_the_key),
	conf_test(hashes_of_every_length_are_compared_whole),
	conf_test(batches_of_every_size_work),
	conf_test(the_largest_exists_batch_is_answered),
	conf_test(clear_removes_all_and_counts_them),
	conf_test(tiers_tell_present_from_missing),
};

CONF_GROUP(conf_keys_group, tests);
