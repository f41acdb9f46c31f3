/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs whose bytes may still move when their store call has returned (D-23). */
#include <string.h>

#include "golden/coenv.h"
#include "unit/base/unit.h"
#include "unit/worker/stress_rig.h"

enum { SAVE_THREAD, LOAD_THREAD };
enum { ASK_AGAIN_NS = 10 * 1000 * 1000, PATIENCE_MS = 20000 };

static const int32_t ids_a[] = {1, 2};
static const int32_t ids_b[] = {3, 4};
static const int32_t ids_c[] = {5, 6};
static const struct rig_job job_a = {
	.job_id = 1, .request = "a", .word = 100, .ids = ids_a, .count = 2};
static const struct rig_job job_b = {
	.job_id = 2, .request = "b", .word = 200, .ids = ids_b, .count = 2};
static const struct rig_job job_c = {
	.job_id = 3, .request = "c", .word = 300, .ids = ids_c, .count = 2};

/* What the store does, and what it was asked. */
struct scene {
	struct coenv *coenv;
	struct rig *rig;
	uint64_t late_from, late_to; /* words whose bytes move late */
	kvh_status quiesce_answer;   /* 0: as the rig knows */
	bool quiesce_waits;          /* in coenv: the question takes a turn */
	struct kvh_mutex *turn_mutex;
	struct kvh_cond *turn;
	uint64_t hold_word; /* a get of it waits for release */
	uint32_t released;
	uint32_t quiesce_count;
	uint32_t log_count;
};

static void take_turn(struct scene *scene)
{
	const struct kvh_env *env = coenv_env(scene->coenv);

	env->ops->mutex_lock(env->ctx, scene->turn_mutex);
	env->ops->cond_wait(env->ctx, scene->turn, scene->turn_mutex, 0);
	env->ops->mutex_unlock(env->ctx, scene->turn_mutex);
}

static kvh_status begin(void *user, enum rig_call call, const struct kvh_call *store_call)
{
	struct scene *scene = user;

	(void)store_call;
	if (call != RIG_QUIESCE)
		return KVH_OK;
	__atomic_add_fetch(&scene->quiesce_count, 1, __ATOMIC_RELAXED);
	if (scene->quiesce_waits)
		take_turn(scene);
	return scene->quiesce_answer;
}

static int64_t key(void *user, enum rig_call call, uint64_t word)
{
	struct scene *scene = user;
	const struct kvh_env *env = kvh_env_posix();

	(void)call;
	while (word == scene->hold_word && !__atomic_load_n(&scene->released, __ATOMIC_ACQUIRE))
		env->ops->sleep_ns(env->ctx, 1000000);
	return word >= scene->late_from && word < scene->late_to ? KVH_IN_DOUBT : 0;
}

static void count_doubt_lines(void *user, enum kvh_log_level level, const char *line)
{
	struct scene *scene = user;

	(void)level;
	if (strstr(line, "in doubt"))
		__atomic_add_fetch(&scene->log_count, 1, __ATOMIC_RELAXED);
}

static void open_scene(struct scene *scene, struct rig_options *options)
{
	options->user = scene;
	options->begin = begin;
	options->key = key;
	options->log = (struct kvh_log){.fn = count_doubt_lines, .user = scene};
	scene->rig = rig_open(options);
	for (uint64_t i = 0; i < 2; i++) {
		rig_fill(rig_block(scene->rig, ids_a[i]), job_a.word + i, 0);
		rig_fill(rig_block(scene->rig, ids_b[i]), job_b.word + i, 0);
		rig_fill(rig_block(scene->rig, ids_c[i]), job_c.word + i, 0);
	}
}

static void open_stepped(struct scene *scene, struct rig_options *options)
{
	const struct kvh_env *env;

	scene->coenv = coenv_open();
	env = coenv_env(scene->coenv);
	options->env = env;
	assert_int_equal(env->ops->mutex_create(env->ctx, &scene->turn_mutex), KVH_OK);
	assert_int_equal(env->ops->cond_create(env->ctx, &scene->turn), KVH_OK);
	open_scene(scene, options);
}

static void close_stepped(struct scene *scene)
{
	const struct kvh_env *env = coenv_env(scene->coenv);

	rig_close(scene->rig);
	env->ops->mutex_destroy(env->ctx, scene->turn_mutex);
	env->ops->cond_destroy(env->ctx, scene->turn);
	coenv_close(scene->coenv);
}

static void step(struct scene *scene, size_t thread)
{
	coenv_advance_ns(scene->coenv, ASK_AGAIN_NS);
	coenv_resume(scene->coenv, thread);
}

static void assert_nothing_polled(struct rig *rig)
{
	struct kvh_completion completion;

	assert_false(rig_poll(rig, &completion));
}

static void assert_load_done(struct rig *rig, const struct rig_job *job, size_t failed)
{
	struct kvh_completion completion;

	for (size_t i = 0; i < failed; i++) {
		assert_true(rig_poll(rig, &completion));
		assert_int_equal(completion.kind, KVH_BLOCK_FAILED);
		assert_int_equal(completion.job_id, job->job_id);
	}
	assert_true(rig_poll(rig, &completion));
	assert_int_equal(completion.kind, KVH_LOAD_DONE);
	assert_int_equal(completion.job_id, job->job_id);
}

static void assert_save_done(struct rig *rig, const struct rig_job *job)
{
	struct kvh_completion completion;

	assert_true(rig_poll(rig, &completion));
	assert_int_equal(completion.kind, KVH_SAVE_DONE);
	assert_int_equal(completion.job_id, job->job_id);
}

/* proves: D-23, R-36 */
static void a_load_in_doubt_completes_when_the_store_confirms(void **state)
{
	struct scene scene = {.late_from = 100, .late_to = 101};
	struct rig_options options = {0};
	size_t left = 0;

	(void)state;
	open_stepped(&scene, &options);
	rig_put_object(scene.rig, 101, 0);
	assert_int_equal(rig_load(scene.rig, &job_a, NULL), KVH_OK);
	for (int i = 0; i < 5; i++)
		step(&scene, LOAD_THREAD);
	assert_nothing_polled(scene.rig);
	assert_int_equal(kvh_worker_drain(rig_worker(scene.rig), NULL, 1, &left), KVH_TIMEOUT);
	assert_int_equal(left, 1);
	assert_int_equal(rig_land(scene.rig, 1), 1);
	assert_nothing_polled(scene.rig);
	step(&scene, LOAD_THREAD);
	assert_load_done(scene.rig, &job_a, 1);
	assert_nothing_polled(scene.rig);
	assert_int_equal(rig_stats(scene.rig).in_doubt_jobs, 1);
	assert_int_equal(scene.log_count, 1);
	close_stepped(&scene);
}

/* proves: D-23, R-12 */
static void a_save_in_doubt_completes_when_the_store_confirms(void **state)
{
	struct scene scene = {.late_from = 101, .late_to = 102};
	struct rig_options options = {0};

	(void)state;
	open_stepped(&scene, &options);
	assert_int_equal(rig_save(scene.rig, &job_a, NULL), KVH_OK);
	for (int i = 0; i < 5; i++)
		step(&scene, SAVE_THREAD);
	assert_nothing_polled(scene.rig);
	assert_int_equal(rig_land(scene.rig, 1), 1);
	step(&scene, SAVE_THREAD);
	assert_save_done(scene.rig, &job_a);
	assert_nothing_polled(scene.rig);
	assert_int_equal(rig_foreign_count(scene.rig), 0);
	assert_int_equal(rig_stats(scene.rig).in_doubt_jobs, 1);
	assert_int_equal(scene.log_count, 1);
	close_stepped(&scene);
}

/* proves: D-23, R-38 */
static void neither_cancel_nor_preempt_end_a_job_in_doubt(void **state)
{
	struct scene scene = {.late_from = 100, .late_to = 400};
	struct rig_options options = {0};
	enum kvh_cancel_outcome outcome;

	(void)state;
	open_stepped(&scene, &options);
	assert_int_equal(rig_load(scene.rig, &job_a, NULL), KVH_OK);
	assert_int_equal(rig_save(scene.rig, &job_b, NULL), KVH_OK);
	for (int i = 0; i < 2; i++) {
		step(&scene, LOAD_THREAD);
		step(&scene, SAVE_THREAD);
	}
	assert_int_equal(kvh_worker_cancel(rig_worker(scene.rig), 1, &outcome), KVH_OK);
	assert_int_equal(outcome, KVH_CANCEL_STOPPING);
	assert_int_equal(kvh_worker_preempt(rig_worker(scene.rig), rig_request("a")), KVH_OK);
	assert_int_equal(kvh_worker_preempt(rig_worker(scene.rig), rig_request("b")), KVH_OK);
	assert_int_equal(rig_set_identity(scene.rig, 1, NULL), KVH_OK);
	step(&scene, LOAD_THREAD);
	step(&scene, SAVE_THREAD);
	assert_nothing_polled(scene.rig);
	rig_land(scene.rig, RIG_LATE_MAX);
	step(&scene, SAVE_THREAD);
	assert_int_equal(rig_stats(scene.rig).completions_waiting, 2);
	close_stepped(&scene);
}

/* proves: D-23 */
static void an_answer_confirms_only_what_was_in_doubt_before_the_question(void **state)
{
	struct scene scene = {.late_from = 100, .late_to = 400};
	struct rig_options options = {0};

	(void)state;
	open_stepped(&scene, &options);
	assert_int_equal(rig_load(scene.rig, &job_a, NULL), KVH_OK);
	step(&scene, LOAD_THREAD); /* from its start to its first job */
	step(&scene, LOAD_THREAD);
	rig_land(scene.rig, RIG_LATE_MAX);
	scene.quiesce_waits = true;
	step(&scene, SAVE_THREAD);
	step(&scene, SAVE_THREAD);
	assert_true(scene.quiesce_count > 0);
	/* The question about a is on its way: its answer will be good. */
	assert_int_equal(rig_load(scene.rig, &job_b, NULL), KVH_OK);
	step(&scene, LOAD_THREAD);
	step(&scene, LOAD_THREAD);
	scene.quiesce_waits = false;
	step(&scene, SAVE_THREAD);
	assert_load_done(scene.rig, &job_a, 2);
	assert_nothing_polled(scene.rig);
	rig_land(scene.rig, RIG_LATE_MAX);
	step(&scene, LOAD_THREAD); /* its own question came too early */
	step(&scene, LOAD_THREAD);
	assert_load_done(scene.rig, &job_b, 2);
	close_stepped(&scene);
}

/* proves: D-23, R-36 */
static void busy_threads_still_ask_about_jobs_in_doubt(void **state)
{
	struct scene scene = {.late_from = 100, .late_to = 102};
	struct rig_options options = {0};
	struct rig_job more = job_b;
	struct kvh_completion completion;
	bool found = false;

	(void)state;
	open_stepped(&scene, &options);
	assert_int_equal(rig_load(scene.rig, &job_a, NULL), KVH_OK);
	step(&scene, LOAD_THREAD);
	for (more.job_id = 10; more.job_id < 20; more.job_id++)
		assert_int_equal(rig_load(scene.rig, &more, NULL), KVH_OK);
	step(&scene, LOAD_THREAD);
	rig_land(scene.rig, RIG_LATE_MAX);
	for (int i = 0; i < 5; i++)
		step(&scene, LOAD_THREAD);
	assert_true(rig_stats(scene.rig).queued_loads > 0);
	while (rig_poll(scene.rig, &completion))
		found |= completion.kind == KVH_LOAD_DONE && completion.job_id == job_a.job_id;
	assert_true(found);
	for (int i = 0; i < 20; i++)
		step(&scene, LOAD_THREAD);
	close_stepped(&scene);
}

static bool wait_for_done(struct rig *rig, uint64_t job_id)
{
	const struct kvh_env *env = kvh_env_posix();
	struct kvh_completion completion;

	for (int i = 0; i < PATIENCE_MS; i++) {
		while (rig_poll(rig, &completion)) {
			if (completion.job_id == job_id &&
			    (completion.kind == KVH_LOAD_DONE || completion.kind == KVH_SAVE_DONE))
				return true;
		}
		env->ops->sleep_ns(env->ctx, 1000000);
	}
	return false;
}

/* proves: D-23, R-36 */
static void a_sleeping_thread_asks_while_the_one_that_knows_hangs(void **state)
{
	struct scene scene = {.late_from = 100, .late_to = 102, .hold_word = 200};
	struct rig_options options = {0};

	(void)state;
	open_scene(&scene, &options);
	assert_int_equal(rig_load(scene.rig, &job_a, NULL), KVH_OK);
	assert_int_equal(rig_load(scene.rig, &job_b, NULL), KVH_OK);
	while (!rig_late_count(scene.rig) || rig_stats(scene.rig).queued_loads ||
	       rig_stats(scene.rig).in_doubt_jobs < 1)
		kvh_env_posix()->ops->sleep_ns(NULL, 1000000);
	rig_land(scene.rig, RIG_LATE_MAX);
	assert_true(wait_for_done(scene.rig, job_a.job_id));
	__atomic_store_n(&scene.released, 1, __ATOMIC_RELEASE);
	assert_true(wait_for_done(scene.rig, job_b.job_id));
	assert_int_equal(kvh_worker_close(rig_worker(scene.rig), 0, NULL), KVH_OK);
	rig_close(scene.rig);
}

/* proves: D-23, D-8 */
static void close_gets_by_unregistering_what_the_store_never_confirms(void **state)
{
	struct scene scene = {
		.late_from = 100, .late_to = 400, .quiesce_answer = KVH_NOT_SUPPORTED};
	struct rig_options options = {.unregister_confirms = true, .stop_ms_max = -1};
	size_t left = 77;

	(void)state;
	open_scene(&scene, &options);
	assert_int_equal(rig_load(scene.rig, &job_a, NULL), KVH_OK);
	assert_int_equal(rig_save(scene.rig, &job_b, NULL), KVH_OK);
	assert_int_equal(kvh_worker_close(rig_worker(scene.rig), 0, &left), KVH_OK);
	assert_int_equal(left, 0);
	assert_int_equal(rig_late_count(scene.rig), 0);
	assert_true(wait_for_done(scene.rig, job_b.job_id) ||
	            wait_for_done(scene.rig, job_a.job_id));
	assert_int_equal(rig_stats(scene.rig).in_doubt_jobs, 2);
	rig_close(scene.rig);
}

/* proves: D-23, D-8 */
static void close_says_how_many_are_in_doubt_until_bytes_have_moved(void **state)
{
	struct scene scene = {
		.late_from = 100, .late_to = 400, .quiesce_answer = KVH_NOT_SUPPORTED};
	struct rig_options options = {.stop_ms_max = -1};
	size_t left = 0;

	(void)state;
	open_scene(&scene, &options);
	assert_int_equal(rig_load(scene.rig, &job_a, NULL), KVH_OK);
	assert_int_equal(rig_save(scene.rig, &job_b, NULL), KVH_OK);
	while (rig_stats(scene.rig).in_doubt_jobs < 2)
		kvh_env_posix()->ops->sleep_ns(NULL, 1000000);
	for (int i = 0; i < 3; i++) {
		left = 0;
		assert_int_equal(kvh_worker_close(rig_worker(scene.rig), i == 0, &left),
		                 KVH_TIMEOUT);
		assert_int_equal(left, 2);
		assert_nothing_polled(scene.rig);
	}
	rig_land(scene.rig, RIG_LATE_MAX);
	assert_int_equal(kvh_worker_close(rig_worker(scene.rig), 0, &left), KVH_OK);
	assert_int_equal(left, 0);
	assert_int_equal(rig_stats(scene.rig).completions_waiting, 2);
	assert_int_equal(rig_foreign_count(scene.rig), 0);
	rig_close(scene.rig);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_load_in_doubt_completes_when_the_store_confirms),
		cmocka_unit_test(a_save_in_doubt_completes_when_the_store_confirms),
		cmocka_unit_test(neither_cancel_nor_preempt_end_a_job_in_doubt),
		cmocka_unit_test(an_answer_confirms_only_what_was_in_doubt_before_the_question),
		cmocka_unit_test(busy_threads_still_ask_about_jobs_in_doubt),
		cmocka_unit_test(a_sleeping_thread_asks_while_the_one_that_knows_hangs),
		cmocka_unit_test(close_gets_by_unregistering_what_the_store_never_confirms),
		cmocka_unit_test(close_says_how_many_are_in_doubt_until_bytes_have_moved),
	};

	/* One test by its name, for people. */
	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
