/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes and threads on one small shared pool, for a time:
 *
 *   shared_stress [--processes N] [--threads N] [--seconds N] [--seed N] [--verify] [--kill]
 *
 * --kill: processes are killed at any moment and others begin; some are stopped for longer than
 * anybody waits, and go on. At the end nothing may be wrong, held or lost (stress_check.h).
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "stress_check.h"

#define SECOND  UINT64_C(1000000000)
#define MS      UINT64_C(1000000)
#define CALL_NS (400 * MS)
/* Not a judgement of speed: whatever takes this long has come to a stop. */
#define HANG_NS (120 * SECOND)

enum { PROCESSES_MAX = 64, CAPACITY_BYTES = 4 << 20, EXIT_FAILED = 3 };

struct actor {
	pid_t pid; /* 0: none */
	uint64_t seed;
	uint64_t go_on_ns; /* above 0: stopped until then */
	uint64_t rounds;   /* seen, and when they last grew */
	uint64_t moved_ns;
	bool dying;
};

struct stress {
	unsigned processes, threads;
	uint64_t seconds, seed;
	bool verify, kill;
	char path[128];
	struct crowd_board *board;  /* shared with all */
	struct crowd_board *boards; /* one an actor, for its rounds */
	struct actor actors[PROCESSES_MAX];
	uint64_t kills, stops, starts;
};

static uint64_t now_ns(void)
{
	const struct kvh_env *env = kvh_env_posix();

	return env->ops->now_ns(env->ctx);
}

static void nap(uint64_t ns)
{
	const struct kvh_env *env = kvh_env_posix();

	env->ops->sleep_ns(env->ctx, ns);
}

/* ---- a process of the crowd ------------------------------------------------------------- */

/* Opens, uses and closes the pool; false: this process is over. */
static bool live_once(const struct stress *stress, struct crowd_board *board, uint64_t *seed)
{
	struct crowd_handle handle = {.env = kvh_env_posix(), .board = board, .call_ns = CALL_NS};
	struct kvh_error error = {0};
	char url[256];
	kvh_status status;
	bool good;

	snprintf(url, sizeof(url), "local://%s?size=%d%s", stress->path, CAPACITY_BYTES,
	         stress->verify ? "&verify=1" : "");
	status = kvh_store_open(url, NULL, &handle.store, &error);
	/* Whoever had the gate or the lock was stopped for 10 s, or the machine is slow. */
	if (status == KVH_TIMEOUT) {
		crowd_count(board, CROWD_LATE, 1);
		return true;
	}
	if (status)
		return crowd_fail(board, "open: %d: %s", status, error.text);
	crowd_count(board, CROWD_OPENED, 1);
	good = crowd_join(&handle, stress->threads) &&
	       crowd_run(&handle, stress->threads, *seed, 0,
	                 now_ns() + crowd_draw(seed) % (2 * SECOND));
	if (!crowd_leave(&handle))
		return false;
	crowd_count(board, CROWD_CLOSED, 1);
	return good;
}

static int run_process(const struct stress *stress, struct crowd_board *board, uint64_t seed)
{
	while (!atomic_load(&board->stop) && !atomic_load(&stress->board->failed))
		if (!live_once(stress, board, &seed))
			break;
	return atomic_load(&board->failed) ? EXIT_FAILED : 0;
}

/* ---- the parent ------------------------------------------------------------------------- */

static void start(struct stress *stress, unsigned index)
{
	struct actor *actor = &stress->actors[index];
	pid_t parent = getpid();

	actor->seed = stress->seed + (++stress->starts << 16);
	actor->moved_ns = now_ns();
	actor->go_on_ns = 0;
	actor->dying = false;
	fflush(NULL);
	actor->pid = fork();
	if (actor->pid < 0) {
		actor->pid = 0;
		crowd_fail(stress->board, "fork: %s", strerror(errno));
	}
	if (actor->pid > 0 || atomic_load(&stress->board->failed))
		return;
	/* Also while it is stopped. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(EXIT_FAILED);
	exit(run_process(stress, &stress->boards[index], actor->seed));
}

static void judge_end(struct stress *stress, unsigned index, int status)
{
	struct actor *actor = &stress->actors[index];
	bool killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL && actor->dying;

	actor->pid = 0;
	if (killed || (WIFEXITED(status) && WEXITSTATUS(status) == 0))
		return;
	crowd_fail(stress->board, "process %u, seed %" PRIu64 ": wait status %#x: %s", index,
	           actor->seed, (unsigned)status, stress->boards[index].words);
}

static void reap(struct stress *stress)
{
	for (unsigned i = 0; i < stress->processes; i++) {
		int status;

		if (stress->actors[i].pid &&
		    waitpid(stress->actors[i].pid, &status, WNOHANG) == stress->actors[i].pid)
			judge_end(stress, i, status);
	}
}

static void send_signal(struct stress *stress, unsigned index, int signal_number)
{
	struct actor *actor = &stress->actors[index];

	if (!actor->pid)
		return;
	actor->dying |= signal_number == SIGKILL;
	kill(actor->pid, signal_number);
}

/* A round ends after at most a few deadlines, unless its process is stopped. */
static void look_for_hangs(struct stress *stress)
{
	for (unsigned i = 0; i < stress->processes; i++) {
		struct actor *actor = &stress->actors[i];
		uint64_t rounds = atomic_load(&stress->boards[i].counts[CROWD_ROUNDS]);

		if (rounds != actor->rounds || !actor->pid || actor->go_on_ns) {
			actor->rounds = rounds;
			actor->moved_ns = now_ns();
		} else if (now_ns() - actor->moved_ns > HANG_NS) {
			crowd_fail(stress->board, "process %u, seed %" PRIu64 " hangs", i,
			           actor->seed);
			/* For its stacks. */
			send_signal(stress, i, SIGABRT);
			return;
		}
	}
}

/* Longer than waits for the lock (20 ms), for others (100 ms), for a scan (1 s); rarely also than
 * those at the gate (10 s). */
static uint64_t draw_stop_ns(uint64_t *seed)
{
	return crowd_draw(seed) % 24 == 0 ? 11 * SECOND
	                                  : 100 * MS + crowd_draw(seed) % (2 * SECOND);
}

static void trouble(struct stress *stress, uint64_t *seed)
{
	unsigned index = (unsigned)(crowd_draw(seed) % stress->processes), stopped = 0;
	struct actor *actor = &stress->actors[index];

	for (unsigned i = 0; i < stress->processes; i++)
		stopped += stress->actors[i].go_on_ns != 0;
	/* Some always run, and are not killed before they did something. */
	if (crowd_draw(seed) % 3 == 0 && !actor->go_on_ns && stopped < stress->processes / 2) {
		send_signal(stress, index, SIGSTOP);
		actor->go_on_ns = now_ns() + draw_stop_ns(seed);
		stress->stops++;
	} else if (!actor->dying) {
		send_signal(stress, index, SIGKILL);
		stress->kills++;
	}
}

static void continue_stopped(struct stress *stress, bool all)
{
	for (unsigned i = 0; i < stress->processes; i++) {
		struct actor *actor = &stress->actors[i];

		if (!actor->go_on_ns || (!all && now_ns() < actor->go_on_ns))
			continue;
		actor->go_on_ns = 0;
		send_signal(stress, i, SIGCONT);
	}
}

static bool anybody(const struct stress *stress)
{
	for (unsigned i = 0; i < stress->processes; i++)
		if (stress->actors[i].pid)
			return true;
	return false;
}

/* Each kind of event, of all processes. */
static uint64_t count_of(const struct stress *stress, enum crowd_event event)
{
	uint64_t count = 0;

	for (unsigned i = 0; i < stress->processes; i++)
		count += atomic_load(&stress->boards[i].counts[event]);
	return count;
}

/* How many kinds of events have not happened yet. */
static unsigned missing_events(const struct stress *stress)
{
	unsigned missing = 0;

	for (unsigned event = 0; event < CROWD_EVENT_COUNT; event++)
		missing += event != CROWD_LATE && !count_of(stress, event);
	return missing + (stress->kill && (!stress->kills || !stress->stops));
}

static void run(struct stress *stress)
{
	uint64_t seed = stress->seed, end_ns = now_ns() + stress->seconds * SECOND;

	/* On a slow machine as long as it takes. */
	while (!atomic_load(&stress->board->failed) &&
	       (now_ns() < end_ns || (missing_events(stress) && now_ns() < end_ns + HANG_NS))) {
		for (unsigned i = 0; i < stress->processes; i++)
			if (!stress->actors[i].pid)
				start(stress, i);
		nap(5 * MS + crowd_draw(&seed) % (40 * MS));
		reap(stress);
		look_for_hangs(stress);
		if (!stress->kill)
			continue;
		trouble(stress, &seed);
		continue_stopped(stress, false);
	}
}

/* Asks all to close; with --kill every other one has no time for that. */
static void end(struct stress *stress)
{
	uint64_t hang_ns = now_ns() + HANG_NS;

	for (unsigned i = 0; i < stress->processes; i++) {
		atomic_store(&stress->boards[i].stop, true);
		if (stress->kill && i % 2)
			send_signal(stress, i, SIGKILL);
	}
	continue_stopped(stress, true);
	while (anybody(stress)) {
		if (now_ns() > hang_ns || atomic_load(&stress->board->failed)) {
			crowd_fail(stress->board, "a process doesn't end");
			for (unsigned i = 0; i < stress->processes; i++)
				send_signal(stress, i, SIGKILL);
		}
		nap(5 * MS);
		reap(stress);
	}
}

static void report(struct stress *stress, uint64_t rebuilds)
{
	static const char *const names[] = {
#define CROWD_EVENT(id, name) name,
		CROWD_EVENTS(CROWD_EVENT)
#undef CROWD_EVENT
	};

	printf("seed %" PRIu64 ":", stress->seed);
	for (unsigned event = 0; event < CROWD_EVENT_COUNT; event++)
		printf(" %s %" PRIu64, names[event], count_of(stress, event));
	printf(" starts %" PRIu64 " kills %" PRIu64 " stops %" PRIu64 " rebuilds %" PRIu64 "\n",
	       stress->starts, stress->kills, stress->stops, rebuilds);
	if (missing_events(stress))
		crowd_fail(stress->board, "%u of these never happened", missing_events(stress));
}

static bool read_options(struct stress *stress, int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		const char *value = i + 1 < argc ? argv[i + 1] : "";

		if (strcmp(argv[i], "--verify") == 0)
			stress->verify = true;
		else if (strcmp(argv[i], "--kill") == 0)
			stress->kill = true;
		else if (strcmp(argv[i], "--processes") == 0)
			stress->processes = (unsigned)strtoul(value, NULL, 10), i++;
		else if (strcmp(argv[i], "--threads") == 0)
			stress->threads = (unsigned)strtoul(value, NULL, 10), i++;
		else if (strcmp(argv[i], "--seconds") == 0)
			stress->seconds = strtoull(value, NULL, 10), i++;
		else if (strcmp(argv[i], "--seed") == 0)
			stress->seed = strtoull(value, NULL, 10), i++;
		else
			return false;
	}
	return stress->processes >= 1 && stress->processes <= PROCESSES_MAX && stress->threads >= 1;
}

int main(int argc, char **argv)
{
	static struct stress stress = {.processes = 4, .threads = 2, .seconds = 2, .seed = 1};
	struct crowd_board *boards =
		mmap(NULL, (PROCESSES_MAX + 1) * sizeof(*boards), PROT_READ | PROT_WRITE,
	             MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	uint64_t rebuilds = 0;

	if (!read_options(&stress, argc, argv) || boards == MAP_FAILED) {
		fprintf(stderr, "usage: shared_stress [--processes N] [--threads N] [--seconds N] "
		                "[--seed N] [--verify] [--kill]\n");
		return 2;
	}
	stress.board = boards;
	stress.boards = boards + 1;
	snprintf(stress.path, sizeof(stress.path), "/dev/shm/kvhold.stress-%ld", (long)getpid());
	run(&stress);
	end(&stress);
	if (!atomic_load(&stress.board->failed))
		stress_check(stress.board, stress.path, &rebuilds);
	unlink(stress.path);
	report(&stress, rebuilds);
	if (atomic_load(&stress.board->failed))
		printf("failed: %s\n", stress.board->words);
	return atomic_load(&stress.board->failed) ? 1 : 0;
}
