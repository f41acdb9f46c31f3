/* SPDX-License-Identifier: Apache-2.0 */
/* Store URLs: what is taken, what is refused, and with which words. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "open/url.h"
#include "scripted.h"

static void assert_parse_fails(const char *text, const char *words)
{
	struct kvh_url url;
	struct kvh_error error = {0};

	assert_int_equal(kvh_url_parse(text, &url, &error), KVH_INVALID_PARAMS);
	if (!strstr(error.text, words))
		fail_msg("\"%s\" was to say \"%s\" but says: %s", text ? text : "NULL", words,
		         error.text);
}

/* proves: T11 */
static void urls_are_cut_into_their_parts(void **state)
{
	struct kvh_url url;

	(void)state;
	assert_int_equal(
		kvh_url_parse("sim-x2:///a%20b/c?size=8GiB&path=%2ftmp%3f%26&z_1=%25", &url, NULL),
		KVH_OK);
	assert_string_equal(url.scheme, "sim-x2");
	assert_string_equal(url.rest, "///a b/c");
	assert_int_equal(url.option_count, 3);
	assert_string_equal(url.options[0].name, "size");
	assert_string_equal(url.options[0].value, "8GiB");
	assert_string_equal(url.options[1].name, "path");
	assert_string_equal(url.options[1].value, "/tmp?&");
	assert_string_equal(url.options[2].name, "z_1");
	assert_string_equal(url.options[2].value, "%");
	assert_int_equal(kvh_url_parse("null:", &url, NULL), KVH_OK);
	assert_string_equal(url.rest, "");
	assert_int_equal(url.option_count, 0);
	/* Only the first '?' and the first '=' part; a name alone is no secret. */
	assert_int_equal(kvh_url_parse("a://user@host:1/p?x=a=b?c", &url, NULL), KVH_OK);
	assert_string_equal(url.rest, "//user@host:1/p");
	assert_string_equal(url.options[0].value, "a=b?c");
	assert_int_equal(kvh_url_parse("rdma:?members=redis://host:6379/0", &url, NULL), KVH_OK);
	assert_string_equal(url.options[0].value, "redis://host:6379/0");
}

/* proves: T11, T21 */
static void what_is_no_url_is_refused_with_words(void **state)
{
	(void)state;
	assert_parse_fails(NULL, "is NULL");
	assert_parse_fails("", "scheme");
	assert_parse_fails("null", "scheme");
	assert_parse_fails(":x", "scheme");
	assert_parse_fails("Null:", "scheme");
	assert_parse_fails("1a:", "scheme");
	assert_parse_fails("-a:", "scheme");
	assert_parse_fails("nu/ll:", "scheme");
	assert_parse_fails(" null:", "byte 0");
	assert_parse_fails("null:\n", "byte 5");
	assert_parse_fails("null:\xc3\xa9", "byte 5 is 0xc3");
	assert_parse_fails("null:#a", "'#'");
	assert_parse_fails("null:?", "no name");
	assert_parse_fails("null:?&", "no name");
	assert_parse_fails("null:?a=1&", "option 2 has no name");
	assert_parse_fails("null:?=1", "no name");
	assert_parse_fails("null:?A=1", "no name");
	assert_parse_fails("null:?a-b=1", "no name");
	assert_parse_fails("null:?a%20=1", "no name");
	assert_parse_fails("null:?a", "option a has no value");
	assert_parse_fails("null:?a=", "option a has no value");
	assert_parse_fails("null:?a=1&b=2&a=3", "option a is given twice");
	assert_parse_fails("null:?a=%", "hex digits");
	assert_parse_fails("null:?a=%4", "hex digits");
	assert_parse_fails("null:?a=%4g", "hex digits");
	assert_parse_fails("null:%zz", "hex digits");
	assert_parse_fails("null:?a=%00", "control character");
	assert_parse_fails("null:?a=%1F", "control character");
	assert_parse_fails("null:?a=%7f", "control character");
}

/* proves: T15, T5 */
static void urls_have_a_largest_length_and_number_of_options(void **state)
{
	static char text[KVH_URL_BYTES_MAX + 2];
	struct kvh_url url;
	size_t at;

	(void)state;
	memset(text, 'a', KVH_URL_BYTES_MAX);
	for (size_t i = 0; i < 5; i++)
		text[i] = "null:"[i];
	assert_int_equal(kvh_url_parse(text, &url, NULL), KVH_OK);
	text[KVH_URL_BYTES_MAX] = 'a';
	assert_parse_fails(text, "longer than 4096 bytes");
	at = (size_t)sprintf(text, "null:?");
	for (int i = 0; i < KVH_URL_OPTIONS_MAX; i++)
		at += (size_t)sprintf(text + at, "%sa%d=1", i ? "&" : "", i);
	assert_int_equal(kvh_url_parse(text, &url, NULL), KVH_OK);
	assert_int_equal(url.option_count, KVH_URL_OPTIONS_MAX);
	sprintf(text + at, "&b=1");
	assert_parse_fails(text, "more than 32 options");
}

/* proves: T17, T13 */
static void secrets_are_refused_and_not_repeated(void **state)
{
	static const char *const texts[] = {
		"rdma://user:hunter2@host/0",
		"rdma://:hunter2@host/0",
		"rdma://user:hun%74er2@host/0",
		"rdma:user:hunter2@host",
		"rdma://user:hunter2/x@host/0",
		"rdma:?members=redis://:hunter2@host:6379/0",
		"rdma:?members=redis://u:hunter2%40host:6379/0",
		"rdma:?password=hunter2",
		"rdma:?device=mlx5_0&token=hunter2",
		"rdma:?secret=hunter2",
		"rdma:?password",
	};
	struct kvh_store *store = NULL;

	(void)state;
	for (size_t i = 0; i < COUNT_OF(texts); i++) {
		struct kvh_error error = {0};

		assert_parse_fails(texts[i], "password_file=PATH");
		assert_int_equal(kvh_store_open(texts[i], NULL, &store, &error),
		                 KVH_INVALID_PARAMS);
		assert_null(strstr(error.text, "hunter2"));
	}
	assert_null(store);
}

struct values {
	uint64_t size;
	bool verify;
};

static kvh_status read_values(const char *text, struct values *values, struct kvh_error *error)
{
	const struct kvh_url_known known[] = {
		{"size", KVH_URL_SIZE, &values->size, 4096, 1 << 20},
		{"verify", KVH_URL_FLAG, &values->verify, 0, 0},
	};
	struct kvh_url url;

	assert_int_equal(kvh_url_parse(text, &url, error), KVH_OK);
	return kvh_url_read(&url, known, COUNT_OF(known), error);
}

static void assert_read_fails(const char *text, const char *words)
{
	struct values values = {0};
	struct kvh_error error = {0};

	assert_int_equal(read_values(text, &values, &error), KVH_INVALID_PARAMS);
	if (!strstr(error.text, words))
		fail_msg("\"%s\" was to say \"%s\" but says: %s", text, words, error.text);
}

/* proves: T11 */
static void options_are_read_and_the_rest_left_alone(void **state)
{
	struct values values = {.size = 7, .verify = true};

	(void)state;
	assert_int_equal(read_values("a:", &values, NULL), KVH_OK);
	assert_int_equal(values.size, 7);
	assert_true(values.verify);
	assert_int_equal(read_values("a:?verify=0&size=64KiB", &values, NULL), KVH_OK);
	assert_int_equal(values.size, 65536);
	assert_false(values.verify);
	assert_int_equal(read_values("a:?verify=1&size=4096", &values, NULL), KVH_OK);
	assert_int_equal(values.size, 4096);
	assert_true(values.verify);
	assert_int_equal(read_values("a:?size=1MiB", &values, NULL), KVH_OK);
}

/* proves: T11 */
static void wrong_options_are_refused_with_the_nearest_right_one(void **state)
{
	(void)state;
	assert_read_fails("a:?sise=1GiB", "did you mean size?");
	assert_read_fails("a:?siz=1GiB", "did you mean size?");
	assert_read_fails("a:?verfiy=1", "did you mean verify?");
	assert_read_fails("a:?colour=1", "it has: size verify");
	assert_read_fails("a:?a_name_of_more_than_thirty_two_letters=1", "it has: size verify");
	assert_read_fails("a:?size=big", "option size is no size");
	assert_read_fails("a:?size=-1", "option size is no size");
	assert_read_fails("a:?size=99999999999999999999GiB", "option size is no size");
	assert_read_fails("a:?size=4095", "give 4096 to 1048576");
	assert_read_fails("a:?size=2MiB", "give 4096 to 1048576");
	assert_read_fails("a:?verify=yes", "neither 0 nor 1");
	assert_read_fails("a:?verify=01", "neither 0 nor 1");
}

/* proves: T11 */
static void the_nearest_word_is_near(void **state)
{
	static const char *const words[] = {"local", "rdma", "mooncake"};

	(void)state;
	assert_string_equal(kvh_nearest_word("locale", words, 3), "local");
	assert_string_equal(kvh_nearest_word("lcal", words, 3), "local");
	assert_string_equal(kvh_nearest_word("rdna", words, 3), "rdma");
	assert_string_equal(kvh_nearest_word("moncacke", words, 3), "mooncake");
	assert_null(kvh_nearest_word("redis", words, 3));
	assert_null(kvh_nearest_word("x", words, 3));
	assert_null(kvh_nearest_word("local", words, 0));
}

static void assert_open_fails(const char *text, kvh_status status, const char *words)
{
	struct kvh_store *store = NULL;
	struct kvh_error error = {0};

	assert_int_equal(kvh_store_open(text, NULL, &store, &error), status);
	assert_null(store);
	if (!strstr(error.text, words))
		fail_msg("\"%s\" was to say \"%s\" but says: %s", text, words, error.text);
}

/* proves: B45 */
static void stores_that_are_not_built_in_say_so(void **state)
{
	(void)state;
	assert_open_fails("rdma:?device=mlx5_0", KVH_NOT_SUPPORTED, "not in this build");
	assert_open_fails("mooncake://master:50051", KVH_NOT_SUPPORTED, "not in this build");
	assert_open_fails("sim-mooncake:", KVH_NOT_SUPPORTED, "not in this build");
	assert_open_fails("local:no-such-pool", KVH_OBJECT_NOT_FOUND, "give option size");
	assert_open_fails("local:///dev/shm/no-such-pool", KVH_OBJECT_NOT_FOUND, "there is no");
	assert_open_fails("local:", KVH_INVALID_PARAMS, "needs a size");
	assert_open_fails("local:?size=0", KVH_INVALID_PARAMS, "give 4096 to 4398046511104");
	assert_open_fails("local:?size=5TiB", KVH_INVALID_PARAMS, "give 4096 to 4398046511104");
	assert_open_fails("local:?sise=1GiB", KVH_INVALID_PARAMS, "did you mean size?");
	assert_open_fails("local:?size=1GiB&verify=2", KVH_INVALID_PARAMS, "neither 0 nor 1");
	assert_open_fails("locl:", KVH_INVALID_PARAMS, "did you mean local:?");
	assert_open_fails("https:x", KVH_INVALID_PARAMS, "no store has the scheme https:");
	assert_open_fails("null:x", KVH_INVALID_PARAMS, "takes nothing between");
	assert_open_fails("null:?exist=1", KVH_INVALID_PARAMS, "did you mean exists?");
	assert_open_fails("null:?exists=2", KVH_INVALID_PARAMS, "neither 0 nor 1");
	assert_int_equal(kvh_store_open("null:", NULL, NULL, NULL), KVH_INVALID_PARAMS);
}

/* proves: T21 */
static void open_takes_options_by_their_size(void **state)
{
	const struct kvh_store_options bad = {.struct_bytes = 1};
	const struct kvh_store_options good = {.struct_bytes = sizeof(good)};
	struct kvh_store *store = NULL;

	(void)state;
	assert_int_equal(kvh_store_open("null:", &bad, &store, NULL), KVH_INVALID_PARAMS);
	assert_null(store);
	assert_int_equal(kvh_store_open("null:", &good, &store, NULL), KVH_OK);
	assert_int_equal(kvh_store_close(store, 0), KVH_OK);
}

/* proves: T4 */
static void no_memory_at_any_place_of_open_leaves_nothing(void **state)
{
	struct kvh_store *store = NULL;
	uint64_t nth = 1;

	(void)state;
	for (;; nth++) {
		kvh_status status;

		assert_true(kvh_fault_arm_nth("base/alloc", nth, KVH_NO_MEMORY));
		status = kvh_store_open("null:", NULL, &store, NULL);
		kvh_fault_disarm_all();
		if (status == KVH_OK)
			break;
		assert_int_equal(status, KVH_NO_MEMORY);
		assert_null(store);
	}
	assert_true(nth > 2);
	assert_int_equal(kvh_store_close(store, 0), KVH_OK);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(urls_are_cut_into_their_parts),
		cmocka_unit_test(what_is_no_url_is_refused_with_words),
		cmocka_unit_test(urls_have_a_largest_length_and_number_of_options),
		cmocka_unit_test(secrets_are_refused_and_not_repeated),
		cmocka_unit_test(options_are_read_and_the_rest_left_alone),
		cmocka_unit_test(wrong_options_are_refused_with_the_nearest_right_one),
		cmocka_unit_test(the_nearest_word_is_near),
		cmocka_unit_test(stores_that_are_not_built_in_say_so),
		cmocka_unit_test(open_takes_options_by_their_size),
		cmocka_unit_test(no_memory_at_any_place_of_open_leaves_nothing),
	};

	return cmocka_run_group_tests_name("store_url", tests, NULL, NULL);
}
