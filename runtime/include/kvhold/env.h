/* SPDX-License-Identifier: Apache-2.0 */
/* The environment: clock, sleep, threads, locks, random. All that kvhold asks of an OS or
 * simulator. */
#ifndef KVHOLD_ENV_H
#define KVHOLD_ENV_H

#include <stddef.h>
#include <stdint.h>

#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Opaque to kvhold: what they point at belongs to the environment that made them. */
struct kvh_thread;
struct kvh_mutex;
struct kvh_cond;

typedef void (*kvh_thread_fn)(void *arg);

/* Absolute deadline, ns of kvh_env_ops.now_ns: 0 = none, 1 = already passed. */
typedef uint64_t kvh_deadline;

/*
 * Every function may be called from any thread of this environment. create functions return
 * KVH_NO_MEMORY or what the platform said; destroy functions take what create gave.
 */
struct kvh_env_ops {
	size_t struct_bytes; /* sizeof(struct kvh_env_ops) of whoever filled it */

	/* Monotonic, never 0. */
	uint64_t (*now_ns)(void *ctx);
	void (*sleep_ns)(void *ctx, uint64_t ns);
	/* Not for keys of cryptography. */
	uint64_t (*random)(void *ctx);

	/* name: borrowed, at most 15 bytes are kept. */
	kvh_status (*thread_create)(void *ctx, struct kvh_thread **thread, const char *name,
	                            kvh_thread_fn fn, void *arg);
	/* Waits for the thread's end and frees it. */
	void (*thread_join)(void *ctx, struct kvh_thread *thread);

	/* Not recursive. */
	kvh_status (*mutex_create)(void *ctx, struct kvh_mutex **mutex);
	void (*mutex_destroy)(void *ctx, struct kvh_mutex *mutex);
	void (*mutex_lock)(void *ctx, struct kvh_mutex *mutex);
	void (*mutex_unlock)(void *ctx, struct kvh_mutex *mutex);

	kvh_status (*cond_create)(void *ctx, struct kvh_cond **cond);
	void (*cond_destroy)(void *ctx, struct kvh_cond *cond);
	/* Mutex held. Returns KVH_OK (also without a signal) or KVH_TIMEOUT past the deadline. */
	kvh_status (*cond_wait)(void *ctx, struct kvh_cond *cond, struct kvh_mutex *mutex,
	                        kvh_deadline deadline_ns);
	void (*cond_signal)(void *ctx, struct kvh_cond *cond);
	void (*cond_broadcast)(void *ctx, struct kvh_cond *cond);

	/*
	 * Called by a worker's thread with no lock held each time before it asks for its next job:
	 * the place where an environment that schedules by itself may switch. NULL: nothing to do.
	 */
	void (*between_jobs)(void *ctx);
};

/* Lent to every object opened with it, until that object is closed. */
struct kvh_env {
	const struct kvh_env_ops *ops;
	void *ctx;
};

/* POSIX threads and CLOCK_MONOTONIC. Static, never NULL; any thread. */
KVH_API const struct kvh_env *kvh_env_posix(void);

#ifdef __cplusplus
}
#endif
#endif
