/* SPDX-License-Identifier: Apache-2.0 */
/* What jobs of a queue do and tell, one step at a time. */
#include <string.h>

#include "queue_rig.h"
#include "store/queue_internal.h"

static int setup(void **state)
{
	struct rig *rig = rig_new(true);
	const struct kvh_queue_options options = rig_options(rig, 1);

	rig_open(rig, &options);
	*state = rig;
	return 0;
}

static int teardown(void **state)
{
	rig_free(*state);
	return 0;
}

#define queue_test(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

/* ---- what jobs do ------------------------------------------------------------------------- */

struct done_case {
	enum kvh_queue_op op;
	const char *call;
	int64_t values[3];
	uint64_t good_keys;
	uint64_t bytes;
};

/* Keys 4, 5, 6: 5 is the one that goes wrong. */
static int64_t all_but_five(struct rig *rig, enum rig_op op, uint64_t number)
{
	(void)rig;
	if (number == 5)
		return op == RIG_EXISTS ? 0 : KVH_OBJECT_NOT_FOUND;
	if (op == RIG_GET)
		return RIG_VALUE_BYTES;
	return op == RIG_EXISTS;
}

static void each_job_calls_the_store_once_and_tells_of_its_keys(void **state)
{
	static const struct done_case cases[] = {
		{KVH_QUEUE_GET, "get 4 5 6\n", {64, KVH_OBJECT_NOT_FOUND, 64}, 2, 128},
		{KVH_QUEUE_PUT, "put 4 5 6\n", {0, KVH_OBJECT_NOT_FOUND, 0}, 2, 128},
		{KVH_QUEUE_EXISTS, "exists 4 5 6\n", {1, 0, 1}, 2, 0},
		{KVH_QUEUE_EXISTS_PREFIX, "exists 4 5 6\n", {1, 0, 1}, 1, 0},
		{KVH_QUEUE_REMOVE, "remove 4 5 6\n", {0, KVH_OBJECT_NOT_FOUND, 0}, 2, 0},
	};
	struct rig *rig = *state;

	rig->key = all_but_five;
	for (size_t i = 0; i < COUNT_OF(cases); i++) {
		struct kvh_queue_job job = rig_job(rig, cases[i].op, 4, 3);
		struct kvh_queue_completion completion;
		struct kvh_result results[3];
		uint64_t id;

		memset(results, 0xee, sizeof(results));
		job.batch.results = results;
		id = rig_submit(rig, &job);
		assert_int_equal(id, i + 1);
		for (size_t k = 0; k < 3; k++) {
			assert_int_equal(results[k].value, KVH_NO_ANSWER);
			assert_int_equal(results[k].flags, KVH_RESULT_QUIET);
		}
		rig_assert_nothing(rig);
		rig_turn(rig, 0);
		assert_string_equal(rig_calls(rig), cases[i].call);
		assert_true(rig_poll(rig, &completion));
		assert_int_equal(completion.job_id, id);
		assert_int_equal(completion.user, job.user);
		assert_int_equal(completion.op, cases[i].op);
		assert_int_equal(completion.status, KVH_OK);
		assert_int_equal(completion.key_count, 3);
		assert_int_equal(completion.good_keys, cases[i].good_keys);
		assert_int_equal(completion.bytes, cases[i].bytes);
		for (size_t k = 0; k < 3; k++)
			assert_int_equal(results[k].value, cases[i].values[k]);
		rig_assert_nothing(rig);
	}
}

static void without_results_the_counts_come_all_the_same(void **state)
{
	struct rig *rig = *state;
	struct kvh_queue_completion completion;

	rig->key = all_but_five;
	rig_get(rig, 4, 3);
	rig_turn(rig, 0);
	assert_true(rig_poll(rig, &completion));
	assert_int_equal(completion.good_keys, 2);
	assert_int_equal(completion.bytes, 128);
}

/* proves: D-5 */
static void a_call_that_fails_is_the_jobs_status(void **state)
{
	struct rig *rig = *state;
	uint64_t id;

	rig->status[RIG_GET] = -4242;
	id = rig_get(rig, 0, 2);
	rig_turn(rig, 0);
	rig_assert_ended(rig, id, -4242);
	assert_int_equal(rig_stats(rig).failed_jobs, 1);
}

static void what_was_borrowed_is_copied(void **state)
{
	struct rig *rig = *state;
	uint64_t hashes[2] = {21, 22};
	char node[] = "node-7";
	struct kvh_segment segments[3] = {
		{rig->memory[0], 10}, {rig->memory[1], 20}, {rig->memory[2], 30}};
	struct kvh_key keys[2] = {{(const uint8_t *)&hashes[0], 8, rig->prefix_id},
	                          {(const uint8_t *)&hashes[1], 8, rig->prefix_id}};
	struct kvh_value values[2] = {{.segments = segments, .segment_count = 1},
	                              {.segments = segments + 1, .segment_count = 2}};
	struct kvh_put_options put = {
		.struct_bytes = sizeof(put), .priority = 2, .preferred_node = node};
	struct kvh_queue_job job = {.struct_bytes = sizeof(job),
	                            .op = KVH_QUEUE_PUT,
	                            .batch = {2, keys, values, NULL},
	                            .put = &put};
	struct kvh_queue_completion completion;

	rig_submit(rig, &job);
	memset(hashes, 0xff, sizeof(hashes));
	memset(node, 'x', sizeof(node) - 1);
	memset(segments, 0xff, sizeof(segments));
	memset(keys, 0xff, sizeof(keys));
	memset(values, 0xff, sizeof(values));
	memset(&put, 0xff, sizeof(put));
	memset(&job, 0xff, sizeof(job));
	rig_turn(rig, 0);
	assert_string_equal(rig_calls(rig), "put 21 22\n");
	assert_int_equal(rig->last_put.priority, 2);
	assert_string_equal(rig->node, "node-7");
	assert_true(rig_poll(rig, &completion));
	assert_int_equal(completion.status, KVH_OK);
	assert_int_equal(completion.bytes, 60);
}

static void blocks_of_layouts_are_taken_too(void **state)
{
	struct rig *rig = *state;
	const struct kvh_segment_template template = {rig->memory, 128, 100};
	struct kvh_queue_job job = rig_job(rig, KVH_QUEUE_PUT, 0, 2);
	struct kvh_queue_completion completion;
	struct kvh_value values[2];
	struct kvh_layout *layout;

	assert_int_equal(kvh_layout_create(rig->store, &template, 1, 8, &layout, NULL), KVH_OK);
	values[0] = (struct kvh_value){.layout = layout, .block_id = 7};
	values[1] = job.batch.values[1];
	job.batch.values = values;
	rig_submit(rig, &job);
	rig_turn(rig, 0);
	assert_true(rig_poll(rig, &completion));
	assert_int_equal(completion.status, KVH_OK);
	assert_int_equal(completion.bytes, 164);
	kvh_layout_destroy(layout);
}

static void tokens_of_held_puts_come_back(void **state)
{
	struct rig *rig = *state;
	struct kvh_token tokens[2] = {{{1, 1, 1}}, {{1, 1, 1}}};
	const struct kvh_put_options put = {
		.struct_bytes = sizeof(put), .flags = KVH_PUT_HOLD, .tokens = tokens};
	struct kvh_queue_job job = rig_job(rig, KVH_QUEUE_PUT, 3, 2);
	uint64_t id;

	job.put = &put;
	rig_submit(rig, &job);
	rig_turn(rig, 0);
	assert_int_equal(tokens[0].word[0], 1003);
	assert_int_equal(tokens[1].word[0], 1004);
	/* Of a put that never ran they are worthless, not old. */
	id = rig_submit(rig, &job);
	assert_int_equal(rig_cancel(rig, id), KVH_CANCEL_NOT_STARTED);
	assert_int_equal(tokens[0].word[0] | tokens[1].word[0], 0);
}

static void the_call_carries_the_jobs_deadline_and_its_cancel(void **state)
{
	struct rig *rig = *state;
	struct kvh_queue_job job = rig_job(rig, KVH_QUEUE_PUT, 0, 1);

	job.deadline_ns = kvh_deadline_after(rig->env, 1000);
	rig_submit(rig, &job);
	rig_turn(rig, 0);
	assert_int_equal(rig->last_call.deadline_ns, job.deadline_ns);
	assert_non_null(rig->last_call.cancel);
}

/* ---- exists_prefix ------------------------------------------------------------------------ */

static struct kvh_queue_completion prefix_of(struct rig *rig, struct kvh_result *results,
                                             size_t count)
{
	struct kvh_queue_job job = rig_job(rig, KVH_QUEUE_EXISTS_PREFIX, 0, count);
	struct kvh_queue_completion completion = {0};

	job.batch.results = results;
	rig->calls = 0;
	rig_submit(rig, &job);
	rig_turn(rig, 0);
	assert_true(rig_poll(rig, &completion));
	return completion;
}

static void a_prefix_is_asked_for_in_chunks_until_it_ends(void **state)
{
	static const struct {
		uint64_t present;
		size_t count;
		uint64_t good_keys;
		uint32_t calls;
	} cases[] = {
		{0, 1, 0, 1},     {0, 500, 0, 1},     {1, 1, 1, 1},       {63, 500, 63, 1},
		{64, 500, 64, 2}, {65, 500, 65, 2},   {128, 128, 128, 2}, {129, 129, 129, 3},
		{500, 64, 64, 1}, {500, 500, 500, 8}, {499, 500, 499, 8},
	};
	struct rig *rig = *state;
	struct kvh_result results[500] = {0};

	for (size_t i = 0; i < COUNT_OF(cases); i++) {
		struct kvh_queue_completion completion;

		rig->present = cases[i].present;
		completion = prefix_of(rig, i % 2 ? results : NULL, cases[i].count);
		assert_int_equal(completion.status, KVH_OK);
		assert_int_equal(completion.good_keys, cases[i].good_keys);
		assert_int_equal(completion.key_count, cases[i].count);
		assert_int_equal(rig->calls, cases[i].calls);
	}
	/* What lies behind the chunk in which it ends was not asked for. */
	rig->present = 70;
	prefix_of(rig, results, 500);
	assert_int_equal(results[69].value, 1);
	assert_int_equal(results[70].value, 0);
	assert_int_equal(results[127].value, 0);
	assert_int_equal(results[128].value, KVH_NO_ANSWER);
}

static int64_t hole_at_100(struct rig *rig, enum rig_op op, uint64_t number)
{
	(void)rig, (void)op;
	return number == 100 ? KVH_RPC_FAIL : 1;
}

/* proves: D-5 */
static void a_prefix_that_ends_in_an_error_says_so(void **state)
{
	struct rig *rig = *state;
	struct kvh_queue_completion completion;

	rig->key = hole_at_100;
	completion = prefix_of(rig, NULL, 300);
	assert_int_equal(completion.status, KVH_RPC_FAIL);
	assert_int_equal(completion.good_keys, 100);
	assert_int_equal(rig->calls, 2);
	rig->status[RIG_EXISTS] = -4242;
	completion = prefix_of(rig, NULL, 300);
	assert_int_equal(completion.status, -4242);
	/* What is known of the first chunk counts; the next is not asked for. */
	assert_int_equal(completion.good_keys, 64);
	assert_int_equal(rig->calls, 1);
}

/* ---- completions -------------------------------------------------------------------------- */

static void nothing_is_lost_in_a_small_array(void **state)
{
	enum { JOBS = 20 };
	struct rig *rig = *state;
	struct kvh_queue_completion completions[JOBS];
	uint64_t next = 1;
	size_t count = 77;

	for (uint64_t i = 0; i < JOBS; i++)
		rig_get(rig, i, 1);
	for (int i = 0; i < 4; i++)
		rig_turn(rig, 0);
	assert_int_equal(rig_stats(rig).waiting_completions, JOBS);
	assert_int_equal(kvh_queue_poll(rig->queue, NULL, sizeof(completions[0]), 0, &count),
	                 KVH_OK);
	assert_int_equal(count, 0);
	while (count || next == 1) {
		assert_int_equal(
			kvh_queue_poll(rig->queue, completions, sizeof(completions[0]), 3, &count),
			KVH_OK);
		for (size_t i = 0; i < count; i++)
			assert_int_equal(completions[i].job_id, next++);
	}
	assert_int_equal(next, JOBS + 1);
}

static kvh_status wait_ms(struct rig *rig, uint64_t job_id, uint64_t ms,
                          struct kvh_queue_completion *completion)
{
	return kvh_queue_wait(rig->queue, job_id,
	                      ms ? kvh_deadline_after(rig->env, ms * 1000000) : 1, completion,
	                      sizeof(*completion));
}

static void wait_takes_the_completion_of_its_job_alone(void **state)
{
	struct rig *rig = *state;
	struct kvh_queue_completion completion = {.job_id = 99};
	uint64_t first = rig_get(rig, 1, 1), second = rig_get(rig, 2, 1);

	assert_int_equal(wait_ms(rig, second, 0, &completion), KVH_TIMEOUT);
	assert_int_equal(wait_ms(rig, second, 5, &completion), KVH_TIMEOUT);
	assert_int_equal(wait_ms(rig, 0, 5, &completion), KVH_TIMEOUT);
	assert_int_equal(completion.job_id, 99);
	rig_turn(rig, 0);
	assert_int_equal(wait_ms(rig, second, 0, &completion), KVH_OK);
	assert_int_equal(completion.job_id, second);
	assert_int_equal(wait_ms(rig, second, 0, &completion), KVH_OBJECT_NOT_FOUND);
	assert_int_equal(wait_ms(rig, 99, 0, &completion), KVH_OBJECT_NOT_FOUND);
	rig_assert_ended(rig, first, KVH_OK);
	assert_int_equal(wait_ms(rig, first, 0, &completion), KVH_OBJECT_NOT_FOUND);
}

/* As kvh_queue_run does, with the job at its end before the caller waits. */
static void a_job_with_a_waiter_from_the_start_is_never_polled(void **state)
{
	struct rig *rig = *state;
	const struct kvh_queue_job job = rig_job(rig, KVH_QUEUE_GET, 1, 1);
	struct kvh_queue_completion completion;
	uint64_t id;

	assert_int_equal(kvh_queue_hand_in(rig->queue, &job, true, &id, NULL), KVH_OK);
	rig_turn(rig, 0);
	assert_int_equal(rig_state(rig, id), KVH_QUEUE_JOB_DONE);
	rig_assert_nothing(rig);
	assert_int_equal(wait_ms(rig, 0, 0, &completion), KVH_TIMEOUT);
	assert_int_equal(wait_ms(rig, id, 0, &completion), KVH_OK);
}

static void wait_for_any_takes_the_oldest(void **state)
{
	struct rig *rig = *state;
	struct kvh_queue_completion completion;
	uint64_t put = rig_put(rig, 1, 1), get = rig_get(rig, 2, 1);

	rig_turn(rig, 0);
	assert_int_equal(wait_ms(rig, 0, 0, &completion), KVH_OK);
	assert_int_equal(completion.job_id, get);
	assert_int_equal(wait_ms(rig, 0, 0, &completion), KVH_OK);
	assert_int_equal(completion.job_id, put);
	assert_int_equal(wait_ms(rig, 0, 0, &completion), KVH_TIMEOUT);
}

static void a_job_is_looked_at_in_every_state(void **state)
{
	struct rig *rig = *state;
	struct kvh_queue_job_info info = {.struct_bytes = sizeof(info)};
	uint64_t id, submitted_ns = kvh_now_ns(rig->env);

	rig_hold(rig, 1u << RIG_PUT);
	id = rig_put(rig, 9, 1);
	assert_int_equal(kvh_queue_get_job(rig->queue, id, &info), KVH_OK);
	assert_int_equal(info.state, KVH_QUEUE_JOB_QUEUED);
	assert_int_equal(info.started_ns, 0);
	rig_advance_ms(rig, 3);
	rig_turn(rig, 0);
	assert_int_equal(kvh_queue_get_job(rig->queue, id, &info), KVH_OK);
	assert_int_equal(info.state, KVH_QUEUE_JOB_RUNNING);
	assert_int_equal(info.op, KVH_QUEUE_PUT);
	assert_int_equal(info.user, 7009);
	assert_int_equal(info.submitted_ns, submitted_ns);
	assert_int_equal(info.started_ns, submitted_ns + 3000000);
	rig_hold(rig, 0);
	rig_turn(rig, 0);
	assert_int_equal(rig_state(rig, id), KVH_QUEUE_JOB_DONE);
	rig_assert_ended(rig, id, KVH_OK);
	assert_int_equal(kvh_queue_get_job(rig->queue, id, &info), KVH_OBJECT_NOT_FOUND);
}

static void stats_tell_how_jobs_ended(void **state)
{
	struct rig *rig = *state;
	struct kvh_queue_job late = rig_job(rig, KVH_QUEUE_GET, 0, 1);
	struct kvh_queue_stats stats;

	late.deadline_ns = 1;
	rig_submit(rig, &late);
	assert_int_equal(rig_cancel(rig, rig_get(rig, 0, 3)), KVH_CANCEL_NOT_STARTED);
	rig_get(rig, 0, 2);
	rig_put(rig, 0, 1);
	rig->status[RIG_PUT] = KVH_RPC_FAIL;
	stats = rig_stats(rig);
	assert_int_equal(stats.queued_reads, 2);
	assert_int_equal(stats.queued_writes, 1);
	rig_turn(rig, 0);
	stats = rig_stats(rig);
	assert_int_equal(stats.submitted_jobs, 4);
	assert_int_equal(stats.submitted_keys, 7);
	assert_int_equal(stats.ok_jobs, 1);
	assert_int_equal(stats.cancelled_jobs, 1);
	assert_int_equal(stats.timed_out_jobs, 1);
	assert_int_equal(stats.failed_jobs, 1);
	assert_int_equal(stats.waiting_completions, 4);
	assert_int_equal(stats.queued_reads + stats.queued_writes + stats.running_jobs, 0);
	assert_int_equal(stats.fd_writes, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		queue_test(each_job_calls_the_store_once_and_tells_of_its_keys),
		queue_test(without_results_the_counts_come_all_the_same),
		queue_test(a_call_that_fails_is_the_jobs_status),
		queue_test(what_was_borrowed_is_copied),
		queue_test(blocks_of_layouts_are_taken_too),
		queue_test(tokens_of_held_puts_come_back),
		queue_test(the_call_carries_the_jobs_deadline_and_its_cancel),
		queue_test(a_prefix_is_asked_for_in_chunks_until_it_ends),
		queue_test(a_prefix_that_ends_in_an_error_says_so),
		queue_test(nothing_is_lost_in_a_small_array),
		queue_test(wait_takes_the_completion_of_its_job_alone),
		queue_test(a_job_with_a_waiter_from_the_start_is_never_polled),
		queue_test(wait_for_any_takes_the_oldest),
		queue_test(a_job_is_looked_at_in_every_state),
		queue_test(stats_tell_how_jobs_ended),
	};

	return cmocka_run_group_tests_name("store_queue_jobs", tests, NULL, NULL);
}
