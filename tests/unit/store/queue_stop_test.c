/* SPDX-License-Identifier: Apache-2.0 */
/* How jobs of a queue are stopped, time out, are in doubt, and wait for events; step by step. */
#include <string.h>

#include "queue_rig.h"

enum { QUESTION_MS = 10 };

static int setup(void **state)
{
	struct rig *rig = rig_new(true);
	const struct kvh_queue_options options = rig_options(rig, 1);

	rig_open(rig, &options);
	*state = rig;
	return 0;
}

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

static kvh_status drain_ms(struct rig *rig, const uint64_t *ids, size_t count, uint64_t ms,
                           size_t *left)
{
	return kvh_queue_drain(rig->queue, ids, count,
	                       ms ? kvh_deadline_after(rig->env, ms * 1000000) : 1, left);
}

/* ---- cancel ------------------------------------------------------------------------------- */

static void a_queued_job_ends_without_the_store(void **state)
{
	struct rig *rig = *state;
	struct kvh_queue_job job = rig_job(rig, KVH_QUEUE_GET, 1, 2);
	struct kvh_result results[2];
	struct kvh_queue_completion completion;
	uint64_t first = rig_get(rig, 5, 1), id, last;

	job.batch.results = results;
	id = rig_submit(rig, &job);
	last = rig_get(rig, 6, 1);
	assert_int_equal(rig_cancel(rig, id), KVH_CANCEL_NOT_STARTED);
	assert_int_equal(rig_state(rig, id), KVH_QUEUE_JOB_DONE);
	/* Terminal at once: nothing of it is looked at any more. */
	memset(results, 0, sizeof(results));
	assert_int_equal(rig_cancel(rig, id), KVH_CANCEL_ALREADY_DONE);
	assert_true(rig_poll(rig, &completion));
	assert_int_equal(completion.job_id, id);
	assert_int_equal(completion.status, KVH_CANCELLED);
	assert_int_equal(completion.good_keys, 0);
	assert_int_equal(completion.bytes, 0);
	assert_int_equal(rig_cancel(rig, id), KVH_CANCEL_ALREADY_DONE);
	assert_int_equal(rig_cancel(rig, 0), KVH_CANCEL_ALREADY_DONE);
	assert_int_equal(rig_cancel(rig, UINT64_MAX), KVH_CANCEL_ALREADY_DONE);
	rig_turn(rig, 0);
	/* Its neighbours are not touched. */
	assert_string_equal(rig_calls(rig), "get 5\nget 6\n");
	assert_true(rig_poll(rig, &completion));
	assert_int_equal(completion.job_id, first);
	rig_assert_ended(rig, last, KVH_OK);
}

static void a_running_job_is_asked_and_ends_by_itself(void **state)
{
	struct rig *rig = *state;
	uint64_t id;

	rig_hold(rig, 1u << RIG_PUT);
	id = rig_put(rig, 1, 1);
	rig_turn(rig, 0);
	assert_int_equal(rig_cancel(rig, id), KVH_CANCEL_STOPPING);
	rig_assert_nothing(rig);
	assert_int_equal(rig_cancel(rig, id), KVH_CANCEL_STOPPING);
	rig_turn(rig, 0);
	rig_assert_ended(rig, id, KVH_CANCELLED);
	assert_int_equal(rig_stats(rig).cancelled_jobs, 1);
}

static void a_job_that_ended_stays_as_it_ended(void **state)
{
	struct rig *rig = *state;
	uint64_t id = rig_put(rig, 1, 1);

	rig_turn(rig, 0);
	assert_int_equal(rig_cancel(rig, id), KVH_CANCEL_ALREADY_DONE);
	rig_assert_ended(rig, id, KVH_OK);
}

static void drain_tells_how_many_are_left(void **state)
{
	struct rig *rig = *state;
	uint64_t ids[4] = {0, 0, 0, 999};
	size_t left = 77;

	rig_hold(rig, 1u << RIG_PUT);
	for (uint64_t i = 0; i < 3; i++)
		ids[i] = rig_put(rig, i, 1);
	rig_turn(rig, 0);
	assert_int_equal(drain_ms(rig, NULL, 0, 0, &left), KVH_TIMEOUT);
	assert_int_equal(left, 3);
	assert_int_equal(drain_ms(rig, ids + 1, 3, 5, &left), KVH_TIMEOUT);
	assert_int_equal(left, 2);
	assert_int_equal(rig_cancel(rig, ids[2]), KVH_CANCEL_NOT_STARTED);
	/* Unknown and ended ones count as terminal. */
	assert_int_equal(drain_ms(rig, ids + 2, 2, 0, &left), KVH_OK);
	assert_int_equal(left, 0);
	assert_int_equal(drain_ms(rig, ids, 1, 0, NULL), KVH_TIMEOUT);
	rig_hold(rig, 0);
	rig_turn(rig, 0);
	assert_int_equal(drain_ms(rig, NULL, 0, 0, &left), KVH_OK);
	/* Their completions still come. */
	assert_int_equal(rig_stats(rig).waiting_completions, 3);
}

/* ---- deadlines ---------------------------------------------------------------------------- */

static uint64_t submit_due(struct rig *rig, enum kvh_queue_op op, uint64_t number, uint64_t ms)
{
	struct kvh_queue_job job = rig_job(rig, op, number, 1);

	job.deadline_ns = kvh_deadline_after(rig->env, ms * 1000000);
	return rig_submit(rig, &job);
}

static void a_queued_job_times_out_while_every_thread_is_stuck(void **state)
{
	struct rig *rig = *state;
	struct kvh_queue_completion completion;
	uint64_t late, later;

	rig->is_deaf = true;
	rig_hold(rig, 1u << RIG_GET);
	rig_get(rig, 1, 1);
	rig_turn(rig, 0);
	later = submit_due(rig, KVH_QUEUE_PUT, 2, 20);
	late = submit_due(rig, KVH_QUEUE_GET, 3, 10);
	rig_get(rig, 4, 1);
	rig_advance_ms(rig, 9);
	rig_assert_nothing(rig);
	rig_advance_ms(rig, 1);
	rig_assert_ended(rig, late, KVH_TIMEOUT);
	rig_advance_ms(rig, 9);
	rig_assert_nothing(rig);
	/* Who waits is woken by the deadline of the job. */
	assert_int_equal(kvh_queue_wait(rig->queue, later, 0, &completion, sizeof(completion)),
	                 KVH_OK);
	assert_int_equal(completion.status, KVH_TIMEOUT);
	rig_hold(rig, 0);
	rig_turn(rig, 0);
	/* The store never saw them. */
	assert_string_equal(rig_calls(rig), "get 1\nget 4\n");
	assert_int_equal(rig_stats(rig).timed_out_jobs, 2);
}

static void a_drain_is_over_when_the_last_job_has_timed_out(void **state)
{
	struct rig *rig = *state;
	uint64_t ids[2];
	size_t left;

	ids[0] = submit_due(rig, KVH_QUEUE_PUT, 1, 10);
	ids[1] = submit_due(rig, KVH_QUEUE_PUT, 2, 20);
	assert_int_equal(drain_ms(rig, ids, 2, 50, &left), KVH_OK);
	assert_int_equal(rig_stats(rig).timed_out_jobs, 2);
}

static void a_thread_ends_late_jobs_before_it_takes_one(void **state)
{
	struct rig *rig = *state;
	uint64_t late = submit_due(rig, KVH_QUEUE_GET, 1, 10);

	rig_get(rig, 2, 1);
	rig_advance_ms(rig, 10);
	rig_turn(rig, 0);
	assert_string_equal(rig_calls(rig), "get 2\n");
	assert_int_equal(rig_state(rig, late), KVH_QUEUE_JOB_DONE);
	assert_int_equal(rig_stats(rig).timed_out_jobs, 1);
}

/* A thread that sleeps because the place for writes is taken is woken to set its alarm. */
static void a_sleeping_thread_learns_of_an_earlier_deadline(void **state)
{
	struct rig *rig = *state;

	rig_hold(rig, 1u << RIG_PUT);
	rig->is_deaf = true;
	rig_put(rig, 1, 1);
	rig_turn(rig, 0);
	rig_turn(rig, 1);
	submit_due(rig, KVH_QUEUE_PUT, 2, 20);
	assert_int_equal(rig_stats(rig).wakeups, 1);
	submit_due(rig, KVH_QUEUE_PUT, 3, 30); /* not earlier */
	rig_turn(rig, 1);
	assert_int_equal(rig_stats(rig).wakeups, 1);
	rig_advance_ms(rig, 20);
	rig_turn(rig, 1);
	assert_int_equal(rig_stats(rig).timed_out_jobs, 1);
	rig_advance_ms(rig, 10);
	rig_turn(rig, 1);
	assert_int_equal(rig_stats(rig).timed_out_jobs, 2);
}

static void a_running_job_is_stopped_by_its_deadline(void **state)
{
	struct rig *rig = *state;
	uint64_t id;

	rig_hold(rig, 1u << RIG_GET);
	id = submit_due(rig, KVH_QUEUE_GET, 1, 10);
	rig_turn(rig, 0);
	rig_advance_ms(rig, 10);
	rig_assert_nothing(rig); /* the store has it */
	rig_turn(rig, 0);
	rig_assert_ended(rig, id, KVH_TIMEOUT);
}

/* ---- doubt -------------------------------------------------------------------------------- */

static int64_t number_two_in_doubt(struct rig *rig, enum rig_op op, uint64_t number)
{
	(void)rig, (void)op;
	return number == 2 ? KVH_IN_DOUBT : RIG_VALUE_BYTES;
}

/* proves: D-23 */
static void a_job_in_doubt_is_not_terminal_until_the_store_says_so(void **state)
{
	struct rig *rig = *state;
	struct kvh_queue_job job = rig_job(rig, KVH_QUEUE_GET, 1, 3);
	struct kvh_result results[3];
	struct kvh_queue_completion completion;
	uint64_t id;
	size_t left;

	rig->key = number_two_in_doubt;
	rig->quiesce_status = KVH_TIMEOUT;
	job.batch.results = results;
	id = rig_submit(rig, &job);
	rig_turn(rig, 0);
	assert_int_equal(rig_state(rig, id), KVH_QUEUE_JOB_IN_DOUBT);
	rig_assert_nothing(rig);
	assert_int_equal(drain_ms(rig, &id, 1, 0, &left), KVH_TIMEOUT);
	assert_int_equal(left, 1);
	assert_int_equal(kvh_queue_wait(rig->queue, id, 1, &completion, sizeof(completion)),
	                 KVH_TIMEOUT);
	assert_int_equal(rig_cancel(rig, id), KVH_CANCEL_STOPPING);
	assert_int_equal(rig_stats(rig).doubtful_jobs, 1);
	assert_int_equal(rig_stats(rig).running_jobs, 0);
	assert_int_equal(rig->doubt_lines, 1);
	/* Asked at once, then every 10 ms. */
	assert_int_equal(rig->quiesces, 1);
	rig_advance_ms(rig, QUESTION_MS);
	rig_turn(rig, 0);
	assert_int_equal(rig->quiesces, 2);
	rig_assert_nothing(rig);
	assert_false(results[1].flags & KVH_RESULT_QUIET);
	rig->quiesce_status = KVH_OK;
	rig_turn(rig, 0);
	assert_int_equal(rig->quiesces, 2);
	rig_advance_ms(rig, QUESTION_MS);
	rig_turn(rig, 0);
	assert_int_equal(rig->quiesces, 3);
	/* It ended as its call did, and its results say that nothing moves. */
	assert_true(rig_poll(rig, &completion));
	assert_int_equal(completion.job_id, id);
	assert_int_equal(completion.status, KVH_OK);
	assert_int_equal(completion.good_keys, 2);
	assert_int_equal(results[1].value, KVH_IN_DOUBT);
	for (size_t i = 0; i < 3; i++)
		assert_true(results[i].flags & KVH_RESULT_QUIET);
	assert_int_equal(rig_stats(rig).doubtful_jobs, 0);
	assert_int_equal(rig_stats(rig).in_doubt_jobs, 1);
}

/* proves: D-23 */
static void an_answer_settles_only_what_was_in_doubt_before_the_question(void **state)
{
	struct rig *rig = *state;
	uint64_t first, second;

	rig->key = number_two_in_doubt;
	rig_turn(rig, 1);
	rig_hold(rig, 1u << RIG_QUIESCE);
	first = rig_get(rig, 2, 1);
	rig_turn(rig, 0); /* in the question */
	assert_int_equal(rig->quiesces, 1);
	second = rig_get(rig, 2, 1);
	rig_turn(rig, 1);
	assert_int_equal(rig_state(rig, second), KVH_QUEUE_JOB_IN_DOUBT);
	rig_hold(rig, 0);
	rig_step(rig, 0); /* the answer to the first question is yes */
	rig_assert_ended(rig, first, KVH_OK);
	assert_int_equal(rig_state(rig, second), KVH_QUEUE_JOB_IN_DOUBT);
	rig_advance_ms(rig, QUESTION_MS);
	rig_turn(rig, 1);
	rig_assert_ended(rig, second, KVH_OK);
}

/* proves: D-23 */
static void jobs_in_doubt_are_asked_about_between_other_jobs(void **state)
{
	struct rig *rig = *state;
	uint64_t id;

	rig->key = number_two_in_doubt;
	rig->quiesce_status = KVH_TIMEOUT;
	id = rig_get(rig, 2, 1);
	rig_turn(rig, 0);
	rig->quiesce_status = KVH_OK;
	rig_advance_ms(rig, QUESTION_MS);
	for (uint64_t i = 100; i < 104; i++)
		rig_get(rig, i, 1);
	rig_step(rig, 0);
	/* Only one of the others has run. */
	assert_int_equal(rig_stats(rig).queued_reads, 3);
	assert_int_equal(rig_state(rig, id), KVH_QUEUE_JOB_DONE);
}

/* proves: D-23 */
static void close_waits_for_doubt_and_can_be_tried_again(void **state)
{
	struct rig *rig = *state;
	struct kvh_queue_completion completion;
	struct kvh_result result = {.value = 77};
	struct kvh_queue_job job;
	uint64_t id, refused;
	size_t left = 77;

	rig->key = number_two_in_doubt;
	rig->quiesce_status = KVH_TIMEOUT;
	id = rig_get(rig, 2, 1);
	rig_turn(rig, 0);
	rig_get(rig, 3, 1);
	assert_int_equal(kvh_queue_close(rig->queue, kvh_deadline_after(rig->env, 5000000), &left),
	                 KVH_TIMEOUT);
	assert_int_equal(left, 1);
	job = rig_job(rig, KVH_QUEUE_GET, 1, 1);
	job.batch.results = &result;
	assert_int_equal(kvh_queue_submit(rig->queue, &job, &refused, NULL), KVH_CLOSED);
	assert_int_equal(result.value, 77);
	/* What was queued has ended, and is told. */
	assert_true(rig_poll(rig, &completion));
	assert_int_equal(completion.job_id, id + 1);
	assert_int_equal(completion.status, KVH_CANCELLED);
	rig->quiesce_status = KVH_OK;
	rig_advance_ms(rig, QUESTION_MS);
	rig_turn(rig, 0);
	/* Nothing will come behind this one. */
	assert_int_equal(kvh_queue_wait(rig->queue, 0, 0, &completion, sizeof(completion)), KVH_OK);
	assert_int_equal(completion.job_id, id);
	assert_int_equal(kvh_queue_wait(rig->queue, 0, 0, &completion, sizeof(completion)),
	                 KVH_CLOSED);
	assert_int_equal(kvh_queue_close(rig->queue, 1, &left), KVH_OK);
	assert_int_equal(left, 0);
	rig->queue = NULL;
}

/* ---- events ------------------------------------------------------------------------------- */

static struct {
	unsigned timeouts; /* says "not yet" so often */
	kvh_status status;
	unsigned waits;
	void *last;
	struct rig *cancel_in; /* and then cancels job 1 */
} event;

static kvh_status event_wait(void *ctx, void *which, kvh_deadline deadline_ns)
{
	struct rig *rig = ctx;

	event.waits++;
	event.last = which;
	if (event.timeouts == 0)
		return event.status;
	event.timeouts--;
	if (event.cancel_in)
		assert_int_equal(rig_cancel(event.cancel_in, 1), KVH_CANCEL_STOPPING);
	coenv_advance_ns(rig->coenv, deadline_ns - kvh_now_ns(rig->env));
	return KVH_TIMEOUT;
}

static int setup_events(void **state)
{
	static struct kvh_device_ops ops;
	struct rig *rig = rig_new(true);
	const struct kvh_queue_options options = rig_options(rig, 1);

	memset(&event, 0, sizeof(event));
	ops = (struct kvh_device_ops){.struct_bytes = sizeof(ops), .event_wait = event_wait};
	rig->device = (struct kvh_device){.ops = &ops, .ctx = rig};
	rig_open(rig, &options);
	*state = rig;
	return 0;
}

#define event_test(fn) cmocka_unit_test_setup_teardown(fn, setup_events, teardown)

static uint64_t submit_with_event(struct rig *rig, uint64_t deadline_ms)
{
	struct kvh_queue_job job = rig_job(rig, KVH_QUEUE_PUT, 1, 1);

	job.event = &event;
	if (deadline_ms)
		job.deadline_ns = kvh_deadline_after(rig->env, deadline_ms * 1000000);
	return rig_submit(rig, &job);
}

/* proves: R-18 */
static void the_store_is_called_after_the_event(void **state)
{
	struct rig *rig = *state;
	uint64_t id = submit_with_event(rig, 0);

	event.timeouts = 3;
	rig_turn(rig, 0);
	assert_int_equal(event.waits, 4);
	assert_ptr_equal(event.last, &event);
	assert_string_equal(rig_calls(rig), "put 1\n");
	rig_assert_ended(rig, id, KVH_OK);
}

/* proves: R-18 */
static void an_event_that_fails_ends_the_job(void **state)
{
	struct rig *rig = *state;
	uint64_t id = submit_with_event(rig, 0);

	event.status = KVH_TRANSFER_FAIL;
	rig_turn(rig, 0);
	assert_string_equal(rig_calls(rig), "");
	rig_assert_ended(rig, id, KVH_TRANSFER_FAIL);
}

static void the_wait_for_an_event_sees_cancel_and_deadline(void **state)
{
	struct rig *rig = *state;
	uint64_t id = submit_with_event(rig, 0);

	event.timeouts = 1000;
	event.cancel_in = rig;
	rig_turn(rig, 0);
	rig_assert_ended(rig, id, KVH_CANCELLED);
	assert_int_equal(event.waits, 1);
	event.cancel_in = NULL;
	id = submit_with_event(rig, 120);
	rig_turn(rig, 0);
	rig_assert_ended(rig, id, KVH_TIMEOUT);
	assert_string_equal(rig_calls(rig), "");
}

static void a_device_without_events_refuses_them(void **state)
{
	struct rig *rig = *state;
	uint64_t id = submit_with_event(rig, 0);

	rig_turn(rig, 0);
	assert_string_equal(rig_calls(rig), "");
	rig_assert_ended(rig, id, KVH_NOT_SUPPORTED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		queue_test(a_queued_job_ends_without_the_store),
		queue_test(a_running_job_is_asked_and_ends_by_itself),
		queue_test(a_job_that_ended_stays_as_it_ended),
		queue_test(drain_tells_how_many_are_left),
		queue_test(a_queued_job_times_out_while_every_thread_is_stuck),
		queue_test(a_drain_is_over_when_the_last_job_has_timed_out),
		queue_test(a_thread_ends_late_jobs_before_it_takes_one),
		two_thread_test(a_sleeping_thread_learns_of_an_earlier_deadline),
		queue_test(a_running_job_is_stopped_by_its_deadline),
		queue_test(a_job_in_doubt_is_not_terminal_until_the_store_says_so),
		two_thread_test(an_answer_settles_only_what_was_in_doubt_before_the_question),
		queue_test(jobs_in_doubt_are_asked_about_between_other_jobs),
		queue_test(close_waits_for_doubt_and_can_be_tried_again),
		event_test(the_store_is_called_after_the_event),
		event_test(an_event_that_fails_ends_the_job),
		event_test(the_wait_for_an_event_sees_cancel_and_deadline),
		queue_test(a_device_without_events_refuses_them),
	};

	return cmocka_run_group_tests_name("store_queue_stop", tests, NULL, NULL);
}
