/* SPDX-License-Identifier: Apache-2.0 */
/* The POSIX environment: clock, threads, locks, conditions. */
#include "unit/base/unit.h"

#include <pthread.h>
#include <string.h>
#include <sys/time.h>

#include <kvhold/env.h>

#include "base/fault.h"
#include "base/lock.h"
#include "base/process.h"

#define THREAD_COUNT 4
#define MS           UINT64_C(1000000)

static const struct kvh_env *env;

static void set_env(void)
{
	env = kvh_env_posix();
}

/* A flag under a mutex, and what its threads saw. cmocka's asserts are for the main thread only. */
struct shared {
	struct kvh_mutex *mutex;
	struct kvh_cond *cond;
	kvh_deadline deadline_ns;
	int waiting_count;
	bool go;
	int ok_count;
	int timeout_count;
	uint64_t count;
};

static void shared_init(struct shared *shared)
{
	*shared = (struct shared){0};
	assert_int_equal(env->ops->mutex_create(env->ctx, &shared->mutex), KVH_OK);
	assert_int_equal(env->ops->cond_create(env->ctx, &shared->cond), KVH_OK);
}

static void shared_fini(struct shared *shared)
{
	env->ops->cond_destroy(env->ctx, shared->cond);
	env->ops->mutex_destroy(env->ctx, shared->mutex);
}

static void lock(struct shared *shared)
{
	env->ops->mutex_lock(env->ctx, shared->mutex);
}

static void unlock(struct shared *shared)
{
	env->ops->mutex_unlock(env->ctx, shared->mutex);
}

static void start_threads(struct kvh_thread **threads, kvh_thread_fn fn, void *arg)
{
	for (int index = 0; index < THREAD_COUNT; index++)
		assert_int_equal(
			env->ops->thread_create(env->ctx, &threads[index], "test", fn, arg),
			KVH_OK);
}

static void join_threads(struct kvh_thread **threads)
{
	for (int index = 0; index < THREAD_COUNT; index++)
		env->ops->thread_join(env->ctx, threads[index]);
}

static void the_table_is_full(void **context)
{
	const struct kvh_env_ops *ops = env->ops;

	(void)context;
	assert_ptr_equal(env, kvh_env_posix());
	assert_int_equal(ops->struct_bytes, sizeof(*ops));
	assert_true(ops->now_ns && ops->sleep_ns && ops->random);
	assert_true(ops->thread_create && ops->thread_join);
	assert_true(ops->mutex_create && ops->mutex_destroy && ops->mutex_lock &&
	            ops->mutex_unlock);
	assert_true(ops->cond_create && ops->cond_destroy && ops->cond_wait && ops->cond_signal &&
	            ops->cond_broadcast);
	assert_null(ops->between_jobs);
}

static void the_clock_never_goes_back_and_sleep_lasts(void **context)
{
	uint64_t before_ns = env->ops->now_ns(env->ctx);

	(void)context;
	assert_true(before_ns != 0);
	for (int index = 0; index < 1000; index++) {
		uint64_t now_ns = env->ops->now_ns(env->ctx);

		assert_true(now_ns >= before_ns);
		before_ns = now_ns;
	}
	env->ops->sleep_ns(env->ctx, 2 * MS);
	assert_true(env->ops->now_ns(env->ctx) >= before_ns + 2 * MS);
	env->ops->sleep_ns(env->ctx, 0);
}

static void sleep_without_end(void)
{
	const struct itimerval soon = {.it_value = {.tv_usec = 20000}};

	setitimer(ITIMER_REAL, &soon, NULL);
	env->ops->sleep_ns(env->ctx, UINT64_MAX);
}

static void the_longest_sleep_does_not_wrap_to_none(void **context)
{
	int status = end_of_child(sleep_without_end);

	(void)context;
	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGALRM);
}

static void deadlines_saturate_and_pass(void **context)
{
	(void)context;
	assert_int_equal(kvh_deadline_after(env, UINT64_MAX), UINT64_MAX);
	assert_true(kvh_deadline_after(env, MS) > MS);
	assert_false(kvh_deadline_passed(env, 0));
	assert_true(kvh_deadline_passed(env, 1));
	assert_false(kvh_deadline_passed(env, UINT64_MAX));
}

static void random_numbers_differ(void **context)
{
	uint64_t numbers[100];

	(void)context;
	/* 4950 pairs of 64 bits: two equal by chance once in 10^15 runs. */
	for (size_t a = 0; a < COUNT_OF(numbers); a++) {
		numbers[a] = env->ops->random(env->ctx);
		for (size_t b = 0; b < a; b++)
			assert_true(numbers[a] != numbers[b]);
	}
}

static void count_up(void *arg)
{
	struct shared *shared = arg;

	for (int index = 0; index < 10000; index++) {
		lock(shared);
		shared->count++;
		unlock(shared);
	}
}

static void a_mutex_lets_one_in(void **context)
{
	struct kvh_thread *threads[THREAD_COUNT];
	struct shared shared;

	(void)context;
	shared_init(&shared);
	start_threads(threads, count_up, &shared);
	join_threads(threads);
	assert_int_equal(shared.count, UINT64_C(10000) * THREAD_COUNT);
	shared_fini(&shared);
}

static void wait_for_go(void *arg)
{
	struct shared *shared = arg;

	lock(shared);
	shared->waiting_count++;
	while (!shared->go) {
		if (env->ops->cond_wait(env->ctx, shared->cond, shared->mutex,
		                        shared->deadline_ns) != KVH_OK)
			shared->timeout_count++;
	}
	shared->ok_count++;
	unlock(shared);
}

static void run_waiters(kvh_deadline deadline_ns, bool broadcast)
{
	struct kvh_thread *threads[THREAD_COUNT];
	struct shared shared;
	int waiting_count = 0;

	shared_init(&shared);
	shared.deadline_ns = deadline_ns;
	start_threads(threads, wait_for_go, &shared);
	while (waiting_count < THREAD_COUNT) {
		lock(&shared);
		waiting_count = shared.waiting_count;
		unlock(&shared);
		env->ops->sleep_ns(env->ctx, MS / 10);
	}
	lock(&shared);
	shared.go = true;
	if (broadcast)
		env->ops->cond_broadcast(env->ctx, shared.cond);
	for (int index = 0; !broadcast && index < THREAD_COUNT; index++)
		env->ops->cond_signal(env->ctx, shared.cond);
	unlock(&shared);
	join_threads(threads);
	assert_int_equal(shared.ok_count, THREAD_COUNT);
	assert_int_equal(shared.timeout_count, 0);
	shared_fini(&shared);
}

static void signals_and_broadcasts_wake_every_waiter(void **context)
{
	/* None, the saturated one, and one so late that the run is over before. */
	const kvh_deadline deadlines[] = {0, UINT64_MAX, UINT64_MAX - 1,
	                                  kvh_deadline_after(env, MS * 1000 * 3600)};

	(void)context;
	for (size_t index = 0; index < COUNT_OF(deadlines); index++) {
		run_waiters(deadlines[index], true);
		run_waiters(deadlines[index], false);
	}
}

static void a_wait_ends_at_its_deadline_with_the_mutex_held(void **context)
{
	struct shared shared;
	kvh_deadline deadline_ns = kvh_deadline_after(env, 5 * MS);
	kvh_status status;

	(void)context;
	shared_init(&shared);
	lock(&shared);
	assert_int_equal(env->ops->cond_wait(env->ctx, shared.cond, shared.mutex, 1), KVH_TIMEOUT);
	do {
		status = env->ops->cond_wait(env->ctx, shared.cond, shared.mutex, deadline_ns);
	} while (status == KVH_OK);
	assert_int_equal(status, KVH_TIMEOUT);
	assert_true(kvh_deadline_passed(env, deadline_ns));
	/* An unlock of a mutex that is not held would stop the process. */
	unlock(&shared);
	shared_fini(&shared);
}

struct self {
	char name[16];
	sigset_t mask;
};

static void look_at_self(void *arg)
{
	struct self *self = arg;

	pthread_getname_np(pthread_self(), self->name, sizeof(self->name));
	pthread_sigmask(SIG_BLOCK, NULL, &self->mask);
}

static void threads_have_names_and_leave_signals_to_the_engine(void **context)
{
	struct self self = {0};
	struct kvh_thread *thread;
	sigset_t mask;

	(void)context;
	sigemptyset(&mask);
	sigaddset(&mask, SIGUSR1);
	pthread_sigmask(SIG_UNBLOCK, &mask, NULL);
	assert_int_equal(env->ops->thread_create(env->ctx, &thread, "kvh-save-with-a-long-name",
	                                         look_at_self, &self),
	                 KVH_OK);
	env->ops->thread_join(env->ctx, thread);
	pthread_sigmask(SIG_BLOCK, NULL, &mask);
	assert_string_equal(self.name, "kvh-save-with-a");
	assert_true(sigismember(&self.mask, SIGINT));
	assert_true(sigismember(&self.mask, SIGUSR1));
	assert_false(sigismember(&self.mask, SIGSEGV));
	/* The mask of the one that made the thread is as it was. */
	assert_false(sigismember(&mask, SIGUSR1));
}

static void creating_without_memory_says_so(void **context)
{
	struct kvh_thread *thread = NULL;
	struct kvh_mutex *mutex = NULL;
	struct kvh_cond *cond = NULL;

	(void)context;
	assert_true(kvh_fault_arm_nth("base/alloc", 1, -1));
	assert_int_equal(env->ops->thread_create(env->ctx, &thread, "t", count_up, NULL),
	                 KVH_NO_MEMORY);
	assert_true(kvh_fault_arm_nth("base/alloc", 1, -1));
	assert_int_equal(env->ops->mutex_create(env->ctx, &mutex), KVH_NO_MEMORY);
	assert_true(kvh_fault_arm_nth("base/alloc", 1, -1));
	assert_int_equal(env->ops->cond_create(env->ctx, &cond), KVH_NO_MEMORY);
	kvh_fault_disarm_all();
	assert_true(!thread && !mutex && !cond);
}

static void lock_twice(void)
{
	struct kvh_mutex *mutex;

	if (env->ops->mutex_create(env->ctx, &mutex) == KVH_OK) {
		env->ops->mutex_lock(env->ctx, mutex);
		env->ops->mutex_lock(env->ctx, mutex);
	}
}

static void unlock_unlocked(void)
{
	struct kvh_mutex *mutex;

	if (env->ops->mutex_create(env->ctx, &mutex) == KVH_OK)
		env->ops->mutex_unlock(env->ctx, mutex);
}

static void misuse_of_a_mutex_stops_instead_of_hanging(void **context)
{
	(void)context;
	assert_stops(lock_twice);
	/* ThreadSanitizer ends the process itself, before our check. */
	assert_int_not_equal(end_of_child(unlock_unlocked), 0);
}

static uint64_t parent_id;

static void compare_with_parent(void)
{
	_exit(kvh_process_id() == parent_id ? 1 : 0);
}

static void a_forked_child_is_another_process(void **context)
{
	(void)context;
	parent_id = kvh_process_id();
	assert_true(parent_id != 0);
	assert_int_equal(parent_id, kvh_process_id());
	assert_int_equal(end_of_child(compare_with_parent), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_table_is_full),
		cmocka_unit_test(the_clock_never_goes_back_and_sleep_lasts),
		cmocka_unit_test(the_longest_sleep_does_not_wrap_to_none),
		cmocka_unit_test(deadlines_saturate_and_pass),
		cmocka_unit_test(random_numbers_differ),
		cmocka_unit_test(a_mutex_lets_one_in),
		cmocka_unit_test(signals_and_broadcasts_wake_every_waiter),
		cmocka_unit_test(a_wait_ends_at_its_deadline_with_the_mutex_held),
		cmocka_unit_test(threads_have_names_and_leave_signals_to_the_engine),
		cmocka_unit_test(creating_without_memory_says_so),
		cmocka_unit_test(misuse_of_a_mutex_stops_instead_of_hanging),
		cmocka_unit_test(a_forked_child_is_another_process),
	};

	set_env();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
