/* SPDX-License-Identifier: Apache-2.0 */
/* Chunks: tokens, hashes and stripes. */
#include "layout/chunks.h"
#include "unit/base/unit.h"

/* proves: C-3, R-15 */
static void a_chunk_is_named_by_the_last_hash_it_covers(void **state)
{
	struct kvh_chunk chunk = kvh_chunk_at(2, 16, 4, 60);

	(void)state;
	assert_int_equal(chunk.start_token, 32);
	assert_int_equal(chunk.end_token, 48);
	/* C-3: (i + 1) * bs / hb - 1. */
	assert_int_equal(chunk.hash_index, 3 * 16 / 4 - 1);
	/* Cut at the end of the tokens. */
	chunk = kvh_chunk_at(3, 16, 4, 60);
	assert_int_equal(chunk.end_token, 60);
	assert_int_equal(chunk.hash_index, 60 / 4 - 1);
}

/* proves: D-17 */
static void a_chunk_that_ends_before_the_first_hash_has_none(void **state)
{
	(void)state;
	assert_true(kvh_chunk_at(0, 16, 4, 3).hash_index == UINT64_MAX);
}

/* proves: R-15 */
static void every_chunk_belongs_to_exactly_one_of_put_step_ranks(void **state)
{
	(void)state;
	for (uint32_t put_step = 1; put_step <= 8; put_step++) {
		for (uint32_t group = 0; group < 5; group++) {
			for (uint64_t index = 0; index < 40; index++) {
				uint32_t owners = 0;

				for (uint32_t rank = 0; rank < put_step; rank++)
					owners += kvh_chunk_is_mine(index, put_step, rank, group);
				assert_int_equal(owners, 1);
			}
		}
	}
	/* The sum of rank and group must not wrap. */
	assert_true(kvh_chunk_is_mine((UINT64_C(1) << 32) % 7, 7, UINT32_MAX, 1));
}

/* proves: R-15 */
static void the_first_chunk_of_a_rank_is_the_nearest_of_its_own(void **state)
{
	(void)state;
	for (uint32_t put_step = 1; put_step <= 8; put_step++) {
		for (uint32_t rank = 0; rank < put_step + 2; rank++) {
			for (uint64_t index = 0; index < 40; index++) {
				uint64_t expected = index;

				while (!kvh_chunk_is_mine(expected, put_step, rank, 3))
					expected++;
				assert_int_equal(kvh_chunk_first_mine(index, put_step, rank, 3),
				                 expected);
			}
		}
	}
	assert_true(kvh_chunk_is_mine(kvh_chunk_first_mine(1, 7, UINT32_MAX, 1), 7, UINT32_MAX, 1));
}

/* proves: C-3 */
static void the_last_chunk_of_the_longest_request_does_not_wrap(void **state)
{
	const uint64_t token_count = UINT64_C(1) << 63;
	const uint32_t block_tokens = 1 << 20;
	uint64_t last = kvh_chunk_count(token_count - 1, block_tokens) - 1;
	struct kvh_chunk chunk = kvh_chunk_at(last, block_tokens, 1, token_count - 1);

	(void)state;
	assert_true(chunk.start_token == token_count - block_tokens);
	assert_true(chunk.end_token == token_count - 1);
	assert_true(chunk.hash_index == token_count - 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_chunk_is_named_by_the_last_hash_it_covers),
		cmocka_unit_test(a_chunk_that_ends_before_the_first_hash_has_none),
		cmocka_unit_test(every_chunk_belongs_to_exactly_one_of_put_step_ranks),
		cmocka_unit_test(the_first_chunk_of_a_rank_is_the_nearest_of_its_own),
		cmocka_unit_test(the_last_chunk_of_the_longest_request_does_not_wrap),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
