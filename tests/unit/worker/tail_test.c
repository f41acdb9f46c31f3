/* SPDX-License-Identifier: Apache-2.0 */
/* Objects that end inside a block: the partial tail and explicit boundary puts. */
#include "rig.h"

enum { OWN_BLOCK = 55 };

/* Full attention with blocks of 16 tokens, states of 32, a hash every 8: 32 tokens in common. */
static void open_tail(struct rig *rig)
{
	rig_init(rig);
	rig->config.hash_tokens = 8;
	rig->config.partial_hits = true;
	rig_add_group(rig, KVH_ATTENTION_MAMBA, 32, 0);
	rig_open(rig);
	rig_fill_all(rig, 8);
	rig_fill(rig, 0, OWN_BLOCK, 0x50);
	rig_fill(rig, 1, OWN_BLOCK, 0x55);
}

static void save_with_tail(struct rig *rig, uint64_t job_id, uint64_t tokens,
                           const struct kvh_boundary *tail, size_t count)
{
	struct kvh_save_job job = rig_save_job(rig, job_id, "r", tokens);

	job.tail = tail;
	job.tail_count = count;
	if (rig_submit_save(rig, &job))
		fail_msg("%s", rig->error.text);
	rig_run_save(rig);
}

static void save_with_puts(struct rig *rig, uint64_t job_id, uint64_t tokens,
                           const struct kvh_boundary *puts, size_t count)
{
	struct kvh_save_job job = rig_save_job(rig, job_id, "r", tokens);

	job.boundary_puts = puts;
	job.boundary_put_count = count;
	if (rig_submit_save(rig, &job))
		fail_msg("%s", rig->error.text);
	rig_run_save(rig);
}

/* proves: R-21 */
static void a_tail_is_put_before_the_normal_save(void **state)
{
	const struct kvh_boundary tail = {.group = 1, .block_id = OWN_BLOCK, .tokens = 40};
	struct rig rig;

	(void)state;
	open_tail(&rig);
	save_with_tail(&rig, 1, 40, &tail, 1);
	/* Hashes at 16, 32, 40 and at 32, 40; then the normal save finds its chunks there. */
	assert_string_equal(rig_calls(&rig), "exists 1 3 4 g1:3 g1:4\nput 1 3 4 g1:3 g1:4\n"
	                                     "exists 1 3\n");
	assert_true(rig_stored(&rig, 0, 4, 3));
	assert_true(rig_stored(&rig, 1, 3, 1));
	assert_true(rig_stored(&rig, 1, 4, 0x55)); /* the block that the entry handed over */
	assert_int_equal(rig_saved_tokens(&rig, "r"), 32);
	rig_close(&rig);
}

/* proves: R-21 */
static void a_tail_begins_at_the_saved_offset(void **state)
{
	const struct kvh_boundary tail = {.group = 1, .block_id = OWN_BLOCK, .tokens = 56};
	const struct kvh_boundary behind = {.group = 1, .block_id = OWN_BLOCK, .tokens = 8};
	struct rig rig;

	(void)state;
	open_tail(&rig);
	rig_save_and_run(&rig, 1, "r", 32);
	rig_calls(&rig);
	save_with_tail(&rig, 2, 56, &tail, 1);
	assert_string_equal(rig_calls(&rig), "exists 5 6 g1:6\nput 5 6 g1:6\n");
	/* The block of the boundary is done though the offset is beyond it. */
	save_with_tail(&rig, 3, 56, &behind, 1);
	assert_string_equal(rig_calls(&rig), "exists 0 g1:0\nput 0 g1:0\n");
	rig_close(&rig);
}

/* proves: R-21 */
static void a_boundary_at_a_blocks_end_uses_the_requests_block(void **state)
{
	const struct kvh_boundary tail[] = {{.group = 0, .block_id = OWN_BLOCK, .tokens = 32},
	                                    {.group = 1, .block_id = OWN_BLOCK, .tokens = 32}};
	struct rig rig;

	(void)state;
	open_tail(&rig);
	save_with_tail(&rig, 1, 32, tail, 2);
	assert_true(rig_stored(&rig, 0, 3, 2));
	assert_true(rig_stored(&rig, 1, 3, 1));
	rig_close(&rig);
}

/* proves: R-21 */
static void null_and_missing_blocks_of_a_tail_are_skipped(void **state)
{
	const struct kvh_boundary tail = {.group = 1, .block_id = KVH_NULL_BLOCK, .tokens = 40};
	struct kvh_save_job job;
	struct rig rig;

	(void)state;
	open_tail(&rig);
	job = rig_save_job(&rig, 1, "r", 40);
	job.tail = &tail;
	job.tail_count = 1;
	rig.tables[0].count = 2; /* enough for the normal save; block 2 is missing */
	rig.ids[1][0] = KVH_NULL_BLOCK;
	assert_int_equal(rig_submit_save(&rig, &job), KVH_OK);
	rig_run_save(&rig);
	assert_string_equal(rig_calls(&rig), "exists 1 3\nput 1 3\nexists 1 3\n");
	rig_close(&rig);
}

/* proves: R-21 */
static void a_tail_at_0_or_beyond_the_hashes_is_nothing_to_do(void **state)
{
	const struct kvh_boundary zero = {.group = 1, .block_id = OWN_BLOCK, .tokens = 0};
	const struct kvh_boundary beyond = {.group = 1, .block_id = OWN_BLOCK, .tokens = 40};
	struct kvh_save_job job;
	struct rig rig;

	(void)state;
	open_tail(&rig);
	save_with_tail(&rig, 1, 32, &zero, 1);
	assert_string_equal(rig_calls(&rig), "exists 1 3\nput 1 3\n");
	save_with_tail(&rig, 2, 32, &beyond, 1);
	/* An empty list is a list. */
	job = rig_save_job(&rig, 3, "r", 32);
	job.tail = &zero;
	assert_int_equal(rig_submit_save(&rig, &job), KVH_OK);
	rig_run_save(&rig);
	assert_string_equal(rig_calls(&rig), "");
	assert_string_equal(rig_done(&rig), "saved 1 0\nsaved 2 0\nsaved 3 0\n");
	rig_close(&rig);
}

/* proves: R-21 */
static void a_tail_of_two_boundaries_ends_the_job(void **state)
{
	const struct kvh_boundary tail[] = {{.group = 0, .block_id = OWN_BLOCK, .tokens = 40},
	                                    {.group = 1, .block_id = OWN_BLOCK, .tokens = 48}};
	struct rig rig;

	(void)state;
	open_tail(&rig);
	save_with_tail(&rig, 1, 48, tail, 2);
	assert_true(kvh_inspect_raised(rig.worker, 1));
	assert_string_equal(rig_calls(&rig), "");
	assert_string_equal(rig_done(&rig), "saved 1 -600\n");
	assert_int_equal(rig_saved_tokens(&rig, "r"), 0);
	rig_close(&rig);
}

/* proves */
static void a_failed_tail_ends_the_job_and_a_good_one_ends_pressure(void **state)
{
	const struct kvh_boundary tail = {.group = 1, .block_id = OWN_BLOCK, .tokens = 40};
	struct rig rig;

	(void)state;
	open_tail(&rig);
	FAKE_ANSWER(&rig.world->fake, FAKE_PUT, KVH_NO_AVAILABLE_HANDLE);
	save_with_tail(&rig, 1, 40, &tail, 1);
	assert_string_equal(rig_calls(&rig), "exists 1 3 4 g1:3 g1:4\nput 1 3 4 g1:3 g1:4\n");
	assert_true(rig_skipped(&rig, "r"));
	assert_int_equal(rig_saved_tokens(&rig, "r"), 0);
	rig_advance_ns(&rig, 1000 * MS);
	save_with_tail(&rig, 2, 31, &tail, 1); /* beyond these hashes: no store call */
	assert_true(rig_skipped(&rig, "r"));
	rig_advance_ns(&rig, 1000 * MS);
	save_with_tail(&rig, 3, 40, &tail, 1);
	assert_false(kvh_inspect_pressure(rig.worker));
	assert_int_equal(rig_saved_tokens(&rig, "r"), 32);
	rig_close(&rig);
}

/* proves: R-21 */
static void a_tail_is_striped_by_block_index(void **state)
{
	const struct kvh_boundary tail = {.group = 1, .block_id = OWN_BLOCK, .tokens = 40};
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig.config.hash_tokens = 8;
	rig.config.partial_hits = true;
	rig.config.tp_size = 2;
	rig_add_group(&rig, KVH_ATTENTION_MAMBA, 32, 0);
	rig.groups[0].put_step = 2;
	rig.groups[1].put_step = 2;
	rig_open(&rig);
	save_with_tail(&rig, 1, 40, &tail, 1);
	/* Rank 0: even blocks of group 0, odd ones of group 1. */
	assert_string_equal(rig_calls(&rig), "exists 1 4 g1:4\nput 1 4 g1:4\nexists 1\n");
	rig_close(&rig);
}

/* proves: R-21 */
static void a_tail_counts_only_with_partial_hits(void **state)
{
	const struct kvh_boundary tail = {.group = 0, .block_id = OWN_BLOCK, .tokens = 32};
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig_open(&rig);
	save_with_tail(&rig, 1, 16, &tail, 1);
	assert_string_equal(rig_calls(&rig), "exists 0\nput 0\n");
	rig_close(&rig);
}

/* proves */
static void a_tails_put_waits_for_the_event(void **state)
{
	const struct kvh_boundary tail = {.group = 1, .block_id = OWN_BLOCK, .tokens = 24};
	struct kvh_save_job job;
	struct rig rig;
	struct rig_event event = {.status = KVH_OK};

	(void)state;
	open_tail(&rig);
	job = rig_save_job(&rig, 1, "r", 24);
	job.tail = &tail;
	job.tail_count = 1;
	job.event = &event;
	assert_int_equal(rig_submit_save(&rig, &job), KVH_OK);
	rig_run_save(&rig);
	assert_string_equal(rig_calls(&rig), "exists 1 2 g1:2\nevent\nput 1 2 g1:2\n");
	rig_close(&rig);
}

/* proves */
static void boundary_puts_come_before_the_normal_save(void **state)
{
	const struct kvh_boundary puts[] = {{.group = 1, .block_id = OWN_BLOCK, .tokens = 24},
	                                    {.group = 1, .block_id = KVH_NULL_BLOCK, .tokens = 32},
	                                    {.group = 1, .block_id = OWN_BLOCK, .tokens = 0},
	                                    {.group = 0, .block_id = OWN_BLOCK, .tokens = 40},
	                                    {.group = 0, .block_id = OWN_BLOCK, .tokens = 48}};
	struct rig rig;

	(void)state;
	open_tail(&rig);
	save_with_puts(&rig, 1, 40, puts, COUNT_OF(puts));
	assert_string_equal(rig_calls(&rig), "exists g1:2 4\nput g1:2 4\nexists 1 3\nput 1 3\n");
	assert_true(rig_stored(&rig, 1, 2, 0x55));
	assert_true(rig_stored(&rig, 0, 4, 0x50));
	/* A floored length of 0: only they are done. */
	rig.chain = 1;
	save_with_puts(&rig, 2, 24, puts, 1);
	assert_string_equal(rig_calls(&rig), "exists g1:2\nput g1:2\n");
	rig_close(&rig);
}

/* proves: R-22 */
static void a_failed_boundary_put_ends_the_job(void **state)
{
	const struct kvh_boundary put = {.group = 1, .block_id = OWN_BLOCK, .tokens = 24};
	struct rig rig;

	(void)state;
	open_tail(&rig);
	FAKE_ANSWER(&rig.world->fake, FAKE_PUT, KVH_TRANSFER_FAIL);
	save_with_puts(&rig, 1, 32, &put, 1);
	assert_string_equal(rig_calls(&rig), "exists g1:2\nput g1:2\n");
	assert_string_equal(rig_done(&rig), "saved 1 -800\n");
	assert_int_equal(rig_saved_tokens(&rig, "r"), 0);
	fake_answer_status(&rig.world->fake, FAKE_EXISTS, KVH_RPC_FAIL);
	save_with_puts(&rig, 2, 32, &put, 1);
	assert_string_equal(rig_calls(&rig), "exists g1:2\n");
	rig_close(&rig);
}

/* proves: R-22 */
static void boundary_puts_are_striped_by_the_chunk_that_holds_them(void **state)
{
	const struct kvh_boundary puts[] = {{.group = 1, .block_id = OWN_BLOCK, .tokens = 32},
	                                    {.group = 1, .block_id = OWN_BLOCK, .tokens = 40},
	                                    {.group = 1, .block_id = OWN_BLOCK, .tokens = 64},
	                                    {.group = 1, .block_id = OWN_BLOCK, .tokens = 72}};
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig.config.hash_tokens = 8;
	rig.config.partial_hits = true;
	rig.config.tp_size = 2;
	rig_add_group(&rig, KVH_ATTENTION_MAMBA, 32, 0);
	rig.groups[1].put_step = 2;
	rig_open(&rig);
	/* Group 1 of rank 0 has the odd chunks: tokens 33 to 64. */
	save_with_puts(&rig, 1, 72, puts, COUNT_OF(puts));
	assert_memory_equal(rig_calls(&rig), "exists g1:4 g1:7\nput g1:4 g1:7\n", 31);
	rig_close(&rig);
}

/* proves: D-17 */
static void d17_boundaries_off_the_hash_grid_are_refused(void **state)
{
	static const uint64_t wrong[] = {1, 7, 9, 39, KVH_TOKENS_MAX + 8ull, UINT64_MAX - 7};
	struct kvh_save_job job;
	struct rig rig;

	(void)state;
	open_tail(&rig);
	for (size_t i = 0; i < COUNT_OF(wrong); i++) {
		const struct kvh_boundary entry = {
			.group = 1, .block_id = OWN_BLOCK, .tokens = wrong[i]};

		job = rig_save_job(&rig, 1, "r", 40);
		job.tail = &entry;
		job.tail_count = 1;
		assert_refused(&rig, rig_submit_save(&rig, &job), "tail[0].tokens");
		job.tail = NULL;
		job.tail_count = 0;
		job.boundary_puts = &entry;
		job.boundary_put_count = 1;
		assert_refused(&rig, rig_submit_save(&rig, &job), "boundary_puts[0].tokens");
	}
	assert_string_equal(rig_done(&rig), "");
	assert_int_equal(rig_stats(&rig).queued_saves, 0);
	rig_close(&rig);
}

/* proves: D-17 */
static void d17_tail_keys_that_name_other_tokens_are_refused(void **state)
{
	/* The load ends at 40; group 1's last block at 64. */
	static const uint64_t wrong[] = {0, 4, 32, 39, 41, 72, UINT64_MAX - 7};
	static const uint64_t right[] = {40, 48, 64};
	struct kvh_load_job job;
	struct kvh_tail_key key = {.group = 1};
	struct rig rig;

	(void)state;
	open_tail(&rig);
	for (size_t i = 0; i < COUNT_OF(wrong); i++) {
		job = rig_load_job(&rig, 1, "r", 40, 0);
		job.hash_count = 9;
		key.tokens = wrong[i];
		job.tail_keys = &key;
		job.tail_key_count = 1;
		assert_refused(&rig, rig_submit_load(&rig, &job), "tail_keys[0].tokens");
	}
	job.hash_count = 5; /* right on the grid, but no hash names it */
	key.tokens = 48;
	assert_refused(&rig, rig_submit_load(&rig, &job), "tail_keys[0].tokens");
	assert_string_equal(rig_done(&rig), "");
	job.hash_count = 8;
	for (size_t i = 0; i < COUNT_OF(right); i++) {
		job.job_id = i + 1;
		key.tokens = right[i];
		assert_int_equal(rig_submit_load(&rig, &job), KVH_OK);
	}
	rig_close(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_tail_is_put_before_the_normal_save),
		cmocka_unit_test(a_tail_begins_at_the_saved_offset),
		cmocka_unit_test(a_boundary_at_a_blocks_end_uses_the_requests_block),
		cmocka_unit_test(null_and_missing_blocks_of_a_tail_are_skipped),
		cmocka_unit_test(a_tail_at_0_or_beyond_the_hashes_is_nothing_to_do),
		cmocka_unit_test(a_tail_of_two_boundaries_ends_the_job),
		cmocka_unit_test(a_failed_tail_ends_the_job_and_a_good_one_ends_pressure),
		cmocka_unit_test(a_tail_is_striped_by_block_index),
		cmocka_unit_test(a_tail_counts_only_with_partial_hits),
		cmocka_unit_test(a_tails_put_waits_for_the_event),
		cmocka_unit_test(boundary_puts_come_before_the_normal_save),
		cmocka_unit_test(a_failed_boundary_put_ends_the_job),
		cmocka_unit_test(boundary_puts_are_striped_by_the_chunk_that_holds_them),
		cmocka_unit_test(d17_boundaries_off_the_hash_grid_are_refused),
		cmocka_unit_test(d17_tail_keys_that_name_other_tokens_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
