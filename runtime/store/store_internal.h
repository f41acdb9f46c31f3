/* SPDX-License-Identifier: Apache-2.0 */
/* The store handle: what the parts of the front door share. */
#ifndef KVH_STORE_INTERNAL_H
#define KVH_STORE_INTERNAL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <kvhold/store_ops.h>

#include "base/lock.h"
#include "gate.h"
#include "metrics.h"
#include "prefixes.h"
#include "regions.h"

/*
 * The lock (role store) guards what says so. Calls read regions and prefixes without it: tables
 * are published by one pointer each, and a replaced region table is freed when the gate says that
 * nobody can still read it.
 */
struct kvh_store {
	struct kvh_store_ops ops; /* filled; constant after open, as all up to lock */
	void *self;
	struct kvh_store_caps caps;
	const struct kvh_env *env;
	struct kvh_device device;
	struct kvh_log log;
	uint64_t process_id;

	struct kvh_mutex *lock;
	struct kvh_cond *left;
	struct kvh_gate gate;
	struct kvh_store_metrics metrics;
	struct kvh_prefix_table prefixes;           /* added to under lock */
	struct kvh_prefix_table learned;            /* of others; no identity; likewise */
	_Atomic(struct kvh_region_table *) regions; /* replaced under lock */
	struct kvh_region_table *retired KVH_GUARDED_BY(kvh_role_store);
	kvh_region_id next_region_id KVH_GUARDED_BY(kvh_role_store);
	bool regions_changing KVH_GUARDED_BY(kvh_role_store); /* one change at a time */
	size_t layout_count KVH_GUARDED_BY(kvh_role_store);
	_Atomic uint64_t refused_count; /* of calls with bad arguments, to thin out the log */
};

struct kvh_layout {
	struct kvh_layout_view view;
	struct kvh_store *store;
	struct kvh_segment_template templates[];
};

void kvh_store_lock(struct kvh_store *store) KVH_ACQUIRE(kvh_role_store);
void kvh_store_unlock(struct kvh_store *store) KVH_RELEASE(kvh_role_store);

/*
 * Every public call is inside between these. enter: KVH_INVALID_PARAMS (no store), KVH_FORKED,
 * KVH_CLOSED; else leave must follow.
 */
kvh_status kvh_store_enter(struct kvh_store *store, unsigned *phase);
void kvh_store_leave(struct kvh_store *store, unsigned phase);

/* A counted and timed call: begin .. end, with end's answer for the caller. */
struct kvh_inside {
	struct kvh_store *store;
	enum kvh_store_op op;
	unsigned phase;
	uint64_t start_ns;
};
/* Not KVH_OK: the call is over, end was done. */
kvh_status kvh_call_begin(struct kvh_inside *inside, struct kvh_store *store, enum kvh_store_op op);
kvh_status kvh_call_end(const struct kvh_inside *inside, kvh_status status);
/* Copies the caller's call (NULL: defaults). KVH_CANCELLED and KVH_TIMEOUT: over already. */
kvh_status kvh_call_take(struct kvh_store *store, const struct kvh_call *given,
                         struct kvh_call *own);

/* For the calls of one thread, which close can't overtake: as enter, with nothing to leave. */
kvh_status kvh_store_usable(const struct kvh_store *store);

/* Regions (regions.c). init: an empty table. */
kvh_status kvh_regions_init(struct kvh_store *store);
void kvh_regions_fini(struct kvh_store *store);

/*
 * Argument checks (check.c), before anything is handed to the backend (T21). Each logs the first
 * wrong index and what is wrong with it, and returns KVH_INVALID_PARAMS or KVH_NOT_SUPPORTED.
 */
kvh_status kvh_check_keys(struct kvh_store *store, const char *call_name,
                          const struct kvh_key *keys, size_t count);
/* One key, whose prefix entry (NULL: unknown) need not be of this handle. */
kvh_status kvh_check_key(struct kvh_store *store, const char *call_name, const struct kvh_key *key,
                         const struct kvh_prefix_entry *entry);
/* *bytes: the sum over the values. */
kvh_status kvh_check_values(struct kvh_store *store, const char *call_name,
                            const struct kvh_value *values, size_t count, uint64_t *bytes);
/* Copies the caller's options (NULL: defaults) to *own. */
kvh_status kvh_check_put_options(struct kvh_store *store, const struct kvh_put_options *given,
                                 const struct kvh_batch *batch, struct kvh_put_options *own);
kvh_status kvh_refuse(struct kvh_store *store, kvh_status status, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

void kvh_results_preset(struct kvh_result *results, size_t count);
/* Whether a key of this operation (exists, put, get or remove) came out as it was asked for. */
bool kvh_result_good(enum kvh_store_op op, const struct kvh_result *result);
/* Bytes of the values of good keys; the batch has values. */
uint64_t kvh_batch_good_bytes(enum kvh_store_op op, const struct kvh_batch *batch);
/*
 * What this handle or, without its identity, anybody else has interned under this id.
 * KVH_OBJECT_NOT_FOUND: nobody has. KVH_NO_MEMORY, or what the backend answers.
 */
kvh_status kvh_prefix_learn(struct kvh_store *store, uint32_t prefix_id,
                            const struct kvh_prefix_entry **entry);

/* Bytes of a value that was checked. */
size_t kvh_value_bytes(const struct kvh_value *value);

/* One batch call on its way to the backend: checked and preset. */
struct kvh_batch_call {
	struct kvh_store *store;
	enum kvh_store_op op; /* exists, put, get or remove */
	uint32_t exists_flags;
	struct kvh_put_options put; /* KVH_OP_PUT */
	struct kvh_batch batch;
	struct kvh_call call;
	uint64_t value_bytes; /* of the whole batch */
};
/* Hands the batch (the call's own or a part of it) to the backend. */
kvh_status kvh_batch_dispatch(const struct kvh_batch_call *batch_call,
                              const struct kvh_batch *batch, struct kvh_token *tokens);

/*
 * Fault points (faults.c), keyed by the key's text. Per operation: store/put fails the call before
 * anything is done; store/put/key leaves the key out and gives it the rule's number;
 * store/put/answer lets it happen and replaces the answer (KVH_NO_ANSWER: a short one;
 * KVH_IN_DOUBT: also not quiet).
 */
#ifdef KVH_FAULTS
int64_t kvh_call_fault(enum kvh_store_op op);
kvh_status kvh_batch_dispatch_faulted(const struct kvh_batch_call *batch_call);
#else
static inline int64_t kvh_call_fault(enum kvh_store_op op)
{
	(void)op;
	return 0;
}

static inline kvh_status kvh_batch_dispatch_faulted(const struct kvh_batch_call *batch_call)
{
	return kvh_batch_dispatch(batch_call, &batch_call->batch, batch_call->put.tokens);
}
#endif

#endif
