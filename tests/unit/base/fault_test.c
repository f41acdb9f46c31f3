/* SPDX-License-Identifier: Apache-2.0 */
/* Fault points: what is refused, what fires and when, what is counted. */
#include "unit/base/unit.h"

#include <stdlib.h>
#include <string.h>

#include <kvhold/env.h>

#include "base/fault.h"

#define THREAD_COUNT 4
#define PASS_COUNT   1000 /* of each thread */

static int64_t pass(void)
{
	return KVH_FAULT(BASE_ALLOC, "key", 3);
}

static int disarm(void **context)
{
	(void)context;
	kvh_fault_disarm_all();
	return 0;
}

static void every_point_has_a_name_of_its_own_and_an_effect(void **context)
{
	const unsigned known =
		KVH_EFFECT_CODE | KVH_EFFECT_DELAY | KVH_EFFECT_SHORT | KVH_EFFECT_CRASH;

	(void)context;
	for (int point = 0; point < KVH_FAULT_POINT_COUNT; point++) {
		assert_int_equal(kvh_fault_find(kvh_fault_name(point)), point);
		assert_true(kvh_fault_effects(point) != 0);
		assert_int_equal(kvh_fault_effects(point) & ~known, 0);
		assert_null(strchr(kvh_fault_name(point), '*'));
	}
	assert_int_equal(kvh_fault_find("base/allok"), -1);
	assert_int_equal(kvh_fault_find("base/*"), -1);
	assert_int_equal(kvh_fault_find(""), -1);
}

/* proves: B43 */
static void unknown_names_and_number_0_are_refused(void **context)
{
	(void)context;
	assert_false(kvh_fault_arm_nth("put/noo", 1, -200));
	assert_false(kvh_fault_arm_nth("base/*", 1, -200));
	assert_false(kvh_fault_arm_nth("base/alloc", 1, 0));
	assert_false(kvh_fault_arm_nth("base/alloc", 0, -200));
	assert_int_equal(kvh_faults_armed, 0);
	assert_int_equal(pass(), 0);
}

static void a_refusal_leaves_what_is_armed(void **context)
{
	(void)context;
	assert_true(kvh_fault_arm_nth("base/alloc", 1, -200));
	assert_false(kvh_fault_arm_nth("base/alloc", 1, 0));
	assert_int_equal(pass(), -200);
}

static void disarmed_points_do_not_fire_or_count(void **context)
{
	(void)context;
	assert_true(kvh_fault_arm_nth("base/alloc", 2, -200));
	assert_int_equal(pass(), 0);
	kvh_fault_disarm_all();
	assert_int_equal(kvh_faults_armed, 0);
	for (int index = 0; index < 10; index++)
		assert_int_equal(pass(), 0);
	assert_int_equal(kvh_fault_passed(KVH_FAULT_BASE_ALLOC), 1);
	assert_int_equal(kvh_fault_fired(KVH_FAULT_BASE_ALLOC), 0);
}

/* proves: B43 */
static void the_nth_passing_fires_once_with_its_number(void **context)
{
	const int64_t numbers[] = {-200, 1, -1, INT64_MAX, INT64_MIN, INT64_C(1) << 32};

	(void)context;
	for (uint64_t nth = 1; nth <= 5; nth++) {
		for (size_t index = 0; index < COUNT_OF(numbers); index++) {
			kvh_fault_disarm_all();
			assert_true(kvh_fault_arm_nth("base/alloc", nth, numbers[index]));
			for (uint64_t at = 1; at <= 10; at++)
				assert_true(pass() == (at == nth ? numbers[index] : 0));
			assert_int_equal(kvh_fault_passed(KVH_FAULT_BASE_ALLOC), 10);
			assert_int_equal(kvh_fault_fired(KVH_FAULT_BASE_ALLOC), 1);
		}
	}
}

static void arming_again_counts_from_now(void **context)
{
	(void)context;
	assert_true(kvh_fault_arm_nth("base/alloc", 1, -200));
	assert_int_equal(pass(), -200);
	assert_int_equal(pass(), 0);
	assert_true(kvh_fault_arm_nth("base/alloc", 2, -800));
	assert_int_equal(pass(), 0);
	assert_int_equal(pass(), -800);
	/* Still armed in between: the counters went on. */
	assert_int_equal(kvh_fault_passed(KVH_FAULT_BASE_ALLOC), 4);
	assert_int_equal(kvh_fault_fired(KVH_FAULT_BASE_ALLOC), 2);
	kvh_fault_disarm_all();
	assert_true(kvh_fault_arm_nth("base/alloc", 1, -200));
	assert_int_equal(kvh_fault_passed(KVH_FAULT_BASE_ALLOC), 0);
	assert_int_equal(kvh_fault_fired(KVH_FAULT_BASE_ALLOC), 0);
}

struct passer {
	struct kvh_mutex *gate;
	struct kvh_thread *thread;
	uint64_t fired_count;
};

static void pass_often(void *arg)
{
	const struct kvh_env *env = kvh_env_posix();
	struct passer *passer = arg;

	env->ops->mutex_lock(env->ctx, passer->gate);
	env->ops->mutex_unlock(env->ctx, passer->gate);
	for (int index = 0; index < PASS_COUNT; index++)
		passer->fired_count += pass() == -200;
}

/* proves: B43 */
static void one_shot_fires_once_over_four_threads(void **context)
{
	const struct kvh_env *env = kvh_env_posix();
	struct passer passers[THREAD_COUNT] = {{0}};
	struct kvh_mutex *gate;
	uint64_t fired_count = 0;

	(void)context;
	/* Armed behind a closed gate, since making a thread passes the point as well. */
	assert_int_equal(env->ops->mutex_create(env->ctx, &gate), KVH_OK);
	env->ops->mutex_lock(env->ctx, gate);
	for (int index = 0; index < THREAD_COUNT; index++) {
		struct passer *passer = &passers[index];

		passer->gate = gate;
		assert_int_equal(env->ops->thread_create(env->ctx, &passer->thread, "pass",
		                                         pass_often, passer),
		                 KVH_OK);
	}
	assert_true(kvh_fault_arm_nth("base/alloc", THREAD_COUNT * PASS_COUNT / 2, -200));
	env->ops->mutex_unlock(env->ctx, gate);
	for (int index = 0; index < THREAD_COUNT; index++) {
		env->ops->thread_join(env->ctx, passers[index].thread);
		fired_count += passers[index].fired_count;
	}
	env->ops->mutex_destroy(env->ctx, gate);
	assert_int_equal(fired_count, 1);
	assert_int_equal(kvh_fault_fired(KVH_FAULT_BASE_ALLOC), 1);
	assert_int_equal(kvh_fault_passed(KVH_FAULT_BASE_ALLOC), THREAD_COUNT * PASS_COUNT);
}

struct decided {
	int call_count;
	int fire_from;
	int fire_to;
	bool key_ok;
	bool allocate;
	int64_t number;
};

static bool decide(void *user, enum kvh_fault_point point, const void *key, size_t key_bytes,
                   int64_t *number)
{
	struct decided *decided = user;

	decided->call_count++;
	decided->key_ok =
		point == KVH_FAULT_BASE_ALLOC && key_bytes == 3 && memcmp(key, "key", 3) == 0;
	if (decided->allocate)
		kvh_free(kvh_alloc(8));
	if (decided->call_count < decided->fire_from || decided->call_count > decided->fire_to)
		return false;
	*number = decided->number;
	return true;
}

static void a_decider_sees_the_key_and_chooses(void **context)
{
	struct decided decided = {.fire_from = 2, .fire_to = 3, .number = -200};

	(void)context;
	assert_true(kvh_fault_arm(decide, &decided));
	assert_int_equal(pass(), 0);
	assert_true(decided.key_ok);
	assert_int_equal(pass(), -200);
	assert_int_equal(pass(), -200);
	assert_int_equal(pass(), 0);
	assert_int_equal(decided.call_count, 4);
	assert_int_equal(kvh_fault_fired(KVH_FAULT_BASE_ALLOC), 2);
	assert_true(kvh_fault_arm(NULL, NULL));
	assert_int_equal(kvh_faults_armed, 0);
	assert_int_equal(pass(), 0);
	assert_int_equal(decided.call_count, 4);
}

static void points_passed_by_the_decider_itself_do_not_count(void **context)
{
	struct decided decided = {.fire_from = 1, .fire_to = 1, .number = -200, .allocate = true};

	(void)context;
	assert_true(kvh_fault_arm(decide, &decided));
	assert_int_equal(pass(), -200);
	assert_int_equal(pass(), 0);
	assert_int_equal(decided.call_count, 2);
	assert_int_equal(kvh_fault_passed(KVH_FAULT_BASE_ALLOC), 2);
}

static void the_nth_rule_comes_before_the_decider(void **context)
{
	struct decided decided = {.fire_from = 1, .fire_to = 9, .number = -800};

	(void)context;
	assert_true(kvh_fault_arm(decide, &decided));
	assert_true(kvh_fault_arm_nth("base/alloc", 2, -200));
	assert_int_equal(pass(), -800);
	assert_int_equal(pass(), -200);
	assert_int_equal(pass(), -800);
	assert_int_equal(decided.call_count, 2);
	/* Taking the decider away leaves the rule: still armed, spent. */
	assert_true(kvh_fault_arm(NULL, NULL));
	assert_int_equal(kvh_faults_armed, 1);
	assert_int_equal(pass(), 0);
}

static void decide_0(void)
{
	struct decided decided = {.fire_from = 1, .fire_to = 1, .number = 0};

	if (kvh_fault_arm(decide, &decided))
		pass();
}

/* proves: B43 */
static void a_decider_that_fires_with_0_stops_the_process(void **context)
{
	(void)context;
	assert_stops(decide_0);
}

/* proves: B43 */
static void production_refuses_to_arm(void **context)
{
	struct decided decided = {.fire_from = 1, .fire_to = 9, .number = -800};

	(void)context;
	assert_int_equal(setenv("KVH_PRODUCTION", "1", 1), 0);
	assert_false(kvh_fault_arm_nth("base/alloc", 1, -200));
	assert_false(kvh_fault_arm(decide, &decided));
	assert_true(kvh_fault_arm(NULL, NULL));
	assert_int_equal(pass(), 0);
	assert_int_equal(setenv("KVH_PRODUCTION", "0", 1), 0);
	assert_true(kvh_fault_arm_nth("base/alloc", 1, -200));
	assert_int_equal(pass(), -200);
	assert_int_equal(unsetenv("KVH_PRODUCTION"), 0);
}

static void fire_twice(void)
{
	for (int index = 0; index < 2; index++) {
		kvh_fault_disarm_all();
		if (!kvh_fault_arm_nth("base/alloc", 1, -200) || pass() != -200)
			_exit(1);
	}
}

/* The test's own run may be logged as well: sets the log for fn's process only. */
static int end_with_log(const char *path, void (*fn)(void))
{
	const char *before = getenv("KVH_FAULT_LOG");
	char kept[4096] = "";
	int status;

	if (before)
		snprintf(kept, sizeof(kept), "%s", before);
	setenv("KVH_FAULT_LOG", path, 1);
	status = end_of_child(fn);
	if (before)
		setenv("KVH_FAULT_LOG", kept, 1);
	else
		unsetenv("KVH_FAULT_LOG");
	return status;
}

static void fires_are_logged_once_a_process(void **context)
{
	char path[] = "/tmp/kvh_fault_log_XXXXXX";
	char line[64];
	FILE *log;
	int fd = mkstemp(path);
	int line_count = 0;

	(void)context;
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(end_with_log(path, fire_twice), 0);
	assert_int_equal(end_with_log(path, fire_twice), 0);
	log = fopen(path, "r");
	assert_non_null(log);
	for (; fgets(line, sizeof(line), log); line_count++)
		assert_string_equal(line, "base/alloc\n");
	fclose(log);
	unlink(path);
	assert_int_equal(line_count, 2);
}

static void a_log_that_can_not_be_written_does_not_hide_the_fault(void **context)
{
	(void)context;
	assert_int_equal(end_with_log("/nonexistent/log", fire_twice), 0);
}

#define DISARMING_TEST(name) cmocka_unit_test_setup_teardown(name, disarm, disarm)

int main(void)
{
	const struct CMUnitTest tests[] = {
		DISARMING_TEST(every_point_has_a_name_of_its_own_and_an_effect),
		DISARMING_TEST(unknown_names_and_number_0_are_refused),
		DISARMING_TEST(a_refusal_leaves_what_is_armed),
		DISARMING_TEST(disarmed_points_do_not_fire_or_count),
		DISARMING_TEST(the_nth_passing_fires_once_with_its_number),
		DISARMING_TEST(arming_again_counts_from_now),
		DISARMING_TEST(one_shot_fires_once_over_four_threads),
		DISARMING_TEST(a_decider_sees_the_key_and_chooses),
		DISARMING_TEST(points_passed_by_the_decider_itself_do_not_count),
		DISARMING_TEST(the_nth_rule_comes_before_the_decider),
		DISARMING_TEST(a_decider_that_fires_with_0_stops_the_process),
		DISARMING_TEST(production_refuses_to_arm),
		DISARMING_TEST(fires_are_logged_once_a_process),
		DISARMING_TEST(a_log_that_can_not_be_written_does_not_hide_the_fault),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
