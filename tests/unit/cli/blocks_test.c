/* SPDX-License-Identifier: Apache-2.0 */
/* The modelled engine's blocks: never handed out twice, never free while a job pins them. */
#include "unit/base/unit.h"

#include "cli/blocks.h"

#define BLOCK_COUNT 8
#define ROUND_COUNT 100000

static struct kvh_blocks blocks;

static int set_up(void **context)
{
	(void)context;
	return kvh_blocks_init(&blocks, BLOCK_COUNT) ? 0 : -1;
}

static int tear_down(void **context)
{
	(void)context;
	kvh_blocks_fini(&blocks);
	return 0;
}

static void every_block_but_the_null_block_is_handed_out_once(void **context)
{
	bool seen[BLOCK_COUNT] = {false};

	(void)context;
	for (int i = 1; i < BLOCK_COUNT; i++) {
		int32_t id = kvh_blocks_take(&blocks);

		assert_in_range(id, 1, BLOCK_COUNT - 1);
		assert_false(seen[id]);
		seen[id] = true;
	}
	assert_int_equal(kvh_blocks_take(&blocks), 0);
}

static void giving_up_twice_is_refused(void **context)
{
	int32_t id = kvh_blocks_take(&blocks);

	(void)context;
	assert_true(kvh_blocks_give_up(&blocks, id));
	assert_false(kvh_blocks_give_up(&blocks, id));
	assert_int_equal(blocks.free_count, BLOCK_COUNT - 1);
}

static void unknown_blocks_are_refused(void **context)
{
	static const int32_t unknown[] = {0, -1, BLOCK_COUNT, INT32_MAX, INT32_MIN};

	(void)context;
	for (size_t i = 0; i < COUNT_OF(unknown); i++) {
		assert_false(kvh_blocks_give_up(&blocks, unknown[i]));
		assert_false(kvh_blocks_pin(&blocks, unknown[i]));
		assert_false(kvh_blocks_unpin(&blocks, unknown[i]));
	}
	assert_false(kvh_blocks_pin(&blocks, 1));
	assert_false(kvh_blocks_unpin(&blocks, 1));
}

static void a_pinned_block_comes_back_with_its_last_pin(void **context)
{
	int32_t id = kvh_blocks_take(&blocks);
	uint32_t free_count = blocks.free_count;

	(void)context;
	assert_true(kvh_blocks_pin(&blocks, id));
	assert_true(kvh_blocks_pin(&blocks, id));
	assert_true(kvh_blocks_give_up(&blocks, id));
	assert_int_equal(blocks.returning_count, 1);
	assert_int_equal(blocks.free_count, free_count);
	assert_true(kvh_blocks_unpin(&blocks, id));
	assert_int_equal(blocks.free_count, free_count);
	assert_true(kvh_blocks_unpin(&blocks, id));
	assert_int_equal(blocks.free_count, free_count + 1);
	assert_int_equal(blocks.returning_count, 0);
	assert_false(kvh_blocks_unpin(&blocks, id));
}

static void an_owner_keeps_its_block_when_the_pins_go(void **context)
{
	int32_t id = kvh_blocks_take(&blocks);
	uint32_t free_count = blocks.free_count;

	(void)context;
	assert_true(kvh_blocks_pin(&blocks, id));
	assert_true(kvh_blocks_unpin(&blocks, id));
	assert_int_equal(blocks.free_count, free_count);
	assert_true(kvh_blocks_give_up(&blocks, id));
	assert_int_equal(blocks.free_count, free_count + 1);
}

/* Random calls against counts kept here: a call works exactly when these allow it. */
static void random_calls_follow_the_counts(void **context)
{
	bool owned[BLOCK_COUNT] = {false};
	unsigned pins[BLOCK_COUNT] = {0};
	uint64_t seed = 1;

	(void)context;
	for (int round = 0; round < ROUND_COUNT; round++) {
		int32_t id = (int32_t)(draw(&seed) % BLOCK_COUNT);
		unsigned free_count = 0;

		switch (draw(&seed) % 4) {
		case 0:
			id = kvh_blocks_take(&blocks);
			if (id != 0) {
				assert_false(owned[id]);
				assert_int_equal(pins[id], 0);
				owned[id] = true;
			}
			break;
		case 1:
			assert_int_equal(kvh_blocks_give_up(&blocks, id), owned[id]);
			owned[id] = false;
			break;
		case 2:
			assert_int_equal(kvh_blocks_pin(&blocks, id), owned[id]);
			pins[id] += owned[id];
			break;
		default:
			assert_int_equal(kvh_blocks_unpin(&blocks, id), pins[id] > 0);
			pins[id] -= pins[id] > 0;
		}
		for (int i = 1; i < BLOCK_COUNT; i++)
			free_count += !owned[i] && pins[i] == 0;
		assert_int_equal(blocks.free_count, free_count);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(every_block_but_the_null_block_is_handed_out_once,
	                                        set_up, tear_down),
		cmocka_unit_test_setup_teardown(giving_up_twice_is_refused, set_up, tear_down),
		cmocka_unit_test_setup_teardown(unknown_blocks_are_refused, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_pinned_block_comes_back_with_its_last_pin, set_up,
	                                        tear_down),
		cmocka_unit_test_setup_teardown(an_owner_keeps_its_block_when_the_pins_go, set_up,
	                                        tear_down),
		cmocka_unit_test_setup_teardown(random_calls_follow_the_counts, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
