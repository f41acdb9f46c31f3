/* SPDX-License-Identifier: Apache-2.0 */
/* Every allocation of every call fails, once and for good, until the call runs clean. */
#include <string.h>

#include "base/fault.h"
#include "golden/coenv.h"
#include "unit/base/unit.h"
#include "unit/worker/stress_rig.h"
#include "worker/inspect.h"

enum { SAVE_THREAD, LOAD_THREAD, ALLOCATIONS_MAX = 400, CHUNKS = 3, IDENTITY_NEXT = 7 };

static const int32_t ids[CHUNKS] = {1, 2, 3};
static const struct rig_job job = {
	.job_id = 1, .request = "a", .word = 100, .ids = ids, .count = CHUNKS};

/* Which allocation fails; it alone, or all from it on. */
struct failure {
	uint64_t nth;
	bool lasts;
	uint64_t passed; /* atomic */
	uint64_t fired;  /* atomic */
};

static bool decide(void *user, enum kvh_fault_point point, const void *key, size_t key_bytes,
                   int64_t *number)
{
	struct failure *failure = user;
	uint64_t pass;

	(void)key;
	(void)key_bytes;
	if (point != KVH_FAULT_BASE_ALLOC)
		return false;
	pass = __atomic_add_fetch(&failure->passed, 1, __ATOMIC_RELAXED);
	*number = 1;
	if (failure->lasts ? pass < failure->nth : pass != failure->nth)
		return false;
	__atomic_add_fetch(&failure->fired, 1, __ATOMIC_RELAXED);
	return true;
}

static void arm(struct failure *failure)
{
	assert_true(kvh_fault_arm(decide, failure));
}

/* Runs one try with the nth allocation failing; returns whether any failed. */
typedef bool (*try_fn)(struct failure *failure);

static void fail_each(try_fn try_one)
{
	for (int lasts = 0; lasts < 2; lasts++) {
		uint64_t nth = 1;

		for (; nth < ALLOCATIONS_MAX; nth++) {
			struct failure failure = {.nth = nth, .lasts = lasts};

			if (!try_one(&failure))
				break;
		}
		assert_in_range(nth, 2, ALLOCATIONS_MAX - 1);
	}
}

static bool fired(const struct failure *failure)
{
	return __atomic_load_n(&failure->fired, __ATOMIC_RELAXED) > 0;
}

/* A refusal is for want of memory and says so; without a failed allocation there is none. */
static void assert_refusal(const struct failure *failure, kvh_status status,
                           const struct kvh_error *error)
{
	if (status == KVH_OK)
		return;
	assert_true(fired(failure));
	assert_int_equal(status, KVH_NO_MEMORY);
	assert_int_equal(error->status, KVH_NO_MEMORY);
	assert_true(strlen(error->text) > 0);
}

static bool try_open(struct failure *failure)
{
	const struct rig_options options = {.events = true};
	struct rig *rig = rig_prepare(&options);
	struct kvh_error error = {0};
	kvh_status status;

	arm(failure);
	status = rig_open_worker(rig, &error);
	kvh_fault_disarm_all();
	assert_refusal(failure, status, &error);
	assert_true(!status == (rig_worker(rig) != NULL));
	if (status)
		assert_int_equal(rig_open_worker(rig, NULL), KVH_OK);
	rig_close(rig);
	return fired(failure);
}

/* proves: D-2 */
static void open_without_memory_leaves_nothing_behind(void **state)
{
	(void)state;
	fail_each(try_open);
}

static bool try_register(struct failure *failure)
{
	const struct rig_options options = {.load_threads = 3};
	struct rig *rig = rig_prepare(&options);
	struct kvh_error error = {0};
	kvh_status status;

	assert_int_equal(rig_open_worker(rig, NULL), KVH_OK);
	arm(failure);
	status = rig_register(rig, &error);
	kvh_fault_disarm_all();
	assert_refusal(failure, status, &error);
	if (status)
		assert_int_equal(rig_register(rig, NULL), KVH_OK);
	assert_int_equal(kvh_worker_close(rig_worker(rig), 0, NULL), KVH_OK);
	rig_close(rig);
	return fired(failure);
}

/* proves: D-2 */
static void registering_without_memory_is_undone_and_can_be_done_again(void **state)
{
	(void)state;
	fail_each(try_register);
}

static bool try_abandoned_register(struct failure *failure)
{
	const struct rig_options options = {0};
	struct rig *rig = rig_prepare(&options);

	assert_int_equal(rig_open_worker(rig, NULL), KVH_OK);
	arm(failure);
	(void)rig_register(rig, NULL);
	kvh_fault_disarm_all();
	/* The memory must be the caller's alone after a close that succeeded. */
	assert_int_equal(kvh_worker_close(rig_worker(rig), 0, NULL), KVH_OK);
	assert_int_equal(rig_region_count(rig), 0);
	rig_close(rig);
	return fired(failure);
}

/* proves: D-2, D-8 */
static void close_gives_back_memory_that_a_failed_register_could_not(void **state)
{
	(void)state;
	fail_each(try_abandoned_register);
}

static bool try_close(struct failure *failure)
{
	const struct rig_options options = {0};
	struct rig *rig = rig_open(&options);
	kvh_status status;

	arm(failure);
	status = kvh_worker_close(rig_worker(rig), 0, NULL);
	kvh_fault_disarm_all();
	assert_true(!status || fired(failure));
	if (status)
		assert_int_equal(kvh_worker_close(rig_worker(rig), 0, NULL), KVH_OK);
	rig_close(rig);
	return fired(failure);
}

/* proves: D-8 */
static void a_close_that_lacks_memory_can_be_called_again(void **state)
{
	(void)state;
	fail_each(try_close);
}

/* A worker whose threads run when told. */
struct stepped {
	struct coenv *coenv;
	struct rig *rig;
	uint64_t saved_tokens;
};

static void open_stepped(struct stepped *stepped, bool events)
{
	struct rig_options options = {.events = events};

	stepped->coenv = coenv_open();
	options.env = coenv_env(stepped->coenv);
	stepped->rig = rig_open(&options);
	for (uint64_t i = 0; i < CHUNKS; i++)
		rig_fill(rig_block(stepped->rig, ids[i]), job.word + i, 0);
}

static void run(struct stepped *stepped, size_t thread)
{
	for (int i = 0; i < 4; i++)
		coenv_resume(stepped->coenv, thread);
}

static void close_stepped(struct stepped *stepped)
{
	run(stepped, SAVE_THREAD);
	run(stepped, LOAD_THREAD);
	rig_close(stepped->rig);
	coenv_close(stepped->coenv);
}

/* The job's last completion; events are freed, failed blocks counted. */
static struct kvh_completion poll_to_end(struct rig *rig, size_t *failed)
{
	struct kvh_completion completion = {0};
	struct kvh_completion last = {0};

	while (rig_poll(rig, &completion)) {
		assert_int_equal(last.kind, 0); /* nothing comes after the end */
		if (completion.kind == KVH_EVENT)
			kvh_stored_event_free(completion.event);
		else if (completion.kind == KVH_BLOCK_FAILED)
			++*failed;
		else
			last = completion;
	}
	return last;
}

static bool try_save(struct failure *failure)
{
	struct stepped stepped = {0};
	struct kvh_error error = {0};
	struct kvh_completion completion;
	size_t failed = 0;
	kvh_status status;

	open_stepped(&stepped, true);
	arm(failure);
	status = rig_save(stepped.rig, &job, &error);
	kvh_fault_disarm_all();
	assert_refusal(failure, status, &error);
	assert_int_equal(rig_stats(stepped.rig).live_requests, status == KVH_OK);
	if (status)
		assert_int_equal(rig_save(stepped.rig, &job, NULL), KVH_OK);
	run(&stepped, SAVE_THREAD);
	completion = poll_to_end(stepped.rig, &failed);
	assert_int_equal(completion.kind, KVH_SAVE_DONE);
	assert_int_equal(completion.status, KVH_OK);
	close_stepped(&stepped);
	return fired(failure);
}

/* proves: D-2, R-10 */
static void a_save_handed_in_without_memory_is_refused_whole(void **state)
{
	(void)state;
	fail_each(try_save);
}

static bool try_load(struct failure *failure)
{
	struct stepped stepped = {0};
	struct kvh_error error = {0};
	struct kvh_completion completion;
	size_t failed = 0;
	kvh_status status;

	open_stepped(&stepped, false);
	for (uint64_t i = 0; i < CHUNKS; i++)
		rig_put_object(stepped.rig, job.word + i, 0);
	arm(failure);
	status = rig_load(stepped.rig, &job, &error);
	kvh_fault_disarm_all();
	assert_refusal(failure, status, &error);
	assert_int_equal(rig_stats(stepped.rig).live_requests, status == KVH_OK);
	if (status)
		assert_int_equal(rig_load(stepped.rig, &job, NULL), KVH_OK);
	run(&stepped, LOAD_THREAD);
	completion = poll_to_end(stepped.rig, &failed);
	assert_int_equal(completion.kind, KVH_LOAD_DONE);
	assert_int_equal(completion.status, KVH_OK);
	assert_int_equal(failed, 0);
	close_stepped(&stepped);
	return fired(failure);
}

/* proves: D-2, R-10 */
static void a_load_handed_in_without_memory_is_refused_whole(void **state)
{
	(void)state;
	fail_each(try_load);
}

static bool try_set_epoch(struct failure *failure)
{
	struct stepped stepped = {0};
	struct kvh_error error = {0};
	kvh_status status;

	open_stepped(&stepped, false);
	assert_int_equal(rig_save(stepped.rig, &job, NULL), KVH_OK);
	arm(failure);
	status = rig_set_identity(stepped.rig, IDENTITY_NEXT, &error);
	kvh_fault_disarm_all();
	assert_refusal(failure, status, &error);
	/* Either all requests are forgotten or none is. */
	assert_int_equal(rig_stats(stepped.rig).live_requests, status != KVH_OK);
	run(&stepped, SAVE_THREAD);
	assert_int_equal(rig_object_count(stepped.rig), status ? CHUNKS : 0);
	close_stepped(&stepped);
	return fired(failure);
}

/* proves: D-2, R-24 */
static void an_identity_without_memory_changes_nothing(void **state)
{
	(void)state;
	fail_each(try_set_epoch);
}

static bool try_lookup(struct failure *failure)
{
	uint8_t hashes[CHUNKS][32];
	const struct kvh_lookup lookup = {.struct_bytes = sizeof(lookup),
	                                  .token_count = CHUNKS * RIG_BLOCK_TOKENS + 1,
	                                  .hashes = hashes[0],
	                                  .hash_count = CHUNKS};
	struct kvh_lookup_result result = {.struct_bytes = sizeof(result)};
	struct stepped stepped = {0};
	uint64_t errors;

	open_stepped(&stepped, false);
	memset(hashes, 0x5a, sizeof(hashes));
	for (uint64_t i = 0; i < CHUNKS; i++) {
		uint64_t word = job.word + i;

		memcpy(hashes[i], &word, sizeof(word));
		rig_put_object(stepped.rig, word, 0);
	}
	arm(failure);
	assert_int_equal(kvh_worker_lookup(rig_worker(stepped.rig), &lookup, &result, NULL),
	                 KVH_OK);
	kvh_fault_disarm_all();
	errors = rig_stats(stepped.rig).lookup_errors;
	assert_int_equal(errors, fired(failure));
	assert_int_equal(result.hit_tokens, errors ? 0 : CHUNKS * RIG_BLOCK_TOKENS);
	close_stepped(&stepped);
	return fired(failure);
}

/* proves: R-40 */
static void a_lookup_without_memory_is_no_hit_and_is_counted(void **state)
{
	(void)state;
	fail_each(try_lookup);
}

static void take_saved(void *user, const struct kvh_inspect_request *request)
{
	struct stepped *stepped = user;

	stepped->saved_tokens = request->saved_tokens;
	assert_int_equal(request->live_save_count, 0);
}

static bool try_running_save(struct failure *failure)
{
	struct stepped stepped = {0};
	struct rig_job again = job;
	struct kvh_completion completion;
	size_t failed = 0;
	uint64_t all_tokens = CHUNKS * RIG_BLOCK_TOKENS;

	open_stepped(&stepped, true);
	assert_int_equal(rig_save(stepped.rig, &job, NULL), KVH_OK);
	arm(failure);
	run(&stepped, SAVE_THREAD);
	kvh_fault_disarm_all();
	completion = poll_to_end(stepped.rig, &failed);
	assert_int_equal(completion.kind, KVH_SAVE_DONE);
	kvh_inspect_requests(rig_worker(stepped.rig), take_saved, &stepped);
	assert_int_equal(stepped.saved_tokens, completion.status ? 0 : all_tokens);
	if (!completion.status)
		assert_int_equal(rig_object_count(stepped.rig), CHUNKS);
	again.job_id = 2;
	assert_int_equal(rig_save(stepped.rig, &again, NULL), KVH_OK);
	run(&stepped, SAVE_THREAD);
	completion = poll_to_end(stepped.rig, &failed);
	assert_int_equal(completion.status, KVH_OK);
	assert_int_equal(rig_object_count(stepped.rig), CHUNKS);
	assert_int_equal(rig_foreign_count(stepped.rig), 0);
	close_stepped(&stepped);
	return fired(failure);
}

/* proves: D-2, R-12, R-14 */
static void a_save_that_runs_out_of_memory_completes_and_holds_its_offset(void **state)
{
	(void)state;
	fail_each(try_running_save);
}

static bool try_running_load(struct failure *failure)
{
	struct stepped stepped = {0};
	struct kvh_completion completion;
	size_t failed = 0;

	open_stepped(&stepped, false);
	for (uint64_t i = 0; i < CHUNKS; i++) {
		rig_put_object(stepped.rig, job.word + i, 0);
		memset(rig_block(stepped.rig, ids[i]), 0xee, RIG_BLOCK_BYTES);
	}
	assert_int_equal(rig_load(stepped.rig, &job, NULL), KVH_OK);
	arm(failure);
	run(&stepped, LOAD_THREAD);
	kvh_fault_disarm_all();
	completion = poll_to_end(stepped.rig, &failed);
	assert_int_equal(completion.kind, KVH_LOAD_DONE);
	if (completion.status) {
		assert_int_equal(completion.status, KVH_NO_MEMORY);
		assert_int_equal(failed, CHUNKS);
	} else {
		assert_int_equal(failed, 0);
		for (uint64_t i = 0; i < CHUNKS; i++)
			assert_true(rig_holds(rig_block(stepped.rig, ids[i]), job.word + i, 0));
	}
	close_stepped(&stepped);
	return fired(failure);
}

/* proves: D-2, R-36, R-39 */
static void a_load_that_runs_out_of_memory_reports_every_block(void **state)
{
	(void)state;
	fail_each(try_running_load);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(open_without_memory_leaves_nothing_behind),
		cmocka_unit_test(registering_without_memory_is_undone_and_can_be_done_again),
		cmocka_unit_test(close_gives_back_memory_that_a_failed_register_could_not),
		cmocka_unit_test(a_close_that_lacks_memory_can_be_called_again),
		cmocka_unit_test(a_save_handed_in_without_memory_is_refused_whole),
		cmocka_unit_test(a_load_handed_in_without_memory_is_refused_whole),
		cmocka_unit_test(an_identity_without_memory_changes_nothing),
		cmocka_unit_test(a_lookup_without_memory_is_no_hit_and_is_counted),
		cmocka_unit_test(a_save_that_runs_out_of_memory_completes_and_holds_its_offset),
		cmocka_unit_test(a_load_that_runs_out_of_memory_reports_every_block),
	};

	/* One test by its name, for people. */
	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
