/* SPDX-License-Identifier: Apache-2.0 */
/* The coordinator where the recordings are thin: set-up errors, chunked local, groups that opt out.
 */
#include <string.h>

#include "base/fault.h"
#include "unit/layout/presence.h"

/* ---- set-up --------------------------------------------------------------------------- */

static void assert_refused(const struct kvh_coordinator_config *config, const char *words)
{
	struct kvh_coordinator *coordinator = NULL;
	struct kvh_error error = {0};

	assert_int_equal(kvh_coordinator_create(config, &coordinator, &error), KVH_INVALID_PARAMS);
	assert_null(coordinator);
	assert_int_equal(error.status, KVH_INVALID_PARAMS);
	if (!strstr(error.text, words))
		fail_msg("\"%s\" does not say \"%s\"", error.text, words);
}

static void assert_one_group_refused(struct kvh_group group,
                                     const struct kvh_coordinator_config *rest, const char *words)
{
	struct kvh_group groups[2] = {full_of(8), group};
	struct kvh_coordinator_config config = *rest;

	config.groups = groups;
	config.group_count = 2;
	assert_refused(&config, words);
	/* The same group does no harm when it opts out. */
	groups[1].opts_out = true;
	kvh_coordinator_destroy(coordinator_of(&config));
}

/* proves: C-1, R-15b */
static void every_wrong_group_is_named_and_exempt_when_it_opts_out(void **state)
{
	const struct kvh_coordinator_config plain = {.hash_tokens = 4};
	const struct kvh_coordinator_config given_lcm = {.hash_tokens = 4, .lcm_tokens = 24};
	const struct kvh_coordinator_config retention = {
		.hash_tokens = 4, .has_retention = true, .retention_tokens = 24};
	const struct kvh_coordinator_config drafting = {.hash_tokens = 4, .use_eagle = true};
	struct kvh_group unknown = full_of(8);
	struct kvh_group flagged = local_of(8, 16);

	(void)state;
	unknown.kind = (enum kvh_attention)9;
	flagged.eagle = true;
	assert_one_group_refused(unknown, &plain, "group 1: unknown attention kind 9");
	assert_one_group_refused(full_of(0), &plain, "group 1: block_tokens is 0");
	assert_one_group_refused(full_of(KVH_BLOCK_TOKENS_MAX + 4), &plain,
	                         "group 1: block_tokens is 1048580");
	assert_one_group_refused(full_of(6), &plain,
	                         "group 1: hash_tokens 4 must divide block_tokens 6");
	assert_one_group_refused(full_of(16), &given_lcm,
	                         "group 1: block_tokens 16 must divide lcm_tokens 24");
	assert_one_group_refused(full_of(16), &retention,
	                         "retention_tokens 24 must be 0 or a multiple of block_tokens 16");
	assert_one_group_refused(window_of(8, 0), &plain, "group 1: window_tokens is 0");
	assert_one_group_refused(local_of(8, 0), &plain, "group 1: window_tokens is 0");
	assert_one_group_refused(local_of(4, 16), &plain,
	                         "block_tokens (4) equal to the alignment of hits (8)");
	assert_one_group_refused(flagged, &plain, "EAGLE");
	/* C-2: with drafting on and nobody flagged, all are. */
	assert_one_group_refused(local_of(8, 16), &drafting, "EAGLE");
}

/* proves: C-1 */
static void every_wrong_size_of_the_whole_has_its_own_words(void **state)
{
	struct kvh_group groups[KVH_GROUPS_MAX + 1];
	struct kvh_coordinator_config config = {.groups = groups, .hash_tokens = 4};

	(void)state;
	for (size_t index = 0; index < COUNT_OF(groups); index++)
		groups[index] = full_of(8);
	assert_refused(&config, "groups: 0 given");
	config.group_count = COUNT_OF(groups);
	assert_refused(&config, "groups: 65 given");
	config.group_count = SIZE_MAX;
	assert_refused(&config, "groups:");
	config.group_count = 1;
	config.groups = NULL;
	assert_refused(&config, "groups:");
	config.groups = groups;
	config.hash_tokens = 0;
	assert_refused(&config, "hash_tokens is 0");
	config.hash_tokens = UINT32_MAX;
	assert_refused(&config, "hash_tokens is 4294967295");
	config.hash_tokens = 4;
	config.lcm_tokens = 10;
	assert_refused(&config, "hash_tokens 4 must divide lcm_tokens 10");
	config.lcm_tokens = UINT32_MAX;
	assert_refused(&config, "lcm_tokens is 4294967295");
	/* 2^16 and 2^16 - 1 have no common factor: their product is over 2^30, under 2^32. */
	config.lcm_tokens = 0;
	config.hash_tokens = 1;
	config.group_count = 2;
	groups[0] = full_of(1 << 16);
	groups[1] = full_of((1 << 16) - 1);
	assert_refused(&config, "least common multiple");
}

/* proves: C-1 */
static void the_lcm_counts_only_groups_that_take_part(void **state)
{
	struct kvh_group groups[3] = {full_of(8), full_of(12), full_of(20)};
	struct kvh_coordinator_config config = {
		.groups = groups, .group_count = 3, .hash_tokens = 4};
	struct kvh_coordinator *coordinator;

	(void)state;
	groups[2].opts_out = true;
	coordinator = coordinator_of(&config);
	assert_int_equal(kvh_coordinator_lcm_tokens(coordinator), 24);
	assert_int_equal(kvh_coordinator_align_tokens(coordinator), 24);
	kvh_coordinator_destroy(coordinator);
	config.partial_hits = true;
	coordinator = coordinator_of(&config);
	assert_int_equal(kvh_coordinator_lcm_tokens(coordinator), 24);
	assert_int_equal(kvh_coordinator_align_tokens(coordinator), 4);
	kvh_coordinator_destroy(coordinator);
}

/* proves: C-1 */
static void no_memory_is_reported_and_leaves_nothing(void **state)
{
	struct kvh_group group = window_of(4, 9);
	struct kvh_coordinator_config config = {
		.groups = &group, .group_count = 1, .hash_tokens = 4};
	struct kvh_coordinator *coordinator = NULL;
	struct kvh_masks masks = {0};
	struct kvh_error error = {0};

	(void)state;
	assert_true(kvh_fault_arm_nth("base/alloc", 1, -1));
	assert_int_equal(kvh_coordinator_create(&config, &coordinator, &error), KVH_NO_MEMORY);
	kvh_fault_disarm_all();
	assert_null(coordinator);
	config.lcm_tokens = 32; /* tails are sparse, so the mask has bits */
	coordinator = coordinator_of(&config);
	assert_int_equal(kvh_store_mask(coordinator, 32, 0, false, 0, &masks), KVH_OK);
	assert_true(kvh_fault_arm_nth("base/alloc", 1, -1));
	assert_int_equal(kvh_store_mask(coordinator, 320, 0, false, 0, &masks), KVH_NO_MEMORY);
	kvh_fault_disarm_all();
	/* The masks of before are whole. */
	assert_int_equal(masks.group[0].count, 8);
	assert_true(kvh_mask_has(&masks.group[0], 7));
	kvh_masks_fini(&masks);
	kvh_coordinator_destroy(coordinator);
}

/* ---- groups and specs ------------------------------------------------------------------ */

/* proves: R-15b, C-2 */
static void a_group_that_opts_out_is_neither_asked_nor_masked(void **state)
{
	struct kvh_group groups[3] = {full_of(4), full_of(4), window_of(4, 9)};
	struct kvh_coordinator_config config = {
		.groups = groups, .group_count = 3, .hash_tokens = 4};
	struct bit_store store = {.bits = {0xff, 0, 0xff}, .hash_count = 8};
	const struct kvh_presence presence = {bit_present, &store};
	struct kvh_masks masks = {0};
	struct kvh_coordinator *coordinator;
	uint64_t boundary = 0;

	(void)state;
	groups[1].opts_out = true;
	coordinator = coordinator_of(&config);
	assert_int_equal(hit_of(coordinator, &store, 32, &masks), 32);
	assert_int_equal(masks.group[0].count, 8);
	assert_int_equal(masks.group[1].count, 0);
	/* A window of 9 reaches 8 tokens back: 2 chunks, the last ones. */
	assert_int_equal(masks.group[2].first_chunk, 6);
	assert_int_equal(masks.group[2].count, 2);
	store.bits[1] = 0xff;
	assert_false(kvh_tail_boundary(coordinator, &presence, 8, 1, 32, &boundary));
	assert_int_equal(kvh_store_mask(coordinator, 32, 0, false, 0, &masks), KVH_OK);
	assert_int_equal(masks.group[1].count, 0);
	kvh_masks_fini(&masks);
	kvh_coordinator_destroy(coordinator);
}

/* proves: R-15b */
static void nobody_taking_part_means_no_hit_and_empty_masks(void **state)
{
	struct kvh_group group = {.opts_out = true};
	struct kvh_coordinator_config config = {
		.groups = &group, .group_count = 1, .hash_tokens = 4};
	struct kvh_coordinator *coordinator = coordinator_of(&config);
	struct bit_store store = {.bits = {0xff}, .hash_count = 8};
	struct kvh_masks masks = {0};

	(void)state;
	assert_int_equal(hit_of(coordinator, &store, 32, &masks), 0);
	assert_int_equal(masks.group[0].count, 0);
	assert_int_equal(kvh_load_mask(coordinator, 8, 32, &masks), KVH_OK);
	assert_int_equal(masks.group[0].count, 0);
	assert_int_equal(kvh_lookup_mask(coordinator, 32, &masks), KVH_OK);
	assert_int_equal(masks.group[0].count, 0);
	kvh_coordinator_destroy(coordinator);
}

/* proves: C-2 */
static void a_hash_counts_only_when_every_group_of_equal_spec_has_it(void **state)
{
	struct kvh_group groups[2] = {mamba_of(4), mamba_of(4)};
	struct kvh_coordinator_config config = {
		.groups = groups, .group_count = 2, .hash_tokens = 4};
	struct kvh_coordinator *coordinator = coordinator_of(&config);
	struct bit_store store = {.bits = {0x0a, 0x06}, .hash_count = 4};

	(void)state;
	/* Each has a later state than hash 1, but not the same one. */
	assert_int_equal(hit_of(coordinator, &store, 16, NULL), 8);
	kvh_coordinator_destroy(coordinator);
}

/* ---- chunked local --------------------------------------------------------------------- */

/* proves: C-13 */
static void chunked_local_needs_only_the_chunk_being_filled(void **state)
{
	struct kvh_group group = local_of(4, 16);
	struct kvh_coordinator_config config = {
		.groups = &group, .group_count = 1, .hash_tokens = 4};
	struct kvh_coordinator *coordinator = coordinator_of(&config);
	struct bit_store store = {.bits = {0x30}, .hash_count = 8};
	struct kvh_masks masks = {0};

	(void)state;
	/* Of 28 tokens 16 are of an earlier chunk; blocks 4 and 5 are there, 6 is not. */
	assert_int_equal(hit_of(coordinator, &store, 28, &masks), 24);
	assert_int_equal(masks.group[0].first_chunk, 4);
	assert_int_equal(masks.group[0].count, 2);
	/* The first block of the chunk is missing: what came before still counts. */
	store.bits[0] = 0x20;
	assert_int_equal(hit_of(coordinator, &store, 28, &masks), 16);
	assert_int_equal(masks.group[0].first_chunk, 4);
	assert_int_equal(masks.group[0].count, 0);
	/* At a chunk's end nothing of it is needed any more. */
	assert_int_equal(hit_of(coordinator, &store, 32, &masks), 32);
	assert_int_equal(masks.group[0].count, 0);
	assert_int_equal(kvh_load_mask(coordinator, 8, 28, &masks), KVH_OK);
	assert_int_equal(masks.group[0].first_chunk, 4);
	assert_int_equal(masks.group[0].count, 3);
	kvh_coordinator_destroy(coordinator);
}

/* proves: C-13, C-20 */
static void chunked_local_shortens_what_full_attention_found(void **state)
{
	struct kvh_group groups[2] = {local_of(4, 8), full_of(4)};
	struct kvh_coordinator_config config = {
		.groups = groups, .group_count = 2, .hash_tokens = 4};
	struct kvh_coordinator *coordinator = coordinator_of(&config);
	struct bit_store store = {.bits = {0x00, 0x1f}, .hash_count = 8};
	struct kvh_masks masks = {0};

	(void)state;
	/* Full attention has 20 tokens, of which the local group's third chunk would need block 4.
	 */
	assert_int_equal(hit_of(coordinator, &store, 32, &masks), 16);
	assert_int_equal(masks.group[1].count, 4);
	kvh_coordinator_destroy(coordinator);
}

/* proves: C-13, C-31 */
static void chunked_local_stores_all_of_its_chunks(void **state)
{
	struct kvh_group group = local_of(4, 16);
	struct kvh_coordinator_config config = {
		.groups = &group, .group_count = 1, .hash_tokens = 4};
	struct kvh_coordinator *coordinator = coordinator_of(&config);
	struct kvh_masks masks = {0};

	(void)state;
	assert_int_equal(kvh_store_mask(coordinator, 28, 5, false, 0, &masks), KVH_OK);
	assert_true(masks.group[0].all);
	assert_int_equal(masks.group[0].first_chunk, 2);
	assert_int_equal(masks.group[0].count, 5);
	assert_int_equal(masks.memory_bytes, 0);
	kvh_coordinator_destroy(coordinator);
}

/* ---- edges of masks and hits ------------------------------------------------------------ */

/* proves: C-31 */
static void a_mask_of_a_length_off_the_grid_is_refused(void **state)
{
	struct kvh_group groups[2] = {full_of(8), full_of(4)};
	struct kvh_coordinator_config config = {
		.groups = groups, .group_count = 2, .hash_tokens = 4};
	struct kvh_coordinator *coordinator = coordinator_of(&config);
	struct kvh_masks masks = {0};

	(void)state;
	assert_int_equal(kvh_store_mask(coordinator, 12, 0, false, 0, &masks), KVH_INVALID_PARAMS);
	assert_int_equal(kvh_lookup_mask(coordinator, 12, &masks), KVH_INVALID_PARAMS);
	assert_int_equal(kvh_lookup_mask(coordinator, (uint64_t)KVH_TOKENS_MAX + 8, &masks),
	                 KVH_INVALID_PARAMS);
	assert_int_equal(kvh_lookup_mask(coordinator, UINT64_C(1) << 63, &masks),
	                 KVH_INVALID_PARAMS);
	assert_int_equal(kvh_lookup_mask(coordinator, KVH_TOKENS_MAX, &masks), KVH_OK);
	assert_int_equal(masks.group[1].count, KVH_TOKENS_MAX / 4);
	assert_int_equal(kvh_store_mask(coordinator, 16, UINT64_MAX, true, UINT64_MAX, &masks),
	                 KVH_OK);
	assert_int_equal(masks.group[0].count, 0);
	assert_int_equal(masks.memory_bytes, 0);
	kvh_coordinator_destroy(coordinator);
}

/* proves: C-30 */
static void a_load_mask_of_any_length_costs_nothing(void **state)
{
	struct kvh_group groups[4] = {full_of(4), window_of(4, UINT32_MAX), mamba_of(4),
	                              window_of(8, 9)};
	struct kvh_coordinator_config config = {
		.groups = groups, .group_count = 4, .hash_tokens = 4};
	struct kvh_coordinator *coordinator = coordinator_of(&config);
	struct kvh_masks masks = {0};
	const uint64_t token_count = UINT64_C(1) << 63;

	(void)state;
	assert_int_equal(kvh_load_mask(coordinator, SIZE_MAX, token_count, &masks), KVH_OK);
	assert_true(masks.group[0].all);
	assert_true(masks.group[0].count == token_count / 4);
	/* ceil((2^32 - 2) / 4) chunks. */
	assert_true(masks.group[1].count == UINT64_C(1) << 30);
	assert_true(masks.group[1].first_chunk == token_count / 4 - (UINT64_C(1) << 30));
	assert_true(masks.group[2].count == 1);
	assert_true(masks.group[2].first_chunk == token_count / 4 - 1);
	assert_true(masks.group[3].count == 1);
	assert_true(kvh_mask_has(&masks.group[3], token_count / 8 - 1));
	assert_int_equal(kvh_load_mask(coordinator, SIZE_MAX, UINT64_MAX, &masks), KVH_OK);
	assert_true(masks.group[0].count == UINT64_MAX / 8 * 2);
	assert_null(masks.memory);
	kvh_coordinator_destroy(coordinator);
}

/* proves: C-10, C-11, C-12, C-20 */
static void no_hit_reaches_beyond_the_hashes(void **state)
{
	struct kvh_group groups[3] = {full_of(4), window_of(4, 9), mamba_of(4)};

	(void)state;
	for (size_t count = 1; count <= COUNT_OF(groups); count++) {
		struct kvh_coordinator_config config = {
			.groups = groups, .group_count = count, .hash_tokens = 4};
		struct kvh_coordinator *coordinator = coordinator_of(&config);
		struct bit_store store = {.bits = {UINT64_MAX, UINT64_MAX, UINT64_MAX},
		                          .hash_count = 3};

		assert_int_equal(hit_of(coordinator, &store, UINT64_MAX, NULL), 12);
		store.hash_count = 0;
		assert_int_equal(hit_of(coordinator, &store, UINT64_MAX, NULL), 0);
		kvh_coordinator_destroy(coordinator);
	}
}

/* proves: C-11, C-34 */
static void a_window_of_one_token_keeps_no_chunk_yet_hits_only_at_one(void **state)
{
	struct kvh_group groups[2] = {window_of(4, 1), full_of(8)};
	struct kvh_coordinator_config config = {
		.groups = groups, .group_count = 2, .hash_tokens = 4};
	struct kvh_coordinator *coordinator = coordinator_of(&config);
	struct bit_store store = {.bits = {0, 0x2a}, .hash_count = 6};
	struct kvh_masks masks = {0};

	(void)state;
	/* Full attention has all 24 tokens; the window has nothing, then the chunk before 16. */
	assert_int_equal(hit_of(coordinator, &store, 24, &masks), 0);
	store.bits[0] = 1 << 3;
	assert_int_equal(hit_of(coordinator, &store, 24, &masks), 16);
	assert_int_equal(masks.group[0].first_chunk, 3);
	assert_int_equal(masks.group[0].count, 1);
	assert_int_equal(masks.group[1].count, 2);
	assert_int_equal(kvh_store_mask(coordinator, 24, 0, false, 0, &masks), KVH_OK);
	for (uint64_t chunk = 0; chunk < 6; chunk++)
		assert_false(kvh_mask_has(&masks.group[0], chunk));
	kvh_masks_fini(&masks);
	kvh_coordinator_destroy(coordinator);
}

/* proves: C-36, C-34 */
static void replay_boundaries_are_kept_only_with_a_retention_interval(void **state)
{
	struct kvh_group group = window_of(4, 5);
	struct kvh_coordinator_config config = {.groups = &group,
	                                        .group_count = 1,
	                                        .hash_tokens = 4,
	                                        .lcm_tokens = 16,
	                                        .has_retention = true};
	struct kvh_coordinator *coordinator = coordinator_of(&config);
	struct kvh_masks masks = {0};

	(void)state;
	/* One chunk before floor(36 / 16) * 16 = 32, the last prompt token's lcm block. */
	assert_int_equal(kvh_store_mask(coordinator, 48, 0, true, 37, &masks), KVH_OK);
	for (uint64_t chunk = 0; chunk < 12; chunk++)
		assert_int_equal(kvh_mask_has(&masks.group[0], chunk), chunk == 7);
	assert_int_equal(kvh_store_mask(coordinator, 48, 0, true, 0, &masks), KVH_OK);
	for (uint64_t chunk = 0; chunk < 12; chunk++)
		assert_false(kvh_mask_has(&masks.group[0], chunk));
	kvh_coordinator_destroy(coordinator);
	/* With drafting: floors of 31 and 32, one lcm block earlier, one chunk later: 4 and 0 .. */
	config.use_eagle = true;
	coordinator = coordinator_of(&config);
	assert_int_equal(kvh_store_mask(coordinator, 48, 0, true, 32, &masks), KVH_OK);
	/* .. need is 2 then: [3, 5) for 16 + a chunk, [0, 1) for 0 + a chunk. */
	for (uint64_t chunk = 0; chunk < 12; chunk++)
		assert_int_equal(kvh_mask_has(&masks.group[0], chunk),
		                 chunk == 0 || chunk == 3 || chunk == 4);
	kvh_coordinator_destroy(coordinator);
	/* No interval set: a tail of 2 a chunk after each 16 tokens, nothing for the boundary 0. */
	config.has_retention = false;
	coordinator = coordinator_of(&config);
	assert_int_equal(kvh_store_mask(coordinator, 48, 0, true, 10, &masks), KVH_OK);
	for (uint64_t chunk = 0; chunk < 12; chunk++)
		assert_int_equal(kvh_mask_has(&masks.group[0], chunk),
		                 chunk > 0 && (chunk % 4 == 3 || chunk % 4 == 0));
	kvh_masks_fini(&masks);
	kvh_coordinator_destroy(coordinator);
}

/* proves: C-21 */
static void a_shorter_length_is_verified_for_drafting_anew(void **state)
{
	struct kvh_group groups[2] = {window_of(4, 5), mamba_of(4)};
	struct kvh_coordinator_config config = {
		.groups = groups, .group_count = 2, .hash_tokens = 4, .use_eagle = true};
	struct kvh_coordinator *coordinator = coordinator_of(&config);
	/* The window has chunks 4 and 5 and what 8 tokens need; the only state is the one at 8. */
	struct bit_store store = {.bits = {1 << 5 | 1 << 4 | 1 << 1, 1 << 1}, .hash_count = 6};

	(void)state;
	/* The block after those 8 tokens, which drafting drops, is missing; then it is there. */
	assert_int_equal(hit_of(coordinator, &store, 24, NULL), 0);
	store.bits[0] |= 1 << 2;
	assert_int_equal(hit_of(coordinator, &store, 24, NULL), 8);
	kvh_coordinator_destroy(coordinator);
}

/* proves: C-40 */
static void a_tail_boundary_is_the_hit_or_the_next_hash_held_in_its_chunk(void **state)
{
	struct kvh_group groups[2] = {full_of(16), mamba_of(16)};
	struct kvh_coordinator_config config = {
		.groups = groups, .group_count = 2, .hash_tokens = 4, .partial_hits = true};
	struct kvh_coordinator *coordinator = coordinator_of(&config);
	struct bit_store store = {.bits = {1 << 2 | 1 << 3, 1 << 4}, .hash_count = 8};
	const struct kvh_presence presence = {bit_present, &store};
	uint64_t boundary = 77;

	(void)state;
	/* Hash 1 ends at 8 tokens; hash 2 and 3 are held, in the same chunk of 16. */
	assert_true(kvh_tail_boundary(coordinator, &presence, 8, 0, 8, &boundary));
	assert_int_equal(boundary, 12);
	assert_true(kvh_tail_boundary(coordinator, &presence, 8, 0, 16, &boundary));
	assert_int_equal(boundary, 16);
	boundary = 77;
	/* Hash 4 is the next chunk's. */
	assert_false(kvh_tail_boundary(coordinator, &presence, 8, 1, 12, &boundary));
	/* Of three hashes, 2 is the last that may be asked for. */
	store.bits[0] = 1 << 3;
	assert_false(kvh_tail_boundary(coordinator, &presence, 3, 0, 8, &boundary));
	assert_false(kvh_tail_boundary(coordinator, &presence, 8, 0, 0, &boundary));
	assert_int_equal(boundary, 77);
	kvh_coordinator_destroy(coordinator);
	config.partial_hits = false;
	coordinator = coordinator_of(&config);
	assert_false(kvh_tail_boundary(coordinator, &presence, 8, 0, 8, &boundary));
	kvh_coordinator_destroy(coordinator);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_wrong_group_is_named_and_exempt_when_it_opts_out),
		cmocka_unit_test(every_wrong_size_of_the_whole_has_its_own_words),
		cmocka_unit_test(the_lcm_counts_only_groups_that_take_part),
		cmocka_unit_test(no_memory_is_reported_and_leaves_nothing),
		cmocka_unit_test(a_group_that_opts_out_is_neither_asked_nor_masked),
		cmocka_unit_test(nobody_taking_part_means_no_hit_and_empty_masks),
		cmocka_unit_test(a_hash_counts_only_when_every_group_of_equal_spec_has_it),
		cmocka_unit_test(chunked_local_needs_only_the_chunk_being_filled),
		cmocka_unit_test(chunked_local_shortens_what_full_attention_found),
		cmocka_unit_test(chunked_local_stores_all_of_its_chunks),
		cmocka_unit_test(a_mask_of_a_length_off_the_grid_is_refused),
		cmocka_unit_test(a_load_mask_of_any_length_costs_nothing),
		cmocka_unit_test(no_hit_reaches_beyond_the_hashes),
		cmocka_unit_test(a_window_of_one_token_keeps_no_chunk_yet_hits_only_at_one),
		cmocka_unit_test(replay_boundaries_are_kept_only_with_a_retention_interval),
		cmocka_unit_test(a_shorter_length_is_verified_for_drafting_anew),
		cmocka_unit_test(a_tail_boundary_is_the_hit_or_the_next_hash_held_in_its_chunk),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
