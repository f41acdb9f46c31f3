/* SPDX-License-Identifier: Apache-2.0 */
/* Words of the command line: strict numbers, and the nearest name for a mistyped one. */
#include "unit/base/unit.h"

#include "cli/cli.h"

static void whole_numbers_within_bounds_are_taken(void **context)
{
	uint64_t number = 0;

	(void)context;
	assert_true(kvh_cli_number("0", 0, 9, &number));
	assert_int_equal(number, 0);
	assert_true(kvh_cli_number("9", 0, 9, &number));
	assert_int_equal(number, 9);
	assert_true(kvh_cli_number("18446744073709551615", 0, UINT64_MAX, &number));
	assert_int_equal(number, UINT64_MAX);
}

static void anything_else_is_refused_and_changes_nothing(void **context)
{
	static const char *const wrong[] = {"",   " 1", "+1",  "-1", "1 ",
	                                    "1x", "x",  "0x1", "10", "18446744073709551616"};
	uint64_t number = 77;

	(void)context;
	for (size_t i = 0; i < COUNT_OF(wrong); i++) {
		assert_false(kvh_cli_number(wrong[i], 0, 9, &number));
		assert_int_equal(number, 77);
	}
	assert_false(kvh_cli_number("1", 2, 9, &number));
}

static void mistyped_names_find_their_neighbour(void **context)
{
	static const char *const names[] = {"trace", "requests", "seed", "store", "ranks", NULL};

	(void)context;
	assert_string_equal(kvh_cli_nearest("seed", names), "seed");
	assert_string_equal(kvh_cli_nearest("sed", names), "seed");
	assert_string_equal(kvh_cli_nearest("reqests", names), "requests");
	assert_string_equal(kvh_cli_nearest("stroe", names), "store");
	assert_string_equal(kvh_cli_nearest("tracee", names), "trace");
}

static void far_names_find_none(void **context)
{
	static const char *const names[] = {"trace", "requests", NULL};
	static const char *const none[] = {NULL};

	(void)context;
	assert_null(kvh_cli_nearest("bandwidth", names));
	assert_null(kvh_cli_nearest("seed", none));
}

/* Words longer than any name are cut, not read past. */
static void endless_words_find_none(void **context)
{
	static const char *const names[] = {"trace", NULL};
	char word[4096];

	(void)context;
	for (size_t i = 0; i < sizeof(word) - 1; i++)
		word[i] = 'a';
	word[sizeof(word) - 1] = 0;
	assert_null(kvh_cli_nearest(word, names));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(whole_numbers_within_bounds_are_taken),
		cmocka_unit_test(anything_else_is_refused_and_changes_nothing),
		cmocka_unit_test(mistyped_names_find_their_neighbour),
		cmocka_unit_test(far_names_find_none),
		cmocka_unit_test(endless_words_find_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
