/* SPDX-License-Identifier: Apache-2.0 */
/* The POSIX environment where the platform refuses: the linker puts our refusals in its place. */
#include "unit/base/unit.h"

#include <errno.h>
#include <pthread.h>
#include <sys/random.h>

#include <kvhold/env.h>

/* What each refused call answers. */
static int refusal;

/* NOLINTBEGIN(bugprone-reserved-identifier): the linker's --wrap fixes these names. */
int __wrap_pthread_create(pthread_t *id, const pthread_attr_t *attr, void *(*fn)(void *),
                          void *arg);
int __wrap_pthread_mutexattr_init(pthread_mutexattr_t *attr);
int __wrap_pthread_condattr_setclock(pthread_condattr_t *attr, clockid_t clock);
ssize_t __wrap_getrandom(void *out, size_t bytes, unsigned flags);

int __wrap_pthread_create(pthread_t *id, const pthread_attr_t *attr, void *(*fn)(void *), void *arg)
{
	(void)id;
	(void)attr;
	(void)fn;
	(void)arg;
	return refusal;
}

int __wrap_pthread_mutexattr_init(pthread_mutexattr_t *attr)
{
	(void)attr;
	return refusal;
}

int __wrap_pthread_condattr_setclock(pthread_condattr_t *attr, clockid_t clock)
{
	(void)attr;
	(void)clock;
	return refusal;
}

ssize_t __wrap_getrandom(void *out, size_t bytes, unsigned flags)
{
	(void)out;
	(void)bytes;
	(void)flags;
	return -1;
}

/* NOLINTEND(bugprone-reserved-identifier) */

static void not_called(void *arg)
{
	(void)arg;
}

static void refusals_become_statuses_and_leave_nothing(void **context)
{
	static const struct {
		int refusal;
		kvh_status status;
	} cases[] = {
		{EAGAIN, KVH_NO_MEMORY},
		{ENOMEM, KVH_NO_MEMORY},
		{EPERM, KVH_INTERNAL},
	};
	const struct kvh_env *env = kvh_env_posix();

	(void)context;
	for (size_t index = 0; index < COUNT_OF(cases); index++) {
		struct kvh_thread *thread = NULL;
		struct kvh_mutex *mutex = NULL;
		struct kvh_cond *cond = NULL;

		refusal = cases[index].refusal;
		assert_int_equal(env->ops->thread_create(env->ctx, &thread, "t", not_called, NULL),
		                 cases[index].status);
		assert_int_equal(env->ops->mutex_create(env->ctx, &mutex), cases[index].status);
		assert_int_equal(env->ops->cond_create(env->ctx, &cond), cases[index].status);
		assert_true(!thread && !mutex && !cond);
	}
}

static void without_getrandom_numbers_still_change(void **context)
{
	const struct kvh_env *env = kvh_env_posix();
	uint64_t first = env->ops->random(env->ctx);

	(void)context;
	env->ops->sleep_ns(env->ctx, 1000000);
	assert_true(env->ops->random(env->ctx) != first);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(refusals_become_statuses_and_leave_nothing),
		cmocka_unit_test(without_getrandom_numbers_still_change),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
