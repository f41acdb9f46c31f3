/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes that people write. */
#include "base/size.h"

#include <string.h>

struct unit {
	const char *name;
	uint64_t bytes;
};

static const struct unit units[] = {
	{"", 1},
	{"B", 1},
	{"KiB", UINT64_C(1) << 10},
	{"MiB", UINT64_C(1) << 20},
	{"GiB", UINT64_C(1) << 30},
	{"TiB", UINT64_C(1) << 40},
	{"kB", UINT64_C(1000)},
	{"MB", UINT64_C(1000000)},
	{"GB", UINT64_C(1000000000)},
	{"TB", UINT64_C(1000000000000)},
};

/* 0: no such unit. */
static uint64_t unit_bytes(const char *text, size_t text_bytes)
{
	for (size_t index = 0; index < sizeof(units) / sizeof(units[0]); index++) {
		const char *name = units[index].name;

		if (strlen(name) == text_bytes && memcmp(name, text, text_bytes) == 0)
			return units[index].bytes;
	}
	return 0;
}

bool kvh_size_parse(const char *text, size_t text_bytes, uint64_t *bytes)
{
	uint64_t number = 0;
	uint64_t unit;
	size_t digit_count = 0;

	for (; digit_count < text_bytes; digit_count++) {
		char digit = text[digit_count];

		if (digit < '0' || digit > '9')
			break;
		if (__builtin_mul_overflow(number, 10, &number) ||
		    __builtin_add_overflow(number, (uint64_t)(digit - '0'), &number))
			return false;
	}
	if (digit_count == 0)
		return false;
	unit = unit_bytes(text + digit_count, text_bytes - digit_count);
	if (unit == 0 || __builtin_mul_overflow(number, unit, &number))
		return false;
	*bytes = number;
	return true;
}
