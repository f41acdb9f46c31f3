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

#include <string.h>

#include "base/hash.h"
#include "pool/core/slots.h"

/*
 * The key's place in the index, from what a slot holds. The epoch keeps an order of keys from
 * meeting the same buckets in every pool. hash_mask: all ones; tests take bits away to make tags
 * collide (S-12).
 */
static inline uint64_t kvh_stored_hash(const struct kvh_area *area,
                                       const uint64_t word[KVH_STORED_WORDS], uint32_t prefix_id,
                                       uint64_t hash_mask)
{
	uint64_t epoch = area->epoch;
	uint64_t mixed = kvh_mix64(word[0] ^ epoch, word[1] ^ UINT64_C(0x9e3779b97f4a7c15)) ^
	                 kvh_mix64(word[2] ^ UINT64_C(0xbf58476d1ce4e5b9), word[3] ^ ~epoch);

	return kvh_mix64(mixed ^ prefix_id, UINT64_C(0x94d049bb133111eb)) & hash_mask;
}

/* The words of a key of any length. */
void kvh_stored_words_make(const struct kvh_area *area, const struct kvh_key *key,
                           struct kvh_stored_key *stored);

static inline void kvh_stored_key_make(const struct kvh_area *area, const struct kvh_key *key,
                                       uint64_t hash_mask, struct kvh_stored_key *stored)
{
	stored->prefix_id = key->prefix_id;
	stored->likely_slot = KVH_NONE;
	stored->text_bytes = 0;
	stored->text = NULL;
	/* The usual length, here and known to the compiler. */
	if (key->hash_bytes == sizeof(stored->word) &&
	    area->fixed->prefixes[key->prefix_id].hash_bytes == sizeof(stored->word))
		memcpy(stored->word, key->hash, sizeof(stored->word));
	else
		kvh_stored_words_make(area, key, stored);
	stored->hash = kvh_stored_hash(area, stored->word, key->prefix_id, hash_mask);
}

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
