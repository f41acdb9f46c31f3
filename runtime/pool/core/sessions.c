/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions and pin blocks. */
#include "pool/core/sessions.h"

#include "base/fault.h"

bool kvh_session_is_live(const struct kvh_area *area, uint32_t session)
{
	return atomic_load_explicit(&area->super->live_sessions[session / 64],
	                            memory_order_acquire) >>
	               session % 64 &
	       1;
}

static uint32_t find_free(const struct kvh_area *area)
{
	/* A dead one keeps its serial until it is reaped (S-6). */
	for (uint32_t i = 0; i < KVH_SESSIONS_MAX; i++)
		if (!kvh_session_is_live(area, i) && !kvh_session_serial(area, i))
			return i;
	return KVH_NONE;
}

uint32_t kvh_session_begin(struct kvh_area *area, uint64_t serial,
                           const struct kvh_session_owner *owner)
{
	uint32_t session = find_free(area);
	struct kvh_session_record *record;

	if (session == KVH_NONE)
		return KVH_NONE;
	record = &area->fixed->sessions[session];
	atomic_store(&record->pid, owner->pid);
	atomic_store(&record->pid_namespace, owner->pid_namespace);
	atomic_store(&record->start_time, owner->start_time);
	atomic_store(&record->dead_ns, 0);
	atomic_store(&record->reserved_slots, 0);
	atomic_store(&record->blocks_used, 0);
	atomic_store(&record->ring_tail, atomic_load(&area->super->ring_head));
	atomic_store(&record->serial, serial);
	KVH_CRASH_POINT(POOL_SESSION_BEGIN);
	atomic_fetch_or(&area->super->live_sessions[session / 64], UINT64_C(1) << session % 64);
	return session;
}

uint32_t kvh_pin_block_take(struct kvh_area *area, uint32_t session)
{
	_Atomic uint32_t *used = &area->fixed->sessions[session].blocks_used;
	uint32_t bits = atomic_load_explicit(used, memory_order_relaxed);
	uint32_t block;

	do {
		block = (uint32_t)__builtin_ctzll(~(uint64_t)bits);
		if (block >= KVH_PIN_BLOCKS)
			return KVH_NONE;
	} while (!atomic_compare_exchange_weak_explicit(used, &bits, bits | UINT32_C(1) << block,
	                                                memory_order_acquire,
	                                                memory_order_relaxed));
	return block;
}

void kvh_pin_block_give(struct kvh_area *area, uint32_t session, uint32_t block)
{
	struct kvh_pin_block *pins = kvh_pin_block(area, session, block);

	for (unsigned i = 0; i < KVH_TURN_KEYS_MAX; i++) {
		if (!atomic_load_explicit(&pins->slot_plus_1[i], memory_order_relaxed))
			break;
		atomic_store_explicit(&pins->slot_plus_1[i], 0, memory_order_release);
	}
	atomic_fetch_and_explicit(&area->fixed->sessions[session].blocks_used,
	                          ~(UINT32_C(1) << block), memory_order_release);
}

/*
 * Pins stand one behind the other and are set before the reader's fence and cleared after its
 * reads: behind a 0 there is none that this scan would have to see.
 */
static bool block_pins(const struct kvh_pin_block *block, uint32_t slot_plus_1)
{
	for (unsigned i = 0; i < KVH_TURN_KEYS_MAX; i++) {
		uint32_t pin = atomic_load_explicit(&block->slot_plus_1[i], memory_order_acquire);

		if (pin == slot_plus_1)
			return true;
		if (pin == 0)
			return false;
	}
	return false;
}

static bool session_pins(const struct kvh_session_record *session, uint32_t slot_plus_1)
{
	uint32_t used = atomic_load_explicit(&session->blocks_used, memory_order_acquire);

	for (; used; used &= used - 1)
		if (block_pins(&session->blocks[__builtin_ctz(used)], slot_plus_1))
			return true;
	return false;
}

bool kvh_slot_is_pinned(const struct kvh_area *area, uint32_t slot)
{
	for (uint32_t word = 0; word < KVH_SESSIONS_MAX / 64; word++) {
		uint64_t live = atomic_load_explicit(&area->super->live_sessions[word],
		                                     memory_order_acquire);

		for (; live; live &= live - 1) {
			uint32_t session = word * 64 + (uint32_t)__builtin_ctzll(live);

			if (session_pins(&area->fixed->sessions[session], slot + 1))
				return true;
		}
	}
	return false;
}
