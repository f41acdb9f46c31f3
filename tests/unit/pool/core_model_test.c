/* SPDX-License-Identifier: Apache-2.0 */
/* Random sequences of calls on the core and on the naive model: every answer must be the same. */
#include "core_fixture.h"
#include "core_model.h"

#include <stdio.h>

enum { SEQUENCES = 10000, STEPS_MAX = 120, KEYS_MAX = 3, SIZES_MAX = 24 };

struct run {
	struct core_fixture fixture;
	struct model model;
	uint64_t first_seed; /* of the sequence */
	uint64_t seed;
	uint32_t prefixes[MODEL_PREFIXES];
	struct kvh_stored_key keys[MODEL_OBJECTS];
	struct kvh_core_ref held[MODEL_OBJECTS]; /* of reserved objects */
	uint32_t sizes[SIZES_MAX];
	uint32_t size_count;
	bool uses_times, uses_groups, uses_priorities, uses_holds;
};

static uint32_t below(struct run *run, uint32_t limit)
{
	return (uint32_t)(draw(&run->seed) % limit);
}

static bool sometimes(struct run *run, uint32_t one_in)
{
	return below(run, one_in) == 0;
}

/* ---- a random world -------------------------------------------------------------------- */

static void make_sizes(struct run *run, uint32_t units)
{
	uint32_t largest = units / 2 > 1 ? units / 2 : 1;

	run->size_count = 1 + below(run, sometimes(run, 4) ? SIZES_MAX : 4);
	if (sometimes(run, 2))
		largest = largest < 12 ? largest : 12;
	for (uint32_t i = 0; i < run->size_count; i++)
		run->sizes[i] = 1 + below(run, largest);
	/* More than there can be. */
	if (sometimes(run, 8))
		run->sizes[0] = units + 1;
}

static void make_prefixes(struct run *run)
{
	static const char *const texts[MODEL_PREFIXES] = {"f@a@", "f@b@", "f@c@", "g@"};
	uint32_t quota = sometimes(run, 3) ? 1 + below(run, 40) : 0;

	for (uint32_t i = 0; i < MODEL_PREFIXES; i++) {
		bool last = i + 1 == MODEL_PREFIXES;

		run->prefixes[i] = fixture_prefix(&run->fixture, texts[i], last ? 0 : 2,
		                                  last ? (uint64_t)quota * KVH_UNIT_BYTES : 0, 32);
		run->model.family[i] = !last;
		run->model.quota_units[i] = last ? quota : 0;
	}
	for (uint32_t i = 0; i < MODEL_OBJECTS; i++)
		run->keys[i] = fixture_key(&run->fixture, run->prefixes[i / MODEL_HASHES],
		                           i % MODEL_HASHES);
}

static void begin(struct run *run, uint64_t seed)
{
	uint32_t units;

	memset(&run->model, 0, sizeof(run->model));
	run->seed = seed;
	units = 1 + below(run, sometimes(run, 2) ? 200 : MODEL_REGIONS * REGION_UNITS);
	fixture_begin(&run->fixture, units);
	assert_int_equal(run->fixture.core.area.geometry.region_units, REGION_UNITS);
	if (sometimes(run, 4))
		run->fixture.core.hash_mask = 0;
	else if (sometimes(run, 4))
		run->fixture.core.hash_mask = UINT32_MAX;
	/* Short lists of victims, so that many scans are needed. */
	if (sometimes(run, 2))
		run->fixture.core.victims_max = 1 + below(run, 20);
	run->model.unit_count = units;
	run->model.region_count = run->fixture.core.area.geometry.region_count;
	run->model.now_unit = fixture_unit(&run->fixture);
	run->uses_times = sometimes(run, 2);
	run->uses_groups = sometimes(run, 2);
	run->uses_priorities = sometimes(run, 2);
	run->uses_holds = sometimes(run, 2);
	make_sizes(run, units);
	make_prefixes(run);
}

/* ---- one step on both ------------------------------------------------------------------ */

static void make_put(struct run *run, struct model_put *put)
{
	*put = (struct model_put){.object = below(run, MODEL_OBJECTS),
	                          .units = run->sizes[below(run, run->size_count)]};
	if (run->uses_groups)
		put->grouped = sometimes(run, 2);
	if (run->uses_priorities)
		put->priority = below(run, 4);
	if (run->uses_times && sometimes(run, 2)) {
		put->until = run->model.now_unit + 1 + below(run, 6);
		put->expires = sometimes(run, 2);
	}
}

static uint32_t flags_of(const struct model_put *put)
{
	return put->priority | (put->expires ? (uint32_t)KVH_SLOT_EXPIRES : 0) |
	       (put->grouped ? (uint32_t)KVH_SLOT_GROUP : 0);
}

static void same_reservation(struct run *run, const struct model_put *put,
                             const struct kvh_reserve_key *key)
{
	kvh_status expected = model_reserve(&run->model, put);
	struct model_object *object = &run->model.objects[put->object];

	assert_int_equal(key->status, expected);
	if (expected)
		return;
	object->slot = key->ref.slot;
	run->held[put->object] = key->ref;
	/* True now, stale as soon as the object has gone: the answer must not depend on it. */
	run->keys[put->object].likely_slot = key->ref.slot;
	assert_int_equal(atomic_load(&run->fixture.core.area.slots[key->ref.slot].extent_unit),
	                 object->at_unit);
}

static void step_put(struct run *run)
{
	struct kvh_reserve_key keys[KEYS_MAX] = {0};
	struct model_put puts[KEYS_MAX];
	struct kvh_reserve reserve = {.keys = keys, .count = 1 + below(run, KEYS_MAX)};

	make_put(run, &puts[0]);
	reserve.flags = flags_of(&puts[0]);
	reserve.until_unit = puts[0].until;
	for (size_t i = 0; i < reserve.count; i++) {
		/* One call has one set of options. */
		puts[i] = puts[0];
		if (i) {
			puts[i].object = below(run, MODEL_OBJECTS);
			puts[i].units = run->sizes[below(run, run->size_count)];
		}
		keys[i].key = &run->keys[puts[i].object];
		keys[i].length_bytes = (uint64_t)puts[i].units * KVH_UNIT_BYTES - below(run, 100);
	}
	fixture_reserve(&run->fixture, &reserve);
	model_reserve_begin(&run->model);
	for (size_t i = 0; i < reserve.count; i++)
		same_reservation(run, &puts[i], &keys[i]);
	for (size_t i = 0; i < reserve.count; i++) {
		if (keys[i].status || (run->uses_holds && sometimes(run, 3)))
			continue;
		assert_int_equal(fixture_commit(&run->fixture, keys[i].ref), KVH_OK);
		assert_int_equal(model_commit(&run->model, puts[i].object), KVH_OK);
	}
}

/* Commits or aborts some reservation, often one that is gone (S-11). */
static void step_settle(struct run *run)
{
	uint32_t object = below(run, MODEL_OBJECTS);

	for (unsigned i = 0; i < MODEL_OBJECTS && sometimes(run, 40) == 0; i++) {
		if (run->model.objects[object].state == MODEL_RESERVED)
			break;
		object = (object + 1) % MODEL_OBJECTS;
	}
	if (run->held[object].ctl == 0)
		return;
	if (sometimes(run, 2))
		assert_int_equal(fixture_commit(&run->fixture, run->held[object]),
		                 model_commit(&run->model, object));
	else
		assert_int_equal(fixture_abort(&run->fixture, run->held[object]),
		                 model_abort(&run->model, object));
}

static void step_touch(struct run *run)
{
	uint32_t object = below(run, MODEL_OBJECTS);
	uint64_t now_unit = fixture_unit(&run->fixture);
	struct kvh_core_ref ref;

	assert_true(kvh_core_has(&run->fixture.core, &run->keys[object], now_unit, &ref));
	assert_int_equal(ref.slot != KVH_NONE, model_exists(&run->model, object));
	if (ref.slot == KVH_NONE)
		return;
	assert_int_equal(ref.slot, run->model.objects[object].slot);
	kvh_core_touch(&run->fixture.core, &ref, 1, now_unit);
	model_touch(&run->model, object);
}

static void step_remove(struct run *run)
{
	uint32_t object = below(run, MODEL_OBJECTS);
	kvh_status status;

	assert_true(kvh_core_remove(&run->fixture.core, &run->keys[object], 1,
	                            fixture_unit(&run->fixture), 0, &status));
	assert_int_equal(status, model_remove(&run->model, object));
}

static void step_clear(struct run *run)
{
	uint64_t removed = 0, valid = model_count(&run->model, MODEL_VALID);
	uint32_t slot = 0;

	while (slot < kvh_slots_ever(&run->fixture.core.area))
		assert_true(kvh_core_clear(&run->fixture.core, &slot, 0, &removed));
	model_clear(&run->model);
	assert_int_equal(removed, valid);
}

static void step(struct run *run)
{
	uint32_t what = below(run, 100);

	if (what < 55)
		step_put(run);
	else if (what < 70)
		step_touch(run);
	else if (what < 80)
		step_settle(run);
	else if (what < 88)
		step_remove(run);
	else if (what < 96) {
		run->fixture.now_ns +=
			below(run, 2 * (uint32_t)(UNIT_NS / 1000000)) * UINT64_C(1000000);
		run->model.now_unit = fixture_unit(&run->fixture);
	} else if (what < 99) {
		fixture_rebuild(&run->fixture);
		model_rebuild(&run->model);
	} else {
		step_clear(run);
	}
}

/* ---- compare --------------------------------------------------------------------------- */

static void same_feed(struct run *run)
{
	struct kvh_evicted_key keys[KVH_TURN_KEYS_MAX];
	size_t count, at = 0;
	bool lost = false;

	do {
		count = kvh_core_take_evicted(&run->fixture.core, keys, KVH_TURN_KEYS_MAX, &lost);
		assert_true(at + count <= run->model.left_count);
		for (size_t i = 0; i < count; i++, at++) {
			const struct kvh_stored_key *key = &run->keys[run->model.left[at]];

			assert_int_equal(keys[i].prefix_id, key->prefix_id);
			assert_int_equal(keys[i].hash_bytes, 32);
			assert_memory_equal(keys[i].hash, key->word, 32);
		}
	} while (count);
	assert_false(lost);
	assert_int_equal(at, run->model.left_count);
	run->model.left_count = 0;
}

static void same_counts(struct run *run)
{
	struct kvh_store_stats stats;

	kvh_core_stats(&run->fixture.core, &stats);
	assert_int_equal(stats.objects, model_count(&run->model, MODEL_VALID));
	assert_int_equal(stats.reserved_objects, model_count(&run->model, MODEL_RESERVED));
	assert_int_equal(stats.used_bytes / KVH_UNIT_BYTES, model_used_units(&run->model));
	assert_int_equal(atomic_load(&run->fixture.core.area.fixed->tally.dropped_slots), 0);
}

static void same_objects(struct run *run)
{
	for (uint32_t i = 0; i < MODEL_OBJECTS; i++) {
		struct kvh_core_ref ref = kvh_core_find(&run->fixture.core, &run->keys[i], 0,
		                                        fixture_unit(&run->fixture));

		assert_int_equal(ref.slot != KVH_NONE, model_exists(&run->model, i));
	}
}

/* proves: S-1, S-2, S-7, S-10, S-11, S-12, S-13, S-14 */
static void the_core_does_what_the_model_says(void **state)
{
	static struct run run;
	uint64_t sequences = SEQUENCES, first = 0;

	if (getenv("KVH_MODEL_SEED")) {
		first = strtoull(getenv("KVH_MODEL_SEED"), NULL, 0);
		sequences = first + 1;
	}
	for (uint64_t seed = first; seed < sequences; seed++) {
		uint32_t steps;

		*state = &run;
		run.first_seed = seed;
		begin(&run, seed);
		memset(run.held, 0, sizeof(run.held));
		steps = 10 + below(&run, STEPS_MAX);
		for (uint32_t i = 0; i < steps; i++) {
			step(&run);
			same_feed(&run);
			same_counts(&run);
		}
		same_objects(&run);
		fixture_end(&run.fixture);
		*state = NULL;
	}
	fixture_free(&run.fixture);
}

/* A failed sequence runs alone with KVH_MODEL_SEED set to its seed. */
static int say_seed(void **state)
{
	const struct run *run = *state;

	if (run)
		print_message("failed with KVH_MODEL_SEED=%llu\n",
		              (unsigned long long)run->first_seed);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(the_core_does_what_the_model_says, say_seed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
