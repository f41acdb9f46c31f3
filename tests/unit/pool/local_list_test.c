/* SPDX-License-Identifier: Apache-2.0 */
/* Listing and verifying a local pool, also through a handle that interned nothing. */
#include "local_fixture.h"

#include "pool/local/local.h"

enum { KIB = 1024, PAGE_OBJECTS = 16, OBJECTS = 40 };

struct page {
	struct kvh_list list;
	struct kvh_listed objects[PAGE_OBJECTS];
	uint8_t hashes[KVH_KEY_HASH_BYTES_MAX];
	uint64_t cursor;
	size_t count;
};

static void page_init(struct page *page, uint32_t flags)
{
	memset(page, 0, sizeof(*page));
	page->list = (struct kvh_list){.struct_bytes = sizeof(page->list),
	                               .flags = flags,
	                               .objects = page->objects,
	                               .capacity = PAGE_OBJECTS,
	                               .hashes = page->hashes,
	                               .hashes_bytes = sizeof(page->hashes)};
}

static kvh_status list_page(struct kvh_store *store, struct page *page)
{
	return kvh_store_list(store, &page->list, &page->cursor, &page->count, NULL);
}

/* Objects of a whole list that have this status. */
static size_t count_status(struct kvh_store *store, uint32_t flags, kvh_status status)
{
	struct page page;
	size_t count = 0;

	page_init(&page, flags);
	do {
		assert_int_equal(list_page(store, &page), KVH_OK);
		for (size_t i = 0; i < page.count; i++)
			count += page.objects[i].status == status;
	} while (page.cursor);
	return count;
}

static void open_filled(struct pool *pool, bool verify)
{
	pool_open(pool, (struct pool_options){.capacity_bytes = 4 << 20, .verify = verify});
	for (uint64_t i = 0; i < OBJECTS; i++)
		assert_int_equal(put_number(pool, i, 5 * KIB, NULL), KVH_OK);
}

static struct kvh_core *core_of(struct pool *pool)
{
	return &((struct kvh_local *)pool->self)->core;
}

static void without_checksums_only_records_are_checked(void **state)
{
	struct pool pool;

	(void)state;
	open_filled(&pool, false);
	assert_int_equal(count_status(pool.store, 0, KVH_OK), OBJECTS);
	assert_int_equal(count_status(pool.store, KVH_LIST_VERIFY, KVH_NOT_SUPPORTED), OBJECTS);
	assert_int_equal(count_status(pool.store, KVH_LIST_VERIFY, KVH_OK), 0);
	pool_close(&pool);
}

/* proves: S-15 */
static void damaged_payloads_and_records_are_found(void **state)
{
	struct kvh_core *core;
	struct pool pool;
	unsigned char *payload;

	(void)state;
	open_filled(&pool, true);
	core = core_of(&pool);
	assert_int_equal(count_status(pool.store, KVH_LIST_VERIFY, KVH_OK), OBJECTS);
	/* Any bit of any byte, the last one too; not what lies behind. */
	payload = kvh_core_extent(core, 7);
	payload[5 * KIB - 1] ^= 1;
	assert_int_equal(count_status(pool.store, KVH_LIST_VERIFY, KVH_CHECKSUM_MISMATCH), 1);
	assert_int_equal(count_status(pool.store, KVH_LIST_VERIFY, KVH_OK), OBJECTS - 1);
	assert_int_equal(count_status(pool.store, 0, KVH_OK), OBJECTS);
	payload[5 * KIB - 1] ^= 1;
	payload[5 * KIB] ^= 1;
	assert_int_equal(count_status(pool.store, KVH_LIST_VERIFY, KVH_OK), OBJECTS);
	/* The checksum itself. */
	atomic_fetch_xor(&core->area.sums[3], 1);
	assert_int_equal(count_status(pool.store, KVH_LIST_VERIFY, KVH_CHECKSUM_MISMATCH), 1);
	atomic_fetch_xor(&core->area.sums[3], 1);
	/* A record that no get believes is no object, but verify names it. */
	atomic_fetch_xor(&core->area.slots[5].length_bytes, 1);
	assert_int_equal(get_number(&pool, 5, 5 * KIB), KVH_OBJECT_NOT_FOUND);
	assert_int_equal(count_status(pool.store, 0, KVH_OK), OBJECTS - 1);
	assert_int_equal(count_status(pool.store, 0, KVH_CHECKSUM_MISMATCH), 0);
	assert_int_equal(count_status(pool.store, KVH_LIST_VERIFY, KVH_CHECKSUM_MISMATCH), 1);
	atomic_fetch_xor(&core->area.slots[5].length_bytes, 1);
	pool_close(&pool);
}

/* ---- a handle beside another ----------------------------------------------------------- */

static void leave_open(void *self)
{
	(void)self;
}

/* As another process would see the pool: it has interned nothing. */
static struct kvh_store *open_second(struct pool *pool)
{
	struct kvh_store_ops ops = pool->ops;
	struct kvh_store *store;

	ops.close = leave_open;
	assert_int_equal(kvh_store_open_ops(&ops, pool->self, NULL, &store, NULL), KVH_OK);
	return store;
}

/* proves: R-1 */
static void a_stranger_can_name_what_it_lists(void **state)
{
	struct kvh_store *second;
	struct pool pool;
	struct page page;
	uint64_t number = 1;
	struct numbered n;
	char text[256], wanted[256];

	(void)state;
	pool_open(&pool, (struct pool_options){.capacity_bytes = 1 << 20});
	assert_int_equal(put_number(&pool, number, KIB, NULL), KVH_OK);
	second = open_second(&pool);
	page_init(&page, 0);
	assert_int_equal(list_page(second, &page), KVH_OK);
	assert_int_equal(page.count, 1);
	assert_int_equal(page.cursor, 0);
	assert_int_equal(kvh_store_key_text(second, &page.objects[0].key, text, sizeof(text), NULL),
	                 KVH_OK);
	numbered_make(&n, &pool, &number, 1, KIB);
	assert_int_equal(kvh_store_key_text(pool.store, &n.keys[0], wanted, sizeof(wanted), NULL),
	                 KVH_OK);
	assert_string_equal(text, wanted);
	assert_int_equal(kvh_store_prefix_text(second, pool.prefix, text, sizeof(text), NULL),
	                 KVH_OK);
	assert_string_equal(text, "m@");
	assert_int_equal(kvh_store_prefix_text(second, pool.prefix + 1, text, sizeof(text), NULL),
	                 KVH_OBJECT_NOT_FOUND);
	assert_int_equal(kvh_store_close(second, 0), KVH_OK);
	pool_close(&pool);
}

/* proves: S-13, R-1 */
static void a_stranger_can_name_what_was_evicted(void **state)
{
	struct kvh_store *second;
	struct pool pool;
	struct kvh_evicted_key evicted;
	struct kvh_key key;
	char text[256];
	size_t count;
	bool lost;

	(void)state;
	pool_open(&pool, (struct pool_options){.capacity_bytes = 64 * KIB});
	second = open_second(&pool);
	assert_int_equal(put_number(&pool, 1, 64 * KIB, NULL), KVH_OK);
	assert_int_equal(put_number(&pool, 2, 64 * KIB, NULL), KVH_OK);
	assert_int_equal(kvh_store_take_evicted(second, &evicted, 1, &count, &lost), KVH_OK);
	assert_int_equal(count, 1);
	key = (struct kvh_key){evicted.hash, evicted.hash_bytes, evicted.prefix_id};
	assert_int_equal(kvh_store_key_text(second, &key, text, sizeof(text), NULL), KVH_OK);
	assert_memory_equal(text, "m@", 2);
	assert_int_equal(strlen(text), 2 + 2 * HASH_BYTES);
	assert_int_equal(kvh_store_close(second, 0), KVH_OK);
	pool_close(&pool);
}

/* ---- deadlines ------------------------------------------------------------------------- */

/* Each look at the clock takes a second of it. */
static uint64_t running_now(void *ctx)
{
	struct fixed_time *time = ctx;

	return __atomic_add_fetch(&time->now_ns, SECOND, __ATOMIC_RELAXED);
}

/* proves: S-9 */
static void a_short_deadline_gives_short_pages(void **state)
{
	struct fixed_time time;
	struct kvh_call call = {.struct_bytes = sizeof(call)};
	struct pool pool;
	struct page page;
	size_t count = 0, calls = 0;

	(void)state;
	fixed_time_init(&time);
	pool_open(&pool, (struct pool_options){.capacity_bytes = 4 << 20, .env = &time.env});
	for (uint64_t i = 0; i < OBJECTS; i++)
		assert_int_equal(put_number(&pool, i, KIB, NULL), KVH_OK);
	time.ops.now_ns = running_now;
	page_init(&page, 0);
	do {
		call.deadline_ns = time.now_ns + 8 * UINT64_C(1000000000);
		assert_int_equal(
			kvh_store_list(pool.store, &page.list, &page.cursor, &page.count, &call),
			KVH_OK);
		assert_true(page.count < PAGE_OBJECTS);
		count += page.count;
		calls++;
	} while (page.cursor);
	assert_int_equal(count, OBJECTS);
	assert_true(calls > OBJECTS / PAGE_OBJECTS + 1);
	pool_close(&pool);
}

/* proves: S-9 */
static void without_pin_blocks_a_list_waits_to_its_deadline(void **state)
{
	struct fixed_time time;
	struct kvh_call call = {.struct_bytes = sizeof(call)};
	_Atomic uint32_t *used;
	struct pool pool;
	struct page page;

	(void)state;
	fixed_time_init(&time);
	pool_open(&pool, (struct pool_options){.capacity_bytes = 1 << 20, .env = &time.env});
	assert_int_equal(put_number(&pool, 1, KIB, NULL), KVH_OK);
	used = &core_of(&pool)->area.fixed->sessions[core_of(&pool)->session].blocks_used;
	atomic_store(used, (UINT32_C(1) << KVH_PIN_BLOCKS) - 1);
	page_init(&page, 0);
	call.deadline_ns = time.now_ns + SECOND;
	assert_int_equal(kvh_store_list(pool.store, &page.list, &page.cursor, &page.count, &call),
	                 KVH_TIMEOUT);
	atomic_store(used, 0);
	assert_int_equal(list_page(pool.store, &page), KVH_OK);
	assert_int_equal(page.count, 1);
	pool_close(&pool);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_checksums_only_records_are_checked),
		cmocka_unit_test(damaged_payloads_and_records_are_found),
		cmocka_unit_test(a_stranger_can_name_what_it_lists),
		cmocka_unit_test(a_stranger_can_name_what_was_evicted),
		cmocka_unit_test(a_short_deadline_gives_short_pages),
		cmocka_unit_test(without_pin_blocks_a_list_waits_to_its_deadline),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
