/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every crash point of the pool: a process dies there, perhaps a second one while it puts that
 * right, and the others find every committed object, no half-written one, and all of the space.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fault.h"
#include "client.h"
#include "pool/core/area.h"

enum { MIXED_KEYS = SMALL_FROM, BASE_KEYS = 48, TIGHT_BYTES = 2 << 20, ROOMY_BYTES = 32 << 20 };

/* Where and as whom the first process dies. */
struct plan {
	const char *point;
	uint64_t nth;
	const char *second; /* point at which the one that recovers dies; NULL: it lives */
	uint64_t capacity_bytes;
	bool survivor;   /* another process has the pool open all the time */
	bool other_boot; /* the file is one of another boot when the first one opens it */
	bool no_file;    /* the first one makes the file */
};

struct run {
	const struct plan *plan;
	struct journal *journal;
	char url[160];
};

/* ---- the processes ---------------------------------------------------------------------- */

static void put_many(struct client *client, uint64_t from, uint64_t to)
{
	for (uint64_t i = from; i < to; i += TURN_KEYS)
		client_put(client, i, TURN_KEYS, i % 3 ? 0 : KVH_PUT_LIFECYCLE_GROUP);
}

/* Passes every point of a client's life. */
static void live(struct run *run)
{
	struct client client;

	client_open(&client, run->url, run->journal);
	put_many(&client, BASE_KEYS, MIXED_KEYS / 2);
	for (uint64_t i = 0; i < MIXED_KEYS / 4; i++)
		client_get(&client, i);
	client_hold(&client, MIXED_KEYS / 2, TURN_KEYS);
	for (uint64_t i = 0; i < MIXED_KEYS / 2; i += 5)
		client_remove(&client, i);
	put_many(&client, MIXED_KEYS / 2 + TURN_KEYS, MIXED_KEYS);
	client_take_evicted(&client);
	/* So many that the index has buckets which are full. */
	put_many(&client, SMALL_FROM, KEYS_MAX);
	for (uint64_t i = MIXED_KEYS / 2; i < MIXED_KEYS; i += 3)
		client_get(&client, i);
	client_close(&client);
}

static void first_process(void *arg)
{
	struct run *run = arg;

	if (!kvh_fault_arm_nth(run->plan->point, run->plan->nth, 1))
		client_fail("arm", run->plan->nth, 0);
	live(run);
}

static void recovering_process(void *arg)
{
	struct run *run = arg;
	struct client client;

	if (!kvh_fault_arm_nth(run->plan->second, 1, 1))
		client_fail("arm", 1, 0);
	client_open(&client, run->url, run->journal);
	client_get(&client, 0);
	client_close(&client);
}

static void prepare(void *arg)
{
	struct run *run = arg;
	struct client client;

	client_open(&client, run->url, run->journal);
	put_many(&client, 0, BASE_KEYS);
	client_close(&client);
}

/* Opens it anew, which is what buries the dead, and looks at everything. */
static void check(void *arg)
{
	struct run *run = arg;
	struct client client;

	client_open(&client, run->url, run->journal);
	client_check(&client, KEYS_MAX, run->plan->capacity_bytes,
	             run->plan->capacity_bytes == ROOMY_BYTES);
	client_close(&client);
}

/* As if the machine had started again since. */
static void change_boot(const char *path)
{
	int fd = open(path, O_RDWR);
	struct kvh_super *super;
	struct kvh_life life;

	assert_true(fd >= 0);
	super = mmap(NULL, KVH_UNIT_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_true(super != MAP_FAILED);
	life = *kvh_area_life(super);
	life.boot_id[0]++;
	kvh_area_set_life(super, &life);
	munmap(super, KVH_UNIT_BYTES);
	close(fd);
}

/* ---- one plan --------------------------------------------------------------------------- */

static void fail_plan(const struct plan *plan, const char *who, struct ended ended)
{
	fail_msg("%s (passing %llu), then %s; %s pool%s%s%s: %s ended with code %d", plan->point,
	         (unsigned long long)plan->nth, plan->second ? plan->second : "no second death",
	         plan->capacity_bytes == ROOMY_BYTES ? "roomy" : "tight",
	         plan->survivor ? ", with a survivor" : "", plan->other_boot ? ", other boot" : "",
	         plan->no_file ? ", no file" : "", who, ended.code);
}

/* A survivor's pool goes on at once, whatever the dead one held. */
static void use_pool(void *arg)
{
	struct client *client = arg;

	for (uint64_t i = 0; i < MIXED_KEYS; i++)
		client_get(client, i);
	client_put(client, 0, TURN_KEYS, 0);
	client_remove(client, 1);
}

/* True: the first process passed the point so often, and died. */
static bool run_plan(const struct plan *plan)
{
	struct run run = {.plan = plan, .journal = journal_make()};
	struct client survivor;
	struct ended first, other = {.killed = false};

	pool_remove();
	pool_url(run.url, plan->capacity_bytes);
	if (!plan->no_file)
		prepare(&run);
	if (plan->other_boot) {
		change_boot(pool_path());
		memset(run.journal, 0, sizeof(*run.journal));
	}
	if (plan->survivor)
		client_open(&survivor, run.url, run.journal);
	first = run_child(first_process, &run);
	if (!first.killed && first.code != 0)
		fail_plan(plan, "the first process", first);
	if (plan->second)
		other = run_child(recovering_process, &run);
	if (!other.killed && other.code != 0)
		fail_plan(plan, "the recovering process", other);
	if (plan->survivor)
		use_pool(&survivor);
	other = run_child(check, &run);
	if (other.killed || other.code != 0)
		fail_plan(plan, "the check", other);
	if (plan->survivor) {
		use_pool(&survivor);
		client_close(&survivor);
	}
	pool_remove();
	journal_free(run.journal);
	return first.killed;
}

static bool is_crash_point(int point)
{
	return strncmp(kvh_fault_name(point), "pool/", 5) == 0 &&
	       (kvh_fault_effects(point) & KVH_EFFECT_CRASH);
}

/* Ways to have the pool when the first process comes: a bit each. */
enum { WAYS = 6, QUICK_WAYS = 1 << 0 | 1 << 3 | 1 << 4 | 1 << 5, LATER_WAYS = 1 << 0 | 1 << 3 };

/* False: in none of these ways the point is passed. */
static bool run_ways(unsigned ways, const char *point, uint64_t nth, const char *second)
{
	bool fired = false;

	for (unsigned way = 0; way < WAYS; way++) {
		struct plan plan = {.point = point,
		                    .nth = nth,
		                    .second = second,
		                    .capacity_bytes = way % 2 ? TIGHT_BYTES : ROOMY_BYTES,
		                    .survivor = way / 2 == 1,
		                    .other_boot = way == 4,
		                    .no_file = way == 5};

		if (ways >> way & 1)
			fired |= run_plan(&plan);
	}
	return fired;
}

/* ---- tests ------------------------------------------------------------------------------ */

/* Passed by recovery alone: after a death with the lock, or with a session that is left. */
static bool is_recovery(const char *name)
{
	static const char *const names[] = {"pool/lock/take_over", "pool/rebuild",
	                                    "pool/rebuild/reset", "pool/rebuild/slot",
	                                    "pool/rebuild/settled"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strcmp(name, names[i]) == 0)
			return true;
	return false;
}

/*
 * Whether a process dies there that takes the lock over, beside a survivor, from one that died in
 * the middle of a turn.
 */
static bool dies_in_recovery(const char *second)
{
	const struct plan plan = {.point = "pool/reserved",
	                          .nth = 1,
	                          .second = second,
	                          .capacity_bytes = ROOMY_BYTES};
	struct run run = {.plan = &plan, .journal = journal_make()};
	struct client survivor;
	struct ended ended;

	pool_remove();
	pool_url(run.url, plan.capacity_bytes);
	prepare(&run);
	client_open(&survivor, run.url, run.journal);
	run_child(first_process, &run);
	ended = run_child(recovering_process, &run);
	use_pool(&survivor);
	client_close(&survivor);
	pool_remove();
	journal_free(run.journal);
	return ended.killed;
}

/* proves: S-1, S-3, S-5, S-6, S-7, S-11, S-13, S-23, B23 */
static void a_death_at_any_point_loses_nothing(void **state)
{
	(void)state;
	for (int point = 0; point < KVH_FAULT_POINT_COUNT; point++) {
		const char *name = kvh_fault_name(point);

		if (!is_crash_point(point))
			continue;
		if (is_recovery(name))
			assert_true(dies_in_recovery(name));
		else if (!run_ways(QUICK_WAYS, name, 1, NULL))
			fail_msg("nobody passes %s", name);
	}
}

/* proves: S-6, S-7, S-23 */
static void a_second_death_in_recovery_loses_nothing(void **state)
{
	/* With the lock in the middle of a turn; between turns; with pins; at the last mark. */
	static const char *const firsts[] = {"pool/reserved", "pool/index/removed", "pool/commit",
	                                     "pool/pin", "pool/mark"};

	(void)state;
	for (int point = 0; point < KVH_FAULT_POINT_COUNT; point++) {
		const char *name = kvh_fault_name(point);

		if (!is_crash_point(point))
			continue;
		for (size_t i = 0; i < sizeof(firsts) / sizeof(firsts[0]); i++)
			run_ways(LATER_WAYS, firsts[i], 1, name);
	}
}

/* The same, at later passings: other spans, other neighbours, other victims. */
static void deaths_at_later_passings_lose_nothing(void **state)
{
	(void)state;
	for (int point = 0; point < KVH_FAULT_POINT_COUNT; point++) {
		uint64_t nth = 2;

		if (!is_crash_point(point))
			continue;
		while (run_ways(LATER_WAYS, kvh_fault_name(point), nth, NULL))
			nth += 1 + nth / 3;
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest once[] = {cmocka_unit_test(a_death_at_any_point_loses_nothing)};
	const struct CMUnitTest all[] = {
		cmocka_unit_test(a_second_death_in_recovery_loses_nothing),
		cmocka_unit_test(deaths_at_later_passings_lose_nothing),
	};

	if (argc > 1 && strcmp(argv[1], "--all") == 0)
		return cmocka_run_group_tests_name("crash_points_all", all, NULL, NULL);
	return cmocka_run_group_tests_name("crash_points", once, NULL, NULL);
}
