/* SPDX-License-Identifier: Apache-2.0 */
/* Objects with every kind of key, whose keys and bytes follow from a number, for ever the same. */
#ifndef KVH_TESTS_UNIT_POOL_FILE_OBJECTS_H
#define KVH_TESTS_UNIT_POOL_FILE_OBJECTS_H

#include "file_fixture.h"

enum { KEY_KINDS = 3, TEXT_BYTES = 48, IDENTITY_BYTES = 100 };

struct objects {
	struct pool *pool;
	uint32_t prefixes[KEY_KINDS];
};

/* Hashes of 32 bytes, of any length (also too long to be kept raw), and of 48. */
static inline kvh_status objects_init(struct objects *objects, struct pool *pool)
{
	static const uint32_t hash_bytes[KEY_KINDS] = {HASH_BYTES, 0, TEXT_BYTES};
	uint8_t identity[IDENTITY_BYTES];
	kvh_status status = KVH_OK;

	make_hash(7, identity, sizeof(identity));
	objects->pool = pool;
	for (unsigned i = 0; i < KEY_KINDS && status == KVH_OK; i++) {
		char text[] = "kept/model/0@";
		struct kvh_prefix prefix = {.struct_bytes = sizeof(prefix),
		                            .text = text,
		                            .text_bytes = sizeof(text) - 1,
		                            .family_bytes = 5,
		                            .identity = identity,
		                            .identity_bytes = i ? sizeof(identity) : 0,
		                            .hash_bytes = hash_bytes[i]};

		text[sizeof(text) - 3] = (char)('0' + i);
		status = kvh_store_prefix(pool->store, &prefix, &objects->prefixes[i], NULL);
	}
	return status;
}

static inline uint32_t object_hash_bytes(uint64_t number)
{
	switch (number % KEY_KINDS) {
	case 0:
		return HASH_BYTES;
	case 1:
		return 1 + (uint32_t)(number * 7 % 60);
	default:
		return TEXT_BYTES;
	}
}

static inline void object_batch(const struct objects *objects, struct numbered *n, uint64_t number,
                                size_t bytes)
{
	numbered_make(n, objects->pool, &number, 1, bytes);
	make_hash(number + 1000, n->hashes[0], sizeof(n->hashes[0]));
	/* Keys of one byte would meet each other. */
	n->hashes[0][0] = (uint8_t)number;
	n->keys[0].hash_bytes = object_hash_bytes(number);
	n->keys[0].prefix_id = objects->prefixes[number % KEY_KINDS];
}

static inline int64_t object_put(const struct objects *objects, uint64_t number, size_t bytes,
                                 const struct kvh_put_options *options)
{
	struct numbered n;

	object_batch(objects, &n, number, bytes);
	make_bytes(number, objects->pool->memory, bytes);
	if (kvh_store_put(objects->pool->store, &n.batch, options, NULL))
		return KVH_INTERNAL;
	return n.results[0].value;
}

/* *wrong is set if it says that it is there and the bytes are others. */
static inline int64_t object_get(const struct objects *objects, uint64_t number, size_t bytes,
                                 bool *wrong)
{
	struct numbered n;

	object_batch(objects, &n, number, bytes);
	memset(objects->pool->memory, 0xee, bytes);
	if (kvh_store_get(objects->pool->store, &n.batch, NULL))
		return KVH_INTERNAL;
	*wrong |= n.results[0].value > 0 && (n.results[0].value != (int64_t)bytes ||
	                                     !bytes_are(number, objects->pool->memory, bytes));
	return n.results[0].value;
}

#endif
