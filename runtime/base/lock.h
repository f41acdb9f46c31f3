/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Locks by role: clang's -Wthread-safety can't name a sibling member in C, so each role of lock has
 * one dummy object here, and fields say which role guards them. Order in which locks may be taken,
 * outer first: worker, queue, store, pool. No lock is held across a store call, a device call or a
 * callback.
 */
#ifndef KVH_BASE_LOCK_H
#define KVH_BASE_LOCK_H

#include <kvhold/env.h>

#if defined(__clang__)
#define KVH_ANNOTATE(x) __attribute__((x))
#else
#define KVH_ANNOTATE(x)
#endif

#define KVH_GUARDED_BY(role)          KVH_ANNOTATE(guarded_by(role))
#define KVH_REQUIRES(role)            KVH_ANNOTATE(requires_capability(role))
#define KVH_EXCLUDES(role)            KVH_ANNOTATE(locks_excluded(role))
#define KVH_ACQUIRE(role)             KVH_ANNOTATE(acquire_capability(role))
#define KVH_RELEASE(role)             KVH_ANNOTATE(release_capability(role))
#define KVH_NO_THREAD_SAFETY_ANALYSIS KVH_ANNOTATE(no_thread_safety_analysis)

struct KVH_ANNOTATE(capability("mutex")) kvh_lock_role {
	char unused;
};

extern struct kvh_lock_role kvh_role_worker; /* worker/: ledger, queues, completions */
extern struct kvh_lock_role kvh_role_queue;  /* store/queue*: jobs and completions of a queue */
extern struct kvh_lock_role kvh_role_store;  /* store/: regions, prefixes of a handle */
extern struct kvh_lock_role kvh_role_pool;   /* pool/: the core's mutation lock */

/* Shorthands over an environment. */
static inline uint64_t kvh_now_ns(const struct kvh_env *env)
{
	return env->ops->now_ns(env->ctx);
}

/* Whether an absolute deadline (0 = none) has passed. */
static inline _Bool kvh_deadline_passed(const struct kvh_env *env, kvh_deadline deadline_ns)
{
	return deadline_ns != 0 && kvh_now_ns(env) >= deadline_ns;
}

/* Now + ns as a deadline; saturates instead of wrapping. */
static inline kvh_deadline kvh_deadline_after(const struct kvh_env *env, uint64_t ns)
{
	uint64_t now_ns = kvh_now_ns(env);

	return now_ns > UINT64_MAX - ns ? UINT64_MAX : now_ns + ns;
}

#endif
