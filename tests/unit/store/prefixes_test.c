/* SPDX-License-Identifier: Apache-2.0 */
/* Prefixes, and the text form of keys. */
#include <stdio.h>
#include <string.h>

#include "base/fault.h"
#include "scripted.h"

/* Over the null store, which interns as a store must. */
static int null_setup(void **state)
{
	assert_int_equal(kvh_store_open("null:", NULL, (struct kvh_store **)state, NULL), KVH_OK);
	return 0;
}

static int null_teardown(void **state)
{
	assert_int_equal(kvh_store_close(*state, 0), KVH_OK);
	return 0;
}

#define null_test(fn) cmocka_unit_test_setup_teardown(fn, null_setup, null_teardown)

static struct kvh_prefix text_prefix(const char *text)
{
	return (struct kvh_prefix){.struct_bytes = sizeof(struct kvh_prefix),
	                           .text = text,
	                           .text_bytes = strlen(text)};
}

/* The id, or a status. */
static int64_t intern(struct kvh_store *store, const struct kvh_prefix *prefix)
{
	struct kvh_error error = {0};
	uint32_t id = 0;
	kvh_status status = kvh_store_prefix(store, prefix, &id, &error);

	if (status) {
		assert_int_equal(error.status, status);
		assert_true(error.text[0]);
	}
	return status ? status : (int64_t)id;
}

/* proves: S-12, R-1 */
static void text_and_identity_make_the_prefix(void **state)
{
	struct kvh_prefix a = text_prefix("m@group:0@");
	struct kvh_prefix b = text_prefix("m@group:1@");
	struct kvh_prefix c = text_prefix("m@group:0@");
	int64_t id_a = intern(*state, &a);
	int64_t id_b = intern(*state, &b);
	int64_t id_c;

	c.identity = "weights 2";
	c.identity_bytes = 9;
	id_c = intern(*state, &c);
	assert_true(id_a >= 0 && id_b >= 0 && id_c >= 0);
	assert_true(id_a != id_b && id_b != id_c && id_a != id_c);
	assert_int_equal(intern(*state, &a), id_a);
	assert_int_equal(intern(*state, &b), id_b);
	assert_int_equal(intern(*state, &c), id_c);
	c.identity_bytes = 8;
	assert_int_not_equal(intern(*state, &c), id_c);
}

/* proves: T21, S-15 */
static void prefixes_out_of_range_are_refused(void **state)
{
	static char long_text[KVH_PREFIX_TEXT_BYTES_MAX + 2];
	static char identity[KVH_IDENTITY_BYTES_MAX + 1];
	static const char *const bad_texts[] = {"",       "m",         "m@1",   "m@f",
	                                        "m@Z",    "a b@",      "a\t@",  "\n@",
	                                        "m@\x7f", "\xc3\xa9@", "m@\x80"};
	const struct kvh_prefix good = text_prefix("m@");
	struct kvh_prefix prefix;
	kvh_status no = KVH_INVALID_PARAMS;
	uint32_t id;

	for (size_t i = 0; i < COUNT_OF(bad_texts); i++) {
		prefix = text_prefix(bad_texts[i]);
		assert_int_equal(intern(*state, &prefix), no);
	}
	memset(long_text, '@', sizeof(long_text) - 1);
	prefix = text_prefix(long_text);
	assert_int_equal(intern(*state, &prefix), no);
	prefix.text_bytes--;
	assert_true(intern(*state, &prefix) >= 0);
	prefix.text = NULL;
	assert_int_equal(intern(*state, &prefix), no);

	prefix = good;
	prefix.family_bytes = 3;
	assert_int_equal(intern(*state, &prefix), no);
	prefix = good;
	prefix.identity_bytes = 1;
	assert_int_equal(intern(*state, &prefix), no);
	prefix.identity = identity;
	prefix.identity_bytes = sizeof(identity);
	assert_int_equal(intern(*state, &prefix), no);
	prefix.identity_bytes--;
	assert_true(intern(*state, &prefix) >= 0);
	prefix = good;
	prefix.hash_bytes = KVH_KEY_HASH_BYTES_MAX + 1;
	assert_int_equal(intern(*state, &prefix), no);
	prefix = good;
	prefix.struct_bytes = 4;
	assert_int_equal(intern(*state, &prefix), no);
	assert_int_equal(intern(NULL, &good), no);
	assert_int_equal(kvh_store_prefix(*state, NULL, &id, NULL), no);
	assert_int_equal(kvh_store_prefix(*state, &good, NULL, NULL), no);
}

/* proves: S-12 */
static void lengths_of_a_known_prefix_stay(void **state)
{
	struct kvh_prefix prefix = text_prefix("m@g@");
	int64_t id;

	prefix.hash_bytes = 32;
	prefix.family_bytes = 2;
	id = intern(*state, &prefix);
	assert_true(id >= 0);
	prefix.hash_bytes = 16;
	assert_int_equal(intern(*state, &prefix), KVH_INVALID_PARAMS);
	prefix.hash_bytes = 32;
	prefix.family_bytes = 1;
	assert_int_equal(intern(*state, &prefix), KVH_INVALID_PARAMS);
	prefix.family_bytes = 2;
	prefix.quota_bytes = 1000;
	assert_int_equal(intern(*state, &prefix), id);
}

/* proves: T15 */
static void the_prefix_table_has_an_end(void **state)
{
	char text[32];
	struct kvh_prefix prefix;

	for (int i = 0; i < KVH_PREFIXES_MAX; i++) {
		snprintf(text, sizeof(text), "m%d@", i);
		prefix = text_prefix(text);
		assert_int_equal(intern(*state, &prefix), i);
	}
	prefix = text_prefix("one too many@");
	assert_int_equal(intern(*state, &prefix), KVH_INVALID_PARAMS); /* blanks */
	prefix = text_prefix("one-too-many@");
	assert_int_equal(intern(*state, &prefix), KVH_BUSY);
	prefix = text_prefix("m7@");
	assert_int_equal(intern(*state, &prefix), 7);
}

/* proves: S-12 */
static void a_backend_that_mixes_up_prefixes_is_not_believed(void **state)
{
	struct scripted *scripted = *state;
	struct kvh_prefix prefix = text_prefix("other@");

	/* The id of the fixture's own prefix, for another text. */
	scripted->next_prefix_id = scripted->prefix_id;
	assert_int_equal(intern(scripted->store, &prefix), KVH_INTERNAL);
	scripted->next_prefix_id = KVH_PREFIXES_MAX;
	assert_int_equal(intern(scripted->store, &prefix), KVH_INTERNAL);
	scripted->next_prefix_id = KVH_PREFIXES_MAX - 1;
	assert_int_equal(intern(scripted->store, &prefix), KVH_PREFIXES_MAX - 1);
}

/* proves: T4 */
static void no_memory_for_a_prefix_can_be_tried_again(void **state)
{
	struct kvh_prefix prefix = text_prefix("m@");
	uint64_t nth = 1;

	for (;; nth++) {
		int64_t id;

		assert_true(kvh_fault_arm_nth("base/alloc", nth, KVH_NO_MEMORY));
		id = intern(*state, &prefix);
		kvh_fault_disarm_all();
		if (id >= 0)
			break;
		assert_int_equal(id, KVH_NO_MEMORY);
	}
	assert_true(nth > 1);
}

/* ---- text --------------------------------------------------------------------------------- */

static struct kvh_key key_of(struct kvh_store *store, const char *prefix_text, const uint8_t *hash,
                             uint32_t hash_bytes)
{
	struct kvh_prefix prefix = text_prefix(prefix_text);
	int64_t id = intern(store, &prefix);

	assert_true(id >= 0);
	return (struct kvh_key){hash, hash_bytes, (uint32_t)id};
}

/* proves: R-1 */
static void a_key_is_prefix_and_lower_case_hex(void **state)
{
	static const uint8_t hash[] = {0x00, 0x0f, 0xab, 0xff};
	const struct kvh_key key = key_of(*state, "m@tp_rank:0@group:0@", hash, 4);
	char text[64];
	size_t needed = 0;

	assert_int_equal(kvh_store_key_text(*state, &key, text, sizeof(text), &needed), KVH_OK);
	assert_string_equal(text, "m@tp_rank:0@group:0@000fabff");
	assert_int_equal(needed, strlen(text) + 1);
	assert_int_equal(kvh_store_key_text(*state, &key, NULL, 0, &needed), KVH_BUSY);
	assert_int_equal(needed, strlen(text) + 1);
	memset(text, '!', sizeof(text));
	assert_int_equal(kvh_store_key_text(*state, &key, text, needed - 1, NULL), KVH_BUSY);
	assert_int_equal(text[needed - 1], '!');
	assert_int_equal(kvh_store_key_text(*state, &key, text, needed, NULL), KVH_OK);
}

/* proves: R-1 */
static void text_and_key_are_inverse(void **state)
{
	static const char *const prefixes[] = {"m@", "ab@", "a@b@", "x-", "deadbeef:", "@", "m@a@"};
	uint8_t hash[KVH_KEY_HASH_BYTES_MAX], back[KVH_KEY_HASH_BYTES_MAX];
	char text[KVH_PREFIX_TEXT_BYTES_MAX + 2 * KVH_KEY_HASH_BYTES_MAX + 1];

	for (size_t i = 0; i < sizeof(hash); i++)
		hash[i] = (uint8_t)(i * 37 + i / 256);
	for (size_t i = 0; i < COUNT_OF(prefixes); i++) {
		for (uint32_t bytes = 1; bytes <= sizeof(hash); bytes = bytes * 3 + 1) {
			const struct kvh_key key = key_of(*state, prefixes[i], hash, bytes);
			struct kvh_key parsed;

			assert_int_equal(kvh_store_key_text(*state, &key, text, sizeof(text), NULL),
			                 KVH_OK);
			assert_int_equal(kvh_store_key_parse(*state, text, strlen(text), back,
			                                     sizeof(back), &parsed),
			                 KVH_OK);
			assert_int_equal(parsed.prefix_id, key.prefix_id);
			assert_int_equal(parsed.hash_bytes, bytes);
			assert_ptr_equal(parsed.hash, back);
			assert_memory_equal(back, hash, bytes);
		}
	}
}

/* proves: R-1, S-15 */
static void text_that_is_no_key_is_refused(void **state)
{
	static const struct {
		const char *text;
		kvh_status status;
	} cases[] = {
		{"m@00", KVH_OK},
		{"m@0", KVH_INVALID_KEY},
		{"m@", KVH_INVALID_KEY},
		{"m@000", KVH_INVALID_KEY},
		{"", KVH_OBJECT_NOT_FOUND},
		{"00", KVH_OBJECT_NOT_FOUND},
		{"n@00", KVH_OBJECT_NOT_FOUND},
		{"m@0A", KVH_OBJECT_NOT_FOUND},
		{"m@00 ", KVH_OBJECT_NOT_FOUND},
		{"m@00@", KVH_OBJECT_NOT_FOUND},
		{"f@0011", KVH_OK},
		{"f@00", KVH_INVALID_KEY},
	};
	struct kvh_prefix fixed = text_prefix("f@");
	struct kvh_prefix any = text_prefix("m@");
	struct kvh_key key;
	uint8_t hash[4];

	fixed.hash_bytes = 2;
	assert_true(intern(*state, &fixed) >= 0);
	assert_true(intern(*state, &any) >= 0);
	for (size_t i = 0; i < COUNT_OF(cases); i++)
		assert_int_equal(kvh_store_key_parse(*state, cases[i].text, strlen(cases[i].text),
		                                     hash, sizeof(hash), &key),
		                 cases[i].status);
	assert_int_equal(kvh_store_key_parse(*state, "m@0011223344", 12, hash, 4, &key), KVH_BUSY);
	assert_int_equal(kvh_store_key_parse(*state, NULL, 0, hash, 4, &key), KVH_INVALID_PARAMS);
	assert_int_equal(kvh_store_key_parse(*state, "m@00", 4, NULL, 4, &key), KVH_INVALID_PARAMS);
	assert_int_equal(kvh_store_key_parse(*state, "m@00", 4, hash, 4, NULL), KVH_INVALID_PARAMS);
	assert_int_equal(kvh_store_key_text(*state, NULL, NULL, 0, NULL), KVH_INVALID_PARAMS);
}

/* proves: R-1 */
static void of_two_identities_the_newer_is_found(void **state)
{
	struct kvh_prefix prefix = text_prefix("m@");
	struct kvh_key key;
	uint8_t hash[4];
	int64_t id;

	assert_true(intern(*state, &prefix) >= 0);
	prefix.identity = "2";
	prefix.identity_bytes = 1;
	id = intern(*state, &prefix);
	assert_int_equal(kvh_store_key_parse(*state, "m@0011", 6, hash, 4, &key), KVH_OK);
	assert_int_equal(key.prefix_id, id);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		null_test(text_and_identity_make_the_prefix),
		null_test(prefixes_out_of_range_are_refused),
		null_test(lengths_of_a_known_prefix_stay),
		null_test(the_prefix_table_has_an_end),
		scripted_test(a_backend_that_mixes_up_prefixes_is_not_believed),
		null_test(no_memory_for_a_prefix_can_be_tried_again),
		null_test(a_key_is_prefix_and_lower_case_hex),
		null_test(text_and_key_are_inverse),
		null_test(text_that_is_no_key_is_refused),
		null_test(of_two_identities_the_newer_is_found),
	};

	return cmocka_run_group_tests_name("store_prefixes", tests, NULL, NULL);
}
