/* SPDX-License-Identifier: Apache-2.0 */
/* Rebuild, dead sessions, and what bad metadata does: nothing but a miss. */
#include "core_fixture.h"

enum { OBJECTS = 40, REGION_UNITS = 16 };

#define DEAD_DMA_NS UINT64_C(10000000000)

static struct core_fixture fixture;

static uint32_t open_filled(uint32_t prefix_hash_bytes)
{
	uint32_t prefix;

	fixture_begin(&fixture, 64 * REGION_UNITS);
	prefix = fixture_prefix(&fixture, "p@", 0, 0, prefix_hash_bytes);
	for (uint64_t i = 0; i < OBJECTS; i++)
		assert_int_equal(fixture_put(&fixture, prefix, i, (1 + i % 5) * KVH_UNIT_BYTES),
		                 KVH_OK);
	return prefix;
}

static uint64_t count_present(uint32_t prefix)
{
	uint64_t count = 0;

	for (uint64_t i = 0; i < OBJECTS; i++)
		count += fixture_find(&fixture, prefix, i).slot != KVH_NONE;
	return count;
}

static struct kvh_slot *slot_of(uint32_t prefix, uint64_t number)
{
	struct kvh_core_ref ref = fixture_find(&fixture, prefix, number);

	assert_int_not_equal(ref.slot, KVH_NONE);
	return &fixture.core.area.slots[ref.slot];
}

static uint64_t dropped(void)
{
	return atomic_load(&fixture.core.area.fixed->tally.dropped_slots);
}

/* Fills every derived word with something wrong. */
static void ruin_derived(void)
{
	struct kvh_area *area = &fixture.core.area;
	const struct kvh_geometry *g = &area->geometry;

	memset(area->buckets, 0xff, g->bucket_count * sizeof(*area->buckets));
	memset(area->links, 0x5a, g->slot_count * sizeof(*area->links));
	memset(area->regions, 0x5a, g->region_count * sizeof(*area->regions));
	for (uint32_t i = 0; i < g->region_count * g->region_bitmap_words; i++)
		atomic_store(&area->bitmap[i], 0x5a5a);
	memset(&area->fixed->victims, 0xff, sizeof(area->fixed->victims));
	memset(area->fixed->victim_lists, 0xff, 4096);
	memset(area->fixed->prefix_states, 0x5a, 8 * sizeof(area->fixed->prefix_states[0]));
	memset(area->fixed->classes, 0x5a, sizeof(area->fixed->classes));
	atomic_store(&area->fixed->tally.used_units, 12345);
	atomic_store(&area->fixed->tally.free_slot, 3);
}

/* proves: S-7, S-23 */
static void ruined_derived_data_comes_back_the_same(void **state)
{
	uint32_t prefix = open_filled(32);
	uint64_t used_units = fixture_used_units(&fixture);

	(void)state;
	for (unsigned times = 0; times < 3; times++) {
		ruin_derived();
		fixture_rebuild(&fixture);
		assert_int_equal(count_present(prefix), OBJECTS);
		assert_int_equal(fixture_used_units(&fixture), used_units);
		assert_int_equal(dropped(), 0);
	}
	/* And all of it can be used: everything goes for one object as large as the pool. */
	assert_int_equal(fixture_put(&fixture, prefix, 1000, 64 * REGION_UNITS * KVH_UNIT_BYTES),
	                 KVH_OK);
	assert_int_equal(count_present(prefix), 0);
	fixture_end(&fixture);
}

/* proves: S-15 */
static void slots_with_bad_fields_are_dropped_and_their_space_returns(void **state)
{
	uint32_t prefix = open_filled(32);
	struct kvh_slot *bad[5];
	uint64_t ctl;

	(void)state;
	for (uint64_t i = 0; i < COUNT_OF(bad); i++)
		bad[i] = slot_of(prefix, i);
	atomic_store(&bad[0]->extent_unit, UINT32_MAX);
	atomic_store(&bad[1]->length_bytes, UINT32_MAX);
	atomic_store(&bad[2]->prefix_id, KVH_PREFIXES_MAX + 1);
	atomic_fetch_add(&bad[3]->word[2], 1);
	/* A state that there is none of. */
	ctl = atomic_load(&bad[4]->ctl);
	atomic_store(&bad[4]->ctl, (ctl & ~UINT64_C(0xf00)) | 0x900);
	fixture_rebuild(&fixture);
	assert_int_equal(dropped(), COUNT_OF(bad));
	assert_int_equal(count_present(prefix), OBJECTS - COUNT_OF(bad));
	assert_int_equal(fixture_put(&fixture, prefix, 1000, 64 * REGION_UNITS * KVH_UNIT_BYTES),
	                 KVH_OK);
	fixture_end(&fixture);
}

/* proves: S-15 */
static void a_record_that_its_check_word_denies_is_not_read(void **state)
{
	uint32_t prefix = open_filled(32);
	struct kvh_stored_key key = fixture_key(&fixture, prefix, 1);
	struct kvh_slot *slot = slot_of(prefix, 1);
	struct kvh_pins pins;

	(void)state;
	atomic_fetch_add(&slot->extent_unit, 1);
	assert_true(kvh_core_pin(&fixture.core, &key, 1, 0, &pins));
	assert_int_equal(pins.refs[0].slot, KVH_NONE);
	kvh_core_unpin(&fixture.core, &pins);
	atomic_fetch_sub(&slot->extent_unit, 1);
	assert_true(kvh_core_pin(&fixture.core, &key, 1, 0, &pins));
	assert_int_not_equal(pins.refs[0].slot, KVH_NONE);
	kvh_core_unpin(&fixture.core, &pins);
	fixture_end(&fixture);
}

/* The check word is right each time: only the values are wrong. */
static void write_checked(struct kvh_slot *slot, uint32_t extent_unit, uint32_t length_bytes)
{
	uint64_t generation = kvh_ctl_generation(atomic_load(&slot->ctl));

	atomic_store(&slot->extent_unit, extent_unit);
	atomic_store(&slot->length_bytes, length_bytes);
	atomic_store(&slot->check, kvh_slot_check(slot, generation));
}

/* proves: S-15 */
static void extents_off_the_grid_or_taken_are_dropped(void **state)
{
	uint32_t prefix = open_filled(32);
	/* Objects 2 and 7 are of 3 units, 3 is of 4. */
	struct kvh_slot *taken = slot_of(prefix, 7), *off = slot_of(prefix, 2);
	struct kvh_slot *large = slot_of(prefix, 3), *outside = slot_of(prefix, 4);

	(void)state;
	write_checked(taken, atomic_load(&slot_of(prefix, 12)->extent_unit), 1);
	write_checked(off, atomic_load(&off->extent_unit) + 1, 1);
	write_checked(large, atomic_load(&large->extent_unit), 5 * KVH_UNIT_BYTES);
	write_checked(outside, 64 * REGION_UNITS - 1, 2 * KVH_UNIT_BYTES);
	fixture_rebuild(&fixture);
	assert_int_equal(dropped(), 4);
	assert_int_equal(count_present(prefix), OBJECTS - 4);
	fixture_end(&fixture);
}

/* proves: S-15 */
static void shapes_that_do_not_fit_each_other_are_taken_back(void **state)
{
	uint32_t prefix = open_filled(32);
	struct kvh_area *area = &fixture.core.area;
	uint64_t seed = 15;

	(void)state;
	for (unsigned times = 0; times < 200; times++) {
		atomic_store(&area->shapes[draw(&seed) % area->geometry.region_count],
		             draw(&seed) >> draw(&seed) % 64);
		fixture_rebuild(&fixture);
		for (uint64_t i = 0; i < OBJECTS; i++)
			fixture_put(&fixture, prefix, draw(&seed) % OBJECTS,
			            (1 + i % 5) * KVH_UNIT_BYTES);
	}
	assert_true(dropped() > 0);
	assert_int_equal(fixture_put(&fixture, prefix, 1000, 64 * REGION_UNITS * KVH_UNIT_BYTES),
	                 KVH_OK);
	fixture_end(&fixture);
}

/* proves: S-15 */
static void random_damage_never_does_worse_than_a_miss(void **state)
{
	uint64_t seed = 99;

	(void)state;
	for (unsigned times = 0; times < 300; times++) {
		uint32_t prefix = open_filled(times % 2 ? 32 : 0);
		struct kvh_area *area = &fixture.core.area;
		unsigned char *slots = (unsigned char *)area->slots;

		for (unsigned i = 0; i < 1 + times % 20; i++)
			slots[draw(&seed) % (OBJECTS * sizeof(struct kvh_slot))] ^=
				(unsigned char)(1 + draw(&seed) % 255);
		if (times % 3 == 0)
			area->fixed->prefixes[0].body[0] ^= 1;
		fixture_rebuild(&fixture);
		if (times % 3 == 0) {
			assert_int_equal(atomic_load(&area->super->prefix_count), 0);
			prefix = fixture_prefix(&fixture, "p@", 0, 0, 32);
		}
		assert_int_equal(fixture_put(&fixture, prefix, 1000,
		                             (64 * REGION_UNITS - 1) * KVH_UNIT_BYTES),
		                 KVH_OK);
		fixture_end(&fixture);
	}
}

/* Whoever died between DYING and FREE: the key is in the feed, the space is back. */
/* proves: S-13, S-23 */
static void an_eviction_that_stopped_midway_is_finished(void **state)
{
	uint32_t prefix = open_filled(32);
	struct kvh_stored_key pinned_key = fixture_key(&fixture, prefix, 1);
	struct kvh_slot *dying = slot_of(prefix, 0), *pinned = slot_of(prefix, 1);
	struct kvh_evicted_key keys[KVH_TURN_KEYS_MAX];
	struct kvh_pins pins;
	bool lost = false;

	(void)state;
	assert_true(kvh_core_pin(&fixture.core, &pinned_key, 1, 0, &pins));
	atomic_store(&dying->ctl, kvh_ctl_with_state(atomic_load(&dying->ctl), KVH_SLOT_DYING));
	atomic_store(&pinned->ctl, kvh_ctl_with_state(atomic_load(&pinned->ctl), KVH_SLOT_DYING));
	fixture_rebuild(&fixture);
	assert_int_equal(count_present(prefix), OBJECTS - 1);
	assert_int_not_equal(fixture_find(&fixture, prefix, 1).slot, KVH_NONE);
	assert_int_equal(kvh_core_take_evicted(&fixture.core, keys, KVH_TURN_KEYS_MAX, &lost), 1);
	kvh_core_unpin(&fixture.core, &pins);
	fixture_end(&fixture);
}

/* Its writer lives on: what a rebuild takes from it must leave its count. */
/* proves: S-5, S-7, S-23 */
static void an_abandoned_reservation_is_freed_and_counted_no_more(void **state)
{
	uint32_t prefix = open_filled(32);
	struct kvh_stored_key abandoned = fixture_key(&fixture, prefix, 500),
			      kept = fixture_key(&fixture, prefix, 501);
	uint64_t used_units = fixture_used_units(&fixture);
	struct kvh_store_stats stats = {.struct_bytes = sizeof(stats)};
	struct kvh_core_ref refs[] = {fixture_reserve_one(&fixture, &abandoned, 100, 0).ref,
	                              fixture_reserve_one(&fixture, &kept, 100, 0).ref};
	kvh_status status;

	(void)state;
	kvh_core_abandon(&fixture.core, refs, 1, &status);
	assert_int_equal(status, KVH_OK);
	fixture_rebuild(&fixture);
	kvh_core_stats(&fixture.core, &stats);
	assert_int_equal(stats.reserved_objects, 1);
	assert_int_equal(fixture_abort(&fixture, refs[0]), KVH_OBJECT_NOT_FOUND);
	assert_int_equal(fixture_abort(&fixture, refs[1]), KVH_OK);
	kvh_core_stats(&fixture.core, &stats);
	assert_int_equal(stats.reserved_objects, 0);
	assert_int_equal(fixture_used_units(&fixture), used_units);
	fixture_end(&fixture);
}

/* Field case B23: a writer died between reserve and commit. */
/* proves: S-5, S-6, S-10, S-11, S-23 */
static void a_dead_writers_reservations_return(void **state)
{
	uint32_t prefix = open_filled(32), own = fixture.core.session,
		 dead = fixture_session(&fixture);
	struct kvh_stored_key key = fixture_key(&fixture, prefix, 500);
	uint64_t used_units = fixture_used_units(&fixture);
	uint64_t serial = atomic_load(&fixture.core.area.fixed->sessions[dead].serial);
	struct kvh_reserve_key late, again;

	(void)state;
	fixture.core.session = dead;
	late = fixture_reserve_one(&fixture, &key, 100, 0);
	fixture.core.session = own;
	assert_int_equal(fixture_reserve_one(&fixture, &key, 100, 0).status, KVH_BUSY);
	fixture_dies(&fixture, dead);
	again = fixture_reserve_one(&fixture, &key, 100, 0);
	assert_int_equal(again.status, KVH_OK);
	/* Its record is not reused before it is reaped, its serial never. */
	assert_int_not_equal(fixture_session(&fixture), dead);
	assert_int_equal(fixture_reap(&fixture, dead, fixture.now_ns), KVH_REAP_DONE);
	assert_int_equal(fixture_session(&fixture), dead);
	assert_true(atomic_load(&fixture.core.area.fixed->sessions[dead].serial) > serial);
	assert_int_equal(fixture_commit(&fixture, late.ref), KVH_OBJECT_NOT_FOUND);
	assert_int_equal(fixture_abort(&fixture, again.ref), KVH_OK);
	assert_int_equal(fixture_used_units(&fixture), used_units);
	fixture_end(&fixture);
}

/* proves: S-4 */
static void space_under_a_dead_writers_device_stays_ten_seconds(void **state)
{
	uint32_t prefix = open_filled(32), own = fixture.core.session,
		 dead = fixture_session(&fixture);
	struct kvh_stored_key key = fixture_key(&fixture, prefix, 500);
	uint64_t used_units = fixture_used_units(&fixture);

	(void)state;
	fixture.core.session = dead;
	assert_int_equal(fixture_reserve_one(&fixture, &key, 100, KVH_SLOT_DMA).status, KVH_OK);
	fixture.core.session = own;
	fixture_dies(&fixture, dead);
	assert_int_equal(fixture_reap(&fixture, dead, fixture.now_ns), KVH_REAP_LATER);
	fixture_rebuild(&fixture);
	assert_int_equal(fixture_used_units(&fixture), used_units + 1);
	/* The key itself is free at once. */
	assert_int_equal(fixture_put(&fixture, prefix, 500, 100), KVH_OK);
	fixture_rebuild(&fixture);
	assert_int_not_equal(fixture_find(&fixture, prefix, 500).slot, KVH_NONE);
	assert_int_equal(fixture_reap(&fixture, dead, fixture.now_ns + DEAD_DMA_NS - 1),
	                 KVH_REAP_LATER);
	assert_int_equal(fixture_reap(&fixture, dead, fixture.now_ns + DEAD_DMA_NS), KVH_REAP_DONE);
	assert_int_equal(fixture_used_units(&fixture), used_units + 1);
	fixture_end(&fixture);
}

/* proves: S-6 */
static void a_dead_readers_pins_do_not_count(void **state)
{
	uint32_t prefix = open_filled(32), own = fixture.core.session,
		 dead = fixture_session(&fixture);
	struct kvh_stored_key key = fixture_key(&fixture, prefix, 0);
	struct kvh_pins pins;

	(void)state;
	fixture.core.session = dead;
	assert_true(kvh_core_pin(&fixture.core, &key, 1, 0, &pins));
	fixture.core.session = own;
	assert_int_equal(fixture_remove(&fixture, prefix, 0), KVH_OBJECT_HAS_LEASE);
	fixture_dies(&fixture, dead);
	assert_int_equal(fixture_remove(&fixture, prefix, 0), KVH_OK);
	assert_int_equal(fixture_reap(&fixture, dead, fixture.now_ns), KVH_REAP_DONE);
	assert_int_equal(atomic_load(&fixture.core.area.fixed->sessions[dead].blocks_used), 0);
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
		cmocka_unit_test(ruined_derived_data_comes_back_the_same),
		cmocka_unit_test(slots_with_bad_fields_are_dropped_and_their_space_returns),
		cmocka_unit_test(a_record_that_its_check_word_denies_is_not_read),
		cmocka_unit_test(extents_off_the_grid_or_taken_are_dropped),
		cmocka_unit_test(shapes_that_do_not_fit_each_other_are_taken_back),
		cmocka_unit_test(random_damage_never_does_worse_than_a_miss),
		cmocka_unit_test(an_eviction_that_stopped_midway_is_finished),
		cmocka_unit_test(an_abandoned_reservation_is_freed_and_counted_no_more),
		cmocka_unit_test(a_dead_writers_reservations_return),
		cmocka_unit_test(space_under_a_dead_writers_device_stays_ten_seconds),
		cmocka_unit_test(a_dead_readers_pins_do_not_count),
	};

	return cmocka_run_group_tests(tests, NULL, free_fixture);
}
