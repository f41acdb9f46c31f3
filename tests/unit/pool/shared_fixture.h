/* SPDX-License-Identifier: Apache-2.0 */
/* A shared pool of this test, and processes that use it. */
#ifndef KVH_TESTS_UNIT_POOL_SHARED_FIXTURE_H
#define KVH_TESTS_UNIT_POOL_SHARED_FIXTURE_H

#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "local_fixture.h"

static inline const char *shared_path(void)
{
	static char path[64];

	if (!path[0])
		snprintf(path, sizeof(path), "/dev/shm/kvhold.unit-%ld", (long)getpid());
	return path;
}

/* A further handle on this test's pool. */
static inline void shared_open(struct pool *pool, uint64_t capacity_bytes)
{
	struct kvh_shared_options shared = {.path = shared_path(),
	                                    .capacity_bytes = capacity_bytes};
	struct kvh_store_options open = {
		.struct_bytes = sizeof(open), .env = kvh_env_posix(), .device = kvh_device_host()};
	struct kvh_error error = {0};

	memset(pool, 0, sizeof(*pool));
	if (kvh_shared_open(&shared, &open, &pool->ops, &pool->self, &error))
		fail_msg("%s", error.text);
	assert_int_equal(kvh_store_open_ops(&pool->ops, pool->self, &open, &pool->store, &error),
	                 KVH_OK);
	pool_equip(pool, 0);
}

/* A process at work, which dies with this one. What it says comes through `said`. */
struct worker {
	pid_t pid;
	int said; /* read end */
};

static inline struct worker start_process(void (*run)(int say, void *arg), void *arg)
{
	struct worker worker;
	int ends[2];

	assert_int_equal(pipe(ends), 0);
	fflush(NULL);
	worker.pid = fork();
	assert_true(worker.pid >= 0);
	if (worker.pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(ends[0]);
		run(ends[1], arg);
		_exit(0);
	}
	close(ends[1]);
	worker.said = ends[0];
	return worker;
}

static inline void say(int fd, char what)
{
	if (write(fd, &what, 1) != 1)
		_exit(9);
}

/* 0: the process ended without a word. */
static inline char hear(const struct worker *worker)
{
	char what = 0;

	return read(worker->said, &what, 1) == 1 ? what : 0;
}

static inline int end_process(struct worker *worker)
{
	int status;

	close(worker->said);
	assert_int_equal(waitpid(worker->pid, &status, 0), worker->pid);
	return status;
}

static inline void kill_process(struct worker *worker)
{
	kill(worker->pid, SIGKILL);
	assert_true(WIFSIGNALED(end_process(worker)));
}

#endif
