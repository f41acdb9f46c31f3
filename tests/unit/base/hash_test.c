/* SPDX-License-Identifier: Apache-2.0 */
/* Hashes that may be written down: known values, and nothing left out of them. */
#include "unit/base/unit.h"

#include <string.h>

#include "base/hash.h"

/* The values of the empty input in xxHash's own published test vectors, seed 0. */
static void the_empty_input_has_its_published_hashes(void **context)
{
	struct kvh_hash128 wide = kvh_hash128(NULL, 0);

	(void)context;
	assert_true(kvh_hash64(NULL, 0) == UINT64_C(0x2d06800538d394c2));
	assert_true(wide.high == UINT64_C(0x99aa06d3014798d8));
	assert_true(wide.low == UINT64_C(0x6001c324468d497f));
}

/* Lengths around the borders where XXH3 changes its way: 16, 128, 240 and 1024 bytes. */
static void every_bit_and_every_byte_counts(void **context)
{
	static const size_t lengths[] = {1, 3, 4, 8, 16, 17, 128, 129, 240, 241, 1024, 1025};
	uint8_t data[1026] = {0};
	uint64_t seed = 8;

	(void)context;
	for (size_t index = 0; index < sizeof(data); index++)
		data[index] = (uint8_t)draw(&seed);
	for (size_t index = 0; index < COUNT_OF(lengths); index++) {
		size_t bytes = lengths[index];
		uint64_t hash = kvh_hash64(data, bytes);
		struct kvh_hash128 wide = kvh_hash128(data, bytes);

		assert_true(kvh_hash64(data, bytes + 1) != hash);
		for (size_t bit = 0; bit < 8 * bytes; bit++) {
			struct kvh_hash128 other;

			data[bit / 8] ^= (uint8_t)(1u << bit % 8);
			other = kvh_hash128(data, bytes);
			assert_true(kvh_hash64(data, bytes) != hash);
			assert_true(other.low != wide.low && other.high != wide.high);
			data[bit / 8] ^= (uint8_t)(1u << bit % 8);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_empty_input_has_its_published_hashes),
		cmocka_unit_test(every_bit_and_every_byte_counts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
