/* SPDX-License-Identifier: Apache-2.0 */
/* Processes on one pool: what they see of each other, and what is left when one ends. */
#include "shared_fixture.h"

#include "pool/local/local.h"

enum { CAPACITY = 4 << 20, BYTES = 20000, EXTENT = 5 * 4096 };

static struct kvh_core *core_of(struct pool *pool)
{
	return &((struct kvh_local *)pool->self)->core;
}

static int begin(void **state)
{
	(void)state;
	unlink(shared_path());
	return 0;
}

static int end(void **state)
{
	(void)state;
	unlink(shared_path());
	return 0;
}

/* Tries for longer than any reaping takes. */
static int64_t put_within(struct pool *pool, uint64_t number, unsigned seconds)
{
	int64_t result = KVH_REPLICA_IS_NOT_READY;

	for (unsigned i = 0; i < seconds * 10 && result == KVH_REPLICA_IS_NOT_READY; i++)
		result = put_number(pool, number, BYTES, NULL);
	return result;
}

/* ---- seeing each other ------------------------------------------------------------------ */

static void put_one(int said, void *arg)
{
	struct pool pool;

	shared_open(&pool, CAPACITY);
	if (put_number(&pool, *(uint64_t *)arg, BYTES, NULL) == KVH_OK)
		say(said, 'p');
	pool_close(&pool);
}

static void one_process_reads_what_another_put(void **state)
{
	struct pool pool;
	uint64_t number = 7;
	struct worker other;

	(void)state;
	shared_open(&pool, CAPACITY);
	other = start_process(put_one, &number);
	assert_int_equal(hear(&other), 'p');
	assert_int_equal(end_process(&other), 0);
	assert_true(has_number(&pool, number));
	assert_int_equal(get_number(&pool, number, BYTES), BYTES);
	assert_int_equal(put_number(&pool, number, BYTES, NULL), KVH_OBJECT_ALREADY_EXISTS);
	pool_close(&pool);
}

static void the_next_start_finds_all_and_rebuilds_nothing(void **state)
{
	struct pool pool;
	uint64_t rebuilds;

	(void)state;
	shared_open(&pool, CAPACITY);
	for (uint64_t i = 0; i < 50; i++)
		assert_int_equal(put_number(&pool, i, BYTES, NULL), KVH_OK);
	rebuilds = atomic_load(&core_of(&pool)->area.super->rebuild_counter);
	pool_close(&pool);
	shared_open(&pool, 0);
	assert_int_equal(atomic_load(&core_of(&pool)->area.super->rebuild_counter), rebuilds);
	for (uint64_t i = 0; i < 50; i++)
		assert_int_equal(get_number(&pool, i, BYTES), BYTES);
	pool_close(&pool);
}

/* ---- deaths ----------------------------------------------------------------------------- */

static void hold_until_killed(int said, void *arg)
{
	struct kvh_token token;
	struct kvh_put_options options = {
		.struct_bytes = sizeof(options), .flags = KVH_PUT_HOLD, .tokens = &token};
	struct pool pool;

	shared_open(&pool, CAPACITY);
	if (put_number(&pool, *(uint64_t *)arg, BYTES, &options) == KVH_OK)
		say(said, 'h');
	for (;;)
		pause();
}

/* Refused while its writer lives, however long; accepted when it is dead; space back. */
/* proves: S-5, S-10, B23 */
static void a_key_is_busy_until_its_writer_is_dead(void **state)
{
	uint64_t number = 3, used_bytes;
	struct worker writer;
	struct pool pool;

	(void)state;
	shared_open(&pool, CAPACITY);
	used_bytes = pool_stats(&pool).used_bytes;
	writer = start_process(hold_until_killed, &number);
	assert_int_equal(hear(&writer), 'h');
	kill(writer.pid, SIGSTOP);
	for (int i = 0; i < 3; i++)
		assert_int_equal(put_number(&pool, number, BYTES, NULL), KVH_REPLICA_IS_NOT_READY);
	assert_int_equal(get_number(&pool, number, BYTES), KVH_OBJECT_NOT_FOUND);
	assert_int_equal(pool_stats(&pool).reserved_objects, 1);
	kill_process(&writer);
	assert_int_equal(put_number(&pool, number, BYTES, NULL), KVH_OK);
	assert_int_equal(get_number(&pool, number, BYTES), BYTES);
	assert_int_equal(pool_stats(&pool).reserved_objects, 0);
	assert_int_equal(pool_stats(&pool).used_bytes, used_bytes + EXTENT);
	pool_close(&pool);
}

static void who_has_the_pool_open_is_told(void **state)
{
	struct kvh_store_session sessions[4];
	const struct kvh_store_session *other = &sessions[1];
	uint64_t number = 3;
	struct worker writer;
	struct pool pool;
	size_t count;

	(void)state;
	shared_open(&pool, CAPACITY);
	writer = start_process(hold_until_killed, &number);
	assert_int_equal(hear(&writer), 'h');
	kill(writer.pid, SIGSTOP);
	assert_int_equal(
		kvh_store_get_sessions(pool.store, sessions, sizeof(sessions[0]), 1, &count),
		KVH_OK);
	assert_int_equal(count, 2);
	assert_int_equal(
		kvh_store_get_sessions(pool.store, sessions, sizeof(sessions[0]), 4, &count),
		KVH_OK);
	assert_int_equal(count, 2);
	assert_true(sessions[0].is_own && !other->is_own && !other->is_dead);
	assert_int_equal(sessions[0].pid, getpid());
	assert_int_equal(other->pid, writer.pid);
	assert_int_equal(other->pid_namespace, sessions[0].pid_namespace);
	assert_int_equal(other->reserved_objects, 1);
	assert_int_equal(other->pinned_objects, 0);
	assert_true(other->serial > sessions[0].serial);
	kill_process(&writer);
	assert_int_equal(
		kvh_store_get_sessions(pool.store, sessions, sizeof(sessions[0]), 4, &count),
		KVH_OK);
	assert_int_equal(count, 1);
	assert_int_equal(pool_stats(&pool).reserved_objects, 0);
	pool_close(&pool);
}

/* How a holder of a reservation makes a child that outlives it, and what the child does first. */
struct parting {
	uint64_t number;
	pid_t (*make_child)(void);
	void (*in_child)(struct pool *pool);
};

static void hold_make_child_and_wait(int said, void *arg)
{
	const struct parting *parting = arg;
	struct kvh_token token;
	struct kvh_put_options options = {
		.struct_bytes = sizeof(options), .flags = KVH_PUT_HOLD, .tokens = &token};
	struct pool pool;
	pid_t child;

	shared_open(&pool, CAPACITY);
	if (put_number(&pool, parting->number, BYTES, &options) != KVH_OK)
		_exit(9);
	child = parting->make_child();
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, 0);
		parting->in_child(&pool);
		for (;;)
			pause();
	}
	say(said, 'f');
	if (write(said, &child, sizeof(child)) != sizeof(child))
		_exit(9);
	for (;;)
		pause();
}

/* Its key is busy until the parent is dead, and free then, although the child lives. */
static void the_child_keeps_nothing(struct parting parting)
{
	struct worker parent;
	struct pool pool;
	pid_t child;

	shared_open(&pool, CAPACITY);
	parent = start_process(hold_make_child_and_wait, &parting);
	assert_int_equal(hear(&parent), 'f');
	assert_int_equal(read(parent.said, &child, sizeof(child)), sizeof(child));
	assert_int_equal(put_number(&pool, parting.number, BYTES, NULL), KVH_REPLICA_IS_NOT_READY);
	kill_process(&parent);
	assert_int_equal(kill(child, 0), 0);
	assert_int_equal(put_within(&pool, parting.number, 10), KVH_OK);
	kill(child, SIGKILL);
	pool_close(&pool);
}

/* Its copy of the handle is worth nothing. */
static void close_in_vain(struct pool *pool)
{
	if (kvh_store_close(pool->store, 0) != KVH_FORKED)
		_exit(9);
}

static void do_nothing(struct pool *pool)
{
	(void)pool;
}

/* proves: S-5, S-6 */
static void a_session_ends_with_its_process_and_not_with_its_children(void **state)
{
	(void)state;
	the_child_keeps_nothing((struct parting){3, fork, close_in_vain});
}

/* A child made without the handlers of fork keeps the file open: its parent's pid tells. */
/* proves: S-5 */
static void an_inherited_file_does_not_keep_a_dead_session(void **state)
{
	(void)state;
	the_child_keeps_nothing((struct parting){3, _Fork, do_nothing});
}

/* ---- the lock --------------------------------------------------------------------------- */

static void take_lock_and_wait(int said, void *arg) KVH_NO_THREAD_SAFETY_ANALYSIS
{
	struct pool pool;

	(void)arg;
	shared_open(&pool, CAPACITY);
	if (kvh_core_take(core_of(&pool), 0))
		say(said, 'l');
	for (;;)
		pause();
}

/* proves: S-9 */
static void nobody_outlasts_a_deadline_while_the_locks_holder_is_stopped(void **state)
{
	struct kvh_call call = {.struct_bytes = sizeof(call)};
	struct kvh_evicted_key keys[8];
	struct worker holder;
	struct numbered n;
	struct pool pool;
	uint64_t number = 2;
	size_t count;
	bool lost;

	(void)state;
	shared_open(&pool, CAPACITY);
	assert_int_equal(put_number(&pool, 1, BYTES, NULL), KVH_OK);
	holder = start_process(take_lock_and_wait, NULL);
	assert_int_equal(hear(&holder), 'l');
	kill(holder.pid, SIGSTOP);
	/* A hang here ends in the test's time-out. */
	numbered_make(&n, &pool, &number, 1, BYTES);
	call.deadline_ns = kvh_deadline_after(kvh_env_posix(), 50000000);
	assert_int_equal(kvh_store_put(pool.store, &n.batch, NULL, &call), KVH_OK);
	assert_int_equal(n.results[0].value, KVH_TIMEOUT);
	call.deadline_ns = kvh_deadline_after(kvh_env_posix(), 50000000);
	kvh_store_remove(pool.store, &n.batch, &call);
	assert_true(n.results[0].value < 0);
	call.deadline_ns = kvh_deadline_after(kvh_env_posix(), 50000000);
	assert_int_equal(kvh_store_clear(pool.store, &call, NULL), KVH_TIMEOUT);
	assert_int_equal(get_number(&pool, 1, BYTES), BYTES);
	assert_true(has_number(&pool, 1));
	assert_int_equal(kvh_store_take_evicted(pool.store, keys, 8, &count, &lost), KVH_OK);
	pool_stats(&pool);
	kill_process(&holder);
	assert_int_equal(put_number(&pool, 2, BYTES, NULL), KVH_OK);
	assert_int_equal(get_number(&pool, 2, BYTES), BYTES);
	pool_close(&pool);
}

static void wait_until_killed(int said, void *arg)
{
	struct pool pool;

	(void)arg;
	shared_open(&pool, CAPACITY);
	say(said, 'o');
	for (;;)
		pause();
}

/* As if it was stopped in the middle of a rebuild, once it is told to go on. */
static void stop_in_a_rebuild(int said, void *arg) KVH_NO_THREAD_SAFETY_ANALYSIS
{
	struct pool pool;

	(void)arg;
	shared_open(&pool, CAPACITY);
	say(said, 'o');
	raise(SIGSTOP);
	if (kvh_core_take(core_of(&pool), 0))
		atomic_fetch_add(&core_of(&pool)->area.super->rebuild_counter, 1);
	say(said, 'r');
	for (;;)
		pause();
}

/* Not even to bury somebody who died meanwhile, and without a deadline. */
/* proves: S-9 */
static void a_get_does_not_wait_for_a_stopped_rebuild(void **state)
{
	struct worker rebuilder, other;
	struct pool pool;
	int status;

	(void)state;
	shared_open(&pool, CAPACITY);
	assert_int_equal(put_number(&pool, 1, BYTES, NULL), KVH_OK);
	rebuilder = start_process(stop_in_a_rebuild, NULL);
	assert_int_equal(hear(&rebuilder), 'o');
	assert_int_equal(waitpid(rebuilder.pid, &status, WUNTRACED), rebuilder.pid);
	assert_true(WIFSTOPPED(status));
	other = start_process(wait_until_killed, NULL);
	assert_int_equal(hear(&other), 'o');
	kill(rebuilder.pid, SIGCONT);
	assert_int_equal(hear(&rebuilder), 'r');
	kill(rebuilder.pid, SIGSTOP);
	kill_process(&other);
	/* A hang here ends in the test's time-out. */
	assert_int_equal(get_number(&pool, 2, BYTES), KVH_OBJECT_NOT_FOUND);
	assert_false(has_number(&pool, 2));
	assert_int_equal(get_number(&pool, 1, BYTES), BYTES);
	kill_process(&rebuilder);
	assert_int_equal(put_number(&pool, 2, BYTES, NULL), KVH_OK);
	assert_int_equal(get_number(&pool, 2, BYTES), BYTES);
	pool_close(&pool);
}

/* proves: S-9 */
static void what_cannot_be_given_back_in_time_comes_back_later(void **state)
{
	struct kvh_token tokens[2];
	struct kvh_put_options options = {
		.struct_bytes = sizeof(options), .flags = KVH_PUT_HOLD, .tokens = tokens};
	struct kvh_result results[1] = {0};
	struct worker holder;
	struct pool pool;

	(void)state;
	shared_open(&pool, CAPACITY);
	assert_int_equal(put_number(&pool, 1, BYTES, &options), KVH_OK);
	holder = start_process(take_lock_and_wait, NULL);
	assert_int_equal(hear(&holder), 'l');
	kill(holder.pid, SIGSTOP);
	assert_int_equal(kvh_store_abort(pool.store, tokens, 1, results), KVH_OK);
	assert_int_equal(results[0].value, KVH_OK);
	/* It is given back once, whoever tries again. */
	assert_int_equal(kvh_store_commit(pool.store, tokens, 1, results), KVH_OK);
	assert_int_equal(results[0].value, KVH_OBJECT_NOT_FOUND);
	assert_int_equal(pool_stats(&pool).reserved_objects, 0);
	assert_int_equal(pool_stats(&pool).used_bytes, EXTENT);
	kill_process(&holder);
	assert_int_equal(put_number(&pool, 5, BYTES, NULL), KVH_OK);
	assert_int_equal(pool_stats(&pool).used_bytes, EXTENT);
	assert_int_equal(put_number(&pool, 1, BYTES, NULL), KVH_OK);
	assert_int_equal(pool_stats(&pool).objects, 2);
	pool_close(&pool);
}

/* ---- a reader --------------------------------------------------------------------------- */

static void pin_and_wait(int said, void *arg)
{
	struct kvh_stored_key stored;
	struct kvh_pins pins;
	struct numbered n;
	struct pool pool;

	shared_open(&pool, CAPACITY);
	numbered_make(&n, &pool, arg, 1, 1);
	kvh_core_prepare(core_of(&pool), n.keys, 1, &stored);
	if (kvh_core_pin(core_of(&pool), &stored, 1, 0, &pins) && pins.refs[0].slot != KVH_NONE)
		say(said, 'r');
	for (;;)
		pause();
}

/* proves: S-4, S-5, S-14 */
static void a_stopped_readers_object_stays_until_it_is_dead(void **state)
{
	struct kvh_call call = {.struct_bytes = sizeof(call)};
	uint64_t number = 1;
	struct worker reader;
	struct numbered n;
	struct pool pool;

	(void)state;
	shared_open(&pool, CAPACITY);
	assert_int_equal(put_number(&pool, number, BYTES, NULL), KVH_OK);
	reader = start_process(pin_and_wait, &number);
	assert_int_equal(hear(&reader), 'r');
	kill(reader.pid, SIGSTOP);
	/* The pool turns over three times around it. */
	for (uint64_t i = 100; i < 100 + 3 * CAPACITY / BYTES; i++)
		assert_int_equal(put_number(&pool, i, BYTES, NULL), KVH_OK);
	assert_int_equal(get_number(&pool, number, BYTES), BYTES);
	numbered_make(&n, &pool, &number, 1, BYTES);
	call.deadline_ns = kvh_deadline_after(kvh_env_posix(), 50000000);
	kvh_store_remove(pool.store, &n.batch, &call);
	assert_int_equal(n.results[0].value, KVH_OBJECT_HAS_LEASE);
	kill_process(&reader);
	kvh_store_remove(pool.store, &n.batch, NULL);
	assert_int_equal(n.results[0].value, KVH_OK);
	assert_int_equal(pool_stats(&pool).pinned_objects, 0);
	pool_close(&pool);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(one_process_reads_what_another_put, begin, end),
		cmocka_unit_test_setup_teardown(the_next_start_finds_all_and_rebuilds_nothing,
	                                        begin, end),
		cmocka_unit_test_setup_teardown(a_key_is_busy_until_its_writer_is_dead, begin, end),
		cmocka_unit_test_setup_teardown(who_has_the_pool_open_is_told, begin, end),
		cmocka_unit_test_setup_teardown(
			a_session_ends_with_its_process_and_not_with_its_children, begin, end),
		cmocka_unit_test_setup_teardown(an_inherited_file_does_not_keep_a_dead_session,
	                                        begin, end),
		cmocka_unit_test_setup_teardown(
			nobody_outlasts_a_deadline_while_the_locks_holder_is_stopped, begin, end),
		cmocka_unit_test_setup_teardown(a_get_does_not_wait_for_a_stopped_rebuild, begin,
	                                        end),
		cmocka_unit_test_setup_teardown(what_cannot_be_given_back_in_time_comes_back_later,
	                                        begin, end),
		cmocka_unit_test_setup_teardown(a_stopped_readers_object_stays_until_it_is_dead,
	                                        begin, end),
	};

	return cmocka_run_group_tests_name("pool_shared_sessions", tests, NULL, NULL);
}
