/* SPDX-License-Identifier: Apache-2.0 */
/* The local pool as a store: put, get, exists, remove, evict. */
#include "local_fixture.h"

#define KIB 1024

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
	pool_open(&pool, (struct pool_options){.capacity_bytes = count * 64 * KIB});
	for (uint64_t i = 0; i < count; i++)
		assert_int_equal(put_number(&pool, i, 64 * KIB, NULL), KVH_OK);
	assert_int_equal(get_number(&pool, 0, 64 * KIB), 64 * KIB);
	assert_int_equal(put_number(&pool, 100, 64 * KIB, NULL), KVH_OK);
	assert_true(has_number(&pool, 0));
	assert_false(has_number(&pool, 1));
	assert_int_equal(pool_stats(&pool).evicted_keys, 1);
	for (uint64_t i = 2; i < count; i++)
		assert_int_equal(get_number(&pool, i, 64 * KIB), 64 * KIB);
	pool_close(&pool);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(an_object_comes_back_as_it_was_put),
	    cmocka_unit_test(a_full_pool_evicts_the_longest_unused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
