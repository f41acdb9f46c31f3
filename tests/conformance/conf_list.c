/* SPDX-License-Identifier: Apache-2.0 */
/* Conformance: what a store lists of itself. */
#include <string.h>

#include "conformance.h"

enum { PAGE_OBJECTS = 7, TURNS_MAX = 100000, FRESH = 1000000, OTHERS = 2000000 };

/* Small, so that a list takes many pages; hashes have just the room that one key may need. */
struct page {
	struct kvh_listed objects[PAGE_OBJECTS];
	uint8_t hashes[KVH_KEY_HASH_BYTES_MAX];
	uint64_t cursor;
	size_t count;
};

static void list_page(struct conf *conf, struct page *page, uint32_t flags)
{
	const struct kvh_list list = {.struct_bytes = sizeof(list),
	                              .flags = flags,
	                              .objects = page->objects,
	                              .capacity = PAGE_OBJECTS,
	                              .hashes = page->hashes,
	                              .hashes_bytes = sizeof(page->hashes)};

	assert_int_equal(kvh_store_list(conf->store, &list, &page->cursor, &page->count, NULL),
	                 KVH_OK);
	for (size_t i = 0; i < page->count; i++) {
		kvh_status status = page->objects[i].status;

		assert_true(status == KVH_OK ||
		            (status == KVH_NOT_SUPPORTED && (flags & KVH_LIST_VERIFY)));
		assert_int_equal(page->objects[i].reserved, 0);
	}
}

/* How often a key stands in a whole list; *listed: as it stood there last. */
static size_t times_listed(struct conf *conf, const struct kvh_key *key, struct kvh_listed *listed)
{
	struct page page = {.cursor = 0};
	size_t times = 0;

	for (unsigned turn = 0; turn == 0 || page.cursor; turn++) {
		assert_true(turn < TURNS_MAX);
		list_page(conf, &page, 0);
		for (size_t i = 0; i < page.count; i++) {
			const struct kvh_key *at = &page.objects[i].key;

			if (at->prefix_id != key->prefix_id || at->hash_bytes != key->hash_bytes ||
			    memcmp(at->hash, key->hash, key->hash_bytes) != 0)
				continue;
			times++;
			*listed = page.objects[i];
		}
	}
	return times;
}

static size_t list_all(struct conf *conf, uint32_t flags)
{
	struct page page = {.cursor = 0};
	size_t objects = 0;

	for (unsigned turn = 0; turn == 0 || page.cursor; turn++) {
		assert_true(turn < TURNS_MAX);
		list_page(conf, &page, flags);
		objects += page.count;
	}
	return objects;
}

static size_t times_number(struct conf *conf, uint64_t number, struct kvh_listed *listed)
{
	struct conf_key key;

	conf_key_make(&key, conf->prefix_id, number);
	return times_listed(conf, &key.key, listed);
}

/* proves: S-1 */
static void what_was_put_is_listed_once(void **state)
{
	enum { COUNT = 100 };
	struct conf *conf = *state;
	struct kvh_listed listed;
	struct conf_key key;

	if (!conf->caps.list)
		skip();
	assert_int_equal(list_all(conf, 0), 0);
	for (uint64_t i = 0; i < COUNT; i++) {
		conf_key_make(&key, conf->prefix_id, i);
		assert_int_equal(conf_put(conf, &key.key, i, 1000 + 100 * i, NULL), 0);
	}
	for (uint64_t i = 0; i < COUNT; i++) {
		assert_int_equal(times_number(conf, i, &listed), 1);
		assert_int_equal(listed.bytes, 1000 + 100 * i);
	}
	assert_int_equal(list_all(conf, 0), COUNT);
	assert_int_equal(list_all(conf, KVH_LIST_VERIFY), COUNT);
	for (uint64_t i = 0; i < COUNT; i += 2) {
		conf_key_make(&key, conf->prefix_id, i);
		assert_int_equal(conf_remove(conf, &key.key), 0);
	}
	assert_int_equal(list_all(conf, 0), COUNT / 2);
	assert_int_equal(kvh_store_clear(conf->store, NULL, NULL), KVH_OK);
	assert_int_equal(list_all(conf, 0), 0);
}

/* proves: S-12 */
static void keys_of_every_length_are_listed_whole(void **state)
{
	static const uint32_t lengths[] = {1, 2, 8, 16, 31, 32, 33, 40, 64, 65, 255, 1024};
	enum { COUNT = sizeof(lengths) / sizeof(lengths[0]) };
	struct conf *conf = *state;
	uint8_t hash[KVH_KEY_HASH_BYTES_MAX];
	struct kvh_key key = {.hash = hash, .prefix_id = conf->prefix_id};
	struct kvh_listed listed;

	if (!conf->caps.list)
		skip();
	for (size_t i = 0; i < sizeof(hash); i++)
		hash[i] = (uint8_t)(i * 37 + i / 256);
	for (size_t i = 0; i < COUNT; i++) {
		key.hash_bytes = lengths[i];
		assert_int_equal(conf_put(conf, &key, i, 2000 + i, NULL), 0);
	}
	for (size_t i = 0; i < COUNT; i++) {
		key.hash_bytes = lengths[i];
		assert_int_equal(times_listed(conf, &key, &listed), 1);
		assert_int_equal(listed.bytes, 2000 + i);
	}
	assert_int_equal(list_all(conf, 0), COUNT);
}

/* proves: R-1, S-12 */
static void a_listed_key_has_the_text_of_its_own_prefix(void **state)
{
	struct conf *conf = *state;
	uint32_t prefix_id = conf_prefix(conf, "conf@1@", NULL);
	struct page page = {.cursor = 0};
	struct conf_key key, other;
	char text[128], wanted[128];

	if (!conf->caps.list)
		skip();
	conf_key_make(&key, prefix_id, 1);
	conf_key_make(&other, conf->prefix_id, 1);
	assert_int_equal(conf_put(conf, &key.key, 1, 100, NULL), 0);
	do
		list_page(conf, &page, 0);
	while (page.count == 0 && page.cursor);
	assert_int_equal(page.count, 1);
	assert_int_equal(
		kvh_store_key_text(conf->store, &page.objects[0].key, text, sizeof(text), NULL),
		KVH_OK);
	assert_int_equal(kvh_store_key_text(conf->store, &key.key, wanted, sizeof(wanted), NULL),
	                 KVH_OK);
	assert_string_equal(text, wanted);
	assert_int_equal(kvh_store_prefix_text(conf->store, page.objects[0].key.prefix_id, text,
	                                       sizeof(text), NULL),
	                 KVH_OK);
	assert_string_equal(text, "conf@1@");
}

/* proves: S-1 */
static void only_what_a_get_would_find_is_listed(void **state)
{
	struct conf *conf = *state;
	struct kvh_token token;
	const struct kvh_put_options hold = {
		.struct_bytes = sizeof(hold), .flags = KVH_PUT_HOLD, .tokens = &token};
	const struct kvh_put_options expire = {.struct_bytes = sizeof(expire),
	                                       .expire_seconds = 60};
	struct kvh_result result;
	struct kvh_listed listed;

	if (!conf->caps.list)
		skip();
	if (conf->caps.hold) {
		assert_int_equal(conf_put_number(conf, conf->prefix_id, 1, &hold), 0);
		assert_int_equal(times_number(conf, 1, &listed), 0);
		assert_int_equal(kvh_store_commit(conf->store, &token, 1, &result), KVH_OK);
		assert_int_equal(times_number(conf, 1, &listed), 1);
	}
	assert_int_equal(conf_put_number(conf, conf->prefix_id, 2, &expire), 0);
	assert_int_equal(times_number(conf, 2, &listed), 1);
	conf_clock_forward(&conf->clock, 120);
	assert_int_equal(times_number(conf, 2, &listed), 0);
}

/* proves: B20 */
static void being_listed_protects_nobody(void **state)
{
	struct conf *conf = *state;
	size_t fit, quarter;

	if (!conf->caps.list)
		skip();
	fit = conf_fill_up(conf, conf->prefix_id, 0);
	quarter = fit / 4;
	assert_int_equal(kvh_store_clear(conf->store, NULL, NULL), KVH_OK);
	for (size_t i = 0; i < fit; i++)
		assert_int_equal(conf_put_number(conf, conf->prefix_id, FRESH + i, NULL), 0);
	/* By number, and so each for itself from the youngest on. */
	for (size_t i = fit; i-- > 0;) {
		struct kvh_listed listed;

		assert_int_equal(times_number(conf, FRESH + i, &listed), 1);
	}
	assert_int_equal(list_all(conf, KVH_LIST_VERIFY), fit);
	for (size_t i = 0; i < quarter; i++)
		assert_int_equal(conf_put_number(conf, conf->prefix_id, OTHERS + i, NULL), 0);
	assert_true(conf_count_numbers(conf, conf->prefix_id, FRESH, quarter) <= quarter / 4);
	assert_true(conf_count_numbers(conf, conf->prefix_id, FRESH + fit - quarter, quarter) >=
	            quarter - quarter / 4);
}

/* proves: B42 */
static void a_list_says_how_an_object_was_put(void **state)
{
	struct conf *conf = *state;
	const struct kvh_put_options keep = {
		.struct_bytes = sizeof(keep), .priority = 2, .keep_seconds = 600};
	const struct kvh_put_options expire = {
		.struct_bytes = sizeof(expire),
		.flags = conf->caps.lifecycle ? KVH_PUT_LIFECYCLE_GROUP : 0,
		.expire_seconds = 600};
	struct kvh_listed plain, kept, ending;

	if (!conf->caps.list)
		skip();
	assert_int_equal(conf_put_number(conf, conf->prefix_id, 1, &keep), 0);
	assert_int_equal(conf_put_number(conf, conf->prefix_id, 2, &expire), 0);
	assert_int_equal(conf_put_number(conf, conf->prefix_id, 3, NULL), 0);
	assert_int_equal(times_number(conf, 1, &kept), 1);
	assert_int_equal(times_number(conf, 2, &ending), 1);
	assert_int_equal(times_number(conf, 3, &plain), 1);
	assert_int_equal(kept.priority, 2);
	/* A store may keep its times in steps. */
	assert_true(kept.keep_seconds > 500 && kept.keep_seconds < 700);
	assert_int_equal(kept.expire_seconds, 0);
	assert_int_equal(kept.flags, 0);
	assert_true(ending.expire_seconds > 500 && ending.expire_seconds < 700);
	assert_int_equal(ending.keep_seconds, 0);
	assert_int_equal(ending.priority, 0);
	assert_int_equal(ending.flags, conf->caps.lifecycle ? KVH_LISTED_LIFECYCLE_GROUP : 0);
	assert_int_equal(plain.priority | plain.keep_seconds | plain.expire_seconds, 0);
	assert_true(kept.uses_since >= plain.uses_since);
	conf_clock_forward(&conf->clock, 700);
	assert_int_equal(times_number(conf, 1, &kept), 1);
	assert_int_equal(kept.keep_seconds, 0);
}

/* proves: S-1 */
static void changes_between_two_pages_hide_nobody_else(void **state)
{
	enum { COUNT = 60 };
	struct conf *conf = *state;
	struct page page = {.cursor = 0};
	unsigned char times[COUNT] = {0};
	struct conf_key key;

	if (!conf->caps.list)
		skip();
	for (uint64_t i = 0; i < COUNT; i++)
		assert_int_equal(conf_put_number(conf, conf->prefix_id, i, NULL), 0);
	for (unsigned turn = 0; turn == 0 || page.cursor; turn++) {
		assert_true(turn < TURNS_MAX);
		list_page(conf, &page, 0);
		for (size_t i = 0; i < page.count; i++)
			for (uint64_t number = 0; number < COUNT; number++) {
				conf_key_make(&key, conf->prefix_id, number);
				times[number] += memcmp(key.hash, page.objects[i].key.hash,
				                        CONF_HASH_BYTES) == 0;
			}
		/* All but the first that this page told leave, and others come. */
		for (size_t i = 1; i < page.count; i++)
			assert_int_equal(conf_remove(conf, &page.objects[i].key), 0);
		conf_put_number(conf, conf->prefix_id, FRESH + turn, NULL);
	}
	for (size_t i = 0; i < COUNT; i++)
		assert_int_equal(times[i], 1);
}

static const struct CMUnitTest tests[] = {
	conf_test(what_was_put_is_listed_once),
	conf_test(keys_of_every_length_are_listed_whole),
	conf_test(a_listed_key_has_the_text_of_its_own_prefix),
	conf_test(only_what_a_get_would_find_is_listed),
	conf_test(being_listed_protects_nobody),
	conf_test(a_list_says_how_an_object_was_put),
	conf_test(changes_between_two_pages_hide_nobody_else),
};

CONF_GROUP(conf_list_group, tests);
