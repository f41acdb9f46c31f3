/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes: put and get through a store against the limits, over the same segments, interleaved. */
#include "bench.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench_peer.h"
#include "cli.h"

enum {
	SHIFT_BYTES = 16,    /* what P4 moves buffers by */
	ENGINE_SLACK = 4096, /* room for the shift */
	DIRECTIONS = 2,      /* KVH_BENCH_PUT, KVH_BENCH_GET */
	RATIOS = 3,
	CASE_SHARE = 40 /* of the run's time limit, one case gets one part of so many */
};

/* What a ratio is taken of. */
enum ratio { OF_STREAM, OF_MEMCPY, OF_BETTER };
static const char *const ratio_units[RATIOS] = {"of NT", "of memcpy", "of the better"};
static const char *const direction_names[DIRECTIONS] = {"put", "get"};

/* The two shapes of a case. bound 0: no target. */
struct copy_case {
	size_t object_bytes;
	size_t segment_count;
	const char *rule;
	enum ratio ratio;
	double bound[DIRECTIONS];
	double cpu_bound; /* seconds per GB */
};

static const struct copy_case cases[] = {
	{4096, 2, "P3", OF_MEMCPY, {0.80, 0.80}, 0},
	{16384, 2, "P3", OF_STREAM, {0.75, 0.75}, 0.16},
	{65536, 2, "P2", OF_STREAM, {0.80, 0.85}, 0},
	{262144, 2, "P1", OF_STREAM, {0.90, 0.90}, 0},
	{1048576, 2, "P1", OF_STREAM, {0.90, 0.90}, 0.10},
	{4194304, 2, "P1", OF_STREAM, {0.90, 0.90}, 0},
	{4096, 1, NULL, OF_MEMCPY, {0, 0}, 0},
	{16384, 1, NULL, OF_STREAM, {0, 0}, 0},
	{65536, 1, NULL, OF_STREAM, {0, 0}, 0},
	{262144, 1, "P1", OF_STREAM, {0.90, 0.90}, 0},
	{1048576, 1, "P1", OF_STREAM, {0.90, 0.90}, 0},
	{4194304, 1, "P1", OF_STREAM, {0.90, 0.90}, 0},
	{4096, 64, NULL, OF_MEMCPY, {0, 0}, 0},
	{65536, 64, "P2", OF_BETTER, {0.90, 0.90}, 0},
	{262144, 64, NULL, OF_STREAM, {0, 0}, 0},
	{1048576, 64, "P2", OF_STREAM, {0.90, 0.90}, 0},
	{4194304, 64, NULL, OF_STREAM, {0, 0}, 0},
};

/* Segments of 4 KiB and more, aligned against shifted. */
static const struct copy_case shift_cases[] = {
	{8192, 2, "P4", OF_STREAM, {0.80, 0.80}, 0},
	{131072, 2, "P4", OF_STREAM, {0.80, 0.80}, 0},
	{1048576, 2, "P4", OF_STREAM, {0.80, 0.80}, 0},
};

/* What kvhold is to be above the peer, by the size of the object; in one or two segments. */
static const struct {
	size_t object_bytes_min;
	const char *rule;
	double bound;
} peer_targets[] = {{262144, "P1", 1.5}, {65536, "P2", 3}, {16384, "P3", 6}, {0, "P3", 8}};

enum { PEER_SEGMENTS_MAX = 2 };

/* What all cases share. */
struct copy_set {
	struct kvh_bench *bench;
	struct kvh_store *store;
	unsigned char *engine;  /* set_bytes + ENGINE_SLACK; word i holds word_of(i) */
	unsigned char *extents; /* set_bytes: where the limits keep the objects */
	size_t set_bytes;
};

struct peer_series {
	struct kvh_bench_series rates;  /* GB/s */
	struct kvh_bench_series cpu;    /* seconds per GB */
	struct kvh_bench_series ratios; /* kvhold's rate over it */
	struct kvh_bench_series limits; /* NT's rate over it */
};

/* One case in the making. */
struct copy_run {
	struct copy_set *set;
	struct kvh_bench_lists lists;
	uint32_t *order;
	struct kvh_layout *layout;
	struct kvh_bench_objects objects;
	struct kvh_bench_series limit_rates[DIRECTIONS][KVH_BENCH_KERNELS]; /* GB/s */
	struct kvh_bench_series rates[DIRECTIONS];
	struct kvh_bench_series ratios[DIRECTIONS][RATIOS];
	struct kvh_bench_series cpu[DIRECTIONS]; /* seconds per GB */
	struct peer_series peer[DIRECTIONS];
};

static uint64_t word_of(size_t index)
{
	return index * UINT64_C(0x9e3779b97f4a7c15);
}

static void engine_fill(struct copy_set *set)
{
	uint64_t *words = (uint64_t *)(void *)set->engine;

	for (size_t i = 0; i < (set->set_bytes + ENGINE_SLACK) / sizeof(*words); i++)
		words[i] = word_of(i);
}

/* Every byte of the engine's memory, beside the objects too. */
static bool engine_check(const struct copy_set *set)
{
	const uint64_t *words = (const uint64_t *)(const void *)set->engine;
	uint64_t difference = 0;

	for (size_t i = 0; i < (set->set_bytes + ENGINE_SLACK) / sizeof(*words); i++)
		difference |= words[i] ^ word_of(i);
	if (difference == 0)
		return true;
	kvh_cli_complain("bench", "WRONG BYTES: what a get wrote is not what was put");
	return false;
}

static double seconds_since(const struct kvh_bench *bench, uint64_t start_ns)
{
	return (double)(kvh_bench_now(bench) - start_ns) * 1e-9;
}

/*
 * The limit's get gives each object's bytes to the next object's block, so that every word of
 * the engine's memory is wrong until the product's get has put it right.
 */
static double limit_seconds(struct copy_run *run, enum kvh_bench_op op,
                            enum kvh_bench_kernel kernel)
{
	uint64_t start_ns = kvh_bench_now(run->set->bench);

	run->lists.order_shift = op == KVH_BENCH_GET;
	if (op == KVH_BENCH_PUT)
		kvh_bench_limit_put(kernel, &run->lists);
	else
		kvh_bench_limit_get(kernel, &run->lists);
	return seconds_since(run->set->bench, start_ns);
}

static double better(double a, double b)
{
	return a < b ? a : b;
}

static bool store_pass(struct copy_run *run, enum kvh_bench_op op, double *seconds,
                       double *cpu_seconds)
{
	int64_t expected =
		op == KVH_BENCH_GET ? (int64_t)kvh_layout_value_bytes(run->layout) : KVH_OK;
	double cpu_start = kvh_bench_cpu_seconds();
	uint64_t start_ns = kvh_bench_now(run->set->bench);

	if (!kvh_bench_objects_run(&run->objects, op, expected))
		return false;
	*seconds = seconds_since(run->set->bench, start_ns);
	*cpu_seconds = kvh_bench_cpu_seconds() - cpu_start;
	return true;
}

static bool has_peer(const struct copy_run *run)
{
	return run->set->bench->peer && run->lists.segment_count <= PEER_SEGMENTS_MAX;
}

/* The peer's pass over the same shape, right after those of NT and kvhold, which took so long. */
static bool peer_pass(struct copy_run *run, enum kvh_bench_op op, double stream_seconds,
                      double seconds, bool counts)
{
	struct kvh_bench *bench = run->set->bench;
	const struct kvh_bench_lists *lists = &run->lists;
	const struct kvh_bench_peer_case one = {op, lists->extent_stride_bytes,
	                                        lists->segment_count, lists->object_count};
	double gigabytes = (double)run->set->set_bytes * 1e-9;
	struct peer_series *series = &run->peer[op];
	struct kvh_bench_peer_times times;

	if (!has_peer(run))
		return true;
	if (!kvh_bench_peer_run(bench->peer, &one, &times, &bench->peer_ns))
		return false;
	if (!counts)
		return true;
	kvh_bench_add(&series->rates, gigabytes / times.seconds);
	kvh_bench_add(&series->cpu, times.cpu_seconds / gigabytes);
	kvh_bench_add(&series->ratios, times.seconds / seconds);
	kvh_bench_add(&series->limits, times.seconds / stream_seconds);
	return true;
}

static bool measure_direction(struct copy_run *run, enum kvh_bench_op op, bool counts)
{
	double gigabytes = (double)run->set->set_bytes * 1e-9;
	double limits[KVH_BENCH_KERNELS];
	double seconds = 0, cpu_seconds = 0, stream;

	for (int kernel = 0; kernel < KVH_BENCH_KERNELS; kernel++)
		limits[kernel] = limit_seconds(run, op, kernel);
	stream = better(limits[KVH_BENCH_STREAM], limits[KVH_BENCH_STREAM_AHEAD]);
	if (!store_pass(run, op, &seconds, &cpu_seconds) ||
	    !peer_pass(run, op, stream, seconds, counts))
		return false;
	if (!counts)
		return true;
	for (int kernel = 0; kernel < KVH_BENCH_KERNELS; kernel++)
		kvh_bench_add(&run->limit_rates[op][kernel], gigabytes / limits[kernel]);
	kvh_bench_add(&run->rates[op], gigabytes / seconds);
	kvh_bench_add(&run->ratios[op][OF_STREAM], stream / seconds);
	kvh_bench_add(&run->ratios[op][OF_MEMCPY], limits[KVH_BENCH_MEMCPY] / seconds);
	kvh_bench_add(&run->ratios[op][OF_BETTER],
	              better(stream, limits[KVH_BENCH_MEMCPY]) / seconds);
	kvh_bench_add(&run->cpu[op], cpu_seconds / gigabytes);
	return true;
}

/* Puts all objects anew and gets them back. */
static bool measure_round(struct copy_run *run, bool counts)
{
	return kvh_bench_objects_clear(&run->objects) &&
	       measure_direction(run, KVH_BENCH_PUT, counts) &&
	       measure_direction(run, KVH_BENCH_GET, counts) && engine_check(run->set);
}

static bool create_layout(struct copy_run *run)
{
	const struct kvh_bench_lists *lists = &run->lists;
	struct kvh_segment_template *templates = calloc(lists->segment_count, sizeof(*templates));
	struct kvh_error error = {0};
	kvh_status status;

	if (!templates)
		return kvh_bench_ok("layout", KVH_NO_MEMORY, NULL);
	for (size_t i = 0; i < lists->segment_count; i++)
		templates[i] = (struct kvh_segment_template){
			.base = lists->engine + i * lists->object_count * lists->segment_bytes,
			.stride_bytes = lists->segment_bytes,
			.bytes = lists->segment_bytes};
	status = kvh_layout_create(run->set->store, templates, lists->segment_count,
	                           lists->object_count, &run->layout, &error);
	free(templates);
	return kvh_bench_ok("layout", status, &error);
}

static void run_fini(struct copy_run *run)
{
	kvh_bench_objects_fini(&run->objects);
	kvh_layout_destroy(run->layout);
	free(run->order);
}

static bool run_init(struct copy_run *run, struct copy_set *set, const struct copy_case *one,
                     size_t shift_bytes)
{
	size_t count = set->set_bytes / one->object_bytes;

	*run = (struct copy_run){.set = set, .order = calloc(count, sizeof(*run->order))};
	if (!run->order)
		return kvh_bench_ok("case", KVH_NO_MEMORY, NULL);
	kvh_bench_shuffle(run->order, count);
	run->lists =
		(struct kvh_bench_lists){.engine = set->engine + shift_bytes,
	                                 .extents = set->extents,
	                                 .object_count = count,
	                                 .extent_stride_bytes = one->object_bytes,
	                                 .segment_count = one->segment_count,
	                                 .segment_bytes = one->object_bytes / one->segment_count,
	                                 .order = run->order};
	if (create_layout(run) &&
	    kvh_bench_objects_init(&run->objects, set->store, run->layout, run->order, count))
		return true;
	run_fini(run);
	return false;
}

static bool close_store(struct copy_set *set)
{
	kvh_status status = kvh_store_close(set->store, 0);

	set->store = NULL;
	return kvh_bench_ok("close", status, NULL);
}

/* A quarter more than the case's objects take, so that no put has to evict. */
static bool open_store(struct copy_set *set, const struct copy_case *one)
{
	size_t engine_bytes = set->set_bytes + ENGINE_SLACK;
	struct kvh_error error = {0};
	kvh_region_id region;

	if (!kvh_bench_store_open(set->bench->store_url, set->set_bytes / one->object_bytes * 5 / 4,
	                          one->object_bytes, &set->store))
		return false;
	if (kvh_bench_ok("register",
	                 kvh_store_register(set->store, set->engine, engine_bytes, KVH_MEMORY_HOST,
	                                    &region, &error),
	                 &error))
		return true;
	close_store(set);
	return false;
}

static uint64_t case_limit_ns(const struct copy_set *set)
{
	return set->bench->limit_ns / CASE_SHARE;
}

static void name_case(char *name, size_t capacity, enum kvh_bench_op op,
                      const struct copy_case *one)
{
	size_t kib = one->object_bytes >> 10;
	bool is_mib = kib >= 1024;

	snprintf(name, capacity, "%s %zu %s / %zu", direction_names[op], is_mib ? kib >> 10 : kib,
	         is_mib ? "MiB" : "KiB", one->segment_count);
}

static json_t *rates_json(const struct copy_run *run, enum kvh_bench_op op)
{
	const struct kvh_bench_series *limits = run->limit_rates[op];

	return json_pack("{s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "memcpy_gb_per_s",
	                 kvh_bench_median(&limits[KVH_BENCH_MEMCPY]), "nt_gb_per_s",
	                 kvh_bench_median(&limits[KVH_BENCH_STREAM]), "nt_ahead_gb_per_s",
	                 kvh_bench_median(&limits[KVH_BENCH_STREAM_AHEAD]), "kvhold_gb_per_s",
	                 kvh_bench_median(&run->rates[op]), "of_nt",
	                 kvh_bench_median(&run->ratios[op][OF_STREAM]), "of_memcpy",
	                 kvh_bench_median(&run->ratios[op][OF_MEMCPY]), "of_better",
	                 kvh_bench_median(&run->ratios[op][OF_BETTER]), "cpu_s_per_gb",
	                 kvh_bench_median(&run->cpu[op]));
}

static void report_rate(const struct copy_run *run, const struct copy_case *one,
                        enum kvh_bench_op op)
{
	const struct kvh_bench_series *limits = run->limit_rates[op];
	struct kvh_bench_figure figure = {.unit = ratio_units[one->ratio],
	                                  .series = &run->ratios[op][one->ratio],
	                                  .more = rates_json(run, op)};
	char name[64], note[128];
	double stream = kvh_bench_median(&limits[KVH_BENCH_STREAM]);
	double ahead = kvh_bench_median(&limits[KVH_BENCH_STREAM_AHEAD]);

	name_case(name, sizeof(name), op, one);
	snprintf(note, sizeof(note), "%5.2f GB/s; memcpy %5.2f, NT %5.2f; of memcpy %.2f",
	         kvh_bench_median(&run->rates[op]), kvh_bench_median(&limits[KVH_BENCH_MEMCPY]),
	         stream > ahead ? stream : ahead, kvh_bench_median(&run->ratios[op][OF_MEMCPY]));
	figure.name = name;
	figure.note = note;
	if (one->rule)
		figure.target =
			(struct kvh_bench_target){.rule = one->rule, .bound = one->bound[op]};
	kvh_bench_report(run->set->bench, &figure);
}

static void report_cpu(const struct copy_run *run, const struct copy_case *one,
                       enum kvh_bench_op op)
{
	struct kvh_bench_figure figure = {.unit = "CPU s/GB",
	                                  .series = &run->cpu[op],
	                                  .target = {"P8", one->cpu_bound, true}};
	char name[64], full_name[80];

	if (one->cpu_bound <= 0)
		return;
	name_case(name, sizeof(name), op, one);
	snprintf(full_name, sizeof(full_name), "%s, CPU", name);
	figure.name = full_name;
	kvh_bench_report(run->set->bench, &figure);
}

static void report_peer(const struct copy_run *run, const struct copy_case *one,
                        enum kvh_bench_op op)
{
	const struct peer_series *series = &run->peer[op];
	double rate = kvh_bench_median(&series->rates), cpu = kvh_bench_median(&series->cpu);
	double own_cpu = kvh_bench_median(&run->cpu[op]);
	double limit = kvh_bench_median(&series->limits);
	struct kvh_bench_figure figure = {.unit = "x the peer", .series = &series->ratios};
	char name[64], full_name[80], note[128];
	size_t row = 0;

	if (!has_peer(run))
		return;
	while (one->object_bytes < peer_targets[row].object_bytes_min)
		row++;
	figure.target = (struct kvh_bench_target){.rule = peer_targets[row].rule,
	                                          .bound = peer_targets[row].bound};
	name_case(name, sizeof(name), op, one);
	snprintf(full_name, sizeof(full_name), "%s, peer", name);
	snprintf(note, sizeof(note), "peer %5.2f GB/s, NT %.1f x it; CPU s/GB %.3f, peer %.3f",
	         rate, limit, own_cpu, cpu);
	figure.name = full_name;
	figure.note = note;
	figure.more = json_pack("{s:f, s:f, s:f, s:f}", "peer_gb_per_s", rate, "nt_over_peer",
	                        limit, "peer_cpu_s_per_gb", cpu, "cpu_s_per_gb", own_cpu);
	kvh_bench_report(run->set->bench, &figure);
}

static bool measure_case(struct copy_set *set, const struct copy_case *one)
{
	uint64_t start_ns = kvh_bench_own_ns(set->bench);
	struct copy_run run;
	uint32_t round = 0;
	bool ok;

	if (!run_init(&run, set, one, 0))
		return false;
	ok = measure_round(&run, false);
	while (ok && kvh_bench_goes_on(set->bench, round, start_ns, case_limit_ns(set))) {
		ok = measure_round(&run, true);
		round++;
	}
	for (int op = KVH_BENCH_PUT; ok && op <= KVH_BENCH_GET; op++) {
		report_rate(&run, one, op);
		report_cpu(&run, one, op);
		report_peer(&run, one, op);
	}
	run_fini(&run);
	return ok;
}

/* Rates of the shifted run over those of the aligned one, round by round. */
static struct kvh_bench_series quotients(const struct kvh_bench_series *shifted,
                                         const struct kvh_bench_series *aligned)
{
	struct kvh_bench_series result = {0};

	for (uint32_t i = 0; i < shifted->count; i++)
		kvh_bench_add(&result, shifted->values[i] / aligned->values[i]);
	return result;
}

static void report_shift(const struct copy_run *aligned, const struct copy_run *shifted,
                         const struct copy_case *one, enum kvh_bench_op op)
{
	struct kvh_bench_series own = quotients(&shifted->rates[op], &aligned->rates[op]);
	struct kvh_bench_series of_memcpy = quotients(&shifted->limit_rates[op][KVH_BENCH_MEMCPY],
	                                              &aligned->limit_rates[op][KVH_BENCH_MEMCPY]);
	struct kvh_bench_figure figure = {
		.unit = "of aligned", .series = &own, .target = {one->rule, one->bound[op], false}};
	char name[64], full_name[96], note[64];

	name_case(name, sizeof(name), op, one);
	snprintf(full_name, sizeof(full_name), "%s, %d B off a line", name, SHIFT_BYTES);
	snprintf(note, sizeof(note), "memcpy's own %.2f", kvh_bench_median(&of_memcpy));
	figure.name = full_name;
	figure.note = note;
	figure.more = json_pack("{s:f}", "memcpy_of_aligned", kvh_bench_median(&of_memcpy));
	kvh_bench_report(aligned->set->bench, &figure);
}

static bool measure_shift(struct copy_set *set, const struct copy_case *one)
{
	uint64_t start_ns = kvh_bench_own_ns(set->bench);
	struct copy_run aligned, shifted;
	uint32_t round = 0;
	bool ok;

	if (!run_init(&aligned, set, one, 0))
		return false;
	if (!run_init(&shifted, set, one, SHIFT_BYTES)) {
		run_fini(&aligned);
		return false;
	}
	ok = measure_round(&aligned, false) && measure_round(&shifted, false);
	while (ok && kvh_bench_goes_on(set->bench, round, start_ns, 2 * case_limit_ns(set))) {
		ok = measure_round(&aligned, true) && measure_round(&shifted, true);
		round++;
	}
	for (int op = KVH_BENCH_PUT; ok && op <= KVH_BENCH_GET; op++)
		report_shift(&aligned, &shifted, one, op);
	run_fini(&shifted);
	run_fini(&aligned);
	return ok;
}

typedef bool (*measure_fn)(struct copy_set *set, const struct copy_case *one);

/* Each case has a store of its own. */
static bool measure_in_store(struct copy_set *set, const struct copy_case *one, measure_fn measure)
{
	bool ok = open_store(set, one) && measure(set, one);

	return close_store(set) && ok;
}

static bool measure_all(struct copy_set *set)
{
	char words[256];
	bool ok = true;

	snprintf(words, sizeof(words),
	         "Copies: object size / segments, %s against plain loops over the same segments",
	         kvh_bench_store_name(set->bench->store_url));
	kvh_bench_head(set->bench, words);
	for (size_t i = 0; ok && i < sizeof(cases) / sizeof(cases[0]); i++)
		ok = measure_in_store(set, &cases[i], measure_case);
	for (size_t i = 0; ok && i < sizeof(shift_cases) / sizeof(shift_cases[0]); i++)
		ok = measure_in_store(set, &shift_cases[i], measure_shift);
	return ok;
}

bool kvh_bench_copies(struct kvh_bench *bench)
{
	struct copy_set set = {.bench = bench, .set_bytes = bench->set_bytes};
	bool ok = false;

	set.engine = kvh_bench_map(set.set_bytes + ENGINE_SLACK);
	set.extents = kvh_bench_map(set.set_bytes);
	if (!set.engine || !set.extents) {
		kvh_bench_ok("memory for the copies", KVH_NO_MEMORY, NULL);
		goto out;
	}
	engine_fill(&set);
	ok = measure_all(&set);
out:
	kvh_bench_unmap(set.extents, set.set_bytes);
	kvh_bench_unmap(set.engine, set.set_bytes + ENGINE_SLACK);
	return ok;
}
