/* SPDX-License-Identifier: Apache-2.0 */
/* Stored-block events, the token ids that wait for them, and evicted keys. */
#include "rig.h"

static void open_events(struct rig *rig)
{
	rig_init(rig);
	rig->config.events = true;
	rig_open(rig);
}

/* The id of the token at position p is 1000 + p. */
static void save_ids(struct rig *rig, uint64_t job_id, uint64_t tokens, uint64_t start,
                     size_t count)
{
	int32_t ids[256];
	struct kvh_save_job job = rig_save_job(rig, job_id, "r", tokens);

	assert_true(count <= COUNT_OF(ids));
	for (size_t i = 0; i < count; i++)
		ids[i] = (int32_t)(1000 + start + i);
	job.token_ids = ids;
	job.token_id_count = count;
	job.token_ids_start = start;
	if (rig_submit_save(rig, &job))
		fail_msg("%s", rig->error.text);
	memset(ids, 0, sizeof(ids)); /* only lent for the call */
	rig_run_save(rig);
}

/* proves: R-23 */
static void each_block_that_was_put_has_an_event_before_the_end(void **state)
{
	struct rig rig;

	(void)state;
	open_events(&rig);
	rig_plant(&rig, 0, 1, 9); /* present: no event */
	save_ids(&rig, 1, 48, 0, 48);
	assert_string_equal(rig_done(&rig), "event 1 g0 h0 p- t1000+16\n"
	                                    "event 1 g0 h2 p1 t1032+16\nsaved 1 0\n");
	assert_int_equal(rig.event.block_tokens, 16);
	assert_int_equal(rig.event.hash_bytes, 32);
	assert_string_equal(rig.event.medium, "cpu");
	assert_false(rig.event.integer_hashes);
	assert_string_equal(rig_kept(&rig, "r"), "-");
	assert_int_equal(rig_stats(&rig).events_reported, 2);
	rig_close(&rig);
}

/* proves: R-23 */
static void events_are_off_by_default(void **state)
{
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig_open(&rig);
	save_ids(&rig, 1, 32, 0, 32);
	assert_string_equal(rig_done(&rig), "saved 1 0\n");
	rig_close(&rig);
}

/* proves: D-6, D-11, R-23 */
static void d6_only_puts_that_succeeded_have_events(void **state)
{
	struct rig rig;

	(void)state;
	open_events(&rig);
	FAKE_ANSWER(&rig.world->fake, FAKE_PUT, KVH_TRANSFER_FAIL, FAKE_DO_IT, FAKE_SILENT,
	            KVH_OBJECT_ALREADY_EXISTS);
	FAKE_ANSWER(&rig.world->fake, FAKE_EXISTS, 0, 0, 0, 0);
	FAKE_ANSWER(&rig.world->fake, FAKE_EXISTS, 1);
	rig_save_and_run(&rig, 1, "r", 64);
	assert_string_equal(rig_done(&rig), "event 1 g0 h1 p0 t-\nsaved 1 -800\n");
	fake_answer_status(&rig.world->fake, FAKE_PUT, KVH_RPC_FAIL);
	rig_save_and_run(&rig, 2, "r", 64);
	assert_string_equal(rig_done(&rig), "saved 2 -900\n");
	rig_close(&rig);
}

/* proves: R-23 */
static void the_parent_is_the_hash_before_the_blocks_first_token(void **state)
{
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig.config.events = true;
	rig_add_group(&rig, KVH_ATTENTION_FULL, 32, 0);
	rig_open(&rig);
	save_ids(&rig, 1, 64, 0, 64);
	assert_string_equal(rig_done(&rig),
	                    "event 1 g0 h0 p- t1000+16\nevent 1 g0 h1 p0 t1016+16\n"
	                    "event 1 g0 h2 p1 t1032+16\nevent 1 g0 h3 p2 t1048+16\n"
	                    "event 1 g1 h1 p- t1000+32\nevent 1 g1 h3 p1 t1032+32\nsaved 1 0\n");
	rig_close(&rig);
}

/* proves: R-23 */
static void token_ids_are_given_only_when_they_cover_the_block(void **state)
{
	struct rig rig;

	(void)state;
	open_events(&rig);
	save_ids(&rig, 1, 64, 17, 46); /* 17 .. 62 */
	assert_string_equal(rig_done(&rig), "event 1 g0 h0 p- t-\nevent 1 g0 h1 p0 t-\n"
	                                    "event 1 g0 h2 p1 t1032+16\nevent 1 g0 h3 p2 t-\n"
	                                    "saved 1 0\n");
	rig_close(&rig);
}

/* proves: R-23 */
static void integer_hashes_are_the_last_8_bytes_big_endian(void **state)
{
	static const uint32_t lengths[] = {32, 8, 5};

	(void)state;
	for (size_t i = 0; i < COUNT_OF(lengths); i++) {
		uint32_t bytes = lengths[i];
		uint64_t parent = 0, own = 0;
		uint8_t hash[KVH_HASH_BYTES_MAX];
		struct rig rig;

		rig_init(&rig);
		rig.config.events = true;
		rig.config.integer_hashes = true;
		rig.config.hash_bytes = bytes;
		rig_open(&rig);
		rig_save_and_run(&rig, 1, "r", 32);
		rig_done(&rig);
		assert_true(rig.event.integer_hashes);
		fake_hash(0, 0, hash, bytes);
		for (uint32_t b = bytes > 8 ? bytes - 8 : 0; b < bytes; b++)
			parent = parent * 256 + hash[b];
		fake_hash(0, 1, hash, bytes);
		for (uint32_t b = bytes > 8 ? bytes - 8 : 0; b < bytes; b++)
			own = own * 256 + hash[b];
		assert_true(rig.event.hash_integer == own);
		assert_true(rig.event.parent_integer == parent);
		rig_close(&rig);
	}
}

/* proves: R-23 */
static void token_ids_of_an_uncompleted_job_go_before_the_next_ones(void **state)
{
	struct rig rig;

	(void)state;
	open_events(&rig);
	FAKE_ANSWER(&rig.world->fake, FAKE_PUT, FAKE_DO_IT, KVH_TRANSFER_FAIL);
	save_ids(&rig, 1, 32, 0, 32);
	assert_string_equal(rig_kept(&rig, "r"), "0+32");
	assert_string_equal(rig_done(&rig), "event 1 g0 h0 p- t1000+16\nsaved 1 -800\n");
	save_ids(&rig, 2, 48, 32, 16);
	assert_string_equal(rig_done(&rig), "event 2 g0 h1 p0 t1016+16\n"
	                                    "event 2 g0 h2 p1 t1032+16\nsaved 2 0\n");
	assert_string_equal(rig_kept(&rig, "r"), "-");
	rig_close(&rig);
}

/* proves */
static void token_ids_are_kept_from_where_the_offset_stopped(void **state)
{
	struct rig rig;

	(void)state;
	open_events(&rig);
	rig.ids[0][2] = KVH_NULL_BLOCK;
	save_ids(&rig, 1, 64, 0, 64);
	assert_int_equal(rig_saved_tokens(&rig, "r"), 32);
	assert_string_equal(rig_kept(&rig, "r"), "32+32");
	rig_done(&rig);
	rig.ids[0][2] = RIG_BLOCK + 2;
	save_ids(&rig, 2, 80, 64, 16);
	assert_string_equal(rig_done(&rig), "event 2 g0 h2 p1 t1032+16\n"
	                                    "event 2 g0 h4 p3 t1064+16\nsaved 2 0\n");
	rig_close(&rig);
}

/* proves: R-23 */
static void token_ids_with_a_gap_or_an_overlap_do_not_join(void **state)
{
	static const uint64_t starts[] = {31, 33};

	(void)state;
	for (size_t i = 0; i < COUNT_OF(starts); i++) {
		struct rig rig;

		open_events(&rig);
		FAKE_ANSWER(&rig.world->fake, FAKE_PUT, KVH_TRANSFER_FAIL);
		save_ids(&rig, 1, 32, 0, 32);
		rig_done(&rig);
		save_ids(&rig, 2, 64, starts[i], 64 - starts[i]);
		/* Chunk 0 has only the kept ids, which do not count. */
		assert_non_null(strstr(rig_done(&rig), "event 2 g0 h0 p- t-\n"));
		rig_close(&rig);
	}
}

/* proves: R-23 */
static void kept_token_ids_end_with_the_life(void **state)
{
	struct rig rig;

	(void)state;
	open_events(&rig);
	FAKE_ANSWER(&rig.world->fake, FAKE_PUT, KVH_TRANSFER_FAIL);
	save_ids(&rig, 1, 32, 0, 32);
	assert_string_equal(rig_kept(&rig, "r"), "0+32");
	rig_preempt(&rig, "r");
	rig_done(&rig);
	save_ids(&rig, 2, 48, 32, 16);
	assert_string_equal(rig_done(&rig), "event 2 g0 h0 p- t-\n"
	                                    "event 2 g0 h2 p1 t1032+16\nsaved 2 0\n");
	rig_close(&rig);
}

/* proves: R-23 */
static void kept_token_ids_outlive_pressure_skips(void **state)
{
	struct rig rig;

	(void)state;
	open_events(&rig);
	FAKE_ANSWER(&rig.world->fake, FAKE_PUT, KVH_NO_AVAILABLE_HANDLE, KVH_NO_AVAILABLE_HANDLE);
	save_ids(&rig, 1, 32, 0, 32);
	save_ids(&rig, 2, 48, 32, 16); /* skipped */
	assert_string_equal(rig_kept(&rig, "r"), "0+48");
	rig_save_and_run(&rig, 3, "r", 48); /* skipped, without ids */
	assert_string_equal(rig_kept(&rig, "r"), "0+48");
	rig_done(&rig);
	rig_advance_ns(&rig, 1000 * MS);
	save_ids(&rig, 4, 64, 48, 16);
	assert_string_equal(rig_done(&rig),
	                    "event 4 g0 h0 p- t1000+16\nevent 4 g0 h1 p0 t1016+16\n"
	                    "event 4 g0 h2 p1 t1032+16\nevent 4 g0 h3 p2 t1048+16\nsaved 4 0\n");
	rig_close(&rig);
}

/* proves: R-23 */
static void a_floored_length_of_0_keeps_no_token_ids(void **state)
{
	struct rig rig;

	(void)state;
	open_events(&rig);
	save_ids(&rig, 1, 15, 0, 15);
	assert_string_equal(rig_kept(&rig, "r"), "-");
	rig_close(&rig);
}

/* proves: R-23 */
static void a_stale_job_keeps_no_token_ids(void **state)
{
	int32_t ids[16] = {0};
	struct kvh_save_job job;
	struct rig rig;

	(void)state;
	open_events(&rig);
	job = rig_save_job(&rig, 1, "r", 16);
	job.token_ids = ids;
	job.token_id_count = 16;
	assert_int_equal(rig_submit_save(&rig, &job), KVH_OK);
	rig_preempt(&rig, "r");
	rig_save(&rig, 2, "r", 15);
	rig_run_save(&rig);
	assert_string_equal(rig_kept(&rig, "r"), "-");
	assert_string_equal(rig_done(&rig), "saved 1 -2001\n");
	rig_close(&rig);
}

/* proves */
static void a_sharded_block_has_one_event_when_every_shard_was_put(void **state)
{
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig.config.events = true;
	rig.config.format = KVH_FORMAT_TP_SHARED_LBHNC;
	rig.config.store_tp_size = 2;
	rig.groups[0].kv_heads = 2;
	rig_open(&rig);
	FAKE_ANSWER(&rig.world->fake, FAKE_EXISTS, 0, 0, 1, 0, 0, 0);
	FAKE_ANSWER(&rig.world->fake, FAKE_PUT, KVH_TRANSFER_FAIL, FAKE_DO_IT, FAKE_DO_IT,
	            FAKE_DO_IT, KVH_TRANSFER_FAIL);
	rig_save_and_run(&rig, 1, "r", 48);
	assert_string_equal(rig_calls(&rig), "exists 0 t1:0 1 t1:1 2 t1:2\n"
	                                     "put 0 t1:0 t1:1 2 t1:2\n");
	assert_string_equal(rig_done(&rig), "event 1 g0 h1 p0 t-\n"
	                                    "saved 1 -800\n");
	rig_close(&rig);
}

static void evicted_key(struct kvh_evicted_key *key, uint32_t prefix_id, unsigned index)
{
	*key = (struct kvh_evicted_key){.prefix_id = prefix_id, .hash_bytes = 32};
	fake_hash(0, index, key->hash, 32);
}

/* proves: R-23 */
static void evicted_keys_of_this_rank_come_through_poll(void **state)
{
	struct kvh_evicted_key keys[3];
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig.config.events = true;
	rig.config.tp_size = 2; /* prefix 0 is this rank's, 1 the other's */
	rig_open(&rig);
	evicted_key(&keys[0], 0, 5);
	evicted_key(&keys[1], 1, 6);
	evicted_key(&keys[2], 0, 7);
	rig.world->fake.evicted = keys;
	rig.world->fake.evicted_count = 3;
	rig_save_and_run(&rig, 1, "r", 15);
	assert_string_equal(rig_done(&rig), "saved 1 0\nevicted h5 0\nevicted h7 0\n");
	rig.world->fake.evicted = keys;
	rig.world->fake.evicted_count = 1;
	rig.world->fake.evicted_lost = true;
	rig_save_and_run(&rig, 2, "r", 15);
	assert_string_equal(rig_done(&rig), "saved 2 0\nevicted h- -2006\nevicted h5 0\n");
	rig_close(&rig);
}

/* proves: R-23 */
static void when_nobody_polls_the_oldest_evicted_keys_are_lost_and_that_is_said(void **state)
{
	enum { RING = 4096, MORE = 5 };
	static struct kvh_evicted_key keys[RING + MORE];
	struct kvh_completion one;
	size_t count, taken = 0;
	struct rig rig;

	(void)state;
	open_events(&rig);
	for (unsigned i = 0; i < RING + MORE; i++)
		evicted_key(&keys[i], 0, i % 100);
	rig.world->fake.evicted = keys;
	rig.world->fake.evicted_count = RING + MORE;
	rig_save_and_run(&rig, 1, "r", 15);
	assert_int_equal(rig_stats(&rig).completions_waiting, RING + 1);
	assert_int_equal(kvh_worker_poll(rig.worker, &one, sizeof(one), 1, &count), KVH_OK);
	assert_int_equal(one.kind, KVH_SAVE_DONE);
	while (kvh_worker_poll(rig.worker, &one, sizeof(one), 1, &count) == KVH_OK && count) {
		assert_int_equal(one.kind, KVH_EVICTED);
		assert_int_equal(one.status, taken ? KVH_OK : KVH_NO_ANSWER);
		assert_int_equal(fake_hash_index(one.evicted.hash), (MORE + taken) % 100);
		taken++;
	}
	assert_int_equal(taken, RING);
	assert_int_equal(rig_stats(&rig).events_dropped, MORE);
	rig_close(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_block_that_was_put_has_an_event_before_the_end),
		cmocka_unit_test(events_are_off_by_default),
		cmocka_unit_test(d6_only_puts_that_succeeded_have_events),
		cmocka_unit_test(the_parent_is_the_hash_before_the_blocks_first_token),
		cmocka_unit_test(token_ids_are_given_only_when_they_cover_the_block),
		cmocka_unit_test(integer_hashes_are_the_last_8_bytes_big_endian),
		cmocka_unit_test(token_ids_of_an_uncompleted_job_go_before_the_next_ones),
		cmocka_unit_test(token_ids_are_kept_from_where_the_offset_stopped),
		cmocka_unit_test(token_ids_with_a_gap_or_an_overlap_do_not_join),
		cmocka_unit_test(kept_token_ids_end_with_the_life),
		cmocka_unit_test(kept_token_ids_outlive_pressure_skips),
		cmocka_unit_test(a_floored_length_of_0_keeps_no_token_ids),
		cmocka_unit_test(a_stale_job_keeps_no_token_ids),
		cmocka_unit_test(a_sharded_block_has_one_event_when_every_shard_was_put),
		cmocka_unit_test(evicted_keys_of_this_rank_come_through_poll),
		cmocka_unit_test(
			when_nobody_polls_the_oldest_evicted_keys_are_lost_and_that_is_said),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
