/* SPDX-License-Identifier: Apache-2.0 */
/* The local pool as a store: what each call answers. */
#include "local_fixture.h"

#include "base/fault.h"
#include "pool/local/local.h"

enum { KIB = 1024, BLOCK = 64 * KIB };

static struct kvh_put_options put_options(void)
{
	return (struct kvh_put_options){.struct_bytes = sizeof(struct kvh_put_options)};
}

/* proves: S-1 */
static void an_object_comes_back_as_it_was_put(void **state)
{
	struct pool pool;

	(void)state;
	pool_open(&pool, (struct pool_options){.capacity_bytes = 1 << 20});
	assert_false(has_number(&pool, 1));
	assert_int_equal(get_number(&pool, 1, 5000), KVH_OBJECT_NOT_FOUND);
	assert_int_equal(put_number(&pool, 1, 5000, NULL), KVH_OK);
	assert_true(has_number(&pool, 1));
	assert_int_equal(get_number(&pool, 1, 5000), 5000);
	assert_int_equal(put_number(&pool, 1, 5000, NULL), KVH_OBJECT_ALREADY_EXISTS);
	assert_int_equal(pool_stats(&pool).objects, 1);
	assert_int_equal(pool_stats(&pool).used_bytes, 8192);
	pool_close(&pool);
}

static void a_full_pool_evicts_the_longest_unused(void **state)
{
	struct pool pool;
	const uint64_t count = 16;

	(void)state;
	pool_open(&pool, (struct pool_options){.capacity_bytes = count * BLOCK});
	for (uint64_t i = 0; i < count; i++)
		assert_int_equal(put_number(&pool, i, BLOCK, NULL), KVH_OK);
	assert_int_equal(get_number(&pool, 0, BLOCK), BLOCK);
	assert_int_equal(put_number(&pool, 100, BLOCK, NULL), KVH_OK);
	assert_true(has_number(&pool, 0));
	assert_false(has_number(&pool, 1));
	assert_int_equal(pool_stats(&pool).evicted_keys, 1);
	assert_int_equal(pool_stats(&pool).evicted_bytes, BLOCK);
	for (uint64_t i = 2; i < count; i++)
		assert_int_equal(get_number(&pool, i, BLOCK), BLOCK);
	pool_close(&pool);
}

/* Field case B16. */
/* proves: S-10 */
static void the_same_key_twice_is_one_object(void **state)
{
	const uint64_t numbers[] = {1, 2, 1, 3, 2, 1};
	struct kvh_put_options options = put_options();
	struct kvh_token tokens[COUNT_OF(numbers)];
	struct numbered n;
	struct pool pool;

	(void)state;
	pool_open(&pool, (struct pool_options){.capacity_bytes = 1 << 20});
	assert_int_equal(put_number(&pool, 3, KIB, NULL), KVH_OK);
	numbered_make(&n, &pool, numbers, COUNT_OF(numbers), KIB);
	for (size_t i = 0; i < COUNT_OF(numbers); i++)
		make_bytes(numbers[i], n.segments[i].addr, KIB);
	options.flags = KVH_PUT_HOLD;
	options.tokens = tokens;
	assert_int_equal(kvh_store_put(pool.store, &n.batch, &options, NULL), KVH_OK);
	for (size_t i = 0; i < COUNT_OF(numbers); i++)
		assert_int_equal(n.results[i].value,
		                 numbers[i] == 3 ? KVH_OBJECT_ALREADY_EXISTS : KVH_OK);
	assert_memory_equal(&tokens[0], &tokens[2], sizeof(tokens[0]));
	assert_memory_equal(&tokens[1], &tokens[4], sizeof(tokens[0]));
	assert_int_equal(pool_stats(&pool).reserved_objects, 2);
	assert_int_equal(kvh_store_commit(pool.store, tokens, 2, n.results), KVH_OK);
	assert_int_equal(pool_stats(&pool).objects, 3);
	assert_int_equal(get_number(&pool, 1, KIB), KIB);
	pool_close(&pool);
}

/* As above over more keys than one turn, each of them twice. */
static void a_long_batch_stores_each_key_once(void **state)
{
	uint64_t numbers[FIXTURE_KEYS_MAX];
	struct numbered n;
	struct pool pool;

	(void)state;
	pool_open(&pool, (struct pool_options){.capacity_bytes = 4 << 20});
	for (size_t i = 0; i < FIXTURE_KEYS_MAX; i++)
		numbers[i] = i % (FIXTURE_KEYS_MAX / 2);
	numbered_make(&n, &pool, numbers, FIXTURE_KEYS_MAX, KIB);
	for (size_t i = 0; i < FIXTURE_KEYS_MAX; i++)
		make_bytes(numbers[i], n.segments[i].addr, KIB);
	assert_int_equal(kvh_store_put(pool.store, &n.batch, NULL, NULL), KVH_OK);
	for (size_t i = 0; i < FIXTURE_KEYS_MAX; i++)
		assert_int_equal(n.results[i].value, KVH_OK);
	assert_int_equal(pool_stats(&pool).objects, FIXTURE_KEYS_MAX / 2);
	memset(pool.memory, 0, FIXTURE_KEYS_MAX * KIB);
	assert_int_equal(kvh_store_get(pool.store, &n.batch, NULL), KVH_OK);
	for (size_t i = 0; i < FIXTURE_KEYS_MAX; i++) {
		assert_int_equal(n.results[i].value, KIB);
		assert_true(bytes_are(numbers[i], n.segments[i].addr, KIB));
	}
	pool_close(&pool);
}

static int64_t hold_number(struct pool *pool, uint64_t number, struct kvh_token *token)
{
	struct kvh_put_options options = put_options();

	options.flags = KVH_PUT_HOLD;
	options.tokens = token;
	return put_number(pool, number, KIB, &options);
}

/* Field case B23, the writer alive: a reader misses, a second writer is told, the token decides. */
/* proves: S-1, S-10, S-11 */
static void a_held_object_is_seen_only_after_its_commit(void **state)
{
	struct kvh_token token, other;
	struct kvh_result result;
	struct pool pool;

	(void)state;
	pool_open(&pool, (struct pool_options){.capacity_bytes = 1 << 20});
	assert_int_equal(hold_number(&pool, 1, &token), KVH_OK);
	assert_false(has_number(&pool, 1));
	assert_int_equal(get_number(&pool, 1, KIB), KVH_OBJECT_NOT_FOUND);
	assert_int_equal(kvh_store_commit(pool.store, &token, 1, &result), KVH_OK);
	assert_int_equal(result.value, KVH_OK);
	assert_int_equal(get_number(&pool, 1, KIB), KIB);
	/* Neither a second time nor an abort after it changes anything. */
	assert_int_equal(kvh_store_commit(pool.store, &token, 1, &result), KVH_OK);
	assert_int_equal(result.value, KVH_OBJECT_NOT_FOUND);
	assert_int_equal(kvh_store_abort(pool.store, &token, 1, &result), KVH_OK);
	assert_int_equal(result.value, KVH_OBJECT_NOT_FOUND);
	assert_int_equal(hold_number(&pool, 2, &other), KVH_OK);
	assert_int_equal(kvh_store_abort(pool.store, &other, 1, &result), KVH_OK);
	assert_int_equal(result.value, KVH_OK);
	assert_int_equal(put_number(&pool, 2, KIB, NULL), KVH_OK);
	assert_int_equal(get_number(&pool, 1, KIB), KIB);
	pool_close(&pool);
}

/* proves: S-11 */
static void tokens_of_nobody_change_nothing(void **state)
{
	struct kvh_token token, bad[4];
	struct kvh_result results[4];
	struct pool pool;

	(void)state;
	pool_open(&pool, (struct pool_options){.capacity_bytes = 1 << 20});
	assert_int_equal(hold_number(&pool, 1, &token), KVH_OK);
	for (unsigned i = 0; i < 3; i++) {
		bad[i] = token;
		bad[i].word[i]++;
	}
	bad[3] = (struct kvh_token){{0, UINT64_MAX, UINT64_MAX}};
	bad[3].word[0] = token.word[0];
	assert_int_equal(kvh_store_commit(pool.store, bad, 4, results), KVH_OK);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(results[i].value, KVH_OBJECT_NOT_FOUND);
	assert_int_equal(pool_stats(&pool).reserved_objects, 1);
	pool_close(&pool);
}

/* proves: S-10 */
static void a_key_that_another_writes_is_not_ready_after_100_ms(void **state)
{
	struct fixed_time time;
	struct kvh_token token;
	struct pool pool;
	uint64_t before;

	(void)state;
	fixed_time_init(&time);
	pool_open(&pool, (struct pool_options){.capacity_bytes = 1 << 20, .env = &time.env});
	assert_int_equal(hold_number(&pool, 1, &token), KVH_OK);
	before = time.now_ns;
	assert_int_equal(put_number(&pool, 1, KIB, NULL), KVH_REPLICA_IS_NOT_READY);
	assert_true(time.now_ns - before >= SECOND / 10);
	assert_true(time.now_ns - before < SECOND / 5);
	pool_close(&pool);
}

static void a_deadline_ends_the_wait_for_another_writer(void **state)
{
	struct kvh_call call = {.struct_bytes = sizeof(call)};
	const uint64_t number = 1;
	struct fixed_time time;
	struct kvh_token token;
	struct numbered n;
	struct pool pool;
	uint64_t before;

	(void)state;
	fixed_time_init(&time);
	pool_open(&pool, (struct pool_options){.capacity_bytes = 1 << 20, .env = &time.env});
	assert_int_equal(hold_number(&pool, number, &token), KVH_OK);
	numbered_make(&n, &pool, &number, 1, KIB);
	before = time.now_ns;
	call.deadline_ns = before + SECOND / 100;
	assert_int_equal(kvh_store_put(pool.store, &n.batch, NULL, &call), KVH_OK);
	assert_int_equal(n.results[0].value, KVH_REPLICA_IS_NOT_READY);
	assert_true(time.now_ns - before < SECOND / 50);
	pool_close(&pool);
}

static void a_value_of_another_length_is_not_read(void **state)
{
	struct pool pool;

	(void)state;
	pool_open(&pool, (struct pool_options){.capacity_bytes = 1 << 20});
	assert_int_equal(put_number(&pool, 1, 1000, NULL), KVH_OK);
	assert_int_equal(get_number(&pool, 1, 1001), KVH_INVALID_PARAMS);
	assert_int_equal(pool.memory[0], 0xee);
	assert_int_equal(pool.memory[1000], 0xee);
	assert_int_equal(get_number(&pool, 1, 1000), 1000);
	pool_close(&pool);
}

static void damaged_bytes_are_a_mismatch_with_verify(void **state)
{
	struct kvh_local *local;
	struct pool pool;

	(void)state;
	pool_open(&pool, (struct pool_options){.capacity_bytes = 1 << 20, .verify = true});
	local = pool.self;
	assert_int_equal(put_number(&pool, 1, 1000, NULL), KVH_OK);
	assert_int_equal(get_number(&pool, 1, 1000), 1000);
	local->core.area.payload[999] ^= 1;
	assert_int_equal(get_number(&pool, 1, 1000), KVH_CHECKSUM_MISMATCH);
	assert_int_equal(pool.memory[0], 0xee);
	local->core.area.payload[999] ^= 1;
	assert_int_equal(get_number(&pool, 1, 1000), 1000);
	pool_close(&pool);
}

static void a_cancelled_call_moves_nothing_and_leaves_no_reservation(void **state)
{
	struct kvh_cancel cancel = {0};
	struct kvh_call call = {.struct_bytes = sizeof(call), .cancel = &cancel};
	const uint64_t numbers[] = {1, 2};
	struct numbered n;
	struct pool pool;

	(void)state;
	pool_open(&pool, (struct pool_options){.capacity_bytes = 1 << 20});
	assert_int_equal(put_number(&pool, 2, KIB, NULL), KVH_OK);
	kvh_cancel_request(&cancel);
	numbered_make(&n, &pool, numbers, 2, KIB);
	memset(pool.memory, 0xee, 2 * KIB);
	kvh_store_get(pool.store, &n.batch, &call);
	assert_true(n.results[0].value < 0 && n.results[1].value < 0);
	assert_int_equal(pool.memory[KIB], 0xee);
	kvh_store_put(pool.store, &n.batch, NULL, &call);
	assert_true(n.results[0].value < 0);
	assert_int_equal(pool.ops.put(pool.self, &n.batch, &(struct kvh_put_options){0}, &call),
	                 KVH_OK);
	assert_int_equal(n.results[0].value, KVH_CANCELLED);
	assert_false(has_number(&pool, 1));
	assert_int_equal(pool_stats(&pool).reserved_objects, 0);
	assert_int_equal(pool_stats(&pool).used_bytes, 4 * KIB);
	pool_close(&pool);
}

static void an_expired_object_is_gone_and_a_kept_one_stays(void **state)
{
	struct kvh_put_options options = put_options();
	struct fixed_time time;
	struct pool pool;

	(void)state;
	fixed_time_init(&time);
	pool_open(&pool, (struct pool_options){.capacity_bytes = 4 * BLOCK, .env = &time.env});
	options.expire_seconds = 100;
	assert_int_equal(put_number(&pool, 1, BLOCK, &options), KVH_OK);
	options.expire_seconds = 0;
	options.keep_seconds = 1000;
	assert_int_equal(put_number(&pool, 2, BLOCK, &options), KVH_OK);
	time.now_ns += UINT64_C(100) * SECOND - 1;
	assert_int_equal(get_number(&pool, 1, BLOCK), BLOCK);
	/* To the next 16 s. */
	time.now_ns += UINT64_C(16) * SECOND;
	assert_int_equal(get_number(&pool, 1, BLOCK), KVH_OBJECT_NOT_FOUND);
	assert_false(has_number(&pool, 1));
	for (uint64_t i = 10; i < 30; i++)
		assert_int_equal(put_number(&pool, i, BLOCK, NULL), KVH_OK);
	assert_int_equal(get_number(&pool, 2, BLOCK), BLOCK);
	assert_int_equal(pool_stats(&pool).expired_keys, 1);
	pool_close(&pool);
}

static void long_and_short_keys_live_side_by_side(void **state)
{
	uint8_t hash[KVH_KEY_HASH_BYTES_MAX];
	struct pool pool;

	(void)state;
	pool_open(&pool, (struct pool_options){.capacity_bytes = 4 << 20});
	for (size_t i = 0; i < sizeof(hash); i++)
		hash[i] = (uint8_t)(i * 7);
	pool.prefix = pool_intern(&pool, "any@", 0, 0, 0);
	for (unsigned pass = 0; pass < 2; pass++) {
		for (uint32_t bytes = 1; bytes <= sizeof(hash); bytes += 101) {
			struct numbered n;
			uint64_t number = bytes;

			numbered_make(&n, &pool, &number, 1, KIB + bytes);
			n.keys[0].hash = hash;
			n.keys[0].hash_bytes = bytes;
			if (pass == 0) {
				make_bytes(number, pool.memory, KIB + bytes);
				kvh_store_put(pool.store, &n.batch, NULL, NULL);
				assert_int_equal(n.results[0].value, KVH_OK);
				continue;
			}
			memset(pool.memory, 0, KIB + bytes);
			kvh_store_get(pool.store, &n.batch, NULL);
			assert_int_equal(n.results[0].value, KIB + bytes);
			assert_true(bytes_are(number, pool.memory, KIB + bytes));
			n.batch.values = NULL;
			kvh_store_exists(pool.store, &n.batch, KVH_EXISTS_DEDUP, NULL);
			assert_int_equal(n.results[0].value, 1);
		}
	}
	pool_close(&pool);
}

static void remove_clear_tiers_and_feed_agree(void **state)
{
	const uint64_t numbers[] = {1, 2, 3, 9};
	enum kvh_tier tiers[4];
	struct kvh_evicted_key keys[8];
	struct kvh_token token;
	struct numbered n;
	struct pool pool;
	uint64_t removed;
	size_t count;
	bool lost;

	(void)state;
	pool_open(&pool, (struct pool_options){.capacity_bytes = 1 << 20});
	for (size_t i = 0; i < 3; i++)
		assert_int_equal(put_number(&pool, numbers[i], KIB, NULL), KVH_OK);
	assert_int_equal(hold_number(&pool, 9, &token), KVH_OK);
	numbered_make(&n, &pool, numbers, 4, 1);
	assert_int_equal(kvh_store_tiers(pool.store, n.keys, 4, tiers, NULL), KVH_OK);
	assert_int_equal(tiers[0], KVH_TIER_MEMORY);
	assert_int_equal(tiers[3], KVH_TIER_UNKNOWN);
	n.batch.values = NULL;
	n.batch.count = 1;
	assert_int_equal(kvh_store_remove(pool.store, &n.batch, NULL), KVH_OK);
	assert_int_equal(n.results[0].value, KVH_OK);
	n.batch.count = 4;
	n.batch.keys = n.keys;
	assert_int_equal(kvh_store_clear(pool.store, NULL, &removed), KVH_OK);
	assert_int_equal(removed, 2);
	assert_int_equal(kvh_store_remove(pool.store, &n.batch, NULL), KVH_OK);
	assert_int_equal(n.results[1].value, KVH_OBJECT_NOT_FOUND);
	assert_int_equal(n.results[3].value, KVH_REPLICA_IS_NOT_READY);
	assert_int_equal(pool_stats(&pool).reserved_objects, 1);
	assert_int_equal(kvh_store_take_evicted(pool.store, keys, 8, &count, &lost), KVH_OK);
	assert_int_equal(count, 3);
	assert_false(lost);
	for (size_t i = 0; i < 3; i++)
		assert_memory_equal(keys[i].hash, n.hashes[i], HASH_BYTES);
	pool_close(&pool);
}

/* Each look at this clock takes a second. */
static uint64_t slow_now(void *ctx)
{
	struct fixed_time *time = ctx;

	return __atomic_add_fetch(&time->now_ns, SECOND, __ATOMIC_RELAXED);
}

/* proves: S-9 */
static void clear_ends_at_its_deadline(void **state)
{
	struct kvh_call call = {.struct_bytes = sizeof(call)};
	struct fixed_time time;
	uint64_t removed = 0;
	struct pool pool;

	(void)state;
	fixed_time_init(&time);
	pool_open(&pool, (struct pool_options){.capacity_bytes = 1 << 20, .env = &time.env});
	for (uint64_t i = 0; i < 200; i++)
		assert_int_equal(put_number(&pool, i, 100, NULL), KVH_OK);
	time.ops.now_ns = slow_now;
	call.deadline_ns = time.now_ns + UINT64_C(5) * SECOND;
	assert_int_equal(kvh_store_clear(pool.store, &call, NULL), KVH_TIMEOUT);
	time.ops.now_ns = fixed_now;
	assert_int_equal(kvh_store_clear(pool.store, NULL, &removed), KVH_OK);
	assert_true(removed > 0 && removed < 200);
	pool_close(&pool);
}

/* proves: S-14 */
static void what_can_never_fit_is_told_apart_from_pressure(void **state)
{
	struct kvh_token tokens[4];
	struct pool pool;

	(void)state;
	pool_open(&pool, (struct pool_options){.capacity_bytes = 16 * KIB});
	assert_int_equal(put_number(&pool, 1, 16 * KIB + 1, NULL), KVH_INVALID_PARAMS);
	for (uint64_t i = 0; i < 4; i++)
		assert_int_equal(hold_number(&pool, i, &tokens[i]), KVH_OK);
	assert_int_equal(put_number(&pool, 10, KIB, NULL), KVH_NO_AVAILABLE_HANDLE);
	pool_close(&pool);
}

static void device_memory_is_refused(void **state)
{
	struct kvh_error error = {0};
	unsigned char *memory = malloc(4096);
	struct pool pool;

	(void)state;
	pool_open(&pool, (struct pool_options){.capacity_bytes = 1 << 20});
	assert_int_equal(
		pool.ops.register_region(pool.self, 5, memory, 4096, KVH_MEMORY_DEVICE, &error),
		KVH_NOT_SUPPORTED);
	assert_non_null(strstr(error.text, "host"));
	free(memory);
	pool_close(&pool);
}

static void a_pool_without_room_for_a_block_is_refused(void **state)
{
	struct kvh_local_options options = {.capacity_bytes = 100};
	const struct kvh_store_options common = {.struct_bytes = sizeof(common),
	                                         .env = kvh_env_posix(),
	                                         .device = kvh_device_host()};
	struct kvh_error error = {0};
	struct kvh_store_ops ops;
	void *self;

	(void)state;
	assert_int_equal(kvh_local_open(&options, &common, &ops, &self, &error),
	                 KVH_INVALID_PARAMS);
	assert_non_null(strstr(error.text, "size 100"));
}

/* The 1st, 2nd, ... allocation fails, until none is left to fail. */
static void every_failed_allocation_fails_the_open_cleanly(void **state)
{
	struct kvh_local_options options = {.capacity_bytes = 1 << 20};
	const struct kvh_store_options common = {.struct_bytes = sizeof(common),
	                                         .env = kvh_env_posix(),
	                                         .device = kvh_device_host()};
	struct kvh_error error = {0};
	struct kvh_store_ops ops;
	kvh_status status = KVH_NO_MEMORY;
	uint64_t nth;
	void *self;

	(void)state;
	for (nth = 1; status != KVH_OK; nth++) {
		assert_true(nth < 20);
		assert_true(kvh_fault_arm_nth("base/alloc", nth, 1));
		status = kvh_local_open(&options, &common, &ops, &self, &error);
		kvh_fault_disarm_all();
		assert_true(status == KVH_OK || status == KVH_NO_MEMORY);
	}
	/* The handle, its lock, the scratch of its scans. */
	assert_true(nth > 3);
	ops.close(self);
}

static void caps_say_what_works(void **state)
{
	struct kvh_store_caps caps = {.struct_bytes = sizeof(caps)};
	struct pool pool;

	(void)state;
	pool_open(&pool, (struct pool_options){.capacity_bytes = 1 << 20});
	assert_int_equal(kvh_store_get_caps(pool.store, &caps), KVH_OK);
	assert_true(caps.hold && caps.lifecycle && caps.tiers && caps.evicted);
	assert_int_equal(caps.stop_ms_max, KVH_LOCAL_STOP_MS);
	assert_int_equal(caps.capacity_bytes, 1 << 20);
	assert_int_equal(caps.replicas_max, 1);
	assert_int_equal(kvh_store_quiesce(pool.store, 0), KVH_OK);
	pool_close(&pool);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_object_comes_back_as_it_was_put),
		cmocka_unit_test(a_full_pool_evicts_the_longest_unused),
		cmocka_unit_test(the_same_key_twice_is_one_object),
		cmocka_unit_test(a_long_batch_stores_each_key_once),
		cmocka_unit_test(a_held_object_is_seen_only_after_its_commit),
		cmocka_unit_test(tokens_of_nobody_change_nothing),
		cmocka_unit_test(a_key_that_another_writes_is_not_ready_after_100_ms),
		cmocka_unit_test(a_deadline_ends_the_wait_for_another_writer),
		cmocka_unit_test(a_value_of_another_length_is_not_read),
		cmocka_unit_test(damaged_bytes_are_a_mismatch_with_verify),
		cmocka_unit_test(a_cancelled_call_moves_nothing_and_leaves_no_reservation),
		cmocka_unit_test(an_expired_object_is_gone_and_a_kept_one_stays),
		cmocka_unit_test(long_and_short_keys_live_side_by_side),
		cmocka_unit_test(remove_clear_tiers_and_feed_agree),
		cmocka_unit_test(clear_ends_at_its_deadline),
		cmocka_unit_test(what_can_never_fit_is_told_apart_from_pressure),
		cmocka_unit_test(device_memory_is_refused),
		cmocka_unit_test(a_pool_without_room_for_a_block_is_refused),
		cmocka_unit_test(every_failed_allocation_fails_the_open_cleanly),
		cmocka_unit_test(caps_say_what_works),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
