/* SPDX-License-Identifier: Apache-2.0 */
/* Hits and masks against definitions that are tried out length by length, over all small stores. */
#include "base/size.h"
#include "unit/layout/presence.h"

enum { HASHES = 6, HASH_TOKENS = 2 };

/* One set-up of up to three groups, with block sizes of one or two hashes. */
struct world {
	struct kvh_group groups[3];
	struct kvh_coordinator_config config;
	struct kvh_coordinator *coordinator;
	uint64_t align_tokens;
};

static void open_world(struct world *world)
{
	world->config.groups = world->groups;
	world->config.hash_tokens = HASH_TOKENS;
	world->coordinator = coordinator_of(&world->config);
	world->align_tokens = kvh_coordinator_align_tokens(world->coordinator);
}

static bool holds(const struct bit_store *store, size_t group, uint64_t end_tokens)
{
	return store->bits[group] >> (end_tokens / HASH_TOKENS - 1) & 1;
}

static bool same_spec(const struct kvh_group *a, const struct kvh_group *b)
{
	return a->kind == b->kind && a->block_tokens == b->block_tokens &&
	       a->window_tokens == b->window_tokens;
}

/* C-2: groups of equal spec hold a hash only together. */
static struct bit_store held_together(const struct world *world, const struct bit_store *store)
{
	struct bit_store together = *store;

	for (size_t index = 0; index < world->config.group_count; index++) {
		for (size_t other = 0; other < world->config.group_count; other++) {
			if (same_spec(&world->groups[index], &world->groups[other]))
				together.bits[index] &= store->bits[other];
		}
	}
	return together;
}

static bool holds_chunks(const struct bit_store *store, size_t group, uint64_t block_tokens,
                         uint64_t first, uint64_t end)
{
	for (uint64_t chunk = first; chunk < end; chunk++) {
		if (!holds(store, group, (chunk + 1) * block_tokens))
			return false;
	}
	return true;
}

/* Whether a request of so many tokens could be resumed from what the store holds of the group. */
static bool supports(const struct world *world, const struct bit_store *store, size_t index,
                     uint64_t tokens)
{
	const struct kvh_group *group = &world->groups[index];
	uint64_t chunks = tokens / group->block_tokens;
	uint64_t need;

	if (tokens == 0)
		return true;
	switch (group->kind) {
	case KVH_ATTENTION_FULL:
		return holds_chunks(store, index, group->block_tokens, 0, chunks) &&
		       (tokens % group->block_tokens == 0 || holds(store, index, tokens));
	case KVH_ATTENTION_SLIDING_WINDOW:
		need = kvh_div_up(group->window_tokens - 1, group->block_tokens);
		return tokens % group->block_tokens == 0 &&
		       holds_chunks(store, index, group->block_tokens,
		                    chunks > need ? chunks - need : 0, chunks);
	default:
		return holds(store, index, tokens);
	}
}

/* The longest length on the grid up to max_tokens that the group supports. */
static uint64_t longest_of(const struct world *world, const struct bit_store *store, size_t group,
                           uint64_t max_tokens)
{
	uint64_t tokens = kvh_round_down(max_tokens, world->align_tokens);

	while (!supports(world, store, group, tokens))
		tokens -= world->align_tokens;
	return tokens;
}

/*
 * Without drafting: the longest length that all groups support. Of a full-attention group every
 * length below its own longest will do, whose tail is keyed by a later hash of the same chunk
 * (C-40).
 */
static uint64_t longest(const struct world *world, const struct bit_store *store,
                        uint64_t max_tokens)
{
	uint64_t tokens = kvh_round_down(max_tokens, world->align_tokens);
	bool all;

	for (size_t index = 0; index < world->config.group_count; index++) {
		if (world->groups[index].kind == KVH_ATTENTION_FULL)
			tokens = longest_of(world, store, index, tokens);
	}
	do {
		all = true;
		for (size_t index = 0; index < world->config.group_count; index++)
			all &= world->groups[index].kind == KVH_ATTENTION_FULL ||
			       supports(world, store, index, tokens);
		if (!all)
			tokens -= world->align_tokens;
	} while (!all);
	return tokens;
}

/* Calls check with every store of HASHES hashes over the groups (at most three, 2^18 stores). */
static void each_store(const struct world *world,
                       void (*check)(const struct world *, struct bit_store *))
{
	size_t bit_count = HASHES * world->config.group_count;

	for (uint64_t code = 0; code < UINT64_C(1) << bit_count; code++) {
		struct bit_store store = {.hash_count = HASHES};

		for (size_t group = 0; group < world->config.group_count; group++)
			store.bits[group] = code >> (HASHES * group) & ((1 << HASHES) - 1);
		check(world, &store);
	}
}

static void check_longest(const struct world *world, struct bit_store *store)
{
	struct bit_store together = held_together(world, store);

	for (uint64_t max = 0; max <= HASHES * HASH_TOKENS; max++) {
		uint64_t hit = hit_of(world->coordinator, store, max, NULL);
		uint64_t expected = longest(world, &together, max);

		if (hit != expected)
			fail_msg("max %zu: hit %zu, longest %zu, stores %zx %zx %zx", (size_t)max,
			         (size_t)hit, (size_t)expected, (size_t)store->bits[0],
			         (size_t)store->bits[1], (size_t)store->bits[2]);
	}
}

/* C-23: what the masks say is needed is there, and nothing beyond the hit is. */
static void check_needed_is_held(const struct world *world, struct bit_store *store)
{
	const struct kvh_presence presence = {bit_present, store};
	struct kvh_masks masks = {0};

	for (uint64_t max = 0; max <= HASHES * HASH_TOKENS; max += HASH_TOKENS) {
		uint64_t hit = hit_of(world->coordinator, store, max, &masks);

		assert_true(hit <= max && hit % world->align_tokens == 0);
		for (uint32_t index = 0; index < world->config.group_count; index++) {
			const uint32_t block_tokens = world->groups[index].block_tokens;
			const struct kvh_mask *mask = &masks.group[index];
			uint64_t end = mask->first_chunk + mask->count;
			uint64_t whole = hit / block_tokens;
			uint64_t tail;

			assert_int_equal(end, kvh_div_up(hit, block_tokens));
			if (!holds_chunks(store, index, block_tokens, mask->first_chunk,
			                  end < whole ? end : whole))
				fail_msg("group %u: a chunk of hit %zu is not held", index,
				         (size_t)hit);
			/* The last chunk is loaded by its tail boundary. */
			if (hit && !kvh_tail_boundary(world->coordinator, &presence, HASHES, index,
			                              hit, &tail))
				fail_msg("group %u: no tail of hit %zu", index, (size_t)hit);
		}
	}
}

/* More in the store, or more room, never makes the hit shorter. */
static void check_monotone(const struct world *world, struct bit_store *store)
{
	uint64_t before = 0;

	for (uint64_t max = 0; max <= HASHES * HASH_TOKENS; max += HASH_TOKENS) {
		uint64_t hit = hit_of(world->coordinator, store, max, NULL);

		assert_true(hit >= before);
		before = hit;
	}
	for (size_t bit = 0; bit < HASHES * world->config.group_count; bit++) {
		struct bit_store more = *store;

		more.bits[bit / HASHES] |= UINT64_C(1) << bit % HASHES;
		assert_true(hit_of(world->coordinator, &more, HASHES * HASH_TOKENS, NULL) >=
		            before);
	}
}

/* Lists of groups: every kind and block size alone, pairs of kinds, and a triple. */
static size_t make_world(struct world *world, size_t number)
{
	const struct kvh_group kinds[] = {full_of(2),      full_of(4),      window_of(2, 3),
	                                  window_of(2, 6), window_of(4, 9), mamba_of(2),
	                                  mamba_of(4)};
	const size_t singles = COUNT_OF(kinds);
	const size_t pairs = singles * singles;

	*world = (struct world){0};
	if (number < singles) {
		world->groups[0] = kinds[number];
		world->config.group_count = 1;
	} else if (number < singles + pairs) {
		world->groups[0] = kinds[(number - singles) / singles];
		world->groups[1] = kinds[(number - singles) % singles];
		world->config.group_count = 2;
	} else {
		world->groups[0] = window_of(2, 4);
		world->groups[1] = full_of(4);
		world->groups[2] = mamba_of(4);
		world->config.group_count = 3;
	}
	return singles + pairs + 1;
}

/* Whether a hit inside a block can be one of this world: only full attention and states have those.
 */
static void each_world(bool eagle, void (*check)(const struct world *, struct bit_store *))
{
	struct world world;
	size_t count = 1;

	for (size_t number = 0; number < count; number++) {
		for (int partial = 0; partial <= 1; partial++) {
			count = make_world(&world, number);
			/* The triple has 2^18 stores: once is enough. */
			if (world.config.group_count == 3 && partial && eagle)
				continue;
			world.config.partial_hits = partial;
			world.config.use_eagle = eagle;
			open_world(&world);
			each_store(&world, check);
			kvh_coordinator_destroy(world.coordinator);
		}
	}
}

/* proves: C-2, C-10, C-11, C-12, C-20 */
static void a_hit_is_the_longest_length_that_all_groups_support(void **state)
{
	(void)state;
	each_world(false, check_longest);
}

/* proves: C-22, C-23, C-40 */
static void every_chunk_that_a_hit_needs_is_in_the_store(void **state)
{
	(void)state;
	each_world(false, check_needed_is_held);
}

/* proves: C-21, C-23, C-40 */
static void every_chunk_that_a_drafting_hit_needs_is_in_the_store(void **state)
{
	(void)state;
	each_world(true, check_needed_is_held);
}

/* proves: C-20 */
static void more_in_the_store_never_shortens_a_hit(void **state)
{
	struct world world;
	const size_t numbers[] = {1, 3, 4, 6, 9, 12, 13, 16, 20, 41, 47};

	(void)state;
	for (size_t index = 0; index < COUNT_OF(numbers); index++) {
		for (int partial = 0; partial <= 1; partial++) {
			make_world(&world, numbers[index]);
			world.config.partial_hits = partial;
			open_world(&world);
			each_store(&world, check_monotone);
			kvh_coordinator_destroy(world.coordinator);
		}
	}
}

/* ---- masks ---------------------------------------------------------------------------- */

enum { LONG_HASHES = 48, LONG_TOKENS = LONG_HASHES * HASH_TOKENS };

/* Puts what the mask says; mamba states by position, as boundary puts do. */
static void put_masked(const struct world *world, const struct kvh_masks *masks,
                       uint64_t token_count, struct bit_store *store)
{
	for (size_t index = 0; index < world->config.group_count; index++) {
		const struct kvh_group *group = &world->groups[index];

		for (uint64_t chunk = 0; chunk < token_count / group->block_tokens; chunk++) {
			uint64_t end_tokens = (chunk + 1) * group->block_tokens;

			if (group->kind == KVH_ATTENTION_MAMBA
			            ? end_tokens % world->align_tokens == 0
			            : kvh_mask_has(&masks->group[index], chunk))
				store->bits[index] |= UINT64_C(1) << (end_tokens / HASH_TOKENS - 1);
		}
	}
}

/*
 * Draws two or three groups of any kind, eagle or not. Windows begin at 2: one of 1 is kept no
 * chunk of, so nothing can be found again.
 */
static void draw_world(struct world *world, uint64_t *seed)
{
	*world = (struct world){.config.group_count = 2 + draw(seed) % 2};
	for (size_t index = 0; index < world->config.group_count; index++) {
		uint32_t block_tokens = HASH_TOKENS << draw(seed) % 3;

		switch (draw(seed) % 4) {
		case 0:
			world->groups[index] = mamba_of(block_tokens);
			break;
		case 1:
			world->groups[index] = full_of(block_tokens);
			break;
		default:
			world->groups[index] =
				window_of(block_tokens, 2 + (uint32_t)(draw(seed) % 23));
		}
	}
	world->config.use_eagle = draw(seed) % 2;
	open_world(world);
}

/*
 * Whether the runs of C-11 that a drafting hit needs lie within it and the dropped block. A run
 * that reaches chunk 0 is trimmed twice there, so such a hit is not promised.
 */
static bool windows_fit(const struct world *world, uint64_t hit_tokens)
{
	for (size_t index = 0; index < world->config.group_count; index++) {
		const struct kvh_group *group = &world->groups[index];

		if (group->kind == KVH_ATTENTION_SLIDING_WINDOW &&
		    kvh_div_up(group->window_tokens - 1, group->block_tokens) >
		            hit_tokens / group->block_tokens)
			return false;
	}
	return true;
}

/* Saves token_count tokens in two jobs and looks every shorter request up. */
static void check_found_again(const struct world *world, uint64_t token_count, uint64_t split,
                              uint64_t margin)
{
	uint64_t lcm_tokens = kvh_coordinator_lcm_tokens(world->coordinator);
	struct bit_store store = {.hash_count = LONG_HASHES};
	struct kvh_masks masks = {0};

	assert_int_equal(kvh_store_mask(world->coordinator, split, 0, true, split, &masks), KVH_OK);
	put_masked(world, &masks, split, &store);
	assert_int_equal(
		kvh_store_mask(world->coordinator, token_count, split, true, token_count, &masks),
		KVH_OK);
	put_masked(world, &masks, token_count, &store);
	for (uint64_t max = 0; max <= token_count; max++) {
		uint64_t expected = kvh_round_down(max, lcm_tokens);
		uint64_t hit = hit_of(world->coordinator, &store, max, NULL);

		expected = expected > margin ? expected - margin : 0;
		if (margin && !windows_fit(world, expected))
			continue;
		if (hit < expected)
			fail_msg("%zu of %zu tokens hit after saving %zu", (size_t)hit, (size_t)max,
			         (size_t)token_count);
	}
	kvh_masks_fini(&masks);
}

/* proves: C-31, C-33, C-34 */
static void what_the_store_mask_kept_is_found_at_every_lcm_block(void **state)
{
	uint64_t seed = 11;

	(void)state;
	for (size_t round = 0; round < 400; round++) {
		struct world world;
		uint64_t lcm_tokens, blocks, split;

		draw_world(&world, &seed);
		lcm_tokens = kvh_coordinator_lcm_tokens(world.coordinator);
		blocks = LONG_TOKENS / lcm_tokens;
		split = draw(&seed) % (blocks + 1);
		/* A drafting group gives one block back: the hit may be an lcm block shorter. */
		check_found_again(&world, blocks * lcm_tokens, split * lcm_tokens,
		                  world.config.use_eagle ? lcm_tokens : 0);
		kvh_coordinator_destroy(world.coordinator);
	}
}

/* proves: C-31 */
static void two_saves_keep_together_what_one_save_keeps(void **state)
{
	uint64_t seed = 12;

	(void)state;
	for (size_t round = 0; round < 400; round++) {
		struct world world;
		struct kvh_masks whole = {0}, first = {0}, second = {0};
		uint64_t lcm_tokens, end, split;

		draw_world(&world, &seed);
		lcm_tokens = kvh_coordinator_lcm_tokens(world.coordinator);
		end = LONG_TOKENS / lcm_tokens * lcm_tokens;
		split = draw(&seed) % (LONG_TOKENS / lcm_tokens + 1) * lcm_tokens;
		assert_int_equal(kvh_store_mask(world.coordinator, end, 0, true, 40, &whole), 0);
		assert_int_equal(kvh_store_mask(world.coordinator, split, 0, true, 40, &first), 0);
		assert_int_equal(kvh_store_mask(world.coordinator, end, split, true, 40, &second),
		                 0);
		for (size_t group = 0; group < world.config.group_count; group++) {
			for (uint64_t chunk = 0; chunk <= LONG_HASHES; chunk++)
				assert_int_equal(kvh_mask_has(&whole.group[group], chunk),
				                 kvh_mask_has(&first.group[group], chunk) +
				                         kvh_mask_has(&second.group[group], chunk));
		}
		kvh_masks_fini(&whole);
		kvh_masks_fini(&first);
		kvh_masks_fini(&second);
		kvh_coordinator_destroy(world.coordinator);
	}
}

/* proves: C-34, C-36 */
static void a_prompt_is_found_again_from_its_replay_boundary_alone(void **state)
{
	uint64_t seed = 13;

	(void)state;
	for (size_t round = 0; round < 400; round++) {
		struct world world;
		struct bit_store store = {.hash_count = LONG_HASHES};
		struct kvh_masks masks = {0};
		uint64_t lcm_tokens, prompt, end, expected;

		draw_world(&world, &seed);
		kvh_coordinator_destroy(world.coordinator);
		world.config.has_retention = true;
		open_world(&world);
		lcm_tokens = kvh_coordinator_lcm_tokens(world.coordinator);
		prompt = 1 + draw(&seed) % LONG_TOKENS;
		end = kvh_round_down(prompt, lcm_tokens);
		assert_int_equal(kvh_store_mask(world.coordinator, end, 0, true, prompt, &masks),
		                 KVH_OK);
		put_masked(&world, &masks, end, &store);
		/* The last token is computed again; drafting gives one more block back. */
		expected = kvh_round_down(prompt - 1, lcm_tokens);
		if (world.config.use_eagle)
			expected = expected > lcm_tokens ? expected - lcm_tokens : 0;
		if (!world.config.use_eagle || windows_fit(&world, expected))
			assert_true(hit_of(world.coordinator, &store, prompt - 1, NULL) >=
			            expected);
		kvh_masks_fini(&masks);
		kvh_coordinator_destroy(world.coordinator);
	}
}

/* proves: C-30, C-31 */
static void a_load_needs_no_chunk_that_the_store_mask_dropped(void **state)
{
	uint64_t seed = 14;

	(void)state;
	for (size_t round = 0; round < 400; round++) {
		struct world world;
		struct kvh_masks load = {0}, lookup = {0};
		uint64_t lcm_tokens, end;

		draw_world(&world, &seed);
		lcm_tokens = kvh_coordinator_lcm_tokens(world.coordinator);
		end = LONG_TOKENS / lcm_tokens * lcm_tokens;
		assert_int_equal(kvh_lookup_mask(world.coordinator, end, &lookup), KVH_OK);
		for (uint64_t hit = 0; hit <= end; hit += lcm_tokens) {
			assert_int_equal(kvh_load_mask(world.coordinator, LONG_HASHES, hit, &load),
			                 KVH_OK);
			for (size_t group = 0; group < world.config.group_count; group++) {
				uint64_t chunks = hit / world.groups[group].block_tokens;

				assert_false(kvh_mask_has(&load.group[group], chunks));
				for (uint64_t chunk = 0; chunk < chunks; chunk++)
					assert_true(world.config.use_eagle ||
					            !kvh_mask_has(&load.group[group], chunk) ||
					            kvh_mask_has(&lookup.group[group], chunk));
			}
		}
		kvh_masks_fini(&load);
		kvh_masks_fini(&lookup);
		kvh_coordinator_destroy(world.coordinator);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_hit_is_the_longest_length_that_all_groups_support),
		cmocka_unit_test(every_chunk_that_a_hit_needs_is_in_the_store),
		cmocka_unit_test(every_chunk_that_a_drafting_hit_needs_is_in_the_store),
		cmocka_unit_test(more_in_the_store_never_shortens_a_hit),
		cmocka_unit_test(what_the_store_mask_kept_is_found_at_every_lcm_block),
		cmocka_unit_test(two_saves_keep_together_what_one_save_keeps),
		cmocka_unit_test(a_prompt_is_found_again_from_its_replay_boundary_alone),
		cmocka_unit_test(a_load_needs_no_chunk_that_the_store_mask_dropped),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
