/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions: who holds pins and reservations. Pins keep a reader's objects from being evicted. */
#ifndef KVH_POOL_CORE_SESSIONS_H
#define KVH_POOL_CORE_SESSIONS_H

#include "base/lock.h"
#include "pool/core/slots.h"

/* Whose process a session is; zeroes in private memory. */
struct kvh_session_owner {
	uint64_t pid;
	uint64_t pid_namespace;
	uint64_t start_time;
};

/*
 * Opening a session: a serial that never comes again (S-6) is drawn, the opener makes its life
 * visible to others (a lock on the serial's byte), then a record is filled under the lock.
 */
static inline uint64_t kvh_session_draw(struct kvh_area *area)
{
	return atomic_fetch_add(&area->super->next_serial, 1);
}

/* A new live session's index; KVH_NONE: all are taken. Lock held. */
uint32_t kvh_session_begin(struct kvh_area *area, uint64_t serial,
                           const struct kvh_session_owner *owner) KVH_REQUIRES(kvh_role_pool);

static inline uint64_t kvh_session_serial(const struct kvh_area *area, uint32_t session)
{
	return atomic_load_explicit(&area->fixed->sessions[session].serial, memory_order_acquire);
}

bool kvh_session_is_live(const struct kvh_area *area, uint32_t session);

/* Bits of the pin blocks in use, and a block's index; KVH_NONE: all are in use. Any thread. */
uint32_t kvh_pin_block_take(struct kvh_area *area, uint32_t session);
/* Clears the pins first: whoever sees them gone sees the reads done. */
void kvh_pin_block_give(struct kvh_area *area, uint32_t session, uint32_t block);

static inline struct kvh_pin_block *kvh_pin_block(struct kvh_area *area, uint32_t session,
                                                  uint32_t block)
{
	return &area->fixed->sessions[session].blocks[block];
}

/* Whether a live session pins the slot. After a full fence since ctl was changed it is final. */
bool kvh_slot_is_pinned(const struct kvh_area *area, uint32_t slot);

/* Whether an owner of a reservation still lives. */
static inline bool kvh_owner_is_live(const struct kvh_area *area, uint64_t ctl)
{
	uint32_t owner = kvh_ctl_owner(ctl);

	return owner > 0 && owner <= KVH_SESSIONS_MAX && kvh_session_is_live(area, owner - 1);
}

#endif
