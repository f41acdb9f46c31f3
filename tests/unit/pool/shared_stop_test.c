/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes that stop at one place in a shared pool, for as long as a test likes: no clock takes
 * from them what they hold, nobody waits for them beyond a deadline, and they end well.
 */
#include "local_fixture.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fault.h"
#include "pool/core/sessions.h"
#include "pool/local/shm.h"

enum { BYTES = 16 << 10, CAPACITY_BYTES = 1 << 20, MANY = 4 * CAPACITY_BYTES / BYTES };

#define LOCK_WAITERS UINT32_C(0x80000000)
#define SHORT_MS     50
#define LONG_MS      60000

struct scene {
	char path[64];
	struct kvh_shared_options options;
	struct pool pool; /* this process's */
	pid_t child;
};

static kvh_status try_open(const struct scene *scene, struct pool *pool, const struct kvh_env *env)
{
	struct kvh_store_options open = {
		.struct_bytes = sizeof(open), .env = env, .device = kvh_device_host()};
	struct kvh_error error = {0};
	kvh_status status;

	memset(pool, 0, sizeof(*pool));
	status = kvh_shared_open(&scene->options, &open, &pool->ops, &pool->self, &error);
	if (status)
		return status;
	assert_int_equal(kvh_store_open_ops(&pool->ops, pool->self, &open, &pool->store, &error),
	                 KVH_OK);
	pool->memory_bytes = BYTES;
	pool->memory = calloc(1, BYTES);
	assert_non_null(pool->memory);
	assert_int_equal(kvh_store_register(pool->store, pool->memory, BYTES, KVH_MEMORY_HOST,
	                                    &pool->region, &error),
	                 KVH_OK);
	pool->prefix = pool_intern(pool, "m@", HASH_BYTES, 0, 0);
	return KVH_OK;
}

static const struct kvh_area *area_of(const struct pool *pool)
{
	return &((const struct kvh_local *)pool->self)->core.area;
}

/* ---- calls with a deadline -------------------------------------------------------------- */

static struct kvh_call within(uint64_t ms)
{
	const struct kvh_env *env = kvh_env_posix();

	return (struct kvh_call){.struct_bytes = sizeof(struct kvh_call),
	                         .deadline_ns = env->ops->now_ns(env->ctx) + ms * 1000000};
}

static int64_t put(struct pool *pool, uint64_t number, struct kvh_token *token, uint64_t ms)
{
	struct kvh_put_options options = {.struct_bytes = sizeof(options),
	                                  .flags = token ? KVH_PUT_HOLD : 0,
	                                  .tokens = token};
	struct kvh_call call = within(ms);
	struct numbered n;
	kvh_status status;

	numbered_make(&n, pool, &number, 1, BYTES);
	make_bytes(number, pool->memory, BYTES);
	status = kvh_store_put(pool->store, &n.batch, &options, &call);
	return status ? status : n.results[0].value;
}

static int64_t take_away(struct pool *pool, uint64_t number, uint64_t ms)
{
	struct kvh_call call = within(ms);
	struct numbered n;
	kvh_status status;

	numbered_make(&n, pool, &number, 1, BYTES);
	n.batch.values = NULL;
	status = kvh_store_remove(pool->store, &n.batch, &call);
	return status ? status : n.results[0].value;
}

static kvh_status clear(struct pool *pool, uint64_t ms)
{
	struct kvh_call call = within(ms);

	return kvh_store_clear(pool->store, &call, NULL);
}

/* All of the pool's room is used for other keys, several times. */
static int64_t turn_over(struct pool *pool)
{
	int64_t value = KVH_OK;

	for (uint64_t i = 0; i < MANY && value == KVH_OK; i++)
		value = put(pool, 1000 + i, NULL, LONG_MS);
	clear(pool, SHORT_MS);
	return value;
}

/* ---- the one who stops ------------------------------------------------------------------ */

struct stop {
	enum kvh_fault_point point;
	bool passed;
};

/* A process that is stopped is stopped everywhere: nothing in it can tell. */
static bool stop_there(void *user, enum kvh_fault_point point, const void *key, size_t key_bytes,
                       int64_t *number)
{
	struct stop *stop = user;

	(void)key, (void)key_bytes, (void)number;
	if (point == stop->point && !stop->passed) {
		stop->passed = true;
		raise(SIGSTOP);
	}
	return false;
}

typedef int64_t (*action_fn)(struct pool *pool);

static void be_child(const struct scene *scene, enum kvh_fault_point point, bool opening,
                     action_fn action)
{
	struct stop stop = {.point = point};
	struct pool pool;
	int64_t value = KVH_INTERNAL;

	if (opening)
		kvh_fault_arm(stop_there, &stop);
	if (try_open(scene, &pool, kvh_env_posix()))
		_exit(2);
	if (!opening)
		kvh_fault_arm(stop_there, &stop);
	value = action(&pool);
	kvh_fault_disarm_all();
	if (kvh_store_close(pool.store, 0))
		_exit(3);
	_exit(value == KVH_OK && stop.passed ? 0 : 4);
}

/* Returns when it has stopped at the point. opening: on its way into the pool. */
static void start_child(struct scene *scene, enum kvh_fault_point point, bool opening,
                        action_fn action)
{
	pid_t parent = getpid();
	int status;

	scene->child = fork();
	assert_true(scene->child >= 0);
	if (scene->child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() == parent)
			be_child(scene, point, opening, action);
		_exit(1);
	}
	assert_int_equal(waitpid(scene->child, &status, WUNTRACED), scene->child);
	assert_true(WIFSTOPPED(status));
}

/* It goes on: to its end, or until it stops again. */
static int go_on(struct scene *scene)
{
	int status;

	assert_int_equal(kill(scene->child, SIGCONT), 0);
	assert_int_equal(waitpid(scene->child, &status, WUNTRACED), scene->child);
	if (WIFSTOPPED(status))
		return -1;
	scene->child = 0;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -2;
}

static int64_t put_two(struct pool *pool)
{
	return put(pool, 2, NULL, LONG_MS);
}

static int64_t get_two(struct pool *pool)
{
	return get_number(pool, 2, BYTES) == BYTES ? KVH_OK : KVH_INTERNAL;
}

static int64_t put_many(struct pool *pool)
{
	int64_t value = KVH_OK;

	for (uint64_t i = 0; i < MANY && value == KVH_OK; i++)
		value = put(pool, 2000 + i, NULL, LONG_MS);
	return value;
}

/* Stops once more while it has a reservation. */
static int64_t hold_two(struct pool *pool)
{
	struct kvh_token token;
	struct kvh_result result = {0};
	int64_t value = put(pool, 2, &token, LONG_MS);

	raise(SIGSTOP);
	if (value == KVH_OK)
		value = kvh_store_commit(pool->store, &token, 1, &result);
	return value ? value : result.value;
}

static int64_t do_nothing(struct pool *pool)
{
	(void)pool;
	return KVH_OK;
}

/* ---- tests ------------------------------------------------------------------------------ */

static int set_up(void **state)
{
	static struct scene scene;

	memset(&scene, 0, sizeof(scene));
	snprintf(scene.path, sizeof(scene.path), "/dev/shm/kvhold.stop-%ld", (long)getpid());
	scene.options =
		(struct kvh_shared_options){.path = scene.path, .capacity_bytes = CAPACITY_BYTES};
	*state = &scene;
	return try_open(&scene, &scene.pool, kvh_env_posix());
}

static int tear_down(void **state)
{
	struct scene *scene = *state;

	if (scene->child > 0) {
		kill(scene->child, SIGKILL);
		waitpid(scene->child, NULL, 0);
	}
	unlink(scene->path);
	pool_close(&scene->pool);
	return 0;
}

/* proves: S-5, S-9 */
static void whoever_stops_with_the_lock_keeps_it(void **state)
{
	struct scene *scene = *state;
	struct pool *pool = &scene->pool;
	struct kvh_token token;
	struct kvh_result result = {0};

	assert_int_equal(put(pool, 1, NULL, LONG_MS), KVH_OK);
	assert_int_equal(put(pool, 4, &token, LONG_MS), KVH_OK);
	start_child(scene, KVH_FAULT_POOL_LOCKED, false, put_two);
	assert_int_equal(put(pool, 3, NULL, SHORT_MS), KVH_TIMEOUT);
	assert_int_equal(take_away(pool, 1, SHORT_MS), KVH_TIMEOUT);
	assert_int_equal(clear(pool, SHORT_MS), KVH_TIMEOUT);
	/* These need no lock. */
	assert_int_equal(kvh_store_abort(pool->store, &token, 1, &result), KVH_OK);
	assert_int_equal(result.value, KVH_OK);
	assert_true(has_number(pool, 1));
	assert_int_equal(get_number(pool, 1, BYTES), BYTES);
	assert_int_equal(go_on(scene), 0);
	assert_int_equal(get_number(pool, 2, BYTES), BYTES);
	assert_int_equal(put(pool, 3, NULL, LONG_MS), KVH_OK);
	assert_int_equal(put(pool, 4, NULL, LONG_MS), KVH_OK);
	assert_int_equal(pool_stats(pool).reserved_objects, 0);
}

/* proves: S-1, S-5, S-10 */
static void a_stopped_writer_keeps_its_reservation(void **state)
{
	struct scene *scene = *state;
	struct pool *pool = &scene->pool;

	start_child(scene, KVH_FAULT_POOL_COMMIT, false, put_two);
	assert_int_equal(put(pool, 2, NULL, LONG_MS), KVH_REPLICA_IS_NOT_READY);
	assert_int_equal(take_away(pool, 2, SHORT_MS), KVH_REPLICA_IS_NOT_READY);
	assert_int_equal(get_number(pool, 2, BYTES), KVH_OBJECT_NOT_FOUND);
	assert_int_equal(turn_over(pool), KVH_OK);
	assert_false(kvh_shared_bury(pool->self, 0));
	assert_int_equal(pool_stats(pool).reserved_objects, 1);
	assert_int_equal(go_on(scene), 0);
	assert_int_equal(pool_stats(pool).reserved_objects, 0);
	assert_int_equal(get_number(pool, 2, BYTES), BYTES);
}

/* proves: S-4, S-5, S-9 */
static void a_stopped_reader_keeps_its_object(void **state)
{
	struct scene *scene = *state;
	struct pool *pool = &scene->pool;

	assert_int_equal(put(pool, 2, NULL, LONG_MS), KVH_OK);
	start_child(scene, KVH_FAULT_POOL_PIN, false, get_two);
	assert_int_equal(turn_over(pool), KVH_OK);
	assert_false(kvh_shared_bury(pool->self, 0));
	assert_int_equal(pool_stats(pool).pinned_objects, 1);
	assert_int_equal(take_away(pool, 2, SHORT_MS), KVH_OBJECT_HAS_LEASE);
	assert_int_equal(clear(pool, SHORT_MS), KVH_OBJECT_HAS_LEASE);
	assert_int_equal(get_number(pool, 2, BYTES), BYTES);
	assert_int_equal(go_on(scene), 0);
	assert_int_equal(take_away(pool, 2, LONG_MS), KVH_OK);
}

/* proves: S-5, S-9 */
static void a_stopped_scan_is_done_by_another(void **state)
{
	struct scene *scene = *state;
	struct pool *pool = &scene->pool;

	start_child(scene, KVH_FAULT_POOL_VICTIMS, false, put_many);
	assert_int_equal(turn_over(pool), KVH_OK);
	assert_int_equal(go_on(scene), 0);
	assert_int_equal(turn_over(pool), KVH_OK);
}

/* proves: S-5, S-9 */
static void a_stopped_opener_is_waited_for_at_the_gate_alone(void **state)
{
	struct scene *scene = *state;
	struct fixed_time time;
	struct pool other;

	fixed_time_init(&time);
	start_child(scene, KVH_FAULT_POOL_SESSION_LOCKED, true, do_nothing);
	assert_int_equal(turn_over(&scene->pool), KVH_OK);
	assert_int_equal(try_open(scene, &other, &time.env), KVH_TIMEOUT);
	assert_int_equal(go_on(scene), 0);
	assert_int_equal(try_open(scene, &other, kvh_env_posix()), KVH_OK);
	pool_close(&other);
}

/* ---- sessions that begin and end -------------------------------------------------------- */

struct burial {
	struct pool *pool;
	struct kvh_thread *thread;
	_Atomic bool over;
};

static void bury(void *arg)
{
	struct burial *burial = arg;

	kvh_shared_bury(burial->pool->self, 0);
	atomic_store(&burial->over, true);
}

static uint32_t session_of(const struct pool *pool, pid_t pid)
{
	for (uint32_t i = 0; i < KVH_SESSIONS_MAX; i++)
		if (kvh_session_serial(area_of(pool), i) &&
		    atomic_load(&area_of(pool)->fixed->sessions[i].pid) == (uint64_t)pid)
			return i;
	return KVH_NONE;
}

/* Its record is there, and it is not yet among the living: whoever looks then waits for nothing. */
/* proves: S-5 */
static void a_session_that_begins_is_not_buried(void **state)
{
	struct scene *scene = *state;
	const struct kvh_env *env = kvh_env_posix();
	const struct kvh_area *area = area_of(&scene->pool);
	struct burial burial = {.pool = &scene->pool};
	uint32_t session;

	start_child(scene, KVH_FAULT_POOL_SESSION_BEGIN, true, hold_two);
	session = session_of(&scene->pool, scene->child);
	assert_int_not_equal(session, KVH_NONE);
	assert_false(kvh_session_is_live(area, session));
	assert_int_equal(env->ops->thread_create(env->ctx, &burial.thread, "burial", bury, &burial),
	                 KVH_OK);
	/* Done, or at the lock that the child has. */
	while (!atomic_load(&burial.over) && !(atomic_load(&area->super->lock) & LOCK_WAITERS))
		env->ops->sleep_ns(env->ctx, 1000000);
	assert_int_equal(go_on(scene), -1);
	env->ops->thread_join(env->ctx, burial.thread);
	assert_true(kvh_session_is_live(area, session));
	assert_int_equal(put(&scene->pool, 2, NULL, LONG_MS), KVH_REPLICA_IS_NOT_READY);
	assert_int_equal(go_on(scene), 0);
	assert_int_equal(get_number(&scene->pool, 2, BYTES), BYTES);
}

/* proves: S-5, S-6 */
static void a_record_is_used_again_when_its_session_is_reaped(void **state)
{
	struct scene *scene = *state;
	struct pool *pool = &scene->pool;
	const struct kvh_area *area = area_of(pool);
	struct pool second, third;
	uint32_t dead;
	uint64_t serial;

	start_child(scene, KVH_FAULT_POOL_COMMIT, false, put_two);
	dead = session_of(pool, scene->child);
	assert_int_not_equal(dead, KVH_NONE);
	serial = kvh_session_serial(area, dead);
	assert_int_equal(kill(scene->child, SIGKILL), 0);
	assert_int_equal(waitpid(scene->child, NULL, 0), scene->child);
	scene->child = 0;
	/* It begins before it buries: the record still belongs to a reservation then. */
	assert_int_equal(try_open(scene, &second, kvh_env_posix()), KVH_OK);
	assert_int_not_equal(((struct kvh_local *)second.self)->core.session, dead);
	assert_int_equal(kvh_session_serial(area, dead), 0);
	assert_int_equal(pool_stats(pool).reserved_objects, 0);
	assert_int_equal(put(pool, 2, NULL, LONG_MS), KVH_OK);
	assert_int_equal(try_open(scene, &third, kvh_env_posix()), KVH_OK);
	assert_int_equal(((struct kvh_local *)third.self)->core.session, dead);
	assert_true(kvh_session_serial(area, dead) > serial + 1);
	pool_close(&second);
	pool_close(&third);
}

int main(void)
{
#define STOP_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		STOP_TEST(whoever_stops_with_the_lock_keeps_it),
		STOP_TEST(a_stopped_writer_keeps_its_reservation),
		STOP_TEST(a_stopped_reader_keeps_its_object),
		STOP_TEST(a_stopped_scan_is_done_by_another),
		STOP_TEST(a_stopped_opener_is_waited_for_at_the_gate_alone),
		STOP_TEST(a_session_that_begins_is_not_buried),
		STOP_TEST(a_record_is_used_again_when_its_session_is_reaped),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
