/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many handles of one process on one mapping of a shared pool, for tools that know memory by its
 * address (ThreadSanitizer):
 *
 *   shared_crowd SEED LIVES ROUNDS [blind]
 *
 * Each handle is opened so many times; each of its threads then makes so many rounds. Their clock
 * runs fast: whatever waits for a time passes is met, and a scan that was slow is taken over.
 * blind: wrong results don't end it.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "crash/stress_check.h"
#include "pool/local/shm.h"
#include "pool/local/shm_file.h"

enum {
	HANDLES = 8,
	OPENERS = 3,
	MEMBERS = 4,
	CAPACITY_BYTES = 2 << 20,
	FASTER = 1000,
	HANG_S = 200
};

#define CALL_NS UINT64_C(1000000000000) /* a second, for others */

struct seat {
	struct crowd_board *board;
	struct kvh_thread *thread;
	const struct kvh_shared_options *options;
	const struct kvh_env *env;
	void *memory;
	uint64_t seed, lives, rounds;
};

static uint64_t fast_now(void *ctx)
{
	const struct kvh_env *env = kvh_env_posix();

	(void)ctx;
	return env->ops->now_ns(env->ctx) * FASTER;
}

/* Without a wait for the gate or the lock that only this clock cuts short. */
static kvh_status open_handle(const struct seat *seat, struct kvh_store **store,
                              struct kvh_error *error)
{
	struct kvh_store_options open = {
		.struct_bytes = sizeof(open), .env = seat->env, .device = kvh_device_host()};
	struct kvh_store_ops ops = {0};
	kvh_status status;
	void *self;

	do
		status = kvh_shared_open_at(seat->options, &open, seat->memory, &ops, &self, error);
	while (status == KVH_TIMEOUT);
	if (status)
		return status;
	return kvh_store_open_ops(&ops, self, &open, store, error);
}

static void run_seat(void *arg)
{
	struct seat *seat = arg;

	for (uint64_t life = 0; life < seat->lives; life++) {
		struct crowd_handle handle = {
			.env = seat->env, .board = seat->board, .call_ns = CALL_NS};
		struct kvh_error error = {0};
		kvh_status status = open_handle(seat, &handle.store, &error);

		if (status) {
			crowd_fail(seat->board, "open: %d: %s", status, error.text);
			return;
		}
		crowd_count(seat->board, CROWD_OPENED, 1);
		if (seat->rounds && crowd_join(&handle, MEMBERS))
			crowd_run(&handle, MEMBERS, seat->seed + life * MEMBERS, seat->rounds, 0);
		if (!crowd_leave(&handle))
			return;
		crowd_count(seat->board, CROWD_CLOSED, 1);
	}
}

static void *map_pool(const char *path)
{
	struct stat file = {0};
	int fd = open(path, O_RDWR | O_CLOEXEC);
	void *memory = MAP_FAILED;

	if (fd >= 0 && fstat(fd, &file) == 0)
		memory =
			mmap(NULL, (size_t)file.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (fd >= 0)
		close(fd);
	return memory;
}

/* first: as the seats', but for board and memory. */
static bool run(struct crowd_board *board, const struct seat *first)
{
	const struct kvh_shared_options *options = first->options;
	const struct kvh_env *posix = kvh_env_posix();
	struct kvh_env_ops fast = *posix->ops;
	struct kvh_env env = {.ops = &fast, .ctx = posix->ctx};
	struct seat seats[HANDLES];
	struct kvh_error error = {0};
	unsigned count = first->rounds ? HANDLES : OPENERS;
	bool made;
	kvh_status status = kvh_shared_create(options, posix, &made, &error);
	void *memory = status ? MAP_FAILED : map_pool(options->path);

	if (memory == MAP_FAILED)
		return crowd_fail(board, "the pool can't be made: %d: %s", status, error.text);
	if (first->rounds)
		fast.now_ns = fast_now;
	for (unsigned i = 0; i < count; i++) {
		seats[i] = *first;
		seats[i].board = board;
		seats[i].env = &env;
		seats[i].memory = memory;
		seats[i].seed = first->seed * 100000 + i * 1000;
		if (posix->ops->thread_create(posix->ctx, &seats[i].thread, "seat", run_seat,
		                              &seats[i]))
			abort();
	}
	for (unsigned i = 0; i < count; i++)
		posix->ops->thread_join(posix->ctx, seats[i].thread);
	return !atomic_load(&board->failed);
}

int main(int argc, char **argv)
{
	static struct crowd_board board;
	struct kvh_shared_options options = {.capacity_bytes = CAPACITY_BYTES};
	struct seat first = {.options = &options};
	char path[128];
	uint64_t rebuilds = 0;
	bool good;

	if (argc < 4) {
		fprintf(stderr, "usage: shared_crowd SEED LIVES ROUNDS [blind]\n");
		return 2;
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	alarm(HANG_S);
	board.blind = argc > 4 && strcmp(argv[4], "blind") == 0;
	/* Whoever started it removes what it leaves when it is killed. */
	snprintf(path, sizeof(path), "/dev/shm/kvhold.crowd-%ld", (long)getpid());
	options.path = path;
	first.seed = strtoull(argv[1], NULL, 10);
	first.lives = strtoull(argv[2], NULL, 10);
	first.rounds = strtoull(argv[3], NULL, 10);
	good = run(&board, &first) && stress_check(&board, path, &rebuilds);
	unlink(path);
	printf("%s: rounds %llu stored %llu hit %llu removed %llu fed %llu late %llu rebuilds "
	       "%llu\n",
	       good ? "right" : board.words, (unsigned long long)board.counts[CROWD_ROUNDS],
	       (unsigned long long)board.counts[CROWD_STORED],
	       (unsigned long long)board.counts[CROWD_HIT],
	       (unsigned long long)board.counts[CROWD_REMOVED],
	       (unsigned long long)board.counts[CROWD_FED],
	       (unsigned long long)board.counts[CROWD_LATE], (unsigned long long)rebuilds);
	return good ? 0 : 1;
}
