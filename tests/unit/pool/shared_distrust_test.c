/* SPDX-License-Identifier: Apache-2.0 */
/* Words of a pool file that nothing else vouches for: forged one by one, and not believed. */
#include "damaged_pool.h"

/* From this one on they look like objects that lie anywhere. */
static void invent_objects(struct template *template, uint32_t first)
{
	uint64_t seed = 77;

	for (uint32_t i = first; i < template->area.geometry.slot_count; i++) {
		struct kvh_slot *slot = &template->area.slots[i];
		uint64_t *word = (uint64_t *)(void *)slot;

		for (size_t k = 1; k < sizeof(*slot) / sizeof(*word); k++)
			word[k] = draw(&seed);
		atomic_store(&slot->prefix_id, 0);
		atomic_store(&slot->ctl, kvh_ctl_make(i, 0, KVH_SLOT_VALID, 0));
	}
}

/* Fills with what can be evicted, three times over, then with what can't. */
static void evicts_to_the_last(struct template *template)
{
	struct kvh_token token;
	const struct kvh_put_options hold = {
		.struct_bytes = sizeof(hold), .flags = KVH_PUT_HOLD, .tokens = &token};
	struct pool pool;
	uint64_t held = 0;

	shared_open_at(&pool, template->place.url, &pool_time.env);
	for (uint64_t i = 0; i < 3 * UNITS; i++)
		assert_int_equal(put_number(&pool, AFTER + i, 2 * KVH_UNIT_BYTES - i, NULL), 0);
	for (uint64_t i = 3 * UNITS - UNITS / 4; i < 3 * UNITS; i++)
		assert_int_equal(get_number(&pool, AFTER + i, 2 * KVH_UNIT_BYTES - i),
		                 2 * KVH_UNIT_BYTES - i);
	/* Space ends before the slots do. */
	while (put_number(&pool, BEFORE + held, 2 * KVH_UNIT_BYTES, &hold) == 0)
		held++;
	assert_int_equal(held, UNITS / 2);
	assert_int_equal(put_number(&pool, BEFORE + held, 2 * KVH_UNIT_BYTES, NULL),
	                 KVH_NO_AVAILABLE_HANDLE);
	assert_true(atomic_load(&template->area.super->slots_ever) < UNITS);
	pool_close(&pool);
	closes_well_after_all(template, 0);
}

/* proves: S-15 */
static void slots_that_were_never_used_are_not_believed(void **state)
{
	struct template template;

	(void)state;
	template_init(&template, false, false);
	invent_objects(&template, atomic_load(&template.area.super->slots_ever));
	evicts_to_the_last(&template);
	template_fini(&template);
}

/* proves: S-15, S-1 */
static void no_damaged_byte_makes_an_object_of_a_reservation(void **state)
{
	struct template template;
	struct outcome outcome = {0};
	uint32_t slot = 0;

	(void)state;
	template_init(&template, true, false);
	while (kvh_ctl_state(atomic_load(&template.area.slots[slot].ctl)) != KVH_SLOT_RESERVED)
		slot++;
	for (unsigned round = 0; round < 3 * 256; round++) {
		unsigned char *ctl = (unsigned char *)(void *)&template.area.slots[slot];

		restore(&template);
		ctl[round / 256] = (unsigned char)round;
		round_holds(&template, round, 0, &outcome);
	}
	assert_int_equal(outcome.refused, 0);
	assert_int_equal(outcome.lost, 0);
	template_fini(&template);
}

/* A reservation into which a device may write on, of a session that says this of itself. */
static void quarantine(struct template *template, uint64_t serial, uint64_t dead_ns)
{
	struct kvh_session_record *record = &template->area.fixed->sessions[0];

	for (uint32_t i = 0; i < template->area.geometry.slot_count; i++) {
		struct kvh_slot *slot = &template->area.slots[i];
		uint64_t ctl = atomic_load(&slot->ctl);

		if (kvh_ctl_state(ctl) == KVH_SLOT_RESERVED)
			atomic_store(&slot->ctl, ctl | KVH_SLOT_DMA);
	}
	atomic_store(&record->serial, serial);
	atomic_store(&record->dead_ns, dead_ns);
}

/* proves: S-15, S-4, S-23 */
static void a_quarantine_ends_whatever_the_file_says_of_its_begin(void **state)
{
	const uint64_t began[] = {0, 1, UINT64_C(1) << 62, UINT64_MAX};
	struct template template;
	struct objects objects;
	struct pool pool;

	(void)state;
	template_init(&template, true, false);
	for (size_t i = 0; i < 2 * COUNT_OF(began); i++) {
		bool has_session = i % 2;

		restore(&template);
		quarantine(&template, has_session ? 1 : 0, began[i / 2]);
		shared_open_at(&pool, template.place.url, &pool_time.env);
		assert_int_equal(objects_init(&objects, &pool), KVH_OK);
		assert_int_equal(object_put(&objects, HELD, 2 * KVH_UNIT_BYTES, NULL), 0);
		/* Without a session nobody could ever give it back: it is nobody's. */
		if (!has_session)
			takes_all_space_again(&pool, i);
		pool_close(&pool);
		pool_time.now_ns += UINT64_C(11) * SECOND;
		shared_open_at(&pool, template.place.url, &pool_time.env);
		takes_all_space_again(&pool, i);
		pool_close(&pool);
	}
	template_fini(&template);
}

/* proves: S-15 */
static void a_count_of_slots_that_fell_hides_no_objects_that_come_back(void **state)
{
	struct template template;

	(void)state;
	for (unsigned killed = 0; killed < 2; killed++) {
		template_init(&template, killed, false);
		atomic_store(&template.area.super->slots_ever, 4);
		evicts_to_the_last(&template);
		template_fini(&template);
	}
}

/* proves: S-15 */
static void a_record_that_no_session_has_counts_for_nothing(void **state)
{
	struct template template;
	struct pool pool;

	(void)state;
	template_init(&template, false, false);
	for (uint32_t i = 0; i < KVH_SESSIONS_MAX; i++)
		atomic_store(&template.area.fixed->sessions[i].reserved_slots, 1000 + i);
	shared_open_at(&pool, template.place.url, &pool_time.env);
	assert_int_equal(pool_stats(&pool).reserved_objects, 0);
	assert_int_equal(pool_stats(&pool).objects, OBJECTS);
	pool_close(&pool);
	template_fini(&template);
}

/* proves: S-15 */
static void no_object_is_younger_than_the_clock_of_uses(void **state)
{
	const uint64_t counters[] = {0, UINT64_C(1) << 47, UINT64_C(1) << 48, UINT64_MAX};
	struct template template;
	static struct numbered n;
	struct objects objects;
	struct pool pool;
	bool wrong = false;

	(void)state;
	template_init(&template, true, false);
	for (size_t i = 0; i < COUNT_OF(counters); i++) {
		struct kvh_super *super = template.area.super;

		restore(&template);
		for (uint32_t k = 0; k < atomic_load(&super->slots_ever); k++)
			atomic_store(&template.area.slots[k].use, (UINT64_C(1) << 62) + (k << 16));
		if (counters[i])
			atomic_store(&super->use_counter, counters[i]);
		shared_open_at(&pool, template.place.url, &pool_time.env);
		assert_int_equal(objects_init(&objects, &pool), KVH_OK);
		pool.prefix = pool_intern(&pool, "after-the-damage@", HASH_BYTES, 0, 0);
		put_all(&pool, &n, AFTER, i);
		for (uint64_t k = 0; k < OBJECTS; k++)
			assert_int_equal(object_get(&objects, k, bytes_of(k), &wrong),
			                 KVH_OBJECT_NOT_FOUND);
		pool_close(&pool);
	}
	template_fini(&template);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		shared_test(slots_that_were_never_used_are_not_believed),
		shared_test(no_damaged_byte_makes_an_object_of_a_reservation),
		shared_test(a_quarantine_ends_whatever_the_file_says_of_its_begin),
		shared_test(a_record_that_no_session_has_counts_for_nothing),
		shared_test(no_object_is_younger_than_the_clock_of_uses),
		shared_test(a_count_of_slots_that_fell_hides_no_objects_that_come_back),
	};

	shared_begin();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
