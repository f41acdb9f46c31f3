/* SPDX-License-Identifier: Apache-2.0 */
/* Fault points of the testing library: libfiu is the switch, our rules decide. */
#include "base/fault.h"

#ifdef KVH_FAULTS

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <fiu.h>
#include <fiu-control.h>

#include "base/check.h"
#include "base/process.h"

#ifndef FIU_ENABLE
#error "FIU_ENABLE belongs on the target's compile line: without it libfiu's calls vanish"
#endif

/* libfiu's own random points are not used; seeded all the same, so that none differs by run (B43).
 */
#define LIBFIU_SEED 1

struct point {
	const char *name;
	unsigned effects;
};

static const struct point points[KVH_FAULT_POINT_COUNT] = {
#define KVH_FAULT_POINT(id, name, effects) [KVH_FAULT_##id] = {name, effects},
#include "fault_points.def"
#undef KVH_FAULT_POINT
};

/* Fires on the nth of the passes it has seen; nth 0: not armed. */
struct nth_rule {
	uint64_t nth;
	uint64_t pass_count; /* atomic */
	int64_t number;
};

/*
 * The state of the process, because libfiu's is too. Rules and the decider are written before
 * libfiu's write lock is taken (fiu_enable) and read under its read lock (decide).
 */
static struct {
	bool library_started;
	kvh_fault_decider_fn decider;
	void *user;
	struct nth_rule nth_rules[KVH_FAULT_POINT_COUNT];
	uint64_t passed_count[KVH_FAULT_POINT_COUNT]; /* atomic */
	uint64_t fired_count[KVH_FAULT_POINT_COUNT];  /* atomic */
	uint64_t logged_by[KVH_FAULT_POINT_COUNT]; /* atomic; the process that did, never reset */
	char log_path[4096];                       /* "": no log */
} state;

uint32_t kvh_faults_armed;

/* One passing: goes in before fiu_fail and carries the number out again. */
struct passing {
	enum kvh_fault_point point;
	const void *key;
	size_t key_bytes;
	int64_t number;
};

/*
 * libfiu's callback gets a name only, and its failinfo is shared by all threads. A thread-local is
 * right even where many actors share a thread: it is set and cleared within kvh_fault_fire, and
 * nothing in between blocks or switches.
 */
static _Thread_local struct passing *current;

static bool nth_decides(struct passing *passing)
{
	struct nth_rule *rule = &state.nth_rules[passing->point];

	if (rule->nth == 0 ||
	    __atomic_add_fetch(&rule->pass_count, 1, __ATOMIC_RELAXED) != rule->nth)
		return false;
	passing->number = rule->number;
	return true;
}

static bool decider_decides(struct passing *passing)
{
	int64_t number = 0;

	if (!state.decider ||
	    !state.decider(state.user, passing->point, passing->key, passing->key_bytes, &number))
		return false;
	/* A point that "fires" with 0 would not (B43). */
	KVH_CHECK(number != 0);
	passing->number = number;
	return true;
}

static int decide(const char *name, int *failnum, void **failinfo, unsigned *flags)
{
	(void)name;
	(void)failnum;
	(void)failinfo;
	(void)flags;
	return nth_decides(current) || decider_decides(current);
}

/* Arming is for one thread, so the environment is read there and nowhere else. */
static const char *environment(const char *name)
{
	return getenv(name); /* NOLINT(concurrency-mt-unsafe): see above */
}

static void read_log_path(void)
{
	const char *path = environment("KVH_FAULT_LOG");
	int path_bytes = snprintf(state.log_path, sizeof(state.log_path), "%s", path ? path : "");

	KVH_CHECK(path_bytes >= 0 && (size_t)path_bytes < sizeof(state.log_path));
}

static void log_first_fire(enum kvh_fault_point point)
{
	const char *path = state.log_path;
	uint64_t process = kvh_process_id();
	char line[128];
	int line_bytes;
	int fd;

	if (!path[0] ||
	    __atomic_exchange_n(&state.logged_by[point], process, __ATOMIC_RELAXED) == process)
		return;
	line_bytes = snprintf(line, sizeof(line), "%s\n", points[point].name);
	KVH_CHECK(line_bytes > 0 && (size_t)line_bytes < sizeof(line));
	fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
	/* One write per line: with O_APPEND lines of several processes do not mix. */
	if (fd < 0 || write(fd, line, (size_t)line_bytes) != line_bytes)
		fprintf(stderr, "kvhold: KVH_FAULT_LOG: can't append to %s\n", path);
	if (fd >= 0)
		close(fd);
}

int64_t kvh_fault_fire(enum kvh_fault_point point, const void *key, size_t key_bytes)
{
	struct passing passing = {.point = point, .key = key, .key_bytes = key_bytes};

	/* A decider that allocates passes points itself; those do not count. */
	if (current)
		return 0;
	__atomic_add_fetch(&state.passed_count[point], 1, __ATOMIC_RELAXED);
	current = &passing;
	if (fiu_fail(points[point].name) == 0)
		passing.number = 0;
	current = NULL;
	if (passing.number != 0) {
		__atomic_add_fetch(&state.fired_count[point], 1, __ATOMIC_RELAXED);
		log_first_fire(point);
	}
	return passing.number;
}

static bool refuse(const char *why, const char *what)
{
	fprintf(stderr, "kvhold: fault not armed: %s%s\n", why, what);
	return false;
}

static bool arming_allowed(void)
{
	const char *production = environment("KVH_PRODUCTION");

	if (production && strcmp(production, "1") == 0)
		return refuse("KVH_PRODUCTION=1 is set, and this is the testing library; "
		              "link the shipped one",
		              "");
	return true;
}

/* Seed, start, arm: libfiu crashes when a point is armed before it is started (B43). */
static void start_library(void)
{
	int rc;

	if (state.library_started)
		return;
	fiu_set_prng_seed(LIBFIU_SEED);
	rc = fiu_init(0);
	KVH_CHECK(rc == 0);
	state.library_started = true;
}

static void enable_all_points(void)
{
	start_library();
	if (kvh_faults_armed)
		return;
	read_log_path();
	memset(state.passed_count, 0, sizeof(state.passed_count));
	memset(state.fired_count, 0, sizeof(state.fired_count));
	for (size_t index = 0; index < KVH_FAULT_POINT_COUNT; index++) {
		int rc = fiu_enable_external(points[index].name, 1, NULL, 0, decide);

		KVH_CHECK(rc == 0);
	}
	__atomic_store_n(&kvh_faults_armed, 1, __ATOMIC_RELAXED);
}

static void disable_all_points(void)
{
	if (!kvh_faults_armed)
		return;
	__atomic_store_n(&kvh_faults_armed, 0, __ATOMIC_RELAXED);
	for (size_t index = 0; index < KVH_FAULT_POINT_COUNT; index++) {
		int rc = fiu_disable(points[index].name);

		KVH_CHECK(rc == 0);
	}
}

static bool any_rule(void)
{
	if (state.decider)
		return true;
	for (size_t index = 0; index < KVH_FAULT_POINT_COUNT; index++) {
		if (state.nth_rules[index].nth != 0)
			return true;
	}
	return false;
}

bool kvh_fault_arm(kvh_fault_decider_fn decider, void *user)
{
	if (decider && !arming_allowed())
		return false;
	state.decider = decider;
	state.user = user;
	if (any_rule())
		enable_all_points();
	else
		disable_all_points();
	return true;
}

bool kvh_fault_arm_nth(const char *name, uint64_t nth, int64_t number)
{
	int point = kvh_fault_find(name);

	if (!arming_allowed())
		return false;
	if (point < 0)
		return refuse("no such point, see fault_points.def: ", name);
	if (nth == 0)
		return refuse("passings are counted from 1: ", name);
	if (number == 0)
		return refuse("number 0 means that nothing fires: ", name);
	state.nth_rules[point] = (struct nth_rule){.nth = nth, .number = number};
	enable_all_points();
	return true;
}

void kvh_fault_disarm_all(void)
{
	memset(state.nth_rules, 0, sizeof(state.nth_rules));
	kvh_fault_arm(NULL, NULL);
}

uint64_t kvh_fault_passed(enum kvh_fault_point point)
{
	return __atomic_load_n(&state.passed_count[point], __ATOMIC_RELAXED);
}

uint64_t kvh_fault_fired(enum kvh_fault_point point)
{
	return __atomic_load_n(&state.fired_count[point], __ATOMIC_RELAXED);
}

void kvh_fault_crash(void)
{
	kill(getpid(), SIGKILL);
	for (;;)
		pause();
}

const char *kvh_fault_name(enum kvh_fault_point point)
{
	return points[point].name;
}

int kvh_fault_find(const char *name)
{
	for (int point = 0; point < KVH_FAULT_POINT_COUNT; point++) {
		if (strcmp(points[point].name, name) == 0)
			return point;
	}
	return -1;
}

unsigned kvh_fault_effects(enum kvh_fault_point point)
{
	return points[point].effects;
}

#endif
