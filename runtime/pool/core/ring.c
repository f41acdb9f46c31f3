/* SPDX-License-Identifier: Apache-2.0 */
/* The ring of keys that left the store. */
#include "pool/core/ring.h"

#include <string.h>

#include "base/fault.h"
#include "pool/core/keys.h"

void kvh_ring_push(struct kvh_area *area, const struct kvh_slot *slot)
{
	uint64_t head = atomic_load_explicit(&area->super->ring_head, memory_order_relaxed);
	struct kvh_ring_key *at = &area->fixed->ring[head % KVH_RING_KEYS];
	struct kvh_evicted_key key;
	uint64_t words[KVH_STORED_WORDS];

	kvh_slot_key(area, slot, &key);
	memcpy(words, key.hash, sizeof(words));
	/* Release: who reads a word of this key sees that the head stands here (kvh_ring_take). */
	atomic_store_explicit(&at->prefix_id, key.prefix_id, memory_order_release);
	atomic_store_explicit(&at->hash_bytes, key.hash_bytes, memory_order_release);
	for (unsigned i = 0; i < KVH_STORED_WORDS; i++)
		atomic_store_explicit(&at->word[i], words[i], memory_order_release);
	KVH_CRASH_POINT(POOL_RING);
	atomic_store_explicit(&area->super->ring_head, head + 1, memory_order_release);
}

static void read_key(const struct kvh_ring_key *at, struct kvh_evicted_key *key)
{
	uint64_t words[KVH_STORED_WORDS];

	key->prefix_id = atomic_load_explicit(&at->prefix_id, memory_order_acquire);
	key->hash_bytes = atomic_load_explicit(&at->hash_bytes, memory_order_acquire);
	for (unsigned i = 0; i < KVH_STORED_WORDS; i++)
		words[i] = atomic_load_explicit(&at->word[i], memory_order_acquire);
	memcpy(key->hash, words, sizeof(words));
}

/* The oldest key that no push can be writing over while it is read. */
static uint64_t oldest_at(uint64_t head)
{
	return head < KVH_RING_KEYS ? 0 : head - KVH_RING_KEYS + 1;
}

/* Reads up to capacity keys from *at on; moves *at past what is gone, returns how many are whole.
 */
static size_t read_some(const struct kvh_area *area, uint64_t *at, struct kvh_evicted_key *keys,
                        size_t capacity)
{
	uint64_t head = atomic_load_explicit(&area->super->ring_head, memory_order_acquire);
	uint64_t oldest = oldest_at(head);
	size_t count = 0, gone;

	if (*at < oldest || *at > head)
		*at = oldest;
	while (count < capacity && *at + count < head) {
		read_key(&area->fixed->ring[(*at + count) % KVH_RING_KEYS], &keys[count]);
		count++;
	}
	/* What was pushed over meanwhile may be torn. */
	oldest = oldest_at(atomic_load_explicit(&area->super->ring_head, memory_order_acquire));
	if (oldest <= *at)
		return count;
	gone = oldest - *at < count ? (size_t)(oldest - *at) : count;
	memmove(keys, keys + gone, (count - gone) * sizeof(*keys));
	*at = oldest;
	return count - gone;
}

size_t kvh_ring_take(const struct kvh_area *area, _Atomic uint64_t *tail,
                     struct kvh_evicted_key *keys, size_t capacity, bool *lost)
{
	uint64_t from = atomic_load_explicit(tail, memory_order_acquire);
	uint64_t at;
	size_t count;

	/* Another thread of this session may take the same keys: one of the two keeps them. */
	do {
		at = from;
		count = read_some(area, &at, keys, capacity);
	} while (!atomic_compare_exchange_weak(tail, &from, at + count));
	if (at != from)
		*lost = true;
	return count;
}
