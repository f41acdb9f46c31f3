/* SPDX-License-Identifier: Apache-2.0 */
/* Threads as coroutines, resumed by hand. */
#include "coenv.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <ucontext.h>

enum { THREADS_MAX = 16, STACK_BYTES = 1 << 20 };

struct kvh_thread {
	struct coenv *coenv;
	ucontext_t context;
	kvh_thread_fn fn;
	void *arg;
	char *stack;
	bool ended;
};

struct kvh_mutex {
	bool locked;
};

struct kvh_cond {
	char unused;
};

struct coenv {
	struct kvh_env env;
	struct kvh_thread threads[THREADS_MAX];
	size_t thread_count;
	struct kvh_thread *running; /* NULL: the test itself */
	ucontext_t main;
	uint64_t now_ns;
};

/* A misuse here is a bug of the worker or of the test: there is no way to go on. */
static void must(bool condition, const char *what)
{
	if (condition)
		return;
	fprintf(stderr, "coenv: %s\n", what);
	abort();
}

static uint64_t now_ns(void *ctx)
{
	const struct coenv *coenv = ctx;

	return coenv->now_ns;
}

static void sleep_ns(void *ctx, uint64_t ns)
{
	struct coenv *coenv = ctx;

	coenv->now_ns += ns;
}

static uint64_t random_number(void *ctx)
{
	(void)ctx;
	return 4; /* nothing that is replayed may depend on it */
}

static void yield(struct coenv *coenv)
{
	struct kvh_thread *thread = coenv->running;

	coenv->running = NULL;
	must(swapcontext(&thread->context, &coenv->main) == 0, "swapcontext");
}

static void between_jobs(void *ctx)
{
	yield(ctx);
}

static void thread_entry(unsigned high, unsigned low)
{
	struct kvh_thread *thread = (struct kvh_thread *)((uintptr_t)high << 32 | (uintptr_t)low);

	thread->fn(thread->arg);
	thread->ended = true;
	yield(thread->coenv);
}

void coenv_resume(struct coenv *coenv, size_t index)
{
	struct kvh_thread *thread = &coenv->threads[index];

	must(!coenv->running && index < coenv->thread_count && !thread->ended, "no such thread");
	coenv->running = thread;
	must(swapcontext(&coenv->main, &thread->context) == 0, "swapcontext");
}

static kvh_status thread_create(void *ctx, struct kvh_thread **out, const char *name,
                                kvh_thread_fn fn, void *arg)
{
	struct coenv *coenv = ctx;
	struct kvh_thread *thread = &coenv->threads[coenv->thread_count];

	(void)name;
	must(coenv->thread_count < THREADS_MAX, "too many threads");
	coenv->thread_count++;
	*thread = (struct kvh_thread){.coenv = coenv, .fn = fn, .arg = arg};
	thread->stack = malloc(STACK_BYTES);
	must(thread->stack && getcontext(&thread->context) == 0, "no stack");
	thread->context.uc_stack.ss_sp = thread->stack;
	thread->context.uc_stack.ss_size = STACK_BYTES;
	makecontext(&thread->context, (void (*)(void))thread_entry, 2,
	            (unsigned)((uintptr_t)thread >> 32), (unsigned)(uintptr_t)thread);
	*out = thread;
	return KVH_OK;
}

static void thread_join(void *ctx, struct kvh_thread *thread)
{
	struct coenv *coenv = ctx;

	while (!thread->ended)
		coenv_resume(coenv, (size_t)(thread - coenv->threads));
	free(thread->stack);
}

static kvh_status mutex_create(void *ctx, struct kvh_mutex **mutex)
{
	(void)ctx;
	*mutex = calloc(1, sizeof(**mutex));
	return *mutex ? KVH_OK : KVH_NO_MEMORY;
}

static void mutex_destroy(void *ctx, struct kvh_mutex *mutex)
{
	(void)ctx;
	must(!mutex->locked, "a locked mutex is destroyed");
	free(mutex);
}

static void mutex_lock(void *ctx, struct kvh_mutex *mutex)
{
	(void)ctx;
	must(!mutex->locked, "a lock is held across a call");
	mutex->locked = true;
}

static void mutex_unlock(void *ctx, struct kvh_mutex *mutex)
{
	(void)ctx;
	must(mutex->locked, "a free mutex is unlocked");
	mutex->locked = false;
}

static kvh_status cond_create(void *ctx, struct kvh_cond **cond)
{
	(void)ctx;
	*cond = calloc(1, sizeof(**cond));
	return *cond ? KVH_OK : KVH_NO_MEMORY;
}

static void cond_destroy(void *ctx, struct kvh_cond *cond)
{
	(void)ctx;
	free(cond);
}

/* A thread waits until it is resumed; the test itself can only have come too late. */
static kvh_status cond_wait(void *ctx, struct kvh_cond *cond, struct kvh_mutex *mutex,
                            kvh_deadline deadline_ns)
{
	struct coenv *coenv = ctx;

	(void)cond;
	if (!coenv->running) {
		must(deadline_ns != 0, "the test waits without a deadline");
		if (coenv->now_ns < deadline_ns)
			coenv->now_ns = deadline_ns;
		return KVH_TIMEOUT;
	}
	mutex_unlock(ctx, mutex);
	yield(coenv);
	mutex_lock(ctx, mutex);
	return KVH_OK;
}

static void cond_signal(void *ctx, struct kvh_cond *cond)
{
	(void)ctx;
	(void)cond;
}

static const struct kvh_env_ops ops = {.struct_bytes = sizeof(ops),
                                       .now_ns = now_ns,
                                       .sleep_ns = sleep_ns,
                                       .random = random_number,
                                       .thread_create = thread_create,
                                       .thread_join = thread_join,
                                       .mutex_create = mutex_create,
                                       .mutex_destroy = mutex_destroy,
                                       .mutex_lock = mutex_lock,
                                       .mutex_unlock = mutex_unlock,
                                       .cond_create = cond_create,
                                       .cond_destroy = cond_destroy,
                                       .cond_wait = cond_wait,
                                       .cond_signal = cond_signal,
                                       .cond_broadcast = cond_signal,
                                       .between_jobs = between_jobs};

struct coenv *coenv_open(void)
{
	struct coenv *coenv = calloc(1, sizeof(*coenv));

	must(coenv != NULL, "no memory");
	coenv->env = (struct kvh_env){.ops = &ops, .ctx = coenv};
	coenv->now_ns = 1000 * 1000 * 1000;
	return coenv;
}

void coenv_close(struct coenv *coenv)
{
	for (size_t i = 0; i < coenv->thread_count; i++)
		must(coenv->threads[i].ended, "a thread has not ended");
	free(coenv);
}

const struct kvh_env *coenv_env(const struct coenv *coenv)
{
	return &coenv->env;
}

void coenv_advance_ns(struct coenv *coenv, uint64_t ns)
{
	coenv->now_ns += ns;
}
