/* SPDX-License-Identifier: Apache-2.0 */
/* Faults that users of KV-cache stores met, on the worker (docs/spec/field-cases.md). */
#include "rig.h"

/* proves: B01 */
static void b01_a_preempted_save_never_stores_the_next_owners_bytes(void **state)
{
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig_open(&rig);
	for (int i = 0; i < 4; i++)
		rig_fill(&rig, 0, RIG_BLOCK + i, 0xA1);
	rig_hold_next(&rig, FAKE_PUT);
	rig_save_and_run(&rig, 1, "r1", 64);
	rig_preempt(&rig, "r1");
	/* The engine has its blocks again only when it is told. */
	assert_string_equal(rig_done(&rig), "");
	rig_run_save(&rig);
	assert_string_equal(rig_done(&rig), "saved 1 0\n");
	for (int i = 0; i < 4; i++)
		rig_fill(&rig, 0, RIG_BLOCK + i, 0xB2);
	rig.chain = 1;
	rig_save_and_run(&rig, 2, "r2", 64);
	rig.chain = 0;
	for (unsigned i = 0; i < 4; i++)
		assert_true(rig_stored(&rig, 0, i, 0xA1));
	assert_string_equal(rig_done(&rig), "saved 2 0\n");
	rig_close(&rig);
}

/* proves: B01 */
static void b01_a_save_preempted_before_it_runs_stores_nothing(void **state)
{
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig_open(&rig);
	rig_save(&rig, 1, "r1", 64);
	rig_preempt(&rig, "r1");
	rig_run_save(&rig);
	assert_int_equal(rig.world->fake.object_count, 0);
	assert_string_equal(rig_done(&rig), "saved 1 -2001\n");
	rig_close(&rig);
}

/* proves: B03 */
static void b03_a_load_may_come_before_the_old_saves_are_reported(void **state)
{
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig_open(&rig);
	rig_fill_all(&rig, 4);
	rig_save_and_run(&rig, 1, "r", 64); /* done, not polled */
	rig_preempt(&rig, "r");
	assert_int_equal(rig_lookup(&rig, 65, NULL), 64);
	for (int i = 0; i < 4; i++)
		rig.ids[0][i] = 200 + i;
	rig_load_and_run(&rig, 2, "r", 64, 0);
	assert_string_equal(rig_done(&rig), "saved 1 0\nloaded 2 0\n");
	for (int i = 0; i < 4; i++)
		assert_true(rig_block_is(&rig, 0, 200 + i, (uint8_t)(i + 1)));
	rig_close(&rig);
}

/* proves: B03 */
static void b03_a_load_and_the_old_save_run_side_by_side(void **state)
{
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig_open(&rig);
	rig_fill_all(&rig, 4);
	for (unsigned i = 0; i < 4; i++)
		rig_plant(&rig, 0, i, (uint8_t)(0x70 + i));
	FAKE_ANSWER(&rig.world->fake, FAKE_EXISTS, 0, 0, 0, 0);
	rig_hold_next(&rig, FAKE_PUT);
	rig_save_and_run(&rig, 1, "r", 64); /* in its put */
	rig_preempt(&rig, "r");
	assert_int_equal(rig_lookup(&rig, 65, NULL), 64);
	for (int i = 0; i < 4; i++)
		rig.ids[0][i] = 200 + i;
	rig_load_and_run(&rig, 2, "r", 64, 0);
	assert_string_equal(rig_done(&rig), "loaded 2 0\n");
	for (int i = 0; i < 4; i++)
		assert_true(rig_block_is(&rig, 0, 200 + i, (uint8_t)(0x70 + i)));
	rig_run_save(&rig);
	assert_string_equal(rig_done(&rig), "saved 1 0\n");
	rig_save_and_run(&rig, 3, "r", 64);
	assert_string_equal(rig_done(&rig), "saved 3 0\n");
	rig_close(&rig);
}

/* proves: B04 */
static void b04_more_hashes_than_blocks_is_refused_and_harms_nobody(void **state)
{
	struct kvh_save_job job;
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig_open(&rig);
	job = rig_save_job(&rig, 1, "aborted", 64);
	rig.tables[0] = (struct kvh_block_table){0};
	assert_refused(&rig, rig_submit_save(&rig, &job), "blocks[0]");
	rig_finish(&rig, "aborted");
	job = rig_save_job(&rig, 2, "resumed", 1024);
	rig.tables[0].count = 4; /* a suffix, for all that one can tell */
	assert_refused(&rig, rig_submit_save(&rig, &job), "blocks[0]");
	rig_save_and_run(&rig, 3, "good", 64);
	assert_string_equal(rig_calls(&rig), "exists 0 1 2 3\nput 0 1 2 3\n");
	assert_string_equal(rig_done(&rig), "saved 3 0\n");
	rig_close(&rig);
}

/* proves: B06, D-14 */
static void b06_a_hanging_get_is_reported_when_no_write_can_follow(void **state)
{
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig.config.load_timeout_ms = 200;
	rig_open(&rig);
	for (unsigned i = 0; i < 4; i++)
		rig_plant(&rig, 0, i, 7);
	rig_hold_next(&rig, FAKE_GET);
	rig_load_and_run(&rig, 1, "r", 64, 0);
	rig_load(&rig, 2, "s", 64, 0);
	rig_advance_ns(&rig, 200 * MS);
	/* Job 2 was never begun; job 1's bytes may still come. */
	assert_non_null(strstr(rig_done(&rig), "loaded 2 -2000\n"));
	rig_advance_ns(&rig, 700 * MS);
	assert_string_equal(rig_done(&rig), "");
	/* The store gives up at last, with the deadline it had been given. */
	fake_answer_status(&rig.world->fake, FAKE_GET, KVH_TIMEOUT);
	rig_run_load(&rig);
	assert_int_not_equal(rig.world->fake.last_get_deadline_ns, 0);
	assert_string_equal(rig_done(&rig), "failed 1 g0 i0 b100 -2000\nfailed 1 g0 i1 b101 -2000\n"
	                                    "failed 1 g0 i2 b102 -2000\n"
	                                    "failed 1 g0 i3 b103 -2000\nloaded 1 -2000\n");
	assert_string_equal(rig_done(&rig), "");
	rig_close(&rig);
}

/* proves: B06, D-14 */
static void b06_a_get_that_stops_at_its_deadline_fails_its_blocks(void **state)
{
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig.config.load_timeout_ms = 200;
	rig_open(&rig);
	fake_answer_status(&rig.world->fake, FAKE_GET, KVH_TIMEOUT);
	rig_load_and_run(&rig, 1, "r", 32, 0);
	assert_string_equal(rig_done(&rig), "failed 1 g0 i0 b100 -2000\nfailed 1 g0 i1 b101 -2000\n"
	                                    "loaded 1 -2000\n");
	assert_int_equal(rig_stats(&rig).load_jobs_timed_out, 1);
	rig_close(&rig);
}

/* proves: B08, D-1 */
static void b08_nothing_to_load_ends_at_once_and_the_next_job_is_served(void **state)
{
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig_open(&rig);
	for (unsigned i = 0; i < 8; i++)
		rig_plant(&rig, 0, i, (uint8_t)(i + 1));
	rig_load(&rig, 1, "r", 128, 128);
	rig_load(&rig, 2, "s", 128, 0);
	rig_run_load(&rig);
	assert_string_equal(rig_done(&rig), "loaded 1 0\n");
	assert_string_equal(rig_calls(&rig), "");
	rig_run_load(&rig);
	assert_string_equal(rig_done(&rig), "loaded 2 0\n");
	assert_int_equal(rig_stats(&rig).queued_loads, 0);
	rig_close(&rig);
}

/* proves: B08, D-1 */
static void b08_a_load_whose_chunks_are_all_masked_out_ends_at_once(void **state)
{
	struct rig rig;

	(void)state;
	rig_init(&rig);
	/* Only the last state is ever loaded; up to 128 tokens the engine has it. */
	rig.groups[0].kind = KVH_ATTENTION_MAMBA;
	rig_open(&rig);
	rig_load_and_run(&rig, 1, "r", 128, 128);
	assert_string_equal(rig_done(&rig), "loaded 1 0\n");
	assert_string_equal(rig_calls(&rig), "");
	rig_close(&rig);
}

/* proves: B09, D-4, D-5 */
static void b09_success_without_the_data_is_failure(void **state)
{
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig_open(&rig);
	for (unsigned i = 0; i < 4; i++)
		rig_plant(&rig, 0, i, 1);
	FAKE_ANSWER(&rig.world->fake, FAKE_GET, 0, 1024, 512, 1024);
	rig_load_and_run(&rig, 1, "r", 64, 0);
	assert_string_equal(rig_done(&rig), "failed 1 g0 i0 b100 -800\nfailed 1 g0 i2 b102 -800\n"
	                                    "loaded 1 -800\n");
	/* An adapter that got a list of another length writes no slot at all (D-5). */
	FAKE_ANSWER(&rig.world->fake, FAKE_GET, FAKE_SILENT, FAKE_SILENT, FAKE_SILENT, FAKE_SILENT);
	rig_load_and_run(&rig, 2, "r", 64, 0);
	assert_string_equal(rig_done(&rig), "failed 2 g0 i0 b100 -2006\nfailed 2 g0 i1 b101 -2006\n"
	                                    "failed 2 g0 i2 b102 -2006\nfailed 2 g0 i3 b103 -2006\n"
	                                    "loaded 2 -2006\n");
	rig_close(&rig);
}

/* proves: B11, D-20 */
static void b11_equal_block_ids_of_two_groups_are_told_apart(void **state)
{
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig.groups[0].block_tokens = 32;
	rig.block_bytes[0] = 2048;
	rig_add_group(&rig, KVH_ATTENTION_FULL, 16, 0);
	rig_open(&rig);
	for (int i = 0; i < 4; i++) {
		rig.ids[0][i] = 10 + i;
		rig.ids[1][i] = 11 + i;
		rig_plant(&rig, 1, (unsigned)i, 1);
		if (i % 2)
			rig_plant(&rig, 0, (unsigned)i, 1);
	}
	/* Group 1's block 13 holds tokens 32 to 47. */
	FAKE_ANSWER(&rig.world->fake, FAKE_GET, FAKE_DO_IT, FAKE_DO_IT, FAKE_DO_IT, FAKE_DO_IT,
	            KVH_TRANSFER_FAIL);
	rig_load_and_run(&rig, 1, "r", 64, 0);
	assert_string_equal(rig_calls(&rig), "get 1 3 g1:0 g1:1 g1:2 g1:3\n");
	assert_string_equal(rig_done(&rig), "failed 1 g1 i2 b13 -800\nloaded 1 -800\n");
	rig_close(&rig);
}

/* proves: B11 */
static void b11_requests_that_share_blocks_are_both_told(void **state)
{
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig_open(&rig);
	rig_plant(&rig, 0, 0, 1);
	rig_load_and_run(&rig, 1, "r", 32, 0);
	rig_load_and_run(&rig, 2, "s", 32, 0);
	assert_string_equal(rig_done(&rig), "failed 1 g0 i1 b101 -704\nloaded 1 -704\n"
	                                    "failed 2 g0 i1 b101 -704\nloaded 2 -704\n");
	rig_close(&rig);
}

/* proves: B12 */
static void b12_what_went_after_the_lookup_is_reported_once_with_its_cause(void **state)
{
	struct kvh_worker_stats stats;
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig_open(&rig);
	for (unsigned i = 0; i < 4; i++)
		rig_plant(&rig, 0, i, 1);
	assert_int_equal(rig_lookup(&rig, 65, NULL), 64);
	fake_remove(&rig.world->fake, rig_object(&rig, 0, 2));
	rig_load_and_run(&rig, 1, "r", 64, 0);
	assert_string_equal(rig_done(&rig), "failed 1 g0 i2 b102 -704\nloaded 1 -704\n");
	assert_string_equal(rig_done(&rig), "");
	FAKE_ANSWER(&rig.world->fake, FAKE_GET, KVH_LEASE_EXPIRED, KVH_LEASE_EXPIRED,
	            KVH_LEASE_EXPIRED, KVH_LEASE_EXPIRED);
	rig_load_and_run(&rig, 2, "r", 64, 0);
	assert_string_equal(rig_done(&rig), "failed 2 g0 i0 b100 -707\nfailed 2 g0 i1 b101 -707\n"
	                                    "failed 2 g0 i2 b102 -707\nfailed 2 g0 i3 b103 -707\n"
	                                    "loaded 2 -707\n");
	assert_string_equal(rig_done(&rig), "");
	stats = rig_stats(&rig);
	assert_int_equal(stats.load_keys_gone, 1);
	assert_int_equal(stats.load_keys_lease_expired, 4);
	assert_int_equal(stats.load_keys_failed, 5);
	rig_close(&rig);
}

/* proves: B13 */
static void b13_a_load_beside_a_cached_prefix_leaves_that_alone(void **state)
{
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig_open(&rig);
	for (unsigned i = 0; i < 16; i++)
		rig_plant(&rig, 0, i, (uint8_t)(i + 1));
	memset(rig.memory[0], 0xCA, rig.memory_bytes[0]);
	rig_load_and_run(&rig, 1, "r", 256, 128);
	assert_string_equal(rig_done(&rig), "loaded 1 0\n");
	for (int b = 0; b < 256; b++) {
		bool loaded = b >= RIG_BLOCK + 8 && b < RIG_BLOCK + 16;

		assert_true(rig_block_is(&rig, 0, b, loaded ? (uint8_t)(b - RIG_BLOCK + 1) : 0xCA));
	}
	rig_close(&rig);
}

/* A pattern that says where it stands. */
static uint8_t coded(unsigned region, int block, unsigned i)
{
	return (uint8_t)((region + 1) * 89 + (unsigned)block * 31 + i * 7 + (i >> 8));
}

/* proves: B13 */
static void b13_padded_blocks_of_two_segments_come_back_byte_for_byte(void **state)
{
	enum { USEFUL = 1024, STRIDE = 1536 };
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig.region_count[0] = 2;
	rig.stride_bytes[0] = STRIDE;
	rig_open(&rig);
	for (unsigned r = 0; r < 2; r++)
		for (int b = RIG_BLOCK; b < RIG_BLOCK + 4; b++)
			for (unsigned i = 0; i < USEFUL; i++)
				rig_block(&rig, 0, r, b)[i] = coded(r, b, i);
	rig_save_and_run(&rig, 1, "r", 64);
	assert_int_equal(rig_object(&rig, 0, 0)->byte_count, 2 * USEFUL);
	memset(rig.memory[0], 0xCA, rig.memory_bytes[0]);
	for (int i = 0; i < 4; i++)
		rig.ids[0][i] = 203 - i; /* back to front */
	rig_load_and_run(&rig, 2, "r", 64, 0);
	assert_string_equal(rig_done(&rig), "saved 1 0\nloaded 2 0\n");
	for (unsigned r = 0; r < 2; r++)
		for (int b = 0; b < 256; b++)
			for (unsigned i = 0; i < STRIDE; i++) {
				bool loaded = b >= 200 && b <= 203 && i < USEFUL;
				uint8_t wanted = loaded ? coded(r, RIG_BLOCK + 203 - b, i) : 0xCA;

				assert_int_equal(rig_block(&rig, 0, r, b)[i], wanted);
			}
	rig_close(&rig);
}

/* proves: B14, R-14 */
static void b14_saved_advances_only_over_what_is_stored(void **state)
{
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig_open(&rig);
	rig_fill_all(&rig, 5);
	FAKE_ANSWER(&rig.world->fake, FAKE_PUT, FAKE_DO_IT, FAKE_DO_IT, KVH_TRANSFER_FAIL,
	            FAKE_DO_IT);
	rig_save_and_run(&rig, 1, "r", 64);
	assert_int_equal(rig_saved_tokens(&rig, "r"), 0);
	rig_calls(&rig);
	rig_save_and_run(&rig, 2, "r", 80);
	assert_string_equal(rig_calls(&rig), "exists 0 1 2 3 4\nput 2 4\n");
	assert_int_equal(rig_saved_tokens(&rig, "r"), 80);
	assert_true(rig_stored(&rig, 0, 2, 3));
	/* The same at the head, where a hole would hide all the rest. */
	rig.chain = 1;
	FAKE_ANSWER(&rig.world->fake, FAKE_PUT, KVH_TRANSFER_FAIL);
	rig_save_and_run(&rig, 3, "s", 64);
	assert_int_equal(rig_saved_tokens(&rig, "s"), 0);
	assert_int_equal(rig_lookup(&rig, 65, NULL), 0);
	rig_calls(&rig);
	rig_save_and_run(&rig, 4, "s", 80);
	assert_string_equal(rig_calls(&rig), "exists 0 1 2 3 4\nput 0 4\n");
	assert_int_equal(rig_lookup(&rig, 81, NULL), 80);
	rig_close(&rig);
}

static void other_writer_stores_h1(void *user, enum fake_fn fn)
{
	if (fn == FAKE_PUT)
		rig_plant(user, 0, 1, 0x99);
}

/* proves: B16, D-10, D-11 */
static void b16_the_loser_of_a_race_counts_it_as_stored(void **state)
{
	struct kvh_save_job job;
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig_open(&rig);
	FAKE_ANSWER(&rig.world->fake, FAKE_PUT, FAKE_DO_IT, KVH_OBJECT_ALREADY_EXISTS, FAKE_DO_IT,
	            FAKE_DO_IT);
	rig.world->fake.hook = other_writer_stores_h1;
	rig.world->fake.hook_user = &rig;
	rig_save_and_run(&rig, 1, "r", 64);
	rig.world->fake.hook = NULL;
	assert_int_equal(rig_saved_tokens(&rig, "r"), 64);
	assert_false(kvh_inspect_pressure(rig.worker));
	assert_int_equal(rig_stats(&rig).save_keys_duplicate, 1);
	assert_true(rig_stored(&rig, 0, 1, 0x99));
	/* One key twice in a batch. */
	rig.chain = 1;
	job = rig_save_job(&rig, 2, "s", 48);
	memcpy(rig.hashes + 2 * KVH_HASH_BYTES_MAX, rig.hashes + KVH_HASH_BYTES_MAX,
	       KVH_HASH_BYTES_MAX);
	rig_calls(&rig);
	assert_int_equal(rig_submit_save(&rig, &job), KVH_OK);
	rig_run_save(&rig);
	assert_string_equal(rig_calls(&rig), "exists 0 1\nput 0 1\n");
	assert_string_equal(rig_done(&rig), "saved 1 0\nsaved 2 0\n");
	rig_close(&rig);
}

/* proves: B17, D-12 */
static void b17_a_null_block_is_never_stored_nor_counted_as_saved(void **state)
{
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig_open(&rig);
	rig_fill_all(&rig, 4);
	rig_fill(&rig, 0, KVH_NULL_BLOCK, 0xDD);
	rig.ids[0][1] = KVH_NULL_BLOCK;
	rig_save_and_run(&rig, 1, "r", 64);
	assert_null(rig_object(&rig, 0, 1));
	assert_int_equal(rig_saved_tokens(&rig, "r"), 16);
	assert_int_equal(rig_lookup(&rig, 65, NULL), 16);
	rig.ids[0][1] = 101;
	rig_save_and_run(&rig, 2, "r", 64);
	assert_true(rig_stored(&rig, 0, 1, 2));
	assert_int_equal(rig_saved_tokens(&rig, "r"), 64);
	rig_close(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(b01_a_preempted_save_never_stores_the_next_owners_bytes),
		cmocka_unit_test(b01_a_save_preempted_before_it_runs_stores_nothing),
		cmocka_unit_test(b03_a_load_may_come_before_the_old_saves_are_reported),
		cmocka_unit_test(b03_a_load_and_the_old_save_run_side_by_side),
		cmocka_unit_test(b04_more_hashes_than_blocks_is_refused_and_harms_nobody),
		cmocka_unit_test(b06_a_hanging_get_is_reported_when_no_write_can_follow),
		cmocka_unit_test(b06_a_get_that_stops_at_its_deadline_fails_its_blocks),
		cmocka_unit_test(b08_nothing_to_load_ends_at_once_and_the_next_job_is_served),
		cmocka_unit_test(b08_a_load_whose_chunks_are_all_masked_out_ends_at_once),
		cmocka_unit_test(b09_success_without_the_data_is_failure),
		cmocka_unit_test(b11_equal_block_ids_of_two_groups_are_told_apart),
		cmocka_unit_test(b11_requests_that_share_blocks_are_both_told),
		cmocka_unit_test(b12_what_went_after_the_lookup_is_reported_once_with_its_cause),
		cmocka_unit_test(b13_a_load_beside_a_cached_prefix_leaves_that_alone),
		cmocka_unit_test(b13_padded_blocks_of_two_segments_come_back_byte_for_byte),
		cmocka_unit_test(b14_saved_advances_only_over_what_is_stored),
		cmocka_unit_test(b16_the_loser_of_a_race_counts_it_as_stored),
		cmocka_unit_test(b17_a_null_block_is_never_stored_nor_counted_as_saved),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
