/* SPDX-License-Identifier: Apache-2.0 */
/* A store over a core in this machine's memory: what its parts share. */
#ifndef KVH_POOL_LOCAL_LOCAL_H
#define KVH_POOL_LOCAL_LOCAL_H

#include <kvhold/store_ops.h>

#include "pool/core/core.h"

enum {
	/* Bytes copied between two looks at the clock and the cancel flag. */
	KVH_LOCAL_STEP_BYTES = 16 << 20,
	/* A step takes 16 ms at 1 GB/s; the rest is for a scan for victims and a busy machine. */
	KVH_LOCAL_STOP_MS = 100,
	/* Naps between two looks for dead sessions. */
	KVH_LOCAL_BURY_NAPS = 64
};

/* How long a caller sleeps before it looks again: for a reader, a writer, a scan. */
#define KVH_LOCAL_NAP_NS UINT64_C(100000)

struct kvh_shared; /* shm.c */

struct kvh_local {
	struct kvh_core core;
	const struct kvh_env *env;
	struct kvh_log log;
	void *memory;
	size_t memory_bytes;       /* 0: the memory is lent */
	struct kvh_mutex *mutex;   /* private memory: the core's lock */
	struct kvh_shared *shared; /* NULL: private memory */
};

/* The backend's table, but for close. */
extern const struct kvh_store_ops kvh_local_ops;

/*
 * Looks for sessions whose process ended and gives back what they held. True: something may be free
 * now that was not. In private memory there are none.
 */
bool kvh_local_bury(struct kvh_local *local, kvh_deadline deadline_ns);

/* Frees own reservations that no byte moves into any more; at once, whoever has the lock (S-9). */
void kvh_local_let_go(struct kvh_local *local, const struct kvh_core_ref *refs, size_t count,
                      kvh_status *statuses);

/*
 * Whether a miss may be due to a rebuild that ran meanwhile (counter: kvh_local_rebuilds before
 * it). Then it is worth another look, for at most 100 ms.
 */
struct kvh_rebuild_watch {
	uint64_t counter;
	kvh_deadline until_ns; /* 0: no miss yet */
	uint32_t looks;
};
struct kvh_rebuild_watch kvh_local_watch(const struct kvh_local *local);
bool kvh_local_look_again(struct kvh_local *local, struct kvh_rebuild_watch *watch,
                          const struct kvh_call *call);

static inline uint64_t kvh_local_now_unit(const struct kvh_local *local)
{
	return kvh_time_unit(kvh_now_ns(local->env));
}

static inline void kvh_local_nap(const struct kvh_local *local)
{
	local->env->ops->sleep_ns(local->env->ctx, KVH_LOCAL_NAP_NS);
}

/* KVH_OK: go on. call: as a backend gets it, NULL allowed. */
kvh_status kvh_local_stop(const struct kvh_local *local, const struct kvh_call *call);
static inline kvh_deadline kvh_local_deadline(const struct kvh_call *call)
{
	return call ? call->deadline_ns : 0;
}

/* Bytes of a value. UINT64_MAX: no sum fits. */
uint64_t kvh_local_value_bytes(const struct kvh_value *value);

/* Whether the bytes of a pinned object are those of its checksum; true without checksums. */
bool kvh_local_sum_is_right(const struct kvh_core *core, uint32_t slot);

kvh_status kvh_local_exists(void *self, const struct kvh_batch *batch, uint32_t flags,
                            const struct kvh_call *call);
kvh_status kvh_local_put(void *self, const struct kvh_batch *batch,
                         const struct kvh_put_options *options, const struct kvh_call *call);
kvh_status kvh_local_get(void *self, const struct kvh_batch *batch, const struct kvh_call *call);
kvh_status kvh_local_commit(void *self, const struct kvh_token *tokens, size_t count,
                            struct kvh_result *results);
kvh_status kvh_local_abort(void *self, const struct kvh_token *tokens, size_t count,
                           struct kvh_result *results);
kvh_status kvh_local_list(void *self, const struct kvh_list *list, uint64_t *cursor, size_t *count,
                          const struct kvh_call *call);
kvh_status kvh_local_prefix_at(void *self, uint32_t prefix_id, char *text,
                               struct kvh_prefix *prefix);

#endif
