/* SPDX-License-Identifier: Apache-2.0 */
/* All orders of a few events over up to three jobs of one request, one step at a time. */
#include <stdlib.h>
#include <string.h>

#include "golden/coenv.h"
#include "unit/base/unit.h"
#include "unit/worker/stress_rig.h"

enum { SAVE_THREAD, LOAD_THREAD };
enum { JOBS = 3, BLOCKS = 7, WORD = 100, POISON = 0xb2, UNLOADED = 0xa5, STEP_NS = 10000000 };
enum { LENGTH_DEFAULT = 4, LENGTH_MAX = 12, ENDING_MAX = 40 };

enum event {
	STEP_SAVE,
	STEP_LOAD,
	POLL_ONE,
	PREEMPT,
	FINISH,
	CANCEL_0,
	CANCEL_1,
	CANCEL_2,
	DRAIN,
	IDENTITY,
	LAND,
	EVENTS
};

/* How often each may stand in one order. Threads have at most so many steps before they are idle.
 */
static const unsigned event_max[EVENTS] = {
	[STEP_SAVE] = 4, [STEP_LOAD] = 4, [POLL_ONE] = 2, [PREEMPT] = 1,
	[FINISH] = 1,    [CANCEL_0] = 1,  [CANCEL_1] = 1, [CANCEL_2] = 1,
	[DRAIN] = 1,     [IDENTITY] = 1,  [LAND] = 1};

/* Job j asks for chunks 0 .. j and has blocks of its own for them. */
static const int32_t ids[JOBS][JOBS] = {{1}, {2, 3}, {4, 5, 6}};

struct seen_job {
	bool is_load;
	bool done;
	bool back; /* its blocks are the engine's again */
	bool failed[JOBS];
};

static struct {
	struct coenv *coenv;
	struct rig *rig;
	struct kvh_mutex *mutex;
	struct kvh_cond *cond;
	bool late; /* the bytes of chunk 1 move late */
	uint64_t first_id;
	uint64_t identity;
	uint64_t identity_at_start;
	struct seen_job jobs[JOBS];
	uint64_t order_count;
	size_t length;
} scene;

/* A call takes a turn between its start and its first byte. */
static kvh_status begin(void *user, enum rig_call call, const struct kvh_call *store_call)
{
	const struct kvh_env *env = coenv_env(scene.coenv);

	(void)user;
	(void)store_call;
	if (call != RIG_PUT && call != RIG_GET)
		return KVH_OK;
	env->ops->mutex_lock(env->ctx, scene.mutex);
	env->ops->cond_wait(env->ctx, scene.cond, scene.mutex, 0);
	env->ops->mutex_unlock(env->ctx, scene.mutex);
	return KVH_OK;
}

static int64_t key(void *user, enum rig_call call, uint64_t word)
{
	(void)user;
	(void)call;
	return scene.late && word == WORD + 1 ? KVH_IN_DOUBT : 0;
}

static void give_back(size_t j)
{
	for (size_t i = 0; i <= j; i++)
		memset(rig_block(scene.rig, ids[j][i]), POISON, RIG_BLOCK_BYTES);
	scene.jobs[j].back = true;
}

static void see_load(size_t j, const struct kvh_completion *completion)
{
	size_t failed = 0;

	for (size_t i = 0; i <= j; i++) {
		failed += scene.jobs[j].failed[i];
		if (!scene.jobs[j].failed[i] && !scene.jobs[j].back)
			assert_true(rig_holds(rig_block(scene.rig, ids[j][i]), WORD + i,
			                      scene.identity_at_start));
	}
	assert_int_equal(completion->status == KVH_OK, failed == 0);
}

static bool poll_one(void)
{
	struct kvh_completion completion;
	struct seen_job *job;
	size_t j;

	if (!rig_poll(scene.rig, &completion))
		return false;
	j = completion.job_id - scene.first_id;
	assert_true(j < JOBS);
	job = &scene.jobs[j];
	assert_false(job->done);
	if (completion.kind == KVH_BLOCK_FAILED) {
		assert_true(job->is_load && completion.block_index <= j);
		assert_false(job->failed[completion.block_index]);
		job->failed[completion.block_index] = true;
		return true;
	}
	assert_int_equal(completion.kind, job->is_load ? KVH_LOAD_DONE : KVH_SAVE_DONE);
	job->done = true;
	if (job->is_load)
		see_load(j, &completion);
	if (!job->back)
		give_back(j);
	return true;
}

static void drain(void)
{
	size_t left = 0;

	if (kvh_worker_drain(rig_worker(scene.rig), NULL, 1, &left) == KVH_OK) {
		for (size_t j = 0; j < JOBS; j++) {
			if (!scene.jobs[j].back)
				give_back(j);
		}
	} else {
		assert_in_range(left, 1, JOBS);
	}
}

static void cancel(size_t j)
{
	enum kvh_cancel_outcome outcome;

	assert_int_equal(kvh_worker_cancel(rig_worker(scene.rig), scene.first_id + j, &outcome),
	                 KVH_OK);
	if (scene.jobs[j].done)
		assert_int_equal(outcome, KVH_CANCEL_ALREADY_DONE);
}

static void step(size_t thread)
{
	coenv_advance_ns(scene.coenv, STEP_NS);
	coenv_resume(scene.coenv, thread);
}

static void happen(enum event event)
{
	const struct kvh_request_id request = rig_request("a");

	switch (event) {
	case STEP_SAVE:
		step(SAVE_THREAD);
		break;
	case STEP_LOAD:
		step(LOAD_THREAD);
		break;
	case POLL_ONE:
		poll_one();
		break;
	case PREEMPT:
		assert_int_equal(kvh_worker_preempt(rig_worker(scene.rig), request), KVH_OK);
		break;
	case FINISH:
		assert_int_equal(kvh_worker_finish(rig_worker(scene.rig), &request, 1), KVH_OK);
		break;
	case DRAIN:
		drain();
		break;
	case IDENTITY:
		scene.identity = !scene.identity;
		assert_int_equal(rig_set_identity(scene.rig, scene.identity, NULL), KVH_OK);
		break;
	case LAND:
		rig_land(scene.rig, RIG_LATE_MAX);
		break;
	default:
		cancel(event - CANCEL_0);
	}
}

static void hand_in(unsigned loads)
{
	scene.first_id += JOBS;
	scene.identity_at_start = scene.identity;
	for (size_t j = 0; j < JOBS; j++) {
		const struct rig_job job = {.job_id = scene.first_id + j,
		                            .request = "a",
		                            .word = WORD,
		                            .ids = ids[j],
		                            .count = j + 1};

		scene.jobs[j] = (struct seen_job){.is_load = loads >> j & 1};
		for (size_t i = 0; i <= j; i++) {
			uint64_t *block = rig_block(scene.rig, ids[j][i]);

			if (scene.jobs[j].is_load)
				memset(block, UNLOADED, RIG_BLOCK_BYTES);
			else
				rig_fill(block, WORD + i, scene.identity);
		}
		if (scene.jobs[j].is_load) {
			for (size_t i = 0; i <= j; i++)
				rig_put_object(scene.rig, WORD + i, scene.identity);
			assert_int_equal(rig_load(scene.rig, &job, NULL), KVH_OK);
		} else {
			assert_int_equal(rig_save(scene.rig, &job, NULL), KVH_OK);
		}
	}
}

static bool all_done(void)
{
	return scene.jobs[0].done && scene.jobs[1].done && scene.jobs[2].done;
}

static void assert_all_back(void)
{
	static const unsigned char poison[RIG_BLOCK_BYTES] = {[0 ... RIG_BLOCK_BYTES - 1] = POISON};

	for (size_t j = 0; j < JOBS; j++) {
		for (size_t i = 0; i <= j; i++)
			assert_memory_equal(rig_block(scene.rig, ids[j][i]), poison,
			                    RIG_BLOCK_BYTES);
	}
}

/* When faults stop, every job ends. */
static void end_order(void)
{
	const struct kvh_request_id request = rig_request("a");
	struct kvh_completion completion;
	struct kvh_worker_stats stats;

	for (int i = 0; i < ENDING_MAX && !all_done(); i++) {
		step(SAVE_THREAD);
		step(LOAD_THREAD);
		rig_land(scene.rig, RIG_LATE_MAX);
		while (poll_one())
			;
	}
	assert_true(all_done());
	assert_false(rig_poll(scene.rig, &completion));
	assert_int_equal(rig_land(scene.rig, RIG_LATE_MAX), 0);
	assert_int_equal(kvh_worker_finish(rig_worker(scene.rig), &request, 1), KVH_OK);
	assert_all_back();
	stats = rig_stats(scene.rig);
	assert_int_equal(stats.live_requests + stats.running_jobs + stats.queued_saves +
	                         stats.queued_loads + stats.queued_save_bytes,
	                 0);
	assert_int_equal(rig_foreign_count(scene.rig), 0);
	rig_forget_objects(scene.rig);
	scene.order_count++;
}

static bool is_useful(enum event event, unsigned loads)
{
	if (event == STEP_SAVE)
		return loads != (1 << JOBS) - 1;
	if (event == STEP_LOAD)
		return loads != 0;
	return event != LAND || scene.late;
}

/* Whether the order so far may stand, as far as its last event goes. */
static bool may_stand(const unsigned *order, size_t count, unsigned loads)
{
	unsigned same = 0;

	for (size_t i = 0; i < count; i++)
		same += order[i] == order[count - 1];
	return same <= event_max[order[count - 1]] && is_useful(order[count - 1], loads);
}

/* Counts up to the next order that may stand. False: there is none. */
static bool next_order(unsigned *order, unsigned loads)
{
	size_t at = scene.length - 1;

	order[at]++;
	for (;;) {
		while (order[at] < EVENTS && !may_stand(order, at + 1, loads))
			order[at]++;
		if (order[at] < EVENTS) {
			if (++at == scene.length)
				return true;
			order[at] = 0;
		} else {
			if (at-- == 0)
				return false;
			order[at]++;
		}
	}
}

static void run_orders(unsigned loads)
{
	unsigned order[LENGTH_MAX] = {0};

	memset(order, 0, sizeof(order));
	order[scene.length - 1] = (unsigned)-1; /* the first is found by counting up */
	while (next_order(order, loads)) {
		hand_in(loads);
		for (size_t i = 0; i < scene.length; i++)
			happen(order[i]);
		end_order();
	}
}

static void run_all(bool late)
{
	struct rig_options options = {.begin = begin, .key = key};
	const struct kvh_env *env;

	scene.coenv = coenv_open();
	env = coenv_env(scene.coenv);
	options.env = env;
	assert_int_equal(env->ops->mutex_create(env->ctx, &scene.mutex), KVH_OK);
	assert_int_equal(env->ops->cond_create(env->ctx, &scene.cond), KVH_OK);
	scene.rig = rig_open(&options);
	scene.late = late;
	scene.identity = 0;
	scene.order_count = 0;
	/* Both threads stand before their first job; both identities are known. */
	step(SAVE_THREAD);
	step(LOAD_THREAD);
	for (unsigned loads = 0; loads < 1 << JOBS; loads++)
		run_orders(loads);
	print_message("%llu orders of %zu events\n", (unsigned long long)scene.order_count,
	              scene.length);
	assert_true(scene.order_count > 1000);
	rig_close(scene.rig);
	env->ops->mutex_destroy(env->ctx, scene.mutex);
	env->ops->cond_destroy(env->ctx, scene.cond);
	coenv_close(scene.coenv);
}

/* proves */
static void every_order_of_events_ends_every_job_once(void **state)
{
	(void)state;
	run_all(false);
}

/* proves: D-23, R-12, R-24, R-36, R-38, R-39 */
static void every_order_of_events_with_late_bytes_ends_every_job_once(void **state)
{
	(void)state;
	run_all(true);
}

/* The argument: how many events an order has. */
int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_order_of_events_ends_every_job_once),
		cmocka_unit_test(every_order_of_events_with_late_bytes_ends_every_job_once),
	};

	scene.length = argc > 1 ? strtoul(argv[1], NULL, 10) : LENGTH_DEFAULT;
	if (scene.length == 0 || scene.length > LENGTH_MAX)
		return 2;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
