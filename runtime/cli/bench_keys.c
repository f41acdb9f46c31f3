/* SPDX-License-Identifier: Apache-2.0 */
/* The bench's objects: keys and values made once, then put, got and looked up 64 a call. */
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

enum {
	/* A pool is asked for so much for each object at least: it keeps one entry for so much. */
	POOL_BYTES_PER_OBJECT = 16384,
	POOL_SLACK_MIB = 64
};

const char *kvh_bench_store_name(const char *url)
{
	return url ? url : "local:";
}

bool kvh_bench_store_open(const char *url, size_t count, size_t object_bytes,
                          struct kvh_store **store)
{
	size_t bytes = object_bytes < POOL_BYTES_PER_OBJECT ? POOL_BYTES_PER_OBJECT : object_bytes;
	struct kvh_error error = {0};
	char fitting[64];

	snprintf(fitting, sizeof(fitting), "local:?size=%zuMiB",
	         count * bytes / KVH_BENCH_MIB + POOL_SLACK_MIB);
	if (!url)
		url = fitting;
	return kvh_bench_ok(url, kvh_store_open(url, NULL, store, &error), &error);
}

static bool intern_prefix(struct kvh_store *store, uint32_t *prefix_id)
{
	const struct kvh_prefix prefix = {.struct_bytes = sizeof(prefix),
	                                  .text = KVH_BENCH_PREFIX_TEXT,
	                                  .text_bytes = sizeof(KVH_BENCH_PREFIX_TEXT) - 1,
	                                  .hash_bytes = KVH_BENCH_HASH_BYTES};
	struct kvh_error error = {0};

	return kvh_bench_ok("prefix", kvh_store_prefix(store, &prefix, prefix_id, &error), &error);
}

static bool allocate(struct kvh_bench_objects *objects, size_t count)
{
	objects->count = count;
	objects->hashes = calloc(count, KVH_BENCH_HASH_BYTES);
	objects->keys = calloc(count, sizeof(*objects->keys));
	objects->values = calloc(count, sizeof(*objects->values));
	objects->results = calloc(count, sizeof(*objects->results));
	return objects->hashes && objects->keys && objects->values && objects->results;
}

bool kvh_bench_objects_init(struct kvh_bench_objects *objects, struct kvh_store *store,
                            const struct kvh_layout *layout, const uint32_t *order, size_t count)
{
	uint32_t prefix_id;

	*objects = (struct kvh_bench_objects){.store = store};
	if (!intern_prefix(store, &prefix_id))
		return false;
	if (!allocate(objects, count)) {
		kvh_bench_objects_fini(objects);
		return kvh_bench_ok("keys", KVH_NO_MEMORY, NULL);
	}
	for (size_t i = 0; i < count; i++) {
		uint8_t *hash = objects->hashes + i * KVH_BENCH_HASH_BYTES;

		kvh_bench_hash(hash, 0, i);
		objects->keys[i] = (struct kvh_key){
			.hash = hash, .hash_bytes = KVH_BENCH_HASH_BYTES, .prefix_id = prefix_id};
		objects->values[i] = (struct kvh_value){.layout = layout, .block_id = order[i]};
	}
	return true;
}

void kvh_bench_objects_name(struct kvh_bench_objects *objects, uint64_t series, uint64_t first)
{
	for (size_t i = 0; i < objects->count; i++)
		kvh_bench_hash(objects->hashes + i * KVH_BENCH_HASH_BYTES, series, first + i);
}

void kvh_bench_objects_fini(struct kvh_bench_objects *objects)
{
	free(objects->hashes);
	free(objects->keys);
	free(objects->values);
	free(objects->results);
	*objects = (struct kvh_bench_objects){0};
}

static kvh_status run_batch(struct kvh_store *store, enum kvh_bench_op op,
                            const struct kvh_batch *batch)
{
	const struct kvh_put_options options = {.struct_bytes = sizeof(options)};
	struct kvh_batch lookup = *batch;

	if (op == KVH_BENCH_PUT)
		return kvh_store_put(store, batch, &options, NULL);
	if (op == KVH_BENCH_GET)
		return kvh_store_get(store, batch, NULL);
	lookup.values = NULL;
	return kvh_store_exists(store, &lookup, KVH_EXISTS_LOOKUP, NULL);
}

bool kvh_bench_objects_run(struct kvh_bench_objects *objects, enum kvh_bench_op op,
                           int64_t expected)
{
	static const char *const names[] = {"put", "get", "exists"};
	int64_t wrong = 0;

	for (size_t first = 0; first < objects->count; first += KVH_BENCH_BATCH_KEYS) {
		size_t left = objects->count - first;
		const struct kvh_batch batch = {
			.count = left < KVH_BENCH_BATCH_KEYS ? left : KVH_BENCH_BATCH_KEYS,
			.keys = objects->keys + first,
			.values = objects->values + first,
			.results = objects->results + first};

		if (!kvh_bench_ok(names[op], run_batch(objects->store, op, &batch), NULL))
			return false;
		for (size_t i = 0; i < batch.count; i++)
			wrong += batch.results[i].value != expected;
	}
	if (wrong == 0)
		return true;
	kvh_cli_complain("bench", "%s: %lld of %zu keys were not answered with %lld", names[op],
	                 (long long)wrong, objects->count, (long long)expected);
	return false;
}

bool kvh_bench_objects_clear(struct kvh_bench_objects *objects)
{
	return kvh_bench_ok("clear", kvh_store_clear(objects->store, NULL, NULL), NULL);
}

void kvh_bench_objects_shuffle(struct kvh_bench_objects *objects, const uint32_t *order)
{
	for (size_t i = 0; i < objects->count; i++) {
		struct kvh_key key = objects->keys[i];
		struct kvh_value value = objects->values[i];
		size_t other = order[i];

		objects->keys[i] = objects->keys[other];
		objects->values[i] = objects->values[other];
		objects->keys[other] = key;
		objects->values[other] = value;
	}
}
