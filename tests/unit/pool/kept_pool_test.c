/* SPDX-License-Identifier: Apache-2.0 */
/* Pool files of every version that was ever released stay readable, byte by byte. */
#include "kept_pool.h"

#include "pool/local/shm_file.h"

static struct place unpack(const char *name)
{
	const char *data = getenv("KVH_TEST_DATA");
	struct place place = place_of(name, "");
	char path[512];
	FILE *from;
	int fd;

	assert_non_null(data);
	snprintf(path, sizeof(path), "%s/pools/%s", data, name);
	from = fopen(path, "rbe");
	fd = open(place.path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	assert_true(from && fd >= 0);
	assert_true(kept_unpack(from, fd));
	fclose(from);
	close(fd);
	return place;
}

/* As if the machine had not been started anew since: else an open has to empty the pool. */
static void becomes_of_this_boot(struct kvh_super *super)
{
	const struct kvh_life *life = kvh_area_life(super);
	struct kvh_life *own;

	assert_non_null(life);
	own = &super->lives[life - super->lives];
	kvh_boot_id(own->boot_id);
	seal_life(own);
}

static void holds_all(const struct place *place)
{
	struct objects objects;
	struct kvh_store_stats stats;
	struct pool pool;
	bool wrong = false;

	shared_open(&pool, place->url);
	stats = pool_stats(&pool);
	assert_int_equal(stats.objects, KEPT_OBJECTS);
	assert_int_equal(stats.capacity_bytes, 256 << 10);
	assert_int_equal(objects_init(&objects, &pool), KVH_OK);
	for (uint64_t i = 0; i < KEPT_OBJECTS; i++)
		assert_int_equal(object_get(&objects, i, kept_bytes(i), &wrong), kept_bytes(i));
	assert_false(wrong);
	assert_int_equal(object_get(&objects, KEPT_OBJECTS, 3 * KVH_UNIT_BYTES, &wrong),
	                 KVH_OBJECT_NOT_FOUND);
	/* And it is as good as a new one. */
	assert_int_equal(object_put(&objects, 1000, 5000, NULL), 0);
	assert_int_equal(object_get(&objects, 1000, 5000, &wrong), 5000);
	assert_false(wrong);
	pool_close(&pool);
}

/* As its last user left it, and as one left it that was killed. */
static void stays_readable(const char *name)
{
	for (unsigned killed = 0; killed < 2; killed++) {
		struct place place = unpack(name);
		struct mapped mapped = map_pool(place.path);
		struct kvh_super *super = &mapped.fixed->super;
		uint64_t rebuilds = atomic_load(&super->rebuild_counter);

		becomes_of_this_boot(super);
		assert_true(atomic_load(&super->clean_mark) != 0);
		if (killed)
			atomic_store(&super->clean_mark, 0);
		holds_all(&place);
		assert_int_equal(atomic_load(&super->rebuild_counter), rebuilds + 2 * killed);
		unmap_pool(&mapped);
		assert_int_equal(unlink(place.path), 0);
	}
}

/* proves: S-7, S-12 */
static void version_1_stays_readable(void **state)
{
	(void)state;
	stays_readable("v1");
}

/* proves: S-7, S-12 */
static void version_1_with_checksums_stays_readable(void **state)
{
	(void)state;
	stays_readable("v1-verify");
}

/* It is of another boot until somebody says otherwise. */
static void a_kept_pool_of_another_boot_is_empty(void **state)
{
	struct place place = unpack("v1");
	struct pool pool;

	(void)state;
	shared_open(&pool, place.url);
	assert_int_equal(pool_stats(&pool).objects, 0);
	pool_close(&pool);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		shared_test(version_1_stays_readable),
		shared_test(version_1_with_checksums_stays_readable),
		shared_test(a_kept_pool_of_another_boot_is_empty),
	};

	shared_begin();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
