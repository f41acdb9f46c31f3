/* SPDX-License-Identifier: Apache-2.0 */
/* NO_AVAILABLE_HANDLE pressure: who waits, who tries, and when it is over. */
#include "rig.h"

static void put_fails(struct rig *rig, kvh_status status)
{
	FAKE_ANSWER(&rig->world->fake, FAKE_PUT, status);
}

/* One put of one new key that is refused for want of space. */
static void raise_pressure(struct rig *rig, uint64_t job_id, const char *request)
{
	put_fails(rig, KVH_NO_AVAILABLE_HANDLE);
	rig_save_and_run(rig, job_id, request, 16);
	assert_true(kvh_inspect_pressure(rig->worker));
	rig_calls(rig);
}

/* proves: R-20 */
static void pressure_skips_its_request_until_a_batch_succeeds(void **state)
{
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig_open(&rig);
	raise_pressure(&rig, 1, "r");
	assert_true(rig_skipped(&rig, "r"));
	rig_save_and_run(&rig, 2, "r", 32);
	assert_string_equal(rig_calls(&rig), "");
	assert_int_equal(rig_saved_tokens(&rig, "r"), 0);
	/* Others still try; a failure of another kind ends nothing and skips nobody. */
	rig.chain = 1;
	put_fails(&rig, KVH_TRANSFER_FAIL);
	rig_save_and_run(&rig, 3, "s", 16);
	assert_true(kvh_inspect_pressure(rig.worker));
	assert_false(rig_skipped(&rig, "s"));
	/* A batch that is stored in part does not end it either. */
	FAKE_ANSWER(&rig.world->fake, FAKE_PUT, FAKE_DO_IT, KVH_TRANSFER_FAIL);
	rig_save_and_run(&rig, 4, "s", 32);
	assert_true(kvh_inspect_pressure(rig.worker));
	rig_save_and_run(&rig, 5, "s", 32);
	assert_false(kvh_inspect_pressure(rig.worker));
	assert_false(rig_skipped(&rig, "r"));
	rig.chain = 0;
	rig_calls(&rig);
	rig_save_and_run(&rig, 6, "r", 32);
	assert_string_equal(rig_calls(&rig), "exists 0 1\nput 0 1\n");
	assert_int_equal(rig_saved_tokens(&rig, "r"), 32);
	assert_string_equal(rig_done(&rig), "saved 1 -200\nsaved 2 -200\nsaved 3 -800\n"
	                                    "saved 4 -800\nsaved 5 0\nsaved 6 0\n");
	assert_int_equal(rig_stats(&rig).save_jobs_pressure_skipped, 1);
	assert_int_equal(rig_stats(&rig).skipped_requests, 0);
	rig_close(&rig);
}

/* proves: R-20 */
static void one_key_without_space_among_many_raises_pressure(void **state)
{
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig_open(&rig);
	FAKE_ANSWER(&rig.world->fake, FAKE_PUT, FAKE_DO_IT, KVH_TRANSFER_FAIL, FAKE_DO_IT,
	            KVH_NO_AVAILABLE_HANDLE);
	rig_save_and_run(&rig, 1, "r", 64);
	assert_true(kvh_inspect_pressure(rig.worker));
	assert_true(rig_skipped(&rig, "r"));
	rig_close(&rig);
	/* Also when the call as a whole says so. */
	rig_init(&rig);
	rig_open(&rig);
	fake_answer_status(&rig.world->fake, FAKE_PUT, KVH_NO_AVAILABLE_HANDLE);
	rig_save_and_run(&rig, 1, "r", 64);
	assert_true(rig_skipped(&rig, "r"));
	rig_close(&rig);
}

/* proves: R-20 */
static void other_codes_raise_no_pressure(void **state)
{
	static const kvh_status codes[] = {KVH_REPLICA_IS_NOT_READY,
	                                   KVH_TRANSFER_FAIL,
	                                   KVH_RPC_FAIL,
	                                   KVH_INVALID_KEY,
	                                   KVH_BUSY,
	                                   -201,
	                                   -199};

	(void)state;
	for (size_t i = 0; i < COUNT_OF(codes); i++) {
		struct rig rig;

		rig_init(&rig);
		rig_open(&rig);
		put_fails(&rig, codes[i]);
		rig_save_and_run(&rig, 1, "r", 16);
		assert_false(kvh_inspect_pressure(rig.worker));
		assert_false(rig_skipped(&rig, "r"));
		rig_close(&rig);
	}
}

/* proves: R-20 */
static void jobs_without_a_put_end_no_pressure(void **state)
{
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig_open(&rig);
	raise_pressure(&rig, 1, "r");
	rig_plant(&rig, 0, 0, 1);
	rig_save_and_run(&rig, 2, "s", 16);
	assert_string_equal(rig_calls(&rig), "exists 0\n");
	rig_save_and_run(&rig, 3, "s", 16);
	assert_true(kvh_inspect_pressure(rig.worker));
	assert_true(rig_skipped(&rig, "r"));
	rig_close(&rig);
}

/* proves */
static void preempting_and_finishing_drop_the_skip_mark(void **state)
{
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig_open(&rig);
	raise_pressure(&rig, 1, "r");
	rig.chain = 1;
	raise_pressure(&rig, 2, "s");
	assert_int_equal(rig_stats(&rig).skipped_requests, 2);
	rig_preempt(&rig, "r");
	rig_finish(&rig, "s");
	assert_int_equal(rig_stats(&rig).skipped_requests, 0);
	assert_true(kvh_inspect_pressure(rig.worker));
	rig_save_and_run(&rig, 3, "r", 16);
	assert_string_equal(rig_calls(&rig), "exists 0\nput 0\n");
	assert_false(kvh_inspect_pressure(rig.worker));
	rig_close(&rig);
}

/* proves: D-7 */
static void d7_a_lone_request_tries_again_after_the_wait(void **state)
{
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig_open(&rig);
	raise_pressure(&rig, 1, "r");
	rig_advance_ns(&rig, 1000 * MS - 1);
	rig_save_and_run(&rig, 2, "r", 16);
	assert_string_equal(rig_calls(&rig), "");
	rig_advance_ns(&rig, 1);
	rig_save_and_run(&rig, 3, "r", 16);
	assert_string_equal(rig_calls(&rig), "exists 0\nput 0\n");
	assert_false(kvh_inspect_pressure(rig.worker));
	assert_int_equal(rig_saved_tokens(&rig, "r"), 16);
	assert_int_equal(rig_stats(&rig).pressure_probes, 1);
	rig_close(&rig);
}

/* proves: D-7 */
static void d7_the_wait_doubles_up_to_30_s_and_begins_anew(void **state)
{
	static const uint64_t waits_ms[] = {1000, 2000, 4000, 8000, 16000, 30000, 30000, 30000};
	uint64_t job_id = 2;
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig_open(&rig);
	raise_pressure(&rig, 1, "r");
	for (size_t i = 0; i < COUNT_OF(waits_ms); i++) {
		rig_advance_ns(&rig, waits_ms[i] * MS - 1);
		rig_save_and_run(&rig, job_id++, "r", 16);
		assert_string_equal(rig_calls(&rig), "");
		rig_advance_ns(&rig, 1);
		put_fails(&rig, KVH_NO_AVAILABLE_HANDLE);
		rig_save_and_run(&rig, job_id++, "r", 16);
		assert_string_equal(rig_calls(&rig), "exists 0\nput 0\n");
	}
	rig_advance_ns(&rig, 30 * SECONDS);
	rig_save_and_run(&rig, job_id++, "r", 16);
	assert_false(kvh_inspect_pressure(rig.worker));
	/* The next episode waits as the first did. */
	rig.chain = 1;
	raise_pressure(&rig, job_id++, "s");
	rig_advance_ns(&rig, 1000 * MS);
	rig_save_and_run(&rig, job_id++, "s", 16);
	assert_false(kvh_inspect_pressure(rig.worker));
	assert_int_equal(rig_stats(&rig).pressure_episodes, 2);
	rig_close(&rig);
}

/* proves: D-7 */
static void d7_one_request_probes_for_all(void **state)
{
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig_open(&rig);
	raise_pressure(&rig, 1, "r");
	rig.chain = 1;
	raise_pressure(&rig, 2, "s"); /* while pressure is on: no second timer */
	rig_advance_ns(&rig, 1000 * MS);
	put_fails(&rig, KVH_NO_AVAILABLE_HANDLE);
	rig_save_and_run(&rig, 3, "s", 16);
	assert_string_equal(rig_calls(&rig), "exists 0\nput 0\n");
	rig_save_and_run(&rig, 4, "r", 16); /* the probe is used up */
	assert_string_equal(rig_calls(&rig), "");
	rig_advance_ns(&rig, 2000 * MS);
	rig_save_and_run(&rig, 5, "r", 16);
	assert_string_equal(rig_calls(&rig), "exists 0\nput 0\n");
	assert_false(rig_skipped(&rig, "s"));
	rig_close(&rig);
}

/* proves: D-7 */
static void d7_a_negative_setting_never_probes(void **state)
{
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig.config.pressure_probe_ms = -1;
	rig_open(&rig);
	raise_pressure(&rig, 1, "r");
	rig_advance_ns(&rig, 3600 * SECONDS);
	rig_save_and_run(&rig, 2, "r", 16);
	assert_string_equal(rig_calls(&rig), "");
	assert_int_equal(rig_stats(&rig).pressure_probes, 0);
	rig_close(&rig);
}

/* proves: D-7 */
static void d7_the_wait_is_settable(void **state)
{
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig.config.pressure_probe_ms = 50;
	rig_open(&rig);
	raise_pressure(&rig, 1, "r");
	rig_advance_ns(&rig, 50 * MS);
	put_fails(&rig, KVH_NO_AVAILABLE_HANDLE);
	rig_save_and_run(&rig, 2, "r", 16);
	rig_calls(&rig);
	rig_advance_ns(&rig, 100 * MS - 1);
	rig_save_and_run(&rig, 3, "r", 16);
	assert_string_equal(rig_calls(&rig), "");
	rig_advance_ns(&rig, 1);
	rig_save_and_run(&rig, 4, "r", 16);
	assert_string_equal(rig_calls(&rig), "exists 0\nput 0\n");
	rig_close(&rig);
}

/* proves: D-7 */
static void d7_a_wait_above_30_s_does_not_fall_when_it_doubles(void **state)
{
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig.config.pressure_probe_ms = 60000;
	rig_open(&rig);
	raise_pressure(&rig, 1, "r");
	rig_advance_ns(&rig, 60 * SECONDS);
	put_fails(&rig, KVH_NO_AVAILABLE_HANDLE);
	rig_save_and_run(&rig, 2, "r", 16);
	rig_calls(&rig);
	rig_advance_ns(&rig, 60 * SECONDS - 1);
	rig_save_and_run(&rig, 3, "r", 16);
	assert_string_equal(rig_calls(&rig), "");
	rig_close(&rig);
}

static void preempt_in_put(void *user, enum fake_fn fn)
{
	if (fn == FAKE_PUT)
		rig_preempt(user, "r");
}

/* proves: D-19 */
static void d19_no_space_after_the_request_went_marks_no_later_life(void **state)
{
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig_open(&rig);
	rig.world->fake.hook = preempt_in_put;
	rig.world->fake.hook_user = &rig;
	raise_pressure(&rig, 1, "r");
	rig.world->fake.hook = NULL;
	assert_int_equal(rig_stats(&rig).skipped_requests, 0);
	rig_save(&rig, 2, "r", 16);
	assert_false(rig_skipped(&rig, "r"));
	rig_run_save(&rig);
	assert_string_equal(rig_calls(&rig), "exists 0\nput 0\n");
	assert_int_equal(rig_saved_tokens(&rig, "r"), 16);
	rig_close(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pressure_skips_its_request_until_a_batch_succeeds),
		cmocka_unit_test(one_key_without_space_among_many_raises_pressure),
		cmocka_unit_test(other_codes_raise_no_pressure),
		cmocka_unit_test(jobs_without_a_put_end_no_pressure),
		cmocka_unit_test(preempting_and_finishing_drop_the_skip_mark),
		cmocka_unit_test(d7_a_lone_request_tries_again_after_the_wait),
		cmocka_unit_test(d7_the_wait_doubles_up_to_30_s_and_begins_anew),
		cmocka_unit_test(d7_one_request_probes_for_all),
		cmocka_unit_test(d7_a_negative_setting_never_probes),
		cmocka_unit_test(d7_the_wait_is_settable),
		cmocka_unit_test(d7_a_wait_above_30_s_does_not_fall_when_it_doubles),
		cmocka_unit_test(d19_no_space_after_the_request_went_marks_no_later_life),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
