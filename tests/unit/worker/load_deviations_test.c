/* SPDX-License-Identifier: Apache-2.0 */
/* Where a load goes another way than the reference (D-rules). */
#include "rig.h"

#include "base/fault.h"

/* proves, D-20 */
static void d20_failed_blocks_are_named_by_group_index_and_block(void **state)
{
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig_add_group(&rig, KVH_ATTENTION_FULL, 32, 0);
	rig_open_with_objects(&rig, 4);
	/* Chunk 1 of both groups lies in block 101: only group 1's fails. */
	FAKE_ANSWER(&rig.world->fake, FAKE_GET, FAKE_DO_IT, FAKE_DO_IT, FAKE_DO_IT, FAKE_DO_IT,
	            FAKE_DO_IT, KVH_LEASE_EXPIRED);
	rig_load_and_run(&rig, 1, "r", 64, 0);
	assert_string_equal(rig_calls(&rig), "get 0 1 2 3 g1:1 g1:3\n");
	assert_string_equal(rig_done(&rig), "failed 1 g1 i1 b101 -707\nloaded 1 -707\n");
	rig_close(&rig);
}

/* proves: D-1 */
static void d1_a_load_without_keys_ends_at_once_and_well(void **state)
{
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig_open(&rig);
	rig_load_and_run(&rig, 1, "r", 0, 0);
	rig_load_and_run(&rig, 2, "r", 64, 64);
	rig_load_and_run(&rig, 3, "r", 64, UINT64_MAX);
	assert_string_equal(rig_calls(&rig), "");
	assert_string_equal(rig_done(&rig), "loaded 1 0\nloaded 2 0\nloaded 3 0\n");
	rig_close(&rig);
}

/* proves: D-2 */
static void d2_a_failure_before_the_get_reports_every_block(void **state)
{
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig_open_with_objects(&rig, 3);
	rig_load(&rig, 1, "r", 48, 16);
	assert_true(kvh_fault_arm_nth("worker/load/begin", 1, KVH_NO_MEMORY));
	rig_run_load(&rig);
	kvh_fault_disarm_all();
	assert_string_equal(rig_calls(&rig), "");
	assert_string_equal(rig_done(&rig), "failed 1 g0 i1 b101 -2003\nfailed 1 g0 i2 b102 -2003\n"
	                                    "loaded 1 -2003\n");
	rig_close(&rig);
}

/* proves: D-3 */
static void d3_batches_after_a_failed_one_are_reported_too(void **state)
{
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig.config.staging_bytes = 3 * 12288;
	rig_open_with_objects(&rig, 6);
	FAKE_ANSWER(&rig.world->fake, FAKE_GET, FAKE_DO_IT, FAKE_DO_IT);
	FAKE_ANSWER(&rig.world->fake, FAKE_GET, FAKE_DO_IT, KVH_TRANSFER_FAIL);
	rig_load_and_run(&rig, 1, "r", 96, 0);
	assert_string_equal(rig_calls(&rig), "get 0 1\nget 2 3\n");
	assert_string_equal(rig_done(&rig), "failed 1 g0 i3 b103 -800\nfailed 1 g0 i4 b104 -2006\n"
	                                    "failed 1 g0 i5 b105 -2006\nloaded 1 -800\n");
	rig_close(&rig);
}

/* proves: D-4 */
static void d4_any_other_length_fails_the_key(void **state)
{
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig_open_with_objects(&rig, 6);
	FAKE_ANSWER(&rig.world->fake, FAKE_GET, 0, 1023, 1024, 1025, INT64_C(1) << 40);
	rig_load_and_run(&rig, 1, "r", 96, 0);
	assert_string_equal(rig_done(&rig), "failed 1 g0 i0 b100 -800\nfailed 1 g0 i1 b101 -800\n"
	                                    "failed 1 g0 i3 b103 -800\nfailed 1 g0 i4 b104 -800\n"
	                                    "loaded 1 -800\n");
	assert_int_equal(rig_stats(&rig).load_bytes, 2048);
	rig_close(&rig);
}

/* proves: D-5 */
static void d5_a_get_slot_left_unwritten_fails_its_block(void **state)
{
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig_open_with_objects(&rig, 3);
	FAKE_ANSWER(&rig.world->fake, FAKE_GET, FAKE_DO_IT, FAKE_SILENT, FAKE_DO_IT);
	rig_load_and_run(&rig, 1, "r", 48, 0);
	assert_string_equal(rig_done(&rig), "failed 1 g0 i1 b101 -2006\nloaded 1 -2006\n");
	rig_close(&rig);
}

/* A foreign code beyond 32 bits must not turn into success. */
/* proves: D-4 */
static void d4_a_result_below_every_status_is_a_failure(void **state)
{
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig_open_with_objects(&rig, 1);
	FAKE_ANSWER(&rig.world->fake, FAKE_GET, -(INT64_C(1) << 32));
	rig_load_and_run(&rig, 1, "r", 16, 0);
	assert_string_equal(rig_done(&rig), "failed 1 g0 i0 b100 -2009\nloaded 1 -2009\n");
	rig_close(&rig);
}

/* proves: D-14 */
static void d14_a_queued_load_times_out_at_poll(void **state)
{
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig.config.load_timeout_ms = 200;
	rig_open_with_objects(&rig, 2);
	rig_load(&rig, 1, "r", 16, 0);
	rig_advance_ns(&rig, 100 * MS);
	rig_load(&rig, 2, "s", 32, 16);
	rig_advance_ns(&rig, 100 * MS - 1);
	assert_string_equal(rig_done(&rig), "");
	rig_advance_ns(&rig, 1);
	assert_string_equal(rig_done(&rig), "failed 1 g0 i0 b100 -2000\nloaded 1 -2000\n");
	rig_advance_ns(&rig, 100 * MS);
	assert_string_equal(rig_done(&rig), "failed 2 g0 i1 b101 -2000\nloaded 2 -2000\n");
	rig_run_load(&rig);
	assert_string_equal(rig_calls(&rig), "");
	assert_int_equal(rig_stats(&rig).load_jobs_timed_out, 2);
	rig_close(&rig);
}

static void let_250_ms_pass(void *user, enum fake_fn fn)
{
	(void)fn;
	rig_advance_ns(user, 250 * MS);
	/* Its bytes may still come: no report while the get runs. */
	assert_string_equal(rig_done(user), "");
}

/* proves: D-14 */
static void d14_a_running_load_is_stopped_by_its_deadline_from_hand_in(void **state)
{
	uint64_t begin_ns;
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig.config.load_timeout_ms = 200;
	rig.config.staging_bytes = 12288;
	rig_open_with_objects(&rig, 3);
	begin_ns = rig.config.env->ops->now_ns(rig.config.env->ctx);
	rig_load(&rig, 1, "r", 48, 0);
	rig_advance_ns(&rig, 50 * MS);
	rig.world->fake.hook = let_250_ms_pass;
	rig.world->fake.hook_user = &rig;
	rig_run_load(&rig);
	rig.world->fake.hook = NULL;
	assert_int_equal(rig.world->fake.last_get_deadline_ns, begin_ns + 200 * MS);
	/* What came in time is good; nothing more is asked for. */
	assert_string_equal(rig_calls(&rig), "get 0\n");
	assert_string_equal(rig_done(&rig), "failed 1 g0 i1 b101 -2000\nfailed 1 g0 i2 b102 -2000\n"
	                                    "loaded 1 -2000\n");
	rig_close(&rig);
}

/* proves: D-14 */
static void d14_no_deadline_when_told_so_and_30_s_when_told_nothing(void **state)
{
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig.config.load_timeout_ms = -1;
	rig_open_with_objects(&rig, 1);
	rig_load_and_run(&rig, 1, "r", 16, 0);
	assert_int_equal(rig.world->fake.last_get_deadline_ns, 0);
	rig_close(&rig);
	rig_init(&rig);
	rig_open_with_objects(&rig, 1);
	rig_load(&rig, 1, "r", 16, 0);
	rig_advance_ns(&rig, 30 * SECONDS - 1);
	assert_string_equal(rig_done(&rig), "");
	rig_advance_ns(&rig, 1);
	assert_string_equal(rig_done(&rig), "failed 1 g0 i0 b100 -2000\nloaded 1 -2000\n");
	rig_close(&rig);
}

/* proves: D-21 */
static void d21_the_null_block_as_destination_is_refused(void **state)
{
	struct kvh_load_job job;
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig_open_with_objects(&rig, 4);
	rig.ids[0][2] = KVH_NULL_BLOCK;
	job = rig_load_job(&rig, 1, "r", 64, 0);
	assert_refused(&rig, rig_submit_load(&rig, &job), "blocks[0].ids[2]");
	assert_string_equal(rig_done(&rig), "");
	assert_int_equal(rig_stats(&rig).queued_loads, 0);
	/* Beyond the load's own chunks it does not matter. */
	rig_load_and_run(&rig, 2, "r", 64, 48);
	assert_string_equal(rig_done(&rig), "loaded 2 0\n");
	assert_true(rig_block_is(&rig, 0, KVH_NULL_BLOCK, 0));
	rig_close(&rig);
}

/* proves: D-13, T21 */
static void d13_a_block_that_stands_twice_is_refused(void **state)
{
	struct kvh_load_job job;
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig_add_group(&rig, KVH_ATTENTION_FULL, 16, 0);
	rig_open_with_objects(&rig, 4);
	/* The same id in two groups is two blocks. */
	rig.ids[1][3] = rig.ids[0][3];
	rig_load_and_run(&rig, 1, "r", 64, 0);
	assert_string_equal(rig_done(&rig), "loaded 1 0\n");
	rig.ids[0][3] = rig.ids[0][1];
	job = rig_load_job(&rig, 2, "r", 64, 0);
	assert_refused(&rig, rig_submit_load(&rig, &job), "blocks[0].ids[3]");
	assert_string_equal(rig_done(&rig), "");
	/* Not among what is loaded: the first two chunks are there already. */
	rig_load_and_run(&rig, 3, "r", 64, 32);
	assert_string_equal(rig_done(&rig), "loaded 3 0\n");
	rig_close(&rig);
}

/* Chunks behind a hit's end are in no mask: they would be neither loaded nor reported. */
/* proves: D-13 */
static void d13_a_load_ends_where_a_hit_can_end(void **state)
{
	static const uint64_t wrong[] = {16, 48, 80, 112};
	struct kvh_load_job job;
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig_add_group(&rig, KVH_ATTENTION_FULL, 32, 0);
	rig_open_with_objects(&rig, 8);
	for (size_t i = 0; i < COUNT_OF(wrong); i++) {
		job = rig_load_job(&rig, 1, "r", wrong[i], 0);
		assert_refused(&rig, rig_submit_load(&rig, &job), "token_count");
	}
	assert_string_equal(rig_done(&rig), "");
	rig_load_and_run(&rig, 1, "r", 96, 0);
	assert_string_equal(rig_calls(&rig), "get 0 1 2 3 4 5 g1:1 g1:3 g1:5\n");
	rig_close(&rig);
	/* With partial hits full attention can end at any hash; a window's blocks can't (C-11). */
	rig_init(&rig);
	rig.config.hash_tokens = 8;
	rig.config.partial_hits = true;
	rig_open_with_objects(&rig, 8);
	rig_load_and_run(&rig, 1, "r", 40, 0);
	assert_string_equal(rig_calls(&rig), "get 1 3 4\n");
	rig_close(&rig);
	rig_init(&rig);
	rig.config.hash_tokens = 8;
	rig.config.partial_hits = true;
	rig_add_group(&rig, KVH_ATTENTION_SLIDING_WINDOW, 16, 64);
	rig_open_with_objects(&rig, 8);
	job = rig_load_job(&rig, 1, "r", 40, 0);
	assert_refused(&rig, rig_submit_load(&rig, &job), "token_count");
	rig_close(&rig);
}

/* Loads two blocks; the second one's bytes may still come when the get has returned. */
static void load_in_doubt(struct rig *rig, uint64_t job_id)
{
	FAKE_ANSWER(&rig->world->fake, FAKE_GET, FAKE_DO_IT, KVH_TRANSFER_FAIL);
	fake_answer_unquiet(&rig->world->fake, FAKE_GET, 2);
	rig_load_and_run(rig, job_id, "r", 32, 0);
}

/* proves: D-23 */
static void d23_a_load_in_doubt_is_reported_when_the_store_confirms(void **state)
{
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig_open_with_objects(&rig, 2);
	rig.world->fake.quiesce_status = KVH_TIMEOUT;
	load_in_doubt(&rig, 1);
	rig_run_load(&rig); /* asks, in vain */
	assert_string_equal(rig_done(&rig), "");
	rig_preempt(&rig, "r");
	assert_string_equal(rig_done(&rig), "");
	assert_int_equal(rig_stats(&rig).in_doubt_jobs, 1);
	rig.world->fake.quiesce_status = KVH_OK;
	rig_run_load(&rig);
	assert_string_equal(rig_done(&rig), "failed 1 g0 i1 b101 -800\nloaded 1 -800\n");
	rig_close(&rig);
}

/* proves: D-23 */
static void d23_work_that_never_ends_does_not_hold_back_a_load_in_doubt(void **state)
{
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig_open_with_objects(&rig, 2);
	load_in_doubt(&rig, 1);
	for (uint64_t i = 2; i < 100; i++) {
		rig_load(&rig, i, "s", 16, 0);
		rig_load(&rig, i + 1000, "s", 16, 0);
		rig_run_load(&rig);
		rig_advance_ns(&rig, 10 * MS);
	}
	assert_non_null(strstr(rig_done(&rig), "loaded 1 -800\n"));
	rig_close(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(d13_a_block_that_stands_twice_is_refused),
		cmocka_unit_test(d20_failed_blocks_are_named_by_group_index_and_block),
		cmocka_unit_test(d1_a_load_without_keys_ends_at_once_and_well),
		cmocka_unit_test(d2_a_failure_before_the_get_reports_every_block),
		cmocka_unit_test(d3_batches_after_a_failed_one_are_reported_too),
		cmocka_unit_test(d4_any_other_length_fails_the_key),
		cmocka_unit_test(d5_a_get_slot_left_unwritten_fails_its_block),
		cmocka_unit_test(d4_a_result_below_every_status_is_a_failure),
		cmocka_unit_test(d14_a_queued_load_times_out_at_poll),
		cmocka_unit_test(d14_a_running_load_is_stopped_by_its_deadline_from_hand_in),
		cmocka_unit_test(d14_no_deadline_when_told_so_and_30_s_when_told_nothing),
		cmocka_unit_test(d21_the_null_block_as_destination_is_refused),
		cmocka_unit_test(d13_a_load_ends_where_a_hit_can_end),
		cmocka_unit_test(d23_a_load_in_doubt_is_reported_when_the_store_confirms),
		cmocka_unit_test(d23_work_that_never_ends_does_not_hold_back_a_load_in_doubt),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
