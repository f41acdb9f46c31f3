/* SPDX-License-Identifier: Apache-2.0 */
/* Keys, prefixes and the ring of the core: a hit is the whole key, whatever the hashes say. */
#include "core_fixture.h"

enum { UNITS = 4096, LONG_BYTES = 64 };

static struct core_fixture fixture;

static struct kvh_stored_key key_of(uint32_t prefix_id, const void *hash, uint32_t hash_bytes)
{
	struct kvh_key key = {.hash = hash, .hash_bytes = hash_bytes, .prefix_id = prefix_id};
	struct kvh_stored_key stored;

	kvh_core_prepare(&fixture.core, &key, 1, &stored);
	return stored;
}

/* Reserves, writes the text where the local store does, commits. */
static kvh_status put_key(const struct kvh_stored_key *key, uint64_t bytes)
{
	struct kvh_reserve_key one = fixture_reserve_one(&fixture, key, bytes, 0);

	if (one.status)
		return one.status;
	if (key->text_bytes)
		memcpy(kvh_core_extent(&fixture.core, one.ref.slot) + bytes, key->text,
		       key->text_bytes);
	return fixture_commit(&fixture, one.ref);
}

static uint32_t found_length(const struct kvh_stored_key *key)
{
	struct kvh_core_ref ref;

	assert_true(kvh_core_has(&fixture.core, key, 0, &ref));
	return ref.slot == KVH_NONE ? 0 : kvh_core_length(&fixture.core, ref.slot);
}

static uint32_t open_pool(uint32_t hash_bytes)
{
	fixture_begin(&fixture, UNITS);
	return fixture_prefix(&fixture, "p@", 0, 0, hash_bytes);
}

/* proves: S-12 */
static void keys_of_one_tag_and_bucket_are_told_apart(void **state)
{
	const uint64_t masks[] = {0, UINT32_MAX, ~(uint64_t)UINT32_MAX};
	const uint64_t count = 300;

	(void)state;
	for (unsigned m = 0; m < COUNT_OF(masks); m++) {
		uint32_t prefix = open_pool(32);

		fixture.core.hash_mask = masks[m];
		for (uint64_t i = 0; i < count; i++)
			assert_int_equal(fixture_put(&fixture, prefix, i, 1 + i), KVH_OK);
		for (uint64_t i = 0; i < count; i += 2)
			assert_int_equal(fixture_remove(&fixture, prefix, i), KVH_OK);
		for (uint64_t i = 0; i < count; i++) {
			struct kvh_stored_key key = fixture_key(&fixture, prefix, i);

			assert_int_equal(found_length(&key), i % 2 ? 1 + i : 0);
		}
		fixture_end(&fixture);
	}
}

/* proves: S-12 */
static void prefixes_tell_equal_hashes_apart(void **state)
{
	uint32_t prefix = open_pool(32), other = fixture_prefix(&fixture, "q@", 0, 0, 32);

	(void)state;
	fixture.core.hash_mask = 0;
	assert_int_equal(fixture_put(&fixture, prefix, 1, 10), KVH_OK);
	assert_int_equal(fixture_find(&fixture, other, 1).slot, KVH_NONE);
	assert_int_equal(fixture_put(&fixture, other, 1, 20), KVH_OK);
	assert_int_equal(fixture_remove(&fixture, prefix, 1), KVH_OK);
	assert_int_not_equal(fixture_find(&fixture, other, 1).slot, KVH_NONE);
	fixture_end(&fixture);
}

/* proves: S-12 */
static void texts_of_one_digest_are_told_apart(void **state)
{
	uint32_t prefix = open_pool(LONG_BYTES);
	uint8_t texts[3][LONG_BYTES];
	struct kvh_stored_key keys[3];
	struct kvh_pins pins;
	kvh_status status;

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		memset(texts[i], 'a' + (int)i, LONG_BYTES);
		keys[i] = key_of(prefix, texts[i], LONG_BYTES);
		/* Forced: no two texts with one XXH3-128 are known. */
		memcpy(keys[i].word, keys[0].word, sizeof(keys[i].word));
		keys[i].hash = keys[0].hash;
	}
	assert_int_equal(put_key(&keys[0], 100), KVH_OK);
	assert_int_equal(found_length(&keys[1]), 0);
	assert_int_equal(put_key(&keys[1], 200), KVH_OK);
	assert_int_equal(put_key(&keys[1], 200), KVH_OBJECT_ALREADY_EXISTS);
	assert_true(kvh_core_pin(&fixture.core, keys, 3, 0, &pins));
	assert_int_equal(kvh_core_length(&fixture.core, pins.refs[0].slot), 100);
	assert_int_equal(kvh_core_length(&fixture.core, pins.refs[1].slot), 200);
	assert_int_equal(pins.refs[2].slot, KVH_NONE);
	kvh_core_unpin(&fixture.core, &pins);
	assert_true(kvh_core_remove(&fixture.core, &keys[0], 1, 0, 0, &status));
	assert_int_equal(status, KVH_OK);
	assert_int_equal(found_length(&keys[0]), 0);
	assert_int_equal(found_length(&keys[1]), 200);
	fixture_rebuild(&fixture);
	assert_int_equal(found_length(&keys[1]), 200);
	fixture_end(&fixture);
}

/* A prefix of any length: zeros at the end are part of a key. */
/* proves: S-12 */
static void keys_of_any_length_are_told_apart(void **state)
{
	uint32_t prefix = open_pool(0);
	uint8_t zeros[100] = {0};

	(void)state;
	for (uint32_t bytes = 1; bytes <= sizeof(zeros); bytes++) {
		struct kvh_stored_key key = key_of(prefix, zeros, bytes);

		assert_int_equal(put_key(&key, bytes), KVH_OK);
	}
	fixture_rebuild(&fixture);
	for (uint32_t bytes = 1; bytes <= sizeof(zeros); bytes++) {
		struct kvh_stored_key key = key_of(prefix, zeros, bytes);

		assert_int_equal(found_length(&key), bytes);
	}
	fixture_end(&fixture);
}

static size_t take(struct kvh_evicted_key *keys, bool *lost)
{
	*lost = false;
	return kvh_core_take_evicted(&fixture.core, keys, KVH_TURN_KEYS_MAX, lost);
}

/* proves: S-13 */
static void the_feed_names_keys_of_every_length(void **state)
{
	const uint32_t lengths[] = {1, 31, 32, 33, 100};
	uint32_t prefix = open_pool(0);
	struct kvh_evicted_key keys[KVH_TURN_KEYS_MAX];
	uint8_t text[100];
	bool lost;

	(void)state;
	for (unsigned i = 0; i < sizeof(text); i++)
		text[i] = (uint8_t)(i + 1);
	for (unsigned i = 0; i < COUNT_OF(lengths); i++) {
		struct kvh_stored_key key = key_of(prefix, text, lengths[i]);
		kvh_status status;

		assert_int_equal(put_key(&key, 10), KVH_OK);
		assert_true(kvh_core_remove(&fixture.core, &key, 1, 0, 0, &status));
		assert_int_equal(take(keys, &lost), 1);
		assert_false(lost);
		assert_int_equal(keys[0].prefix_id, prefix);
		assert_int_equal(keys[0].hash_bytes, lengths[i]);
		if (lengths[i] <= 32)
			assert_memory_equal(keys[0].hash, text, lengths[i]);
		else
			assert_memory_equal(keys[0].hash, key.word, 16);
	}
	fixture_end(&fixture);
}

/* proves: S-13 */
static void a_feed_that_ran_over_says_so_once(void **state)
{
	uint32_t prefix = open_pool(32);
	struct kvh_evicted_key keys[KVH_TURN_KEYS_MAX];
	size_t count, taken = 0;
	bool lost;

	(void)state;
	for (uint64_t i = 0; i < KVH_RING_KEYS + 10; i++) {
		assert_int_equal(fixture_put(&fixture, prefix, i, 1), KVH_OK);
		assert_int_equal(fixture_remove(&fixture, prefix, i), KVH_OK);
	}
	taken = take(keys, &lost);
	assert_true(lost);
	while ((count = take(keys, &lost))) {
		assert_false(lost);
		taken += count;
	}
	/* The place of the next push can't be read safely. */
	assert_int_equal(taken, KVH_RING_KEYS - 1);
	fixture_end(&fixture);
}

static uint32_t intern(const char *text, const void *identity, size_t identity_bytes,
                       kvh_status expected)
{
	struct kvh_prefix prefix = {.struct_bytes = sizeof(prefix),
	                            .text = text,
	                            .text_bytes = strlen(text),
	                            .identity = identity,
	                            .identity_bytes = identity_bytes,
	                            .hash_bytes = 32};
	struct kvh_error error;
	uint32_t id = KVH_NONE;

	assert_int_equal(kvh_core_prefix(&fixture.core, &prefix, 0, &id, &error), expected);
	return id;
}

static void prefixes_are_the_same_if_text_and_identity_are(void **state)
{
	static unsigned char identity[KVH_IDENTITY_BYTES_MAX];
	const size_t lengths[] = {1, 100, 445, 446, 447, KVH_IDENTITY_BYTES_MAX};
	uint32_t first = open_pool(32);

	(void)state;
	assert_int_equal(intern("p@", NULL, 0, KVH_OK), first);
	for (unsigned i = 0; i < COUNT_OF(lengths); i++) {
		uint32_t id = intern("m@", identity, lengths[i], KVH_OK);

		assert_int_equal(id, first + 1 + 2 * i);
		assert_int_equal(intern("m@", identity, lengths[i], KVH_OK), id);
		identity[lengths[i] - 1] ^= 1;
		assert_int_equal(intern("m@", identity, lengths[i], KVH_OK), id + 1);
		identity[lengths[i] - 1] ^= 1;
	}
	fixture_end(&fixture);
}

static void a_prefix_said_differently_is_refused(void **state)
{
	struct kvh_prefix prefix = {
		.text = "p@", .text_bytes = 2, .family_bytes = 1, .hash_bytes = 32};
	struct kvh_error error = {0};
	uint32_t id;

	(void)state;
	open_pool(32);
	assert_int_equal(kvh_core_prefix(&fixture.core, &prefix, 0, &id, &error),
	                 KVH_INVALID_PARAMS);
	assert_non_null(strstr(error.text, "family_bytes"));
	prefix.family_bytes = 0;
	prefix.hash_bytes = 31;
	assert_int_equal(kvh_core_prefix(&fixture.core, &prefix, 0, &id, &error),
	                 KVH_INVALID_PARAMS);
	fixture_end(&fixture);
}

static void a_full_table_of_prefixes_is_busy(void **state)
{
	static unsigned char identity[4];

	(void)state;
	open_pool(32);
	/* The last ones are written beyond what the fixture wipes. */
	memset(fixture.core.area.fixed->prefixes, 0, sizeof(fixture.core.area.fixed->prefixes));
	atomic_store(&fixture.core.area.super->prefix_count, 0);
	for (uint32_t i = 0; i < KVH_PREFIXES_MAX; i++) {
		memcpy(identity, &i, sizeof(identity));
		assert_int_equal(intern("m@", identity, sizeof(identity), KVH_OK), i);
	}
	assert_int_equal(intern("n@", NULL, 0, KVH_BUSY), KVH_NONE);
	fixture_end(&fixture);
}

static int free_fixture(void **state)
{
	(void)state;
	fixture_free(&fixture);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(keys_of_one_tag_and_bucket_are_told_apart),
		cmocka_unit_test(prefixes_tell_equal_hashes_apart),
		cmocka_unit_test(texts_of_one_digest_are_told_apart),
		cmocka_unit_test(keys_of_any_length_are_told_apart),
		cmocka_unit_test(the_feed_names_keys_of_every_length),
		cmocka_unit_test(a_feed_that_ran_over_says_so_once),
		cmocka_unit_test(prefixes_are_the_same_if_text_and_identity_are),
		cmocka_unit_test(a_prefix_said_differently_is_refused),
		cmocka_unit_test(a_full_table_of_prefixes_is_busy),
	};

	return cmocka_run_group_tests(tests, NULL, free_fixture);
}
