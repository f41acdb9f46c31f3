/* SPDX-License-Identifier: Apache-2.0 */
/* Keys are composed in one form and come apart into what they were made of. */
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "layout/keys.h"
#include "unit/base/unit.h"

static struct kvh_prefix_text composed(const struct kvh_key_parts *parts)
{
	struct kvh_prefix_text prefix;
	struct kvh_error error = {0};

	if (kvh_key_compose(parts, &prefix, &error) != KVH_OK)
		fail_msg("%s", error.text);
	return prefix;
}

/* proves: R-1 */
static void a_key_names_prefix_model_namespace_ranks_and_group(void **state)
{
	struct kvh_key_parts parts = {.cache_prefix = "dep",
	                              .model = "org/m",
	                              .name_space = "@store_tp:4@store_pp:1",
	                              .tp_rank = 3,
	                              .pcp_rank = 1,
	                              .dcp_rank = 2,
	                              .pp_rank = 4,
	                              .group = 5};
	struct kvh_prefix_text prefix = composed(&parts);

	(void)state;
	assert_string_equal(prefix.text, "dep@m@store_tp:4@store_pp:1@tp_rank:3@pcp1@dcp2@pp_rank:4"
	                                 "@group:5@");
	assert_int_equal(prefix.text_bytes, strlen(prefix.text));
	assert_int_equal(prefix.family_bytes, strlen("dep@m@store_tp:4@store_pp:1"));
	parts = (struct kvh_key_parts){.cache_prefix = "", .model = "m"};
	prefix = composed(&parts);
	assert_string_equal(prefix.text, "m@tp_rank:0@pcp0@dcp0@pp_rank:0@group:0@");
	assert_int_equal(prefix.family_bytes, 1);
}

/* proves: R-1 */
static void only_the_last_part_of_the_models_path_counts(void **state)
{
	static const char *const paths[] = {"m", "/m", "a/m", "/data/a/m", "m/", "a/m///"};

	(void)state;
	for (size_t index = 0; index < COUNT_OF(paths); index++) {
		struct kvh_key_parts parts = {.model = paths[index]};

		assert_int_equal(composed(&parts).family_bytes, 1);
		assert_memory_equal(composed(&parts).text, "m@tp_rank", strlen("m@tp_rank"));
	}
}

static void assert_refused(const struct kvh_key_parts *parts, const char *word)
{
	struct kvh_prefix_text prefix, untouched;
	struct kvh_error error = {0};

	memset(&prefix, 0x5a, sizeof(prefix));
	memset(&untouched, 0x5a, sizeof(untouched));
	assert_int_equal(kvh_key_compose(parts, &prefix, &error), KVH_INVALID_PARAMS);
	assert_non_null(strstr(error.text, word));
	assert_memory_equal(&prefix, &untouched, sizeof(prefix));
}

/* proves: R-1 */
static void a_prefix_that_stores_can_not_carry_is_refused_with_words(void **state)
{
	static const char *const empty_models[] = {"", "/", "///", NULL};
	static const char *const bad[] = {"a b", "a\tb", "a\nb", "caf\xc3\xa9", "\x7f", " "};

	(void)state;
	for (size_t index = 0; index < COUNT_OF(empty_models); index++)
		assert_refused(&(struct kvh_key_parts){.model = empty_models[index]}, "empty");
	for (size_t index = 0; index < COUNT_OF(bad); index++) {
		assert_refused(&(struct kvh_key_parts){.model = bad[index]}, "ASCII");
		assert_refused(&(struct kvh_key_parts){.model = "m", .cache_prefix = bad[index]},
		               "ASCII");
		assert_refused(&(struct kvh_key_parts){.model = "m", .name_space = bad[index]},
		               "ASCII");
	}
}

/* proves: R-1 */
static void the_longest_prefix_text_fits_and_one_byte_more_is_refused(void **state)
{
	char model[KVH_PREFIX_TEXT_BYTES_MAX + 1] = {0};
	struct kvh_key_parts parts = {.model = model};
	const size_t rest_bytes = strlen("@tp_rank:0@pcp0@dcp0@pp_rank:0@group:0@");
	struct kvh_key_spans spans;
	struct kvh_prefix_text prefix;
	char key[KVH_PREFIX_TEXT_BYTES_MAX + 8];

	(void)state;
	memset(model, 'm', KVH_PREFIX_TEXT_BYTES_MAX - rest_bytes);
	prefix = composed(&parts);
	assert_int_equal(prefix.text_bytes, KVH_PREFIX_TEXT_BYTES_MAX);
	snprintf(key, sizeof(key), "%sab", prefix.text);
	assert_int_equal(kvh_key_parse(key, strlen(key), &spans), KVH_OK);
	snprintf(key, sizeof(key), "m%sab", prefix.text);
	assert_int_equal(kvh_key_parse(key, strlen(key), &spans), KVH_INVALID_KEY);
	model[KVH_PREFIX_TEXT_BYTES_MAX - rest_bytes] = 'm';
	assert_refused(&parts, "at most 384");
}

/* Whether key and spans say the same as parts and hash. */
static void assert_round_trip(const struct kvh_key_parts *parts, const char *hash_hex)
{
	struct kvh_prefix_text prefix = composed(parts);
	struct kvh_key_spans spans;
	char key[KVH_PREFIX_TEXT_BYTES_MAX + 2 * KVH_KEY_HASH_BYTES_MAX + 1];

	snprintf(key, sizeof(key), "%s%s", prefix.text, hash_hex);
	assert_int_equal(kvh_key_parse(key, strlen(key), &spans), KVH_OK);
	assert_ptr_equal(spans.head, key);
	assert_int_equal(spans.head_bytes, prefix.family_bytes);
	assert_int_equal(spans.tp_rank, parts->tp_rank);
	assert_int_equal(spans.pcp_rank, parts->pcp_rank);
	assert_int_equal(spans.dcp_rank, parts->dcp_rank);
	assert_int_equal(spans.pp_rank, parts->pp_rank);
	assert_int_equal(spans.group, parts->group);
	assert_ptr_equal(spans.hash_hex, key + prefix.text_bytes);
	assert_int_equal(spans.hash_hex_bytes, strlen(hash_hex));
}

/* proves: R-1 */
static void a_key_comes_apart_whatever_signs_its_head_holds(void **state)
{
	static const char *const heads[] = {
		"dep",       "a@b",       "@",
		"@@",        "tp_rank:1", "x@tp_rank:0@pcp0@dcp0@pp_rank:0@group:0@ab",
		"m@group:1", "a/b",       ":"};
	uint64_t seed = 7;

	(void)state;
	for (size_t index = 0; index < COUNT_OF(heads); index++) {
		for (size_t draws = 0; draws < 20; draws++) {
			struct kvh_key_parts parts = {
				.cache_prefix = heads[index],
				.model = heads[draw(&seed) % COUNT_OF(heads)],
				.tp_rank = (uint32_t)(draw(&seed) >> (draw(&seed) % 64)),
				.pcp_rank = (uint32_t)draw(&seed),
				.dcp_rank = UINT32_MAX,
				.pp_rank = (uint32_t)(draw(&seed) % 12),
				.group = (uint32_t)(draw(&seed) % 64)};

			assert_round_trip(&parts, "00ff");
		}
	}
}

/* proves: R-1 */
static void text_that_compose_can_not_have_built_is_no_key(void **state)
{
	static const char *const bad[] = {
		"",
		"@",
		"ab",
		"m@tp_rank:0@pcp0@dcp0@pp_rank:0@group:0@",
		"m@tp_rank:0@pcp0@dcp0@pp_rank:0@group:0@a",
		"m@tp_rank:0@pcp0@dcp0@pp_rank:0@group:0@AB",
		"m@tp_rank:0@pcp0@dcp0@pp_rank:0@group:0@ag",
		"m@tp_rank:0@pcp0@dcp0@pp_rank:0@group:00@ab",
		"m@tp_rank:0@pcp0@dcp0@pp_rank:0@group:@ab",
		"m@tp_rank:0@pcp0@dcp0@pp_rank:0@group:-1@ab",
		"m@tp_rank:0@pcp0@dcp0@pp_rank:0@group:+1@ab",
		"m@tp_rank:0@pcp0@dcp0@pp_rank:0@group:4294967296@ab",
		"m@tp_rank:0@pcp0@dcp0@pp_rank:0@group:99999999999999999999@ab",
		"m@tp_rank:0@pcp0@dcp0@pp_rank:0@Group:0@ab",
		"m@tp_rank:0@pcp0@dcp0@group:0@pp_rank:0@ab",
		"m@tp_rank:0@pcp:0@dcp0@pp_rank:0@group:0@ab",
		"m@tp_rank:0@dcp0@pp_rank:0@group:0@ab",
		"m@tp_rank:01@pcp0@dcp0@pp_rank:0@group:0@ab",
		"@tp_rank:0@pcp0@dcp0@pp_rank:0@group:0@ab",
		"tp_rank:0@pcp0@dcp0@pp_rank:0@group:0@ab",
		"m m@tp_rank:0@pcp0@dcp0@pp_rank:0@group:0@ab",
		"m\x80@tp_rank:0@pcp0@dcp0@pp_rank:0@group:0@ab"};
	struct kvh_key_spans spans;

	(void)state;
	for (size_t index = 0; index < COUNT_OF(bad); index++) {
		if (kvh_key_parse(bad[index], strlen(bad[index]), &spans) != KVH_INVALID_KEY)
			fail_msg("accepted: %s", bad[index]);
	}
	/* A 0 inside the text is no end of it. */
	assert_int_equal(kvh_key_parse("m\0@tp_rank:0@pcp0@dcp0@pp_rank:0@group:0@ab",
	                               strlen("m0@tp_rank:0@pcp0@dcp0@pp_rank:0@group:0@ab"),
	                               &spans),
	                 KVH_INVALID_KEY);
}

/* proves: R-1 */
static void the_longest_hash_is_the_limit(void **state)
{
	static char hex[2 * KVH_KEY_HASH_BYTES_MAX + 3];
	static char key[sizeof(hex) + KVH_PREFIX_TEXT_BYTES_MAX];
	struct kvh_key_parts parts = {.model = "m"};
	struct kvh_key_spans spans;

	(void)state;
	memset(hex, 'a', sizeof(hex) - 3);
	assert_round_trip(&parts, hex);
	memset(hex, 'a', sizeof(hex) - 1);
	snprintf(key, sizeof(key), "%s%s", composed(&parts).text, hex);
	assert_int_equal(kvh_key_parse(key, strlen(key), &spans), KVH_INVALID_KEY);
}

/* proves: R-3 */
static void a_group_id_fits_exactly_or_is_not_written(void **state)
{
	static const uint8_t hash[] = {0x01, 0xfe};
	static const char expected[] = "vllm-mooncake-store:dep@m@01fe";
	struct kvh_key_parts parts = {.cache_prefix = "dep", .model = "m", .tp_rank = 3};
	struct kvh_prefix_text prefix = composed(&parts);

	(void)state;
	for (size_t capacity = 0; capacity <= sizeof(expected); capacity++) {
		/* Of the exact size, so that a sanitizer sees the first byte too many. */
		char *out = malloc(capacity ? capacity : 1);
		kvh_status status = kvh_group_id_text(prefix.text, prefix.family_bytes, hash,
		                                      sizeof(hash), out, capacity);

		assert_int_equal(status, capacity < sizeof(expected) ? KVH_BUSY : KVH_OK);
		if (status == KVH_OK)
			assert_string_equal(out, expected);
		free(out);
	}
	assert_int_equal(kvh_group_id_text(prefix.text, SIZE_MAX, hash, SIZE_MAX, NULL, 64),
	                 KVH_BUSY);
}

/* proves: R-3 */
static void the_family_leaves_ranks_and_group_out(void **state)
{
	struct kvh_key_parts parts = {.cache_prefix = "dep", .model = "m", .name_space = "@n"};
	struct kvh_prefix_text first = composed(&parts), second;

	(void)state;
	parts.tp_rank = 1;
	parts.pp_rank = 2;
	parts.group = 3;
	second = composed(&parts);
	assert_int_equal(first.family_bytes, second.family_bytes);
	assert_memory_equal(first.text, second.text, first.family_bytes);
	assert_string_not_equal(first.text, second.text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_key_names_prefix_model_namespace_ranks_and_group),
		cmocka_unit_test(only_the_last_part_of_the_models_path_counts),
		cmocka_unit_test(a_prefix_that_stores_can_not_carry_is_refused_with_words),
		cmocka_unit_test(the_longest_prefix_text_fits_and_one_byte_more_is_refused),
		cmocka_unit_test(a_key_comes_apart_whatever_signs_its_head_holds),
		cmocka_unit_test(text_that_compose_can_not_have_built_is_no_key),
		cmocka_unit_test(the_longest_hash_is_the_limit),
		cmocka_unit_test(a_group_id_fits_exactly_or_is_not_written),
		cmocka_unit_test(the_family_leaves_ranks_and_group_out),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
