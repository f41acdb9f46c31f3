/* SPDX-License-Identifier: Apache-2.0 */
/* What the worker costs beside the store: saves, loads and polls over stores that answer at once.
 */
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>

#include "cli.h"

enum {
	BLOCK_TOKENS = 16,
	REQUEST_BLOCKS = 512,
	JOBS = 64, /* of a round, each another request's */
	PIECE_BYTES = 64,
	POLLS = 100000,
	IDLE_NS = 200000,       /* a worker's thread sleeps by then */
	WORKER_CASE_SHARE = 60, /* part of the time limit, as in bench_copy.c */
	SEGMENTS_MAX = 160
};

/* One worker over one store. */
struct worker_bench {
	struct kvh_bench *bench;
	struct kvh_store *store;
	struct kvh_worker *worker;
	unsigned char *memory;
	size_t segment_count;
	uint8_t *hashes; /* JOBS * REQUEST_BLOCKS */
	int32_t ids[REQUEST_BLOCKS];
	uint64_t last_job_id;
};

/* One row of the table. bound 0: no target. */
struct worker_case {
	const char *name;
	bool is_lists;
	bool is_present;
	bool is_load;
	double bound[3]; /* per entry of segment_counts */
};

static const size_t segment_counts[] = {1, 64, SEGMENTS_MAX};

static const struct worker_case cases[] = {
	{"save, all new", false, false, false, {0.05, 0.05, 0.05}},
	{"save, all present", false, true, false, {0.10, 0.10, 0.10}},
	{"load", false, true, true, {0.05, 0.05, 0.05}},
	{"save, all new, lists", true, false, false, {0.10, 0.25, 0.45}},
	{"load, lists", true, true, true, {0.10, 0.25, 0.45}},
};

static bool open_worker(struct worker_bench *work)
{
	const struct kvh_group group = {.kind = KVH_ATTENTION_FULL, .block_tokens = BLOCK_TOKENS};
	const struct kvh_worker_config config = {.struct_bytes = sizeof(config),
	                                         .identity = "bench",
	                                         .identity_bytes = 5,
	                                         .model = "bench",
	                                         .groups = &group,
	                                         .group_count = 1,
	                                         .hash_tokens = BLOCK_TOKENS,
	                                         .hash_bytes = KVH_BENCH_HASH_BYTES};
	struct kvh_error error = {0};

	return kvh_bench_ok("worker", kvh_worker_open(work->store, &config, &work->worker, &error),
	                    &error);
}

static bool register_caches(struct worker_bench *work)
{
	const size_t region_bytes = (size_t)PIECE_BYTES * (REQUEST_BLOCKS + 1);
	const struct kvh_memory memory = {.addr = work->memory,
	                                  .bytes = SEGMENTS_MAX * region_bytes,
	                                  .kind = KVH_MEMORY_HOST};
	const uint64_t block_count = REQUEST_BLOCKS + 1;
	struct kvh_cache_region regions[SEGMENTS_MAX];
	const struct kvh_caches caches = {.struct_bytes = sizeof(caches),
	                                  .memory = &memory,
	                                  .memory_count = 1,
	                                  .regions = regions,
	                                  .region_count = work->segment_count,
	                                  .block_counts = &block_count};
	struct kvh_error error = {0};

	for (size_t i = 0; i < work->segment_count; i++)
		regions[i] = (struct kvh_cache_region){.base = work->memory + i * region_bytes,
		                                       .stride_bytes = PIECE_BYTES,
		                                       .block_bytes = PIECE_BYTES};
	return kvh_bench_ok("caches", kvh_worker_register_caches(work->worker, &caches, &error),
	                    &error);
}

static bool open_store(struct worker_bench *work, bool is_lists, bool exists)
{
	struct kvh_error error = {0};

	if (is_lists) {
		work->store = kvh_bench_lists_open(exists);
		return work->store;
	}
	return kvh_bench_ok(
		"null:",
		kvh_store_open(exists ? "null:?exists=1" : "null:", NULL, &work->store, &error),
		&error);
}

static void work_fini(struct worker_bench *work)
{
	size_t left_jobs;

	if (work->worker && kvh_worker_close(work->worker, 0, &left_jobs) == KVH_OK)
		kvh_worker_destroy(work->worker);
	kvh_store_close(work->store, 0);
	kvh_bench_unmap(work->memory, (size_t)SEGMENTS_MAX * PIECE_BYTES * (REQUEST_BLOCKS + 1));
	free(work->hashes);
}

static bool work_init(struct worker_bench *work, struct kvh_bench *bench, size_t segment_count,
                      bool is_lists, bool exists)
{
	*work = (struct worker_bench){.bench = bench, .segment_count = segment_count};
	work->memory = kvh_bench_map((size_t)SEGMENTS_MAX * PIECE_BYTES * (REQUEST_BLOCKS + 1));
	work->hashes = calloc((size_t)JOBS * REQUEST_BLOCKS, KVH_BENCH_HASH_BYTES);
	if (!work->memory || !work->hashes) {
		work_fini(work);
		kvh_bench_ok("memory for the worker", KVH_NO_MEMORY, NULL);
		return false;
	}
	for (size_t i = 0; i < (size_t)JOBS * REQUEST_BLOCKS; i++)
		kvh_bench_hash(work->hashes + i * KVH_BENCH_HASH_BYTES, 0, i);
	for (int32_t i = 0; i < REQUEST_BLOCKS; i++)
		work->ids[i] = i + 1;
	if (open_store(work, is_lists, exists) && open_worker(work) && register_caches(work))
		return true;
	work_fini(work);
	return false;
}

static bool submit_save(struct worker_bench *work, const struct kvh_block_table *blocks,
                        struct kvh_request_id request, const uint8_t *hashes)
{
	const struct kvh_save_job job = {.struct_bytes = sizeof(job),
	                                 .job_id = work->last_job_id,
	                                 .request = request,
	                                 .token_count = (uint64_t)REQUEST_BLOCKS * BLOCK_TOKENS,
	                                 .blocks = blocks,
	                                 .hashes = hashes,
	                                 .hash_count = REQUEST_BLOCKS};
	struct kvh_error error = {0};

	return kvh_bench_ok("save", kvh_worker_save(work->worker, &job, &error), &error);
}

static bool submit_load(struct worker_bench *work, const struct kvh_block_table *blocks,
                        struct kvh_request_id request, const uint8_t *hashes)
{
	const struct kvh_load_job job = {.struct_bytes = sizeof(job),
	                                 .job_id = work->last_job_id,
	                                 .request = request,
	                                 .token_count = (uint64_t)REQUEST_BLOCKS * BLOCK_TOKENS,
	                                 .blocks = blocks,
	                                 .hashes = hashes,
	                                 .hash_count = REQUEST_BLOCKS};
	struct kvh_error error = {0};

	return kvh_bench_ok("load", kvh_worker_load(work->worker, &job, &error), &error);
}

/* The whole of one new request; index: whose hashes. */
static bool submit(struct worker_bench *work, bool is_load, size_t index)
{
	const struct kvh_block_table blocks = {work->ids, REQUEST_BLOCKS};
	const uint8_t *hashes = work->hashes + index * REQUEST_BLOCKS * KVH_BENCH_HASH_BYTES;
	struct kvh_request_id request = {&work->last_job_id, sizeof(work->last_job_id)};

	work->last_job_id++;
	return is_load ? submit_load(work, &blocks, request, hashes)
	               : submit_save(work, &blocks, request, hashes);
}

/* Takes all completions; counts the jobs that ended well. */
static bool collect(struct worker_bench *work, size_t *good_count)
{
	struct kvh_completion completions[JOBS];
	size_t count;

	do {
		if (!kvh_bench_ok("poll",
		                  kvh_worker_poll(work->worker, completions, sizeof(completions[0]),
		                                  JOBS, &count),
		                  NULL))
			return false;
		for (size_t i = 0; i < count; i++)
			*good_count += completions[i].status == KVH_OK &&
			               (completions[i].kind == KVH_SAVE_DONE ||
			                completions[i].kind == KVH_LOAD_DONE);
	} while (count > 0);
	return true;
}

static bool wait_all(struct worker_bench *work)
{
	size_t left_jobs;

	return kvh_bench_ok("drain", kvh_worker_drain(work->worker, NULL, 0, &left_jobs), NULL);
}

/* Every request of the round ends: its state in the worker goes. */
static bool finish_all(struct worker_bench *work, size_t count)
{
	uint64_t names[JOBS];
	struct kvh_request_id requests[JOBS];

	for (size_t i = 0; i < count; i++) {
		names[i] = work->last_job_id - i;
		requests[i] = (struct kvh_request_id){&names[i], sizeof(names[i])};
	}
	return kvh_bench_ok("finish", kvh_worker_finish(work->worker, requests, count), NULL);
}

static bool check_count(size_t good_count, size_t count)
{
	if (good_count == count)
		return true;
	kvh_cli_complain("bench", "%zu of %zu jobs ended well", good_count, count);
	return false;
}

/* Hand-in, the worker's threads and the poll: all that one round of jobs costs this process. */
static bool measure_jobs(struct worker_bench *work, bool is_load, double *cpu_seconds)
{
	double start = kvh_bench_cpu_seconds();
	size_t good_count = 0;

	for (size_t i = 0; i < JOBS; i++) {
		if (!submit(work, is_load, i))
			return false;
	}
	if (!wait_all(work) || !collect(work, &good_count) || !finish_all(work, JOBS))
		return false;
	*cpu_seconds = kvh_bench_cpu_seconds() - start;
	return check_count(good_count, JOBS);
}

static bool measure_rounds(struct worker_bench *work, bool is_load, struct kvh_bench_series *series)
{
	uint64_t limit_ns = work->bench->limit_ns / WORKER_CASE_SHARE;
	uint64_t start_ns = kvh_bench_own_ns(work->bench);
	double cpu_seconds;
	bool ok = measure_jobs(work, is_load, &cpu_seconds);

	while (ok && kvh_bench_goes_on(work->bench, series->count, start_ns, limit_ns)) {
		ok = measure_jobs(work, is_load, &cpu_seconds);
		kvh_bench_add(series, cpu_seconds * 1e6 / (JOBS * REQUEST_BLOCKS));
	}
	return ok;
}

static bool measure_case(struct kvh_bench *bench, const struct worker_case *one, size_t index)
{
	struct kvh_bench_series series = {0};
	struct kvh_bench_figure figure = {
		.unit = "CPU us/key", .series = &series, .target = {"P6", one->bound[index], true}};
	struct worker_bench work;
	char name[64];
	bool ok;

	if (!work_init(&work, bench, segment_counts[index], one->is_lists, one->is_present))
		return false;
	ok = measure_rounds(&work, one->is_load, &series);
	work_fini(&work);
	if (!ok)
		return false;
	snprintf(name, sizeof(name), "%s / %zu", one->name, segment_counts[index]);
	figure.name = name;
	kvh_bench_report(bench, &figure);
	return true;
}

static bool measure_polls(struct worker_bench *work)
{
	struct kvh_bench_series series = {0};
	const struct kvh_bench_figure figure = {
		.name = "poll, nothing there", .unit = "ns", .series = &series};
	struct kvh_completion completion;
	size_t count;

	for (uint32_t round = 0; round < work->bench->rounds; round++) {
		uint64_t start_ns = kvh_bench_now(work->bench);

		for (size_t i = 0; i < POLLS; i++)
			kvh_worker_poll(work->worker, &completion, sizeof(completion), 1, &count);
		kvh_bench_add(&series,
		              (double)(kvh_bench_now(work->bench) - start_ns) / (double)POLLS);
	}
	kvh_bench_report(work->bench, &figure);
	return true;
}

static uint64_t wakeups_of(struct worker_bench *work)
{
	struct kvh_worker_stats stats = {.struct_bytes = sizeof(stats)};

	return kvh_worker_get_stats(work->worker, &stats) == KVH_OK ? stats.wakeups : 0;
}

/* One job at a time, each to a worker that sleeps; or all at once. */
static bool count_wakeups(struct worker_bench *work, bool is_burst, double *per_job)
{
	const struct kvh_env *env = work->bench->env;
	uint64_t before = wakeups_of(work);
	size_t good_count = 0;

	for (size_t i = 0; i < JOBS; i++) {
		if (!submit(work, false, i) || (!is_burst && !wait_all(work)))
			return false;
		if (!is_burst)
			env->ops->sleep_ns(env->ctx, IDLE_NS);
	}
	if (!wait_all(work) || !collect(work, &good_count) || !finish_all(work, JOBS))
		return false;
	*per_job = (double)(wakeups_of(work) - before) / JOBS;
	return check_count(good_count, JOBS);
}

static bool measure_wakeups(struct worker_bench *work, bool is_burst)
{
	struct kvh_bench_series series = {0};
	const struct kvh_bench_figure figure = {.name = is_burst ? "saves handed in at once"
	                                                         : "saves one after another",
	                                        .unit = "wake-ups/job",
	                                        .series = &series,
	                                        .target = {"P9", 1, true}};
	double per_job;

	for (uint32_t round = 0; round < work->bench->rounds; round++) {
		if (!count_wakeups(work, is_burst, &per_job))
			return false;
		kvh_bench_add(&series, per_job);
	}
	kvh_bench_report(work->bench, &figure);
	return true;
}

bool kvh_bench_worker(struct kvh_bench *bench)
{
	const size_t counts = sizeof(segment_counts) / sizeof(segment_counts[0]);
	struct worker_bench work;
	bool ok = true;

	kvh_bench_head(bench,
	               "Worker: job / segments a key; requests of 512 blocks over null: or a store "
	               "with lists");
	for (size_t i = 0; ok && i < sizeof(cases) / sizeof(cases[0]) * counts; i++)
		ok = measure_case(bench, &cases[i / counts], i % counts);
	if (!ok || !work_init(&work, bench, 1, false, false))
		return false;
	ok = measure_polls(&work) && measure_wakeups(&work, false) && measure_wakeups(&work, true);
	work_fini(&work);
	return ok;
}
