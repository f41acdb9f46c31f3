/* SPDX-License-Identifier: Apache-2.0 */
/* A pool file as a process left it, to be damaged and opened again, and what must hold then. */
#ifndef KVH_TESTS_UNIT_POOL_DAMAGED_POOL_H
#define KVH_TESTS_UNIT_POOL_DAMAGED_POOL_H

#include "file_objects.h"

#include "pool/core/slots.h"

enum {
	OBJECTS = 36,
	UNITS = FIXTURE_KEYS_MAX, /* 16 regions of 16 */
	SIZES = 16,               /* each with a class of its own; later ones are rounded */
	HELD = 900,
	BEFORE = 5000,
	AFTER = 10000
};

/* A pool as a process left it. */
struct template
{
	struct place place;
	struct mapped mapped; /* the file, which every round begins anew */
	unsigned char *bytes;
	struct kvh_area area; /* in the file */
	bool verify;
};

static struct fixed_time pool_time;

static inline size_t bytes_of(uint64_t number)
{
	static const size_t units[] = {1, 1, 2, 1, 3, 17, 1, 5};

	return units[number % COUNT_OF(units)] * KVH_UNIT_BYTES - 100 - number;
}

/* ---- what is damaged -------------------------------------------------------------------- */

static inline void fill_template(struct pool *pool)
{
	struct kvh_token token;
	const struct kvh_put_options hold = {
		.struct_bytes = sizeof(hold), .flags = KVH_PUT_HOLD, .tokens = &token};
	struct objects objects;
	bool wrong = false;

	CHILD_CHECK(objects_init(&objects, pool) == KVH_OK);
	for (uint64_t i = 0; i < SIZES; i++) {
		CHILD_CHECK(child_puts(pool, i, (i + 1) * KVH_UNIT_BYTES) == 0);
		CHILD_CHECK(kvh_store_clear(pool->store, NULL, NULL) == KVH_OK);
	}
	for (uint64_t i = 0; i < OBJECTS; i++)
		CHILD_CHECK(object_put(&objects, i, bytes_of(i), NULL) == 0);
	/* Some were used since, some left, one is being written. */
	for (uint64_t i = 0; i < OBJECTS; i += 4)
		object_get(&objects, i, bytes_of(i), &wrong);
	for (uint64_t i = 0; i < 3; i++)
		CHILD_CHECK(object_put(&objects, HELD + i, 2 * KVH_UNIT_BYTES, &hold) == 0);
	CHILD_CHECK(!wrong);
}

struct maker {
	const char *url;
	bool killed;
};

static inline void makes(const void *ctx)
{
	const struct maker *maker = ctx;
	const struct kvh_store_options options = {.struct_bytes = sizeof(options),
	                                          .env = &pool_time.env};
	struct pool pool = {.memory_bytes = MIB, .memory = calloc(1, MIB)};

	CHILD_CHECK(pool.memory);
	CHILD_CHECK(kvh_store_open(maker->url, &options, &pool.store, NULL) == KVH_OK);
	CHILD_CHECK(kvh_store_register(pool.store, pool.memory, pool.memory_bytes, KVH_MEMORY_HOST,
	                               &pool.region, NULL) == KVH_OK);
	pool.prefix = 0;
	fill_template(&pool);
	if (maker->killed)
		raise(SIGKILL);
	CHILD_CHECK(kvh_store_close(pool.store, 0) == KVH_OK);
	free(pool.memory);
}

static inline void template_init(struct template *template, bool killed, bool verify)
{
	struct maker maker = {.killed = killed};
	char options[64];
	pid_t child;
	int status;

	fixed_time_init(&pool_time);
	snprintf(options, sizeof(options), "?size=%d&verify=%d", UNITS * KVH_UNIT_BYTES, verify);
	template->place = place_of("pool", options);
	template->verify = verify;
	maker.url = template->place.url;
	child = run_child(makes, &maker);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(killed ? WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL : status == 0);
	template->mapped = map_pool(template->place.path);
	kvh_area_attach(&template->area, template->mapped.fixed);
	assert_true(killed == !atomic_load(&template->area.super->clean_mark));
	template->bytes = malloc(template->mapped.bytes);
	assert_non_null(template->bytes);
	memcpy(template->bytes, template->mapped.fixed, template->mapped.bytes);
}

static inline void template_fini(struct template *template)
{
	unlink(template->place.path);
	unmap_pool(&template->mapped);
	free(template->bytes);
}

/* ---- what must hold --------------------------------------------------------------------- */

struct outcome {
	uint64_t refused, present, lost, mismatches;
};

static inline void may_miss_but_not_lie(const struct template *template, struct objects *objects,
                                        uint64_t seed, struct outcome *outcome)
{
	bool wrong = false;

	for (uint64_t i = 0; i < OBJECTS; i++) {
		int64_t value = object_get(objects, i, bytes_of(i), &wrong);

		if (wrong)
			fail_msg("seed %" PRIu64 ": wrong bytes for object %" PRIu64, seed, i);
		if (value > 0)
			outcome->present++;
		else if (value == KVH_OBJECT_NOT_FOUND)
			outcome->lost++;
		else if (value == KVH_CHECKSUM_MISMATCH && template->verify)
			outcome->mismatches++;
		else
			fail_msg("seed %" PRIu64 ": object %" PRIu64 " is %" PRId64, seed, i,
			         value);
	}
	for (uint64_t i = 0; i < 3; i++)
		if (object_get(objects, HELD + i, 2 * KVH_UNIT_BYTES, &wrong) > 0)
			fail_msg("seed %" PRIu64 ": an object that nobody committed", seed);
}

/* Objects of a unit, as many as there are units, of a prefix that no damage can have met. */
static inline void put_all(struct pool *pool, struct numbered *n, uint64_t first, uint64_t seed)
{
	uint64_t numbers[UNITS];

	for (uint64_t i = 0; i < UNITS; i++)
		numbers[i] = first + i;
	numbered_make(n, pool, numbers, UNITS, KVH_UNIT_BYTES);
	assert_int_equal(kvh_store_put(pool->store, &n->batch, NULL, NULL), KVH_OK);
	for (uint64_t i = 0; i < UNITS; i++)
		if (n->results[i].value != 0)
			fail_msg("seed %" PRIu64 ": put %" PRIu64 ": %" PRId64, seed, i,
			         n->results[i].value);
}

static inline void takes_all_space_again(struct pool *pool, uint64_t seed)
{
	static struct numbered n;
	struct kvh_store_stats stats;

	pool->prefix = pool_intern(pool, "after-the-damage@", HASH_BYTES, 0, 0);
	/* Where a device may have written is free only after a while. */
	pool_time.now_ns += UINT64_C(11) * SECOND;
	/* Over what is there: damaged words may say that some of it is worth more. */
	put_all(pool, &n, BEFORE, seed);
	assert_int_equal(kvh_store_clear(pool->store, NULL, NULL), KVH_OK);
	put_all(pool, &n, AFTER, seed);
	n.batch.values = NULL;
	assert_int_equal(kvh_store_exists(pool->store, &n.batch, KVH_EXISTS_LOOKUP, NULL), KVH_OK);
	for (uint64_t i = 0; i < UNITS; i++)
		if (n.results[i].value != 1)
			fail_msg("seed %" PRIu64 ": no space for %" PRIu64, seed, i);
	stats = pool_stats(pool);
	assert_int_equal(stats.objects, UNITS);
	assert_int_equal(stats.reserved_objects, 0);
	assert_int_equal(stats.pinned_objects, 0);
	assert_int_equal(stats.used_bytes, UNITS * KVH_UNIT_BYTES);
}

static inline void closes_well_after_all(struct template *template, uint64_t seed)
{
	uint64_t before = atomic_load(&template->area.super->rebuild_counter);
	struct pool pool;

	shared_open_at(&pool, template->place.url, &pool_time.env);
	if (atomic_load(&template->area.super->rebuild_counter) != before)
		fail_msg("seed %" PRIu64 ": not clean after a close", seed);
	pool_close(&pool);
}

enum { ALL_SPACE = 1, AGAIN = 2 };

static inline void round_holds(struct template *template, uint64_t seed, unsigned wanted,
                               struct outcome *outcome)
{
	struct kvh_store *store;
	struct kvh_error error;
	struct objects objects;
	struct pool pool;
	kvh_status status = try_open(template->place.url, &pool_time.env, &store, &error);

	if (status) {
		assert_true(error.text[0]);
		if (status != KVH_INVALID_PARAMS && status != KVH_NOT_SUPPORTED)
			fail_msg("seed %" PRIu64 ": %d %s", seed, status, error.text);
		outcome->refused++;
		return;
	}
	adopt_store(&pool, store);
	assert_int_equal(objects_init(&objects, &pool), KVH_OK);
	may_miss_but_not_lie(template, &objects, seed, outcome);
	if (wanted & ALL_SPACE)
		takes_all_space_again(&pool, seed);
	pool_close(&pool);
	if (wanted & AGAIN)
		closes_well_after_all(template, seed);
}

static inline void restore(struct template *template)
{
	memcpy(template->mapped.fixed, template->bytes, template->mapped.bytes);
	pool_time.now_ns = UINT64_C(1000) * SECOND;
}

#endif
