/* SPDX-License-Identifier: Apache-2.0 */
/* Pieces of one allocation: apart, aligned, counted, and memory that can be refused. */
#include "unit/base/unit.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/fault.h"

#define PIECE_COUNT 12

static void random_pieces_fill_exactly_what_was_counted(void **context)
{
	uint64_t seed = 7;

	(void)context;
	for (int round = 0; round < 500; round++) {
		size_t counts[PIECE_COUNT], bytes[PIECE_COUNT];
		unsigned char *pieces[PIECE_COUNT];
		struct kvh_arena arena = {0};

		for (size_t index = 0; index < PIECE_COUNT; index++) {
			counts[index] = draw(&seed) % 5;
			bytes[index] = draw(&seed) % 40;
			assert_true(kvh_arena_count(&arena.bytes, counts[index], bytes[index]));
		}
		/* Exactly as many: the sanitizer sees the first byte too many. */
		arena.base = kvh_alloc(arena.bytes);
		assert_non_null(arena.base);
		for (size_t index = 0; index < PIECE_COUNT; index++) {
			size_t piece_bytes = counts[index] * bytes[index];

			pieces[index] = kvh_arena_take(&arena, counts[index], bytes[index]);
			assert_int_equal(pieces[index] == NULL, piece_bytes == 0);
			assert_int_equal((uintptr_t)pieces[index] % 16, 0);
			if (piece_bytes)
				memset(pieces[index], (int)index, piece_bytes);
		}
		assert_int_equal(arena.used_bytes, arena.bytes);
		for (size_t index = 0; index < PIECE_COUNT; index++) {
			for (size_t at = 0; at < counts[index] * bytes[index]; at++)
				assert_int_equal(pieces[index][at], index);
		}
		kvh_free(arena.base);
	}
}

static void too_large_counts_are_refused(void **context)
{
	static const size_t large[][3] = {
		/* total, count, bytes */
		{0, SIZE_MAX, 2},
		{0, SIZE_MAX / 16 + 1, 16},
		{0, 1, SIZE_MAX},
		{32, 1, SIZE_MAX - 31},
	};

	(void)context;
	for (size_t index = 0; index < COUNT_OF(large); index++) {
		size_t total = large[index][0];

		assert_false(kvh_arena_count(&total, large[index][1], large[index][2]));
		assert_int_equal(total, large[index][0]);
	}
}

static void copies_hold_the_bytes_and_nothing_is_null(void **context)
{
	const uint32_t numbers[] = {1, 2, 3};
	struct kvh_arena arena = {0};
	uint32_t *copy;

	(void)context;
	assert_true(kvh_arena_count(&arena.bytes, 3, sizeof(numbers[0])));
	arena.base = kvh_alloc(arena.bytes);
	copy = kvh_arena_copy(&arena, numbers, 3, sizeof(numbers[0]));
	assert_memory_equal(copy, numbers, sizeof(numbers));
	assert_null(kvh_arena_copy(&arena, NULL, 3, sizeof(numbers[0])));
	assert_null(kvh_arena_copy(&arena, numbers, 0, sizeof(numbers[0])));
	kvh_free(arena.base);
}

static void take_too_much(void)
{
	unsigned char memory[16];
	struct kvh_arena arena = {.base = memory, .bytes = sizeof(memory)};

	kvh_arena_take(&arena, 17, 1);
}

static void taking_more_than_counted_stops_the_process(void **context)
{
	(void)context;
	assert_stops(take_too_much);
}

static void memory_of_0_bytes_is_no_failure(void **context)
{
	void *memory[] = {kvh_alloc(0), kvh_calloc(0, 8), kvh_calloc(8, 0)};

	(void)context;
	for (size_t index = 0; index < COUNT_OF(memory); index++) {
		assert_non_null(memory[index]);
		kvh_free(memory[index]);
	}
	kvh_free(NULL);
}

static void calloc_clears(void **context)
{
	unsigned char *memory = kvh_calloc(16, 4);

	(void)context;
	for (size_t at = 0; at < 64; at++)
		assert_int_equal(memory[at], 0);
	kvh_free(memory);
}

static void memory_fails_where_the_fault_point_says(void **context)
{
	void *memory[3];

	(void)context;
	assert_true(kvh_fault_arm_nth("base/alloc", 2, -1));
	memory[0] = kvh_alloc(8);
	memory[1] = kvh_calloc(1, 8);
	memory[2] = kvh_alloc(8);
	kvh_fault_disarm_all();
	assert_non_null(memory[0]);
	assert_null(memory[1]);
	assert_non_null(memory[2]);
	kvh_free(memory[0]);
	kvh_free(memory[2]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(random_pieces_fill_exactly_what_was_counted),
		cmocka_unit_test(too_large_counts_are_refused),
		cmocka_unit_test(copies_hold_the_bytes_and_nothing_is_null),
		cmocka_unit_test(taking_more_than_counted_stops_the_process),
		cmocka_unit_test(memory_of_0_bytes_is_no_failure),
		cmocka_unit_test(calloc_clears),
		cmocka_unit_test(memory_fails_where_the_fault_point_says),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
