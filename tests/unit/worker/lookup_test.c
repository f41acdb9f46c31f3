/* SPDX-License-Identifier: Apache-2.0 */
/* Lookups: the longest prefix that every rank could load. */
#include "rig.h"

/* proves: R-40 */
static void a_lookup_asks_for_every_rank_that_would_load(void **state)
{
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig.config.tp_size = 2;
	rig.config.pp_size = 2;
	rig_open(&rig);
	assert_int_equal(rig_lookup(&rig, 47, NULL), 0);
	assert_string_equal(rig_calls(&rig), "exists 0 0 t1:0 t1:0 1 1 t1:1 t1:1\n");
	for (int i = 0; i < 4; i++) {
		char text[64];

		snprintf(text, sizeof(text), "m@tp_rank:%d@pcp0@dcp0@pp_rank:%d@group:0@", i / 2,
		         i % 2);
		assert_true(fake_prefix_id(&rig.world->fake, text, "id") >= 0);
	}
	assert_int_equal(rig.world->fake.prefix_count, 4);
	/* One rank of four lacks the second chunk. */
	FAKE_ANSWER(&rig.world->fake, FAKE_EXISTS, 1, 1, 1, 1, 1, 1, 0, 1);
	assert_int_equal(rig_lookup(&rig, 47, NULL), 16);
	rig_close(&rig);
}

/* proves: R-40 */
static void only_1_is_present(void **state)
{
	static const int64_t absent[] = {0,          2, -1, KVH_REPLICA_IS_NOT_READY, KVH_NO_ANSWER,
	                                 FAKE_SILENT};

	(void)state;
	for (size_t i = 0; i < COUNT_OF(absent); i++) {
		struct rig rig;

		rig_init(&rig);
		rig_open(&rig);
		FAKE_ANSWER(&rig.world->fake, FAKE_EXISTS, 1, 1, absent[i], 1);
		assert_int_equal(rig_lookup(&rig, 65, NULL), 32);
		rig_close(&rig);
	}
}

/* proves: R-40 */
static void the_last_token_is_always_left_to_compute(void **state)
{
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig_open(&rig);
	for (unsigned i = 0; i < 8; i++)
		rig_plant(&rig, 0, i, 1);
	assert_int_equal(rig_lookup(&rig, 64, NULL), 48);
	assert_string_equal(rig_calls(&rig), "exists 0 1 2 3\n"); /* the same answers serve */
	assert_int_equal(rig_lookup(&rig, 65, NULL), 64);
	assert_int_equal(rig_lookup(&rig, 16, NULL), 0);
	assert_int_equal(rig_lookup(&rig, 15, NULL), 0);
	assert_int_equal(rig_lookup(&rig, 0, NULL), 0);
	rig_close(&rig);
}

/* proves: R-40 */
static void partial_hits_end_at_hash_boundaries(void **state)
{
	struct kvh_lookup_result found;
	struct kvh_load_job job;
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig.config.hash_tokens = 8;
	rig.config.partial_hits = true;
	rig.groups[0].block_tokens = 32;
	rig.block_bytes[0] = 512;
	rig_open(&rig);
	rig_plant(&rig, 0, 3, 0x33); /* the first block */
	rig_plant(&rig, 0, 5, 0x55); /* 48 tokens: inside the second */
	assert_int_equal(rig_lookup(&rig, 60, &found), 48);
	assert_string_equal(rig_calls(&rig), "exists 0 1 2 3 4 5 6\n");
	assert_int_equal(found.tail_key_count, 1);
	assert_int_equal(found.tail_keys[0].tokens, 48);
	job = rig_load_job(&rig, 1, "r", found.hit_tokens, 0);
	job.tail_keys = found.tail_keys;
	job.tail_key_count = found.tail_key_count;
	assert_int_equal(rig_submit_load(&rig, &job), KVH_OK);
	rig_run_load(&rig);
	assert_true(rig_block_is(&rig, 0, RIG_BLOCK + 1, 0x55));
	/* A whole hit is looked for again one hash boundary earlier: there is only the block. */
	assert_int_equal(rig_lookup(&rig, 48, &found), 32);
	assert_int_equal(found.tail_keys[0].tokens, 32);
	rig_close(&rig);
}

/* proves: R-40, R-31 */
static void a_tail_beyond_the_hit_is_handed_to_the_load(void **state)
{
	struct kvh_lookup_result found;
	struct kvh_load_job job;
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig.config.hash_tokens = 8;
	rig.config.partial_hits = true;
	rig.groups[0].block_tokens = 16;
	rig_add_group(&rig, KVH_ATTENTION_FULL, 32, 0);
	rig_open(&rig);
	rig_plant(&rig, 0, 1, 0x11);
	rig_plant(&rig, 0, 3, 0x13);
	rig_plant(&rig, 0, 4, 0x14); /* 40 tokens */
	rig_plant(&rig, 1, 3, 0x23);
	rig_plant(&rig, 1, 4, 0x24);
	assert_int_equal(rig_lookup(&rig, 41, &found), 40);
	assert_int_equal(found.tail_key_count, 2);
	rig_calls(&rig);
	job = rig_load_job(&rig, 1, "r", found.hit_tokens, 0);
	job.tail_keys = found.tail_keys;
	job.tail_key_count = found.tail_key_count;
	assert_int_equal(rig_submit_load(&rig, &job), KVH_OK);
	rig_run_load(&rig);
	assert_string_equal(rig_calls(&rig), "get 1 3 4 g1:3 g1:4\n");
	assert_string_equal(rig_done(&rig), "loaded 1 0\n");
	assert_true(rig_block_is(&rig, 0, RIG_BLOCK, 0x11));
	assert_true(rig_block_is(&rig, 0, RIG_BLOCK + 1, 0x13));
	assert_true(rig_block_is(&rig, 0, RIG_BLOCK + 2, 0x14));
	assert_true(rig_block_is(&rig, 1, RIG_BLOCK + 1, 0x24));
	rig_close(&rig);
}

/* proves: R-40 */
static void a_lookup_reaches_no_further_than_its_hashes(void **state)
{
	struct kvh_lookup_result found = {.struct_bytes = sizeof(found)};
	struct kvh_lookup lookup = {.struct_bytes = sizeof(lookup), .token_count = 1000};
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig_open(&rig);
	for (unsigned i = 0; i < 8; i++)
		rig_plant(&rig, 0, i, 1);
	rig_save_job(&rig, 1, "r", 64); /* makes the hashes */
	lookup.hashes = rig.hashes;
	lookup.hash_count = 3;
	assert_int_equal(kvh_worker_lookup(rig.worker, &lookup, &found, NULL), KVH_OK);
	assert_int_equal(found.hit_tokens, 48);
	assert_string_equal(rig_calls(&rig), "exists 0 1 2\n");
	lookup.hash_count = 0;
	lookup.hashes = NULL;
	assert_int_equal(kvh_worker_lookup(rig.worker, &lookup, &found, NULL), KVH_OK);
	assert_int_equal(found.hit_tokens, 0);
	assert_int_equal(found.tail_key_count, 0);
	assert_string_equal(rig_calls(&rig), "");
	rig_close(&rig);
}

/* proves: R-40 */
static void a_store_error_is_hit_0_and_counted(void **state)
{
	struct kvh_lookup_result found;
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig_open(&rig);
	rig_plant(&rig, 0, 0, 1);
	fake_answer_status(&rig.world->fake, FAKE_EXISTS, KVH_RPC_FAIL);
	assert_int_equal(rig_lookup(&rig, 17, &found), 0);
	assert_int_equal(found.tail_key_count, 0);
	assert_int_equal(rig_stats(&rig).lookups, 1);
	assert_int_equal(rig_stats(&rig).lookup_errors, 1);
	assert_non_null(strstr(rig.world->lines, "-900"));
	assert_int_equal(rig_lookup(&rig, 17, &found), 16);
	assert_int_equal(rig_stats(&rig).lookup_errors, 1);
	rig_close(&rig);
}

/* proves: R-40 */
static void a_deadline_or_a_cancel_is_a_store_error(void **state)
{
	struct kvh_cancel cancel = {0};
	struct kvh_lookup_result found = {.struct_bytes = sizeof(found)};
	struct kvh_lookup lookup = {
		.struct_bytes = sizeof(lookup), .token_count = 32, .deadline_ns = 1};
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig_open(&rig);
	rig_save_job(&rig, 1, "r", 32);
	lookup.hashes = rig.hashes;
	lookup.hash_count = 2;
	assert_int_equal(kvh_worker_lookup(rig.worker, &lookup, &found, NULL), KVH_OK);
	lookup.deadline_ns = 0;
	lookup.cancel = &cancel;
	kvh_cancel_request(&cancel);
	assert_int_equal(kvh_worker_lookup(rig.worker, &lookup, &found, NULL), KVH_OK);
	assert_string_equal(rig_calls(&rig), "");
	assert_int_equal(rig_stats(&rig).lookup_errors, 2);
	rig_close(&rig);
}

/* proves: R-40 */
static void a_lookup_is_repeatable_and_leaves_no_trace(void **state)
{
	struct kvh_worker_stats before, after;
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig_open(&rig);
	rig_plant(&rig, 0, 0, 1);
	rig.world->fake.last_exists_flags = 99;
	before = rig_stats(&rig);
	for (int i = 0; i < 3; i++)
		assert_int_equal(rig_lookup(&rig, 33, NULL), 16);
	after = rig_stats(&rig);
	assert_int_equal(rig.world->fake.last_exists_flags, KVH_EXISTS_LOOKUP);
	assert_int_equal(rig.world->fake.object_count, 1);
	assert_int_equal(after.live_requests, before.live_requests);
	assert_string_equal(rig_done(&rig), "");
	assert_string_equal(rig_records(&rig), "");
	rig_close(&rig);
}

/* proves: R-40 */
static void groups_must_agree_on_the_hit(void **state)
{
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig_add_group(&rig, KVH_ATTENTION_SLIDING_WINDOW, 16, 32); /* two blocks */
	rig_open(&rig);
	for (unsigned i = 0; i < 6; i++)
		rig_plant(&rig, 0, i, 1);
	rig_plant(&rig, 1, 2, 1);
	rig_plant(&rig, 1, 3, 1);
	rig_plant(&rig, 1, 5, 1);
	assert_int_equal(rig_lookup(&rig, 97, NULL), 64);
	rig_close(&rig);
}

/* proves: R-40 */
static void wrong_lookups_are_refused(void **state)
{
	uint8_t hash[KVH_HASH_BYTES_MAX] = {0};
	struct kvh_lookup_result found = {.struct_bytes = sizeof(found), .hit_tokens = 5};
	struct kvh_lookup lookup = {
		.struct_bytes = sizeof(lookup), .token_count = 32, .hashes = hash, .hash_count = 1};
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig_open(&rig);
	assert_refused(&rig, kvh_worker_lookup(NULL, &lookup, &found, &rig.error), "lookup");
	assert_refused(&rig, kvh_worker_lookup(rig.worker, NULL, &found, &rig.error), "lookup");
	assert_refused(&rig, kvh_worker_lookup(rig.worker, &lookup, NULL, &rig.error), "lookup");
	found.struct_bytes = 8;
	assert_refused(&rig, kvh_worker_lookup(rig.worker, &lookup, &found, &rig.error), "result");
	found.struct_bytes = sizeof(found);
	lookup.struct_bytes = 0;
	assert_refused(&rig, kvh_worker_lookup(rig.worker, &lookup, &found, &rig.error), "lookup");
	lookup.struct_bytes = sizeof(lookup);
	lookup.hashes = NULL;
	assert_refused(&rig, kvh_worker_lookup(rig.worker, &lookup, &found, &rig.error), "hashes");
	lookup.hashes = hash;
	lookup.token_count = KVH_TOKENS_MAX + 1ull;
	assert_refused(&rig, kvh_worker_lookup(rig.worker, &lookup, &found, &rig.error), "tokens");
	lookup.token_count = 32;
	lookup.hash_count = SIZE_MAX;
	assert_refused(&rig, kvh_worker_lookup(rig.worker, &lookup, &found, &rig.error), "hashes");
	assert_int_equal(found.hit_tokens, 5);
	assert_string_equal(rig_calls(&rig), "");
	assert_int_equal(rig_stats(&rig).lookups, 0);
	rig_close(&rig);
}

enum { B10_RANKS = 4, B10_STAGES = 2, B10_CHUNKS = 4 };

static void open_b10(struct rig *rigs, struct world *world)
{
	for (uint32_t i = 0; i < B10_RANKS * B10_STAGES; i++) {
		rig_init_in(&rigs[i], world);
		rigs[i].config.tp_size = B10_RANKS;
		rigs[i].config.tp_rank = i / B10_STAGES;
		rigs[i].config.pp_size = B10_STAGES;
		rigs[i].config.pp_rank = i % B10_STAGES;
		rig_add_group(&rigs[i], KVH_ATTENTION_FULL, 32, 0);
		rig_open(&rigs[i]);
		rig_fill_all(&rigs[i], B10_CHUNKS);
		rig_save_and_run(&rigs[i], i + 1, "r", B10_CHUNKS * 16);
		assert_non_null(strstr(rig_done(&rigs[i]), " 0\n"));
	}
}

/* proves: B10, R-40 */
static void b10_a_hit_is_what_every_rank_stage_and_group_has(void **state)
{
	struct rig rigs[B10_RANKS * B10_STAGES];
	struct world *world = world_open();

	(void)state;
	open_b10(rigs, world);
	/* 4 chunks of one group and 2 of the other, from 8 workers. */
	assert_int_equal(world->fake.object_count, 8 * 6);
	for (size_t r = 0; r < COUNT_OF(rigs); r++) {
		assert_int_equal(rig_lookup(&rigs[r], 65, NULL), 64);
		rig_load_and_run(&rigs[r], 100, "s", 64, 0);
		assert_non_null(strstr(rig_done(&rigs[r]), "loaded 100 0\n"));
	}
	/* Whichever one object goes, no rank believes in more than is left for all. */
	for (size_t i = 0; i < world->fake.object_count; i++) {
		struct fake_object *object = &world->fake.objects[i];
		uint64_t left = fake_hash_index(object->hash) / 2 * 32; /* in common blocks */

		object->hash_bytes = 0; /* nobody can ask for it so */
		for (size_t r = 0; r < COUNT_OF(rigs); r += 3)
			assert_int_equal(rig_lookup(&rigs[r], 65, NULL), left);
		object->hash_bytes = KVH_HASH_BYTES_MAX;
		rig_calls(&rigs[0]);
	}
	for (size_t r = 0; r < COUNT_OF(rigs); r++)
		rig_close(&rigs[r]);
	world_close(world);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_lookup_asks_for_every_rank_that_would_load),
		cmocka_unit_test(only_1_is_present),
		cmocka_unit_test(the_last_token_is_always_left_to_compute),
		cmocka_unit_test(partial_hits_end_at_hash_boundaries),
		cmocka_unit_test(a_tail_beyond_the_hit_is_handed_to_the_load),
		cmocka_unit_test(a_lookup_reaches_no_further_than_its_hashes),
		cmocka_unit_test(a_store_error_is_hit_0_and_counted),
		cmocka_unit_test(a_deadline_or_a_cancel_is_a_store_error),
		cmocka_unit_test(a_lookup_is_repeatable_and_leaves_no_trace),
		cmocka_unit_test(groups_must_agree_on_the_hit),
		cmocka_unit_test(wrong_lookups_are_refused),
		cmocka_unit_test(b10_a_hit_is_what_every_rank_stage_and_group_has),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
