/* SPDX-License-Identifier: Apache-2.0 */
/* What a load does: which chunks, in which gets, and what is said about each block. */
#include "rig.h"

#include "base/fault.h"
#include "worker/staging.h"

/* proves */
static void a_load_writes_the_blocks_from_the_cached_ones_on(void **state)
{
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig_open_with_objects(&rig, 8);
	rig_load_and_run(&rig, 1, "r", 96, 40); /* the floor of 40 is 32 */
	assert_string_equal(rig_calls(&rig), "get 2 3 4 5\n");
	assert_string_equal(rig_done(&rig), "loaded 1 0\n");
	assert_string_equal(rig_done(&rig), "");
	for (int i = 0; i < 8; i++)
		assert_true(rig_block_is(&rig, 0, RIG_BLOCK + i,
		                         i < 2 || i > 5 ? 0 : (uint8_t)(i + 1)));
	rig_close(&rig);
}

/* proves: R-30 */
static void the_start_is_floored_to_the_common_block_size(void **state)
{
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig_add_group(&rig, KVH_ATTENTION_FULL, 64, 0);
	rig_open_with_objects(&rig, 8);
	rig_load_and_run(&rig, 1, "r", 128, 96);
	assert_string_equal(rig_calls(&rig), "get 4 5 6 7 g1:7\n");
	rig_close(&rig);
}

/* proves: R-31 */
static void the_load_mask_picks_what_a_sliding_window_needs(void **state)
{
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig_add_group(&rig, KVH_ATTENTION_SLIDING_WINDOW, 16, 32);
	rig_open_with_objects(&rig, 8);
	rig_load_and_run(&rig, 1, "r", 128, 0);
	assert_string_equal(rig_calls(&rig), "get 0 1 2 3 4 5 6 7 g1:6 g1:7\n");
	/* Blocks that the window has left may be null: they are not written. */
	rig.ids[1][0] = KVH_NULL_BLOCK;
	rig_load_and_run(&rig, 2, "r", 128, 0);
	assert_string_equal(rig_done(&rig), "loaded 1 0\nloaded 2 0\n");
	rig_close(&rig);
}

/* proves: R-31 */
static void a_tail_boundary_keys_the_chunk_that_ends_the_load(void **state)
{
	const struct kvh_tail_key keys[] = {{.group = 0, .tokens = 64}};
	struct kvh_load_job job;
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig.groups[0].block_tokens = 64;
	rig.block_bytes[0] = 512;
	rig.config.partial_hits = true;
	rig_open(&rig);
	rig_plant(&rig, 0, 3, 0x33);
	rig_plant(&rig, 0, 7, 0x77);
	job = rig_load_job(&rig, 1, "r", 48, 0);
	job.hash_count = 4;
	job.tail_keys = keys;
	job.tail_key_count = 1;
	assert_int_equal(rig_submit_load(&rig, &job), KVH_OK);
	rig_run_load(&rig);
	assert_string_equal(rig_calls(&rig), "get 3\n");
	assert_true(rig_block_is(&rig, 0, RIG_BLOCK, 0x33));
	/* Only that chunk, and not without an entry. */
	rig_load_and_run(&rig, 2, "r", 112, 0);
	assert_string_equal(rig_calls(&rig), "get 3 6\n");
	rig_close(&rig);
}

/* proves: R-32 */
static void ranks_start_at_different_keys(void **state)
{
	static const char *const calls[] = {"get 0 1 2 3\n", "get t1:1 t1:2 t1:3 t1:0\n",
	                                    "get t2:2 t2:3 t2:0 t2:1\n"};

	(void)state;
	for (uint32_t rank = 0; rank < 3; rank++) {
		struct rig rig;

		rig_init(&rig);
		rig.config.tp_size = 8;
		rig.config.tp_rank = rank;
		rig_open_with_objects(&rig, 4);
		rig_load_and_run(&rig, 1, "r", 64, 0);
		assert_string_equal(rig_calls(&rig), calls[rank]);
		for (int i = 0; i < 4; i++)
			assert_true(rig_block_is(&rig, 0, RIG_BLOCK + i, (uint8_t)(i + 1)));
		rig_close(&rig);
	}
}

/* proves: R-32 */
static void failed_blocks_are_named_right_after_a_rotation(void **state)
{
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig.config.tp_size = 8;
	rig.config.tp_rank = 5; /* 5 % 4 = 1 */
	rig_open_with_objects(&rig, 4);
	FAKE_ANSWER(&rig.world->fake, FAKE_GET, FAKE_DO_IT, KVH_TRANSFER_FAIL);
	rig_load_and_run(&rig, 1, "r", 64, 0);
	assert_string_equal(rig_calls(&rig), "get t5:1 t5:2 t5:3 t5:0\n");
	assert_string_equal(rig_done(&rig), "failed 1 g0 i2 b102 -800\nloaded 1 -800\n");
	rig_close(&rig);
}

/* proves: R-33 */
static void the_staging_budget_cuts_a_load_in_order(void **state)
{
	struct rig rig;

	(void)state;
	rig_init(&rig);
	/* One key takes 4096 + 8192; 0.9 of the raw budget holds two of them, not three. */
	rig.config.staging_bytes = 3 * 12288;
	rig_open_with_objects(&rig, 5);
	rig_load_and_run(&rig, 1, "r", 80, 0);
	assert_string_equal(rig_calls(&rig), "get 0 1\nget 2 3\nget 4\n");
	assert_string_equal(rig_done(&rig), "loaded 1 0\n");
	rig_close(&rig);
	rig_init(&rig);
	rig.config.staging_bytes = 3 * 12288;
	rig.config.staging_usable_ratio = 1;
	rig_open_with_objects(&rig, 5);
	rig_load_and_run(&rig, 1, "r", 48, 0);
	rig_load_and_run(&rig, 2, "r", 64, 0);
	assert_string_equal(rig_calls(&rig), "get 0 1 2\nget 0 1 2\nget 3\n");
	rig_close(&rig);
}

/* proves: R-33 */
static void a_key_over_usable_goes_alone_and_one_over_raw_fails_the_load(void **state)
{
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig.config.staging_bytes = 12288; /* usable is 0.9 of it */
	rig_open_with_objects(&rig, 3);
	rig_load_and_run(&rig, 1, "r", 32, 0);
	assert_string_equal(rig_calls(&rig), "get 0\nget 1\n");
	assert_string_equal(rig_done(&rig), "loaded 1 0\n");
	rig_close(&rig);
	rig_init(&rig);
	rig.config.staging_bytes = 12287;
	rig_open_with_objects(&rig, 3);
	rig_load_and_run(&rig, 1, "r", 32, 0);
	assert_string_equal(rig_calls(&rig), "");
	assert_string_equal(rig_done(&rig), "failed 1 g0 i0 b100 -2008\n"
	                                    "failed 1 g0 i1 b101 -2008\nloaded 1 -2008\n");
	assert_int_equal(rig_stats(&rig).load_jobs_oversized, 1);
	rig_close(&rig);
}

/* proves: R-33 */
static void staging_bytes_are_whole_pages_and_some(void **state)
{
	(void)state;
	assert_int_equal(kvh_staging_bytes(1), 4096 + 8192);
	assert_int_equal(kvh_staging_bytes(4096), 4096 + 8192);
	assert_int_equal(kvh_staging_bytes(4097), 8192 + 8192);
	assert_true(kvh_staging_bytes(UINT64_MAX - 4096) == UINT64_MAX);
	assert_int_equal(kvh_staging_usable(1342177280, 0.9), 1207959552);
	assert_int_equal(kvh_staging_usable(1, 0.5), 1);
}

/* proves: R-34 */
static void gets_are_recorded(void **state)
{
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig_open_with_objects(&rig, 4);
	rig_load_and_run(&rig, 1, "r", 64, 0);
	assert_string_equal(rig_records(&rig), "get ok 4 keys 0 failed 4096 bytes\n");
	FAKE_ANSWER(&rig.world->fake, FAKE_GET, FAKE_DO_IT, KVH_OBJECT_NOT_FOUND);
	rig_load_and_run(&rig, 2, "r", 64, 0);
	assert_string_equal(rig_records(&rig), "get partial_failure 4 keys 1 failed 4096 bytes\n");
	fake_answer_status(&rig.world->fake, FAKE_GET, KVH_RPC_FAIL);
	rig_load_and_run(&rig, 3, "r", 64, 0);
	assert_string_equal(rig_records(&rig), "get error 4 keys 4 failed 4096 bytes\n");
	rig_done(&rig);
	rig_close(&rig);
}

/* proves */
static void every_end_of_a_load_is_reported_once(void **state)
{
	enum kvh_cancel_outcome outcome;
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig_open_with_objects(&rig, 2);
	fake_answer_status(&rig.world->fake, FAKE_GET, KVH_RPC_FAIL);
	rig_load_and_run(&rig, 1, "a", 16, 0);
	rig_load(&rig, 2, "b", 16, 0);
	assert_int_equal(kvh_worker_cancel(rig.worker, 2, &outcome), KVH_OK);
	assert_int_equal(outcome, KVH_CANCEL_NOT_STARTED);
	rig_load(&rig, 3, "c", 16, 0);
	rig_preempt(&rig, "c");
	rig_load(&rig, 4, "d", 16, 0);
	rig_finish(&rig, "d");
	rig_load_and_run(&rig, 5, "e", 16, 16);
	assert_string_equal(rig_done(&rig), "failed 1 g0 i0 b100 -900\nloaded 1 -900\n"
	                                    "failed 2 g0 i0 b100 -2001\nloaded 2 -2001\n"
	                                    "failed 3 g0 i0 b100 -2001\nloaded 3 -2001\n"
	                                    "failed 4 g0 i0 b100 -2001\nloaded 4 -2001\n"
	                                    "loaded 5 0\n");
	rig_run_load(&rig); /* nothing is left for the thread */
	assert_string_equal(rig_done(&rig), "");
	assert_int_equal(rig_stats(&rig).live_requests, 0);
	rig_close(&rig);
}

/* proves: R-37 */
static void the_tier_log_counts_keys_and_bytes_by_tier(void **state)
{
	struct kvh_worker_stats stats;
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig.config.tier_log = true;
	rig_open_with_objects(&rig, 4);
	FAKE_ANSWER(&rig.world->fake, FAKE_TIERS, KVH_TIER_DISK, KVH_TIER_MEMORY, KVH_TIER_UNKNOWN,
	            KVH_TIER_DISK);
	rig_load_and_run(&rig, 1, "r", 64, 0);
	assert_string_equal(rig_calls(&rig), "tiers 0 1 2 3\nget 0 1 2 3\n");
	stats = rig_stats(&rig);
	assert_int_equal(stats.load_memory_keys, 1);
	assert_int_equal(stats.load_disk_keys, 2);
	assert_int_equal(stats.load_unknown_keys, 1);
	assert_int_equal(stats.load_memory_bytes, 1024);
	assert_int_equal(stats.load_disk_bytes, 2048);
	assert_int_equal(stats.load_unknown_bytes, 1024);
	/* When the question fails the load goes on. */
	fake_answer_status(&rig.world->fake, FAKE_TIERS, KVH_RPC_FAIL);
	rig_load_and_run(&rig, 2, "r", 64, 0);
	assert_int_equal(rig_stats(&rig).load_unknown_keys, 5);
	assert_string_equal(rig_done(&rig), "loaded 1 0\nloaded 2 0\n");
	rig_close(&rig);
}

/* A tier number that no version of this header knows. */
/* proves: R-37 */
static void an_unheard_of_tier_counts_as_unknown(void **state)
{
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig.config.tier_log = true;
	rig_open_with_objects(&rig, 1);
	FAKE_ANSWER(&rig.world->fake, FAKE_TIERS, 77);
	rig_load_and_run(&rig, 1, "r", 16, 0);
	assert_int_equal(rig_stats(&rig).load_unknown_keys, 1);
	assert_string_equal(rig_done(&rig), "loaded 1 0\n");
	rig_close(&rig);
}

static void preempt_and_load_again(void *user, enum fake_fn fn)
{
	struct rig *rig = user;

	(void)fn;
	rig->world->fake.hook = NULL;
	rig_preempt(rig, "r");
	for (int i = 0; i < 4; i++)
		rig->ids[0][i] = 200 + i;
	rig_load(rig, 2, "r", 64, 0);
	assert_string_equal(rig_done(rig), ""); /* the first one's bytes may still come */
}

/* proves: R-38 */
static void preemption_cancels_a_running_load_and_not_the_next_lifes(void **state)
{
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig.config.staging_bytes = 12288; /* a get for each key */
	rig_open_with_objects(&rig, 4);
	rig.world->fake.hook = preempt_and_load_again;
	rig.world->fake.hook_user = &rig;
	rig_load_and_run(&rig, 1, "r", 64, 0);
	assert_string_equal(rig_calls(&rig), "get 0\n"); /* no further one begins */
	assert_string_equal(rig_done(&rig), "failed 1 g0 i1 b101 -2001\nfailed 1 g0 i2 b102 -2001\n"
	                                    "failed 1 g0 i3 b103 -2001\nloaded 1 -2001\n");
	rig_run_load(&rig);
	assert_string_equal(rig_calls(&rig), "get 0\nget 1\nget 2\nget 3\n");
	assert_string_equal(rig_done(&rig), "loaded 2 0\n");
	assert_true(rig_block_is(&rig, 0, 203, 4));
	rig_close(&rig);
}

/* proves: R-38 */
static void preemption_cancels_queued_loads_of_that_request_only(void **state)
{
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig_open_with_objects(&rig, 4);
	rig_load(&rig, 1, "r", 32, 0);
	rig_load(&rig, 2, "s", 32, 0);
	rig_load(&rig, 3, "r", 64, 32);
	rig_preempt(&rig, "r");
	assert_string_equal(rig_done(&rig), "failed 3 g0 i2 b102 -2001\nfailed 3 g0 i3 b103 -2001\n"
	                                    "loaded 3 -2001\nfailed 1 g0 i0 b100 -2001\n"
	                                    "failed 1 g0 i1 b101 -2001\nloaded 1 -2001\n");
	rig_run_load(&rig);
	assert_string_equal(rig_done(&rig), "loaded 2 0\n");
	assert_int_equal(rig_stats(&rig).load_jobs_cancelled, 2);
	rig_close(&rig);
}

/* proves: R-39 */
static void failed_blocks_are_never_those_that_the_engine_had(void **state)
{
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig_open_with_objects(&rig, 2);
	fake_answer_status(&rig.world->fake, FAKE_GET, KVH_TRANSFER_FAIL);
	rig_load_and_run(&rig, 1, "r", 64, 47);
	assert_string_equal(rig_done(&rig), "failed 1 g0 i2 b102 -800\nfailed 1 g0 i3 b103 -800\n"
	                                    "loaded 1 -800\n");
	rig_close(&rig);
}

/* proves: R-36 */
static void failed_blocks_come_before_the_end_through_a_small_array(void **state)
{
	struct kvh_completion one;
	size_t count;
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig_open_with_objects(&rig, 2);
	fake_answer_status(&rig.world->fake, FAKE_GET, KVH_RPC_FAIL);
	rig_load_and_run(&rig, 1, "r", 32, 0);
	for (uint32_t i = 0; i < 2; i++) {
		assert_int_equal(kvh_worker_poll(rig.worker, &one, sizeof(one), 1, &count), KVH_OK);
		assert_int_equal(count, 1);
		assert_int_equal(one.kind, KVH_BLOCK_FAILED);
		assert_int_equal(one.block_index, i);
	}
	assert_int_equal(kvh_worker_poll(rig.worker, NULL, sizeof(one), 0, &count), KVH_OK);
	assert_int_equal(count, 0);
	assert_string_equal(rig_done(&rig), "loaded 1 -900\n");
	rig_close(&rig);
}

/* proves */
static void a_block_is_good_only_when_every_shard_came(void **state)
{
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig.config.format = KVH_FORMAT_TP_SHARED_LBHNC;
	rig.config.store_tp_size = 2;
	rig.groups[0].kv_heads = 2;
	rig_open(&rig);
	rig_fill_all(&rig, 3);
	rig_save_and_run(&rig, 1, "r", 48);
	rig_calls(&rig);
	FAKE_ANSWER(&rig.world->fake, FAKE_GET, KVH_TRANSFER_FAIL, FAKE_DO_IT, FAKE_DO_IT,
	            FAKE_DO_IT, FAKE_DO_IT, KVH_LEASE_EXPIRED);
	rig_load_and_run(&rig, 2, "s", 48, 0);
	assert_string_equal(rig_calls(&rig), "get 0 t1:0 1 t1:1 2 t1:2\n");
	assert_string_equal(rig_done(&rig), "saved 1 0\nfailed 2 g0 i0 b100 -800\n"
	                                    "failed 2 g0 i2 b102 -707\nloaded 2 -800\n");
	/* A hit too needs all shards. */
	assert_int_equal(rig_lookup(&rig, 49, NULL), 48);
	FAKE_ANSWER(&rig.world->fake, FAKE_EXISTS, 1, 1, 1, 0, 1, 1);
	assert_int_equal(rig_lookup(&rig, 49, NULL), 16);
	rig_close(&rig);
}

/* proves: R-34 */
static void a_get_that_failed_as_a_whole_left_no_good_block(void **state)
{
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig_open_with_objects(&rig, 2);
	FAKE_ANSWER(&rig.world->fake, FAKE_GET, 1024, 1024);
	fake_answer_fails(&rig.world->fake, FAKE_GET, KVH_RPC_FAIL);
	rig_load_and_run(&rig, 1, "r", 32, 0);
	assert_string_equal(rig_done(&rig), "failed 1 g0 i0 b100 -900\nfailed 1 g0 i1 b101 -900\n"
	                                    "loaded 1 -900\n");
	rig_close(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_load_writes_the_blocks_from_the_cached_ones_on),
		cmocka_unit_test(the_start_is_floored_to_the_common_block_size),
		cmocka_unit_test(the_load_mask_picks_what_a_sliding_window_needs),
		cmocka_unit_test(a_tail_boundary_keys_the_chunk_that_ends_the_load),
		cmocka_unit_test(ranks_start_at_different_keys),
		cmocka_unit_test(failed_blocks_are_named_right_after_a_rotation),
		cmocka_unit_test(the_staging_budget_cuts_a_load_in_order),
		cmocka_unit_test(a_key_over_usable_goes_alone_and_one_over_raw_fails_the_load),
		cmocka_unit_test(staging_bytes_are_whole_pages_and_some),
		cmocka_unit_test(gets_are_recorded),
		cmocka_unit_test(every_end_of_a_load_is_reported_once),
		cmocka_unit_test(the_tier_log_counts_keys_and_bytes_by_tier),
		cmocka_unit_test(an_unheard_of_tier_counts_as_unknown),
		cmocka_unit_test(preemption_cancels_a_running_load_and_not_the_next_lifes),
		cmocka_unit_test(preemption_cancels_queued_loads_of_that_request_only),
		cmocka_unit_test(failed_blocks_are_never_those_that_the_engine_had),
		cmocka_unit_test(failed_blocks_come_before_the_end_through_a_small_array),
		cmocka_unit_test(a_block_is_good_only_when_every_shard_came),
		cmocka_unit_test(a_get_that_failed_as_a_whole_left_no_good_block),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
