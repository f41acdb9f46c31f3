/* SPDX-License-Identifier: Apache-2.0 */
/* Requests' lives, cancelling, draining and closing. */
#include "base/fault.h"
#include "rig.h"

static size_t drain_left(struct rig *rig, const char *request, kvh_deadline deadline_ns)
{
	struct kvh_request_id id = rig_id(request ? request : "");
	size_t left = 99;
	kvh_status status = kvh_worker_drain(rig->worker, request ? &id : NULL, deadline_ns, &left);

	assert_int_equal(status, left ? KVH_TIMEOUT : KVH_OK);
	return left;
}

/* proves: R-24 */
static void preemption_forgets_at_once(void **state)
{
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig_open(&rig);
	rig_save_and_run(&rig, 1, "r", 32);
	rig_save(&rig, 2, "r", 64);
	rig_preempt(&rig, "r");
	assert_int_equal(rig_stats(&rig).live_requests, 0);
	rig_run_save(&rig);
	assert_string_equal(rig_done(&rig), "saved 1 0\nsaved 2 -2001\n");
	rig_preempt(&rig, "nobody");
	rig_close(&rig);
}

/* Preempts at the first allocation, and lets all of them be. */
static bool preempt_once(void *user, enum kvh_fault_point point, const void *key, size_t key_bytes,
                         int64_t *number)
{
	struct rig **rig = user;

	(void)key, (void)key_bytes, (void)number;
	if (point == KVH_FAULT_BASE_ALLOC && *rig) {
		rig_preempt(*rig, "r");
		*rig = NULL;
	}
	return false;
}

/* proves */
static void a_save_handed_in_while_its_request_is_preempted_saves_from_the_start(void **state)
{
	struct rig rig;
	struct rig *preempted = &rig;

	(void)state;
	rig_init(&rig);
	rig_open(&rig);
	rig_save_and_run(&rig, 1, "r", 32);
	rig_calls(&rig);
	assert_true(kvh_fault_arm(preempt_once, &preempted));
	rig_save(&rig, 2, "r", 64);
	kvh_fault_disarm_all();
	assert_null(preempted);
	rig_run_save(&rig);
	assert_string_equal(rig_calls(&rig), "exists 0 1 2 3\nput 2 3\n");
	assert_int_equal(rig_saved_tokens(&rig, "r"), 64);
	rig_close(&rig);
}

/* proves: R-24 */
static void finishing_waits_until_the_queued_jobs_have_drained(void **state)
{
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig_open(&rig);
	rig_save(&rig, 1, "r", 32);
	rig_save(&rig, 2, "r", 64);
	rig_finish(&rig, "r");
	rig_run_save(&rig);
	rig_finish(&rig, NULL);
	assert_int_equal(rig_live_saves(&rig, "r"), 1);
	assert_int_equal(rig_saved_tokens(&rig, "r"), 32);
	rig_run_save(&rig);
	assert_string_equal(rig_calls(&rig), "exists 0 1\nput 0 1\nexists 2 3\nput 2 3\n");
	rig_finish(&rig, NULL);
	assert_int_equal(rig_stats(&rig).live_requests, 0);
	assert_string_equal(rig_done(&rig), "saved 1 0\nsaved 2 0\n");
	rig_close(&rig);
}

/* proves */
static void finishing_cancels_loads_though_saves_are_outstanding(void **state)
{
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig_open(&rig);
	rig_save(&rig, 1, "r", 32);
	rig_load(&rig, 2, "r", 32, 16);
	rig_finish(&rig, "r");
	assert_string_equal(rig_done(&rig), "failed 2 g0 i1 b101 -2001\nloaded 2 -2001\n");
	rig_run_save(&rig);
	assert_string_equal(rig_done(&rig), "saved 1 0\n");
	rig_close(&rig);
}

/* proves: R-24 */
static void finishing_a_wrong_list_changes_nothing(void **state)
{
	struct kvh_request_id ids[2] = {rig_id("r"), {.data = "", .bytes = 0}};
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig_open(&rig);
	rig_save_and_run(&rig, 1, "r", 16);
	assert_int_equal(kvh_worker_finish(rig.worker, ids, 2), KVH_INVALID_PARAMS);
	assert_int_equal(rig_saved_tokens(&rig, "r"), 16);
	rig_close(&rig);
}

/* proves: R-24 */
static void a_request_that_only_loaded_leaves_nothing_behind(void **state)
{
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig_open(&rig);
	rig_load_and_run(&rig, 1, "r", 16, 0);
	rig_done(&rig);
	assert_int_equal(rig_stats(&rig).live_requests, 0);
	rig_close(&rig);
}

/* proves: R-38 */
static void cancelling_one_job_leaves_its_neighbours(void **state)
{
	enum kvh_cancel_outcome outcome;
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig_open(&rig);
	rig_plant(&rig, 0, 0, 1);
	rig_load(&rig, 1, "r", 16, 0);
	rig_load(&rig, 2, "r", 16, 0);
	rig_save(&rig, 3, "r", 16);
	rig_save(&rig, 4, "r", 16);
	assert_int_equal(kvh_worker_cancel(rig.worker, 1, &outcome), KVH_OK);
	assert_int_equal(outcome, KVH_CANCEL_NOT_STARTED);
	assert_int_equal(kvh_worker_cancel(rig.worker, 3, &outcome), KVH_OK);
	assert_int_equal(outcome, KVH_CANCEL_NOT_STARTED);
	assert_int_equal(kvh_worker_cancel(rig.worker, 3, &outcome), KVH_OK);
	assert_int_equal(outcome, KVH_CANCEL_ALREADY_DONE);
	rig_run_load(&rig);
	rig_run_save(&rig);
	assert_string_equal(rig_done(&rig), "failed 1 g0 i0 b100 -2001\nloaded 1 -2001\n"
	                                    "saved 3 -2001\nloaded 2 0\nsaved 4 0\n");
	assert_int_equal(rig_saved_tokens(&rig, "r"), 16);
	rig_close(&rig);
}

static void cancel_1(void *user, enum fake_fn fn)
{
	struct rig *rig = user;
	enum kvh_cancel_outcome outcome;

	(void)fn;
	assert_int_equal(kvh_worker_cancel(rig->worker, 1, &outcome), KVH_OK);
	assert_int_equal(outcome, KVH_CANCEL_STOPPING);
}

/* proves: R-12 */
static void a_save_cancelled_while_it_asks_puts_nothing(void **state)
{
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig_open(&rig);
	rig.world->fake.hook = cancel_1;
	rig.world->fake.hook_user = &rig;
	rig_save_and_run(&rig, 1, "r", 32);
	rig.world->fake.hook = NULL;
	assert_string_equal(rig_calls(&rig), "exists 0 1\n");
	assert_string_equal(rig_records(&rig), "exists ok 2 keys 0 failed 0 bytes\n");
	assert_string_equal(rig_done(&rig), "saved 1 -2001\n");
	assert_int_equal(rig_saved_tokens(&rig, "r"), 0);
	rig_close(&rig);
}

/* proves: D-8 */
static void d8_drain_says_how_many_jobs_are_left(void **state)
{
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig_open(&rig);
	rig_save(&rig, 1, "r", 16);
	rig_save(&rig, 2, "s", 16);
	rig_load(&rig, 3, "s", 16, 0);
	assert_int_equal(drain_left(&rig, NULL, 1), 3);
	assert_int_equal(drain_left(&rig, "s", 1), 2);
	assert_int_equal(drain_left(&rig, "nobody", 1), 0);
	rig_run_save(&rig);
	assert_int_equal(drain_left(&rig, "r", 1), 0);
	rig_run_save(&rig);
	rig_run_load(&rig);
	/* Terminal, though nobody has polled. */
	assert_int_equal(drain_left(&rig, NULL, 1), 0);
	rig_done(&rig);
	rig_close(&rig);
}

/* proves: D-14 */
static void d14_a_drain_does_not_outwait_the_deadlines_of_queued_loads(void **state)
{
	const struct kvh_env *env;
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig.config.load_timeout_ms = 200;
	rig_open(&rig);
	env = rig.config.env;
	rig_load(&rig, 1, "r", 16, 0);
	rig_advance_ns(&rig, 50 * MS);
	rig_load(&rig, 2, "s", 16, 0);
	assert_int_equal(drain_left(&rig, "r", env->ops->now_ns(env->ctx) + 10 * SECONDS), 0);
	assert_string_equal(rig_done(&rig), "failed 1 g0 i0 b100 -2000\nloaded 1 -2000\n");
	assert_int_equal(drain_left(&rig, NULL, env->ops->now_ns(env->ctx) + 10 * SECONDS), 0);
	assert_string_equal(rig_done(&rig), "failed 2 g0 i0 b100 -2000\nloaded 2 -2000\n");
	/* Its own deadline ends it too. */
	rig_save(&rig, 3, "r", 16);
	assert_int_equal(drain_left(&rig, NULL, env->ops->now_ns(env->ctx) + MS), 1);
	rig_close(&rig);
}

/* proves: D-8 */
static void d8_close_cancels_what_the_deadline_left(void **state)
{
	struct kvh_save_job save;
	struct kvh_load_job load;
	size_t left = 99;
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig_open(&rig);
	rig_save(&rig, 1, "r", 16);
	rig_load(&rig, 2, "r", 16, 0);
	assert_int_equal(kvh_worker_close(rig.worker, 1, &left), KVH_OK);
	assert_int_equal(left, 0);
	assert_string_equal(rig_calls(&rig), "");
	assert_int_equal(rig.world->fake.registered_count, 0);
	/* Completions stay for poll. */
	assert_non_null(strstr(rig_done(&rig), "saved 1 -2001\n"));
	save = rig_save_job(&rig, 3, "r", 16);
	assert_int_equal(rig_submit_save(&rig, &save), KVH_CLOSED);
	load = rig_load_job(&rig, 4, "r", 16, 0);
	assert_int_equal(rig_submit_load(&rig, &load), KVH_CLOSED);
	assert_string_equal(rig_done(&rig), "");
	assert_int_equal(kvh_worker_close(rig.worker, 1, &left), KVH_OK);
	rig_close(&rig);
}

/* proves: D-8 */
static void d8_a_worker_stays_while_a_call_of_the_store_runs(void **state)
{
	struct kvh_save_job job;
	size_t left = 99;
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig_open(&rig);
	rig_hold_next(&rig, FAKE_PUT);
	rig_save(&rig, 1, "r", 16);
	rig_save(&rig, 2, "s", 16);
	rig_run_save(&rig);
	assert_int_equal(kvh_worker_close(rig.worker, 1, &left), KVH_TIMEOUT);
	assert_int_equal(left, 1);
	assert_int_equal(rig.world->fake.registered_count, 1);
	assert_string_equal(rig_done(&rig), "saved 2 -2001\n");
	job = rig_save_job(&rig, 3, "r", 16);
	assert_int_equal(rig_submit_save(&rig, &job), KVH_CLOSED);
	rig_run_save(&rig);
	assert_int_equal(kvh_worker_close(rig.worker, 1, &left), KVH_OK);
	assert_int_equal(rig.world->fake.registered_count, 0);
	assert_string_equal(rig_done(&rig), "saved 1 0\n");
	rig_close(&rig);
}

/* proves: D-8 */
static void d8_a_worker_stays_while_the_store_keeps_its_memory(void **state)
{
	size_t left = 99;
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig_open(&rig);
	rig.world->fake.unregister_status = KVH_TIMEOUT;
	assert_int_equal(kvh_worker_close(rig.worker, 1, &left), KVH_TIMEOUT);
	assert_int_equal(rig.world->fake.registered_count, 1);
	rig.world->fake.unregister_status = KVH_OK;
	assert_int_equal(kvh_worker_close(rig.worker, 1, &left), KVH_OK);
	assert_int_equal(rig.world->fake.registered_count, 0);
	rig_close(&rig);
}

/* proves: D-8 */
static void d8_a_closed_worker_does_not_touch_its_store(void **state)
{
	struct kvh_lookup_result found = {.struct_bytes = sizeof(found)};
	struct kvh_lookup lookup = {.struct_bytes = sizeof(lookup), .token_count = 16};
	uint8_t hash[KVH_HASH_BYTES_MAX] = {0};
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig_open(&rig);
	assert_int_equal(kvh_worker_close(rig.worker, 0, NULL), KVH_OK);
	lookup.hashes = hash;
	lookup.hash_count = 1;
	assert_int_equal(kvh_worker_lookup(rig.worker, &lookup, &found, &rig.error), KVH_CLOSED);
	assert_int_equal(kvh_worker_set_epoch(rig.worker, "b", 1, &rig.error), KVH_CLOSED);
	assert_int_equal(rig_register(&rig), KVH_CLOSED);
	assert_string_equal(rig_calls(&rig), "");
	assert_int_equal(rig.world->fake.prefix_count, 1);
	/* What needs no store works on. */
	assert_int_equal(rig_stats(&rig).save_jobs, 0);
	rig_preempt(&rig, "r");
	rig_finish(&rig, "r");
	assert_string_equal(rig_done(&rig), "");
	rig_close(&rig);
}

/* proves: D-8 */
static void d8_destroy_closes_first_and_frees_what_nobody_polled(void **state)
{
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig.config.events = true;
	rig_open(&rig);
	rig_save_and_run(&rig, 1, "r", 32);
	rig_save(&rig, 2, "r", 64);
	rig_load(&rig, 3, "r", 64, 0);
	rig_close(&rig);
}

/* proves: R-24 */
static void preempting_a_finishing_request_ends_its_life_and_not_its_finish(void **state)
{
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig_open(&rig);
	rig_save_and_run(&rig, 1, "r", 32);
	rig_save(&rig, 2, "r", 64);
	rig_finish(&rig, "r");
	rig_preempt(&rig, "r");
	assert_int_equal(rig_saved_tokens(&rig, "r"), 0);
	assert_int_equal(rig_live_saves(&rig, "r"), 0);
	assert_int_equal(rig_stats(&rig).live_requests, 1);
	rig_finish(&rig, NULL);
	assert_int_equal(rig_stats(&rig).live_requests, 0);
	rig_calls(&rig);
	rig_run_save(&rig);
	assert_string_equal(rig_calls(&rig), "");
	assert_string_equal(rig_done(&rig), "saved 1 0\nsaved 2 -2001\n");
	rig_close(&rig);
}

/* proves */
static void a_load_that_comes_after_the_finish_belongs_to_the_next_life(void **state)
{
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig_open(&rig);
	rig_plant(&rig, 0, 0, 7);
	rig_save(&rig, 1, "r", 32);
	rig_finish(&rig, "r");
	rig.ids[0][0] = 200;
	rig_load(&rig, 2, "r", 16, 0);
	rig_run_save(&rig);
	rig_finish(&rig, NULL); /* the first life has drained */
	assert_int_equal(rig_saved_tokens(&rig, "r"), 0);
	rig_run_load(&rig);
	assert_true(rig_block_is(&rig, 0, 200, 7));
	assert_string_equal(rig_done(&rig), "saved 1 0\nloaded 2 0\n");
	assert_int_equal(rig_stats(&rig).live_requests, 0);
	rig_close(&rig);
}

/* proves: D-8 */
static void d8_a_store_that_can_not_stop_keeps_the_worker_until_its_call_returns(void **state)
{
	struct world *world = world_open_with(&(struct kvh_store_caps){.stop_ms_max = -1});
	size_t left = 0;
	struct rig rig;

	(void)state;
	rig_init_in(&rig, world);
	rig.owns_world = true;
	rig_open(&rig);
	rig_plant(&rig, 0, 0, 7);
	rig_hold_next(&rig, FAKE_GET);
	rig_load_and_run(&rig, 1, "r", 16, 0);
	assert_int_equal(kvh_worker_close(rig.worker, 1, &left), KVH_TIMEOUT);
	assert_int_equal(left, 1);
	kvh_worker_destroy(rig.worker); /* would pull the memory from under the get: it refuses */
	assert_non_null(strstr(rig.world->lines, "the worker is kept"));
	assert_int_equal(rig.world->fake.registered_count, 1);
	rig_run_load(&rig);
	assert_int_equal(kvh_worker_close(rig.worker, 1, &left), KVH_OK);
	assert_string_equal(rig_done(&rig), "loaded 1 0\n");
	rig_close(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(preemption_forgets_at_once),
		cmocka_unit_test(
			a_save_handed_in_while_its_request_is_preempted_saves_from_the_start),
		cmocka_unit_test(finishing_waits_until_the_queued_jobs_have_drained),
		cmocka_unit_test(finishing_cancels_loads_though_saves_are_outstanding),
		cmocka_unit_test(finishing_a_wrong_list_changes_nothing),
		cmocka_unit_test(a_request_that_only_loaded_leaves_nothing_behind),
		cmocka_unit_test(cancelling_one_job_leaves_its_neighbours),
		cmocka_unit_test(a_save_cancelled_while_it_asks_puts_nothing),
		cmocka_unit_test(d8_drain_says_how_many_jobs_are_left),
		cmocka_unit_test(d14_a_drain_does_not_outwait_the_deadlines_of_queued_loads),
		cmocka_unit_test(d8_close_cancels_what_the_deadline_left),
		cmocka_unit_test(d8_a_worker_stays_while_a_call_of_the_store_runs),
		cmocka_unit_test(d8_a_worker_stays_while_the_store_keeps_its_memory),
		cmocka_unit_test(d8_a_closed_worker_does_not_touch_its_store),
		cmocka_unit_test(d8_destroy_closes_first_and_frees_what_nobody_polled),
		cmocka_unit_test(preempting_a_finishing_request_ends_its_life_and_not_its_finish),
		cmocka_unit_test(a_load_that_comes_after_the_finish_belongs_to_the_next_life),
		cmocka_unit_test(
			d8_a_store_that_can_not_stop_keeps_the_worker_until_its_call_returns),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
