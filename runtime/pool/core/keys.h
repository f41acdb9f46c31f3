/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How keys are stored in 32 bytes. A prefix says how long its hashes are:
 *
 *   1..32 bytes      raw, zeros behind
 *   above 32         XXH3-128 and the length; the text lies after the payload and is compared
 *   any              up to 31 raw with the length in byte 31; longer: as above, 255 in byte 31
 */
#ifndef KVH_POOL_CORE_KEYS_H
#define KVH_POOL_CORE_KEYS_H

#include "pool/core/slots.h"

/* hash_mask: all ones; tests take bits away to make tags collide (S-12). */
void kvh_stored_key_make(const struct kvh_area *area, const struct kvh_key *key, uint64_t hash_mask,
                         struct kvh_stored_key *stored);
/* The key's place in the index, from what a slot holds. */
uint64_t kvh_stored_hash(const struct kvh_area *area, const uint64_t word[KVH_STORED_WORDS],
                         uint32_t prefix_id, uint64_t hash_mask);
/* Bytes of key text after the payload of this slot, 0 for short keys. */
uint32_t kvh_slot_text_bytes(const struct kvh_area *area, const struct kvh_slot *slot);
/* Whether the fields of a slot in use can be believed, extent and text in bounds (S-15). */
bool kvh_slot_is_good(const struct kvh_area *area, const struct kvh_slot *slot, uint64_t ctl);
/* The whole key's bytes; how many. Of a good slot whose payload is safe from reuse. */
uint32_t kvh_slot_hash(const struct kvh_area *area, const struct kvh_slot *slot,
                       uint8_t hash[KVH_KEY_HASH_BYTES_MAX]);
/* The slot's payload must be safe from reuse (pinned or lock held). True for short keys. */
bool kvh_slot_has_text(const struct kvh_area *area, const struct kvh_slot *slot,
                       const struct kvh_stored_key *key);
/* The public form of a slot's key. As above. */
void kvh_slot_key(const struct kvh_area *area, const struct kvh_slot *slot,
                  struct kvh_evicted_key *key);

#endif
