/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Damaged pool files: an open either refuses with words or puts right what it can. Never a wrong
 * object, never a crash, and the space is there again.
 */
#include "file_objects.h"

#include "pool/core/slots.h"

enum {
	OBJECTS = 36,
	UNITS = FIXTURE_KEYS_MAX, /* 16 regions of 16 */
	SIZES = 16,               /* each with a class of its own; later ones are rounded */
	HELD = 900,
	BEFORE = 5000,
	AFTER = 10000
};

/* A pool as a process left it. */
struct template
{
	struct place place;
	struct mapped mapped; /* the file, which every round begins anew */
	unsigned char *bytes;
	struct kvh_area area; /* in the file */
	bool verify;
};

static struct fixed_time pool_time;
static uint64_t round_count = 200; /* of random damage; the command line may ask for more */

static size_t bytes_of(uint64_t number)
{
	static const size_t units[] = {1, 1, 2, 1, 3, 17, 1, 5};

	return units[number % COUNT_OF(units)] * KVH_UNIT_BYTES - 100 - number;
}

/* ---- what is damaged -------------------------------------------------------------------- */

static void fill_template(struct pool *pool)
{
	struct kvh_token token;
	const struct kvh_put_options hold = {
		.struct_bytes = sizeof(hold), .flags = KVH_PUT_HOLD, .tokens = &token};
	struct objects objects;
	bool wrong = false;

	CHILD_CHECK(objects_init(&objects, pool) == KVH_OK);
	for (uint64_t i = 0; i < SIZES; i++) {
		CHILD_CHECK(child_puts(pool, i, (i + 1) * KVH_UNIT_BYTES) == 0);
		CHILD_CHECK(kvh_store_clear(pool->store, NULL, NULL) == KVH_OK);
	}
	for (uint64_t i = 0; i < OBJECTS; i++)
		CHILD_CHECK(object_put(&objects, i, bytes_of(i), NULL) == 0);
	/* Some were used since, some left, one is being written. */
	for (uint64_t i = 0; i < OBJECTS; i += 4)
		object_get(&objects, i, bytes_of(i), &wrong);
	for (uint64_t i = 0; i < 3; i++)
		CHILD_CHECK(object_put(&objects, HELD + i, 2 * KVH_UNIT_BYTES, &hold) == 0);
	CHILD_CHECK(!wrong);
}

struct maker {
	const char *url;
	bool killed;
};

static void makes(const void *ctx)
{
	const struct maker *maker = ctx;
	const struct kvh_store_options options = {.struct_bytes = sizeof(options),
	                                          .env = &pool_time.env};
	struct pool pool = {.memory_bytes = MIB, .memory = calloc(1, MIB)};

	CHILD_CHECK(pool.memory);
	CHILD_CHECK(kvh_store_open(maker->url, &options, &pool.store, NULL) == KVH_OK);
	CHILD_CHECK(kvh_store_register(pool.store, pool.memory, pool.memory_bytes, KVH_MEMORY_HOST,
	                               &pool.region, NULL) == KVH_OK);
	pool.prefix = 0;
	fill_template(&pool);
	if (maker->killed)
		raise(SIGKILL);
	CHILD_CHECK(kvh_store_close(pool.store, 0) == KVH_OK);
	free(pool.memory);
}

static void template_init(struct template *template, bool killed, bool verify)
{
	struct maker maker = {.killed = killed};
	char options[64];
	pid_t child;
	int status;

	fixed_time_init(&pool_time);
	snprintf(options, sizeof(options), "?size=%d&verify=%d", UNITS * KVH_UNIT_BYTES, verify);
	template->place = place_of("pool", options);
	template->verify = verify;
	maker.url = template->place.url;
	child = run_child(makes, &maker);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(killed ? WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL : status == 0);
	template->mapped = map_pool(template->place.path);
	kvh_area_attach(&template->area, template->mapped.fixed);
	assert_true(killed == !atomic_load(&template->area.super->clean_mark));
	template->bytes = malloc(template->mapped.bytes);
	assert_non_null(template->bytes);
	memcpy(template->bytes, template->mapped.fixed, template->mapped.bytes);
}

static void template_fini(struct template *template)
{
	unlink(template->place.path);
	unmap_pool(&template->mapped);
	free(template->bytes);
}

/* ---- what must hold --------------------------------------------------------------------- */

struct outcome {
	uint64_t refused, present, lost, mismatches;
};

static void may_miss_but_not_lie(const struct template *template, struct objects *objects,
                                 uint64_t seed, struct outcome *outcome)
{
	bool wrong = false;

	for (uint64_t i = 0; i < OBJECTS; i++) {
		int64_t value = object_get(objects, i, bytes_of(i), &wrong);

		if (wrong)
			fail_msg("seed %" PRIu64 ": wrong bytes for object %" PRIu64, seed, i);
		if (value > 0)
			outcome->present++;
		else if (value == KVH_OBJECT_NOT_FOUND)
			outcome->lost++;
		else if (value == KVH_CHECKSUM_MISMATCH && template->verify)
			outcome->mismatches++;
		else
			fail_msg("seed %" PRIu64 ": object %" PRIu64 " is %" PRId64, seed, i,
			         value);
	}
	for (uint64_t i = 0; i < 3; i++)
		if (object_get(objects, HELD + i, 2 * KVH_UNIT_BYTES, &wrong) > 0)
			fail_msg("seed %" PRIu64 ": an object that nobody committed", seed);
}

/* Objects of a unit, as many as there are units, of a prefix that no damage can have met. */
static void put_all(struct pool *pool, struct numbered *n, uint64_t first, uint64_t seed)
{
	uint64_t numbers[UNITS];

	for (uint64_t i = 0; i < UNITS; i++)
		numbers[i] = first + i;
	numbered_make(n, pool, numbers, UNITS, KVH_UNIT_BYTES);
	assert_int_equal(kvh_store_put(pool->store, &n->batch, NULL, NULL), KVH_OK);
	for (uint64_t i = 0; i < UNITS; i++)
		if (n->results[i].value != 0)
			fail_msg("seed %" PRIu64 ": put %" PRIu64 ": %" PRId64, seed, i,
			         n->results[i].value);
}

static void takes_all_space_again(struct pool *pool, uint64_t seed)
{
	static struct numbered n;
	struct kvh_store_stats stats;

	pool->prefix = pool_intern(pool, "after-the-damage@", HASH_BYTES, 0, 0);
	/* Where a device may have written is free only after a while. */
	pool_time.now_ns += UINT64_C(11) * SECOND;
	/* Over what is there: damaged words may say that some of it is worth more. */
	put_all(pool, &n, BEFORE, seed);
	assert_int_equal(kvh_store_clear(pool->store, NULL, NULL), KVH_OK);
	put_all(pool, &n, AFTER, seed);
	n.batch.values = NULL;
	assert_int_equal(kvh_store_exists(pool->store, &n.batch, KVH_EXISTS_LOOKUP, NULL), KVH_OK);
	for (uint64_t i = 0; i < UNITS; i++)
		if (n.results[i].value != 1)
			fail_msg("seed %" PRIu64 ": no space for %" PRIu64, seed, i);
	stats = pool_stats(pool);
	assert_int_equal(stats.objects, UNITS);
	assert_int_equal(stats.reserved_objects, 0);
	assert_int_equal(stats.pinned_objects, 0);
	assert_int_equal(stats.used_bytes, UNITS * KVH_UNIT_BYTES);
}

static void closes_well_after_all(struct template *template, uint64_t seed)
{
	uint64_t before = atomic_load(&template->area.super->rebuild_counter);
	struct pool pool;

	shared_open_at(&pool, template->place.url, &pool_time.env);
	if (atomic_load(&template->area.super->rebuild_counter) != before)
		fail_msg("seed %" PRIu64 ": not clean after a close", seed);
	pool_close(&pool);
}

enum { ALL_SPACE = 1, AGAIN = 2 };

static void round_holds(struct template *template, uint64_t seed, unsigned wanted,
                        struct outcome *outcome)
{
	struct kvh_store *store;
	struct kvh_error error;
	struct objects objects;
	struct pool pool;
	kvh_status status = try_open(template->place.url, &pool_time.env, &store, &error);

	if (status) {
		assert_true(error.text[0]);
		if (status != KVH_INVALID_PARAMS && status != KVH_NOT_SUPPORTED)
			fail_msg("seed %" PRIu64 ": %d %s", seed, status, error.text);
		outcome->refused++;
		return;
	}
	adopt_store(&pool, store);
	assert_int_equal(objects_init(&objects, &pool), KVH_OK);
	may_miss_but_not_lie(template, &objects, seed, outcome);
	if (wanted & ALL_SPACE)
		takes_all_space_again(&pool, seed);
	pool_close(&pool);
	if (wanted & AGAIN)
		closes_well_after_all(template, seed);
}

static void restore(struct template *template)
{
	memcpy(template->mapped.fixed, template->bytes, template->mapped.bytes);
	pool_time.now_ns = UINT64_C(1000) * SECOND;
}

/* ---- every byte of the superblock ------------------------------------------------------- */

static void flip_each_byte(bool killed)
{
	struct template template;
	struct outcome outcome = {0};
	uint64_t checked = offsetof(struct kvh_super, lives);

	template_init(&template, killed, false);
	for (uint64_t at = 0; at < KVH_UNIT_BYTES; at++) {
		uint64_t refused_before = outcome.refused, lost_before = outcome.lost;

		/* A refused open changes nothing, and no more did what the padding brought. */
		if (at % 64 == 0 || (at > checked && at < sizeof(struct kvh_super)))
			restore(&template);
		template.mapped.fixed->super_bytes[at] ^= (unsigned char)(1 << at % 8);
		round_holds(&template, at, at < sizeof(struct kvh_super) ? ALL_SPACE | AGAIN : 0,
		            &outcome);
		/* What was written once is refused, what nobody reads is nothing. */
		if (at < checked)
			assert_int_equal(outcome.refused, refused_before + 1);
		if (at >= sizeof(struct kvh_super)) {
			assert_int_equal(outcome.refused, refused_before);
			assert_int_equal(outcome.lost, lost_before);
		}
		template.mapped.fixed->super_bytes[at] ^= (unsigned char)(1 << at % 8);
	}
	template_fini(&template);
}

/* proves: S-15, S-23 */
static void each_flipped_byte_of_a_clean_superblock_is_refused_or_put_right(void **state)
{
	(void)state;
	flip_each_byte(false);
}

/* proves: S-15, S-23 */
static void each_flipped_byte_of_a_killed_superblock_is_refused_or_put_right(void **state)
{
	(void)state;
	flip_each_byte(true);
}

/* ---- anything anywhere ------------------------------------------------------------------ */

struct part {
	void *start;
	size_t bytes;
};

/* So that small parts are met as often as large ones. Of the large ones, what is in use. */
static struct part pick_part(const struct template *template, uint64_t *seed)
{
	const struct kvh_area *a = &template->area;
	const struct kvh_geometry *g = &a->geometry;
	struct kvh_area_fixed *f = a->fixed;
	const size_t slots = 64;
	const struct part parts[] = {
		{&f->super.lock, sizeof(f->super) - offsetof(struct kvh_super, lock)},
		{&f->super.class_units, 2 * sizeof(f->super.class_units)},
		{f->prefixes, 4 * sizeof(f->prefixes[0])},
		{f->sessions, sizeof(f->sessions[0])},
		{f->sessions, sizeof(f->sessions)},
		{f->ring, sizeof(f->ring)},
		{f->victim_lists, sizeof(f->victim_lists)},
		{&f->victims, sizeof(f->victims)},
		{f->prefix_states, 4 * sizeof(f->prefix_states[0])},
		{f->classes, sizeof(f->classes)},
		{&f->tally, sizeof(f->tally)},
		{a->slots, slots * sizeof(a->slots[0])},
		{a->slots, g->slot_count * sizeof(a->slots[0])},
		{a->links, slots * sizeof(a->links[0])},
		{a->buckets, g->bucket_count * sizeof(a->buckets[0])},
		{a->shapes, g->region_count * sizeof(a->shapes[0])},
		{a->regions, g->region_count * sizeof(a->regions[0])},
		{a->bitmap, g->region_count * g->region_bitmap_words * sizeof(a->bitmap[0])},
		/* The last one, where there is one. */
		{a->sums, slots * sizeof(uint64_t)},
	};
	size_t count = COUNT_OF(parts) - !template->verify;

	return parts[draw(seed) % count];
}

static uint64_t odd_value(uint64_t *seed)
{
	static const uint64_t edges[] = {0,          1,          0x7fffffff,       0x80000000,
	                                 UINT32_MAX, UINT64_MAX, UINT64_C(1) << 63};
	uint64_t value = draw(seed);

	if (value % 3 == 0)
		return edges[draw(seed) % COUNT_OF(edges)];
	return value >> draw(seed) % 64;
}

static void damage(const struct template *template, uint64_t *seed)
{
	struct part part = pick_part(template, seed);
	unsigned char *start = part.start;
	size_t words = part.bytes / sizeof(uint64_t);
	uint64_t *word = (uint64_t *)part.start + draw(seed) % words;
	uint64_t value = odd_value(seed);
	size_t other;

	switch (draw(seed) % 8) {
	case 0:
		*word ^= UINT64_C(1) << draw(seed) % 64;
		break;
	case 1:
		start[draw(seed) % part.bytes] = (unsigned char)draw(seed);
		break;
	case 2:
		((uint32_t *)part.start)[draw(seed) % (part.bytes / 4)] = (uint32_t)value;
		break;
	case 3:
		*word = value;
		break;
	case 4:
		*word += draw(seed) % 16 - 8;
		break;
	case 5: /* what stands elsewhere in the same part */
		other = draw(seed) % (part.bytes / 64) * 64;
		memmove(start + draw(seed) % (part.bytes / 64) * 64, start + other, 64);
		break;
	case 6:
		other = draw(seed) % part.bytes;
		memset(start + other, value & 1 ? 0 : (int)value,
		       draw(seed) % (part.bytes - other));
		break;
	default:
		for (other = 0; other < 1 + draw(seed) % 64; other++)
			start[draw(seed) % part.bytes] = (unsigned char)draw(seed);
		break;
	}
}

static void damage_anything(bool killed, bool verify)
{
	struct template template;
	struct outcome outcome = {0};

	template_init(&template, killed, verify);
	for (uint64_t round = 0; round < round_count; round++) {
		uint64_t seed = round * 4 + killed * 2 + verify, state = seed;

		restore(&template);
		for (uint64_t times = 1 + draw(&state) % 3; times > 0; times--)
			damage(&template, &state);
		round_holds(&template, seed, ALL_SPACE | (round % 8 ? 0 : AGAIN), &outcome);
	}
	/* It did something, and not only harm. */
	assert_true(outcome.refused < round_count / 4);
	assert_true(outcome.present > round_count * OBJECTS / 2);
	assert_true(outcome.lost > 0);
	assert_true((outcome.mismatches > 0) == verify);
	template_fini(&template);
}

/* proves: S-15, S-7, S-12, S-23 */
static void damage_to_a_clean_pool_is_never_a_wrong_object(void **state)
{
	(void)state;
	damage_anything(false, false);
}

/* proves: S-15, S-7, S-12, S-23 */
static void damage_to_a_killed_pool_is_never_a_wrong_object(void **state)
{
	(void)state;
	damage_anything(true, false);
}

/* proves: S-15, S-7, S-23 */
static void damage_to_a_clean_pool_with_checksums_is_never_a_wrong_object(void **state)
{
	(void)state;
	damage_anything(false, true);
}

/* proves: S-15, S-7, S-23 */
static void damage_to_a_killed_pool_with_checksums_is_never_a_wrong_object(void **state)
{
	(void)state;
	damage_anything(true, true);
}

/* ---- slots that no rebuild looks at ----------------------------------------------------- */

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

/* ---- payload ---------------------------------------------------------------------------- */

/* proves: S-15 */
static void damaged_bytes_are_reported_where_checksums_are_kept(void **state)
{
	struct template template;
	struct outcome outcome = {0};
	uint64_t seed = 5;

	(void)state;
	template_init(&template, false, true);
	for (unsigned round = 0; round < 100; round++) {
		uint64_t bytes = UNITS * KVH_UNIT_BYTES;

		restore(&template);
		for (unsigned i = 0; i < 20; i++)
			template.area.payload[draw(&seed) % bytes] ^=
				(unsigned char)(1 + draw(&seed) % 255);
		round_holds(&template, round, ALL_SPACE, &outcome);
	}
	assert_int_equal(outcome.refused, 0);
	assert_true(outcome.mismatches > 0 && outcome.present > 0);
	/* A damaged long key, which lies there as well, is another key. */
	assert_true(outcome.lost > 0);
	template_fini(&template);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		shared_test(each_flipped_byte_of_a_clean_superblock_is_refused_or_put_right),
		shared_test(each_flipped_byte_of_a_killed_superblock_is_refused_or_put_right),
		shared_test(damage_to_a_clean_pool_is_never_a_wrong_object),
		shared_test(damage_to_a_killed_pool_is_never_a_wrong_object),
		shared_test(damage_to_a_clean_pool_with_checksums_is_never_a_wrong_object),
		shared_test(damage_to_a_killed_pool_with_checksums_is_never_a_wrong_object),
		shared_test(slots_that_were_never_used_are_not_believed),
		shared_test(no_damaged_byte_makes_an_object_of_a_reservation),
		shared_test(a_count_of_slots_that_fell_hides_no_objects_that_come_back),
		shared_test(damaged_bytes_are_reported_where_checksums_are_kept),
	};

	if (argc > 1)
		round_count = strtoull(argv[1], NULL, 10);
	shared_begin();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
