/* SPDX-License-Identifier: Apache-2.0 */
/* A queue that many threads use at once. */
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "queue_rig.h"

static const struct kvh_env *posix(void)
{
	return kvh_env_posix();
}

static struct kvh_thread *start(kvh_thread_fn fn, void *arg)
{
	struct kvh_thread *thread;

	assert_int_equal(posix()->ops->thread_create(posix()->ctx, &thread, "test", fn, arg),
	                 KVH_OK);
	return thread;
}

static void join(struct kvh_thread *thread)
{
	posix()->ops->thread_join(posix()->ctx, thread);
}

static kvh_status wait_for(struct rig *rig, uint64_t id, struct kvh_queue_completion *completion)
{
	return kvh_queue_wait(rig->queue, id, 0, completion, sizeof(*completion));
}

/* ---- over a pool -------------------------------------------------------------------------- */

enum { POOL_KEYS = 100, POOL_VALUE_BYTES = 256 };

struct pool_user {
	struct kvh_store *store;
	struct kvh_queue *queue;
	struct kvh_thread *thread;
	uint64_t base;   /* of its keys */
	unsigned wrong;  /* outcomes that must not be */
	unsigned rounds; /* done */
	unsigned char (*from)[POOL_VALUE_BYTES], (*to)[POOL_VALUE_BYTES];
	uint64_t hashes[POOL_KEYS];
	struct kvh_key keys[POOL_KEYS];
	struct kvh_segment segments[2 * POOL_KEYS];
	struct kvh_value values[2 * POOL_KEYS]; /* from, then to */
	struct kvh_result results[POOL_KEYS];
};

static void name_keys(struct pool_user *user, uint32_t prefix_id)
{
	for (size_t i = 0; i < POOL_KEYS; i++) {
		user->hashes[i] = user->base + i;
		user->keys[i] = (struct kvh_key){(const uint8_t *)&user->hashes[i], 8, prefix_id};
		user->segments[i] = (struct kvh_segment){user->from[i], POOL_VALUE_BYTES};
		user->segments[POOL_KEYS + i] = (struct kvh_segment){user->to[i], POOL_VALUE_BYTES};
	}
	for (size_t i = 0; i < 2 * POOL_KEYS; i++)
		user->values[i] =
			(struct kvh_value){.segments = &user->segments[i], .segment_count = 1};
}

static void open_pool(struct pool_user *users, size_t count, unsigned char (*memory)[256])
{
	const struct kvh_prefix prefix = {
		.struct_bytes = sizeof(prefix), .text = "q@", .text_bytes = 2, .hash_bytes = 8};
	const struct kvh_queue_options options = {.struct_bytes = sizeof(options), .threads = 3};
	struct kvh_store *store;
	struct kvh_queue *queue;
	kvh_region_id region;
	uint32_t prefix_id;

	assert_int_equal(kvh_store_open("local:?size=16MiB", NULL, &store, NULL), KVH_OK);
	assert_int_equal(
		kvh_store_register(store, memory, count * 2 * POOL_KEYS * 256, 0, &region, NULL),
		KVH_OK);
	assert_int_equal(kvh_store_prefix(store, &prefix, &prefix_id, NULL), KVH_OK);
	assert_int_equal(kvh_queue_open(store, &options, &queue, NULL), KVH_OK);
	for (size_t i = 0; i < count; i++) {
		users[i].store = store;
		users[i].queue = queue;
		users[i].base = i << 32;
		users[i].from = memory + i * 2 * POOL_KEYS;
		users[i].to = users[i].from + POOL_KEYS;
		name_keys(&users[i], prefix_id);
	}
}

static struct kvh_queue_job pool_job(struct pool_user *user, enum kvh_queue_op op)
{
	const struct kvh_value *values = op == KVH_QUEUE_PUT   ? user->values
	                                 : op == KVH_QUEUE_GET ? user->values + POOL_KEYS
	                                                       : NULL;

	return (struct kvh_queue_job){.struct_bytes = sizeof(struct kvh_queue_job),
	                              .op = op,
	                              .user = user->base,
	                              .batch = {POOL_KEYS, user->keys, values, user->results}};
}

static void run_pool(struct pool_user *user, enum kvh_queue_op op, uint64_t good_keys)
{
	const struct kvh_queue_job job = pool_job(user, op);
	struct kvh_queue_completion completion;
	kvh_status status = kvh_queue_run(user->queue, &job, &completion, sizeof(completion), NULL);

	user->wrong += status != KVH_OK || completion.status != KVH_OK ||
	               completion.good_keys != good_keys || completion.user != user->base;
}

static void use_pool(void *arg)
{
	struct pool_user *user = arg;

	for (; user->rounds < 20; user->rounds++) {
		for (size_t i = 0; i < POOL_KEYS; i++)
			memset(user->from[i], (int)(user->base + user->rounds + i),
			       POOL_VALUE_BYTES);
		memset(user->to, 0, (size_t)POOL_KEYS * POOL_VALUE_BYTES);
		run_pool(user, KVH_QUEUE_EXISTS_PREFIX, 0);
		run_pool(user, KVH_QUEUE_PUT, POOL_KEYS);
		run_pool(user, KVH_QUEUE_EXISTS_PREFIX, POOL_KEYS);
		run_pool(user, KVH_QUEUE_GET, POOL_KEYS);
		user->wrong +=
			memcmp(user->from, user->to, (size_t)POOL_KEYS * POOL_VALUE_BYTES) != 0;
		run_pool(user, KVH_QUEUE_REMOVE, POOL_KEYS);
		run_pool(user, KVH_QUEUE_EXISTS, 0);
	}
}

static void threads_share_a_queue_over_a_pool(void **state)
{
	enum { USERS = 4 };
	static unsigned char memory[USERS * 2 * POOL_KEYS][POOL_VALUE_BYTES];
	struct pool_user *users = calloc(USERS, sizeof(*users));

	(void)state;
	assert_non_null(users);
	open_pool(users, USERS, memory);
	for (size_t i = 0; i < USERS; i++)
		users[i].thread = start(use_pool, &users[i]);
	for (size_t i = 0; i < USERS; i++) {
		join(users[i].thread);
		assert_int_equal(users[i].wrong, 0);
	}
	assert_int_equal(kvh_queue_close(users[0].queue, 0, NULL), KVH_OK);
	assert_int_equal(kvh_store_close(users[0].store, 0), KVH_OK);
	free(users);
}

/* ---- everything at once ------------------------------------------------------------------- */

enum { SUBMITTERS = 3, JOBS = 1000, LAST = SUBMITTERS * JOBS, HANG_MS = 60000 };

struct crowd {
	struct rig *rig;
	int fd;
	uint32_t next;           /* atomic; names submitters */
	uint32_t ends[LAST + 1]; /* atomic; completions of each job */
	uint32_t unexpected;     /* atomic */
};

static void take(struct crowd *crowd, const struct kvh_queue_completion *completion)
{
	if (completion->user >= COUNT_OF(crowd->ends) ||
	    (completion->status != KVH_OK && completion->status != KVH_CANCELLED &&
	     completion->status != KVH_TIMEOUT))
		__atomic_add_fetch(&crowd->unexpected, 1, __ATOMIC_RELAXED);
	else
		__atomic_add_fetch(&crowd->ends[completion->user], 1, __ATOMIC_RELAXED);
}

/* Submits until it is let in; the takers make room. */
static uint64_t crowd_submit(struct crowd *crowd, const struct kvh_queue_job *job)
{
	uint64_t id = 0;
	kvh_status status;

	while ((status = kvh_queue_submit(crowd->rig->queue, job, &id, NULL)) == KVH_BUSY)
		posix()->ops->sleep_ns(posix()->ctx, 10000);
	if (status)
		__atomic_add_fetch(&crowd->unexpected, 1, __ATOMIC_RELAXED);
	return id;
}

/* A third of the jobs is waited for, a third cancelled, some are due at once. */
static void submit_main(void *arg)
{
	struct crowd *crowd = arg;
	uint32_t first = __atomic_fetch_add(&crowd->next, 1, __ATOMIC_RELAXED) * JOBS;

	for (uint32_t i = first; i < first + JOBS; i++) {
		struct kvh_queue_job job = rig_job(crowd->rig, KVH_QUEUE_GET + i % KVH_QUEUE_REMOVE,
		                                   i % 500, 1 + i % 100);
		struct kvh_queue_completion completion;
		enum kvh_cancel_outcome outcome;
		uint64_t id;

		job.user = i;
		if (i % 7 == 0)
			job.deadline_ns = 1;
		else if (i % 7 == 1)
			job.deadline_ns = kvh_deadline_after(posix(), 50000);
		id = crowd_submit(crowd, &job);
		if (i % 3 == 0)
			kvh_queue_cancel(crowd->rig->queue, id, &outcome);
		/* Somebody else may have taken it before. */
		if (i % 3 == 1 && wait_for(crowd->rig, id, &completion) == KVH_OK)
			take(crowd, &completion);
	}
}

/* By the eventfd alone, a few at a time, until the last job has come. */
static void take_main(void *arg)
{
	struct crowd *crowd = arg;
	struct kvh_queue_completion completions[3];
	bool is_over = false;
	size_t count;

	while (!is_over) {
		struct pollfd one = {.fd = crowd->fd, .events = POLLIN};

		if (poll(&one, 1, HANG_MS) != 1 ||
		    kvh_queue_poll(crowd->rig->queue, completions, sizeof(completions[0]),
		                   COUNT_OF(completions), &count)) {
			__atomic_add_fetch(&crowd->unexpected, 1, __ATOMIC_RELAXED);
			return;
		}
		for (size_t i = 0; i < count; i++) {
			take(crowd, &completions[i]);
			is_over = is_over || completions[i].user == LAST;
		}
	}
}

static int64_t seldom_in_doubt(struct rig *rig, enum rig_op op, uint64_t number)
{
	(void)rig;
	if (number == 123 && op == RIG_GET)
		return KVH_IN_DOUBT;
	return op == RIG_GET ? RIG_VALUE_BYTES : op == RIG_EXISTS;
}

/* proves: D-23 */
static void each_job_ends_once_whatever_happens_to_it(void **state)
{
	struct rig *rig = rig_new(false);
	struct kvh_queue_options options = rig_options(rig, 3);
	struct crowd *crowd = calloc(1, sizeof(*crowd));
	struct kvh_thread *submitters[SUBMITTERS], *taker;
	struct kvh_queue_job last;
	struct kvh_queue_stats stats;

	(void)state;
	assert_non_null(crowd);
	options.max_jobs = 50; /* of each line */
	rig->key = seldom_in_doubt;
	rig_open(rig, &options);
	crowd->rig = rig;
	assert_int_equal(kvh_queue_fd(rig->queue, &crowd->fd), KVH_OK);
	taker = start(take_main, crowd);
	for (size_t i = 0; i < SUBMITTERS; i++)
		submitters[i] = start(submit_main, crowd);
	for (size_t i = 0; i < SUBMITTERS; i++)
		join(submitters[i]);
	/* Everything else has ended when the last job is handed in. */
	assert_int_equal(kvh_queue_drain(rig->queue, NULL, 0, 0, NULL), KVH_OK);
	last = rig_job(rig, KVH_QUEUE_EXISTS, 0, 1);
	last.user = LAST;
	crowd_submit(crowd, &last);
	join(taker);
	assert_int_equal(crowd->unexpected, 0);
	for (size_t i = 0; i < COUNT_OF(crowd->ends); i++)
		assert_int_equal(crowd->ends[i], 1);
	stats = rig_stats(rig);
	assert_int_equal(stats.submitted_jobs, LAST + 1);
	assert_int_equal(stats.ok_jobs + stats.cancelled_jobs + stats.timed_out_jobs, LAST + 1);
	assert_true(stats.in_doubt_jobs > 0);
	assert_true(stats.wakeups <= stats.submitted_jobs);
	assert_true(stats.fd_writes <= stats.submitted_jobs);
	/* A thread of the queue may still be moving it. */
	while (poll(&(struct pollfd){.fd = crowd->fd, .events = POLLIN}, 1, 0))
		posix()->ops->sleep_ns(posix()->ctx, 100000);
	rig_free(rig);
	free(crowd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(threads_share_a_queue_over_a_pool),
		cmocka_unit_test(each_job_ends_once_whatever_happens_to_it),
	};

	return cmocka_run_group_tests_name("store_queue_threads", tests, NULL, NULL);
}
