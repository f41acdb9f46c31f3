/* SPDX-License-Identifier: Apache-2.0 */
/* Wrong jobs: a status and words that name the argument; nothing queued, no completion. */
#include "rig.h"

static void nothing_came_of_it(struct rig *rig)
{
	struct kvh_worker_stats stats = rig_stats(rig);

	assert_string_equal(rig_done(rig), "");
	assert_int_equal(stats.queued_saves + stats.queued_loads, 0);
	assert_int_equal(stats.save_jobs + stats.load_jobs, 0);
	assert_int_equal(stats.live_requests, 0);
}

/* The same mistake, made in j, in a save and in a load. */
#define BOTH_REFUSED(rig, word, mistake)                                                           \
	do {                                                                                       \
		struct kvh_save_job bad_save = rig_save_job((rig), 1, "r", 64);                    \
		struct kvh_load_job bad_load;                                                      \
		{                                                                                  \
			struct kvh_save_job *j = &bad_save;                                        \
			mistake;                                                                   \
		}                                                                                  \
		assert_refused((rig), rig_submit_save((rig), &bad_save), (word));                  \
		bad_load = rig_load_job((rig), 1, "r", 64, 0);                                     \
		{                                                                                  \
			struct kvh_load_job *j = &bad_load;                                        \
			mistake;                                                                   \
		}                                                                                  \
		assert_refused((rig), rig_submit_load((rig), &bad_load), (word));                  \
	} while (0)

/* proves: D-13 */
static void d13_short_block_list_is_refused(void **state)
{
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig_add_group(&rig, KVH_ATTENTION_SLIDING_WINDOW, 32, 64);
	rig_open(&rig);
	BOTH_REFUSED(&rig, "blocks[0]", (void)j; rig.tables[0].count = 3);
	BOTH_REFUSED(&rig, "blocks[0]", (void)j; rig.tables[0].count = 0);
	BOTH_REFUSED(&rig, "blocks[1]", (void)j; rig.tables[1].count = 1);
	BOTH_REFUSED(&rig, "blocks[1].ids", (void)j; rig.tables[1].ids = NULL);
	BOTH_REFUSED(&rig, "blocks", j->blocks = NULL);
	nothing_came_of_it(&rig);
	rig_close(&rig);
}

/* proves: D-13 */
static void d13_a_list_for_the_floored_length_is_enough_for_a_save(void **state)
{
	struct kvh_save_job job;
	struct kvh_load_job load;
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig_open(&rig);
	job = rig_save_job(&rig, 1, "r", 63);
	rig.tables[0].count = 3;
	assert_int_equal(rig_submit_save(&rig, &job), KVH_OK);
	rig_run_save(&rig);
	assert_string_equal(rig_done(&rig), "saved 1 0\n");
	/* A load has a block for its last tokens too. */
	rig_close(&rig);
	rig_init(&rig);
	rig.groups[0].block_tokens = 64;
	rig_open(&rig);
	load = rig_load_job(&rig, 1, "r", 80, 0);
	rig.tables[0].count = 1;
	assert_refused(&rig, rig_submit_load(&rig, &load), "blocks[0]");
	rig_close(&rig);
}

/* proves: D-13 */
static void d13_too_few_hashes_are_refused(void **state)
{
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig_open(&rig);
	BOTH_REFUSED(&rig, "hash_count", j->hash_count = 3);
	BOTH_REFUSED(&rig, "hash_count", j->hash_count = 0);
	BOTH_REFUSED(&rig, "hashes", j->hashes = NULL);
	BOTH_REFUSED(&rig, "hash_count", j->hash_count = SIZE_MAX);
	BOTH_REFUSED(&rig, "hash_count", j->hash_count = SIZE_MAX / 32 + 2);
	BOTH_REFUSED(&rig, "hash_count", j->hash_count = KVH_TOKENS_MAX / 16 + 1);
	nothing_came_of_it(&rig);
	rig_close(&rig);
}

/* proves: D-13 */
static void d13_lengths_off_the_grid_or_out_of_range_are_refused(void **state)
{
	struct kvh_load_job load;
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig_open(&rig);
	BOTH_REFUSED(&rig, "token_count", j->token_count = KVH_TOKENS_MAX + 1ull);
	BOTH_REFUSED(&rig, "token_count", j->token_count = UINT64_MAX);
	/* In range, but far more than the tables say. */
	BOTH_REFUSED(&rig, "", j->token_count = KVH_TOKENS_MAX);
	load = rig_load_job(&rig, 1, "r", 65, 0);
	assert_refused(&rig, rig_submit_load(&rig, &load), "token_count");
	nothing_came_of_it(&rig);
	rig_close(&rig);
}

/* proves: R-10, D-13 */
static void d13_request_ids_have_1_to_256_bytes(void **state)
{
	char id[KVH_REQUEST_BYTES_MAX + 1];
	struct kvh_save_job job;
	struct rig rig;

	(void)state;
	memset(id, 'x', sizeof(id));
	rig_init(&rig);
	rig_open(&rig);
	BOTH_REFUSED(&rig, "request", j->request.data = NULL);
	BOTH_REFUSED(&rig, "request", j->request.bytes = 0);
	BOTH_REFUSED(&rig, "request", j->request.data = id;
	             j->request.bytes = KVH_REQUEST_BYTES_MAX + 1);
	BOTH_REFUSED(&rig, "request", j->request.bytes = SIZE_MAX);
	nothing_came_of_it(&rig);
	job = rig_save_job(&rig, 1, "r", 64);
	job.request = (struct kvh_request_id){.data = id, .bytes = KVH_REQUEST_BYTES_MAX};
	assert_int_equal(rig_submit_save(&rig, &job), KVH_OK);
	job.job_id = 2;
	job.request = (struct kvh_request_id){.data = "\0\xff", .bytes = 2}; /* any bytes */
	assert_int_equal(rig_submit_save(&rig, &job), KVH_OK);
	rig_close(&rig);
}

/* proves: D-13 */
static void d13_block_ids_must_exist(void **state)
{
	static const int32_t wrong[] = {-1, INT32_MIN, INT32_MAX, 256};
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig_open(&rig);
	for (size_t i = 0; i < COUNT_OF(wrong); i++) {
		rig.ids[0][2] = wrong[i];
		BOTH_REFUSED(&rig, "blocks", (void)j);
	}
	nothing_came_of_it(&rig);
	rig.ids[0][2] = 255;
	rig_save_and_run(&rig, 1, "r", 64);
	assert_string_equal(rig_done(&rig), "saved 1 0\n");
	rig_close(&rig);
}

/* proves: R-10, D-13 */
static void d13_boundary_lists_are_checked(void **state)
{
	const struct kvh_boundary good = {.group = 0, .block_id = 5, .tokens = 16};
	struct kvh_boundary bad = good;
	struct kvh_save_job job;
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig_open(&rig);
	job = rig_save_job(&rig, 1, "r", 64);
	job.tail = &good;
	job.tail_count = 1;
	job.boundary_puts = &good;
	job.boundary_put_count = 1;
	assert_refused(&rig, rig_submit_save(&rig, &job), "only one");
	job.tail_count = 0; /* an empty list is a list */
	assert_refused(&rig, rig_submit_save(&rig, &job), "only one");
	job.tail = NULL;
	bad.group = 1;
	job.boundary_puts = &bad;
	assert_refused(&rig, rig_submit_save(&rig, &job), "boundary_puts[0].group");
	bad.group = UINT32_MAX;
	assert_refused(&rig, rig_submit_save(&rig, &job), "boundary_puts[0].group");
	bad = good;
	bad.block_id = -1;
	assert_refused(&rig, rig_submit_save(&rig, &job), "boundary_puts");
	bad.block_id = 256;
	assert_refused(&rig, rig_submit_save(&rig, &job), "boundary_puts");
	job.boundary_puts = NULL;
	assert_refused(&rig, rig_submit_save(&rig, &job), "boundary_puts");
	job.boundary_put_count = 0;
	job.tail_count = 1;
	assert_refused(&rig, rig_submit_save(&rig, &job), "tail");
	job.tail = &good;
	job.tail_count = SIZE_MAX;
	assert_refused(&rig, rig_submit_save(&rig, &job), "tail");
	nothing_came_of_it(&rig);
	rig_close(&rig);
}

/* proves: D-13 */
static void d13_token_ids_are_checked(void **state)
{
	int32_t ids[4] = {0};
	struct kvh_save_job job;
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig_open(&rig);
	job = rig_save_job(&rig, 1, "r", 64);
	job.token_id_count = 4;
	assert_refused(&rig, rig_submit_save(&rig, &job), "token_ids");
	job.token_ids = ids;
	job.token_ids_start = UINT64_MAX;
	assert_refused(&rig, rig_submit_save(&rig, &job), "token_ids");
	job.token_ids_start = KVH_TOKENS_MAX;
	assert_refused(&rig, rig_submit_save(&rig, &job), "token_ids");
	job.token_ids_start = 0;
	job.token_id_count = SIZE_MAX;
	assert_refused(&rig, rig_submit_save(&rig, &job), "token_ids");
	nothing_came_of_it(&rig);
	rig_close(&rig);
}

/* proves: D-13 */
static void d13_tail_keys_are_checked(void **state)
{
	struct kvh_tail_key keys[KVH_GROUPS_MAX + 1] = {{.group = 0, .tokens = 64}};
	struct kvh_load_job job;
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig_open(&rig);
	job = rig_load_job(&rig, 1, "r", 64, 0);
	job.tail_key_count = 1;
	assert_refused(&rig, rig_submit_load(&rig, &job), "tail_keys");
	job.tail_keys = keys;
	job.tail_key_count = KVH_GROUPS_MAX + 1;
	assert_refused(&rig, rig_submit_load(&rig, &job), "tail_keys");
	job.tail_key_count = 1;
	keys[0].group = 1;
	assert_refused(&rig, rig_submit_load(&rig, &job), "tail_keys[0].group");
	nothing_came_of_it(&rig);
	rig_close(&rig);
}

/* proves: D-13 */
static void d13_too_many_keys_for_one_call_are_refused(void **state)
{
	static int32_t ids[KVH_BATCH_KEYS_MAX + 1];
	const struct kvh_block_table table = {.ids = ids, .count = KVH_BATCH_KEYS_MAX + 1};
	uint8_t *hashes = test_calloc(KVH_BATCH_KEYS_MAX + 1, 1);
	struct kvh_save_job job;
	struct kvh_load_job load;
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig.groups[0].block_tokens = 1;
	rig.config.hash_tokens = 1;
	rig.config.hash_bytes = 1;
	rig_open(&rig);
	job = rig_save_job(&rig, 1, "r", 1);
	job.token_count = KVH_BATCH_KEYS_MAX + 1;
	job.hashes = hashes;
	job.hash_count = job.token_count;
	job.blocks = &table;
	assert_refused(&rig, rig_submit_save(&rig, &job), "keys");
	load = rig_load_job(&rig, 1, "r", 1, 0);
	load.token_count = KVH_BATCH_KEYS_MAX + 1;
	load.hashes = hashes;
	load.hash_count = load.token_count;
	load.blocks = &table;
	assert_refused(&rig, rig_submit_load(&rig, &load), "keys");
	nothing_came_of_it(&rig);
	test_free(hashes);
	rig_close(&rig);
}

/* proves: D-13 */
static void d13_null_handles_and_structs_are_refused(void **state)
{
	struct kvh_save_job save;
	struct kvh_load_job load;
	struct kvh_completion completion;
	struct kvh_worker_stats stats = {.struct_bytes = sizeof(stats)};
	enum kvh_cancel_outcome outcome;
	size_t count = 7;
	char text[8];
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig_open(&rig);
	save = rig_save_job(&rig, 1, "r", 16);
	load = rig_load_job(&rig, 1, "r", 16, 0);
	assert_refused(&rig, kvh_worker_save(NULL, &save, &rig.error), "worker");
	assert_refused(&rig, kvh_worker_load(NULL, &load, &rig.error), "worker");
	assert_refused(&rig, rig_submit_save(&rig, NULL), "save");
	assert_refused(&rig, rig_submit_load(&rig, NULL), "load");
	save.struct_bytes = 0;
	assert_refused(&rig, rig_submit_save(&rig, &save), "struct_bytes");
	save.struct_bytes = sizeof(save) - 1;
	assert_refused(&rig, rig_submit_save(&rig, &save), "struct_bytes");
	assert_int_equal(kvh_worker_save(rig.worker, &save, NULL), KVH_INVALID_PARAMS);
	load.struct_bytes = sizeof(load) - 1;
	assert_refused(&rig, rig_submit_load(&rig, &load), "struct_bytes");
	assert_int_equal(kvh_worker_preempt(NULL, rig_id("r")), KVH_INVALID_PARAMS);
	assert_int_equal(kvh_worker_preempt(rig.worker, rig_id("")), KVH_INVALID_PARAMS);
	assert_int_equal(kvh_worker_finish(NULL, NULL, 0), KVH_INVALID_PARAMS);
	assert_int_equal(kvh_worker_finish(rig.worker, NULL, 1), KVH_INVALID_PARAMS);
	assert_int_equal(kvh_worker_finish(rig.worker, NULL, 0), KVH_OK);
	assert_int_equal(kvh_worker_cancel(NULL, 1, &outcome), KVH_INVALID_PARAMS);
	assert_int_equal(kvh_worker_cancel(rig.worker, 1, NULL), KVH_INVALID_PARAMS);
	assert_int_equal(kvh_worker_cancel(rig.worker, 1, &outcome), KVH_OK);
	assert_int_equal(outcome, KVH_CANCEL_ALREADY_DONE);
	assert_int_equal(kvh_worker_drain(NULL, NULL, 1, &count), KVH_INVALID_PARAMS);
	assert_int_equal(kvh_worker_drain(rig.worker, &(struct kvh_request_id){0}, 1, NULL),
	                 KVH_INVALID_PARAMS);
	assert_int_equal(kvh_worker_drain(rig.worker, NULL, 1, NULL), KVH_OK);
	assert_int_equal(count, 7); /* written on success only */
	assert_int_equal(kvh_worker_poll(NULL, &completion, sizeof(completion), 1, &count),
	                 KVH_INVALID_PARAMS);
	assert_int_equal(kvh_worker_poll(rig.worker, NULL, sizeof(completion), 1, &count),
	                 KVH_INVALID_PARAMS);
	assert_int_equal(kvh_worker_poll(rig.worker, &completion, sizeof(completion), 1, NULL),
	                 KVH_INVALID_PARAMS);
	assert_int_equal(kvh_worker_poll(rig.worker, &completion, 0, 1, &count),
	                 KVH_INVALID_PARAMS);
	assert_int_equal(kvh_worker_get_stats(NULL, &stats), KVH_INVALID_PARAMS);
	assert_int_equal(kvh_worker_get_stats(rig.worker, NULL), KVH_INVALID_PARAMS);
	stats.struct_bytes = 8;
	assert_int_equal(kvh_worker_get_stats(rig.worker, &stats), KVH_INVALID_PARAMS);
	assert_int_equal(kvh_worker_stats_text(NULL, text, 8, NULL), KVH_INVALID_PARAMS);
	assert_int_equal(kvh_worker_stats_text(rig.worker, NULL, 8, NULL), KVH_INVALID_PARAMS);
	assert_int_equal(kvh_worker_stats_text(rig.worker, text, sizeof(text), &count), KVH_BUSY);
	assert_true(count > sizeof(text));
	assert_int_equal(kvh_worker_close(NULL, 0, NULL), KVH_INVALID_PARAMS);
	kvh_worker_destroy(NULL);
	kvh_stored_event_free(NULL);
	nothing_came_of_it(&rig);
	rig_close(&rig);
}

/* proves: D-13 */
static void d13_jobs_before_the_caches_are_refused_and_lookup_works(void **state)
{
	struct kvh_save_job save;
	struct kvh_load_job load;
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig_open_worker(&rig);
	save = rig_save_job(&rig, 1, "r", 16);
	load = rig_load_job(&rig, 1, "r", 16, 0);
	assert_refused(&rig, rig_submit_save(&rig, &save), "register_caches");
	assert_refused(&rig, rig_submit_load(&rig, &load), "register_caches");
	assert_int_equal(rig_lookup(&rig, 32, NULL), 0);
	assert_string_equal(rig_calls(&rig), "exists 0 1\n");
	rig_close(&rig);
}

/* proves: D-13 */
static void d13_a_bad_job_counts_and_the_next_good_one_works(void **state)
{
	struct kvh_save_job job;
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig_open(&rig);
	job = rig_save_job(&rig, 1, "r", 64);
	job.hash_count = 1;
	assert_refused(&rig, rig_submit_save(&rig, &job), "hash_count");
	assert_int_equal(rig_stats(&rig).save_jobs_refused, 1);
	rig_save_and_run(&rig, 1, "r", 64); /* its id was not used up */
	assert_string_equal(rig_done(&rig), "saved 1 0\n");
	rig_close(&rig);
}

/* proves: D-13 */
static void d13_prompt_lengths_of_any_size_do_no_harm(void **state)
{
	static const uint64_t lengths[] = {
		0, 1, 15, 64, 65, KVH_TOKENS_MAX, 1ull << 62, UINT64_MAX - 1, UINT64_MAX};
	uint64_t job_id = 1;

	(void)state;
	for (int eagle = 0; eagle < 2; eagle++) {
		struct rig rig;

		rig_init(&rig);
		rig.config.use_eagle = eagle;
		rig.config.has_retention = true; /* at the replay boundary only */
		rig_add_group(&rig, KVH_ATTENTION_SLIDING_WINDOW, 16, 33);
		rig_open(&rig);
		for (size_t i = 0; i < COUNT_OF(lengths); i++) {
			struct kvh_save_job job = rig_save_job(&rig, job_id++, "r", 128);

			job.has_prompt = true;
			job.prompt_tokens = lengths[i];
			job.has_prefill_end = i % 2;
			job.prefill_end_tokens = lengths[i];
			if (rig_submit_save(&rig, &job))
				assert_non_null(strstr(rig.error.text, "tokens"));
			else
				rig_run_save(&rig);
			rig_preempt(&rig, "r");
			rig_done(&rig);
		}
		rig_close(&rig);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(d13_short_block_list_is_refused),
		cmocka_unit_test(d13_a_list_for_the_floored_length_is_enough_for_a_save),
		cmocka_unit_test(d13_too_few_hashes_are_refused),
		cmocka_unit_test(d13_lengths_off_the_grid_or_out_of_range_are_refused),
		cmocka_unit_test(d13_request_ids_have_1_to_256_bytes),
		cmocka_unit_test(d13_block_ids_must_exist),
		cmocka_unit_test(d13_boundary_lists_are_checked),
		cmocka_unit_test(d13_token_ids_are_checked),
		cmocka_unit_test(d13_tail_keys_are_checked),
		cmocka_unit_test(d13_too_many_keys_for_one_call_are_refused),
		cmocka_unit_test(d13_null_handles_and_structs_are_refused),
		cmocka_unit_test(d13_jobs_before_the_caches_are_refused_and_lookup_works),
		cmocka_unit_test(d13_a_bad_job_counts_and_the_next_good_one_works),
		cmocka_unit_test(d13_prompt_lengths_of_any_size_do_no_harm),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
