/* SPDX-License-Identifier: Apache-2.0 */
/* Opening a shared pool: at the same moment, without memory, after a close, a kill, a reboot. */
#include "file_fixture.h"

#include <sys/file.h>

#include "base/fault.h"
#include "pool/core/slots.h"
#include "pool/local/shm_lock.h"

enum { BYTES = 5000, OBJECTS = 24 };

/* ---- at the same moment ----------------------------------------------------------------- */

struct race {
	const char *url;
	uint64_t number, other;
	int go, ready, done; /* ends of pipes */
};

/* Opens when the gun goes off, puts one object, and gets the one of the other. */
static void races(const void *ctx)
{
	const struct race *race = ctx;
	struct pool pool;
	char c = 'r';

	CHILD_CHECK(write(race->ready, &c, 1) == 1 && read(race->go, &c, 1) == 1);
	child_opens(&pool, race->url);
	CHILD_CHECK(child_puts(&pool, race->number, BYTES) == 0);
	for (unsigned tries = 0; !child_has(&pool, race->other, BYTES); tries++) {
		CHILD_CHECK(tries < 20000);
		usleep(500);
	}
	/* The other one has it open until it saw this one's object, too. */
	CHILD_CHECK(write(race->done, &c, 1) == 1 && read(race->go, &c, 1) == 1);
	CHILD_CHECK(kvh_store_close(pool.store, 0) == KVH_OK);
}

static void let_race(const char *url)
{
	int go[2], ready[2];
	pid_t children[2];
	char c[2] = "gg";

	assert_int_equal(pipe2(go, O_CLOEXEC), 0);
	assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
	for (uint64_t i = 0; i < 2; i++) {
		const struct race race = {.url = url,
		                          .number = i,
		                          .other = 1 - i,
		                          .go = go[0],
		                          .ready = ready[1],
		                          .done = ready[1]};

		children[i] = run_child(races, &race);
	}
	close(ready[1]);
	for (unsigned turn = 0; turn < 2; turn++) {
		for (unsigned got = 0; got < 2; got++)
			if (read(ready[0], c, 1) != 1)
				break; /* a child ended: it said why */
		assert_int_equal(write(go[1], "gg", 2), 2);
	}
	for (unsigned i = 0; i < 2; i++)
		child_ends_well(children[i]);
	close(ready[0]);
	close(go[0]);
	close(go[1]);
}

static void two_that_make_the_same_pool_share_one(void **state)
{
	struct place place = place_of("pool", "?size=256KiB");

	(void)state;
	for (unsigned round = 0; round < 150; round++) {
		let_race(place.url);
		assert_int_equal(shared_left(), 1);
		assert_int_equal(unlink(place.path), 0);
	}
}

/* The ranks of an engine start together, and its pool takes most of the memory. */
static void two_that_make_a_pool_for_which_there_is_room_once_share_one(void **state)
{
	struct place place;
	char options[64];

	(void)state;
	/* Of a small file system of its own, or of what the machine's own has now. */
	if (!shared.may_mount) {
		print_message("skipped: no file system can be mounted here: %s\n", shared.why_not);
		skip();
	}
	snprintf(options, sizeof(options), "?size=%d", SHM_BYTES / 2);
	place = place_of("pool", options);
	for (unsigned round = 0; round < 10; round++) {
		let_race(place.url);
		assert_int_equal(unlink(place.path), 0);
	}
}

static void holds_the_turn(const void *ctx)
{
	int fd = open(shared.folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	(void)ctx;
	CHILD_CHECK(fd >= 0 && flock(fd, LOCK_EX) == 0);
	raise(SIGSTOP);
}

static void waits_for_stop(pid_t child)
{
	int status;

	assert_int_equal(waitpid(child, &status, WUNTRACED), child);
	assert_true(WIFSTOPPED(status));
}

static void ends_killed(pid_t child)
{
	int status;

	assert_int_equal(kill(child, SIGKILL), 0);
	assert_int_equal(waitpid(child, &status, 0), child);
}

/* proves: S-9 */
static void a_stopped_maker_holds_nobody_up_for_ever(void **state)
{
	struct place place = place_of("pool", "?size=256KiB");
	pid_t child = run_child(holds_the_turn, NULL);
	struct fixed_time time;
	struct pool pool;

	(void)state;
	waits_for_stop(child);
	fixed_time_init(&time);
	shared_open_at(&pool, place.url, &time.env);
	assert_true(time.now_ns >= UINT64_C(1010) * SECOND);
	assert_true(time.now_ns < UINT64_C(1011) * SECOND);
	ends_killed(child);
	pool_close(&pool);
}

static void a_pool_that_is_removed_lives_on_for_those_who_have_it(void **state)
{
	struct place place = place_of("pool", "?size=256KiB");
	struct pool old, new;

	(void)state;
	shared_open(&old, place.url);
	assert_int_equal(put_number(&old, 1, BYTES, NULL), 0);
	assert_int_equal(unlink(place.path), 0);
	shared_open(&new, place.url);
	assert_false(has_number(&new, 1));
	assert_int_equal(put_number(&new, 2, BYTES, NULL), 0);
	assert_false(has_number(&old, 2));
	assert_int_equal(get_number(&old, 1, BYTES), BYTES);
	pool_close(&old);
	/* The old one's end took nothing from the new one. */
	assert_int_equal(get_number(&new, 2, BYTES), BYTES);
	pool_close(&new);
	shared_open(&new, place.url);
	assert_int_equal(get_number(&new, 2, BYTES), BYTES);
	pool_close(&new);
}

/* ---- without memory --------------------------------------------------------------------- */

/* Opens with each allocation failing in turn; returns how many there are. */
static unsigned fail_each(const char *url)
{
	struct kvh_store *store = NULL;
	struct kvh_error error;
	unsigned count = 0;

	for (;;) {
		unsigned files = open_files();
		kvh_status status;

		assert_true(kvh_fault_arm_nth("base/alloc", count + 1, -1));
		status = try_open(url, NULL, &store, &error);
		kvh_fault_disarm_all();
		if (status == KVH_OK)
			break;
		count++;
		assert_true(count < 100);
		assert_int_equal(status, KVH_NO_MEMORY);
		assert_true(error.text[0]);
		assert_int_equal(open_files(), files);
	}
	assert_int_equal(kvh_store_close(store, 0), KVH_OK);
	return count;
}

static void an_open_without_memory_leaves_no_file(void **state)
{
	struct place place = place_of("pool", "?size=256KiB");
	struct kvh_store *store = NULL;
	struct kvh_error error;
	unsigned own = 0;

	(void)state;
	/* Those of the pool come first; a front door that fails later finds a pool, and closes it.
	 */
	while (shared_left() == 0) {
		assert_true(kvh_fault_arm_nth("base/alloc", ++own, -1));
		if (try_open(place.url, NULL, &store, &error) == KVH_OK)
			fail_msg("an open that needs no memory");
		kvh_fault_disarm_all();
	}
	assert_true(own > 3);
	assert_int_equal(unlink(place.path), 0);
	assert_true(fail_each(place.url) >= own);
	make_pool(place_of("pool", "").url);
}

static void an_open_without_memory_harms_no_pool(void **state)
{
	struct place place = place_of("pool", "?size=256KiB");
	struct pool pool, other;

	(void)state;
	shared_open(&pool, place.url);
	assert_int_equal(put_number(&pool, 1, BYTES, NULL), 0);
	/* While another has it open, and alone. */
	assert_true(fail_each(place.url) > 0);
	assert_int_equal(get_number(&pool, 1, BYTES), BYTES);
	pool_close(&pool);
	assert_true(fail_each(place.url) > 0);
	shared_open(&pool, place.url);
	shared_open(&other, place.url);
	assert_int_equal(get_number(&pool, 1, BYTES), BYTES);
	assert_int_equal(get_number(&other, 1, BYTES), BYTES);
	pool_close(&other);
	pool_close(&pool);
}

/* ---- sessions and gates ----------------------------------------------------------------- */

/* proves: S-6 */
static void the_257th_session_is_refused_until_one_ends(void **state)
{
	static struct kvh_store *stores[KVH_SESSIONS_MAX];
	struct place place = place_of("pool", "?size=256KiB");
	struct kvh_error error;
	struct mapped mapped;
	struct rlimit files;
	uint64_t serial;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
	assert_true(files.rlim_max > KVH_SESSIONS_MAX + 16);
	files.rlim_cur = files.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);
	for (unsigned i = 0; i < KVH_SESSIONS_MAX; i++)
		if (try_open(place.url, NULL, &stores[i], &error))
			fail_msg("session %u: %s", i, error.text);
	refused(place.url, KVH_BUSY, "256 sessions have it open, no more fit");
	mapped = map_pool(place.path);
	serial = atomic_load(&mapped.fixed->sessions[100].serial);
	assert_int_equal(kvh_store_close(stores[100], 0), KVH_OK);
	assert_int_equal(try_open(place.url, NULL, &stores[100], &error), KVH_OK);
	/* The record again, never the serial. */
	assert_true(atomic_load(&mapped.fixed->sessions[100].serial) > serial);
	unmap_pool(&mapped);
	for (unsigned i = 0; i < KVH_SESSIONS_MAX; i++)
		assert_int_equal(kvh_store_close(stores[i], 0), KVH_OK);
}

static void holds_the_gate(const void *ctx)
{
	int fd = open(ctx, O_RDWR | O_CLOEXEC);

	CHILD_CHECK(fd >= 0 && kvh_byte_lock(fd, KVH_BYTE_GATE));
	raise(SIGSTOP);
}

/* proves: S-9 */
static void a_gate_that_a_stopped_process_holds_ends_in_words(void **state)
{
	struct place place = place_of("pool", "?size=256KiB");
	struct kvh_store *store;
	struct kvh_error error;
	struct fixed_time time;
	pid_t child;

	(void)state;
	make_pool(place.url);
	child = run_child(holds_the_gate, place.path);
	waits_for_stop(child);
	/* Sleeping is what lets this time pass: ten seconds of it are soon over. */
	fixed_time_init(&time);
	assert_int_equal(try_open(place.url, &time.env, &store, &error), KVH_TIMEOUT);
	assert_non_null(strstr(error.text, "opening or closing it for 10 s; is one stopped?"));
	assert_true(time.now_ns >= UINT64_C(1010) * SECOND);
	assert_true(time.now_ns < UINT64_C(1011) * SECOND);
	ends_killed(child);
	make_pool(place.url);
}

/* Every look at this clock takes a second. */
static uint64_t hasty_now(void *ctx)
{
	fixed_sleep(ctx, SECOND);
	return fixed_now(ctx);
}

static void holds_the_lock(const void *ctx)
{
	struct pool pool;
	struct mapped mapped = map_pool(ctx);
	char url[256];

	snprintf(url, sizeof(url), "local://%s", (const char *)ctx);
	child_opens(&pool, url);
	atomic_store(&mapped.fixed->super.lock,
	             (uint32_t)atomic_load(&mapped.fixed->sessions[0].serial));
	raise(SIGSTOP);
}

/* proves: S-5, S-9 */
static void a_lock_that_a_stopped_process_holds_ends_in_words(void **state)
{
	struct place place = place_of("pool", "?size=256KiB");
	struct kvh_store *store;
	struct kvh_error error;
	struct fixed_time time;
	struct pool pool;
	pid_t child;

	(void)state;
	make_pool(place.url);
	child = run_child(holds_the_lock, place.path);
	waits_for_stop(child);
	fixed_time_init(&time);
	time.ops.now_ns = hasty_now;
	assert_int_equal(try_open(place.url, &time.env, &store, &error), KVH_TIMEOUT);
	assert_non_null(strstr(error.text, "held the pool's lock for 10 s; is one stopped?"));
	/* Only its death ends it: then the next one takes over. */
	ends_killed(child);
	shared_open(&pool, place.url);
	assert_int_equal(put_number(&pool, 1, BYTES, NULL), 0);
	pool_close(&pool);
}

/* ---- again ------------------------------------------------------------------------------ */

static size_t bytes_of(uint64_t number)
{
	return 1 + number * 1009 % (3 * BYTES);
}

static void fill(struct pool *pool)
{
	for (uint64_t i = 0; i < OBJECTS; i++)
		assert_int_equal(put_number(pool, i, bytes_of(i), NULL), 0);
}

static void has_all(struct pool *pool)
{
	for (uint64_t i = 0; i < OBJECTS; i++)
		assert_int_equal(get_number(pool, i, bytes_of(i)), bytes_of(i));
}

static uint64_t rebuilds(const char *path)
{
	struct mapped mapped = map_pool(path);
	uint64_t counter = atomic_load(&mapped.fixed->super.rebuild_counter);

	unmap_pool(&mapped);
	return counter;
}

static void what_was_closed_well_is_there_without_a_rebuild(void **state)
{
	struct place place = place_of("pool", "?size=1MiB");
	uint64_t before;
	struct pool pool;

	(void)state;
	shared_open(&pool, place.url);
	fill(&pool);
	pool_close(&pool);
	before = rebuilds(place.path);
	/* Again and again, and with another session between. */
	for (unsigned i = 0; i < 3; i++) {
		struct pool other;

		shared_open(&pool, place_of("pool", "").url);
		shared_open(&other, place_of("pool", "").url);
		has_all(&pool);
		has_all(&other);
		pool_close(&pool);
		assert_int_equal(put_number(&other, 100 + i, BYTES, NULL), 0);
		pool_close(&other);
	}
	assert_int_equal(rebuilds(place.path), before);
}

static void fills_and_is_killed(const void *ctx)
{
	const struct kvh_put_options hold = {.struct_bytes = sizeof(hold), .flags = KVH_PUT_HOLD};
	struct kvh_token token;
	struct kvh_put_options options = hold;
	struct pool pool;
	struct numbered n;
	uint64_t held = 1000;

	child_opens(&pool, ctx);
	for (uint64_t i = 0; i < OBJECTS; i++)
		CHILD_CHECK(child_puts(&pool, i, bytes_of(i)) == 0);
	options.tokens = &token;
	numbered_make(&n, &pool, &held, 1, BYTES);
	CHILD_CHECK(kvh_store_put(pool.store, &n.batch, &options, NULL) == KVH_OK);
	CHILD_CHECK(n.results[0].value == 0);
	raise(SIGKILL);
}

/* proves: S-7, S-23 */
static void what_was_committed_before_a_kill_is_there_after_a_rebuild(void **state)
{
	struct place place = place_of("pool", "?size=1MiB");
	struct kvh_store_stats stats;
	struct pool pool;
	uint64_t before;
	pid_t child;
	int status;

	(void)state;
	make_pool(place.url);
	before = rebuilds(place.path);
	child = run_child(fills_and_is_killed, place.url);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	shared_open(&pool, place.url);
	assert_int_equal(rebuilds(place.path), before + 2);
	has_all(&pool);
	assert_false(has_number(&pool, 1000));
	stats = pool_stats(&pool);
	assert_int_equal(stats.objects, OBJECTS);
	assert_int_equal(stats.reserved_objects, 0);
	pool_close(&pool);
	assert_int_equal(rebuilds(place.path), before + 2);
}

/* ---- another boot ----------------------------------------------------------------------- */

/* As a file on a disk is after a reboot: nobody knows what of it was written back. */
static uint64_t becomes_of_another_boot(const char *path, uint64_t time_base)
{
	struct mapped mapped = map_pool(path);
	struct kvh_super *super = &mapped.fixed->super;
	struct kvh_life *life = &super->lives[kvh_area_life(super) - super->lives];
	uint64_t epoch = life->epoch;

	life->boot_id[0] ^= 1;
	seal_life(life);
	atomic_store(&super->time_base, time_base);
	unmap_pool(&mapped);
	return epoch;
}

static uint64_t epoch_of(const char *path)
{
	struct mapped mapped = map_pool(path);
	uint64_t epoch = kvh_area_life(&mapped.fixed->super)->epoch;

	unmap_pool(&mapped);
	return epoch;
}

static void a_pool_of_another_boot_is_empty_and_of_a_new_epoch(void **state)
{
	struct place place = place_of("pool", "?size=1MiB");
	struct kvh_store_stats stats;
	struct pool pool;

	(void)state;
	for (unsigned boots = 0; boots < 5; boots++) {
		uint64_t epoch;

		shared_open(&pool, place.url);
		if (boots == 0)
			fill(&pool);
		pool_close(&pool);
		epoch = becomes_of_another_boot(place.path, 1);
		shared_open(&pool, place_of("pool", "").url);
		assert_true(epoch_of(place.path) != epoch);
		stats = pool_stats(&pool);
		assert_int_equal(stats.objects, 0);
		assert_int_equal(stats.used_bytes, 0);
		for (uint64_t i = 0; i < OBJECTS; i++)
			assert_int_equal(get_number(&pool, i, bytes_of(i)), KVH_OBJECT_NOT_FOUND);
		fill(&pool);
		has_all(&pool);
		pool_close(&pool);
		epoch = epoch_of(place.path);
		shared_open(&pool, place.url);
		has_all(&pool);
		assert_true(epoch_of(place.path) == epoch);
		pool_close(&pool);
	}
}

/* The clock of the boot before stood higher: what expires now must not wait for it. */
static void times_begin_anew_with_a_boot(void **state)
{
	const struct kvh_put_options soon = {.struct_bytes = sizeof(soon), .expire_seconds = 60};
	struct place place = place_of("pool", "?size=1MiB");
	struct fixed_time time;
	struct pool pool;

	(void)state;
	make_pool(place.url);
	becomes_of_another_boot(place.path, UINT64_C(10000000));
	fixed_time_init(&time);
	shared_open_at(&pool, place.url, &time.env);
	assert_int_equal(put_number(&pool, 1, BYTES, &soon), 0);
	assert_true(has_number(&pool, 1));
	time.now_ns += UINT64_C(120) * SECOND;
	assert_false(has_number(&pool, 1));
	pool_close(&pool);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		shared_test(two_that_make_the_same_pool_share_one),
		shared_test(two_that_make_a_pool_for_which_there_is_room_once_share_one),
		shared_test(a_stopped_maker_holds_nobody_up_for_ever),
		shared_test(a_pool_that_is_removed_lives_on_for_those_who_have_it),
		shared_test(an_open_without_memory_leaves_no_file),
		shared_test(an_open_without_memory_harms_no_pool),
		shared_test(the_257th_session_is_refused_until_one_ends),
		shared_test(a_gate_that_a_stopped_process_holds_ends_in_words),
		shared_test(a_lock_that_a_stopped_process_holds_ends_in_words),
		shared_test(what_was_closed_well_is_there_without_a_rebuild),
		shared_test(what_was_committed_before_a_kill_is_there_after_a_rebuild),
		shared_test(a_pool_of_another_boot_is_empty_and_of_a_new_epoch),
		shared_test(times_begin_anew_with_a_boot),
	};

	shared_begin();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
