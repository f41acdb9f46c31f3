/* SPDX-License-Identifier: Apache-2.0 */
/* A hash map from byte strings to pointers, for requests and jobs. Not thread-safe. */
#ifndef KVH_BASE_MAP_H
#define KVH_BASE_MAP_H

#include <stddef.h>
#include <stdint.h>

#include <kvhold/status.h>

/*
 * The first member of what is put in. The entry belongs to the caller; key lies in the entry's own
 * memory and stays as it is while it is in the map.
 */
struct kvh_map_entry {
	struct kvh_map_entry *next;
	uint64_t hash;
	const void *key;
	size_t key_bytes;
};

struct kvh_map {
	struct kvh_map_entry **buckets;
	size_t bucket_count; /* a power of two */
	size_t count;
};

kvh_status kvh_map_init(struct kvh_map *map);
/* Entries that are still in are the caller's. */
void kvh_map_fini(struct kvh_map *map);
struct kvh_map_entry *kvh_map_get(const struct kvh_map *map, const void *key, size_t key_bytes);
/* The key must not be in yet. Always works: when growing fails, chains get longer. */
void kvh_map_put(struct kvh_map *map, struct kvh_map_entry *entry);
void kvh_map_remove(struct kvh_map *map, struct kvh_map_entry *entry);
/* The entry after this one in no particular but stable order, or the first for NULL. */
struct kvh_map_entry *kvh_map_next(const struct kvh_map *map, const struct kvh_map_entry *entry);

#endif
