/* SPDX-License-Identifier: Apache-2.0 */
/* Wake-ups, queue limits, and lives of one request id, one step at a time. */
#include <string.h>

#include "base/fault.h"
#include "golden/coenv.h"
#include "unit/base/unit.h"
#include "unit/worker/stress_rig.h"

enum { SAVE_THREAD, LOAD_THREAD };

static const int32_t ids[] = {1, 2, 3, 4};
static struct coenv *coenv;
static struct rig *rig;

static void open_rig(struct rig_options *options)
{
	coenv = coenv_open();
	options->env = coenv_env(coenv);
	rig = rig_open(options);
	for (uint64_t i = 0; i < COUNT_OF(ids); i++)
		rig_fill(rig_block(rig, ids[i]), 100 + i, 0);
}

/* Between two jobs a thread yields, and asleep again: twice is one turn. */
static void turn(size_t thread)
{
	coenv_resume(coenv, thread);
	coenv_resume(coenv, thread);
}

static void close_rig(void)
{
	for (int i = 0; i < 20; i++) {
		turn(SAVE_THREAD);
		turn(LOAD_THREAD);
	}
	rig_close(rig);
	coenv_close(coenv);
}

static struct rig_job job(uint64_t job_id, const char *request, size_t count)
{
	return (struct rig_job){
		.job_id = job_id, .request = request, .word = 100, .ids = ids, .count = count};
}

static kvh_status save(uint64_t job_id, const char *request, size_t count)
{
	const struct rig_job one = job(job_id, request, count);

	return rig_save(rig, &one, NULL);
}

static kvh_status load(uint64_t job_id, const char *request, size_t count)
{
	const struct rig_job one = job(job_id, request, count);

	return rig_load(rig, &one, NULL);
}

/* proves: R-10 */
static void a_job_wakes_at_most_one_thread_and_none_that_is_awake(void **state)
{
	struct rig_options options = {0};

	(void)state;
	open_rig(&options);
	assert_int_equal(save(1, "a", 1), KVH_OK); /* no thread sleeps yet */
	assert_int_equal(rig_stats(rig).wakeups, 0);
	for (int i = 0; i < 3; i++)
		turn(SAVE_THREAD);
	for (uint64_t n = 1; n <= 5; n++) {
		assert_int_equal(save(10 * n, "a", 2), KVH_OK);
		assert_int_equal(rig_stats(rig).wakeups, n);
		/* Its wake-up is on its way: no other one is needed. */
		assert_int_equal(save(10 * n + 1, "a", 2), KVH_OK);
		assert_int_equal(rig_stats(rig).wakeups, n);
		for (int i = 0; i < 3; i++)
			turn(SAVE_THREAD);
		assert_int_equal(rig_stats(rig).queued_saves, 0);
	}
	/* No load thread sleeps, so none is woken. */
	assert_int_equal(load(100, "a", 1), KVH_OK);
	assert_int_equal(rig_stats(rig).wakeups, 5);
	close_rig();
}

/* proves: R-10 */
static void saves_beyond_the_count_are_refused_and_loads_never(void **state)
{
	struct rig_options options = {.max_queued_jobs = 2};
	struct kvh_completion completion;

	(void)state;
	open_rig(&options);
	assert_int_equal(save(1, "a", 1), KVH_OK);
	assert_int_equal(save(2, "b", 1), KVH_OK);
	assert_int_equal(save(3, "c", 1), KVH_BUSY);
	for (uint64_t id = 10; id < 20; id++)
		assert_int_equal(load(id, "l", 1), KVH_OK);
	assert_int_equal(rig_stats(rig).save_jobs_refused, 1);
	assert_int_equal(rig_stats(rig).live_requests, 3);
	assert_false(rig_poll(rig, &completion));
	turn(SAVE_THREAD); /* takes and ends the first */
	assert_int_equal(save(3, "c", 1), KVH_OK);
	assert_int_equal(save(4, "d", 1), KVH_BUSY);
	close_rig();
}

/* proves: R-10 */
static void saves_beyond_the_bytes_are_refused_but_one_alone_is_taken(void **state)
{
	struct rig_options options = {.max_queued_bytes = 3 * RIG_BLOCK_BYTES};
	enum kvh_cancel_outcome outcome;

	(void)state;
	open_rig(&options);
	assert_int_equal(save(1, "a", 4), KVH_OK); /* alone: however large */
	assert_int_equal(save(2, "b", 1), KVH_BUSY);
	assert_int_equal(rig_stats(rig).queued_save_bytes, 4 * RIG_BLOCK_BYTES);
	assert_int_equal(kvh_worker_cancel(rig_worker(rig), 1, &outcome), KVH_OK);
	assert_int_equal(outcome, KVH_CANCEL_NOT_STARTED);
	assert_int_equal(rig_stats(rig).queued_save_bytes, 0);
	assert_int_equal(save(3, "a", 2), KVH_OK);
	assert_int_equal(save(4, "b", 2), KVH_BUSY);
	assert_int_equal(save(5, "b", 1), KVH_OK);
	assert_int_equal(rig_stats(rig).queued_save_bytes, 3 * RIG_BLOCK_BYTES);
	assert_int_equal(load(6, "b", 4), KVH_OK);
	for (int i = 0; i < 4; i++)
		turn(SAVE_THREAD);
	assert_int_equal(rig_stats(rig).queued_save_bytes, 0);
	close_rig();
}

/* proves */
static void the_end_of_a_life_leaves_the_loads_of_the_next_alone(void **state)
{
	const struct kvh_request_id request = rig_request("a");
	struct rig_options options = {0};
	struct kvh_completion completion;

	(void)state;
	open_rig(&options);
	for (uint64_t i = 0; i < 2; i++)
		rig_put_object(rig, 100 + i, 0);
	assert_int_equal(save(1, "a", 1), KVH_OK);
	assert_int_equal(kvh_worker_finish(rig_worker(rig), &request, 1), KVH_OK);
	assert_int_equal(load(2, "a", 2), KVH_OK);
	for (int i = 0; i < 3; i++)
		turn(SAVE_THREAD);
	assert_int_equal(kvh_worker_finish(rig_worker(rig), NULL, 0), KVH_OK);
	for (int i = 0; i < 3; i++)
		turn(LOAD_THREAD);
	assert_true(rig_poll(rig, &completion));
	assert_int_equal(completion.kind, KVH_SAVE_DONE);
	assert_int_equal(completion.status, KVH_OK); /* finish lets saves drain */
	assert_true(rig_poll(rig, &completion));
	assert_int_equal(completion.kind, KVH_LOAD_DONE);
	assert_int_equal(completion.status, KVH_OK);
	assert_int_equal(kvh_worker_finish(rig_worker(rig), NULL, 0), KVH_OK);
	assert_int_equal(rig_stats(rig).live_requests, 0);
	close_rig();
}

/* proves */
static void queued_loads_end_with_their_request_at_once(void **state)
{
	const struct kvh_request_id requests[] = {rig_request("a"), rig_request("b")};
	struct rig_options options = {0};
	struct kvh_completion completion;
	size_t done = 0, failed = 0;

	(void)state;
	open_rig(&options);
	assert_int_equal(load(1, "a", 2), KVH_OK);
	assert_int_equal(load(2, "b", 2), KVH_OK);
	assert_int_equal(load(3, "c", 2), KVH_OK);
	assert_int_equal(save(4, "b", 1), KVH_OK); /* b has saves to drain, too */
	assert_int_equal(kvh_worker_preempt(rig_worker(rig), requests[0]), KVH_OK);
	assert_int_equal(kvh_worker_finish(rig_worker(rig), &requests[1], 1), KVH_OK);
	assert_int_equal(rig_stats(rig).queued_loads, 1);
	assert_int_equal(rig_set_identity(rig, 1, NULL), KVH_OK);
	while (rig_poll(rig, &completion)) {
		assert_int_equal(completion.status, KVH_CANCELLED);
		done += completion.kind == KVH_LOAD_DONE;
		failed += completion.kind == KVH_BLOCK_FAILED;
	}
	assert_int_equal(done, 3);
	assert_int_equal(failed, 6);
	assert_int_equal(rig_stats(rig).queued_loads, 0);
	close_rig();
}

/* proves: R-39 */
static void a_failed_block_says_why_its_load_ended(void **state)
{
	struct rig_options options = {0};
	struct kvh_completion completion;

	(void)state;
	open_rig(&options);
	for (uint64_t i = 0; i < 2; i++)
		rig_put_object(rig, 100 + i, 0);
	assert_int_equal(load(2, "a", 2), KVH_OK);
	assert_true(kvh_fault_arm_nth("worker/load/begin", 1, KVH_RPC_FAIL));
	for (int i = 0; i < 3; i++)
		turn(LOAD_THREAD);
	kvh_fault_disarm_all();
	for (int i = 0; i < 3; i++) {
		assert_true(rig_poll(rig, &completion));
		assert_int_equal(completion.status, KVH_RPC_FAIL);
	}
	close_rig();
}

/* proves: R-37 */
static void a_tier_that_does_not_exist_counts_as_unknown(void **state)
{
	struct rig_options options = {.tier = 1000000};
	struct kvh_completion completion;

	(void)state;
	open_rig(&options);
	rig_put_object(rig, 100, 0);
	assert_int_equal(load(2, "a", 1), KVH_OK);
	for (int i = 0; i < 3; i++)
		turn(LOAD_THREAD);
	assert_true(rig_poll(rig, &completion));
	assert_int_equal(completion.status, KVH_OK);
	assert_int_equal(rig_stats(rig).load_unknown_keys, 1);
	assert_int_equal(rig_stats(rig).load_unknown_bytes, RIG_BLOCK_BYTES);
	close_rig();
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_job_wakes_at_most_one_thread_and_none_that_is_awake),
		cmocka_unit_test(saves_beyond_the_count_are_refused_and_loads_never),
		cmocka_unit_test(saves_beyond_the_bytes_are_refused_but_one_alone_is_taken),
		cmocka_unit_test(the_end_of_a_life_leaves_the_loads_of_the_next_alone),
		cmocka_unit_test(queued_loads_end_with_their_request_at_once),
		cmocka_unit_test(a_failed_block_says_why_its_load_ended),
		cmocka_unit_test(a_tier_that_does_not_exist_counts_as_unknown),
	};

	/* One test by its name, for people. */
	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
