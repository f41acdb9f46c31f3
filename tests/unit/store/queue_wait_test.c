/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting for jobs of a queue, its eventfd, and closing it, with real threads. */
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "queue_rig.h"
#include "store/queue_internal.h"

enum { HANG_MS = 60000 }; /* nothing here takes so long but a hang */

static int setup(void **state)
{
	struct rig *rig = rig_new(false);
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

#define queue_test(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

static const struct kvh_env *posix(void)
{
	return kvh_env_posix();
}

static struct kvh_thread *start(kvh_thread_fn fn, void *arg)
{
	struct kvh_thread *thread;

	assert_int_equal(posix()->ops->thread_create(posix()->ctx, &thread, "test", fn, arg),
	                 KVH_OK);
	return thread;
}

static void join(struct kvh_thread *thread)
{
	posix()->ops->thread_join(posix()->ctx, thread);
}

static kvh_deadline soon(void)
{
	return kvh_deadline_after(posix(), UINT64_C(20) * 1000000);
}

static kvh_status wait_for(struct rig *rig, uint64_t id, struct kvh_queue_completion *completion)
{
	return kvh_queue_wait(rig->queue, id, 0, completion, sizeof(*completion));
}

/* ---- waiting ------------------------------------------------------------------------------ */

struct waiter {
	struct rig *rig;
	struct kvh_thread *thread;
	uint64_t id; /* 0: any */
	kvh_status status;
	struct kvh_queue_completion completion;
};

static void wait_main(void *arg)
{
	struct waiter *waiter = arg;

	waiter->status = wait_for(waiter->rig, waiter->id, &waiter->completion);
}

static void run_main(void *arg)
{
	struct waiter *waiter = arg;
	const struct kvh_queue_job job = rig_job(waiter->rig, KVH_QUEUE_GET, 1, 2);

	waiter->status = kvh_queue_run(waiter->rig->queue, &job, &waiter->completion,
	                               sizeof(waiter->completion), NULL);
}

static void drain_main(void *arg)
{
	struct waiter *waiter = arg;

	waiter->status = kvh_queue_drain(waiter->rig->queue, NULL, 0, 0, NULL);
}

static size_t drainers_of(struct rig *rig)
{
	size_t count;

	kvh_queue_lock(rig->queue);
	count = rig->queue->drainer_count;
	kvh_queue_unlock(rig->queue);
	return count;
}

static size_t waiters_of(struct rig *rig, uint64_t id)
{
	const struct queue_job *job;
	size_t count;

	kvh_queue_lock(rig->queue);
	job = kvh_queue_find(rig->queue, id);
	count = id ? (job ? job->waiter_count : 0) : rig->queue->any_waiter_count;
	kvh_queue_unlock(rig->queue);
	return count;
}

static size_t sleepers_of(struct rig *rig)
{
	size_t count;

	kvh_queue_lock(rig->queue);
	count = rig->queue->sleeper_count;
	kvh_queue_unlock(rig->queue);
	return count;
}

/* Sleeps until so many threads wait for the job (0: for any). */
static void let_them_wait(struct rig *rig, uint64_t id, size_t count)
{
	while (waiters_of(rig, id) != count)
		posix()->ops->sleep_ns(posix()->ctx, 100000);
}

static void run_hands_its_completion_to_the_caller_alone(void **state)
{
	struct rig *rig = *state;
	struct waiter waiter = {.rig = rig};
	int fd;

	assert_int_equal(kvh_queue_fd(rig->queue, &fd), KVH_OK);
	rig_hold(rig, 1u << RIG_GET);
	waiter.thread = start(run_main, &waiter);
	rig_wait_inside(rig, 1);
	rig_assert_nothing(rig);
	rig_hold(rig, 0);
	/* Whatever comes first, the poll or the waiter: it is not for poll. */
	while (rig_stats(rig).ok_jobs == 0)
		rig_assert_nothing(rig);
	rig_assert_nothing(rig);
	join(waiter.thread);
	assert_int_equal(waiter.status, KVH_OK);
	assert_int_equal(waiter.completion.status, KVH_OK);
	assert_int_equal(waiter.completion.good_keys, 2);
	assert_int_equal(waiter.completion.bytes, 2 * RIG_VALUE_BYTES);
	assert_int_equal(rig_stats(rig).fd_writes, 0);
}

static void many_wait_for_one_job_and_one_gets_it(void **state)
{
	enum { WAITERS = 3 };
	struct rig *rig = *state;
	struct waiter waiters[WAITERS] = {0};
	uint64_t id;
	int got = 0;

	rig_hold(rig, 1u << RIG_GET);
	id = rig_get(rig, 1, 1);
	for (size_t i = 0; i < WAITERS; i++) {
		waiters[i].rig = rig;
		waiters[i].id = id;
		waiters[i].thread = start(wait_main, &waiters[i]);
	}
	let_them_wait(rig, id, WAITERS);
	rig_hold(rig, 0);
	for (size_t i = 0; i < WAITERS; i++) {
		join(waiters[i].thread);
		got += waiters[i].status == KVH_OK;
		assert_true(waiters[i].status == KVH_OK ||
		            waiters[i].status == KVH_OBJECT_NOT_FOUND);
	}
	assert_int_equal(got, 1);
}

static void who_waits_for_any_job_is_woken(void **state)
{
	struct rig *rig = *state;
	struct waiter waiter = {.rig = rig};
	uint64_t id;

	waiter.thread = start(wait_main, &waiter);
	let_them_wait(rig, 0, 1); /* with no job yet */
	id = rig_put(rig, 1, 1);
	join(waiter.thread);
	assert_int_equal(waiter.status, KVH_OK);
	assert_int_equal(waiter.completion.job_id, id);
}

/* A cancel that blocks: ask, then drain. */
static void cancel_and_drain_give_the_blocks_back(void **state)
{
	struct rig *rig = *state;
	uint64_t id;

	rig_hold(rig, 1u << RIG_PUT);
	id = rig_put(rig, 1, 1);
	rig_wait_inside(rig, 1);
	assert_int_equal(rig_cancel(rig, id), KVH_CANCEL_STOPPING);
	assert_int_equal(kvh_queue_drain(rig->queue, &id, 1, 0, NULL), KVH_OK);
	rig_assert_ended(rig, id, KVH_CANCELLED);
}

/* ---- doubt -------------------------------------------------------------------------------- */

static uint32_t is_stuck; /* atomic; 1: the put of key 3 waits, 2: it has come */

static int64_t doubt_about_two_and_stay_in_three(struct rig *rig, enum rig_op op, uint64_t number)
{
	(void)op;
	if (number == 3) {
		__atomic_store_n(&is_stuck, 2, __ATOMIC_SEQ_CST);
		while (__atomic_load_n(&is_stuck, __ATOMIC_SEQ_CST))
			rig->env->ops->sleep_ns(rig->env->ctx, 100000);
	}
	return number == 2 ? KVH_IN_DOUBT : 0;
}

/* proves: D-23 */
static void a_thread_that_slept_before_asks_about_doubt(void **state)
{
	struct rig *rig = *state;
	struct kvh_queue_completion completion;
	uint64_t id;

	rig->key = doubt_about_two_and_stay_in_three;
	__atomic_store_n(&rig->quiesce_status, KVH_TIMEOUT, __ATOMIC_SEQ_CST);
	__atomic_store_n(&is_stuck, 1, __ATOMIC_SEQ_CST);
	rig_hold(rig, 1u << RIG_PUT);
	id = rig_put(rig, 2, 1);
	rig_put(rig, 3, 1); /* waits for the place; the other thread sleeps without an alarm */
	rig_wait_inside(rig, 1);
	while (sleepers_of(rig) != 1)
		posix()->ops->sleep_ns(posix()->ctx, 100000);
	rig_hold(rig, 0);
	while (__atomic_load_n(&is_stuck, __ATOMIC_SEQ_CST) != 2)
		posix()->ops->sleep_ns(posix()->ctx, 100000);
	/* The thread that knows of the doubt is stuck now. */
	assert_int_equal(rig_state(rig, id), KVH_QUEUE_JOB_IN_DOUBT);
	__atomic_store_n(&rig->quiesce_status, KVH_OK, __ATOMIC_SEQ_CST);
	assert_int_equal(kvh_queue_wait(rig->queue, id,
	                                kvh_deadline_after(posix(), HANG_MS * UINT64_C(1000000)),
	                                &completion, sizeof(completion)),
	                 KVH_OK);
	__atomic_store_n(&is_stuck, 0, __ATOMIC_SEQ_CST);
}

/* ---- the eventfd -------------------------------------------------------------------------- */

static bool is_readable(int fd, int timeout_ms)
{
	struct pollfd one = {.fd = fd, .events = POLLIN};
	int count = poll(&one, 1, timeout_ms);

	assert_true(count >= 0);
	assert_true(count == 0 || one.revents == POLLIN);
	return count == 1;
}

/* What happens while the eventfd is being moved, once; the moves go through here (CMakeLists.txt).
 */
static struct meanwhile {
	void (*in_set)(struct rig *rig);
	void (*in_clear)(struct rig *rig);
	struct rig *rig;
} meanwhile;

/* Names that the linker makes. NOLINTBEGIN(bugprone-reserved-identifier) */
void __real_kvh_eventfd_set(int fd);
void __real_kvh_eventfd_clear(int fd);
void __wrap_kvh_eventfd_set(int fd);
void __wrap_kvh_eventfd_clear(int fd);

static void let_happen(void (**what)(struct rig *rig))
{
	void (*fn)(struct rig * rig) = *what;

	*what = NULL;
	if (fn)
		fn(meanwhile.rig);
}

void __wrap_kvh_eventfd_set(int fd)
{
	let_happen(&meanwhile.in_set);
	__real_kvh_eventfd_set(fd);
}

void __wrap_kvh_eventfd_clear(int fd)
{
	let_happen(&meanwhile.in_clear);
	__real_kvh_eventfd_clear(fd);
}
/* NOLINTEND(bugprone-reserved-identifier) */

/* A thread of the queue may still be moving it. */
static void assert_falls(int fd)
{
	while (is_readable(fd, 0))
		posix()->ops->sleep_ns(posix()->ctx, 100000);
}

static void the_fd_is_readable_while_completions_wait(void **state)
{
	struct rig *rig = *state;
	struct kvh_queue_completion completion;
	int fd, same;

	assert_int_equal(kvh_queue_fd(rig->queue, &fd), KVH_OK);
	assert_int_equal(kvh_queue_fd(rig->queue, &same), KVH_OK);
	assert_int_equal(fd, same);
	assert_falls(fd);
	for (uint64_t round = 1; round <= 3; round++) {
		for (uint64_t i = 0; i < 5; i++)
			rig_get(rig, i, 1);
		assert_true(is_readable(fd, HANG_MS));
		assert_int_equal(kvh_queue_drain(rig->queue, NULL, 0, 0, NULL), KVH_OK);
		/* Taken one at a time, by both ways: readable until the last. */
		for (int i = 0; i < 3; i++) {
			assert_true(rig_poll(rig, &completion));
			assert_true(is_readable(fd, 0));
		}
		assert_int_equal(wait_for(rig, 0, &completion), KVH_OK);
		assert_true(is_readable(fd, 0));
		assert_int_equal(wait_for(rig, 0, &completion), KVH_OK);
		rig_assert_nothing(rig);
		assert_falls(fd);
		assert_int_equal(rig_stats(rig).fd_writes, round);
	}
}

static void an_fd_asked_for_late_tells_of_what_waits(void **state)
{
	struct rig *rig = *state;
	uint64_t id = rig_get(rig, 1, 1);
	int fd;

	assert_int_equal(kvh_queue_drain(rig->queue, NULL, 0, 0, NULL), KVH_OK);
	assert_int_equal(rig_stats(rig).fd_writes, 0);
	assert_int_equal(kvh_queue_fd(rig->queue, &fd), KVH_OK);
	assert_true(is_readable(fd, 0));
	rig_assert_ended(rig, id, KVH_OK);
	assert_falls(fd);
}

/* Jobs that end in the caller's own calls are told as well. */
static void the_fd_tells_of_cancelled_and_late_jobs(void **state)
{
	struct rig *rig = *state;
	struct kvh_queue_job late = rig_job(rig, KVH_QUEUE_PUT, 2, 1);
	struct kvh_queue_completion completion;
	uint64_t id;
	int fd;

	rig->is_deaf = true;
	rig_hold(rig, 1u << RIG_PUT);
	rig_put(rig, 1, 1);
	rig_wait_inside(rig, 1);
	assert_int_equal(kvh_queue_fd(rig->queue, &fd), KVH_OK);
	id = rig_put(rig, 3, 1);
	assert_int_equal(rig_cancel(rig, id), KVH_CANCEL_NOT_STARTED);
	assert_true(is_readable(fd, 0));
	rig_assert_ended(rig, id, KVH_CANCELLED);
	assert_falls(fd);
	/* The thread that is left to reads sleeps to the deadline. */
	late.deadline_ns = soon();
	id = rig_submit(rig, &late);
	assert_true(is_readable(fd, HANG_MS));
	rig_assert_ended(rig, id, KVH_TIMEOUT);
	/* A drain that sees it pass tells before it goes on waiting. */
	late.deadline_ns = soon();
	id = rig_submit(rig, &late);
	assert_int_equal(kvh_queue_drain(rig->queue, &id, 1, 0, NULL), KVH_OK);
	assert_true(is_readable(fd, HANG_MS));
	assert_true(rig_poll(rig, &completion));
	assert_falls(fd);
}

/* All threads are stuck and nobody polls: who drains sees the deadline pass, and tells. */
static void a_drain_ends_late_jobs_of_others_and_tells(void **state)
{
	struct rig *rig = *state;
	struct kvh_queue_job late = rig_job(rig, KVH_QUEUE_GET, 2, 1);
	struct waiter drainer = {.rig = rig};
	uint64_t id;
	int fd;

	rig->is_deaf = true;
	rig_hold(rig, 1u << RIG_PUT | 1u << RIG_GET);
	rig_put(rig, 1, 1);
	rig_get(rig, 1, 1);
	rig_wait_inside(rig, 2);
	assert_int_equal(kvh_queue_fd(rig->queue, &fd), KVH_OK);
	drainer.thread = start(drain_main, &drainer);
	while (!drainers_of(rig))
		posix()->ops->sleep_ns(posix()->ctx, 100000);
	late.deadline_ns = soon();
	id = rig_submit(rig, &late);
	assert_true(is_readable(fd, HANG_MS));
	rig_assert_ended(rig, id, KVH_TIMEOUT);
	rig_hold(rig, 0);
	join(drainer.thread);
	assert_int_equal(drainer.status, KVH_OK);
}

/* The last completion is taken while the eventfd is being set. */
static void take_meanwhile(struct rig *rig)
{
	struct kvh_queue_completion completion;

	assert_true(rig_poll(rig, &completion));
}

static void a_completion_that_goes_while_the_fd_is_set_unsets_it(void **state)
{
	struct rig *rig = *state;
	int fd;

	rig_hold(rig, 1u << RIG_PUT);
	rig_put(rig, 1, 1);
	rig_wait_inside(rig, 1);
	assert_int_equal(kvh_queue_fd(rig->queue, &fd), KVH_OK);
	meanwhile = (struct meanwhile){.in_set = take_meanwhile, .rig = rig};
	assert_int_equal(rig_cancel(rig, rig_put(rig, 2, 1)), KVH_CANCEL_NOT_STARTED);
	assert_null(meanwhile.in_set);
	assert_false(is_readable(fd, 0));
}

/* A job ends while the eventfd is being cleared. */
static void end_meanwhile(struct rig *rig)
{
	assert_int_equal(rig_cancel(rig, rig_put(rig, 3, 1)), KVH_CANCEL_NOT_STARTED);
}

static void a_completion_that_comes_while_the_fd_is_cleared_sets_it(void **state)
{
	struct rig *rig = *state;
	struct kvh_queue_completion completion;
	int fd;

	rig_hold(rig, 1u << RIG_PUT);
	rig_put(rig, 1, 1);
	rig_wait_inside(rig, 1);
	assert_int_equal(kvh_queue_fd(rig->queue, &fd), KVH_OK);
	assert_int_equal(rig_cancel(rig, rig_put(rig, 2, 1)), KVH_CANCEL_NOT_STARTED);
	meanwhile = (struct meanwhile){.in_clear = end_meanwhile, .rig = rig};
	assert_true(rig_poll(rig, &completion));
	assert_null(meanwhile.in_clear);
	assert_true(is_readable(fd, 0));
	assert_int_equal(rig_stats(rig).fd_writes, 2);
}

/* ---- closing ------------------------------------------------------------------------------ */

/* proves: D-8 */
static void close_waits_for_calls_to_its_deadline_and_asks_them_to_stop(void **state)
{
	struct rig *rig = *state;
	struct kvh_queue_completion completion;
	uint64_t held, queued;
	size_t left = 77;

	rig->is_deaf = true;
	rig_hold(rig, 1u << RIG_PUT);
	held = rig_put(rig, 1, 1);
	rig_wait_inside(rig, 1);
	queued = rig_put(rig, 2, 1);
	assert_int_equal(kvh_queue_close(rig->queue, soon(), &left), KVH_TIMEOUT);
	assert_int_equal(left, 1);
	assert_int_equal(kvh_queue_close(rig->queue, 1, NULL), KVH_TIMEOUT);
	/* Nothing is freed: the ends that there are can be taken. */
	rig_assert_ended(rig, queued, KVH_CANCELLED);
	assert_int_equal(rig_state(rig, held), KVH_QUEUE_JOB_RUNNING);
	rig_hold(rig, 0);
	assert_int_equal(wait_for(rig, held, &completion), KVH_OK);
	assert_int_equal(kvh_queue_close(rig->queue, 0, &left), KVH_OK);
	assert_int_equal(left, 0);
	rig->queue = NULL;
}

/* proves: D-8 */
static void close_at_once_stops_a_call_that_listens(void **state)
{
	struct rig *rig = *state;
	size_t left = 77;

	rig_hold(rig, 1u << RIG_GET);
	rig_get(rig, 1, 1);
	rig_wait_inside(rig, 1);
	assert_int_equal(kvh_queue_close(rig->queue, 1, &left), KVH_TIMEOUT);
	assert_int_equal(left, 1);
	/* No deadline: without the request to stop this would hang. */
	assert_int_equal(kvh_queue_close(rig->queue, 0, &left), KVH_OK);
	rig->queue = NULL;
}

/* proves: D-8 */
static void close_hands_what_it_cancels_to_who_waits(void **state)
{
	struct rig *rig = *state;
	struct waiter waiter = {.rig = rig};

	rig_hold(rig, 1u << RIG_PUT);
	rig_put(rig, 1, 1);
	rig_wait_inside(rig, 1);
	waiter.id = rig_put(rig, 2, 1); /* waits for its place */
	waiter.thread = start(wait_main, &waiter);
	let_them_wait(rig, waiter.id, 1);
	assert_int_equal(kvh_queue_close(rig->queue, 1, NULL), KVH_TIMEOUT);
	join(waiter.thread);
	assert_int_equal(waiter.status, KVH_OK);
	assert_int_equal(waiter.completion.status, KVH_CANCELLED);
}

/* proves: D-8 */
static void close_ends_the_wait_for_any_job(void **state)
{
	struct rig *rig = *state;
	struct waiter waiter = {.rig = rig};

	waiter.thread = start(wait_main, &waiter);
	let_them_wait(rig, 0, 1);
	assert_int_equal(kvh_queue_close(rig->queue, 0, NULL), KVH_OK);
	join(waiter.thread);
	assert_int_equal(waiter.status, KVH_CLOSED);
	rig->queue = NULL;
}

/* proves: D-8 */
static void close_frees_completions_that_nobody_took(void **state)
{
	struct rig *rig = *state;
	int fd;

	for (uint64_t i = 0; i < 30; i++)
		rig_get(rig, i, 3);
	assert_int_equal(kvh_queue_drain(rig->queue, NULL, 0, 0, NULL), KVH_OK);
	assert_int_equal(rig_stats(rig).waiting_completions, 30);
	assert_int_equal(kvh_queue_fd(rig->queue, &fd), KVH_OK);
	assert_int_equal(kvh_queue_close(rig->queue, 1, NULL), KVH_OK);
	assert_int_equal(fcntl(fd, F_GETFD), -1);
	rig->queue = NULL;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		queue_test(run_hands_its_completion_to_the_caller_alone),
		queue_test(many_wait_for_one_job_and_one_gets_it),
		queue_test(who_waits_for_any_job_is_woken),
		queue_test(cancel_and_drain_give_the_blocks_back),
		queue_test(a_thread_that_slept_before_asks_about_doubt),
		queue_test(the_fd_is_readable_while_completions_wait),
		queue_test(an_fd_asked_for_late_tells_of_what_waits),
		queue_test(the_fd_tells_of_cancelled_and_late_jobs),
		queue_test(a_drain_ends_late_jobs_of_others_and_tells),
		queue_test(a_completion_that_goes_while_the_fd_is_set_unsets_it),
		queue_test(a_completion_that_comes_while_the_fd_is_cleared_sets_it),
		queue_test(close_waits_for_calls_to_its_deadline_and_asks_them_to_stop),
		queue_test(close_at_once_stops_a_call_that_listens),
		queue_test(close_hands_what_it_cancels_to_who_waits),
		queue_test(close_ends_the_wait_for_any_job),
		queue_test(close_frees_completions_that_nobody_took),
	};

	return cmocka_run_group_tests_name("store_queue_wait", tests, NULL, NULL);
}
