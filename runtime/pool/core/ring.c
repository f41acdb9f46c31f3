/* SPDX-License-Identifier: Apache-2.0 */
/* The ring of keys that left the store. */
#include "pool/core/ring.h"

#include <string.h>

#include "pool/core/keys.h"

void kvh_ring_push(struct kvh_area *area, const struct kvh_slot *slot)
{
	uint64_t head = atomic_load_explicit(&area->super->ring_head, memory_order_relaxed);
	struct kvh_ring_key *at = &area->fixed->ring[head % KVH_RING_KEYS];
	struct kvh_evicted_key key;
	uint64_t words[KVH_STORED_WORDS];

	kvh_slot_key(area, slot, &key);
	memcpy(words, key.hash, sizeof(words));
	atomic_store_explicit(&at->prefix_id, key.prefix_id, memory_order_relaxed);
	atomic_store_explicit(&at->hash_bytes, key.hash_bytes, memory_order_relaxed);
	for (unsigned i = 0; i < KVH_STORED_WORDS; i++)
		atomic_store_explicit(&at->word[i], words[i], memory_order_relaxed);
	atomic_store_explicit(&area->super->ring_head, head + 1, memory_order_release);
}

static void read_key(const struct kvh_ring_key *at, struct kvh_evicted_key *key)
{
	uint64_t words[KVH_STORED_WORDS];

	key->prefix_id = atomic_load_explicit(&at->prefix_id, memory_order_relaxed);
	key->hash_bytes = atomic_load_explicit(&at->hash_bytes, memory_order_relaxed);
	for (unsigned i = 0; i < KVH_STORED_WORDS; i++)
		words[i] = atomic_load_explicit(&at->word[i], memory_order_relaxed);
	memcpy(key->hash, words, sizeof(words));
}

size_t kvh_ring_take(struct kvh_area *area, _Atomic uint64_t *tail, struct kvh_evicted_key *keys,
                     size_t capacity, bool *lost)
{
	uint64_t head = atomic_load_explicit(&area->super->ring_head, memory_order_acquire);
	uint64_t at = atomic_load_explicit(tail, memory_order_relaxed);
	size_t count = 0;

	if (head - at > KVH_RING_KEYS) {
		*lost = true;
		at = head - KVH_RING_KEYS;
	}
	while (count < capacity && at < head)
		read_key(&area->fixed->ring[at++ % KVH_RING_KEYS], &keys[count++]);
	atomic_store_explicit(tail, at, memory_order_relaxed);
	return count;
}
