/* SPDX-License-Identifier: Apache-2.0 */
/* Growing text, single lines, metrics and hex. */
#include "unit/base/unit.h"

#include <string.h>

#include "base/text.h"

#define GUARD 0x5a

static void add_sample_text(struct kvh_text *text)
{
	kvh_text_add(text, "ab", 2);
	kvh_text_addf(text, "%d-%s", 42, "xyz");
	kvh_text_add(text, "", 0);
	kvh_text_add(text, "end", 3);
}

static void text_is_the_longest_prefix_that_fits(void **context)
{
	const char whole[] = "ab42-xyzend";

	(void)context;
	for (size_t capacity = 0; capacity <= sizeof(whole) + 1; capacity++) {
		bool fits = capacity >= sizeof(whole);
		char out[sizeof(whole) + 2];
		size_t needed = 0;
		struct kvh_text text;

		memset(out, GUARD, sizeof(out));
		kvh_text_init(&text, out, capacity);
		add_sample_text(&text);
		assert_int_equal(text.needed_bytes, sizeof(whole) - 1);
		assert_int_equal(kvh_text_end(&text, &needed), fits ? KVH_OK : KVH_BUSY);
		assert_int_equal(needed, sizeof(whole));
		if (capacity != 0) {
			size_t kept = fits ? sizeof(whole) - 1 : capacity - 1;

			assert_int_equal(strlen(out), kept);
			assert_memory_equal(out, whole, kept);
		}
		for (size_t at = capacity; at < sizeof(out); at++)
			assert_int_equal(out[at], GUARD);
	}
}

static void text_without_a_buffer_counts(void **context)
{
	size_t needed = 0;
	struct kvh_text text;

	(void)context;
	kvh_text_init(&text, NULL, 100);
	add_sample_text(&text);
	assert_int_equal(kvh_text_end(&text, &needed), KVH_BUSY);
	assert_int_equal(needed, sizeof("ab42-xyzend"));
	kvh_text_init(&text, NULL, 0);
	assert_int_equal(kvh_text_end(&text, NULL), KVH_BUSY);
}

static void counts_stay_at_the_largest_size(void **context)
{
	char out[4];
	struct kvh_text text;

	(void)context;
	kvh_text_init(&text, out, sizeof(out));
	text.needed_bytes = SIZE_MAX - 1;
	kvh_text_add(&text, "abc", 3);
	assert_int_equal(text.needed_bytes, SIZE_MAX);
	assert_int_equal(kvh_text_end(&text, NULL), KVH_BUSY);
}

static void metrics_have_prometheus_form(void **context)
{
	char out[256];
	struct kvh_text text;

	(void)context;
	kvh_text_init(&text, out, sizeof(out));
	kvh_text_metric(&text, "kvh_saved_blocks", "counter", "Blocks saved.");
	kvh_text_sample(&text, "kvh_saved_blocks", "", 0);
	kvh_text_sample(&text, "kvh_saved_blocks", "rank=\"1\"", UINT64_MAX);
	assert_int_equal(kvh_text_end(&text, NULL), KVH_OK);
	assert_string_equal(out, "# HELP kvh_saved_blocks Blocks saved.\n"
	                         "# TYPE kvh_saved_blocks counter\n"
	                         "kvh_saved_blocks 0\n"
	                         "kvh_saved_blocks{rank=\"1\"} 18446744073709551615\n");
}

__attribute__((format(printf, 3, 4))) static void line(char *out, size_t capacity_bytes,
                                                       const char *format, ...)
{
	va_list args;

	va_start(args, format);
	kvh_text_line(out, capacity_bytes, format, args);
	va_end(args);
}

static void lines_are_cut_between_characters(void **context)
{
	/* 1, 2, 3 and 4 bytes. */
	static const char *const characters[] = {"a", "\xc3\xa9", "\xe2\x82\xac",
	                                         "\xf0\x9f\x98\x80"};

	(void)context;
	for (size_t index = 0; index < COUNT_OF(characters); index++) {
		size_t bytes = strlen(characters[index]);

		for (size_t room = 0; room <= 2 * bytes; room++) {
			char out[16];

			line(out, room + 1, "%s%s%s", characters[index], characters[index],
			     characters[index]);
			assert_int_equal(strlen(out), room / bytes * bytes);
		}
	}
}

static void lines_that_are_not_utf8_are_still_lines(void **context)
{
	char out[8];

	(void)context;
	line(out, sizeof(out), "%s", "\x80\x80\x80\x80\x80\x80\x80\x80\x80");
	assert_int_equal(strlen(out), sizeof(out) - 1);
	line(out, 3, "%s", "\x80\x80\x80");
	assert_int_equal(strlen(out), 2);
	line(out, 1, "%s", "abc");
	assert_string_equal(out, "");
}

static void names_from_outside_can_not_start_a_line(void **context)
{
	char out[64];

	(void)context;
	line(out, sizeof(out), "key %s", "a\nERROR forged\r\x1b[31m\x7f");
	assert_string_equal(out, "key a?ERROR forged??[31m?");
}

static void hex_of_random_bytes_comes_back(void **context)
{
	uint64_t seed = 5;

	(void)context;
	for (size_t bytes = 0; bytes < 64; bytes++) {
		uint8_t data[64], back[64];
		char text[129];

		for (size_t at = 0; at < bytes; at++)
			data[at] = (uint8_t)draw(&seed);
		text[2 * bytes] = GUARD;
		kvh_hex_encode(data, bytes, text);
		assert_int_equal(text[2 * bytes], GUARD);
		for (size_t at = 0; at < bytes; at++) {
			char expected[3];

			snprintf(expected, sizeof(expected), "%02x", (unsigned)data[at]);
			assert_memory_equal(text + 2 * at, expected, 2);
		}
		assert_true(kvh_hex_decode(text, 2 * bytes, back));
		assert_memory_equal(back, data, bytes);
	}
}

static void every_other_byte_is_no_hex(void **context)
{
	(void)context;
	for (int byte = 0; byte < 256; byte++) {
		bool digit = byte != 0 && strchr("0123456789abcdef", byte);
		char text[4] = {'0', '1', '2', '3'};
		uint8_t out[2] = {GUARD, GUARD};

		text[3] = (char)byte;
		assert_int_equal(kvh_hex_decode(text, 4, out), digit);
		assert_int_equal(out[0], digit ? 0x01 : GUARD);
	}
}

static void odd_hex_is_refused(void **context)
{
	uint8_t out[2] = {GUARD, GUARD};

	(void)context;
	assert_false(kvh_hex_decode("abc", 3, out));
	assert_int_equal(out[0], GUARD);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(text_is_the_longest_prefix_that_fits),
		cmocka_unit_test(text_without_a_buffer_counts),
		cmocka_unit_test(counts_stay_at_the_largest_size),
		cmocka_unit_test(metrics_have_prometheus_form),
		cmocka_unit_test(lines_are_cut_between_characters),
		cmocka_unit_test(lines_that_are_not_utf8_are_still_lines),
		cmocka_unit_test(names_from_outside_can_not_start_a_line),
		cmocka_unit_test(hex_of_random_bytes_comes_back),
		cmocka_unit_test(every_other_byte_is_no_hex),
		cmocka_unit_test(odd_hex_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
