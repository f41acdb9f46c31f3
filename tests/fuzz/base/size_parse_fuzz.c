/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes with units against a reading from right to left in 128-bit arithmetic. */
#include "fuzz/fuzz.h"

#include <string.h>

#include "base/check.h"
#include "base/size.h"

typedef unsigned __int128 wide;

/* Strips a unit from the end of *text_bytes; returns what it multiplies by. */
static uint64_t strip_unit(const uint8_t *text, size_t *text_bytes)
{
	static const char letters[] = "KMGT";
	size_t left = *text_bytes;
	uint64_t unit = 1;
	const char *letter;

	if (left == 0 || text[left - 1] != 'B')
		return 1;
	left--;
	if (left >= 2 && text[left - 1] == 'i' && text[left - 2] != 0) {
		letter = strchr(letters, text[left - 2]);
		if (letter) {
			*text_bytes = left - 2;
			return UINT64_C(1) << (10 * (letter - letters + 1));
		}
	}
	*text_bytes = left;
	if (left == 0 || text[left - 1] == 0)
		return 1;
	/* Decimal: a small k, and no capital one. */
	letter = text[left - 1] == 'k' ? letters : strchr(letters + 1, text[left - 1]);
	if (!letter)
		return 1;
	*text_bytes = left - 1;
	for (const char *at = letters; at <= letter; at++)
		unit *= 1000;
	return unit;
}

/* False: not digits only, or over 64 bits. */
static bool read_number(const uint8_t *text, size_t text_bytes, wide *number)
{
	wide place = 1;

	*number = 0;
	for (size_t at = text_bytes; at > 0; at--) {
		unsigned digit = (unsigned)text[at - 1] - '0';

		if (digit > 9)
			return false;
		/* Leading zeros may go on; a digit at a place beyond 64 bits may not. */
		if (digit != 0 && place > UINT64_MAX)
			*number = (wide)UINT64_MAX + 1;
		else if (*number <= UINT64_MAX)
			*number += digit * place;
		if (place <= UINT64_MAX)
			place *= 10;
	}
	return text_bytes != 0 && *number <= UINT64_MAX;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	size_t number_bytes = bytes;
	uint64_t unit = strip_unit(data, &number_bytes);
	uint64_t result = 0;
	wide expected;
	bool good = read_number(data, number_bytes, &expected) && expected * unit <= UINT64_MAX;

	KVH_CHECK(kvh_size_parse((const char *)data, bytes, &result) == good);
	KVH_CHECK(result == (good ? (uint64_t)(expected * unit) : 0));
	return 0;
}
