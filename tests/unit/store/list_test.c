/* SPDX-License-Identifier: Apache-2.0 */
/* The front door's part of listing: what it refuses, what it believes, and the text of keys. */
#include <string.h>

#include "base/fault.h"
#include "scripted.h"

enum { FOREIGN_ID = 7 }; /* a prefix that another process interned */

struct page {
	struct kvh_list list;
	struct kvh_listed objects[2];
	uint8_t hashes[KVH_KEY_HASH_BYTES_MAX];
	uint64_t cursor;
	size_t count;
};

static void make_page(struct page *page)
{
	memset(page, 0, sizeof(*page));
	page->list = (struct kvh_list){.struct_bytes = sizeof(page->list),
	                               .objects = page->objects,
	                               .capacity = COUNT_OF(page->objects),
	                               .hashes = page->hashes,
	                               .hashes_bytes = sizeof(page->hashes)};
	page->cursor = 10;
	page->count = 77;
}

static kvh_status list_page(struct scripted *scripted, struct page *page)
{
	return kvh_store_list(scripted->store, &page->list, &page->cursor, &page->count, NULL);
}

/* proves: D-5 */
static void cursor_and_count_move_on_success_only(void **state)
{
	struct scripted *scripted = *state;
	struct page page;

	make_page(&page);
	scripted->answer = -4242;
	assert_int_equal(list_page(scripted, &page), -4242);
	assert_int_equal(page.cursor, 10);
	assert_int_equal(page.count, 77);
	scripted->answer = KVH_OK;
	assert_int_equal(list_page(scripted, &page), KVH_OK);
	assert_int_equal(page.cursor, 15);
	assert_int_equal(page.count, 0);
	assert_int_equal(scripted_calls(scripted), 2);
}

/* proves: T21 */
static void lists_without_room_are_refused(void **state)
{
	struct scripted *scripted = *state;
	struct kvh_list bad[10];
	struct page page;

	make_page(&page);
	for (size_t i = 0; i < COUNT_OF(bad); i++)
		bad[i] = page.list;
	bad[0].struct_bytes = 0;
	bad[1].struct_bytes = 7;
	bad[2].flags = 2;
	bad[3].reserved = 1;
	bad[4].objects = NULL;
	bad[5].capacity = 0;
	bad[6].capacity = KVH_BATCH_KEYS_MAX + 1;
	bad[7].hashes = NULL;
	bad[8].hashes_bytes = 0;
	bad[9].hashes_bytes = KVH_KEY_HASH_BYTES_MAX - 1;
	for (size_t i = 0; i < COUNT_OF(bad); i++)
		assert_int_equal(
			kvh_store_list(scripted->store, &bad[i], &page.cursor, &page.count, NULL),
			KVH_INVALID_PARAMS);
	assert_int_equal(kvh_store_list(scripted->store, NULL, &page.cursor, &page.count, NULL),
	                 KVH_INVALID_PARAMS);
	assert_int_equal(kvh_store_list(scripted->store, &page.list, NULL, &page.count, NULL),
	                 KVH_INVALID_PARAMS);
	assert_int_equal(kvh_store_list(scripted->store, &page.list, &page.cursor, NULL, NULL),
	                 KVH_INVALID_PARAMS);
	assert_int_equal(kvh_store_list(NULL, &page.list, &page.cursor, &page.count, NULL),
	                 KVH_INVALID_PARAMS);
	assert_int_equal(page.cursor, 10);
	assert_int_equal(page.count, 77);
	assert_int_equal(scripted_calls(scripted), 0);
}

/* proves: S-9 */
static void a_list_that_is_over_is_not_begun(void **state)
{
	struct scripted *scripted = *state;
	const struct kvh_call late = {.struct_bytes = sizeof(late), .deadline_ns = 1};
	struct page page;

	make_page(&page);
	assert_int_equal(
		kvh_store_list(scripted->store, &page.list, &page.cursor, &page.count, &late),
		KVH_TIMEOUT);
	assert_int_equal(scripted_calls(scripted), 0);
}

/* proves: S-15 */
static void an_answer_outside_of_its_room_is_not_believed(void **state)
{
	struct scripted *scripted = *state;
	struct page page;
	struct kvh_key bad[4];

	make_page(&page);
	scripted->listed_count = 3;
	assert_int_equal(list_page(scripted, &page), KVH_INTERNAL);
	scripted->listed_count = 1;
	bad[0] = (struct kvh_key){page.hashes, KVH_KEY_HASH_BYTES_MAX + 1, 0};
	bad[1] = (struct kvh_key){(uint8_t *)((uintptr_t)page.hashes - 1), 1, 0};
	bad[2] = (struct kvh_key){page.hashes + 1, KVH_KEY_HASH_BYTES_MAX, 0};
	bad[3] = (struct kvh_key){NULL, 1, 0};
	for (size_t i = 0; i < COUNT_OF(bad); i++) {
		scripted->listed.key = bad[i];
		assert_int_equal(list_page(scripted, &page), KVH_INTERNAL);
	}
	assert_int_equal(page.count, 77);
	scripted->listed.key = (struct kvh_key){page.hashes, KVH_KEY_HASH_BYTES_MAX, 0};
	assert_int_equal(list_page(scripted, &page), KVH_OK);
	assert_int_equal(page.count, 1);
	/* A key that can't be told points nowhere. */
	scripted->listed.key = (struct kvh_key){NULL, 0, UINT32_MAX};
	assert_int_equal(list_page(scripted, &page), KVH_OK);
}

/* ---- prefixes of others ------------------------------------------------------------------- */

static void tell(struct scripted *scripted, const char *text)
{
	scripted->told = (struct kvh_prefix){.struct_bytes = sizeof(scripted->told),
	                                     .text = text,
	                                     .text_bytes = strlen(text),
	                                     .hash_bytes = 2};
}

/* proves: R-1 */
static void a_key_of_a_foreign_prefix_has_a_text(void **state)
{
	static const uint8_t hash[] = {0xab, 0x01};
	struct scripted *scripted = *state;
	struct kvh_key key = {hash, 2, FOREIGN_ID};
	char text[32];
	size_t needed;

	assert_int_equal(kvh_store_key_text(scripted->store, &key, text, sizeof(text), NULL),
	                 KVH_INVALID_PARAMS);
	tell(scripted, "other@0@");
	assert_int_equal(kvh_store_key_text(scripted->store, &key, text, sizeof(text), NULL),
	                 KVH_OK);
	assert_string_equal(text, "other@0@ab01");
	assert_int_equal(
		kvh_store_prefix_text(scripted->store, FOREIGN_ID, text, sizeof(text), &needed),
		KVH_OK);
	assert_string_equal(text, "other@0@");
	assert_int_equal(needed, 9);
	/* Asked once, remembered. */
	assert_int_equal(scripted_calls(scripted), 2);
	key.hash_bytes = 3;
	assert_int_equal(kvh_store_key_text(scripted->store, &key, text, sizeof(text), NULL),
	                 KVH_INVALID_PARAMS);
}

/* Its identity was never compared, so its bytes are nobody's to read (B13). */
/* proves: B13 */
static void a_foreign_prefix_is_no_interned_one(void **state)
{
	struct scripted *scripted = *state;
	struct kvh_prefix prefix = {.struct_bytes = sizeof(prefix),
	                            .text = "other@0@",
	                            .text_bytes = 8,
	                            .hash_bytes = 2};
	struct kvh_key parsed;
	char text[32];
	uint8_t hash[8];
	uint32_t id;

	tell(scripted, "other@0@");
	assert_int_equal(
		kvh_store_prefix_text(scripted->store, FOREIGN_ID, text, sizeof(text), NULL),
		KVH_OK);
	scripted->key = (struct kvh_key){hash, 2, FOREIGN_ID};
	assert_int_equal(kvh_store_exists(scripted->store, &scripted->batch, 0, NULL),
	                 KVH_INVALID_PARAMS);
	assert_int_equal(kvh_store_key_parse(scripted->store, "other@0@ab01", 12, hash, 8, &parsed),
	                 KVH_OBJECT_NOT_FOUND);
	/* With its identity it is interned as ever. */
	prefix.identity = "weights 2";
	prefix.identity_bytes = 9;
	scripted->next_prefix_id = FOREIGN_ID;
	assert_int_equal(kvh_store_prefix(scripted->store, &prefix, &id, NULL), KVH_OK);
	assert_int_equal(id, FOREIGN_ID);
	assert_int_equal(kvh_store_exists(scripted->store, &scripted->batch, 0, NULL), KVH_OK);
	assert_int_equal(kvh_store_key_parse(scripted->store, "other@0@ab01", 12, hash, 8, &parsed),
	                 KVH_OK);
}

/* proves: S-15 */
static void a_prefix_that_is_none_is_not_believed(void **state)
{
	static char long_text[KVH_PREFIX_TEXT_BYTES_MAX + 1];
	struct scripted *scripted = *state;
	struct kvh_store *store = scripted->store;
	char text[512];

	memset(long_text, '@', sizeof(long_text));
	tell(scripted, "blank @");
	assert_int_equal(kvh_store_prefix_text(store, FOREIGN_ID, text, sizeof(text), NULL),
	                 KVH_OBJECT_NOT_FOUND);
	tell(scripted, "ends-in-hex-a0");
	assert_int_equal(kvh_store_prefix_text(store, FOREIGN_ID, text, sizeof(text), NULL),
	                 KVH_OBJECT_NOT_FOUND);
	tell(scripted, "ok@");
	scripted->told.hash_bytes = KVH_KEY_HASH_BYTES_MAX + 1;
	assert_int_equal(kvh_store_prefix_text(store, FOREIGN_ID, text, sizeof(text), NULL),
	                 KVH_OBJECT_NOT_FOUND);
	tell(scripted, "ok@");
	scripted->told.family_bytes = 4;
	assert_int_equal(kvh_store_prefix_text(store, FOREIGN_ID, text, sizeof(text), NULL),
	                 KVH_OBJECT_NOT_FOUND);
	tell(scripted, "ok@");
	scripted->text_elsewhere = true;
	assert_int_equal(kvh_store_prefix_text(store, FOREIGN_ID, text, sizeof(text), NULL),
	                 KVH_OBJECT_NOT_FOUND);
	scripted->told.text = long_text;
	scripted->told.text_bytes = sizeof(long_text);
	assert_int_equal(kvh_store_prefix_text(store, FOREIGN_ID, text, sizeof(text), NULL),
	                 KVH_OBJECT_NOT_FOUND);
	assert_int_equal(kvh_store_prefix_text(store, KVH_PREFIXES_MAX, text, sizeof(text), NULL),
	                 KVH_OBJECT_NOT_FOUND);
	assert_int_equal(kvh_store_prefix_text(store, UINT32_MAX, text, sizeof(text), NULL),
	                 KVH_OBJECT_NOT_FOUND);
}

/* proves: T4, T21 */
static void the_text_of_a_prefix_needs_room_and_memory(void **state)
{
	struct scripted *scripted = *state;
	struct kvh_store *store = scripted->store;
	char text[32];
	size_t needed = 0;

	tell(scripted, "other@0@");
	assert_true(kvh_fault_arm_nth("base/alloc", 1, KVH_NO_MEMORY));
	assert_int_equal(kvh_store_prefix_text(store, FOREIGN_ID, text, sizeof(text), NULL),
	                 KVH_NO_MEMORY);
	kvh_fault_disarm_all();
	assert_int_equal(kvh_store_prefix_text(store, FOREIGN_ID, NULL, 0, &needed), KVH_BUSY);
	assert_int_equal(needed, 9);
	assert_int_equal(kvh_store_prefix_text(store, FOREIGN_ID, text, 8, NULL), KVH_BUSY);
	assert_int_equal(kvh_store_prefix_text(store, FOREIGN_ID, text, 9, NULL), KVH_OK);
	assert_int_equal(kvh_store_prefix_text(store, FOREIGN_ID, NULL, 9, NULL),
	                 KVH_INVALID_PARAMS);
	assert_int_equal(kvh_store_prefix_text(NULL, FOREIGN_ID, text, 9, NULL),
	                 KVH_INVALID_PARAMS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		scripted_test(cursor_and_count_move_on_success_only),
		scripted_test(lists_without_room_are_refused),
		scripted_test(a_list_that_is_over_is_not_begun),
		scripted_test(an_answer_outside_of_its_room_is_not_believed),
		scripted_test(a_key_of_a_foreign_prefix_has_a_text),
		scripted_test(a_foreign_prefix_is_no_interned_one),
		scripted_test(a_prefix_that_is_none_is_not_believed),
		scripted_test(the_text_of_a_prefix_needs_room_and_memory),
	};

	return cmocka_run_group_tests_name("store_list", tests, NULL, NULL);
}
