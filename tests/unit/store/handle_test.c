/* SPDX-License-Identifier: Apache-2.0 */
/* The handle's life: open, calls inside, unregister and close that wait for them, forks. */
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/lock.h"
#include "scripted.h"
#include "store/gate.h"

/* proves: T21 */
static void openings_without_shape_are_refused_and_close_the_backend(void **state)
{
	const struct kvh_env no_env = {0};
	const struct kvh_device no_device = {0};
	const struct kvh_store_options bad[] = {
		{.struct_bytes = 0},
		{.struct_bytes = 9},
		{.struct_bytes = sizeof(bad[0]), .env = &no_env},
		{.struct_bytes = sizeof(bad[0]), .device = &no_device},
	};
	struct scripted *scripted = scripted_new();
	struct kvh_store_ops ops = *scripted_ops();
	struct kvh_store *store = NULL;
	struct kvh_error error;

	(void)state;
	for (uint32_t i = 0; i < COUNT_OF(bad); i++) {
		memset(&error, 0, sizeof(error));
		assert_int_equal(kvh_store_open_ops(&ops, scripted, &bad[i], &store, &error),
		                 KVH_INVALID_PARAMS);
		assert_int_equal(error.status, KVH_INVALID_PARAMS);
		assert_true(error.text[0]);
		assert_int_equal(scripted->closed, i + 1);
	}
	assert_int_equal(kvh_store_open_ops(&ops, scripted, NULL, NULL, NULL), KVH_INVALID_PARAMS);
	assert_int_equal(scripted->closed, COUNT_OF(bad) + 1);
	assert_int_equal(kvh_store_open_ops(NULL, scripted, NULL, &store, NULL),
	                 KVH_INVALID_PARAMS);
	/* A table of which nothing is known can't be called, not even to close. */
	ops.struct_bytes = 5;
	assert_int_equal(kvh_store_open_ops(&ops, scripted, NULL, &store, NULL),
	                 KVH_INVALID_PARAMS);
	assert_int_equal(scripted->closed, COUNT_OF(bad) + 1);
	assert_null(store);
	assert_int_equal(kvh_store_close(NULL, 0), KVH_OK);
	free(scripted);
}

/* proves: T4 */
static void no_memory_at_any_place_of_open_leaves_nothing(void **state)
{
	struct scripted *scripted = scripted_new();
	uint32_t nth = 1;

	(void)state;
	for (;; nth++) {
		kvh_status status;

		assert_true(kvh_fault_arm_nth("base/alloc", nth, KVH_NO_MEMORY));
		status = kvh_store_open_ops(scripted_ops(), scripted, NULL, &scripted->store, NULL);
		kvh_fault_disarm_all();
		if (status == KVH_OK)
			break;
		assert_int_equal(status, KVH_NO_MEMORY);
		assert_int_equal(scripted->closed, nth);
		assert_null(scripted->store);
	}
	assert_true(nth > 1);
	assert_int_equal(kvh_store_close(scripted->store, 0), KVH_OK);
	free(scripted);
}

/* proves: D-22 */
static void a_backend_that_has_nothing_answers_not_supported(void **state)
{
	const struct kvh_store_ops ops = {.struct_bytes = sizeof(ops)};
	const struct kvh_prefix prefix = {
		.struct_bytes = sizeof(prefix), .text = "a@", .text_bytes = 2};
	struct kvh_store_caps caps = {.struct_bytes = sizeof(caps)};
	struct kvh_store *store;
	unsigned char memory[8];
	kvh_region_id region;
	uint32_t id;

	(void)state;
	assert_int_equal(kvh_store_open_ops(&ops, NULL, NULL, &store, NULL), KVH_OK);
	assert_int_equal(kvh_store_get_caps(store, &caps), KVH_OK);
	assert_false(caps.hold || caps.lifecycle || caps.tiers || caps.evicted);
	assert_int_equal(caps.replicas_max, 1);
	assert_int_equal(kvh_store_register(store, memory, 8, KVH_MEMORY_HOST, &region, NULL),
	                 KVH_NOT_SUPPORTED);
	assert_int_equal(kvh_store_prefix(store, &prefix, &id, NULL), KVH_NOT_SUPPORTED);
	assert_int_equal(kvh_store_clear(store, NULL, NULL), KVH_NOT_SUPPORTED);
	assert_int_equal(kvh_store_quiesce(store, 0), KVH_NOT_SUPPORTED);
	assert_int_equal(kvh_store_close(store, 0), KVH_OK);
}

/* ---- calls inside ------------------------------------------------------------------------- */

static const struct kvh_env *posix(void)
{
	return kvh_env_posix();
}

static kvh_deadline soon(void)
{
	return kvh_deadline_after(posix(), UINT64_C(20) * 1000000);
}

static void call_get(void *arg)
{
	struct scripted *scripted = arg;

	/* The result lies in scripted; the test reads it after the join. */
	if (kvh_store_get(scripted->store, &scripted->batch, NULL))
		scripted->result.value = -1;
}

/* A thread whose get waits inside the backend. */
static struct kvh_thread *start_held_call(struct scripted *scripted)
{
	struct kvh_thread *thread;

	scripted->value = 64;
	__atomic_store_n(&scripted->hold, 1, __ATOMIC_SEQ_CST);
	assert_int_equal(
		posix()->ops->thread_create(posix()->ctx, &thread, "held", call_get, scripted),
		KVH_OK);
	while (!__atomic_load_n(&scripted->inside, __ATOMIC_SEQ_CST))
		posix()->ops->sleep_ns(posix()->ctx, 100000);
	return thread;
}

static void let_go(void *arg)
{
	struct scripted *scripted = arg;

	posix()->ops->sleep_ns(posix()->ctx, UINT64_C(5) * 1000000);
	__atomic_store_n(&scripted->hold, 0, __ATOMIC_SEQ_CST);
}

static void end_held_call(struct scripted *scripted, struct kvh_thread *thread)
{
	__atomic_store_n(&scripted->hold, 0, __ATOMIC_SEQ_CST);
	posix()->ops->thread_join(posix()->ctx, thread);
	assert_int_equal(scripted->result.value, 64);
}

/* proves: D-8 */
static void close_waits_for_calls_to_its_deadline(void **state)
{
	struct scripted *scripted = *state;
	struct kvh_thread *thread = start_held_call(scripted);

	assert_int_equal(kvh_store_close(scripted->store, soon()), KVH_TIMEOUT);
	assert_int_equal(kvh_store_close(scripted->store, 1), KVH_TIMEOUT);
	assert_int_equal(scripted->closed, 0);
	/* Shut for good: the batch is another one, the held call still uses its own. */
	assert_int_equal(kvh_store_quiesce(scripted->store, 0), KVH_CLOSED);
	assert_int_equal(kvh_store_clear(scripted->store, NULL, NULL), KVH_CLOSED);
	end_held_call(scripted, thread);
	assert_int_equal(kvh_store_close(scripted->store, soon()), KVH_OK);
	assert_int_equal(scripted->closed, 1);
	scripted->store = NULL;
}

/* proves: D-8 */
static void close_is_woken_by_the_last_call(void **state)
{
	struct scripted *scripted = *state;
	struct kvh_thread *held = start_held_call(scripted);
	struct kvh_thread *releaser;

	assert_int_equal(
		posix()->ops->thread_create(posix()->ctx, &releaser, "let go", let_go, scripted),
		KVH_OK);
	/* No deadline: without the wake-up this would hang. */
	assert_int_equal(kvh_store_close(scripted->store, 0), KVH_OK);
	assert_int_equal(scripted->closed, 1);
	scripted->store = NULL;
	posix()->ops->thread_join(posix()->ctx, releaser);
	posix()->ops->thread_join(posix()->ctx, held);
	assert_int_equal(scripted->result.value, 64);
}

/* proves: D-23, T3 */
static void unregister_waits_for_calls_to_its_deadline(void **state)
{
	struct scripted *scripted = *state;
	struct kvh_thread *thread = start_held_call(scripted);
	uint32_t calls = scripted_calls(scripted);

	assert_int_equal(kvh_store_unregister(scripted->store, scripted->region, soon()),
	                 KVH_TIMEOUT);
	assert_int_equal(kvh_store_unregister(scripted->store, scripted->region, 1), KVH_TIMEOUT);
	/* The backend was not told yet. */
	assert_int_equal(scripted_calls(scripted), calls);
	end_held_call(scripted, thread);
	/* It was still registered, and now can go. */
	assert_int_equal(kvh_store_put(scripted->store, &scripted->batch, NULL, NULL), KVH_OK);
	assert_int_equal(kvh_store_unregister(scripted->store, scripted->region, soon()), KVH_OK);
	assert_int_equal(kvh_store_put(scripted->store, &scripted->batch, NULL, NULL),
	                 KVH_INVALID_PARAMS);
}

/* proves: D-23 */
static void close_asks_whether_bytes_still_move(void **state)
{
	struct scripted *scripted = *state;

	scripted->answer = KVH_TIMEOUT;
	assert_int_equal(kvh_store_close(scripted->store, soon()), KVH_TIMEOUT);
	assert_int_equal(scripted->closed, 0);
	scripted->answer = KVH_OK;
}

/* proves: B32 */
static void every_call_in_a_child_is_refused(void **state)
{
	struct scripted *scripted = *state;
	struct kvh_store *store = scripted->store;
	int status = -1;
	pid_t child = fork();

	assert_true(child >= 0);
	if (child == 0) {
		const struct kvh_token token = {{0}};
		const struct kvh_prefix prefix = {
			.struct_bytes = sizeof(prefix), .text = "a@", .text_bytes = 2};
		struct kvh_store_stats stats = {.struct_bytes = sizeof(stats)};
		struct kvh_store_session session;
		kvh_region_id region;
		size_t count;
		char text[64];
		uint32_t id;
		int wrong = 0;

		wrong += kvh_store_get(store, &scripted->batch, NULL) != KVH_FORKED;
		wrong += kvh_store_put(store, &scripted->batch, NULL, NULL) != KVH_FORKED;
		wrong += kvh_store_commit(store, &token, 1, &scripted->result) != KVH_FORKED;
		wrong += kvh_store_clear(store, NULL, NULL) != KVH_FORKED;
		wrong += kvh_store_quiesce(store, 0) != KVH_FORKED;
		wrong += kvh_store_prefix(store, &prefix, &id, NULL) != KVH_FORKED;
		wrong += kvh_store_register(store, text, 64, 1, &region, NULL) != KVH_FORKED;
		wrong += kvh_store_unregister(store, scripted->region, 0) != KVH_FORKED;
		wrong += kvh_store_get_stats(store, &stats) != KVH_FORKED;
		wrong += kvh_store_get_sessions(store, &session, sizeof(session), 1, &count) !=
		         KVH_FORKED;
		wrong += kvh_store_key_text(store, &scripted->key, text, 64, NULL) != KVH_FORKED;
		wrong += kvh_store_close(store, 0) != KVH_FORKED;
		wrong += scripted_calls(scripted) != 0;
		_exit(wrong);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	assert_int_equal(kvh_store_get(store, &scripted->batch, NULL), KVH_OK);
}

/* ---- many threads ------------------------------------------------------------------------- */

enum { THREADS = 4 };

struct hammer {
	struct scripted *scripted;
	struct kvh_thread *thread;
	uint32_t *stop; /* atomic */
	uint64_t unexpected;
	uint64_t refused;
};

static void hammer_explicit(void *arg)
{
	struct hammer *hammer = arg;
	struct kvh_result result;
	struct kvh_batch batch = hammer->scripted->batch;

	batch.results = &result;
	while (!__atomic_load_n(hammer->stop, __ATOMIC_RELAXED)) {
		kvh_status status = kvh_store_put(hammer->scripted->store, &batch, NULL, NULL);

		hammer->refused += status == KVH_INVALID_PARAMS;
		hammer->unexpected += status != KVH_OK && status != KVH_INVALID_PARAMS;
	}
}

/* proves: D-23, T4 */
static void regions_come_and_go_under_calls(void **state)
{
	enum { ROUNDS = 300 };
	struct scripted *scripted = *state;
	struct hammer hammers[THREADS];
	uint32_t stop = 0;

	memset(hammers, 0, sizeof(hammers));
	scripted->many_threads = true;
	for (size_t i = 0; i < THREADS; i++) {
		hammers[i].scripted = scripted;
		hammers[i].stop = &stop;
		assert_int_equal(posix()->ops->thread_create(posix()->ctx, &hammers[i].thread,
		                                             "hammer", hammer_explicit,
		                                             &hammers[i]),
		                 KVH_OK);
	}
	for (int i = 0; i < ROUNDS; i++) {
		assert_int_equal(kvh_store_unregister(scripted->store, scripted->region, 0),
		                 KVH_OK);
		assert_int_equal(kvh_store_register(scripted->store, scripted->memory,
		                                    SCRIPTED_MEMORY_BYTES, KVH_MEMORY_HOST,
		                                    &scripted->region, NULL),
		                 KVH_OK);
	}
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	for (size_t i = 0; i < THREADS; i++) {
		posix()->ops->thread_join(posix()->ctx, hammers[i].thread);
		assert_int_equal(hammers[i].unexpected, 0);
	}
}

/* ---- the gate alone ----------------------------------------------------------------------- */

struct gate_case {
	struct kvh_gate gate;
	struct kvh_mutex *mutex;
	struct kvh_cond *left;
};

static int gate_setup(void **state)
{
	struct gate_case *one = calloc(1, sizeof(*one));

	assert_non_null(one);
	assert_int_equal(posix()->ops->mutex_create(posix()->ctx, &one->mutex), KVH_OK);
	assert_int_equal(posix()->ops->cond_create(posix()->ctx, &one->left), KVH_OK);
	kvh_gate_init(&one->gate, posix(), one->mutex, one->left);
	*state = one;
	return 0;
}

static int gate_teardown(void **state)
{
	struct gate_case *one = *state;

	posix()->ops->cond_destroy(posix()->ctx, one->left);
	posix()->ops->mutex_destroy(posix()->ctx, one->mutex);
	free(one);
	return 0;
}

/* proves: D-23 */
static void a_grace_period_is_not_kept_up_by_later_calls(void **state)
{
	struct kvh_gate *gate = &((struct gate_case *)*state)->gate;
	unsigned before, after, third;

	assert_int_equal(kvh_gate_enter(gate, &before), KVH_OK);
	assert_int_equal(kvh_gate_grace(gate, 1), KVH_TIMEOUT);
	/* The phase has turned: this one counts elsewhere. */
	assert_int_equal(kvh_gate_enter(gate, &after), KVH_OK);
	assert_int_not_equal(before, after);
	assert_false(kvh_gate_idle(gate));
	kvh_gate_leave(gate, before);
	/* The earlier one is gone, but a new grace period must see the later one leave. */
	assert_int_equal(kvh_gate_grace(gate, 1), KVH_TIMEOUT);
	assert_int_equal(kvh_gate_enter(gate, &third), KVH_OK);
	kvh_gate_leave(gate, after);
	kvh_gate_leave(gate, third);
	assert_true(kvh_gate_idle(gate));
	assert_int_equal(kvh_gate_grace(gate, 1), KVH_OK);
}

/* proves: D-8 */
static void a_shut_gate_lets_nobody_in_and_everybody_out(void **state)
{
	struct kvh_gate *gate = &((struct gate_case *)*state)->gate;
	unsigned first, second, late;

	assert_int_equal(kvh_gate_enter(gate, &first), KVH_OK);
	assert_int_equal(kvh_gate_enter(gate, &second), KVH_OK);
	assert_false(kvh_gate_is_shut(gate));
	assert_int_equal(kvh_gate_shut(gate, 1), KVH_TIMEOUT);
	assert_true(kvh_gate_is_shut(gate));
	assert_int_equal(kvh_gate_enter(gate, &late), KVH_CLOSED);
	kvh_gate_leave(gate, second);
	assert_int_equal(kvh_gate_shut(gate, 1), KVH_TIMEOUT);
	kvh_gate_leave(gate, first);
	assert_int_equal(kvh_gate_shut(gate, 0), KVH_OK);
}

#define gate_test(fn) cmocka_unit_test_setup_teardown(fn, gate_setup, gate_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(openings_without_shape_are_refused_and_close_the_backend),
		cmocka_unit_test(no_memory_at_any_place_of_open_leaves_nothing),
		cmocka_unit_test(a_backend_that_has_nothing_answers_not_supported),
		scripted_test(close_waits_for_calls_to_its_deadline),
		scripted_test(close_is_woken_by_the_last_call),
		scripted_test(unregister_waits_for_calls_to_its_deadline),
		scripted_test(close_asks_whether_bytes_still_move),
		scripted_test(every_call_in_a_child_is_refused),
		scripted_test(regions_come_and_go_under_calls),
		gate_test(a_grace_period_is_not_kept_up_by_later_calls),
		gate_test(a_shut_gate_lets_nobody_in_and_everybody_out),
	};

	return cmocka_run_group_tests_name("store_handle", tests, NULL, NULL);
}
