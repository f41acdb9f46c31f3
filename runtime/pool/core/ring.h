/* SPDX-License-Identifier: Apache-2.0 */
/* The ring of keys that left the store; every session reads it with a cursor of its own (S-13). */
#ifndef KVH_POOL_CORE_RING_H
#define KVH_POOL_CORE_RING_H

#include "base/lock.h"
#include "pool/core/slots.h"

/* Adds the key of a DYING slot, before its extent is free. Lock held. */
void kvh_ring_push(struct kvh_area *area, const struct kvh_slot *slot) KVH_REQUIRES(kvh_role_pool);

/*
 * Takes up to capacity keys from *tail on. Returns how many; *lost is set when keys between were
 * overwritten. Any thread, no lock: a stopped writer stops nobody who reads.
 */
size_t kvh_ring_take(const struct kvh_area *area, _Atomic uint64_t *tail,
                     struct kvh_evicted_key *keys, size_t capacity, bool *lost);

#endif
