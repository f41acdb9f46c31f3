/* SPDX-License-Identifier: Apache-2.0 */
/* Many threads on one small pool: every byte that a get hands out follows from its key. */
#include "local_fixture.h"

#include <stdatomic.h>

enum { THREADS = 4, ROUNDS = 400, KEYS = 96, BATCH = 24, VALUE_BYTES = 3000 };

struct crowd {
	struct pool pool;
	uint64_t rounds;
	kvh_status listed_status;
	_Atomic uint64_t hits, wrong, unexpected;
};

struct member {
	struct crowd *crowd;
	struct kvh_thread *thread;
	uint64_t seed;
	unsigned char *memory; /* its own part of the pool's region */
	struct numbered n;
	uint64_t numbers[BATCH];
	struct kvh_token tokens[BATCH];
};

/* The length follows from the key, too. */
static size_t bytes_of(uint64_t number)
{
	return VALUE_BYTES + number % 5 * 2048;
}

static void draw_batch(struct member *member)
{
	struct kvh_segment *segments = member->n.segments;
	size_t at = 0;

	for (size_t i = 0; i < BATCH; i++)
		member->numbers[i] = draw(&member->seed) % KEYS;
	numbered_make(&member->n, &member->crowd->pool, member->numbers, BATCH, 1);
	for (size_t i = 0; i < BATCH; i++) {
		segments[i] = (struct kvh_segment){.addr = member->memory + at,
		                                   .bytes = bytes_of(member->numbers[i])};
		at += segments[i].bytes;
	}
}

static void expect(struct member *member, bool expected)
{
	if (!expected)
		atomic_fetch_add(&member->crowd->unexpected, 1);
}

static void put_round(struct member *member, bool hold)
{
	struct kvh_store *store = member->crowd->pool.store;
	struct kvh_put_options options = {.struct_bytes = sizeof(options),
	                                  .flags = hold ? KVH_PUT_HOLD : 0,
	                                  .tokens = hold ? member->tokens : NULL};
	struct kvh_result settled[BATCH];

	for (size_t i = 0; i < BATCH; i++)
		make_bytes(member->numbers[i], member->n.segments[i].addr,
		           member->n.segments[i].bytes);
	expect(member, kvh_store_put(store, &member->n.batch, &options, NULL) == KVH_OK);
	for (size_t i = 0; i < BATCH; i++) {
		int64_t value = member->n.results[i].value;

		expect(member, value == KVH_OK || value == KVH_OBJECT_ALREADY_EXISTS ||
		                       value == KVH_REPLICA_IS_NOT_READY ||
		                       value == KVH_NO_AVAILABLE_HANDLE);
		if (!hold || value != KVH_OK)
			continue;
		if (draw(&member->seed) % 2)
			kvh_store_commit(store, &member->tokens[i], 1, settled);
		else
			kvh_store_abort(store, &member->tokens[i], 1, settled);
	}
}

static void get_round(struct member *member)
{
	struct crowd *crowd = member->crowd;

	expect(member, kvh_store_get(crowd->pool.store, &member->n.batch, NULL) == KVH_OK);
	for (size_t i = 0; i < BATCH; i++) {
		const struct kvh_segment *segment = &member->n.segments[i];
		int64_t value = member->n.results[i].value;

		if (value == KVH_OBJECT_NOT_FOUND)
			continue;
		expect(member, value == (int64_t)segment->bytes);
		atomic_fetch_add(&crowd->hits, 1);
		if (!bytes_are(member->numbers[i], segment->addr, segment->bytes))
			atomic_fetch_add(&crowd->wrong, 1);
	}
}

static void other_round(struct member *member, uint64_t what)
{
	struct kvh_store *store = member->crowd->pool.store;
	struct kvh_evicted_key keys[BATCH];
	size_t count;
	bool lost;

	if (what < 3) {
		member->n.batch.values = NULL;
		expect(member, kvh_store_remove(store, &member->n.batch, NULL) == KVH_OK);
	} else if (what < 6) {
		member->n.batch.values = NULL;
		expect(member,
		       kvh_store_exists(store, &member->n.batch, KVH_EXISTS_DEDUP, NULL) == KVH_OK);
	} else {
		expect(member, kvh_store_take_evicted(store, keys, BATCH, &count, &lost) == KVH_OK);
	}
}

/* Lengths follow from keys, and so must those of a list; a payload is never seen half. */
static void list_round(struct member *member)
{
	struct crowd *crowd = member->crowd;
	struct kvh_listed objects[BATCH] = {0};
	uint8_t hashes[KVH_KEY_HASH_BYTES_MAX], wanted[HASH_BYTES];
	const struct kvh_list list = {.struct_bytes = sizeof(list),
	                              .flags = KVH_LIST_VERIFY,
	                              .objects = objects,
	                              .capacity = BATCH,
	                              .hashes = hashes,
	                              .hashes_bytes = sizeof(hashes)};
	uint64_t cursor = 0;
	size_t count;

	do {
		expect(member,
		       kvh_store_list(crowd->pool.store, &list, &cursor, &count, NULL) == KVH_OK);
		for (size_t i = 0; i < count; i++) {
			uint64_t number = 0;

			do
				make_hash(number, wanted, HASH_BYTES);
			while (memcmp(wanted, objects[i].key.hash, HASH_BYTES) != 0 &&
			       ++number < KEYS);
			expect(member, number < KEYS && objects[i].bytes == bytes_of(number));
			expect(member, objects[i].status == crowd->listed_status);
		}
	} while (cursor);
}

static void run_member(void *arg)
{
	struct member *member = arg;

	for (uint64_t round = 0; round < member->crowd->rounds; round++) {
		uint64_t what = draw(&member->seed) % 20;

		draw_batch(member);
		if (what < 1)
			list_round(member);
		else if (what < 7)
			other_round(member, what);
		else if (what < 12)
			put_round(member, what == 7);
		else
			get_round(member);
	}
}

static void run_crowd(bool verify)
{
	static struct crowd crowd;
	static struct member members[THREADS];
	const struct kvh_env *env = kvh_env_posix();
	struct kvh_store_stats stats;

	memset(&crowd, 0, sizeof(crowd));
	crowd.rounds = ROUNDS;
	crowd.listed_status = verify ? KVH_OK : KVH_NOT_SUPPORTED;
	/* Half of the keys fit, in three regions of the five sizes. */
	pool_open(&crowd.pool,
	          (struct pool_options){.capacity_bytes = 6 * (64 << 10), .verify = verify});
	for (unsigned i = 0; i < THREADS; i++) {
		members[i].crowd = &crowd;
		members[i].seed = i;
		members[i].memory = crowd.pool.memory + i * (crowd.pool.memory_bytes / THREADS);
		assert_int_equal(env->ops->thread_create(env->ctx, &members[i].thread, "crowd",
		                                         run_member, &members[i]),
		                 KVH_OK);
	}
	for (unsigned i = 0; i < THREADS; i++)
		env->ops->thread_join(env->ctx, members[i].thread);
	assert_int_equal(atomic_load(&crowd.wrong), 0);
	assert_int_equal(atomic_load(&crowd.unexpected), 0);
	assert_true(atomic_load(&crowd.hits) > 0);
	stats = pool_stats(&crowd.pool);
	assert_true(stats.evicted_keys > 0);
	assert_int_equal(stats.reserved_objects, 0);
	assert_int_equal(stats.pinned_objects, 0);
	assert_int_equal(kvh_store_clear(crowd.pool.store, NULL, NULL), KVH_OK);
	assert_int_equal(pool_stats(&crowd.pool).used_bytes, 0);
	pool_close(&crowd.pool);
}

/* proves: S-1, S-3, S-4, S-9, S-10, S-11 */
static void a_crowd_reads_right_bytes_or_nothing(void **state)
{
	(void)state;
	run_crowd(false);
}

/* proves: S-3, S-4 */
static void a_crowd_with_checksums_meets_no_mismatch(void **state)
{
	(void)state;
	run_crowd(true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_crowd_reads_right_bytes_or_nothing),
		cmocka_unit_test(a_crowd_with_checksums_meets_no_mismatch),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
