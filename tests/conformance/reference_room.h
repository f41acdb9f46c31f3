/* SPDX-License-Identifier: Apache-2.0 */
/* The reference store's data, and who makes room for whom. */
#ifndef KVH_TESTS_REFERENCE_ROOM_H
#define KVH_TESTS_REFERENCE_ROOM_H

#include "base/lock.h"
#include "base/map.h"
#include "reference.h"
#include "store/prefixes.h"

enum { RING = 4096, ROUND_BYTES = 4096 };

enum object_state { HELD, VALID };

struct object {
	struct kvh_map_entry entry; /* key: prefix id, then hash */
	struct object *next;
	enum object_state state;
	bool grouped;
	uint32_t prefix_id;
	uint32_t hash_bytes;
	uint32_t priority;
	uint64_t keep_until_ns, expire_at_ns, expire_ns; /* 0: none */
	uint64_t use;
	uint64_t serial; /* names this object in tokens */
	size_t bytes;
	unsigned char *data;
	unsigned char key[];
};

struct reference {
	const struct kvh_env *env;
	enum mutant mutant;
	struct kvh_mutex *lock; /* guards all below */
	struct kvh_map map;
	struct object *objects;
	struct kvh_prefix_table prefixes;
	uint32_t prefix_count;
	uint64_t quotas[KVH_PREFIXES_MAX];
	uint64_t capacity_bytes, used_bytes, counter;
	struct kvh_evicted_key ring[RING];
	uint64_t ring_in, ring_out;
	uint64_t evicted_keys, evicted_bytes, expired_keys;
};

static inline uint64_t reference_rounded(size_t bytes)
{
	return (bytes + ROUND_BYTES - 1) / ROUND_BYTES * ROUND_BYTES;
}

/* The list operation of a store (reference_list.c); takes the lock. */
kvh_status reference_list(void *self, const struct kvh_list *list, uint64_t *cursor, size_t *count,
                          const struct kvh_call *call);

/* All with the lock held. */
size_t reference_make_key(const struct reference *ref, const struct kvh_key *key,
                          unsigned char out[4 + KVH_KEY_HASH_BYTES_MAX]);
void reference_drop(struct reference *ref, struct object *object);
/* Held or valid; what has expired is dropped first. */
struct object *reference_find(struct reference *ref, const struct kvh_key *key);
/* KVH_OK: bytes (rounded) more of this prefix fit now. */
kvh_status reference_make_room(struct reference *ref, uint32_t prefix_id, uint64_t bytes);

#endif
