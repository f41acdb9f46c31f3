/* SPDX-License-Identifier: Apache-2.0 */
/* Space of the core: geometry, eviction order, what must stay, quotas, holes, groups. */
#include "core_fixture.h"

enum { KIB64 = 64 << 10, REGION_UNITS = 16 };

static struct core_fixture fixture;

static uint32_t open_pool(uint32_t units)
{
	fixture_begin(&fixture, units);
	return fixture_prefix(&fixture, "p@", 0, 0, 32);
}

static void fill_pool(uint32_t prefix, uint64_t count, uint64_t bytes)
{
	for (uint64_t i = 0; i < count; i++)
		assert_int_equal(fixture_put(&fixture, prefix, i, bytes), KVH_OK);
}

static bool has(uint32_t prefix, uint64_t number)
{
	return fixture_find(&fixture, prefix, number).slot != KVH_NONE;
}

/* proves: S-15 */
static void a_geometry_that_offsets_cannot_name_is_refused(void **state)
{
	struct kvh_geometry geometry;

	(void)state;
	assert_int_equal(kvh_geometry_make(0, false, &geometry), KVH_INVALID_PARAMS);
	assert_int_equal(kvh_geometry_make(KVH_UNIT_BYTES - 1, false, &geometry),
	                 KVH_INVALID_PARAMS);
	assert_int_equal(kvh_geometry_make((UINT64_C(4) << 40) + KVH_UNIT_BYTES, false, &geometry),
	                 KVH_INVALID_PARAMS);
	assert_int_equal(kvh_geometry_make(UINT64_MAX, true, &geometry), KVH_INVALID_PARAMS);
	assert_int_equal(kvh_geometry_make(UINT64_C(4) << 40, true, &geometry), KVH_OK);
	assert_true(geometry.payload_offset_bytes % KVH_UNIT_BYTES == 0);
}

/* P7's figure: slot 64, index 15.3, links 8, and the fixed part over a million objects. */
static void a_million_objects_take_at_most_104_bytes_each(void **state)
{
	struct kvh_geometry geometry;

	(void)state;
	assert_int_equal(kvh_geometry_make(UINT64_C(1000000) * 16384, false, &geometry), KVH_OK);
	assert_int_equal(geometry.slot_count, 1000000);
	assert_true(geometry.payload_offset_bytes + 2 * KVH_VICTIMS_MAX * 16 <= 104 * 1000000);
}

/* proves: S-15 */
static void a_damaged_superblock_is_not_believed(void **state)
{
	unsigned char *bytes;
	struct kvh_error error = {0};
	uint64_t area_bytes;

	(void)state;
	open_pool(64);
	bytes = fixture.memory;
	area_bytes = fixture.core.area.geometry.area_bytes;
	assert_int_equal(kvh_area_check(bytes, area_bytes, &error), KVH_OK);
	assert_int_equal(kvh_area_check(bytes, area_bytes - 1, &error), KVH_INVALID_PARAMS);
	/* All of it but the record of the life before the first. */
	for (size_t i = 0;
	     i < offsetof(struct kvh_super, lives) + sizeof(fixture.core.area.super->lives); i++) {
		if (i >= offsetof(struct kvh_super, lives[0]) &&
		    i < offsetof(struct kvh_super, lives[1]))
			continue;
		bytes[i] ^= 0x10;
		assert_true(kvh_area_check(bytes, area_bytes, &error) < 0);
		assert_true(error.text[0]);
		bytes[i] ^= 0x10;
	}
	assert_int_equal(kvh_area_check(bytes, area_bytes, &error), KVH_OK);
	fixture_end(&fixture);
}

/* proves: S-15 */
static void the_newer_whole_life_counts(void **state)
{
	const uint64_t boot_id[2] = {1, 2};
	struct kvh_super *super;

	(void)state;
	open_pool(64);
	super = fixture.core.area.super;
	assert_int_equal(fixture.core.area.epoch, 0x5eed);
	kvh_area_empty(&fixture.core.area, 0xbeef, boot_id);
	assert_int_equal(kvh_area_life(super)->epoch, 0xbeef);
	assert_int_equal(kvh_area_life(super)->boot_id[1], 2);
	kvh_area_empty(&fixture.core.area, 0xcafe, boot_id);
	assert_int_equal(kvh_area_life(super)->epoch, 0xcafe);
	/* Torn while it was written: the one before still stands. */
	super->lives[kvh_area_life(super)->number % 2].checksum++;
	assert_int_equal(kvh_area_life(super)->epoch, 0xbeef);
	super->lives[kvh_area_life(super)->number % 2].epoch++;
	assert_null(kvh_area_life(super));
	fixture_end(&fixture);
}

/* proves: S-14 */
static void pinned_and_reserved_objects_stay_and_only_then_there_is_no_room(void **state)
{
	uint32_t prefix = open_pool(4 * REGION_UNITS);
	struct kvh_stored_key pinned = fixture_key(&fixture, prefix, 0);
	struct kvh_stored_key held = fixture_key(&fixture, prefix, 100);
	struct kvh_reserve_key reservation;
	struct kvh_pins pins;

	(void)state;
	fill_pool(prefix, 3, KIB64);
	assert_true(kvh_core_pin(&fixture.core, &pinned, 1, fixture_unit(&fixture), &pins));
	reservation = fixture_reserve_one(&fixture, &held, KIB64, 0);
	assert_int_equal(reservation.status, KVH_OK);
	/* Two are left to evict. */
	for (uint64_t i = 10; i < 30; i++)
		assert_int_equal(fixture_put(&fixture, prefix, i, KIB64), KVH_OK);
	assert_true(has(prefix, 0));
	/* Three regions in a row are not to be had with one pinned and one reserved of four. */
	assert_int_equal(fixture_put(&fixture, prefix, 50, 3 * KIB64), KVH_NO_AVAILABLE_HANDLE);
	assert_int_equal(fixture_put(&fixture, prefix, 51, 5 * KIB64), KVH_INVALID_PARAMS);
	assert_true(kvh_core_pin_holds(&fixture.core, &pins.refs[0]));
	kvh_core_unpin(&fixture.core, &pins);
	assert_int_equal(fixture_put(&fixture, prefix, 50, 3 * KIB64), KVH_OK);
	assert_int_equal(fixture_commit(&fixture, reservation.ref), KVH_OK);
	fixture_end(&fixture);
}

/* A removal of a pinned object is refused; S-4 says nothing is granted while it is pinned. */
/* proves: S-4 */
static void a_pinned_object_cannot_be_removed(void **state)
{
	uint32_t prefix = open_pool(4 * REGION_UNITS);
	struct kvh_stored_key key = fixture_key(&fixture, prefix, 0);
	struct kvh_pins pins;

	(void)state;
	fill_pool(prefix, 1, 100);
	assert_true(kvh_core_pin(&fixture.core, &key, 1, fixture_unit(&fixture), &pins));
	assert_int_equal(fixture_remove(&fixture, prefix, 0), KVH_OBJECT_HAS_LEASE);
	assert_true(has(prefix, 0));
	kvh_core_unpin(&fixture.core, &pins);
	assert_int_equal(fixture_remove(&fixture, prefix, 0), KVH_OK);
	assert_false(has(prefix, 0));
	assert_int_equal(fixture_used_units(&fixture), 0);
	fixture_end(&fixture);
}

static void a_session_has_31_pin_blocks(void **state)
{
	uint32_t prefix = open_pool(REGION_UNITS);
	struct kvh_stored_key key = fixture_key(&fixture, prefix, 0);
	struct kvh_pins pins[KVH_PIN_BLOCKS + 1];

	(void)state;
	for (unsigned i = 0; i < KVH_PIN_BLOCKS; i++)
		assert_true(kvh_core_pin(&fixture.core, &key, 1, 0, &pins[i]));
	assert_false(kvh_core_pin(&fixture.core, &key, 1, 0, &pins[KVH_PIN_BLOCKS]));
	kvh_core_unpin(&fixture.core, &pins[7]);
	assert_true(kvh_core_pin(&fixture.core, &key, 1, 0, &pins[KVH_PIN_BLOCKS]));
	assert_int_equal(pins[KVH_PIN_BLOCKS].block, pins[7].block);
	fixture_end(&fixture);
}

/* Field case B21: room is free, so it must serve any size. */
/* proves: S-14 */
static void removed_objects_leave_no_holes_behind(void **state)
{
	uint32_t prefix = open_pool(16 * REGION_UNITS);
	uint64_t seed = 21;

	(void)state;
	fill_pool(prefix, 16, KIB64);
	for (uint64_t i = 0; i < 16; i++)
		assert_int_equal(fixture_remove(&fixture, prefix, i), KVH_OK);
	assert_int_equal(fixture_put(&fixture, prefix, 100, 512 << 10), KVH_OK);
	for (uint64_t i = 200; i < 300; i++) {
		assert_int_equal(fixture_put(&fixture, prefix, i, i % 2 ? KIB64 : 96 << 10),
		                 KVH_OK);
		if (draw(&seed) % 2)
			fixture_remove(&fixture, prefix, i);
	}
	assert_int_equal(fixture_put(&fixture, prefix, 400, 256 << 10), KVH_OK);
	fixture_end(&fixture);
}

/* Field case B20: looking is not using. */
static void probes_alone_protect_nothing(void **state)
{
	uint32_t prefix = open_pool(8 * REGION_UNITS);

	(void)state;
	fill_pool(prefix, 8, KIB64);
	for (unsigned i = 0; i < 1000; i++)
		assert_true(has(prefix, i % 8));
	assert_int_equal(fixture_put(&fixture, prefix, 8, KIB64), KVH_OK);
	assert_false(has(prefix, 0));
	fixture_end(&fixture);
}

static void a_prefix_stays_within_its_quota(void **state)
{
	uint32_t free_prefix = open_pool(8 * REGION_UNITS);
	uint32_t prefix = fixture_prefix(&fixture, "q@", 0, 2 * KIB64, 32);

	(void)state;
	fill_pool(prefix, 2, KIB64);
	assert_int_equal(fixture_put(&fixture, prefix, 2, KIB64), KVH_NO_AVAILABLE_HANDLE);
	assert_int_equal(fixture_put(&fixture, prefix, 3, 3 * KIB64), KVH_INVALID_PARAMS);
	assert_int_equal(fixture_put(&fixture, free_prefix, 2, KIB64), KVH_OK);
	assert_int_equal(fixture_remove(&fixture, prefix, 0), KVH_OK);
	assert_int_equal(fixture_put(&fixture, prefix, 2, KIB64), KVH_OK);
	/* Said again with another quota. */
	assert_int_equal(fixture_prefix(&fixture, "q@", 0, 3 * KIB64, 32), prefix);
	assert_int_equal(fixture_put(&fixture, prefix, 4, KIB64), KVH_OK);
	fixture_end(&fixture);
}

static kvh_status put_with(uint32_t prefix, uint64_t number, uint32_t flags, uint64_t until_unit)
{
	struct kvh_stored_key key = fixture_key(&fixture, prefix, number);
	struct kvh_reserve_key one = {.key = &key, .length_bytes = KIB64};
	struct kvh_reserve reserve = {
		.keys = &one, .count = 1, .flags = flags, .until_unit = until_unit};

	fixture_reserve(&fixture, &reserve);
	return one.status ? one.status : fixture_commit(&fixture, one.ref);
}

/* Field case B26: parts of one unit go together, as late as the part used last. */
static void the_core_evicts_a_lifecycle_group_as_a_whole(void **state)
{
	uint32_t parts[3], other;
	struct kvh_core_ref ref;

	(void)state;
	other = open_pool(6 * REGION_UNITS);
	parts[0] = fixture_prefix(&fixture, "f@k@", 2, 0, 32);
	parts[1] = fixture_prefix(&fixture, "f@v@", 2, 0, 32);
	parts[2] = fixture_prefix(&fixture, "f@i@", 2, 0, 32);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(put_with(parts[i], 7, KVH_SLOT_GROUP, 0), KVH_OK);
	for (uint64_t i = 0; i < 3; i++)
		assert_int_equal(put_with(other, i, 0, 0), KVH_OK);
	ref = fixture_find(&fixture, parts[1], 7);
	kvh_core_touch(&fixture.core, &ref, 1, fixture_unit(&fixture));
	for (uint64_t i = 10; i < 13; i++)
		assert_int_equal(put_with(other, i, 0, 0), KVH_OK);
	for (unsigned i = 0; i < 3; i++)
		assert_true(has(parts[i], 7));
	assert_int_equal(put_with(other, 13, 0, 0), KVH_OK);
	for (unsigned i = 0; i < 3; i++)
		assert_false(has(parts[i], 7));
	fixture_end(&fixture);
}

/* proves: S-14 */
static void kept_objects_go_last_and_expired_ones_first(void **state)
{
	uint32_t prefix = open_pool(4 * REGION_UNITS);
	uint64_t now = fixture_unit(&fixture);

	(void)state;
	assert_int_equal(put_with(prefix, 0, 0, now + 100), KVH_OK); /* kept */
	assert_int_equal(put_with(prefix, 1, 3, 0), KVH_OK);
	assert_int_equal(put_with(prefix, 2, 0, 0), KVH_OK);
	assert_int_equal(put_with(prefix, 3, KVH_SLOT_EXPIRES | 3, now + 1), KVH_OK);
	fixture.now_ns += UNIT_NS;
	assert_false(has(prefix, 3));
	assert_int_equal(put_with(prefix, 10, 3, 0), KVH_OK);
	assert_true(has(prefix, 0) && has(prefix, 1) && has(prefix, 2));
	assert_int_equal(put_with(prefix, 11, 3, 0), KVH_OK);
	assert_false(has(prefix, 2));
	assert_int_equal(put_with(prefix, 12, 3, 0), KVH_OK);
	assert_false(has(prefix, 1));
	assert_int_equal(put_with(prefix, 13, 3, 0), KVH_OK);
	assert_int_equal(put_with(prefix, 14, 3, 0), KVH_OK);
	assert_true(has(prefix, 0));
	fixture.now_ns += 100 * UNIT_NS;
	assert_int_equal(put_with(prefix, 15, 3, 0), KVH_OK);
	assert_false(has(prefix, 0));
	fixture_end(&fixture);
}

static void put_small(uint32_t prefix, uint64_t number, uint32_t priority)
{
	struct kvh_stored_key key = fixture_key(&fixture, prefix, number);
	struct kvh_reserve_key one = fixture_reserve_one(&fixture, &key, KIB64 / 4, priority);

	assert_int_equal(one.status, KVH_OK);
	assert_int_equal(fixture_commit(&fixture, one.ref), KVH_OK);
}

/* A span that must stay for the lowest priority's sake may still go for the next one's. */
/* proves: S-14 */
static void a_span_of_mixed_priorities_goes_before_one_of_higher(void **state)
{
	uint32_t prefix = open_pool(2 * REGION_UNITS);

	(void)state;
	for (uint64_t i = 0; i < 4; i++)
		put_small(prefix, i, i == 1);
	for (uint64_t i = 4; i < 8; i++)
		put_small(prefix, i, 2);
	/* Needs all of a region. */
	assert_int_equal(fixture_put(&fixture, prefix, 100, KIB64), KVH_OK);
	for (uint64_t i = 0; i < 8; i++)
		assert_int_equal(has(prefix, i), i >= 4);
	fixture_end(&fixture);
}

/* 16 bits of 16 s are 12 days: a month must not bring an expired object back. */
static void times_hold_over_a_month(void **state)
{
	uint32_t prefix = open_pool(64 * REGION_UNITS);
	uint64_t day_ns = UINT64_C(86400) * 1000000000;

	(void)state;
	assert_int_equal(
		put_with(prefix, 0, KVH_SLOT_EXPIRES, kvh_time_until(fixture.now_ns, 86400)),
		KVH_OK);
	for (unsigned day = 1; day <= 31; day++) {
		uint64_t expiry;

		fixture.now_ns += day_ns;
		assert_false(has(prefix, 0));
		kvh_times_rebase(&fixture.core.area, fixture.now_ns);
		assert_false(has(prefix, 0));
		expiry = kvh_time_until(fixture.now_ns, 3 * 86400);
		assert_int_equal(put_with(prefix, day, KVH_SLOT_EXPIRES, expiry), KVH_OK);
		assert_true(has(prefix, day));
		assert_int_equal(has(prefix, day > 2 ? day - 2 : 1), true);
		if (day > 3)
			assert_false(has(prefix, day - 3));
	}
	/* Longer than the times reach: as long as they do. */
	assert_int_equal(kvh_time_until(fixture.now_ns, UINT64_MAX),
	                 (fixture.now_ns + KVH_TIME_SPAN_UNITS * UNIT_NS + UNIT_NS - 1) / UNIT_NS);
	fixture_end(&fixture);
}

/* proves: S-8 */
static void no_turn_evicts_more_than_64_under_one_lock(void **state)
{
	const uint64_t small_count = 8 * REGION_UNITS;
	uint32_t prefix = open_pool(8 * REGION_UNITS);
	uint64_t before;

	(void)state;
	fill_pool(prefix, small_count, KVH_UNIT_BYTES);
	before = fixture.lock_count;
	assert_int_equal(fixture_put(&fixture, prefix, 1000, small_count * KVH_UNIT_BYTES), KVH_OK);
	assert_true(fixture.lock_count - before >= small_count / KVH_TURN_KEYS_MAX);
	assert_int_equal(fixture_used_units(&fixture), small_count);
	fixture_end(&fixture);
}

/* proves: S-23 */
static void no_space_is_lost_over_storms_of_aborts_and_evictions(void **state)
{
	uint32_t prefix = open_pool(32 * REGION_UNITS);
	uint64_t seed = 23, removed = 0;
	uint32_t slot = 0;

	(void)state;
	for (unsigned i = 0; i < 20000; i++) {
		struct kvh_stored_key key = fixture_key(&fixture, prefix, draw(&seed) % 500);
		uint64_t bytes = 1 + draw(&seed) % (40 * KVH_UNIT_BYTES);
		struct kvh_reserve_key one = fixture_reserve_one(&fixture, &key, bytes, 0);

		if (one.status == KVH_OBJECT_ALREADY_EXISTS)
			continue;
		assert_int_equal(one.status, KVH_OK);
		if (draw(&seed) % 2)
			assert_int_equal(fixture_commit(&fixture, one.ref), KVH_OK);
		else
			assert_int_equal(fixture_abort(&fixture, one.ref), KVH_OK);
	}
	while (slot < kvh_slots_ever(&fixture.core.area))
		assert_true(kvh_core_clear(&fixture.core, &slot, 0, &removed));
	assert_int_equal(fixture_used_units(&fixture), 0);
	assert_int_equal(fixture_put(&fixture, prefix, 1, 32 * KIB64), KVH_OK);
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
		cmocka_unit_test(a_geometry_that_offsets_cannot_name_is_refused),
		cmocka_unit_test(a_million_objects_take_at_most_104_bytes_each),
		cmocka_unit_test(a_damaged_superblock_is_not_believed),
		cmocka_unit_test(the_newer_whole_life_counts),
		cmocka_unit_test(pinned_and_reserved_objects_stay_and_only_then_there_is_no_room),
		cmocka_unit_test(a_pinned_object_cannot_be_removed),
		cmocka_unit_test(a_session_has_31_pin_blocks),
		cmocka_unit_test(removed_objects_leave_no_holes_behind),
		cmocka_unit_test(probes_alone_protect_nothing),
		cmocka_unit_test(a_prefix_stays_within_its_quota),
		cmocka_unit_test(the_core_evicts_a_lifecycle_group_as_a_whole),
		cmocka_unit_test(kept_objects_go_last_and_expired_ones_first),
		cmocka_unit_test(a_span_of_mixed_priorities_goes_before_one_of_higher),
		cmocka_unit_test(times_hold_over_a_month),
		cmocka_unit_test(no_turn_evicts_more_than_64_under_one_lock),
		cmocka_unit_test(no_space_is_lost_over_storms_of_aborts_and_evictions),
	};

	return cmocka_run_group_tests(tests, NULL, free_fixture);
}
