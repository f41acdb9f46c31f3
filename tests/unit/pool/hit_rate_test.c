/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hit rates of the two public traces, block by block: the core against an independent exact LRU,
 * without touch slack and with the slack of a pool that processes share.
 */
#include "core_fixture.h"

#include <stdio.h>
#include <sys/mman.h>

#include "cli/trace.h"

enum {
	OBJECT_UNITS = 4 /* a pool has a slot for each of these: nothing else limits it */
};

#define RATE_ERROR_MAX 0.02 /* of the exact rate */

static const char *const traces[] = {"conversation_trace", "synthetic_trace"};
/* Of a trace's distinct blocks. */
static const unsigned capacity_percents[] = {5, 20, 50};

struct replay {
	struct kvh_trace trace;
	uint32_t distinct;
	uint32_t capacity; /* objects */
	uint32_t prefix;
	struct core_fixture fixture;
	size_t memory_bytes;
};

/* Blocks found, and those of them that an engine could load: all before them were found, too. */
struct hits {
	uint64_t blocks;
	uint64_t leading;
	uint64_t order; /* of all answers: the same number, the same answers */
};

static void count_answer(struct hits *hits, bool hit, bool *leads)
{
	*leads = *leads && hit;
	hits->blocks += hit;
	hits->leading += *leads;
	hits->order = (hits->order ^ (hit ? 2 : 1)) * UINT64_C(0x100000001b3);
}

/* ---- exact LRU: a list of block ids, youngest first ---------------------------------------- */

struct exact {
	uint32_t *older, *younger; /* of an id; KVH_NONE: no more */
	bool *present;
	uint32_t youngest, oldest, count;
};

static void exact_unlink(struct exact *exact, uint32_t id)
{
	uint32_t older = exact->older[id], younger = exact->younger[id];

	*(younger == KVH_NONE ? &exact->youngest : &exact->older[younger]) = older;
	*(older == KVH_NONE ? &exact->oldest : &exact->younger[older]) = younger;
}

static void exact_link(struct exact *exact, uint32_t id)
{
	exact->older[id] = exact->youngest;
	exact->younger[id] = KVH_NONE;
	*(exact->youngest == KVH_NONE ? &exact->oldest : &exact->younger[exact->youngest]) = id;
	exact->youngest = id;
}

/* Whether the block is there; then it is, as the youngest. */
static bool exact_use(struct exact *exact, uint32_t id, uint32_t capacity)
{
	bool hit = exact->present[id];

	if (hit) {
		exact_unlink(exact, id);
	} else if (exact->count == capacity) {
		exact->present[exact->oldest] = false;
		exact_unlink(exact, exact->oldest);
	} else {
		exact->count++;
	}
	exact_link(exact, id);
	exact->present[id] = true;
	return hit;
}

static struct hits exact_replay(const struct replay *replay)
{
	struct exact exact = {.older = calloc(replay->distinct, sizeof(uint32_t)),
	                      .younger = calloc(replay->distinct, sizeof(uint32_t)),
	                      .present = calloc(replay->distinct, sizeof(bool)),
	                      .youngest = KVH_NONE,
	                      .oldest = KVH_NONE};
	struct hits hits = {0};

	assert_true(exact.older && exact.younger && exact.present);
	for (size_t i = 0; i < replay->trace.request_count; i++) {
		const struct kvh_trace_request *request = &replay->trace.requests[i];
		const uint64_t *ids = replay->trace.hash_ids + request->hash_first;
		bool leads = true;

		for (size_t k = 0; k < request->hash_count; k++)
			count_answer(&hits, exact_use(&exact, (uint32_t)ids[k], replay->capacity),
			             &leads);
	}
	free(exact.older);
	free(exact.younger);
	free(exact.present);
	return hits;
}

/* ---- the core ------------------------------------------------------------------------------ */

/* As exact_use. A hit is a use as a get's is. */
static bool core_use(struct replay *replay, uint64_t id)
{
	struct core_fixture *fixture = &replay->fixture;
	struct kvh_stored_key key = fixture_key(fixture, replay->prefix, id);
	struct kvh_core_ref ref = kvh_core_find(&fixture->core, &key, 0, fixture_unit(fixture));
	struct kvh_reserve_key one;

	if (ref.slot != KVH_NONE) {
		kvh_core_touch(&fixture->core, &ref, 1, fixture_unit(fixture));
		return true;
	}
	one = fixture_reserve_one(fixture, &key, OBJECT_UNITS * KVH_UNIT_BYTES, 0);
	assert_int_equal(one.status, KVH_OK);
	assert_int_equal(fixture_commit(fixture, one.ref), KVH_OK);
	return false;
}

static struct hits core_replay(struct replay *replay, uint32_t touch_share)
{
	struct core_fixture *fixture = &replay->fixture;
	struct hits hits = {0};

	fixture_begin(fixture, replay->capacity * OBJECT_UNITS);
	fixture->core.touch_share = touch_share;
	replay->prefix = fixture_prefix(fixture, "p@", 0, 0, 32);
	for (size_t i = 0; i < replay->trace.request_count; i++) {
		const struct kvh_trace_request *request = &replay->trace.requests[i];
		const uint64_t *ids = replay->trace.hash_ids + request->hash_first;
		bool leads = true;

		for (size_t k = 0; k < request->hash_count; k++)
			count_answer(&hits, core_use(replay, ids[k]), &leads);
	}
	/* Full, or the capacity would not have been tried. */
	assert_int_equal(fixture_used_units(fixture), replay->capacity * OBJECT_UNITS);
	fixture_end(fixture);
	return hits;
}

/* ---- the comparison ------------------------------------------------------------------------ */

static double rate_of(const struct replay *replay, uint64_t hits)
{
	return (double)hits / (double)replay->trace.hash_count;
}

/* |difference| over the exact rate. */
static double rate_error(uint64_t hits, uint64_t exact)
{
	assert_true(exact > 0);
	return (hits > exact ? (double)(hits - exact) : (double)(exact - hits)) / (double)exact;
}

static double worst_error(const struct hits *hits, const struct hits *exact)
{
	double blocks = rate_error(hits->blocks, exact->blocks);
	double leading = rate_error(hits->leading, exact->leading);

	return blocks > leading ? blocks : leading;
}

static void print_rates(const char *trace, const struct replay *replay, const char *name,
                        const struct hits *hits)
{
	print_message("%s, room for %u of %u blocks, %s: %.4f of all blocks hit, %.4f in front\n",
	              trace, replay->capacity, replay->distinct, name,
	              rate_of(replay, hits->blocks), rate_of(replay, hits->leading));
}

static void read_trace(const char *name, struct replay *replay)
{
	struct kvh_error error = {0};
	char path[1024];
	uint64_t id_max = 0;

	snprintf(path, sizeof(path), "%s/traces/%s.jsonl", getenv("KVH_TEST_DATA"), name);
	if (kvh_trace_read(path, 0, &replay->trace, &error))
		fail_msg("%s", error.text);
	for (size_t i = 0; i < replay->trace.hash_count; i++)
		if (replay->trace.hash_ids[i] > id_max)
			id_max = replay->trace.hash_ids[i];
	/* The ids of these traces count up. */
	assert_true(id_max < replay->trace.hash_count);
	replay->distinct = (uint32_t)id_max + 1;
}

/* Payload is never touched, so the memory is only asked for, not used. */
static void map_memory(struct replay *replay)
{
	struct kvh_geometry geometry;
	uint64_t bytes = (uint64_t)replay->distinct * OBJECT_UNITS * KVH_UNIT_BYTES;

	assert_int_equal(kvh_geometry_make(bytes, false, &geometry), KVH_OK);
	replay->memory_bytes = geometry.area_bytes;
	replay->fixture.memory = mmap(NULL, replay->memory_bytes, PROT_READ | PROT_WRITE,
	                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	assert_true(replay->fixture.memory != MAP_FAILED);
	replay->fixture.memory_bytes = replay->memory_bytes;
}

/* All capacities of one trace. */
static void compare_trace(const char *name)
{
	struct replay replay = {0};
	double whole_error = 0;

	read_trace(name, &replay);
	map_memory(&replay);
	for (unsigned i = 0; i < COUNT_OF(capacity_percents); i++) {
		struct hits exact, none, shared, whole;

		replay.capacity = replay.distinct * capacity_percents[i] / 100;
		exact = exact_replay(&replay);
		none = core_replay(&replay, 0);
		shared = core_replay(&replay, KVH_SHARED_TOUCH_SHARE);
		whole = core_replay(&replay, 1);
		print_rates(name, &replay, "exact LRU", &exact);
		print_rates(name, &replay, "slack objects/64", &shared);
		print_rates(name, &replay, "slack objects", &whole);
		assert_memory_equal(&none, &exact, sizeof(exact));
		assert_true(worst_error(&shared, &exact) <= RATE_ERROR_MAX);
		if (worst_error(&whole, &exact) > whole_error)
			whole_error = worst_error(&whole, &exact);
	}
	/* The trace does tell a slack that is too large: this one is close to FIFO. */
	assert_true(whole_error > RATE_ERROR_MAX);
	munmap(replay.fixture.memory, replay.memory_bytes);
	kvh_trace_fini(&replay.trace);
}

/* Rates are at most 1, so that it is at most two points, too. */
static void a_shared_pools_slack_costs_at_most_2_percent_of_the_hits(void **state)
{
	(void)state;
	for (unsigned i = 0; i < COUNT_OF(traces); i++)
		compare_trace(traces[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_shared_pools_slack_costs_at_most_2_percent_of_the_hits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
