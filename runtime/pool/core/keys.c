/* SPDX-License-Identifier: Apache-2.0 */
/* Stored keys: raw bytes or a digest with the text beside the payload (S-12). */
#include "pool/core/keys.h"

#include "pool/core/prefixes.h"
#include "pool/core/spans.h"

enum {
	STORED_BYTES = 32,
	LENGTH_AT = 31, /* of a prefix with any length */
	ANY_RAW_BYTES_MAX = 31,
	ANY_DIGEST = 255,
	DIGEST_BYTES = 16
};

static uint32_t prefix_hash_bytes(const struct kvh_area *area, uint32_t prefix_id)
{
	return area->fixed->prefixes[prefix_id].hash_bytes;
}

static void digest(const struct kvh_key *key, unsigned char bytes[STORED_BYTES],
                   struct kvh_stored_key *stored)
{
	struct kvh_hash128 hash = kvh_hash128(key->hash, key->hash_bytes);

	memcpy(bytes, &hash.low, sizeof(hash.low));
	memcpy(bytes + sizeof(hash.low), &hash.high, sizeof(hash.high));
	memcpy(bytes + DIGEST_BYTES, &key->hash_bytes, sizeof(key->hash_bytes));
	stored->text_bytes = key->hash_bytes;
	stored->text = key->hash;
}

void kvh_stored_words_make(const struct kvh_area *area, const struct kvh_key *key,
                           struct kvh_stored_key *stored)
{
	unsigned char bytes[STORED_BYTES] = {0};
	bool any = prefix_hash_bytes(area, key->prefix_id) == 0;

	if (key->hash_bytes > (any ? ANY_RAW_BYTES_MAX : STORED_BYTES))
		digest(key, bytes, stored);
	else
		memcpy(bytes, key->hash, key->hash_bytes);
	if (any)
		bytes[LENGTH_AT] = stored->text_bytes ? ANY_DIGEST : (unsigned char)key->hash_bytes;
	memcpy(stored->word, bytes, sizeof(bytes));
}

static void slot_bytes(const struct kvh_slot *slot, unsigned char bytes[STORED_BYTES])
{
	for (unsigned i = 0; i < KVH_STORED_WORDS; i++) {
		uint64_t word = atomic_load_explicit(&slot->word[i], memory_order_relaxed);

		memcpy(bytes + i * sizeof(word), &word, sizeof(word));
	}
}

/* Bounded: a damaged record may name any prefix (S-15). */
static uint32_t slot_hash_bytes(const struct kvh_area *area, const struct kvh_slot *slot)
{
	uint32_t prefix_id = atomic_load_explicit(&slot->prefix_id, memory_order_relaxed);

	return prefix_id < KVH_PREFIXES_MAX ? prefix_hash_bytes(area, prefix_id) : 0;
}

static bool is_digest(const struct kvh_area *area, const struct kvh_slot *slot,
                      const unsigned char bytes[STORED_BYTES])
{
	uint32_t hash_bytes = slot_hash_bytes(area, slot);

	return hash_bytes ? hash_bytes > STORED_BYTES : bytes[LENGTH_AT] == ANY_DIGEST;
}

uint32_t kvh_slot_text_bytes(const struct kvh_area *area, const struct kvh_slot *slot)
{
	unsigned char bytes[STORED_BYTES];
	uint32_t hash_bytes = slot_hash_bytes(area, slot);
	uint32_t text_bytes;

	/* The usual case, told by the prefix alone. */
	if (hash_bytes && hash_bytes <= STORED_BYTES)
		return 0;
	slot_bytes(slot, bytes);
	if (!is_digest(area, slot, bytes))
		return 0;
	memcpy(&text_bytes, bytes + DIGEST_BYTES, sizeof(text_bytes));
	return text_bytes;
}

static const unsigned char *slot_text(const struct kvh_area *area, const struct kvh_slot *slot)
{
	return kvh_area_extent(area,
	                       atomic_load_explicit(&slot->extent_unit, memory_order_relaxed)) +
	       atomic_load_explicit(&slot->length_bytes, memory_order_relaxed);
}

bool kvh_slot_has_text(const struct kvh_area *area, const struct kvh_slot *slot,
                       const struct kvh_stored_key *key)
{
	/* Their digests are equal, and with them the lengths. */
	return !key->text_bytes || memcmp(slot_text(area, slot), key->text, key->text_bytes) == 0;
}

/* Whether state, owner and flags go together. */
static bool ctl_is_good(uint64_t ctl)
{
	bool reserved = kvh_ctl_state(ctl) == KVH_SLOT_RESERVED;
	bool unwritten = kvh_ctl_flags(ctl) & KVH_SLOT_UNWRITTEN;

	return reserved == unwritten && reserved == (kvh_ctl_owner(ctl) != 0);
}

bool kvh_slot_is_good(const struct kvh_area *area, const struct kvh_slot *slot, uint64_t ctl)
{
	uint64_t bytes = atomic_load_explicit(&slot->length_bytes, memory_order_relaxed);
	uint32_t unit = atomic_load_explicit(&slot->extent_unit, memory_order_relaxed);
	uint32_t units;

	if (!ctl_is_good(ctl) ||
	    atomic_load_explicit(&slot->check, memory_order_relaxed) !=
	            kvh_slot_check(slot, kvh_ctl_generation(ctl)) ||
	    atomic_load_explicit(&slot->prefix_id, memory_order_relaxed) >=
	            kvh_prefixes_count(area) ||
	    kvh_slot_text_bytes(area, slot) > KVH_KEY_HASH_BYTES_MAX)
		return false;
	units = kvh_units_of(area, bytes + kvh_slot_text_bytes(area, slot));
	return units <= area->geometry.unit_count && unit <= area->geometry.unit_count - units;
}

/* Up to 32 bytes as they stand in the slot; bounded, whatever the lengths say (S-15). */
static uint32_t raw_hash(const struct kvh_area *area, const struct kvh_slot *slot,
                         const unsigned char bytes[STORED_BYTES], uint8_t *hash)
{
	uint32_t hash_bytes = slot_hash_bytes(area, slot);
	uint32_t limit = hash_bytes ? STORED_BYTES : ANY_RAW_BYTES_MAX;

	if (hash_bytes == 0)
		hash_bytes = bytes[LENGTH_AT];
	if (hash_bytes > limit)
		hash_bytes = limit;
	memcpy(hash, bytes, hash_bytes);
	return hash_bytes;
}

uint32_t kvh_slot_hash(const struct kvh_area *area, const struct kvh_slot *slot,
                       uint8_t hash[KVH_KEY_HASH_BYTES_MAX])
{
	unsigned char bytes[STORED_BYTES];
	uint32_t text_bytes;

	slot_bytes(slot, bytes);
	if (!is_digest(area, slot, bytes))
		return raw_hash(area, slot, bytes, hash);
	memcpy(&text_bytes, bytes + DIGEST_BYTES, sizeof(text_bytes));
	if (text_bytes > KVH_KEY_HASH_BYTES_MAX)
		text_bytes = KVH_KEY_HASH_BYTES_MAX;
	memcpy(hash, slot_text(area, slot), text_bytes);
	return text_bytes;
}

void kvh_slot_key(const struct kvh_area *area, const struct kvh_slot *slot,
                  struct kvh_evicted_key *key)
{
	unsigned char bytes[STORED_BYTES];
	uint32_t text_bytes;

	*key = (struct kvh_evicted_key){
		.prefix_id = atomic_load_explicit(&slot->prefix_id, memory_order_relaxed)};
	key->hash_bytes = slot_hash_bytes(area, slot);
	if (key->hash_bytes && key->hash_bytes <= STORED_BYTES) {
		slot_bytes(slot, key->hash); /* zeros behind a shorter one */
		return;
	}
	slot_bytes(slot, bytes);
	text_bytes = kvh_slot_text_bytes(area, slot);
	key->hash_bytes = text_bytes;
	if (!text_bytes)
		key->hash_bytes = raw_hash(area, slot, bytes, key->hash);
	else if (text_bytes <= STORED_BYTES)
		memcpy(key->hash, slot_text(area, slot), text_bytes);
	else
		memcpy(key->hash, bytes, DIGEST_BYTES);
}
