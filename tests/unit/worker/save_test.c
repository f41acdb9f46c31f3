/* SPDX-License-Identifier: Apache-2.0 */
/* What a save does: which chunks, which store calls, where the offset goes. */
#include "rig.h"

#include "base/fault.h"

/* proves: R-13 */
static void token_count_is_floored_to_the_common_block_size(void **state)
{
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig_add_group(&rig, KVH_ATTENTION_FULL, 32, 0);
	rig_open(&rig);
	rig_save_and_run(&rig, 1, "r", 31);
	assert_string_equal(rig_calls(&rig), "");
	assert_string_equal(rig_done(&rig), "saved 1 0\n");
	rig_save_and_run(&rig, 2, "r", 95);
	assert_string_equal(rig_calls(&rig), "exists 0 1 2 3 g1:1 g1:3\n"
	                                     "put 0 1 2 3 g1:1 g1:3\n");
	assert_int_equal(rig_saved_tokens(&rig, "r"), 64);
	rig_close(&rig);
}

/* proves */
static void a_job_is_reported_exactly_once_with_the_users_word(void **state)
{
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig_open(&rig);
	rig_save(&rig, 1, "r", 32);
	assert_int_equal(rig_live_saves(&rig, "r"), 1);
	assert_string_equal(rig_done(&rig), "");
	rig_run_save(&rig);
	assert_int_equal(rig_live_saves(&rig, "r"), 0);
	assert_string_equal(rig_done(&rig), "saved 1 0\n");
	assert_string_equal(rig_done(&rig), "");
	rig_close(&rig);
}

/* proves: R-10 */
static void a_live_or_unpolled_job_id_is_refused(void **state)
{
	struct rig rig;
	struct kvh_save_job save;
	struct kvh_load_job load;

	(void)state;
	rig_init(&rig);
	rig_open(&rig);
	rig_save(&rig, 7, "r", 32);
	save = rig_save_job(&rig, 7, "other", 32);
	assert_refused(&rig, rig_submit_save(&rig, &save), "job_id");
	load = rig_load_job(&rig, 7, "r", 32, 0);
	assert_refused(&rig, rig_submit_load(&rig, &load), "job_id");
	rig_run_save(&rig);
	/* Ended, but its completion has not been taken. */
	assert_refused(&rig, rig_submit_save(&rig, &save), "job_id");
	assert_int_equal(rig_live_saves(&rig, "other"), 0);
	assert_string_equal(rig_done(&rig), "saved 7 0\n");
	rig_close(&rig);
}

/* proves: R-10 */
static void a_life_begins_with_the_first_job_after_a_preemption_or_a_finish(void **state)
{
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig_open(&rig);
	rig_save_and_run(&rig, 1, "r", 64);
	assert_int_equal(rig_saved_tokens(&rig, "r"), 64);
	rig_preempt(&rig, "r");
	rig_save(&rig, 2, "r", 32);
	assert_int_equal(rig_saved_tokens(&rig, "r"), 0);
	rig_run_save(&rig);
	assert_int_equal(rig_saved_tokens(&rig, "r"), 32);
	rig_finish(&rig, "r");
	rig_calls(&rig);
	rig_save_and_run(&rig, 3, "r", 64);
	assert_string_equal(rig_calls(&rig), "exists 0 1 2 3\n");
	assert_string_equal(rig_done(&rig), "saved 1 0\nsaved 2 0\nsaved 3 0\n");
	rig_close(&rig);
}

/* proves: R-11 */
static void a_stale_job_only_reports_itself(void **state)
{
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig_open(&rig);
	rig_save(&rig, 1, "r", 64);
	rig_preempt(&rig, "r");
	rig_save(&rig, 2, "r", 32);
	rig_run_save(&rig); /* the stale one: it must not act on the resumed request */
	assert_string_equal(rig_calls(&rig), "");
	assert_int_equal(rig_saved_tokens(&rig, "r"), 0);
	assert_int_equal(rig_live_saves(&rig, "r"), 1);
	rig_run_save(&rig);
	assert_int_equal(rig_saved_tokens(&rig, "r"), 32);
	rig_done(&rig);
	assert_int_equal(rig_stats(&rig).save_jobs_stale, 1);
	rig_close(&rig);
}

/* The engine's view in the middle of a put: not reported yet, so the block is still lent. */
static void poll_finds_nothing(void *user, enum fake_fn fn)
{
	if (fn == FAKE_PUT)
		assert_string_equal(rig_done(user), "");
}

/* proves: R-12 */
static void blocks_are_not_read_after_the_report(void **state)
{
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig_open(&rig);
	rig_fill_all(&rig, 2);
	rig.world->fake.hook = poll_finds_nothing;
	rig.world->fake.after = poll_finds_nothing;
	rig.world->fake.hook_user = &rig;
	rig_save_and_run(&rig, 1, "r", 32);
	rig.world->fake.hook = NULL;
	rig.world->fake.after = NULL;
	assert_string_equal(rig_done(&rig), "saved 1 0\n");
	rig_fill(&rig, 0, RIG_BLOCK, 0xEE);
	rig_fill(&rig, 0, RIG_BLOCK + 1, 0xEE);
	/* Another job runs over the worker's reused arrays. */
	rig_save_and_run(&rig, 2, "s", 64);
	assert_true(rig_stored(&rig, 0, 0, 1));
	assert_true(rig_stored(&rig, 0, 1, 2));
	rig_close(&rig);
}

/* proves: R-12 */
static void every_kind_of_end_is_reported_once(void **state)
{
	struct rig rig;
	struct rig_event event = {.status = KVH_INTERNAL};
	struct kvh_save_job job;
	enum kvh_cancel_outcome outcome;

	(void)state;
	rig_init(&rig);
	rig_open(&rig);
	fake_answer_status(&rig.world->fake, FAKE_EXISTS, KVH_RPC_FAIL);
	rig_save_and_run(&rig, 1, "exists", 16);
	fake_answer_status(&rig.world->fake, FAKE_PUT, KVH_TRANSFER_FAIL);
	rig_save_and_run(&rig, 2, "put", 16);
	FAKE_ANSWER(&rig.world->fake, FAKE_PUT, KVH_NO_AVAILABLE_HANDLE);
	rig_save_and_run(&rig, 3, "full", 16);
	rig_save_and_run(&rig, 4, "full", 16); /* skipped */
	job = rig_save_job(&rig, 5, "event", 16);
	job.event = &event;
	assert_int_equal(rig_submit_save(&rig, &job), KVH_OK);
	rig_run_save(&rig);
	rig_save(&rig, 6, "cancelled", 16);
	assert_int_equal(kvh_worker_cancel(rig.worker, 6, &outcome), KVH_OK);
	assert_int_equal(outcome, KVH_CANCEL_NOT_STARTED);
	rig_save(&rig, 7, "stale", 16);
	rig_preempt(&rig, "stale");
	rig_run_save(&rig);
	rig_save_and_run(&rig, 8, "floored", 15);
	assert_string_equal(rig_done(&rig), "saved 1 -900\nsaved 2 -800\nsaved 3 -200\n"
	                                    "saved 4 -200\nsaved 5 -2009\nsaved 6 -2001\n"
	                                    "saved 7 -2001\nsaved 8 0\n");
	assert_string_equal(rig_done(&rig), "");
	rig_close(&rig);
}

/* proves: R-14 */
static void the_offset_moves_to_the_end_when_all_is_stored_or_present(void **state)
{
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig_open(&rig);
	rig_plant(&rig, 0, 1, 9);
	rig_save_and_run(&rig, 1, "r", 64);
	assert_string_equal(rig_calls(&rig), "exists 0 1 2 3\nput 0 2 3\n");
	assert_int_equal(rig_saved_tokens(&rig, "r"), 64);
	rig_save_and_run(&rig, 2, "r", 96);
	assert_string_equal(rig_calls(&rig), "exists 4 5\nput 4 5\n");
	assert_int_equal(rig_saved_tokens(&rig, "r"), 96);
	rig_close(&rig);
}

/* proves: R-14 */
static void no_store_call_when_nothing_is_due(void **state)
{
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig_open(&rig);
	rig_save_and_run(&rig, 1, "r", 64);
	rig_calls(&rig);
	rig_save_and_run(&rig, 2, "r", 64);
	rig_save_and_run(&rig, 3, "r", 32);
	assert_string_equal(rig_calls(&rig), "");
	assert_string_equal(rig_done(&rig), "saved 1 0\nsaved 2 0\nsaved 3 0\n");
	assert_int_equal(rig_stats(&rig).save_jobs_not_due, 2);
	rig_close(&rig);
}

/* proves: R-14 */
static void a_failed_key_keeps_the_offset_where_it_was(void **state)
{
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig_open(&rig);
	rig_save_and_run(&rig, 1, "r", 32);
	FAKE_ANSWER(&rig.world->fake, FAKE_PUT, FAKE_DO_IT, KVH_TRANSFER_FAIL);
	rig_save_and_run(&rig, 2, "r", 96);
	assert_int_equal(rig_saved_tokens(&rig, "r"), 32);
	rig_calls(&rig);
	rig_save_and_run(&rig, 3, "r", 96);
	assert_string_equal(rig_calls(&rig), "exists 2 3 4 5\nput 3\n");
	assert_int_equal(rig_saved_tokens(&rig, "r"), 96);
	rig_close(&rig);
}

/* proves: R-14 */
static void a_stale_job_moves_no_offset(void **state)
{
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig_open(&rig);
	rig_save(&rig, 1, "r", 64);
	rig_preempt(&rig, "r");
	rig_save(&rig, 2, "r", 16);
	rig_run_save(&rig);
	assert_int_equal(rig_saved_tokens(&rig, "r"), 0);
	rig_close(&rig);
}

static void preempt_and_resume(void *user, enum fake_fn fn)
{
	struct rig *rig = user;

	if (fn != FAKE_PUT)
		return;
	rig->world->fake.hook = NULL;
	rig_preempt(rig, "r");
	rig_save(rig, 2, "r", 16);
}

/* proves */
static void a_job_that_grows_stale_in_its_put_leaves_the_new_life_alone(void **state)
{
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig_open(&rig);
	rig.world->fake.hook = preempt_and_resume;
	rig.world->fake.hook_user = &rig;
	rig_save_and_run(&rig, 1, "r", 64);
	assert_int_equal(rig_saved_tokens(&rig, "r"), 0);
	assert_int_equal(rig_live_saves(&rig, "r"), 1);
	rig_run_save(&rig);
	assert_int_equal(rig_saved_tokens(&rig, "r"), 16);
	assert_string_equal(rig_done(&rig), "saved 1 0\nsaved 2 0\n");
	rig_close(&rig);
}

/* proves: R-15 */
static void ranks_with_equal_bytes_share_the_puts_by_chunk_and_group(void **state)
{
	static const char *const calls[] = {"exists 0 2 g1:1 g1:3\nput 0 2 g1:1 g1:3\n",
	                                    "exists 1 3 g1:0 g1:2\nput 1 3 g1:0 g1:2\n"};

	(void)state;
	for (uint32_t rank = 0; rank < 2; rank++) {
		struct rig rig;

		rig_init(&rig);
		rig_add_group(&rig, KVH_ATTENTION_FULL, 16, 0);
		rig.groups[0].mla = true;
		rig.groups[1].kv_heads = 1;
		rig.config.tp_size = 2;
		rig.config.tp_rank = rank;
		rig_open(&rig);
		rig_save_and_run(&rig, 1, "r", 64);
		/* Both ranks write under the key of rank 0. */
		assert_string_equal(rig_calls(&rig), calls[rank]);
		assert_int_equal(rig_saved_tokens(&rig, "r"), 64);
		rig_close(&rig);
	}
}

/* proves: R-15 */
static void a_stripe_counts_chunks_from_the_requests_start(void **state)
{
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig.groups[0].put_step = 4;
	rig.config.tp_size = 4;
	rig.config.tp_rank = 1;
	rig_open(&rig);
	rig_save_and_run(&rig, 1, "r", 48);
	rig_save_and_run(&rig, 2, "r", 160);
	assert_string_equal(rig_calls(&rig), "exists t1:1\nput t1:1\n"
	                                     "exists t1:5 t1:9\nput t1:5 t1:9\n");
	rig_close(&rig);
}

/* proves: R-15 */
static void the_store_mask_picks_the_chunks_of_a_sliding_window(void **state)
{
	struct rig rig;
	struct kvh_save_job job;

	(void)state;
	rig_init(&rig);
	rig.groups[0].block_tokens = 64;
	rig.block_bytes[0] = 4096;
	rig_add_group(&rig, KVH_ATTENTION_SLIDING_WINDOW, 16, 17); /* needs one block */
	rig_open(&rig);
	job = rig_save_job(&rig, 1, "r", 128);
	assert_int_equal(rig_submit_save(&rig, &job), KVH_OK);
	rig_run_save(&rig);
	/* The last block of each common block size (C-34 with the interval of 64 tokens). */
	assert_string_equal(rig_calls(&rig), "exists 3 7 g1:3 g1:7\nput 3 7 g1:3 g1:7\n");
	rig_close(&rig);
}

/* proves: R-15b */
static void a_group_that_opts_out_is_left_out_everywhere(void **state)
{
	struct rig rig;
	const struct kvh_boundary put = {.group = 1, .block_id = 5, .tokens = 32};
	struct kvh_lookup_result found = {.struct_bytes = sizeof(found)};
	struct kvh_save_job job;

	(void)state;
	rig_init(&rig);
	rig_add_group(&rig, KVH_ATTENTION_MAMBA, 16, 0);
	rig.groups[1].opts_out = true;
	rig_open(&rig);
	job = rig_save_job(&rig, 1, "r", 32);
	rig.tables[1] = (struct kvh_block_table){0};
	job.boundary_puts = &put;
	job.boundary_put_count = 1;
	assert_int_equal(rig_submit_save(&rig, &job), KVH_OK);
	rig_run_save(&rig);
	assert_string_equal(rig_calls(&rig), "exists 0 1\nput 0 1\n");
	assert_int_equal(rig_saved_tokens(&rig, "r"), 32);
	rig_load_and_run(&rig, 2, "r", 32, 0);
	assert_string_equal(rig_calls(&rig), "get 0 1\n");
	assert_int_equal(rig_lookup(&rig, 33, &found), 32);
	assert_string_equal(rig_calls(&rig), "exists 0 1\n");
	assert_int_equal(found.tail_key_count, 1);
	assert_int_equal(found.tail_keys[0].group, 0);
	rig_close(&rig);
}

/* proves: R-15b */
static void fields_of_a_group_that_opts_out_are_not_looked_at(void **state)
{
	struct rig rig;
	const struct kvh_boundary tail = {.group = 0, .block_id = 7, .tokens = 40};
	struct kvh_save_job job;
	struct kvh_load_job load;
	const struct kvh_tail_key key = {.group = 1, .tokens = 32};

	(void)state;
	rig_init(&rig);
	rig.config.hash_tokens = 8;
	rig.config.partial_hits = true;
	rig_add_group(&rig, 0, 0, 0); /* no kind, no block size */
	rig.groups[1].opts_out = true;
	rig.block_bytes[1] = 64;
	rig_open(&rig);
	job = rig_save_job(&rig, 1, "r", 40);
	job.tail = &tail;
	job.tail_count = 1;
	assert_int_equal(rig_submit_save(&rig, &job), KVH_OK);
	rig_run_save(&rig);
	rig_load_and_run(&rig, 2, "r", 32, 0);
	assert_string_equal(rig_done(&rig), "saved 1 0\nloaded 2 0\n");
	load = rig_load_job(&rig, 3, "r", 32, 0);
	load.tail_keys = &key;
	load.tail_key_count = 1;
	assert_int_equal(rig_submit_load(&rig, &load), KVH_OK);
	rig_close(&rig);
}

/* proves: R-16 */
static void null_blocks_are_skipped(void **state)
{
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig_open(&rig);
	rig.ids[0][2] = KVH_NULL_BLOCK;
	rig_save_and_run(&rig, 1, "r", 64);
	assert_string_equal(rig_calls(&rig), "exists 0 1 3\nput 0 1 3\n");
	assert_null(rig_object(&rig, 0, 2));
	assert_int_equal(rig_stats(&rig).save_chunks_null, 1);
	rig_close(&rig);
}

/* proves: R-17 */
static void only_1_means_present_and_missing_keys_keep_their_order(void **state)
{
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig_open(&rig);
	FAKE_ANSWER(&rig.world->fake, FAKE_EXISTS, 2, 1, -1, KVH_REPLICA_IS_NOT_READY, 0, 1);
	rig_save_and_run(&rig, 1, "r", 96);
	assert_string_equal(rig_calls(&rig), "exists 0 1 2 3 4 5\nput 0 2 3 4\n");
	assert_int_equal(rig.world->fake.last_exists_flags, KVH_EXISTS_DEDUP);
	assert_int_equal(rig_stats(&rig).save_keys_present, 2);
	assert_int_equal(rig_stats(&rig).save_keys_put, 4);
	rig_close(&rig);
}

/* proves: R-17 */
static void an_exists_error_ends_the_job_and_is_recorded(void **state)
{
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig_open(&rig);
	fake_answer_status(&rig.world->fake, FAKE_EXISTS, KVH_RPC_TIMEOUT);
	rig_save_and_run(&rig, 1, "r", 64);
	assert_string_equal(rig_calls(&rig), "exists 0 1 2 3\n");
	assert_string_equal(rig_records(&rig), "exists error 4 keys 4 failed 0 bytes\n");
	assert_int_equal(rig_saved_tokens(&rig, "r"), 0);
	assert_string_equal(rig_done(&rig), "saved 1 -901\n");
	rig_close(&rig);
}

/* proves: R-18 */
static void the_event_is_waited_for_after_exists_and_before_put(void **state)
{
	struct rig rig;
	struct rig_event event = {.timeouts = 2};
	struct kvh_save_job job;

	(void)state;
	rig_init(&rig);
	rig_open(&rig);
	job = rig_save_job(&rig, 1, "r", 16);
	job.event = &event;
	assert_int_equal(rig_submit_save(&rig, &job), KVH_OK);
	rig_run_save(&rig);
	assert_string_equal(rig_calls(&rig), "exists 0\nevent\nevent\nevent\nput 0\n");
	/* All present: nothing is read, so nothing is waited for. */
	job = rig_save_job(&rig, 2, "s", 16);
	job.event = &event;
	assert_int_equal(rig_submit_save(&rig, &job), KVH_OK);
	rig_run_save(&rig);
	assert_string_equal(rig_calls(&rig), "exists 0\n");
	rig_close(&rig);
}

/* proves: R-19 */
static void puts_are_recorded_with_all_keys_and_bytes(void **state)
{
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig_open(&rig);
	rig_save_and_run(&rig, 1, "a", 32);
	assert_string_equal(rig_records(&rig), "exists ok 2 keys 0 failed 0 bytes\n"
	                                       "put ok 2 keys 0 failed 2048 bytes\n");
	rig.chain = 1;
	FAKE_ANSWER(&rig.world->fake, FAKE_PUT, FAKE_DO_IT, KVH_TRANSFER_FAIL, -7, 3);
	rig_save_and_run(&rig, 2, "b", 64);
	assert_string_equal(rig_records(&rig), "exists ok 4 keys 0 failed 0 bytes\n"
	                                       "put partial_failure 4 keys 2 failed 4096 bytes\n");
	rig.chain = 2;
	fake_answer_status(&rig.world->fake, FAKE_PUT, KVH_RPC_FAIL);
	rig_save_and_run(&rig, 3, "c", 16);
	assert_string_equal(rig_records(&rig), "exists ok 1 keys 0 failed 0 bytes\n"
	                                       "put error 1 keys 1 failed 1024 bytes\n");
	assert_int_equal(rig_stats(&rig).save_bytes, 2048);
	rig_close(&rig);
}

/* proves */
static void a_put_that_failed_as_a_whole_stored_nothing_for_sure(void **state)
{
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig.config.events = true;
	rig_open(&rig);
	FAKE_ANSWER(&rig.world->fake, FAKE_PUT, 0, 0);
	fake_answer_fails(&rig.world->fake, FAKE_PUT, KVH_RPC_FAIL);
	rig_save_and_run(&rig, 1, "r", 32);
	assert_int_equal(rig_saved_tokens(&rig, "r"), 0);
	assert_string_equal(rig_done(&rig), "saved 1 -900\n");
	/* Nor is what an exists said that failed. */
	FAKE_ANSWER(&rig.world->fake, FAKE_EXISTS, 1, 1);
	fake_answer_fails(&rig.world->fake, FAKE_EXISTS, KVH_RPC_FAIL);
	rig_save_and_run(&rig, 2, "r", 32);
	assert_int_equal(rig_saved_tokens(&rig, "r"), 0);
	rig_close(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(token_count_is_floored_to_the_common_block_size),
		cmocka_unit_test(a_job_is_reported_exactly_once_with_the_users_word),
		cmocka_unit_test(a_live_or_unpolled_job_id_is_refused),
		cmocka_unit_test(a_life_begins_with_the_first_job_after_a_preemption_or_a_finish),
		cmocka_unit_test(a_stale_job_only_reports_itself),
		cmocka_unit_test(blocks_are_not_read_after_the_report),
		cmocka_unit_test(every_kind_of_end_is_reported_once),
		cmocka_unit_test(the_offset_moves_to_the_end_when_all_is_stored_or_present),
		cmocka_unit_test(no_store_call_when_nothing_is_due),
		cmocka_unit_test(a_failed_key_keeps_the_offset_where_it_was),
		cmocka_unit_test(a_stale_job_moves_no_offset),
		cmocka_unit_test(a_job_that_grows_stale_in_its_put_leaves_the_new_life_alone),
		cmocka_unit_test(ranks_with_equal_bytes_share_the_puts_by_chunk_and_group),
		cmocka_unit_test(a_stripe_counts_chunks_from_the_requests_start),
		cmocka_unit_test(the_store_mask_picks_the_chunks_of_a_sliding_window),
		cmocka_unit_test(a_group_that_opts_out_is_left_out_everywhere),
		cmocka_unit_test(fields_of_a_group_that_opts_out_are_not_looked_at),
		cmocka_unit_test(null_blocks_are_skipped),
		cmocka_unit_test(only_1_means_present_and_missing_keys_keep_their_order),
		cmocka_unit_test(an_exists_error_ends_the_job_and_is_recorded),
		cmocka_unit_test(the_event_is_waited_for_after_exists_and_before_put),
		cmocka_unit_test(puts_are_recorded_with_all_keys_and_bytes),
		cmocka_unit_test(a_put_that_failed_as_a_whole_stored_nothing_for_sure),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
