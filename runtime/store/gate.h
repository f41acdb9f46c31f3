/* SPDX-License-Identifier: Apache-2.0 */
/* The gate of a handle: counts the calls inside, shuts for close, waits for calls to leave. */
#ifndef KVH_STORE_GATE_H
#define KVH_STORE_GATE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <kvhold/env.h>

#include "base/lock.h"

/*
 * One word holds two counts of calls, the phase that says which of them new calls use, and two
 * flags. Turning the phase and waiting for the other count to reach 0 is a grace period: whoever
 * was inside before has left, however many came since.
 *
 * A call that leaves touches the gate for the last time in its decrement, so the handle may be
 * freed as soon as both counts are 0. While somebody waits, decrements happen under the mutex.
 */
struct kvh_gate {
	_Atomic uint64_t word;
	const struct kvh_env *env;
	struct kvh_mutex *mutex; /* lent by the handle */
	struct kvh_cond *left;   /* lent; signalled when a call leaves while somebody waits */
	unsigned waiter_count;   /* guarded by mutex */
};

void kvh_gate_init(struct kvh_gate *gate, const struct kvh_env *env, struct kvh_mutex *mutex,
                   struct kvh_cond *left);

/* KVH_CLOSED, or KVH_OK with the phase to hand to kvh_gate_leave. */
kvh_status kvh_gate_enter(struct kvh_gate *gate, unsigned *phase);
void kvh_gate_leave(struct kvh_gate *gate, unsigned phase);

bool kvh_gate_is_shut(const struct kvh_gate *gate);
/* No call is inside at this moment; whoever enters later sees what was stored before. */
bool kvh_gate_idle(const struct kvh_gate *gate);
/* Waits until every call that is inside now has left. KVH_TIMEOUT past the deadline. */
kvh_status kvh_gate_grace(struct kvh_gate *gate, kvh_deadline deadline_ns);
/* Refuses new calls from now on and waits until none is inside. KVH_TIMEOUT: still shut. */
kvh_status kvh_gate_shut(struct kvh_gate *gate, kvh_deadline deadline_ns);

#endif
