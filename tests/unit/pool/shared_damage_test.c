/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Damaged pool files: an open either refuses with words or puts right what it can. Never a wrong
 * object, never a crash, and the space is there again.
 */
#include "damaged_pool.h"

/* Of random damage; the command line may ask for more, and then gets the whole page's bytes. */
static uint64_t round_count = 60;
static uint64_t header_bytes = sizeof(struct kvh_super) + 64;
static uint64_t killed_step = 8; /* of the killed file every so many bytes, in the long form each */

/* ---- every byte of the superblock ------------------------------------------------------- */

static void flip_each_byte(bool killed)
{
	struct template template;
	struct outcome outcome = {0};
	uint64_t checked = offsetof(struct kvh_super, lives);

	template_init(&template, killed, false);
	for (uint64_t at = 0; at < header_bytes; at += killed ? killed_step : 1) {
		uint64_t refused_before = outcome.refused, lost_before = outcome.lost;

		/* A refused open changes nothing, and no more did what the padding brought. */
		if (at % 64 == 0 || (at > checked && at < sizeof(struct kvh_super)))
			restore(&template);
		template.mapped.fixed->super_bytes[at] ^= (unsigned char)(1 << (at + at / 8) % 8);
		round_holds(&template, at, at < sizeof(struct kvh_super) ? ALL_SPACE | AGAIN : 0,
		            &outcome);
		/* What was written once is refused, what nobody reads is nothing. */
		if (at < checked)
			assert_int_equal(outcome.refused, refused_before + 1);
		if (at >= sizeof(struct kvh_super)) {
			assert_int_equal(outcome.refused, refused_before);
			assert_int_equal(outcome.lost, lost_before);
		}
		template.mapped.fixed->super_bytes[at] ^= (unsigned char)(1 << (at + at / 8) % 8);
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
		shared_test(damaged_bytes_are_reported_where_checksums_are_kept),
	};

	if (argc > 1) {
		round_count = strtoull(argv[1], NULL, 10);
		header_bytes = KVH_UNIT_BYTES;
		killed_step = 1;
	}
	shared_begin();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
