/* SPDX-License-Identifier: Apache-2.0 */
/* Checked sizes against 128-bit arithmetic, and sizes that people write. */
#include "unit/base/unit.h"

#include <string.h>

#include "base/size.h"

#define ROUND_COUNT 200000
#define UNTOUCHED   0x5a5a

typedef unsigned __int128 wide;

/* Random widths, and often at the edges where overflow begins. */
static uint64_t draw_size(uint64_t *seed)
{
	uint64_t value = draw(seed) >> (draw(seed) % 64);

	switch (draw(seed) % 4) {
	case 0:
		return UINT64_MAX - value % 8;
	case 1:
		return (UINT64_C(1) << (value % 64)) - draw(seed) % 2;
	default:
		return value;
	}
}

static void assert_agrees(bool fits, size_t result, wide expected)
{
	assert_int_equal(fits, expected <= SIZE_MAX);
	assert_int_equal(result, fits ? (size_t)expected : UNTOUCHED);
}

static void sums_and_products_agree_with_wide_arithmetic(void **context)
{
	uint64_t seed = 1;

	(void)context;
	for (int round = 0; round < ROUND_COUNT; round++) {
		size_t a = draw_size(&seed);
		size_t b = draw_size(&seed);
		size_t c = draw_size(&seed);
		size_t out = UNTOUCHED;
		bool fits;

		fits = kvh_size_add(a, b, &out);
		assert_agrees(fits, out, (wide)a + b);
		out = UNTOUCHED;
		fits = kvh_size_mul(a, b, &out);
		assert_agrees(fits, out, (wide)a * b);
		out = UNTOUCHED;
		fits = kvh_size_mul_add(a, b, c, &out);
		/* (2^64 - 1)^2 + 2^64 - 1 still fits into 128 bits. */
		assert_agrees(fits, out, (wide)a * b + c);
	}
}

static void alignment_agrees_with_wide_arithmetic(void **context)
{
	uint64_t seed = 2;

	(void)context;
	for (int round = 0; round < ROUND_COUNT; round++) {
		size_t bytes = draw_size(&seed);
		size_t unit = (size_t)1 << (draw(&seed) % 64);
		size_t out = UNTOUCHED;
		bool fits = kvh_size_align_up(bytes, unit, &out);

		assert_agrees(fits, out, ((wide)bytes + unit - 1) / unit * unit);
	}
}

static void divisions_round_as_named(void **context)
{
	uint64_t seed = 3;

	(void)context;
	for (int round = 0; round < ROUND_COUNT; round++) {
		uint64_t a = draw_size(&seed);
		uint64_t b = draw_size(&seed) | 1;

		assert_int_equal(kvh_div_up(a, b), (uint64_t)(((wide)a + b - 1) / b));
		assert_int_equal(kvh_round_down(a, b), a / b * b);
	}
}

static void ranges_must_end_within_the_address_space(void **context)
{
	uint64_t seed = 4;

	(void)context;
	for (int round = 0; round < ROUND_COUNT; round++) {
		uintptr_t addr = draw_size(&seed);
		size_t bytes = draw_size(&seed);

		assert_int_equal(kvh_range_ok((const void *)addr, bytes),
		                 (wide)addr + bytes <= UINTPTR_MAX);
	}
}

static void sizes_with_units_are_read(void **context)
{
	static const struct {
		const char *text;
		uint64_t bytes;
	} good[] = {
		{"0", 0},
		{"64", 64},
		{"64B", 64},
		{"007", 7},
		{"4KiB", 4096},
		{"3MiB", UINT64_C(3) << 20},
		{"8GiB", UINT64_C(8) << 30},
		{"2TiB", UINT64_C(2) << 40},
		{"5kB", 5000},
		{"1MB", 1000000},
		{"6GB", UINT64_C(6000000000)},
		{"7TB", UINT64_C(7000000000000)},
		{"18446744073709551615", UINT64_MAX},
		{"18446744073709551615B", UINT64_MAX},
		{"18014398509481983KiB", UINT64_MAX - 1023},
		{"16777215TiB", UINT64_MAX - ((UINT64_C(1) << 40) - 1)},
	};

	(void)context;
	for (size_t index = 0; index < COUNT_OF(good); index++) {
		uint64_t bytes = UNTOUCHED;

		assert_true(kvh_size_parse(good[index].text, strlen(good[index].text), &bytes));
		assert_int_equal(bytes, good[index].bytes);
	}
}

static void bad_or_too_large_sizes_are_refused(void **context)
{
	static const char *const bad[] = {
		"",
		"B",
		"KiB",
		" 1",
		"1 ",
		"1 KiB",
		"+1",
		"-1",
		"1.5GiB",
		"0x10",
		"1kib",
		"1KB",
		"1K",
		"1G",
		"1KiBs",
		"1KiB1",
		"18446744073709551616",
		"99999999999999999999",
		"18014398509481984KiB",
		"16777216TiB",
		"18446744073709552kB",
	};

	(void)context;
	for (size_t index = 0; index < COUNT_OF(bad); index++) {
		uint64_t bytes = UNTOUCHED;

		assert_false(kvh_size_parse(bad[index], strlen(bad[index]), &bytes));
		assert_int_equal(bytes, UNTOUCHED);
	}
}

static void text_beyond_its_bytes_is_not_read(void **context)
{
	uint64_t bytes;

	(void)context;
	assert_true(kvh_size_parse("12345KiB", 2, &bytes));
	assert_int_equal(bytes, 12);
	assert_false(kvh_size_parse("12\0", 3, &bytes));
	assert_false(kvh_size_parse(NULL, 0, &bytes));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sums_and_products_agree_with_wide_arithmetic),
		cmocka_unit_test(alignment_agrees_with_wide_arithmetic),
		cmocka_unit_test(divisions_round_as_named),
		cmocka_unit_test(ranges_must_end_within_the_address_space),
		cmocka_unit_test(sizes_with_units_are_read),
		cmocka_unit_test(bad_or_too_large_sizes_are_refused),
		cmocka_unit_test(text_beyond_its_bytes_is_not_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
