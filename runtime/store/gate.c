/* SPDX-License-Identifier: Apache-2.0 */
/* The gate of a handle: enter and leave without a lock, waiting with one. */
#include "gate.h"

#define COUNT_BITS  28
#define COUNT_MASK  ((UINT64_C(1) << COUNT_BITS) - 1)
#define PHASE_BIT   (UINT64_C(1) << 60)
#define WAITING_BIT (UINT64_C(1) << 61)
#define SHUT_BIT    (UINT64_C(1) << 62)

static uint64_t one_of(unsigned phase)
{
	return UINT64_C(1) << (COUNT_BITS * phase);
}

static uint64_t count_of(uint64_t word, unsigned phase)
{
	return word >> (COUNT_BITS * phase) & COUNT_MASK;
}

static unsigned phase_of(uint64_t word)
{
	return (word & PHASE_BIT) != 0;
}

void kvh_gate_init(struct kvh_gate *gate, const struct kvh_env *env, struct kvh_mutex *mutex,
                   struct kvh_cond *left)
{
	atomic_init(&gate->word, 0);
	gate->env = env;
	gate->mutex = mutex;
	gate->left = left;
	gate->waiter_count = 0;
}

kvh_status kvh_gate_enter(struct kvh_gate *gate, unsigned *phase)
{
	uint64_t word = atomic_load_explicit(&gate->word, memory_order_relaxed);

	do {
		if (word & SHUT_BIT)
			return KVH_CLOSED;
		*phase = phase_of(word);
		/* seq_cst, with kvh_gate_idle: who sees 0 there has published before we read. */
	} while (!atomic_compare_exchange_weak(&gate->word, &word, word + one_of(*phase)));
	return KVH_OK;
}

static void leave_and_wake(struct kvh_gate *gate, unsigned phase)
{
	const struct kvh_env *env = gate->env;

	env->ops->mutex_lock(env->ctx, gate->mutex);
	atomic_fetch_sub(&gate->word, one_of(phase));
	env->ops->cond_broadcast(env->ctx, gate->left);
	env->ops->mutex_unlock(env->ctx, gate->mutex);
}

void kvh_gate_leave(struct kvh_gate *gate, unsigned phase)
{
	uint64_t word = atomic_load_explicit(&gate->word, memory_order_relaxed);

	do {
		if (word & WAITING_BIT) {
			leave_and_wake(gate, phase);
			return;
		}
	} while (!atomic_compare_exchange_weak(&gate->word, &word, word - one_of(phase)));
}

bool kvh_gate_is_shut(const struct kvh_gate *gate)
{
	return (atomic_load(&gate->word) & SHUT_BIT) != 0;
}

bool kvh_gate_idle(const struct kvh_gate *gate)
{
	uint64_t word = atomic_load(&gate->word);

	return count_of(word, 0) == 0 && count_of(word, 1) == 0;
}

/* Mutex held. */
static kvh_status wait_for_phase(struct kvh_gate *gate, unsigned phase, kvh_deadline deadline_ns)
{
	const struct kvh_env *env = gate->env;
	kvh_status status = KVH_OK;

	while (count_of(atomic_load(&gate->word), phase) != 0) {
		if (status)
			return status;
		status = env->ops->cond_wait(env->ctx, gate->left, gate->mutex, deadline_ns);
	}
	return KVH_OK;
}

static void wait_begin(struct kvh_gate *gate)
{
	gate->env->ops->mutex_lock(gate->env->ctx, gate->mutex);
	gate->waiter_count++;
	atomic_fetch_or(&gate->word, WAITING_BIT);
}

static void wait_end(struct kvh_gate *gate)
{
	if (--gate->waiter_count == 0)
		atomic_fetch_and(&gate->word, ~WAITING_BIT);
	gate->env->ops->mutex_unlock(gate->env->ctx, gate->mutex);
}

kvh_status kvh_gate_grace(struct kvh_gate *gate, kvh_deadline deadline_ns)
{
	unsigned old_phase;
	kvh_status status;

	wait_begin(gate);
	/* A wait that timed out may have left calls behind in the phase to turn to. */
	status = wait_for_phase(gate, !phase_of(atomic_load(&gate->word)), deadline_ns);
	if (status == KVH_OK) {
		old_phase = phase_of(atomic_fetch_xor(&gate->word, PHASE_BIT));
		status = wait_for_phase(gate, old_phase, deadline_ns);
	}
	wait_end(gate);
	return status;
}

kvh_status kvh_gate_shut(struct kvh_gate *gate, kvh_deadline deadline_ns)
{
	kvh_status status;

	wait_begin(gate);
	atomic_fetch_or(&gate->word, SHUT_BIT);
	status = wait_for_phase(gate, 0, deadline_ns);
	if (status == KVH_OK)
		status = wait_for_phase(gate, 1, deadline_ns);
	wait_end(gate);
	return status;
}
