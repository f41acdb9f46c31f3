/* SPDX-License-Identifier: Apache-2.0 */
/* What closes, drains, waits and time-outs do over a store that hangs. */
#include <string.h>

#include "unit/base/unit.h"
#include "unit/worker/stress_rig.h"

/* STARTED_MS: a thread that has work has begun with it, however busy the machine. */
enum { MS = 1000000, SHORT_MS = 30, STARTED_MS = 1500, PATIENCE_MS = 20000 };

static const int32_t ids_a[] = {1, 2};
static const int32_t ids_b[] = {3, 4};
static const struct rig_job job_a = {
	.job_id = 1, .request = "a", .word = 100, .ids = ids_a, .count = 2};
static const struct rig_job job_b = {
	.job_id = 2, .request = "b", .word = 200, .ids = ids_b, .count = 2};

struct scene {
	struct rig *rig;
	bool hears;        /* a hanging call ends when it is cancelled or its deadline passes */
	uint32_t released; /* atomic: it ends at once */
	uint32_t inside;   /* atomic: calls that hang */
};

static const struct kvh_env *env(void)
{
	return kvh_env_posix();
}

static uint64_t in_ms(uint64_t ms)
{
	return env()->ops->now_ns(NULL) + ms * MS;
}

static bool is_over(const struct scene *scene, const struct kvh_call *call)
{
	if (__atomic_load_n(&scene->released, __ATOMIC_ACQUIRE))
		return true;
	return scene->hears && (kvh_cancel_requested(call->cancel) ||
	                        (call->deadline_ns && call->deadline_ns <= in_ms(0)));
}

static kvh_status hang(void *user, enum rig_call call, const struct kvh_call *store_call)
{
	struct scene *scene = user;

	if (call != RIG_PUT && call != RIG_GET)
		return KVH_OK;
	__atomic_add_fetch(&scene->inside, 1, __ATOMIC_ACQ_REL);
	while (!is_over(scene, store_call))
		env()->ops->sleep_ns(NULL, MS / 4);
	__atomic_sub_fetch(&scene->inside, 1, __ATOMIC_ACQ_REL);
	return KVH_OK;
}

static void open_scene(struct scene *scene, struct rig_options *options)
{
	options->user = scene;
	options->begin = hang;
	scene->rig = rig_open(options);
	for (uint64_t i = 0; i < 2; i++) {
		rig_fill(rig_block(scene->rig, ids_a[i]), job_a.word + i, 0);
		rig_fill(rig_block(scene->rig, ids_b[i]), job_b.word + i, 0);
		rig_put_object(scene->rig, job_b.word + i, 0);
	}
}

static void release(struct scene *scene)
{
	__atomic_store_n(&scene->released, 1, __ATOMIC_RELEASE);
}

static void release_later(void *arg)
{
	struct scene *scene = arg;

	env()->ops->sleep_ns(NULL, SHORT_MS * (uint64_t)MS);
	release(scene);
}

static struct kvh_thread *start_release(struct scene *scene)
{
	struct kvh_thread *thread;

	assert_int_equal(env()->ops->thread_create(NULL, &thread, "release", release_later, scene),
	                 KVH_OK);
	return thread;
}

static void wait_until_it_hangs(struct scene *scene)
{
	for (int i = 0; i < PATIENCE_MS && !__atomic_load_n(&scene->inside, __ATOMIC_ACQUIRE); i++)
		env()->ops->sleep_ns(NULL, MS);
	assert_true(__atomic_load_n(&scene->inside, __ATOMIC_ACQUIRE) > 0);
}

/* The next completion, which must come. */
static struct kvh_completion next(struct scene *scene)
{
	struct kvh_completion completion;

	for (int i = 0; i < PATIENCE_MS; i++) {
		if (rig_poll(scene->rig, &completion))
			return completion;
		env()->ops->sleep_ns(NULL, MS);
	}
	fail_msg("no completion");
	return completion;
}

static void assert_failed_load(struct scene *scene, const struct rig_job *job, kvh_status why)
{
	struct kvh_completion completion;

	for (uint32_t i = 0; i < job->count; i++) {
		completion = next(scene);
		assert_int_equal(completion.kind, KVH_BLOCK_FAILED);
		assert_int_equal(completion.job_id, job->job_id);
		assert_int_equal(completion.block_index, i);
		assert_int_equal(completion.block_id, job->ids[i]);
		assert_int_equal(completion.status, why);
	}
	completion = next(scene);
	assert_int_equal(completion.kind, KVH_LOAD_DONE);
	assert_int_equal(completion.job_id, job->job_id);
	assert_int_equal(completion.status, why);
}

/* proves: D-8 */
static void close_without_deadline_waits_and_cancels_nothing(void **state)
{
	struct scene scene = {.hears = true};
	struct rig_options options = {.stop_ms_max = 0};
	struct kvh_thread *thread;
	struct kvh_completion completion;
	size_t left = 77;

	(void)state;
	open_scene(&scene, &options);
	assert_int_equal(rig_save(scene.rig, &job_a, NULL), KVH_OK);
	thread = start_release(&scene);
	assert_int_equal(kvh_worker_close(rig_worker(scene.rig), 0, &left), KVH_OK);
	assert_int_equal(left, 0);
	env()->ops->thread_join(NULL, thread);
	completion = next(&scene);
	assert_int_equal(completion.kind, KVH_SAVE_DONE);
	assert_int_equal(completion.status, KVH_OK);
	assert_int_equal(rig_object_count(scene.rig), 4);
	rig_close(scene.rig);
}

static void hand_in_four(struct scene *scene)
{
	struct rig_job second_a = job_a;
	struct rig_job second_b = job_b;

	second_a.job_id = 11;
	second_a.request = "c";
	second_b.job_id = 12;
	assert_int_equal(rig_save(scene->rig, &job_a, NULL), KVH_OK);
	assert_int_equal(rig_load(scene->rig, &job_b, NULL), KVH_OK);
	wait_until_it_hangs(scene);
	assert_int_equal(rig_save(scene->rig, &second_a, NULL), KVH_OK);
	assert_int_equal(rig_load(scene->rig, &second_b, NULL), KVH_OK);
}

static void assert_four_cancelled(struct scene *scene)
{
	struct kvh_completion completion;
	size_t done = 0, failed = 0;

	while (rig_poll(scene->rig, &completion)) {
		assert_int_equal(completion.status, KVH_CANCELLED);
		failed += completion.kind == KVH_BLOCK_FAILED;
		done += completion.kind == KVH_SAVE_DONE || completion.kind == KVH_LOAD_DONE;
	}
	assert_int_equal(done, 4);
	assert_int_equal(failed, 4);
}

/* proves: D-8, R-36, R-39 */
static void close_at_once_cancels_what_is_queued_and_what_runs(void **state)
{
	struct scene scene = {.hears = true};
	struct rig_options options = {.stop_ms_max = PATIENCE_MS};
	size_t left = 77;

	(void)state;
	open_scene(&scene, &options);
	hand_in_four(&scene);
	assert_int_equal(kvh_worker_close(rig_worker(scene.rig), 1, &left), KVH_OK);
	assert_int_equal(left, 0);
	assert_four_cancelled(&scene);
	assert_int_equal(rig_object_count(scene.rig), 2);
	rig_close(scene.rig);
}

/* proves: D-8, R-36 */
static void close_leaves_what_a_deaf_store_still_holds_and_can_be_called_again(void **state)
{
	struct scene scene = {0};
	struct rig_options options = {.stop_ms_max = -1};
	struct kvh_completion completion;
	size_t left = 0;
	uint32_t hanging;

	(void)state;
	open_scene(&scene, &options);
	hand_in_four(&scene);
	while ((hanging = __atomic_load_n(&scene.inside, __ATOMIC_ACQUIRE)) < 2)
		env()->ops->sleep_ns(NULL, MS);
	assert_int_equal(kvh_worker_close(rig_worker(scene.rig), in_ms(SHORT_MS), &left),
	                 KVH_TIMEOUT);
	assert_int_equal(left, hanging);
	assert_int_equal(rig_save(scene.rig, &job_a, NULL), KVH_CLOSED);
	/* Only the queued ones are back: two completions, two failed blocks. */
	for (int i = 0; i < 4; i++) {
		assert_true(rig_poll(scene.rig, &completion));
		assert_true(completion.job_id > 10);
	}
	assert_false(rig_poll(scene.rig, &completion));
	assert_int_equal(kvh_worker_close(rig_worker(scene.rig), 1, &left), KVH_TIMEOUT);
	assert_int_equal(left, hanging);
	release(&scene);
	assert_int_equal(kvh_worker_close(rig_worker(scene.rig), 0, &left), KVH_OK);
	assert_int_equal(left, 0);
	rig_close(scene.rig);
}

/* proves: D-8 */
static void drain_says_how_many_are_left_at_its_deadline(void **state)
{
	static const kvh_deadline late[] = {0, UINT64_MAX, UINT64_MAX - 1};
	const struct kvh_request_id a = rig_request("a");
	const struct kvh_request_id nobody = rig_request("nobody");
	struct scene scene = {0};
	struct rig_options options = {.stop_ms_max = -1};
	struct kvh_thread *thread;
	struct kvh_worker *worker;
	size_t left = 0;

	(void)state;
	open_scene(&scene, &options);
	worker = rig_worker(scene.rig);
	hand_in_four(&scene);
	assert_int_equal(kvh_worker_drain(worker, NULL, 1, &left), KVH_TIMEOUT);
	assert_int_equal(left, 4);
	assert_int_equal(kvh_worker_drain(worker, &a, in_ms(SHORT_MS), &left), KVH_TIMEOUT);
	assert_int_equal(left, 1);
	assert_int_equal(kvh_worker_drain(worker, &nobody, 1, &left), KVH_OK);
	assert_int_equal(left, 0);
	thread = start_release(&scene);
	for (size_t i = 0; i < COUNT_OF(late); i++)
		assert_int_equal(kvh_worker_drain(worker, NULL, late[i], NULL), KVH_OK);
	env()->ops->thread_join(NULL, thread);
	assert_int_equal(kvh_worker_close(worker, 1, &left), KVH_OK);
	rig_close(scene.rig);
}

/* proves: D-14, R-36, R-39 */
static void a_running_load_ends_at_its_timeout(void **state)
{
	struct scene scene = {.hears = true};
	struct rig_options options = {.load_timeout_ms = SHORT_MS};

	(void)state;
	open_scene(&scene, &options);
	assert_int_equal(rig_load(scene.rig, &job_b, NULL), KVH_OK);
	assert_failed_load(&scene, &job_b, KVH_TIMEOUT);
	assert_int_equal(rig_stats(scene.rig).load_jobs_timed_out, 1);
	assert_int_equal(kvh_worker_close(rig_worker(scene.rig), 0, NULL), KVH_OK);
	rig_close(scene.rig);
}

/* proves: D-14, R-36, R-39 */
static void a_load_over_a_deaf_store_ends_when_its_get_returns(void **state)
{
	struct scene scene = {0};
	struct rig_options options = {.load_timeout_ms = STARTED_MS, .stop_ms_max = -1};
	struct rig_job queued = job_b;
	struct kvh_completion completion;
	size_t left = 0;

	(void)state;
	queued.job_id = 12;
	queued.request = "q";
	open_scene(&scene, &options);
	assert_int_equal(rig_load(scene.rig, &job_b, NULL), KVH_OK);
	wait_until_it_hangs(&scene);
	assert_int_equal(rig_load(scene.rig, &queued, NULL), KVH_OK);
	/* The one that waits is ended by poll alone. */
	assert_failed_load(&scene, &queued, KVH_TIMEOUT);
	assert_int_equal(kvh_worker_drain(rig_worker(scene.rig), NULL, in_ms(SHORT_MS), &left),
	                 KVH_TIMEOUT);
	assert_int_equal(left, 1);
	assert_false(rig_poll(scene.rig, &completion));
	release(&scene);
	assert_failed_load(&scene, &job_b, KVH_TIMEOUT);
	assert_int_equal(kvh_worker_close(rig_worker(scene.rig), 0, NULL), KVH_OK);
	rig_close(scene.rig);
}

/* proves: D-14 */
static void a_drain_without_deadline_ends_queued_loads_at_their_timeout(void **state)
{
	const struct kvh_request_id request = rig_request("q");
	struct scene scene = {0};
	struct rig_options options = {.load_timeout_ms = STARTED_MS, .stop_ms_max = -1};
	struct rig_job queued = job_b;

	(void)state;
	queued.job_id = 12;
	queued.request = "q";
	open_scene(&scene, &options);
	assert_int_equal(rig_load(scene.rig, &job_b, NULL), KVH_OK);
	wait_until_it_hangs(&scene);
	assert_int_equal(rig_load(scene.rig, &queued, NULL), KVH_OK);
	assert_int_equal(kvh_worker_drain(rig_worker(scene.rig), &request, 0, NULL), KVH_OK);
	assert_failed_load(&scene, &queued, KVH_TIMEOUT);
	release(&scene);
	assert_int_equal(kvh_worker_close(rig_worker(scene.rig), 0, NULL), KVH_OK);
	rig_close(scene.rig);
}

/* How a load is asked to stop while it runs. */
static void stop_by_cancel(struct rig *rig)
{
	enum kvh_cancel_outcome outcome;

	assert_int_equal(kvh_worker_cancel(rig_worker(rig), job_b.job_id, &outcome), KVH_OK);
	assert_int_equal(outcome, KVH_CANCEL_STOPPING);
}

static void stop_by_preempt(struct rig *rig)
{
	assert_int_equal(kvh_worker_preempt(rig_worker(rig), rig_request("b")), KVH_OK);
}

static void stop_by_finish(struct rig *rig)
{
	const struct kvh_request_id request = rig_request("b");

	assert_int_equal(kvh_worker_finish(rig_worker(rig), &request, 1), KVH_OK);
}

static void stop_by_identity(struct rig *rig)
{
	assert_int_equal(rig_set_identity(rig, 1, NULL), KVH_OK);
}

/* proves */
static void a_running_load_stops_when_it_is_asked(void **state)
{
	static void (*const stops[])(struct rig * rig) = {stop_by_cancel, stop_by_preempt,
	                                                  stop_by_finish, stop_by_identity};

	(void)state;
	for (size_t i = 0; i < COUNT_OF(stops); i++) {
		struct scene scene = {.hears = true};
		struct rig_options options = {.stop_ms_max = PATIENCE_MS};

		open_scene(&scene, &options);
		assert_int_equal(rig_load(scene.rig, &job_b, NULL), KVH_OK);
		wait_until_it_hangs(&scene);
		stops[i](scene.rig);
		assert_failed_load(&scene, &job_b, KVH_CANCELLED);
		assert_int_equal(rig_stats(scene.rig).load_jobs_cancelled, 1);
		assert_int_equal(kvh_worker_close(rig_worker(scene.rig), 0, NULL), KVH_OK);
		rig_close(scene.rig);
	}
}

/* proves: R-12 */
static void a_running_save_stops_when_it_is_cancelled(void **state)
{
	struct scene scene = {.hears = true};
	struct rig_options options = {.stop_ms_max = PATIENCE_MS};
	enum kvh_cancel_outcome outcome;
	struct kvh_completion completion;

	(void)state;
	open_scene(&scene, &options);
	assert_int_equal(rig_save(scene.rig, &job_a, NULL), KVH_OK);
	wait_until_it_hangs(&scene);
	assert_int_equal(kvh_worker_cancel(rig_worker(scene.rig), job_a.job_id, &outcome), KVH_OK);
	assert_int_equal(outcome, KVH_CANCEL_STOPPING);
	completion = next(&scene);
	assert_int_equal(completion.kind, KVH_SAVE_DONE);
	assert_int_equal(completion.status, KVH_CANCELLED);
	assert_int_equal(kvh_worker_cancel(rig_worker(scene.rig), job_a.job_id, &outcome), KVH_OK);
	assert_int_equal(outcome, KVH_CANCEL_ALREADY_DONE);
	assert_int_equal(kvh_worker_close(rig_worker(scene.rig), 0, NULL), KVH_OK);
	rig_close(scene.rig);
}

/* proves: D-8 */
static void destroy_closes_a_worker_and_drops_its_completions(void **state)
{
	struct scene scene = {.hears = true};
	struct rig_options options = {.stop_ms_max = PATIENCE_MS, .events = true};

	(void)state;
	open_scene(&scene, &options);
	hand_in_four(&scene);
	rig_close(scene.rig);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(close_without_deadline_waits_and_cancels_nothing),
		cmocka_unit_test(close_at_once_cancels_what_is_queued_and_what_runs),
		cmocka_unit_test(
			close_leaves_what_a_deaf_store_still_holds_and_can_be_called_again),
		cmocka_unit_test(drain_says_how_many_are_left_at_its_deadline),
		cmocka_unit_test(a_running_load_ends_at_its_timeout),
		cmocka_unit_test(a_load_over_a_deaf_store_ends_when_its_get_returns),
		cmocka_unit_test(a_drain_without_deadline_ends_queued_loads_at_their_timeout),
		cmocka_unit_test(a_running_load_stops_when_it_is_asked),
		cmocka_unit_test(a_running_save_stops_when_it_is_cancelled),
		cmocka_unit_test(destroy_closes_a_worker_and_drops_its_completions),
	};

	/* One test by its name, for people. */
	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
