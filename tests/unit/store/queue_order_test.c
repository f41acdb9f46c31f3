/* SPDX-License-Identifier: Apache-2.0 */
/* Which job of a queue runs next, who is woken for it, and which is refused; one step at a time. */
#include "queue_rig.h"

static int setup(void **state)
{
	struct rig *rig = rig_new(true);
	const struct kvh_queue_options options = rig_options(rig, 1);

	rig_open(rig, &options);
	*state = rig;
	return 0;
}

/* Two threads: one of them takes no write while the other runs one. */
static int setup_two(void **state)
{
	struct rig *rig = rig_new(true);
	const struct kvh_queue_options options = rig_options(rig, 2);

	rig_open(rig, &options);
	*state = rig;
	return 0;
}

static int teardown(void **state)
{
	rig_free(*state);
	return 0;
}

#define queue_test(fn)      cmocka_unit_test_setup_teardown(fn, setup, teardown)
#define two_thread_test(fn) cmocka_unit_test_setup_teardown(fn, setup_two, teardown)

/* ---- order -------------------------------------------------------------------------------- */

static uint64_t submit_op(struct rig *rig, enum kvh_queue_op op, uint64_t number)
{
	const struct kvh_queue_job job = rig_job(rig, op, number, 1);

	return rig_submit(rig, &job);
}

static void reads_go_before_writes_and_each_line_in_order(void **state)
{
	struct rig *rig = *state;

	rig_put(rig, 1, 1);
	submit_op(rig, KVH_QUEUE_REMOVE, 2);
	rig_put(rig, 3, 1);
	rig_get(rig, 4, 1);
	submit_op(rig, KVH_QUEUE_EXISTS, 5);
	submit_op(rig, KVH_QUEUE_EXISTS_PREFIX, 6);
	rig_get(rig, 7, 1);
	rig_turn(rig, 0);
	rig_turn(rig, 0);
	assert_string_equal(rig_calls(rig), "get 4\nexists 5\nexists 6\nget 7\nput 1\nremove 2\n"
	                                    "put 3\n");
}

static void a_write_waits_for_so_many_reads_and_no_more(void **state)
{
	enum { READS = 3 * KVH_QUEUE_READS_AHEAD };
	struct rig *rig = *state;
	struct kvh_queue_completion completion;
	size_t at = 0;

	rig_put(rig, 500, 1);
	rig_put(rig, 501, 1);
	for (uint64_t i = 0; i < READS; i++)
		rig_get(rig, i, 1);
	for (int i = 0; i < READS / 4; i++)
		rig_turn(rig, 0);
	while (rig_poll(rig, &completion)) {
		bool is_put = completion.op == KVH_QUEUE_PUT;

		assert_int_equal(is_put, at == KVH_QUEUE_READS_AHEAD ||
		                                 at == 2 * KVH_QUEUE_READS_AHEAD + 1);
		at++;
	}
	assert_int_equal(at, READS + 2);
	/* Reads that passed no write do not count. */
	for (uint64_t i = 0; i < KVH_QUEUE_READS_AHEAD; i++)
		rig_get(rig, i, 1);
	for (int i = 0; i < READS / 4; i++)
		rig_turn(rig, 0);
	while (rig_poll(rig, &completion))
		at--;
	rig_put(rig, 500, 1);
	rig_get(rig, 1, 1);
	rig_turn(rig, 0);
	assert_true(rig_poll(rig, &completion));
	assert_int_equal(completion.op, KVH_QUEUE_GET);
}

static void one_of_two_threads_is_left_to_reads(void **state)
{
	struct rig *rig = *state;
	uint64_t get;

	rig_hold(rig, 1u << RIG_PUT);
	rig_put(rig, 1, 1);
	rig_put(rig, 2, 1);
	rig_turn(rig, 0);
	rig_turn(rig, 1);
	assert_int_equal(rig_stats(rig).running_jobs, 1);
	assert_int_equal(rig_stats(rig).queued_writes, 1);
	get = rig_get(rig, 3, 1);
	rig_turn(rig, 1);
	rig_assert_ended(rig, get, KVH_OK);
	rig_hold(rig, 0);
	rig_turn(rig, 0);
	assert_int_equal(rig_stats(rig).queued_writes, 0);
	assert_string_equal(rig_calls(rig), "put 1\nget 3\nput 2\n");
}

/* ---- wake-ups ----------------------------------------------------------------------------- */

/* proves: R-10 */
static void a_queue_job_wakes_at_most_one_thread_and_none_that_is_awake(void **state)
{
	struct rig *rig = *state;

	rig_get(rig, 1, 1); /* no thread sleeps yet */
	assert_int_equal(rig_stats(rig).wakeups, 0);
	rig_turn(rig, 0);
	for (uint64_t n = 1; n <= 5; n++) {
		rig_get(rig, 1, 1);
		assert_int_equal(rig_stats(rig).wakeups, n);
		/* Its wake-up is on its way, and it will take all that is there. */
		rig_get(rig, 2, 1);
		rig_put(rig, 3, 1);
		assert_int_equal(rig_stats(rig).wakeups, n);
		rig_turn(rig, 0);
		assert_int_equal(rig_stats(rig).queued_reads + rig_stats(rig).queued_writes, 0);
	}
	/* A thread that runs a job looks by itself when it is through. */
	rig_hold(rig, 1u << RIG_GET);
	rig_get(rig, 1, 1);
	rig_turn(rig, 0);
	rig_put(rig, 2, 1);
	assert_int_equal(rig_stats(rig).wakeups, 6);
	rig_hold(rig, 0);
	rig_turn(rig, 0);
	assert_int_equal(rig_stats(rig).wakeups, 6);
	assert_int_equal(rig_stats(rig).ok_jobs, 18);
}

static void a_thread_that_may_not_take_the_job_is_not_woken(void **state)
{
	struct rig *rig = *state;

	rig_turn(rig, 0);
	rig_turn(rig, 1);
	rig_put(rig, 1, 1);
	assert_int_equal(rig_stats(rig).wakeups, 1);
	/* The one place for writes has its thread on the way. */
	rig_put(rig, 2, 1);
	assert_int_equal(rig_stats(rig).wakeups, 1);
	rig_get(rig, 3, 1);
	assert_int_equal(rig_stats(rig).wakeups, 2);
	/* Both are on their way. */
	rig_get(rig, 4, 1);
	assert_int_equal(rig_stats(rig).wakeups, 2);
	for (int i = 0; i < 2; i++) {
		rig_turn(rig, 0);
		rig_turn(rig, 1);
	}
	assert_int_equal(rig_stats(rig).ok_jobs, 4);
	assert_int_equal(rig_stats(rig).wakeups, 2);
}

/* The thread that leaves the place for writes takes a read; the one woken for that read a write. */
static void a_place_that_becomes_free_is_taken(void **state)
{
	struct rig *rig = *state;

	rig_turn(rig, 1); /* asleep */
	rig_hold(rig, 1u << RIG_PUT | 1u << RIG_GET);
	rig_put(rig, 1, 1);
	rig_turn(rig, 0); /* holds the only place */
	rig_turn(rig, 1); /* comes too late, sleeps again */
	rig_put(rig, 2, 1);
	assert_int_equal(rig_stats(rig).wakeups, 1);
	rig_get(rig, 3, 1);
	assert_int_equal(rig_stats(rig).wakeups, 2);
	rig_hold(rig, 1u << RIG_GET);
	rig_turn(rig, 0); /* ends the put and takes the get before thread 1 has come */
	assert_string_equal(rig_calls(rig), "put 1\nget 3\n");
	rig_turn(rig, 1);
	assert_string_equal(rig_calls(rig), "put 2\n");
	assert_int_equal(rig_stats(rig).wakeups, 2);
}

/* ---- limits ------------------------------------------------------------------------------- */

static void open_limited(struct rig *rig, uint64_t max_jobs, uint64_t max_keys)
{
	struct kvh_queue_options options = rig_options(rig, 1);

	options.max_jobs = max_jobs;
	options.max_keys = max_keys;
	rig_open(rig, &options);
}

static kvh_status try_op(struct rig *rig, enum kvh_queue_op op, size_t count)
{
	const struct kvh_queue_job job = rig_job(rig, op, 0, count);
	struct kvh_error error = {0};
	uint64_t id = 99;
	kvh_status status = kvh_queue_submit(rig->queue, &job, &id, &error);

	assert_int_equal(error.status, status);
	if (status) {
		assert_true(error.text[0]);
		assert_int_equal(id, 99);
	}
	return status;
}

/* proves: R-10 */
static void a_full_line_refuses_until_a_completion_is_taken(void **state)
{
	struct rig *rig = rig_new(true);
	struct kvh_queue_completion completion;

	(void)state;
	open_limited(rig, 2, 0);
	assert_int_equal(try_op(rig, KVH_QUEUE_PUT, 1), KVH_OK);
	assert_int_equal(try_op(rig, KVH_QUEUE_REMOVE, 1), KVH_OK);
	assert_int_equal(try_op(rig, KVH_QUEUE_PUT, 1), KVH_BUSY);
	/* Reads have a line of their own. */
	assert_int_equal(try_op(rig, KVH_QUEUE_GET, 1), KVH_OK);
	assert_int_equal(try_op(rig, KVH_QUEUE_EXISTS, 1), KVH_OK);
	assert_int_equal(try_op(rig, KVH_QUEUE_EXISTS_PREFIX, 1), KVH_BUSY);
	rig_turn(rig, 0);
	/* Ended, but nobody has taken them: they take memory still. */
	assert_int_equal(rig_stats(rig).ok_jobs, 4);
	assert_int_equal(try_op(rig, KVH_QUEUE_PUT, 1), KVH_BUSY);
	assert_int_equal(try_op(rig, KVH_QUEUE_GET, 1), KVH_BUSY);
	assert_true(rig_poll(rig, &completion));
	assert_int_equal(completion.op, KVH_QUEUE_GET);
	assert_int_equal(try_op(rig, KVH_QUEUE_PUT, 1), KVH_BUSY);
	assert_int_equal(try_op(rig, KVH_QUEUE_GET, 1), KVH_OK);
	assert_int_equal(rig_stats(rig).refused_jobs, 5);
	rig_free(rig);
}

/* proves: R-10 */
static void keys_beyond_the_limit_are_refused_but_one_job_alone_is_taken(void **state)
{
	struct rig *rig = rig_new(true);
	struct kvh_queue_completion completion;

	(void)state;
	open_limited(rig, 0, 3);
	assert_int_equal(try_op(rig, KVH_QUEUE_PUT, 10), KVH_OK);
	assert_int_equal(try_op(rig, KVH_QUEUE_PUT, 1), KVH_BUSY);
	assert_int_equal(try_op(rig, KVH_QUEUE_GET, 1), KVH_OK);
	assert_int_equal(try_op(rig, KVH_QUEUE_GET, 2), KVH_OK);
	assert_int_equal(try_op(rig, KVH_QUEUE_GET, 1), KVH_BUSY);
	assert_int_equal(rig_cancel(rig, 1), KVH_CANCEL_NOT_STARTED);
	assert_int_equal(try_op(rig, KVH_QUEUE_PUT, 3), KVH_BUSY);
	assert_true(rig_poll(rig, &completion));
	assert_int_equal(try_op(rig, KVH_QUEUE_PUT, 3), KVH_OK);
	assert_int_equal(try_op(rig, KVH_QUEUE_PUT, 1), KVH_BUSY);
	rig_free(rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		queue_test(reads_go_before_writes_and_each_line_in_order),
		queue_test(a_write_waits_for_so_many_reads_and_no_more),
		two_thread_test(one_of_two_threads_is_left_to_reads),
		queue_test(a_queue_job_wakes_at_most_one_thread_and_none_that_is_awake),
		two_thread_test(a_thread_that_may_not_take_the_job_is_not_woken),
		two_thread_test(a_place_that_becomes_free_is_taken),
		cmocka_unit_test(a_full_line_refuses_until_a_completion_is_taken),
		cmocka_unit_test(keys_beyond_the_limit_are_refused_but_one_job_alone_is_taken),
	};

	return cmocka_run_group_tests_name("store_queue_order", tests, NULL, NULL);
}
