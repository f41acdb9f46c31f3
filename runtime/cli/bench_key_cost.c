/* SPDX-License-Identifier: Apache-2.0 */
/* What a key costs beside its bytes (P5), and what an object takes beside its payload (P7). */
#include "bench.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench_peer.h"
#include "cli.h"

enum {
	VALUE_BYTES = 64,       /* small, so that bookkeeping is what is seen */
	EXTENT_BYTES = 4096,    /* what a pool gives it */
	MANY_KEYS = 1000000,    /* from here on the looser bound of P5 holds */
	KEY_CASE_SHARE = 8,     /* part of the time limit, as in bench_copy.c */
	PEER_KEYS_MAX = 1000000 /* more would take a peer minutes and GiB */
};

/* What is timed. */
enum key_call { CALL_PUT, CALL_GET, CALL_HIT, CALL_MISS, CALL_EVICT, KEY_CALLS };

struct key_bench {
	struct kvh_bench *bench;
	const char *url; /* as for kvh_bench_store_open */
	struct kvh_store *store;
	kvh_region_id region;
	struct kvh_layout *layout;
	unsigned char *engine;
	unsigned char *extents; /* the limit's */
	size_t engine_bytes;
	size_t extents_bytes;
	uint32_t *order;
	struct kvh_bench_lists lists;
	struct kvh_bench_objects objects; /* put and got, in put order */
	struct kvh_bench_objects present; /* the same keys in another order */
	struct kvh_bench_objects absent;
	struct kvh_bench_series peer_hits;         /* us a key */
	struct kvh_bench_series peer_cpu;          /* us a key */
	struct kvh_bench_series peer_ratios;       /* over kvhold's time */
	struct kvh_bench_series series[KEY_CALLS]; /* us a key, as they are reported */
	struct kvh_bench_series cpu[KEY_CALLS];    /* us a key, the copy of the value included */
};

/* The store of count small objects, over block_count blocks of engine memory. */
static bool open_store(struct key_bench *keys, size_t count, size_t block_count)
{
	const struct kvh_segment_template template = {keys->engine, VALUE_BYTES, VALUE_BYTES};
	struct kvh_error error = {0};

	return kvh_bench_store_open(keys->url, count, EXTENT_BYTES, &keys->store) &&
	       kvh_bench_ok("register",
	                    kvh_store_register(keys->store, keys->engine, keys->engine_bytes,
	                                       KVH_MEMORY_HOST, &keys->region, &error),
	                    &error) &&
	       kvh_bench_ok("layout",
	                    kvh_layout_create(keys->store, &template, 1, block_count, &keys->layout,
	                                      &error),
	                    &error);
}

static bool close_store(struct key_bench *keys)
{
	kvh_layout_destroy(keys->layout);
	keys->layout = NULL;
	return kvh_bench_ok("close", kvh_store_close(keys->store, 0), NULL);
}

static bool init_objects(struct key_bench *keys, size_t count)
{
	if (!kvh_bench_objects_init(&keys->objects, keys->store, keys->layout, keys->order,
	                            count) ||
	    !kvh_bench_objects_init(&keys->present, keys->store, keys->layout, keys->order,
	                            count) ||
	    !kvh_bench_objects_init(&keys->absent, keys->store, keys->layout, keys->order, count))
		return false;
	kvh_bench_objects_shuffle(&keys->present, keys->order);
	kvh_bench_objects_name(&keys->absent, 1, 0);
	return true;
}

/* us a key of one call over all its keys. */
struct key_times {
	double wall[KEY_CALLS];
	double cpu[KEY_CALLS];
};

static bool timed_run(struct key_bench *keys, enum key_call call, struct key_times *times)
{
	static const enum kvh_bench_op ops[] = {KVH_BENCH_PUT, KVH_BENCH_GET, KVH_BENCH_EXISTS,
	                                        KVH_BENCH_EXISTS, KVH_BENCH_PUT};
	static const int64_t expected[] = {KVH_OK, VALUE_BYTES, 1, 0, KVH_OK};
	struct kvh_bench_objects *objects = call == CALL_HIT    ? &keys->present
	                                    : call == CALL_MISS ? &keys->absent
	                                                        : &keys->objects;
	double cpu_start = kvh_bench_cpu_seconds();
	uint64_t start_ns = kvh_bench_now(keys->bench);

	if (!kvh_bench_objects_run(objects, ops[call], expected[call]))
		return false;
	times->wall[call] =
		(double)(kvh_bench_now(keys->bench) - start_ns) / 1e3 / (double)objects->count;
	times->cpu[call] = (kvh_bench_cpu_seconds() - cpu_start) * 1e6 / (double)objects->count;
	return true;
}

/* The limit's copy of the same values, one extent a value as in the pool. */
static double limit_us_per_key(struct key_bench *keys, enum kvh_bench_op op)
{
	uint64_t start_ns = kvh_bench_now(keys->bench);

	if (op == KVH_BENCH_PUT)
		kvh_bench_limit_put(KVH_BENCH_MEMCPY, &keys->lists);
	else
		kvh_bench_limit_get(KVH_BENCH_MEMCPY, &keys->lists);
	return (double)(kvh_bench_now(keys->bench) - start_ns) / 1e3 /
	       (double)keys->lists.object_count;
}

static bool has_peer(const struct key_bench *keys)
{
	return keys->bench->peer && keys->bench->keys <= PEER_KEYS_MAX;
}

/* The peer's exists of as many keys, after kvhold's calls: it takes the caches. */
static bool peer_hits(struct key_bench *keys, double us_per_key, bool counts)
{
	size_t count = keys->objects.count;
	const struct kvh_bench_peer_case one = {KVH_BENCH_EXISTS, VALUE_BYTES, 1, count};
	struct kvh_bench_peer_times times;

	if (!has_peer(keys))
		return true;
	if (!kvh_bench_peer_run(keys->bench->peer, &one, &times, &keys->bench->peer_ns))
		return false;
	if (!counts)
		return true;
	kvh_bench_add(&keys->peer_hits, times.seconds * 1e6 / (double)count);
	kvh_bench_add(&keys->peer_cpu, times.cpu_seconds * 1e6 / (double)count);
	kvh_bench_add(&keys->peer_ratios, times.seconds * 1e6 / (double)count / us_per_key);
	return true;
}

/* New keys into a store that is full: each makes the oldest object leave. */
static bool evicting_run(struct key_bench *keys, struct key_times *times)
{
	bool ok = kvh_bench_objects_run(&keys->absent, KVH_BENCH_PUT, KVH_OK);

	kvh_bench_objects_name(&keys->objects, 2, 0);
	ok = ok && timed_run(keys, CALL_EVICT, times);
	kvh_bench_objects_name(&keys->objects, 0, 0);
	return ok;
}

static bool measure_round(struct key_bench *keys, bool counts)
{
	struct key_times times;
	double limit_put, limit_get;

	if (!kvh_bench_objects_clear(&keys->objects))
		return false;
	limit_put = limit_us_per_key(keys, KVH_BENCH_PUT);
	if (!timed_run(keys, CALL_PUT, &times))
		return false;
	limit_get = limit_us_per_key(keys, KVH_BENCH_GET);
	if (!timed_run(keys, CALL_GET, &times) || !timed_run(keys, CALL_HIT, &times) ||
	    !timed_run(keys, CALL_MISS, &times) || !evicting_run(keys, &times) ||
	    !peer_hits(keys, times.wall[CALL_HIT], counts))
		return false;
	if (!counts)
		return true;
	times.wall[CALL_PUT] -= limit_put;
	times.wall[CALL_EVICT] -= limit_put;
	times.wall[CALL_GET] -= limit_get;
	for (int call = 0; call < KEY_CALLS; call++) {
		kvh_bench_add(&keys->series[call], times.wall[call]);
		kvh_bench_add(&keys->cpu[call], times.cpu[call]);
	}
	return true;
}

static void report_one(struct key_bench *keys, enum key_call call, double bound)
{
	static const char *const names[] = {"put beside the copy", "get beside the copy",
	                                    "exists, present", "exists, absent", "put that evicts"};
	double cpu = kvh_bench_median(&keys->cpu[call]);
	struct kvh_bench_figure figure = {.unit = "us/key",
	                                  .series = &keys->series[call],
	                                  .target = {"P5", bound, true},
	                                  .more = json_pack("{s:f}", "cpu_us_per_key", cpu)};
	char name[64], note[64];

	snprintf(name, sizeof(name), "%s, %zu keys", names[call], keys->objects.count);
	snprintf(note, sizeof(note), "CPU of the call %.3f", cpu);
	figure.name = name;
	figure.note = note;
	kvh_bench_report(keys->bench, &figure);
}

static void report_peer(struct key_bench *keys)
{
	double wall = kvh_bench_median(&keys->peer_hits), cpu = kvh_bench_median(&keys->peer_cpu);
	struct kvh_bench_figure figure = {
		.unit = "x the peer", .series = &keys->peer_ratios, .target = {"P5", 14, false}};
	char name[64], note[128];

	snprintf(name, sizeof(name), "exists, present, peer, %zu keys", keys->objects.count);
	if (!has_peer(keys)) {
		if (keys->bench->peer)
			kvh_bench_skip(keys->bench, name, "too many keys for a peer");
		return;
	}
	snprintf(note, sizeof(note), "peer %.3f us/key; CPU us/key %.3f, peer %.3f", wall,
	         kvh_bench_median(&keys->cpu[CALL_HIT]), cpu);
	figure.name = name;
	figure.note = note;
	figure.more = json_pack("{s:f, s:f}", "peer_us_per_key", wall, "peer_cpu_us_per_key", cpu);
	kvh_bench_report(keys->bench, &figure);
}

static void report_all(struct key_bench *keys)
{
	double exists_bound = keys->objects.count < MANY_KEYS ? 0.05 : 0.10;

	report_one(keys, CALL_HIT, exists_bound);
	report_peer(keys);
	report_one(keys, CALL_MISS, exists_bound);
	report_one(keys, CALL_PUT, 0.25);
	report_one(keys, CALL_EVICT, 0.25);
	report_one(keys, CALL_GET, 0.25);
}

static bool measure(struct key_bench *keys)
{
	uint64_t start_ns = kvh_bench_own_ns(keys->bench);
	uint32_t round = 0;
	bool ok = measure_round(keys, false);

	while (ok && kvh_bench_goes_on(keys->bench, round, start_ns,
	                               keys->bench->limit_ns / KEY_CASE_SHARE)) {
		ok = measure_round(keys, true);
		round++;
	}
	return ok;
}

static void free_all(struct key_bench *keys)
{
	kvh_bench_objects_fini(&keys->objects);
	kvh_bench_objects_fini(&keys->present);
	kvh_bench_objects_fini(&keys->absent);
	free(keys->order);
	kvh_bench_unmap(keys->engine, keys->engine_bytes);
	kvh_bench_unmap(keys->extents, keys->extents_bytes);
}

static bool allocate(struct key_bench *keys, size_t count)
{
	keys->engine_bytes = count * VALUE_BYTES;
	keys->extents_bytes = count * EXTENT_BYTES;
	keys->engine = kvh_bench_map(keys->engine_bytes);
	keys->extents = kvh_bench_map(keys->extents_bytes);
	keys->order = calloc(count, sizeof(*keys->order));
	if (!keys->engine || !keys->extents || !keys->order)
		return kvh_bench_ok("memory for the keys", KVH_NO_MEMORY, NULL);
	kvh_bench_shuffle(keys->order, count);
	keys->lists = (struct kvh_bench_lists){.engine = keys->engine,
	                                       .extents = keys->extents,
	                                       .object_count = count,
	                                       .extent_stride_bytes = EXTENT_BYTES,
	                                       .segment_count = 1,
	                                       .segment_bytes = VALUE_BYTES,
	                                       .order = keys->order};
	return true;
}

bool kvh_bench_per_key(struct kvh_bench *bench)
{
	struct key_bench keys = {.bench = bench, .url = bench->store_url};
	char words[256];
	bool ok;

	snprintf(words, sizeof(words), "Cost of a key: %s, 64 keys a call",
	         kvh_bench_store_name(bench->store_url));
	kvh_bench_head(bench, words);
	ok = allocate(&keys, bench->keys) && open_store(&keys, bench->keys, bench->keys) &&
	     init_objects(&keys, bench->keys) && measure(&keys);
	if (ok)
		report_all(&keys);
	ok = close_store(&keys) && ok;
	free_all(&keys);
	if (ok && bench->keys < 8 * (uint64_t)MANY_KEYS)
		kvh_bench_skip(bench, "exists, 8000000 keys", "run with --keys 8000000");
	return ok;
}

/* Of this process. 0: not known. */
static size_t resident_bytes(void)
{
	const size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
	FILE *file = fopen("/proc/self/statm", "r");
	uint64_t pages = 0;
	char line[128], *rest, *second = NULL;

	if (!file)
		return 0;
	if (fgets(line, sizeof(line), file) && strtok_r(line, " ", &rest))
		second = strtok_r(NULL, " ", &rest);
	fclose(file);
	if (!second || !kvh_cli_number(second, 0, SIZE_MAX / page_bytes, &pages))
		return 0;
	return (size_t)pages * page_bytes;
}

static bool fill(struct key_bench *keys, size_t count)
{
	for (size_t first = 0; first < count; first += keys->objects.count) {
		kvh_bench_objects_name(&keys->objects, 0, first);
		if (!kvh_bench_objects_run(&keys->objects, KVH_BENCH_PUT, KVH_OK))
			return false;
	}
	return true;
}

/* Resident bytes that count objects added, less a 4 KiB extent each. */
static bool measure_space(struct key_bench *keys, size_t count, struct kvh_bench_series *series)
{
	static const uint32_t first_block[KVH_BENCH_BATCH_KEYS];
	size_t before_bytes = resident_bytes();
	size_t after_bytes;

	if (!open_store(keys, count, 1) ||
	    !kvh_bench_objects_init(&keys->objects, keys->store, keys->layout, first_block,
	                            KVH_BENCH_BATCH_KEYS) ||
	    !fill(keys, count))
		return false;
	after_bytes = resident_bytes();
	kvh_bench_add(series,
	              ((double)after_bytes - (double)before_bytes) / (double)count - EXTENT_BYTES);
	return true;
}

bool kvh_bench_space(struct kvh_bench *bench)
{
	size_t count = bench->space_keys / KVH_BENCH_BATCH_KEYS * KVH_BENCH_BATCH_KEYS;
	size_t needed_bytes = count * (EXTENT_BYTES + VALUE_BYTES * 4) * 3 / 2;
	struct kvh_bench_series series = {0};
	struct kvh_bench_figure figure = {.unit = "B/object",
	                                  .series = &series,
	                                  .target = {"P7", 104, true},
	                                  .note = "resident memory less the payload's 4 KiB"};
	struct key_bench keys = {.bench = bench, .engine_bytes = EXTENT_BYTES};
	char name[64];
	bool ok;

	kvh_bench_head(bench, "Space of an object: local:");
	snprintf(name, sizeof(name), "metadata, %zu objects", count);
	figure.name = name;
	if (kvh_bench_own_ns(bench) - bench->started_ns > bench->limit_ns) {
		kvh_bench_skip(bench, name, "the time is over; run with --only space");
		return true;
	}
	if ((size_t)sysconf(_SC_AVPHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE) < needed_bytes) {
		kvh_bench_skip(bench, name, "too little free memory; run with --space-keys less");
		return true;
	}
	keys.engine = kvh_bench_map(keys.engine_bytes);
	if (!keys.engine)
		return kvh_bench_ok("memory for the objects", KVH_NO_MEMORY, NULL);
	ok = measure_space(&keys, count, &series);
	if (ok)
		kvh_bench_report(bench, &figure);
	ok = close_store(&keys) && ok;
	free_all(&keys);
	return ok;
}
