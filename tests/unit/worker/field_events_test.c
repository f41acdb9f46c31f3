/* SPDX-License-Identifier: Apache-2.0 */
/* Field cases of device events and full queues (docs/spec/field-cases.md). */
#include "rig.h"

/* The kernel that writes the blocks ends now. */
static void kernel_writes(struct rig *rig, uint8_t byte)
{
	for (int i = 0; i < 2; i++)
		rig_fill(rig, 0, RIG_BLOCK + i, byte);
}

/* proves: B18, R-18, D-15 */
static void b18_no_byte_moves_before_the_event(void **state)
{
	struct rig_event not_yet = {.timeouts = 3};
	struct rig_event bad = {.timeouts = 1, .status = KVH_INTERNAL};
	struct kvh_save_job save;
	struct kvh_load_job load;
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig_open(&rig);
	kernel_writes(&rig, 0x11);
	save = rig_save_job(&rig, 1, "r", 32);
	save.event = &not_yet;
	assert_int_equal(rig_submit_save(&rig, &save), KVH_OK);
	rig_run_save(&rig);
	assert_string_equal(rig_calls(&rig), "exists 0 1\nevent\nevent\nevent\nevent\nput 0 1\n");
	/* A load into blocks that a kernel still reads waits too. */
	not_yet.timeouts = 2;
	load = rig_load_job(&rig, 2, "r", 32, 0);
	load.event = &not_yet;
	assert_int_equal(rig_submit_load(&rig, &load), KVH_OK);
	rig_run_load(&rig);
	assert_string_equal(rig_calls(&rig), "event\nevent\nevent\nget 0 1\n");
	/* An event that failed: nothing is put, no offset moves; nothing is written by a load. */
	rig.chain = 1;
	save = rig_save_job(&rig, 3, "s", 32);
	save.event = &bad;
	assert_int_equal(rig_submit_save(&rig, &save), KVH_OK);
	rig_run_save(&rig);
	assert_int_equal(rig_saved_tokens(&rig, "s"), 0);
	bad.timeouts = 0;
	rig.chain = 0;
	kernel_writes(&rig, 0x22);
	load = rig_load_job(&rig, 4, "r", 32, 0);
	load.event = &bad;
	assert_int_equal(rig_submit_load(&rig, &load), KVH_OK);
	rig_run_load(&rig);
	assert_string_equal(rig_calls(&rig), "exists 0 1\nevent\nevent\nevent\n");
	assert_true(rig_block_is(&rig, 0, RIG_BLOCK, 0x22));
	assert_string_equal(rig_done(&rig),
	                    "saved 1 0\nloaded 2 0\nsaved 3 -2009\nfailed 4 g0 i0 b100 -2009\n"
	                    "failed 4 g0 i1 b101 -2009\nloaded 4 -2009\n");
	rig_close(&rig);
}

/* proves: B18, D-14 */
static void b18_a_load_whose_event_never_comes_times_out(void **state)
{
	struct rig_event never = {.timeouts = 1000000};
	struct kvh_load_job load;
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig.config.load_timeout_ms = 200;
	rig_open(&rig);
	load = rig_load_job(&rig, 1, "r", 16, 0);
	load.event = &never;
	assert_int_equal(rig_submit_load(&rig, &load), KVH_OK);
	rig_run_load(&rig);
	assert_string_equal(rig_done(&rig), "failed 1 g0 i0 b100 -2000\nloaded 1 -2000\n");
	assert_true(never.waits <= 5); /* slices, no spinning */
	rig_close(&rig);
}

/* proves: B18 */
static void b18_a_save_whose_event_never_comes_can_be_cancelled(void **state)
{
	struct rig rig;
	struct rig_event never = {
		.timeouts = 1000000, .rig = &rig, .cancel_at = 3, .cancel_job = 1};
	struct kvh_save_job save;

	(void)state;
	rig_init(&rig);
	rig_open(&rig);
	save = rig_save_job(&rig, 1, "r", 32);
	save.event = &never;
	assert_int_equal(rig_submit_save(&rig, &save), KVH_OK);
	rig_run_save(&rig);
	assert_int_equal(never.waits, 3);
	assert_string_equal(rig_calls(&rig), "exists 0 1\nevent\nevent\nevent\n");
	assert_string_equal(rig_done(&rig), "saved 1 -2001\n");
	rig_close(&rig);
}

/* proves: B22 */
static void b22_a_full_queue_says_busy_at_once_and_works_again_later(void **state)
{
	struct kvh_save_job job;
	uint64_t wakeups;
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig.config.max_queued_jobs = 2;
	rig_open(&rig);
	rig_plant(&rig, 0, 0, 1);
	rig_save(&rig, 1, "a", 16);
	rig_save(&rig, 2, "b", 16);
	wakeups = rig_stats(&rig).wakeups;
	job = rig_save_job(&rig, 3, "c", 16);
	for (int i = 0; i < 100; i++)
		assert_int_equal(rig_submit_save(&rig, &job), KVH_BUSY);
	assert_non_null(strstr(rig.error.text, "max_queued_jobs"));
	/* Refusals wake nobody and leave nothing. */
	assert_int_equal(rig_stats(&rig).wakeups, wakeups);
	assert_int_equal(rig_stats(&rig).save_jobs_refused, 100);
	assert_int_equal(rig_stats(&rig).live_requests, 2);
	/* Loads are not refused for saves that wait. */
	rig_load_and_run(&rig, 4, "c", 16, 0);
	rig_run_save(&rig);
	assert_int_equal(rig_submit_save(&rig, &job), KVH_OK);
	rig_run_save(&rig);
	rig_run_save(&rig);
	assert_string_equal(rig_done(&rig), "loaded 4 0\nsaved 1 0\nsaved 2 0\nsaved 3 0\n");
	rig_close(&rig);
}

/* proves: B22 */
static void b22_queued_bytes_are_bounded_too(void **state)
{
	struct kvh_save_job job;
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig.config.max_queued_bytes = 4096;
	rig_open(&rig);
	/* One job alone is always taken: nothing smaller could be. */
	rig_save(&rig, 1, "large", 128);
	assert_int_equal(rig_stats(&rig).queued_save_bytes, 8192);
	job = rig_save_job(&rig, 2, "b", 16);
	assert_int_equal(rig_submit_save(&rig, &job), KVH_BUSY);
	assert_non_null(strstr(rig.error.text, "max_queued_bytes"));
	rig_run_save(&rig);
	assert_int_equal(rig_stats(&rig).queued_save_bytes, 0);
	rig_save(&rig, 3, "c", 48);
	rig_save(&rig, 4, "d", 16); /* 4096 to the byte */
	assert_int_equal(rig_submit_save(&rig, &job), KVH_BUSY);
	/* A cancelled job gives its bytes back; what is saved already does not count. */
	assert_int_equal(kvh_worker_cancel(rig.worker, 4, &(enum kvh_cancel_outcome){0}), KVH_OK);
	assert_int_equal(rig_submit_save(&rig, &job), KVH_OK);
	rig_run_save(&rig);
	rig_run_save(&rig);
	rig_save(&rig, 5, "large", 160);
	assert_int_equal(rig_stats(&rig).queued_save_bytes, 2048);
	rig_close(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(b18_no_byte_moves_before_the_event),
		cmocka_unit_test(b18_a_load_whose_event_never_comes_times_out),
		cmocka_unit_test(b18_a_save_whose_event_never_comes_can_be_cancelled),
		cmocka_unit_test(b22_a_full_queue_says_busy_at_once_and_works_again_later),
		cmocka_unit_test(b22_queued_bytes_are_bounded_too),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
