/* SPDX-License-Identifier: Apache-2.0 */
/* A hash map with chains through the caller's entries. */
#include "base/map.h"

#include <stdbool.h>
#include <string.h>

#include "base/check.h"
#include "base/fault.h"
#include "base/hash.h"

#define FIRST_BUCKET_COUNT 16

kvh_status kvh_map_init(struct kvh_map *map)
{
	struct kvh_map_entry **buckets =
		kvh_calloc(FIRST_BUCKET_COUNT, sizeof(struct kvh_map_entry *));

	if (!buckets)
		return KVH_NO_MEMORY;
	*map = (struct kvh_map){.buckets = buckets, .bucket_count = FIRST_BUCKET_COUNT};
	return KVH_OK;
}

void kvh_map_fini(struct kvh_map *map)
{
	kvh_free(map->buckets);
	*map = (struct kvh_map){0};
}

static size_t bucket_index(const struct kvh_map *map, uint64_t hash)
{
	return (size_t)hash & (map->bucket_count - 1);
}

static bool entry_has_key(const struct kvh_map_entry *entry, uint64_t hash, const void *key,
                          size_t key_bytes)
{
	return entry->hash == hash && entry->key_bytes == key_bytes &&
	       (key_bytes == 0 || memcmp(entry->key, key, key_bytes) == 0);
}

static struct kvh_map_entry *find(const struct kvh_map *map, uint64_t hash, const void *key,
                                  size_t key_bytes)
{
	struct kvh_map_entry *entry = map->buckets[bucket_index(map, hash)];

	while (entry && !entry_has_key(entry, hash, key, key_bytes))
		entry = entry->next;
	return entry;
}

struct kvh_map_entry *kvh_map_get(const struct kvh_map *map, const void *key, size_t key_bytes)
{
	return find(map, kvh_hash64(key, key_bytes), key, key_bytes);
}

static void link_entry(struct kvh_map *map, struct kvh_map_entry *entry)
{
	struct kvh_map_entry **bucket = &map->buckets[bucket_index(map, entry->hash)];

	entry->next = *bucket;
	*bucket = entry;
}

static void grow(struct kvh_map *map)
{
	struct kvh_map larger = *map;

	larger.bucket_count = map->bucket_count * 2;
	larger.buckets = kvh_calloc(larger.bucket_count, sizeof(struct kvh_map_entry *));
	if (!larger.buckets)
		return;
	for (size_t index = 0; index < map->bucket_count; index++) {
		struct kvh_map_entry *entry = map->buckets[index];

		while (entry) {
			struct kvh_map_entry *next = entry->next;

			link_entry(&larger, entry);
			entry = next;
		}
	}
	kvh_free(map->buckets);
	*map = larger;
}

void kvh_map_put(struct kvh_map *map, struct kvh_map_entry *entry)
{
	entry->hash = kvh_hash64(entry->key, entry->key_bytes);
	KVH_CHECK(!find(map, entry->hash, entry->key, entry->key_bytes));
	if (map->count >= map->bucket_count)
		grow(map);
	link_entry(map, entry);
	map->count++;
}

void kvh_map_remove(struct kvh_map *map, struct kvh_map_entry *entry)
{
	struct kvh_map_entry **link = &map->buckets[bucket_index(map, entry->hash)];

	while (*link && *link != entry)
		link = &(*link)->next;
	KVH_CHECK(*link == entry);
	*link = entry->next;
	entry->next = NULL;
	map->count--;
}

struct kvh_map_entry *kvh_map_next(const struct kvh_map *map, const struct kvh_map_entry *entry)
{
	size_t index = 0;

	if (entry && entry->next)
		return entry->next;
	if (entry)
		index = bucket_index(map, entry->hash) + 1;
	for (; index < map->bucket_count; index++) {
		if (map->buckets[index])
			return map->buckets[index];
	}
	return NULL;
}
