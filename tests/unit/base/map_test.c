/* SPDX-License-Identifier: Apache-2.0 */
/* The map against a list that is searched from end to end. */
#include "unit/base/unit.h"

#include <string.h>

#include "base/fault.h"
#include "base/hash.h"
#include "base/map.h"

#define KEY_BYTES_MAX 3
#define KEY_COUNT     (1 + 4 + 16 + 64) /* all keys of up to 3 letters out of 4 */
#define STEP_COUNT    20000

struct item {
	struct kvh_map_entry entry;
	char key[KEY_BYTES_MAX];
	bool in_map;
	bool seen;
};

/* The items are the naive list: one for each key, in_map says what the map must hold. */
static size_t make_items(struct item *items)
{
	size_t count = 0;
	size_t first = 0;

	memset(items, 0, KEY_COUNT * sizeof(*items));
	count++;
	for (size_t bytes = 1; bytes <= KEY_BYTES_MAX; bytes++) {
		size_t end = count;

		for (; first < end; first++) {
			for (size_t letter = 0; letter < 4; letter++) {
				struct item *item = &items[count++];

				memcpy(item->key, items[first].key, bytes - 1);
				item->key[bytes - 1] = "abcd"[letter];
				item->entry.key_bytes = bytes;
			}
		}
	}
	for (size_t index = 0; index < count; index++)
		items[index].entry.key = items[index].key;
	return count;
}

static void assert_same(const struct kvh_map *map, struct item *items)
{
	size_t count = 0;

	for (size_t index = 0; index < KEY_COUNT; index++) {
		struct item *item = &items[index];
		char key[KEY_BYTES_MAX];

		memcpy(key, item->key, sizeof(key));
		assert_ptr_equal(kvh_map_get(map, key, item->entry.key_bytes),
		                 item->in_map ? &item->entry : NULL);
		count += item->in_map;
		item->seen = false;
	}
	assert_int_equal(map->count, count);
	for (struct kvh_map_entry *entry = kvh_map_next(map, NULL); entry;
	     entry = kvh_map_next(map, entry)) {
		struct item *item = (struct item *)entry;

		assert_true(item->in_map && !item->seen);
		item->seen = true;
		count--;
	}
	assert_int_equal(count, 0);
}

static void random_puts_and_removes_agree_with_a_list(void **context)
{
	struct item items[KEY_COUNT];
	struct kvh_map map;
	uint64_t seed = 6;

	(void)context;
	assert_int_equal(make_items(items), KEY_COUNT);
	assert_int_equal(kvh_map_init(&map), KVH_OK);
	for (int step = 0; step < STEP_COUNT; step++) {
		struct item *item = &items[draw(&seed) % KEY_COUNT];

		/* Long waves of more puts, then of more removes. */
		if (!item->in_map && draw(&seed) % 4 > (uint64_t)(step / 500 % 4)) {
			kvh_map_put(&map, &item->entry);
			item->in_map = true;
		} else if (item->in_map && draw(&seed) % 4 <= (uint64_t)(step / 500 % 4)) {
			kvh_map_remove(&map, &item->entry);
			item->in_map = false;
		}
		if (step % 16 == 0)
			assert_same(&map, items);
	}
	kvh_map_fini(&map);
}

static void growing_keeps_chains_short_and_its_failure_loses_nothing(void **context)
{
	struct item items[KEY_COUNT];
	struct kvh_map map;
	size_t first_bucket_count;

	(void)context;
	make_items(items);
	assert_int_equal(kvh_map_init(&map), KVH_OK);
	first_bucket_count = map.bucket_count;
	assert_true(first_bucket_count < KEY_COUNT);
	assert_true(kvh_fault_arm_nth("base/alloc", 1, KVH_NO_MEMORY));
	for (size_t index = 0; index < KEY_COUNT; index++) {
		kvh_map_put(&map, &items[index].entry);
		items[index].in_map = true;
		if (index == first_bucket_count) {
			assert_int_equal(kvh_fault_fired(KVH_FAULT_BASE_ALLOC), 1);
			assert_int_equal(map.bucket_count, first_bucket_count);
			assert_same(&map, items);
		}
	}
	assert_true(map.bucket_count >= KEY_COUNT);
	assert_same(&map, items);
	kvh_fault_disarm_all();
	kvh_map_fini(&map);
}

static void entries_can_be_removed_on_the_way(void **context)
{
	struct item items[KEY_COUNT];
	struct kvh_map map;
	struct kvh_map_entry *entry;

	(void)context;
	make_items(items);
	assert_int_equal(kvh_map_init(&map), KVH_OK);
	for (size_t index = 0; index < KEY_COUNT; index++)
		kvh_map_put(&map, &items[index].entry);
	entry = kvh_map_next(&map, NULL);
	while (entry) {
		struct kvh_map_entry *next = kvh_map_next(&map, entry);

		kvh_map_remove(&map, entry);
		entry = next;
	}
	assert_int_equal(map.count, 0);
	assert_same(&map, items);
	kvh_map_fini(&map);
}

/* The same hash is not the same key: an entry found so would be another request's. */
static void equal_hashes_of_other_keys_are_told_apart(void **context)
{
	const char *const wanted[] = {"request-1", "request-10", "request-", ""};
	struct kvh_map map;

	(void)context;
	for (size_t index = 0; index < COUNT_OF(wanted); index++) {
		size_t wanted_bytes = strlen(wanted[index]);
		struct item other = {.entry = {.key = "request-2", .key_bytes = 9}};

		assert_int_equal(kvh_map_init(&map), KVH_OK);
		kvh_map_put(&map, &other.entry);
		/* A collision can't be had for the asking: the entry moves to where it would be. */
		memset(map.buckets, 0, map.bucket_count * sizeof(struct kvh_map_entry *));
		other.entry.hash = kvh_hash64(wanted[index], wanted_bytes);
		map.buckets[other.entry.hash & (map.bucket_count - 1)] = &other.entry;
		assert_null(kvh_map_get(&map, wanted[index], wanted_bytes));
		other.entry.key = wanted[index];
		other.entry.key_bytes = wanted_bytes;
		assert_ptr_equal(kvh_map_get(&map, wanted[index], wanted_bytes), &other.entry);
		kvh_map_fini(&map);
	}
}

static void init_without_memory_says_so(void **context)
{
	struct kvh_map map;

	(void)context;
	assert_true(kvh_fault_arm_nth("base/alloc", 1, KVH_NO_MEMORY));
	assert_int_equal(kvh_map_init(&map), KVH_NO_MEMORY);
	kvh_fault_disarm_all();
}

static void put_a_key_twice(void)
{
	struct item a = {.entry = {.key = "a", .key_bytes = 1}};
	struct item b = {.entry = {.key = "a", .key_bytes = 1}};
	struct kvh_map map;

	if (kvh_map_init(&map) == KVH_OK) {
		kvh_map_put(&map, &a.entry);
		kvh_map_put(&map, &b.entry);
	}
}

static void remove_a_stranger(void)
{
	struct item a = {.entry = {.key = "a", .key_bytes = 1}};
	struct kvh_map map;

	if (kvh_map_init(&map) == KVH_OK)
		kvh_map_remove(&map, &a.entry);
}

static void misuse_stops_the_process(void **context)
{
	(void)context;
	assert_stops(put_a_key_twice);
	assert_stops(remove_a_stranger);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(random_puts_and_removes_agree_with_a_list),
		cmocka_unit_test(growing_keeps_chains_short_and_its_failure_loses_nothing),
		cmocka_unit_test(entries_can_be_removed_on_the_way),
		cmocka_unit_test(equal_hashes_of_other_keys_are_told_apart),
		cmocka_unit_test(init_without_memory_says_so),
		cmocka_unit_test(misuse_stops_the_process),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
