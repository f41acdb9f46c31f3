/* SPDX-License-Identifier: Apache-2.0 */
/* Block contents: the same again from the same number, and no wrong bit goes unseen. */
#include "unit/base/unit.h"

#include <string.h>

#include "cli/pattern.h"

#define BYTES 512

static void equal_contents_are_equal(void **context)
{
	unsigned char bytes[BYTES];

	(void)context;
	for (uint64_t content = 0; content < 100; content++) {
		kvh_pattern_fill(bytes, sizeof(bytes), content);
		assert_int_equal(kvh_pattern_check(bytes, sizeof(bytes), content), BYTES);
	}
}

static void every_flipped_bit_is_found_in_its_line(void **context)
{
	unsigned char bytes[BYTES];

	(void)context;
	kvh_pattern_fill(bytes, sizeof(bytes), 7);
	for (size_t bit = 0; bit < (size_t)BYTES * 8; bit++) {
		size_t line = bit / 8 / KVH_PATTERN_LINE_BYTES * KVH_PATTERN_LINE_BYTES;

		bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
		assert_int_equal(kvh_pattern_check(bytes, sizeof(bytes), 7), line);
		bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
	}
}

static void other_contents_differ_in_the_first_line(void **context)
{
	unsigned char bytes[BYTES];

	(void)context;
	kvh_pattern_fill(bytes, sizeof(bytes), 7);
	for (uint64_t content = 8; content < 1000; content++)
		assert_int_equal(kvh_pattern_check(bytes, sizeof(bytes), content), 0);
}

/* A line copied to the wrong place would else look right. */
static void lines_of_a_block_differ(void **context)
{
	unsigned char bytes[BYTES];

	(void)context;
	kvh_pattern_fill(bytes, sizeof(bytes), 7);
	for (size_t a = 0; a < BYTES; a += KVH_PATTERN_LINE_BYTES)
		for (size_t b = a + KVH_PATTERN_LINE_BYTES; b < BYTES; b += KVH_PATTERN_LINE_BYTES)
			assert_memory_not_equal(bytes + a, bytes + b, KVH_PATTERN_LINE_BYTES);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(equal_contents_are_equal),
		cmocka_unit_test(every_flipped_bit_is_found_in_its_line),
		cmocka_unit_test(other_contents_differ_in_the_first_line),
		cmocka_unit_test(lines_of_a_block_differ),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
