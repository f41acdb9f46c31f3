/* SPDX-License-Identifier: Apache-2.0 */
/* The environment of a real process: POSIX threads, CLOCK_MONOTONIC, getrandom. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include <kvhold/env.h>

#include "base/check.h"
#include "base/fault.h"
#include "base/hash.h"
#include "base/process.h"

#define NS_PER_S   UINT64_C(1000000000)
#define NAME_BYTES 16 /* with the final 0, what Linux keeps of a thread's name */

struct kvh_thread {
	pthread_t id;
	kvh_thread_fn fn;
	void *arg;
	char name[NAME_BYTES];
};

struct kvh_mutex {
	pthread_mutex_t mutex;
};

struct kvh_cond {
	pthread_cond_t cond;
};

static kvh_status status_of_errno(int number)
{
	switch (number) {
	case 0:
		return KVH_OK;
	case ENOMEM:
	case EAGAIN: /* a limit on threads or locks */
		return KVH_NO_MEMORY;
	default:
		return KVH_INTERNAL;
	}
}

static uint64_t posix_now_ns(void *ctx)
{
	struct timespec now;
	uint64_t ns;
	int rc = clock_gettime(CLOCK_MONOTONIC, &now);

	(void)ctx;
	KVH_CHECK(rc == 0);
	ns = (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
	return ns ? ns : 1;
}

static struct timespec timespec_of(uint64_t ns)
{
	return (struct timespec){.tv_sec = (time_t)(ns / NS_PER_S),
	                         .tv_nsec = (long)(ns % NS_PER_S)};
}

static void posix_sleep_ns(void *ctx, uint64_t ns)
{
	uint64_t end_ns;
	struct timespec end;
	int rc;

	/* An absolute end, so that signals do not lengthen the sleep. */
	if (__builtin_add_overflow(posix_now_ns(ctx), ns, &end_ns))
		end_ns = UINT64_MAX;
	end = timespec_of(end_ns);
	do {
		rc = clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, NULL);
	} while (rc == EINTR);
	KVH_CHECK(rc == 0);
}

static uint64_t posix_random(void *ctx)
{
	uint64_t value;
	uint64_t weak[2];

	if (getrandom(&value, sizeof(value), GRND_NONBLOCK) == (ssize_t)sizeof(value))
		return value;
	/* Early boot, or a sandbox without getrandom: enough to tell processes and moments apart.
	 */
	weak[0] = posix_now_ns(ctx);
	weak[1] = kvh_process_id();
	return kvh_hash64(weak, sizeof(weak));
}

static void *thread_main(void *arg)
{
	struct kvh_thread *thread = arg;

	/* Only a help for people; a refusal changes nothing. */
	(void)pthread_setname_np(pthread_self(), thread->name);
	thread->fn(thread->arg);
	return NULL;
}

/* The engine's signal handlers must not run on our threads; faults of a thread are its own. */
static void signals_of_engine(sigset_t *set)
{
	static const int own[] = {SIGSEGV, SIGBUS,  SIGFPE, SIGILL,
	                          SIGTRAP, SIGABRT, SIGSYS, SIGPROF};

	sigfillset(set);
	for (size_t index = 0; index < sizeof(own) / sizeof(own[0]); index++)
		sigdelset(set, own[index]);
}

static kvh_status posix_thread_create(void *ctx, struct kvh_thread **out, const char *name,
                                      kvh_thread_fn fn, void *arg)
{
	struct kvh_thread *thread = kvh_alloc(sizeof(*thread));
	sigset_t blocked;
	sigset_t before;
	int rc;

	(void)ctx;
	if (!thread)
		return KVH_NO_MEMORY;
	*thread = (struct kvh_thread){.fn = fn, .arg = arg};
	strncpy(thread->name, name, sizeof(thread->name) - 1);

	/* A new thread takes its mask from the one that makes it. */
	signals_of_engine(&blocked);
	pthread_sigmask(SIG_BLOCK, &blocked, &before);
	rc = pthread_create(&thread->id, NULL, thread_main, thread);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (rc != 0) {
		kvh_free(thread);
		return status_of_errno(rc);
	}
	*out = thread;
	return KVH_OK;
}

static void posix_thread_join(void *ctx, struct kvh_thread *thread)
{
	int rc = pthread_join(thread->id, NULL);

	(void)ctx;
	KVH_CHECK(rc == 0);
	kvh_free(thread);
}

/* A second lock by the same thread, or an unlock by another one, becomes an error we check. */
static int init_checked_mutex(pthread_mutex_t *mutex)
{
	pthread_mutexattr_t attr;
	int rc = pthread_mutexattr_init(&attr);

	if (rc != 0)
		return rc;
	rc = pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_ERRORCHECK);
	if (rc == 0)
		rc = pthread_mutex_init(mutex, &attr);
	pthread_mutexattr_destroy(&attr);
	return rc;
}

static kvh_status posix_mutex_create(void *ctx, struct kvh_mutex **out)
{
	struct kvh_mutex *mutex = kvh_alloc(sizeof(*mutex));
	int rc;

	(void)ctx;
	if (!mutex)
		return KVH_NO_MEMORY;
	rc = init_checked_mutex(&mutex->mutex);
	if (rc != 0) {
		kvh_free(mutex);
		return status_of_errno(rc);
	}
	*out = mutex;
	return KVH_OK;
}

static void posix_mutex_destroy(void *ctx, struct kvh_mutex *mutex)
{
	int rc = pthread_mutex_destroy(&mutex->mutex);

	(void)ctx;
	KVH_CHECK(rc == 0);
	kvh_free(mutex);
}

static void posix_mutex_lock(void *ctx, struct kvh_mutex *mutex)
{
	int rc = pthread_mutex_lock(&mutex->mutex);

	(void)ctx;
	KVH_CHECK(rc == 0);
}

static void posix_mutex_unlock(void *ctx, struct kvh_mutex *mutex)
{
	int rc = pthread_mutex_unlock(&mutex->mutex);

	(void)ctx;
	KVH_CHECK(rc == 0);
}

/* Deadlines are of CLOCK_MONOTONIC; a condition's clock is another one unless told. */
static int init_monotonic_cond(pthread_cond_t *cond)
{
	pthread_condattr_t attr;
	int rc = pthread_condattr_init(&attr);

	if (rc != 0)
		return rc;
	rc = pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	if (rc == 0)
		rc = pthread_cond_init(cond, &attr);
	pthread_condattr_destroy(&attr);
	return rc;
}

static kvh_status posix_cond_create(void *ctx, struct kvh_cond **out)
{
	struct kvh_cond *cond = kvh_alloc(sizeof(*cond));
	int rc;

	(void)ctx;
	if (!cond)
		return KVH_NO_MEMORY;
	rc = init_monotonic_cond(&cond->cond);
	if (rc != 0) {
		kvh_free(cond);
		return status_of_errno(rc);
	}
	*out = cond;
	return KVH_OK;
}

static void posix_cond_destroy(void *ctx, struct kvh_cond *cond)
{
	int rc = pthread_cond_destroy(&cond->cond);

	(void)ctx;
	KVH_CHECK(rc == 0);
	kvh_free(cond);
}

static kvh_status posix_cond_wait(void *ctx, struct kvh_cond *cond, struct kvh_mutex *mutex,
                                  kvh_deadline deadline_ns)
{
	struct timespec deadline = timespec_of(deadline_ns);
	int rc;

	(void)ctx;
	/* UINT64_MAX is what a saturated deadline looks like: 584 years, no deadline. */
	if (deadline_ns == 0 || deadline_ns == UINT64_MAX)
		rc = pthread_cond_wait(&cond->cond, &mutex->mutex);
	else
		rc = pthread_cond_timedwait(&cond->cond, &mutex->mutex, &deadline);
	KVH_CHECK(rc == 0 || rc == ETIMEDOUT);
	return rc == 0 ? KVH_OK : KVH_TIMEOUT;
}

static void posix_cond_signal(void *ctx, struct kvh_cond *cond)
{
	(void)ctx;
	pthread_cond_signal(&cond->cond);
}

static void posix_cond_broadcast(void *ctx, struct kvh_cond *cond)
{
	(void)ctx;
	pthread_cond_broadcast(&cond->cond);
}

const struct kvh_env *kvh_env_posix(void)
{
	static const struct kvh_env_ops ops = {
		.struct_bytes = sizeof(ops),
		.now_ns = posix_now_ns,
		.sleep_ns = posix_sleep_ns,
		.random = posix_random,
		.thread_create = posix_thread_create,
		.thread_join = posix_thread_join,
		.mutex_create = posix_mutex_create,
		.mutex_destroy = posix_mutex_destroy,
		.mutex_lock = posix_mutex_lock,
		.mutex_unlock = posix_mutex_unlock,
		.cond_create = posix_cond_create,
		.cond_destroy = posix_cond_destroy,
		.cond_wait = posix_cond_wait,
		.cond_signal = posix_cond_signal,
		.cond_broadcast = posix_cond_broadcast,
	};
	static const struct kvh_env env = {.ops = &ops};

	return &env;
}

uint64_t kvh_process_id(void)
{
	return (uint64_t)getpid();
}
