/* SPDX-License-Identifier: Apache-2.0 */
/* Walking over a core's objects: each once, pinned, unused, and no more than a damaged area has. */
#include "core_fixture.h"

#include "pool/core/keys.h"
#include "pool/core/list.h"

enum { UNITS = 4096, OBJECTS = 150 };

static struct core_fixture fixture;

static uint32_t open_pool(uint32_t hash_bytes)
{
	fixture_begin(&fixture, UNITS);
	return fixture_prefix(&fixture, "p@", 0, 0, hash_bytes);
}

static void begin(struct kvh_core_walk *walk)
{
	assert_true(kvh_core_walk_begin(&fixture.core, walk, 0));
}

/* To the next object; false: there is none. */
static bool next(struct kvh_core_walk *walk)
{
	do {
		if (kvh_core_walk_next(&fixture.core, walk, fixture_unit(&fixture)))
			return true;
	} while (!kvh_core_walk_over(&fixture.core, walk));
	return false;
}

static struct kvh_listed tell(const struct kvh_core_walk *walk, uint8_t *hash)
{
	struct kvh_listed listed;

	kvh_core_walk_tell(&fixture.core, walk, fixture.now_ns, hash, &listed);
	return listed;
}

static size_t count_all(bool good)
{
	struct kvh_core_walk walk;
	size_t count = 0;

	begin(&walk);
	while (next(&walk))
		count += walk.good == good;
	kvh_core_walk_end(&fixture.core, &walk);
	return count;
}

static uint64_t pins(void)
{
	struct kvh_store_stats stats = {.struct_bytes = sizeof(stats)};

	kvh_core_stats(&fixture.core, &stats);
	return stats.pinned_objects;
}

/* The reservation stays: only VALID objects are told of (S-1). */
static struct kvh_core_ref reserve_one(uint32_t prefix, uint64_t number)
{
	struct kvh_stored_key key = fixture_key(&fixture, prefix, number);
	struct kvh_reserve_key one = fixture_reserve_one(&fixture, &key, 100, 0);

	assert_int_equal(one.status, KVH_OK);
	return one.ref;
}

/* proves: S-1, S-8 */
static void each_valid_object_is_met_once_without_the_lock(void **state)
{
	uint32_t prefix = open_pool(32);
	bool met[UNITS] = {false};
	struct kvh_core_walk walk;
	struct kvh_core_ref reserved;
	uint64_t locks;
	size_t count = 0;

	(void)state;
	for (uint64_t i = 0; i < OBJECTS; i++)
		assert_int_equal(fixture_put(&fixture, prefix, i, 100 + i), KVH_OK);
	for (uint64_t i = 0; i < OBJECTS; i += 3)
		assert_int_equal(fixture_remove(&fixture, prefix, i), KVH_OK);
	reserved = reserve_one(prefix, 1000);
	locks = fixture.lock_count;
	begin(&walk);
	while (next(&walk)) {
		assert_true(walk.good);
		assert_false(met[walk.ref.slot]);
		assert_int_not_equal(walk.ref.slot, reserved.slot);
		met[walk.ref.slot] = true;
		count++;
	}
	kvh_core_walk_end(&fixture.core, &walk);
	assert_int_equal(count, OBJECTS - OBJECTS / 3);
	assert_int_equal(fixture.lock_count, locks);
	fixture_end(&fixture);
}

/* A turn looks at 64 slots at most, also where all of them are free. */
/* proves: S-8 */
static void a_turn_is_bounded(void **state)
{
	uint32_t prefix = open_pool(32);
	struct kvh_core_walk walk;

	(void)state;
	for (uint64_t i = 0; i < OBJECTS; i++)
		assert_int_equal(fixture_put(&fixture, prefix, i, 1), KVH_OK);
	for (uint64_t i = 0; i < OBJECTS; i++)
		assert_int_equal(fixture_remove(&fixture, prefix, i), KVH_OK);
	begin(&walk);
	assert_false(kvh_core_walk_next(&fixture.core, &walk, fixture_unit(&fixture)));
	assert_int_equal(walk.slot, KVH_TURN_KEYS_MAX);
	assert_false(kvh_core_walk_over(&fixture.core, &walk));
	kvh_core_walk_end(&fixture.core, &walk);
	/* From anywhere. */
	assert_true(kvh_core_walk_begin(&fixture.core, &walk, UINT32_MAX));
	assert_true(kvh_core_walk_over(&fixture.core, &walk));
	assert_false(kvh_core_walk_next(&fixture.core, &walk, fixture_unit(&fixture)));
	kvh_core_walk_end(&fixture.core, &walk);
	fixture_end(&fixture);
}

/* proves: S-4 */
static void what_is_looked_at_stays_until_the_walk_goes_on(void **state)
{
	uint32_t prefix = open_pool(32);
	struct kvh_core_walk walk;
	uint8_t hash[KVH_KEY_HASH_BYTES_MAX];

	(void)state;
	assert_int_equal(fixture_put(&fixture, prefix, 1, 100), KVH_OK);
	assert_int_equal(fixture_put(&fixture, prefix, 2, 200), KVH_OK);
	begin(&walk);
	assert_int_equal(pins(), 0);
	assert_true(next(&walk));
	assert_int_equal(pins(), 1);
	assert_int_equal(tell(&walk, hash).bytes, 100);
	assert_int_equal(fixture_remove(&fixture, prefix, 1), KVH_OBJECT_HAS_LEASE);
	assert_int_equal(fixture_remove(&fixture, prefix, 2), KVH_OK);
	assert_int_equal(fixture_put(&fixture, prefix, 3, UNITS * KVH_UNIT_BYTES),
	                 KVH_NO_AVAILABLE_HANDLE);
	assert_true(kvh_core_pin_holds(&fixture.core, &walk.ref));
	assert_false(next(&walk));
	assert_int_equal(pins(), 0);
	assert_int_equal(fixture_remove(&fixture, prefix, 1), KVH_OK);
	kvh_core_walk_end(&fixture.core, &walk);
	assert_int_equal(
		atomic_load(&fixture.core.area.fixed->sessions[fixture.core.session].blocks_used),
		0);
	fixture_end(&fixture);
}

/* proves: B20 */
static void being_looked_at_is_no_use(void **state)
{
	uint32_t prefix = open_pool(32);
	uint64_t uses[OBJECTS], counter;
	uint8_t hash[KVH_KEY_HASH_BYTES_MAX];
	struct kvh_core_walk walk;

	(void)state;
	for (uint64_t i = 0; i < OBJECTS; i++)
		assert_int_equal(fixture_put(&fixture, prefix, i, 1), KVH_OK);
	counter = atomic_load(&fixture.core.area.super->use_counter);
	for (uint32_t i = 0; i < OBJECTS; i++)
		uses[i] = atomic_load(&fixture.core.area.slots[i].use);
	begin(&walk);
	while (next(&walk))
		tell(&walk, hash);
	kvh_core_walk_end(&fixture.core, &walk);
	for (uint32_t i = 0; i < OBJECTS; i++)
		assert_int_equal(atomic_load(&fixture.core.area.slots[i].use), uses[i]);
	assert_int_equal(atomic_load(&fixture.core.area.super->use_counter), counter);
	fixture_end(&fixture);
}

static void without_a_pin_block_there_is_no_walk(void **state)
{
	struct kvh_core_walk walks[KVH_PIN_BLOCKS], one_more;

	(void)state;
	open_pool(32);
	for (unsigned i = 0; i < KVH_PIN_BLOCKS; i++)
		begin(&walks[i]);
	assert_false(kvh_core_walk_begin(&fixture.core, &one_more, 0));
	kvh_core_walk_end(&fixture.core, &walks[7]);
	assert_true(kvh_core_walk_begin(&fixture.core, &one_more, 0));
	fixture_end(&fixture);
}

/* An eviction on its way, stopped between its two steps. */
/* proves: S-1 */
static void a_dying_object_is_not_told_of(void **state)
{
	uint32_t prefix = open_pool(32);
	struct kvh_core_ref ref;
	struct kvh_slot *slot;

	(void)state;
	assert_int_equal(fixture_put(&fixture, prefix, 1, 100), KVH_OK);
	ref = fixture_find(&fixture, prefix, 1);
	slot = &fixture.core.area.slots[ref.slot];
	atomic_store(&slot->ctl, kvh_ctl_with_state(ref.ctl, KVH_SLOT_DYING));
	assert_int_equal(count_all(true), 0);
	assert_int_equal(pins(), 0);
	atomic_store(&slot->ctl, ref.ctl);
	assert_int_equal(count_all(true), 1);
	fixture_end(&fixture);
}

/* ---- what is told ------------------------------------------------------------------------- */

static kvh_status put_key(const struct kvh_stored_key *key, uint64_t bytes, uint32_t flags,
                          uint64_t until_unit)
{
	struct kvh_reserve_key one = {.key = key, .length_bytes = bytes};
	struct kvh_reserve reserve = {
		.keys = &one, .count = 1, .flags = flags, .until_unit = until_unit};

	fixture_reserve(&fixture, &reserve);
	if (one.status)
		return one.status;
	if (key->text_bytes)
		memcpy(kvh_core_extent(&fixture.core, one.ref.slot) + bytes, key->text,
		       key->text_bytes);
	return fixture_commit(&fixture, one.ref);
}

static struct kvh_stored_key key_of(uint32_t prefix_id, const uint8_t *hash, uint32_t hash_bytes)
{
	struct kvh_key key = {.hash = hash, .hash_bytes = hash_bytes, .prefix_id = prefix_id};
	struct kvh_stored_key stored;

	kvh_core_prepare(&fixture.core, &key, 1, &stored);
	return stored;
}

static void expect_one(uint32_t prefix, const uint8_t *text, uint32_t hash_bytes)
{
	struct kvh_stored_key key = key_of(prefix, text, hash_bytes);
	uint8_t hash[KVH_KEY_HASH_BYTES_MAX];
	struct kvh_core_walk walk;
	struct kvh_listed listed;
	kvh_status status;

	assert_int_equal(put_key(&key, 10, 0, 0), KVH_OK);
	begin(&walk);
	assert_true(next(&walk));
	listed = tell(&walk, hash);
	assert_int_equal(listed.key.prefix_id, prefix);
	assert_int_equal(listed.key.hash_bytes, hash_bytes);
	assert_memory_equal(listed.key.hash, text, hash_bytes);
	assert_int_equal(listed.flags, 0);
	assert_false(next(&walk));
	kvh_core_walk_end(&fixture.core, &walk);
	assert_true(kvh_core_remove(&fixture.core, &key, 1, 0, 0, &status));
	assert_int_equal(status, KVH_OK);
}

/* proves: S-12 */
static void keys_of_every_length_are_told_whole(void **state)
{
	static const uint32_t any[] = {1, 2, 31, 32, 33, 100, KVH_KEY_HASH_BYTES_MAX};
	static const uint32_t fixed[] = {1, 16, 32, 33, KVH_KEY_HASH_BYTES_MAX};
	uint8_t text[KVH_KEY_HASH_BYTES_MAX];
	uint32_t prefix = open_pool(0);

	(void)state;
	for (size_t i = 0; i < sizeof(text); i++)
		text[i] = (uint8_t)(i + 1);
	for (size_t i = 0; i < COUNT_OF(any); i++)
		expect_one(prefix, text, any[i]);
	for (size_t i = 0; i < COUNT_OF(fixed); i++) {
		char name[] = {(char)('a' + (char)i), '@', 0};

		expect_one(fixture_prefix(&fixture, name, 0, 0, fixed[i]), text, fixed[i]);
	}
	fixture_end(&fixture);
}

static struct kvh_listed listed_number(uint32_t prefix, uint64_t number)
{
	struct kvh_core_ref ref = fixture_find(&fixture, prefix, number);
	uint8_t hash[KVH_KEY_HASH_BYTES_MAX];
	struct kvh_core_walk walk;
	struct kvh_listed listed;

	assert_true(kvh_core_walk_begin(&fixture.core, &walk, ref.slot));
	assert_true(next(&walk));
	assert_int_equal(walk.ref.slot, ref.slot);
	listed = tell(&walk, hash);
	kvh_core_walk_end(&fixture.core, &walk);
	return listed;
}

/* proves: B42 */
static void priority_age_and_times_are_told(void **state)
{
	uint32_t prefix = open_pool(32);
	struct kvh_stored_key keys[3];
	uint64_t in_60_s = kvh_time_until(fixture.now_ns, 60);
	struct kvh_listed listed;

	(void)state;
	for (uint64_t i = 0; i < 3; i++)
		keys[i] = fixture_key(&fixture, prefix, i);
	assert_int_equal(put_key(&keys[0], 5, 3, in_60_s), KVH_OK);
	assert_int_equal(put_key(&keys[1], 6, KVH_SLOT_EXPIRES | KVH_SLOT_GROUP, in_60_s), KVH_OK);
	assert_int_equal(put_key(&keys[2], 7, 1, 0), KVH_OK);
	listed = listed_number(prefix, 0);
	assert_int_equal(listed.priority, 3);
	assert_true(listed.keep_seconds >= 60 && listed.keep_seconds <= 76);
	assert_int_equal(listed.expire_seconds, 0);
	assert_int_equal(listed.flags, 0);
	listed = listed_number(prefix, 1);
	assert_int_equal(listed.keep_seconds, 0);
	assert_true(listed.expire_seconds >= 60 && listed.expire_seconds <= 76);
	assert_int_equal(listed.flags, KVH_LISTED_LIFECYCLE_GROUP);
	assert_true(listed.uses_since > listed_number(prefix, 2).uses_since);
	assert_int_equal(listed_number(prefix, 2).keep_seconds, 0);
	assert_int_equal(listed_number(prefix, 2).expire_seconds, 0);
	fixture.now_ns += 100 * UINT64_C(1000000000);
	assert_int_equal(listed_number(prefix, 0).keep_seconds, 0);
	/* The expired one is no object any more. */
	assert_int_equal(count_all(true), 2);
	fixture_end(&fixture);
}

/* ---- damage ------------------------------------------------------------------------------- */

/* The one object whose record does not hold; nothing of it may lead out of the area. */
static struct kvh_listed bad_one(uint8_t *hash)
{
	struct kvh_listed listed = {0};
	struct kvh_core_walk walk;

	begin(&walk);
	while (next(&walk))
		if (!walk.good)
			listed = tell(&walk, hash);
	kvh_core_walk_end(&fixture.core, &walk);
	return listed;
}

/* proves: S-15 */
static void a_damaged_record_is_told_as_such(void **state)
{
	uint32_t prefix = open_pool(32);
	uint8_t hash[KVH_KEY_HASH_BYTES_MAX];
	struct kvh_slot *slot, saved;
	struct kvh_listed listed;

	(void)state;
	assert_int_equal(fixture_put(&fixture, prefix, 1, 100), KVH_OK);
	assert_int_equal(fixture_put(&fixture, prefix, 2, 100), KVH_OK);
	slot = &fixture.core.area.slots[fixture_find(&fixture, prefix, 1).slot];
	memcpy(&saved, slot, sizeof(saved));
	for (unsigned bit = 0; bit < 32; bit++) {
		_Atomic uint32_t *const fields[] = {&slot->prefix_id, &slot->extent_unit,
		                                    &slot->length_bytes, &slot->check};

		for (unsigned i = 0; i < COUNT_OF(fields); i++) {
			atomic_fetch_xor(fields[i], UINT32_C(1) << bit);
			assert_int_equal(count_all(true), 1);
			listed = bad_one(hash);
			assert_int_equal(listed.flags, KVH_LISTED_BAD_RECORD);
			assert_true(listed.key.hash_bytes <= 32);
			/* Whatever bit of these is wrong, the key itself can be told. */
			if (i > 0)
				assert_int_equal(listed.key.hash_bytes, 32);
			memcpy(slot, &saved, sizeof(saved));
		}
	}
	assert_int_equal(count_all(true), 2);
	fixture_end(&fixture);
}

/* Lengths of texts and of raw hashes, where a prefix of any length leaves them to the record. */
/* proves: S-15 */
static void damaged_lengths_lead_nowhere(void **state)
{
	uint32_t prefix = open_pool(0);
	uint8_t text[40] = {1, 2, 3}, hash[KVH_KEY_HASH_BYTES_MAX];
	struct kvh_stored_key raw = key_of(prefix, text, 5), digest = key_of(prefix, text, 40);
	struct kvh_evicted_key evicted;
	struct kvh_listed listed;

	(void)state;
	assert_int_equal(put_key(&raw, 10, 0, 0), KVH_OK);
	assert_int_equal(put_key(&digest, 10, 0, 0), KVH_OK);
	for (unsigned value = 0; value < 256; value++) {
		struct kvh_slot *slot = &fixture.core.area.slots[0];
		uint64_t word = raw.word[3] & ~(UINT64_C(0xff) << 56);

		if (value == 5)
			continue;
		atomic_store(&slot->word[3], word | (uint64_t)value << 56);
		listed = bad_one(hash);
		assert_int_equal(listed.flags, KVH_LISTED_BAD_RECORD);
		assert_true(listed.key.hash_bytes <= 31);
		kvh_slot_key(&fixture.core.area, slot, &evicted);
		atomic_store(&slot->word[3], raw.word[3]);
	}
	for (unsigned bit = 0; bit < 32; bit++) {
		struct kvh_slot *slot = &fixture.core.area.slots[1];

		atomic_fetch_xor(&slot->word[2], UINT64_C(1) << bit);
		listed = bad_one(hash);
		assert_int_equal(listed.flags, KVH_LISTED_BAD_RECORD);
		assert_int_equal(listed.key.hash_bytes, 0);
		assert_int_equal(listed.key.prefix_id, KVH_NONE);
		atomic_store(&slot->word[2], digest.word[2]);
	}
	assert_int_equal(count_all(true), 2);
	fixture_end(&fixture);
}

/* ---- prefixes ----------------------------------------------------------------------------- */

/* proves: S-15 */
static void only_a_whole_prefix_record_is_read(void **state)
{
	uint32_t id;
	struct kvh_area *area = &fixture.core.area;
	struct kvh_prefix_record *record;
	struct kvh_prefix prefix;
	char text[KVH_PREFIX_TEXT_BYTES_MAX];

	(void)state;
	open_pool(32);
	id = fixture_prefix(&fixture, "family@rank@", 7, 1000, 16);
	record = &area->fixed->prefixes[id];
	assert_true(kvh_prefix_record_read(area, id, text, &prefix));
	assert_ptr_equal(prefix.text, text);
	assert_int_equal(prefix.text_bytes, 12);
	assert_memory_equal(text, "family@rank@", 12);
	assert_int_equal(prefix.family_bytes, 7);
	assert_int_equal(prefix.hash_bytes, 16);
	assert_int_equal(prefix.identity_bytes, 0);
	assert_false(kvh_prefix_record_read(area, id + 1, text, &prefix));
	assert_false(kvh_prefix_record_read(area, UINT32_MAX, text, &prefix));
	/* The count comes from the area, too. */
	atomic_store(&area->super->prefix_count, UINT32_MAX);
	assert_false(kvh_prefix_record_read(area, KVH_PREFIXES_MAX, text, &prefix));
	for (size_t byte = offsetof(struct kvh_prefix_record, checksum); byte < sizeof(*record);
	     byte++) {
		((unsigned char *)record)[byte] ^= 0x80;
		assert_false(kvh_prefix_record_read(area, id, text, &prefix));
		((unsigned char *)record)[byte] ^= 0x80;
	}
	assert_true(kvh_prefix_record_read(area, id, text, &prefix));
	atomic_store(&area->super->prefix_count, id + 1);
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
		cmocka_unit_test(each_valid_object_is_met_once_without_the_lock),
		cmocka_unit_test(a_turn_is_bounded),
		cmocka_unit_test(what_is_looked_at_stays_until_the_walk_goes_on),
		cmocka_unit_test(being_looked_at_is_no_use),
		cmocka_unit_test(without_a_pin_block_there_is_no_walk),
		cmocka_unit_test(a_dying_object_is_not_told_of),
		cmocka_unit_test(keys_of_every_length_are_told_whole),
		cmocka_unit_test(priority_age_and_times_are_told),
		cmocka_unit_test(a_damaged_record_is_told_as_such),
		cmocka_unit_test(damaged_lengths_lead_nowhere),
		cmocka_unit_test(only_a_whole_prefix_record_is_read),
	};

	return cmocka_run_group_tests(tests, NULL, free_fixture);
}
