/* SPDX-License-Identifier: Apache-2.0 */
/* Where a save goes another way than the reference (D-rules). */
#include "rig.h"

#include "base/fault.h"

/* proves: D-5 */
static void d5_a_put_slot_left_unwritten_is_a_failure(void **state)
{
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig_open(&rig);
	FAKE_ANSWER(&rig.world->fake, FAKE_PUT, FAKE_DO_IT, FAKE_DO_IT, FAKE_SILENT, FAKE_SILENT);
	rig_save_and_run(&rig, 1, "r", 64);
	assert_string_equal(rig_done(&rig), "saved 1 -2006\n");
	assert_int_equal(rig_saved_tokens(&rig, "r"), 0);
	assert_string_equal(rig_records(&rig), "exists ok 4 keys 0 failed 0 bytes\n"
	                                       "put partial_failure 4 keys 2 failed 4096 bytes\n");
	rig_close(&rig);
}

/* proves: D-18 */
static void d18_an_exists_slot_left_unwritten_is_missing(void **state)
{
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig_open(&rig);
	FAKE_ANSWER(&rig.world->fake, FAKE_EXISTS, 1, FAKE_SILENT, 1, FAKE_SILENT);
	rig_save_and_run(&rig, 1, "r", 64);
	assert_string_equal(rig_calls(&rig), "exists 0 1 2 3\nput 1 3\n");
	rig_close(&rig);
}

/* proves: D-10 */
static void d10_duplicate_keys_of_a_batch_go_through_once(void **state)
{
	struct rig rig;
	struct kvh_save_job job;

	(void)state;
	rig_init(&rig);
	rig_open(&rig);
	rig_fill_all(&rig, 4);
	job = rig_save_job(&rig, 1, "r", 64);
	memcpy(rig.hashes + 2 * KVH_HASH_BYTES_MAX, rig.hashes, KVH_HASH_BYTES_MAX);
	assert_int_equal(rig_submit_save(&rig, &job), KVH_OK);
	rig_run_save(&rig);
	assert_string_equal(rig_calls(&rig), "exists 0 1 3\nput 0 1 3\n");
	assert_int_equal(rig_saved_tokens(&rig, "r"), 64);
	assert_true(rig_stored(&rig, 0, 0, 1)); /* the first source */
	rig_close(&rig);
}

/* proves: D-11 */
static void d11_already_exists_counts_only_when_the_object_can_be_seen(void **state)
{
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig_open(&rig);
	FAKE_ANSWER(&rig.world->fake, FAKE_EXISTS, 0, 0, 0);
	FAKE_ANSWER(&rig.world->fake, FAKE_PUT, 0, KVH_OBJECT_ALREADY_EXISTS, 0);
	FAKE_ANSWER(&rig.world->fake, FAKE_EXISTS, 1);
	rig_save_and_run(&rig, 1, "r", 48);
	assert_string_equal(rig_calls(&rig), "exists 0 1 2\nput 0 1 2\nexists 1\n");
	assert_int_equal(rig_saved_tokens(&rig, "r"), 48);
	assert_int_equal(rig_stats(&rig).save_keys_duplicate, 1);
	/* The other writer died: what it began can't be seen. */
	FAKE_ANSWER(&rig.world->fake, FAKE_EXISTS, 0, 0);
	FAKE_ANSWER(&rig.world->fake, FAKE_PUT, KVH_OBJECT_ALREADY_EXISTS,
	            KVH_OBJECT_ALREADY_EXISTS);
	FAKE_ANSWER(&rig.world->fake, FAKE_EXISTS, 1, KVH_REPLICA_IS_NOT_READY);
	rig_save_and_run(&rig, 2, "r", 80);
	assert_int_equal(rig_saved_tokens(&rig, "r"), 48);
	/* Nor when the question fails. */
	FAKE_ANSWER(&rig.world->fake, FAKE_EXISTS, 0, 0);
	FAKE_ANSWER(&rig.world->fake, FAKE_PUT, KVH_OBJECT_ALREADY_EXISTS);
	fake_answer_status(&rig.world->fake, FAKE_EXISTS, KVH_RPC_FAIL);
	rig_save_and_run(&rig, 3, "r", 80);
	assert_int_equal(rig_saved_tokens(&rig, "r"), 48);
	assert_string_equal(rig_done(&rig), "saved 1 0\nsaved 2 -705\nsaved 3 -705\n");
	rig_close(&rig);
}

/* proves: D-12, R-14 */
static void d12_the_offset_stops_at_a_full_attention_chunk_without_source(void **state)
{
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig_add_group(&rig, KVH_ATTENTION_FULL, 32, 0);
	rig_open(&rig);
	/* Chunk 5 of group 0 starts at token 80; its floor to 32 tokens is 64. */
	rig.ids[0][5] = KVH_NULL_BLOCK;
	rig_save_and_run(&rig, 1, "r", 128);
	assert_string_equal(rig_calls(&rig), "exists 0 1 2 3 4 6 7 g1:1 g1:3 g1:5 g1:7\n"
	                                     "put 0 1 2 3 4 6 7 g1:1 g1:3 g1:5 g1:7\n");
	assert_int_equal(rig_saved_tokens(&rig, "r"), 64);
	rig.ids[0][5] = RIG_BLOCK + 5;
	rig_save_and_run(&rig, 2, "r", 128);
	assert_string_equal(rig_calls(&rig), "exists 4 5 6 7 g1:5 g1:7\nput 5\n");
	assert_int_equal(rig_saved_tokens(&rig, "r"), 128);
	rig_close(&rig);
}

/* proves: D-12, R-14 */
static void d12_null_chunks_of_other_kinds_and_stripes_do_not_stop_it(void **state)
{
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig.groups[0].put_step = 2;
	rig.config.tp_size = 2;
	rig_add_group(&rig, KVH_ATTENTION_SLIDING_WINDOW, 16, 64);
	rig_open(&rig);
	rig.ids[0][1] = KVH_NULL_BLOCK; /* the other rank's */
	rig.ids[1][0] = KVH_NULL_BLOCK; /* left the window */
	rig_save_and_run(&rig, 1, "r", 64);
	assert_int_equal(rig_saved_tokens(&rig, "r"), 64);
	rig_close(&rig);
}

/* proves: D-16 */
static void d16_a_shorter_job_does_not_move_the_offset_back(void **state)
{
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig_open(&rig);
	rig_save_and_run(&rig, 1, "r", 64);
	rig_save_and_run(&rig, 2, "r", 16);
	assert_int_equal(rig_saved_tokens(&rig, "r"), 64);
	rig_calls(&rig);
	/* Nor a failure, nor a chunk without source. */
	rig.ids[0][4] = KVH_NULL_BLOCK;
	rig_save_and_run(&rig, 3, "r", 96);
	assert_int_equal(rig_saved_tokens(&rig, "r"), 64);
	assert_string_equal(rig_calls(&rig), "exists 5\nput 5\n");
	rig_close(&rig);
}

/* proves: D-15 */
static void d15_an_event_error_fails_the_job_before_anything_is_put(void **state)
{
	struct rig rig;
	struct rig_event event = {.status = KVH_TRANSFER_FAIL};
	struct kvh_save_job job;

	(void)state;
	rig_init(&rig);
	rig_open(&rig);
	job = rig_save_job(&rig, 1, "r", 32);
	job.event = &event;
	assert_int_equal(rig_submit_save(&rig, &job), KVH_OK);
	rig_run_save(&rig);
	assert_string_equal(rig_calls(&rig), "exists 0 1\nevent\n");
	assert_int_equal(rig.world->fake.object_count, 0);
	assert_int_equal(rig_saved_tokens(&rig, "r"), 0);
	assert_string_equal(rig_done(&rig), "saved 1 -800\n");
	rig_close(&rig);
}

/* proves: D-22, R-14 */
static void d22_what_can_never_be_stored_is_put_once_in_a_life(void **state)
{
	static const kvh_status codes[] = {KVH_INVALID_KEY, KVH_INVALID_PARAMS, KVH_NOT_SUPPORTED,
	                                   KVH_TOO_LARGE};

	(void)state;
	for (size_t i = 0; i < COUNT_OF(codes); i++) {
		struct rig rig;

		rig_init(&rig);
		rig_open(&rig);
		FAKE_ANSWER(&rig.world->fake, FAKE_PUT, FAKE_DO_IT, FAKE_DO_IT, codes[i]);
		rig_save_and_run(&rig, 1, "r", 64);
		/* Stops the offset like a chunk without source. */
		assert_int_equal(rig_saved_tokens(&rig, "r"), 32);
		rig_calls(&rig);
		rig_save_and_run(&rig, 2, "r", 96);
		assert_string_equal(rig_calls(&rig), "exists 3 4 5\nput 4 5\n");
		assert_int_equal(rig_saved_tokens(&rig, "r"), 32);
		assert_int_equal(rig_stats(&rig).save_chunks_unstorable, 1);
		rig_done(&rig);
		/* A new life tries again. */
		rig_preempt(&rig, "r");
		rig_save_and_run(&rig, 3, "r", 48);
		assert_string_equal(rig_calls(&rig), "exists 0 1 2\nput 2\n");
		assert_int_equal(rig_saved_tokens(&rig, "r"), 48);
		rig_close(&rig);
	}
}

/* proves: D-22 */
static void d22_beside_a_passing_failure_the_offset_stays(void **state)
{
	struct rig rig;
	const char *lines;

	(void)state;
	rig_init(&rig);
	rig_open(&rig);
	FAKE_ANSWER(&rig.world->fake, FAKE_PUT, FAKE_DO_IT, KVH_TRANSFER_FAIL, FAKE_DO_IT,
	            KVH_INVALID_KEY);
	rig_save_and_run(&rig, 1, "r", 64);
	assert_int_equal(rig_saved_tokens(&rig, "r"), 0);
	rig_calls(&rig);
	rig_save_and_run(&rig, 2, "r", 64);
	assert_string_equal(rig_calls(&rig), "exists 0 1 2\nput 1\n");
	assert_int_equal(rig_saved_tokens(&rig, "r"), 48);
	/* Logged once for the chunk. */
	lines = strstr(rig.world->lines, "can never be stored");
	assert_non_null(lines);
	assert_null(strstr(lines + 1, "can never be stored"));
	rig_close(&rig);
}

/* proves: D-2 */
static void d2_a_failure_before_the_first_store_call_still_ends_the_save(void **state)
{
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig_open(&rig);
	assert_int_equal(rig_live_saves(&rig, "r"), 0);
	rig_save(&rig, 1, "r", 32);
	rig_save(&rig, 2, "r", 32);
	assert_true(kvh_fault_arm_nth("worker/save/begin", 1, KVH_NO_MEMORY));
	assert_true(kvh_fault_arm_nth("worker/save/normal", 1, KVH_INTERNAL));
	rig_run_save(&rig);
	rig_run_save(&rig);
	kvh_fault_disarm_all();
	assert_string_equal(rig_calls(&rig), "");
	assert_string_equal(rig_done(&rig), "saved 1 -2003\nsaved 2 -2009\n");
	assert_int_equal(rig_saved_tokens(&rig, "r"), 0);
	rig_close(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(d5_a_put_slot_left_unwritten_is_a_failure),
		cmocka_unit_test(d18_an_exists_slot_left_unwritten_is_missing),
		cmocka_unit_test(d10_duplicate_keys_of_a_batch_go_through_once),
		cmocka_unit_test(d11_already_exists_counts_only_when_the_object_can_be_seen),
		cmocka_unit_test(d12_the_offset_stops_at_a_full_attention_chunk_without_source),
		cmocka_unit_test(d12_null_chunks_of_other_kinds_and_stripes_do_not_stop_it),
		cmocka_unit_test(d16_a_shorter_job_does_not_move_the_offset_back),
		cmocka_unit_test(d15_an_event_error_fails_the_job_before_anything_is_put),
		cmocka_unit_test(d22_what_can_never_be_stored_is_put_once_in_a_life),
		cmocka_unit_test(d22_beside_a_passing_failure_the_offset_stays),
		cmocka_unit_test(d2_a_failure_before_the_first_store_call_still_ends_the_save),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
