/* SPDX-License-Identifier: Apache-2.0 */
/* A local pool behind the front door, with bytes that follow from each key's number. */
#ifndef KVH_TESTS_UNIT_POOL_LOCAL_FIXTURE_H
#define KVH_TESTS_UNIT_POOL_LOCAL_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <kvhold/kvhold.h>
#include <kvhold/store_ops.h>

#include "pool/pool.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

enum { HASH_BYTES = 32, FIXTURE_KEYS_MAX = 256, SECOND = 1000000000 };

/* SplitMix64: the same numbers on every machine for a seed. */
static inline uint64_t draw(uint64_t *seed)
{
	uint64_t z = *seed += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

/* Time stands still unless a test moves it; all else is POSIX. */
struct fixed_time {
	struct kvh_env_ops ops;
	struct kvh_env env;
	uint64_t now_ns;
};

static inline uint64_t fixed_now(void *ctx)
{
	struct fixed_time *time = ctx;

	return __atomic_load_n(&time->now_ns, __ATOMIC_RELAXED);
}

/* Sleeping is what lets time pass. */
static inline void fixed_sleep(void *ctx, uint64_t ns)
{
	struct fixed_time *time = ctx;

	__atomic_fetch_add(&time->now_ns, ns, __ATOMIC_RELAXED);
}

static inline void fixed_time_init(struct fixed_time *time)
{
	time->ops = *kvh_env_posix()->ops;
	time->ops.now_ns = fixed_now;
	time->ops.sleep_ns = fixed_sleep;
	time->env = (struct kvh_env){.ops = &time->ops, .ctx = time};
	time->now_ns = UINT64_C(1000) * SECOND;
}

struct pool {
	struct kvh_store *store;
	struct kvh_store_ops ops;
	void *self;
	unsigned char *memory; /* registered */
	size_t memory_bytes;
	kvh_region_id region;
	uint32_t prefix;
};

struct pool_options {
	uint64_t capacity_bytes;
	bool verify;
	const struct kvh_env *env; /* NULL: POSIX */
	uint32_t hash_bytes;       /* of the prefix */
};

static inline uint32_t pool_intern(struct pool *pool, const char *text, uint32_t hash_bytes,
                                   size_t family_bytes, uint64_t quota_bytes)
{
	struct kvh_prefix prefix = {.struct_bytes = sizeof(prefix),
	                            .text = text,
	                            .text_bytes = strlen(text),
	                            .family_bytes = family_bytes,
	                            .hash_bytes = hash_bytes,
	                            .quota_bytes = quota_bytes};
	struct kvh_error error;
	uint32_t id = 0;

	assert_int_equal(kvh_store_prefix(pool->store, &prefix, &id, &error), KVH_OK);
	return id;
}

/* Memory and a prefix for a store that was opened; hash_bytes 0: the usual. */
static inline void pool_equip(struct pool *pool, uint32_t hash_bytes)
{
	struct kvh_error error = {0};

	pool->memory_bytes = 8 << 20;
	pool->memory = calloc(1, pool->memory_bytes);
	assert_non_null(pool->memory);
	assert_int_equal(kvh_store_register(pool->store, pool->memory, pool->memory_bytes,
	                                    KVH_MEMORY_HOST, &pool->region, &error),
	                 KVH_OK);
	pool->prefix = pool_intern(pool, "m@", hash_bytes ? hash_bytes : HASH_BYTES, 0, 0);
}

static inline void pool_open(struct pool *pool, struct pool_options options)
{
	struct kvh_local_options local = {.capacity_bytes = options.capacity_bytes,
	                                  .verify = options.verify};
	const struct kvh_env *env = options.env ? options.env : kvh_env_posix();
	struct kvh_store_options open = {
		.struct_bytes = sizeof(open), .env = env, .device = kvh_device_host()};
	struct kvh_error error = {0};

	memset(pool, 0, sizeof(*pool));
	assert_int_equal(kvh_local_open(&local, &open, &pool->ops, &pool->self, &error), KVH_OK);
	assert_int_equal(kvh_store_open_ops(&pool->ops, pool->self, &open, &pool->store, &error),
	                 KVH_OK);
	pool_equip(pool, options.hash_bytes);
}

static inline void pool_close(struct pool *pool)
{
	assert_int_equal(kvh_store_close(pool->store, 0), KVH_OK);
	free(pool->memory);
}

/* ---- keys and bytes -------------------------------------------------------------------- */

static inline void make_hash(uint64_t number, uint8_t *hash, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		hash[i] = (uint8_t)draw(&number);
}

static inline void make_bytes(uint64_t number, unsigned char *to, size_t bytes)
{
	uint64_t word, seed = number * 31 + 7;

	for (size_t i = 0; i < bytes; i += sizeof(word)) {
		word = draw(&seed);
		memcpy(to + i, &word, bytes - i < sizeof(word) ? bytes - i : sizeof(word));
	}
}

static inline bool bytes_are(uint64_t number, const unsigned char *at, size_t bytes)
{
	uint64_t word, seed = number * 31 + 7;

	for (size_t i = 0; i < bytes; i += sizeof(word)) {
		word = draw(&seed);
		if (memcmp(at + i, &word, bytes - i < sizeof(word) ? bytes - i : sizeof(word)) != 0)
			return false;
	}
	return true;
}

/* A batch of numbered keys of the fixture's prefix, values one behind the other. */
struct numbered {
	struct kvh_batch batch;
	struct kvh_key keys[FIXTURE_KEYS_MAX];
	struct kvh_value values[FIXTURE_KEYS_MAX];
	struct kvh_segment segments[FIXTURE_KEYS_MAX];
	struct kvh_result results[FIXTURE_KEYS_MAX];
	uint8_t hashes[FIXTURE_KEYS_MAX][64];
};

static inline void numbered_make(struct numbered *n, struct pool *pool, const uint64_t *numbers,
                                 size_t count, size_t bytes)
{
	assert_true(count <= FIXTURE_KEYS_MAX && count * bytes <= pool->memory_bytes);
	memset(n, 0, sizeof(*n));
	for (size_t i = 0; i < count; i++) {
		make_hash(numbers[i], n->hashes[i], HASH_BYTES);
		n->keys[i] = (struct kvh_key){
			.hash = n->hashes[i], .hash_bytes = HASH_BYTES, .prefix_id = pool->prefix};
		n->segments[i] =
			(struct kvh_segment){.addr = pool->memory + i * bytes, .bytes = bytes};
		n->values[i] = (struct kvh_value){.segments = &n->segments[i], .segment_count = 1};
	}
	n->batch = (struct kvh_batch){
		.count = count, .keys = n->keys, .values = n->values, .results = n->results};
}

/* Puts one object; returns its result. */
static inline int64_t put_number(struct pool *pool, uint64_t number, size_t bytes,
                                 const struct kvh_put_options *options)
{
	struct numbered n;

	numbered_make(&n, pool, &number, 1, bytes);
	make_bytes(number, pool->memory, bytes);
	assert_int_equal(kvh_store_put(pool->store, &n.batch, options, NULL), KVH_OK);
	return n.results[0].value;
}

/* Gets one object; bytes must be right if it is there. */
static inline int64_t get_number(struct pool *pool, uint64_t number, size_t bytes)
{
	struct numbered n;

	numbered_make(&n, pool, &number, 1, bytes);
	memset(pool->memory, 0xee, bytes);
	assert_int_equal(kvh_store_get(pool->store, &n.batch, NULL), KVH_OK);
	if (n.results[0].value == (int64_t)bytes)
		assert_true(bytes_are(number, pool->memory, bytes));
	return n.results[0].value;
}

static inline bool has_number(struct pool *pool, uint64_t number)
{
	struct numbered n;

	numbered_make(&n, pool, &number, 1, 1);
	n.batch.values = NULL;
	assert_int_equal(kvh_store_exists(pool->store, &n.batch, KVH_EXISTS_LOOKUP, NULL), KVH_OK);
	return n.results[0].value == 1;
}

static inline struct kvh_store_stats pool_stats(struct pool *pool)
{
	struct kvh_store_stats stats = {.struct_bytes = sizeof(stats)};

	assert_int_equal(kvh_store_get_stats(pool->store, &stats), KVH_OK);
	return stats;
}

#endif
