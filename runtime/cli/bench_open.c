/* SPDX-License-Identifier: Apache-2.0 */
/* How long a shared pool takes to open: after a clean close, and after all who had it were killed.
 */
#include "bench.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli.h"

enum { POOL_BYTES_PER_OBJECT = 16384, VALUE_BYTES = 64 };

struct opening {
	struct kvh_bench *bench;
	char path[64], url[128];
	uint64_t count;
};

/* What a process that opened the pool says. */
struct answer {
	double ms;
	uint64_t objects;
};

static bool fill(struct opening *opening)
{
	static const uint32_t first_block[KVH_BENCH_BATCH_KEYS];
	static unsigned char value[VALUE_BYTES];
	const struct kvh_segment_template template = {value, VALUE_BYTES, VALUE_BYTES};
	struct kvh_bench_objects objects = {0};
	struct kvh_layout *layout = NULL;
	struct kvh_store *store;
	kvh_region_id region;
	bool ok;

	if (!kvh_bench_store_open(opening->url, 0, 0, &store))
		return false;
	ok = kvh_bench_ok(
		     "register",
		     kvh_store_register(store, value, VALUE_BYTES, KVH_MEMORY_HOST, &region, NULL),
		     NULL) &&
	     kvh_bench_ok("layout", kvh_layout_create(store, &template, 1, 1, &layout, NULL),
	                  NULL) &&
	     kvh_bench_objects_init(&objects, store, layout, first_block, KVH_BENCH_BATCH_KEYS);
	for (uint64_t first = 0; ok && first < opening->count; first += objects.count) {
		kvh_bench_objects_name(&objects, 0, first);
		ok = kvh_bench_objects_run(&objects, KVH_BENCH_PUT, KVH_OK);
	}
	kvh_bench_objects_fini(&objects);
	kvh_layout_destroy(layout);
	return kvh_bench_ok("close", kvh_store_close(store, 0), NULL) && ok;
}

/* In a process of its own: opens, tells, and closes or dies with the pool open. */
static _Noreturn void open_and_end(const struct opening *opening, int to, bool killed)
{
	struct kvh_store_stats stats = {.struct_bytes = sizeof(stats)};
	uint64_t begin_ns = kvh_bench_now(opening->bench);
	struct answer answer;
	struct kvh_store *store;

	if (kvh_store_open(opening->url, NULL, &store, NULL))
		_exit(1);
	answer.ms = (double)(kvh_bench_now(opening->bench) - begin_ns) / 1e6;
	kvh_store_get_stats(store, &stats);
	answer.objects = stats.objects;
	if (write(to, &answer, sizeof(answer)) != sizeof(answer))
		_exit(1);
	if (killed)
		raise(SIGKILL);
	_exit(kvh_store_close(store, 0) == KVH_OK ? 0 : 1);
}

static bool open_once(const struct opening *opening, bool killed, double *ms)
{
	struct answer answer = {0};
	int ends[2], status = 0;
	ssize_t got = -1;
	pid_t child;

	if (pipe(ends) != 0)
		return false;
	fflush(NULL);
	child = fork();
	if (child == 0)
		open_and_end(opening, ends[1], killed);
	close(ends[1]);
	if (child > 0) {
		got = read(ends[0], &answer, sizeof(answer));
		waitpid(child, &status, 0);
	}
	close(ends[0]);
	if (got != sizeof(answer) || (!killed && status != 0) || answer.objects != opening->count) {
		kvh_cli_complain("bench", "a pool of %llu objects was opened with %llu",
		                 (unsigned long long)opening->count,
		                 (unsigned long long)answer.objects);
		return false;
	}
	*ms = answer.ms;
	return true;
}

/* The round that does not count leaves the pool as the others find it. */
static bool measure(const struct opening *opening, bool killed, struct kvh_bench_series *series)
{
	double ms;

	for (uint32_t round = 0; round <= opening->bench->rounds; round++) {
		if (!open_once(opening, killed, &ms))
			return false;
		if (round > 0)
			kvh_bench_add(series, ms * 1e6 / (double)opening->count);
	}
	return true;
}

static bool measure_both(struct opening *opening)
{
	static struct kvh_bench_series clean, killed;
	const struct kvh_bench_figure figures[] = {
		{"open, cleanly closed",
	         "ms a million objects",
	         &clean,
	         {"opening", 50, true},
	         NULL,
	         NULL},
		{"open, all were killed",
	         "ms a million objects",
	         &killed,
	         {"opening", 100, true},
	         NULL,
	         NULL},
	};

	if (!fill(opening) || !measure(opening, false, &clean) || !measure(opening, true, &killed))
		return false;
	for (size_t i = 0; i < sizeof(figures) / sizeof(figures[0]); i++)
		kvh_bench_report(opening->bench, &figures[i]);
	return true;
}

bool kvh_bench_open(struct kvh_bench *bench)
{
	struct opening opening = {.bench = bench, .count = bench->open_keys};
	struct kvh_error error = {0};
	struct kvh_store *store;
	char words[128];
	bool ok;

	snprintf(words, sizeof(words), "Opening a shared pool: %llu objects",
	         (unsigned long long)opening.count);
	kvh_bench_head(bench, words);
	snprintf(opening.path, sizeof(opening.path), "/dev/shm/kvhold.bench-open-%ld",
	         (long)getpid());
	snprintf(opening.url, sizeof(opening.url), "local://%s?size=%lluMiB", opening.path,
	         (unsigned long long)(opening.count * POOL_BYTES_PER_OBJECT / KVH_BENCH_MIB + 1));
	if (kvh_store_open(opening.url, NULL, &store, &error)) {
		kvh_bench_skip(bench, "opening a shared pool", error.text);
		return true;
	}
	ok = kvh_bench_ok("close", kvh_store_close(store, 0), NULL) && measure_both(&opening);
	unlink(opening.path);
	return ok;
}
