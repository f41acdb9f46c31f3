/* SPDX-License-Identifier: Apache-2.0 */
/* `kvhold demo`: replays a conversation trace through the worker and compares every loaded byte. */
#include "demo.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"

static const char default_report[] = "kvhold-demo.html";
static const char slice_name[] = "conversation_slice.jsonl";

enum { PATH_BYTES = 4096, SECONDS_MAX = 86400, RESTART_REQUESTS = 100 };

struct demo_options {
	const char *trace_path, *store_url, *report_path, *json_path;
	uint64_t request_limit, seed, rank_count, seconds;
	bool neighbour, corrupt_one;
	char found_path[PATH_BYTES]; /* of the trace that came along */
};

enum {
	OPT_TRACE = 257,
	OPT_REQUESTS,
	OPT_SEED,
	OPT_STORE,
	OPT_RANKS,
	OPT_REPORT,
	OPT_JSON,
	OPT_LIMIT,
	OPT_NO_NEIGHBOUR,
	OPT_CORRUPT
};

static const struct kvh_cli_option options[] = {
	{"trace", OPT_TRACE, "FILE", "the trace to replay (default: the slice that comes along)"},
	{"requests", OPT_REQUESTS, "N", "replay its first N requests (default: all)"},
	{"seed", OPT_SEED, "N", "decides hashes and block contents (default: 1)"},
	{"store", OPT_STORE, "URL",
         "the store (default: a shared pool of 1536 MiB in /dev/shm\nfor this run; "
         "local:?size=1536MiB where it has no room)"},
	{"ranks", OPT_RANKS, "N", "tensor-parallel ranks, 1 to 8 (default: 2)"},
	{"report", OPT_REPORT, "FILE", "the HTML page (default: kvhold-demo.html), \"\" for none"},
	{"json", OPT_JSON, "FILE",
         "the figures as JSON as well; \"-\" for stdout instead of words"},
	{"time-limit", OPT_LIMIT, "SECONDS",
         "start no request after so long (default: 25; 0: no limit)"},
	{"no-neighbour", OPT_NO_NEIGHBOUR, NULL,
         "leave out the neighbour, who for a while reserves the\nwhole store so that saves meet "
         "\"no space\""},
	{"self-test-corrupt", OPT_CORRUPT, NULL,
         "self-test: flip one bit of the first loaded block; the\ndemo must find it and exit with "
         "1"},
	{NULL, 0, NULL, NULL},
};

static const char about[] =
	"Runs a small model of a serving engine: a scheduler and two ranks with two cache groups\n"
	"(full attention, sliding window) replay recorded conversations. Each request is looked\n"
	"up, what hits is loaded, the rest is \"computed\" (bytes that follow from the hash) and\n"
	"saved; requests are preempted when blocks run out, and the store is smaller than what\n"
	"is saved. Then the engine starts again on the same pool and gets the last requests once\n"
	"more. Every loaded byte is compared with what it must be. Host memory stands in for GPU\n"
	"memory, and blocks are scaled down to 64 KiB a rank. Same seed: same requests, hashes\n"
	"and bytes; how jobs and steps interleave is up to the machine.";

static bool take_number(const char *name, const char *value, uint64_t min, uint64_t max,
                        uint64_t *number)
{
	if (kvh_cli_number(value, min, max, number))
		return true;
	kvh_cli_complain("demo", "--%s %s: a whole number from %llu to %llu is needed", name, value,
	                 (unsigned long long)min, (unsigned long long)max);
	return false;
}

static bool take_option(struct demo_options *chosen, int id, const char *value)
{
	switch (id) {
	case OPT_TRACE:
		chosen->trace_path = value;
		return true;
	case OPT_REQUESTS:
		return take_number("requests", value, 1, KVH_TRACE_REQUESTS_MAX,
		                   &chosen->request_limit);
	case OPT_SEED:
		return take_number("seed", value, 0, UINT64_MAX, &chosen->seed);
	case OPT_STORE:
		chosen->store_url = value;
		return true;
	case OPT_RANKS:
		return take_number("ranks", value, 1, KVH_ENGINE_RANKS_MAX, &chosen->rank_count);
	case OPT_REPORT:
		chosen->report_path = value;
		return true;
	case OPT_JSON:
		chosen->json_path = value;
		return true;
	case OPT_LIMIT:
		return take_number("time-limit", value, 0, SECONDS_MAX, &chosen->seconds);
	case OPT_NO_NEIGHBOUR:
		chosen->neighbour = false;
		return true;
	default:
		chosen->corrupt_one = true;
		return true;
	}
}

static bool readable(char *path, size_t capacity, const char *folder, const char *below)
{
	int bytes = snprintf(path, capacity, "%s%s/%s", folder, below, slice_name);

	return bytes > 0 && (size_t)bytes < capacity && access(path, R_OK) == 0;
}

/* Beside the program (a build folder, a moved install), else where it was to be installed. */
static bool find_trace(char *path, size_t capacity)
{
	char folder[PATH_BYTES];
	ssize_t bytes = readlink("/proc/self/exe", folder, sizeof(folder) - 1);

	if (bytes > 0) {
		folder[bytes] = 0;
		*strrchr(folder, '/') = 0;
		if (readable(path, capacity, folder, "/share/kvhold") ||
		    readable(path, capacity, folder, "/../share/kvhold"))
			return true;
	}
	return readable(path, capacity, KVH_CLI_DATA_DIR, "");
}

/* ---- figures --------------------------------------------------------------------------- */

double kvh_demo_rate(uint64_t bytes, uint64_t ns)
{
	return ns ? (double)bytes / (double)ns : 0;
}

double kvh_demo_share(uint64_t part, uint64_t whole)
{
	return whole ? (double)part / (double)whole : 0;
}

static uint64_t max_u64(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static void add_counts(struct kvh_engine_rank_counts *sum, const struct kvh_engine_rank_counts *one)
{
	sum->loaded_bytes += one->loaded_bytes;
	sum->checked_bytes += one->checked_bytes;
	sum->mismatched_blocks += one->mismatched_blocks;
	sum->failed_blocks += one->failed_blocks;
	sum->refused_saves += one->refused_saves;
	sum->defects += one->defects;
	sum->load_wait_ns_max = max_u64(sum->load_wait_ns_max, one->load_wait_ns_max);
	sum->save_wait_ns_max = max_u64(sum->save_wait_ns_max, one->save_wait_ns_max);
}

static void add_worker(struct kvh_worker_stats *sum, const struct kvh_worker_stats *one)
{
	sum->save_jobs += one->save_jobs;
	sum->save_jobs_stale += one->save_jobs_stale;
	sum->save_jobs_pressure_skipped += one->save_jobs_pressure_skipped;
	sum->save_jobs_failed += one->save_jobs_failed;
	sum->save_keys_present += one->save_keys_present;
	sum->save_keys_put += one->save_keys_put;
	sum->save_keys_failed += one->save_keys_failed;
	sum->load_jobs += one->load_jobs;
	sum->load_jobs_failed += one->load_jobs_failed;
	sum->load_keys += one->load_keys;
	sum->load_keys_failed += one->load_keys_failed;
	sum->load_keys_gone += one->load_keys_gone;
	sum->pressure_episodes += one->pressure_episodes;
	sum->pressure_probes += one->pressure_probes;
	sum->lookups += one->lookups;
	sum->lookup_errors += one->lookup_errors;
	sum->in_doubt_jobs += one->in_doubt_jobs;
}

/* What the pool has is the same for all handles; what was asked is each handle's. */
static void gather_store(struct kvh_demo_result *result)
{
	const struct kvh_demo_store *opened = result->opened;

	result->store.struct_bytes = sizeof(result->store);
	kvh_store_get_stats(opened->handles[0], &result->store);
	for (uint32_t i = 1; i < opened->handle_count; i++) {
		struct kvh_store_stats stats = {.struct_bytes = sizeof(stats)};

		if (kvh_store_get_stats(opened->handles[i], &stats) == KVH_OK)
			result->store.no_space_keys += stats.no_space_keys;
	}
}

static void gather(struct kvh_demo_result *result, const struct kvh_engine *engine)
{
	gather_store(result);
	for (uint32_t r = 0; r < engine->config.rank_count; r++) {
		const struct kvh_engine_rank *rank = &engine->ranks[r];
		struct kvh_worker_stats stats = {.struct_bytes = sizeof(stats)};

		add_counts(&result->counts, &rank->counts);
		if (kvh_worker_get_stats(rank->worker, &stats) == KVH_OK)
			add_worker(&result->worker, &stats);
		result->get_bytes += rank->get_bytes;
		result->get_ns += rank->get_ns;
		result->put_bytes += rank->put_bytes;
		result->put_ns += rank->put_ns;
	}
	result->failures =
		result->counts.mismatched_blocks + result->counts.defects + engine->defects;
	result->restart.request_count = engine->totals.requests_started < RESTART_REQUESTS
	                                        ? engine->totals.requests_started
	                                        : RESTART_REQUESTS;
	result->working_set_bytes =
		engine->config.rank_count *
		(result->reuse.distinct_blocks * kvh_engine_block_bytes(&kvh_engine_groups[0]) +
	         result->reuse.distinct_strides * kvh_engine_block_bytes(&kvh_engine_groups[1]));
}

/* ---- running --------------------------------------------------------------------------- */

static bool show(const struct kvh_demo_result *result, const struct demo_options *chosen)
{
	bool json_only = chosen->json_path && strcmp(chosen->json_path, "-") == 0;
	bool ok = true;

	if (!json_only)
		kvh_demo_print(result);
	if (chosen->json_path) {
		json_t *root = kvh_demo_json(result);

		ok = root && kvh_cli_write_json("demo", root, chosen->json_path);
		json_decref(root);
	}
	if (chosen->report_path[0] == 0)
		return ok;
	if (!kvh_demo_write_report(result, chosen->report_path)) {
		kvh_cli_complain("demo", "%s: the report can't be written: %m",
		                 chosen->report_path);
		return false;
	}
	if (!json_only)
		printf("report: %s\n", chosen->report_path);
	return ok;
}

static void tell_notes(const struct kvh_engine *engine)
{
	for (uint32_t r = 0; r < engine->config.rank_count; r++)
		for (size_t i = 0; i < engine->ranks[r].note_count; i++)
			kvh_cli_complain("demo", "%s", engine->ranks[r].notes[i]);
	if (engine->note[0])
		kvh_cli_complain("demo", "%s", engine->note);
}

/* The run's own words go to stderr. */
static void run_engine(struct kvh_engine *engine)
{
	struct kvh_error error = {0};

	if (kvh_engine_run(engine, &error) != KVH_OK) {
		engine->defects += engine->defects == 0;
		kvh_cli_complain("demo", "the run could not go on: %s", error.text);
	}
	tell_notes(engine);
}

static struct kvh_engine_config config_of(const struct demo_options *chosen,
                                          const struct kvh_demo_store *store,
                                          const struct kvh_trace *trace)
{
	struct kvh_engine_config config = {
		.trace = trace,
		.rank_count = (uint32_t)chosen->rank_count,
		.seed = chosen->seed,
		.time_limit_ns = chosen->seconds * UINT64_C(1000000000),
		.neighbour = chosen->neighbour,
		.corrupt_one = chosen->corrupt_one,
		.progress = isatty(STDERR_FILENO),
	};

	for (uint32_t r = 0; r < config.rank_count; r++)
		config.stores[r] = kvh_demo_store_of(store, r);
	return config;
}

static uint64_t now_ns(void)
{
	const struct kvh_env *env = kvh_env_posix();

	return env->ops->now_ns(env->ctx);
}

/* Takes up the requests that the first run ended with. */
static kvh_status run_again(struct kvh_demo_result *result, const struct kvh_engine_config *config,
                            struct kvh_error *error)
{
	struct kvh_demo_restart *restart = &result->restart;
	struct kvh_engine *engine;
	kvh_status status = kvh_engine_create(config, &engine, error);

	if (status != KVH_OK)
		return status;
	run_engine(engine);
	restart->done = true;
	restart->request_count = engine->totals.requests_done;
	restart->lookup_tokens = engine->totals.lookup_tokens;
	restart->hit_tokens = engine->totals.hit_tokens;
	restart->defects = engine->defects;
	for (uint32_t r = 0; r < config->rank_count; r++) {
		restart->loaded_bytes += engine->ranks[r].counts.loaded_bytes;
		restart->mismatched_blocks += engine->ranks[r].counts.mismatched_blocks;
		restart->defects += engine->ranks[r].counts.defects;
	}
	result->failures += restart->mismatched_blocks + restart->defects;
	return kvh_engine_destroy(engine);
}

static kvh_status start_again(struct kvh_demo_result *result, struct kvh_demo_store *store,
                              const struct demo_options *chosen, const struct kvh_trace *trace,
                              struct kvh_error *error)
{
	uint64_t started = result->engine->totals.requests_started;
	uint64_t count = result->restart.request_count;
	const struct kvh_trace last = {.requests = trace->requests + (started - count),
	                               .request_count = count,
	                               .hash_ids = trace->hash_ids,
	                               .hash_count = trace->hash_count};
	struct kvh_engine_config config;
	kvh_status status = kvh_demo_store_close(store);
	uint64_t begin_ns = now_ns();

	if (status == KVH_OK)
		status = kvh_demo_store_reopen(store, error);
	if (status != KVH_OK)
		return status;
	result->restart.open_ns = now_ns() - begin_ns;
	config = config_of(chosen, store, &last);
	config.neighbour = false;
	config.corrupt_one = false;
	return run_again(result, &config, error);
}

/* Runs, closes, starts again, shows. */
static int run_and_show(struct kvh_engine *engine, struct kvh_demo_store *store,
                        const struct kvh_trace *trace, struct kvh_demo_result *result,
                        const struct demo_options *chosen)
{
	struct kvh_error error = {0};
	kvh_status status;
	bool shown;

	run_engine(engine);
	result->engine = engine;
	gather(result, engine);
	status = kvh_engine_close(engine);
	if (status == KVH_OK && store->shared && engine->status == KVH_OK &&
	    result->restart.request_count)
		status = start_again(result, store, chosen, trace, &error);
	shown = show(result, chosen);
	if (status != KVH_OK) {
		kvh_cli_complain("demo", "closing the engine or starting it again failed: %s",
		                 error.text[0] ? error.text : kvh_strstatus(status));
		return KVH_EXIT_FAILURE;
	}
	if (result->failures)
		return KVH_EXIT_FAILURE;
	return shown ? KVH_EXIT_OK : KVH_EXIT_ENVIRONMENT;
}

static int run_with_store(struct kvh_demo_store *store, const struct kvh_trace *trace,
                          struct kvh_demo_result *result, const struct demo_options *chosen)
{
	const struct kvh_engine_config config = config_of(chosen, store, trace);
	struct kvh_error error = {0};
	struct kvh_engine *engine;
	kvh_status status = kvh_engine_create(&config, &engine, &error);
	int code;

	if (status != KVH_OK) {
		kvh_cli_complain("demo", "%s", error.text[0] ? error.text : kvh_strstatus(status));
		return kvh_cli_exit_of(status);
	}
	code = run_and_show(engine, store, trace, result, chosen);
	status = kvh_engine_destroy(engine);
	if (status == KVH_OK)
		return code;
	kvh_cli_complain("demo", "closing the engine failed: %s", kvh_strstatus(status));
	return KVH_EXIT_FAILURE;
}

/* store: for this call to fill; the result names it. */
static int open_and_run(struct kvh_demo_store *store, const struct kvh_trace *trace,
                        struct kvh_demo_result *result, const struct demo_options *chosen)
{
	struct kvh_error error = {0};
	kvh_status status =
		kvh_demo_store_open(store, chosen->store_url, (uint32_t)chosen->rank_count, &error);
	int code;

	result->opened = store;
	result->store_url = store->url;
	if (status != KVH_OK) {
		kvh_cli_complain("demo", "--store %s: %s", store->url, error.text);
		return kvh_cli_exit_of(status);
	}
	code = run_with_store(store, trace, result, chosen);
	status = kvh_demo_store_close(store);
	kvh_demo_store_remove(store);
	if (status == KVH_OK || code != KVH_EXIT_OK)
		return code;
	kvh_cli_complain("demo", "closing the store failed: %s", kvh_strstatus(status));
	return KVH_EXIT_FAILURE;
}

static bool can_write_files(const struct demo_options *chosen)
{
	return (!chosen->json_path || kvh_cli_can_write("demo", "json", chosen->json_path)) &&
	       (chosen->report_path[0] == 0 ||
	        kvh_cli_can_write("demo", "report", chosen->report_path));
}

static int run_demo(struct demo_options *chosen)
{
	struct kvh_demo_store store;
	struct kvh_demo_result result = {.trace_path = NULL};
	struct kvh_trace trace = {0};
	struct kvh_error error;
	int code = KVH_EXIT_ENVIRONMENT;

	if (!can_write_files(chosen))
		return KVH_EXIT_USAGE;
	if (!chosen->trace_path) {
		if (!find_trace(chosen->found_path, sizeof(chosen->found_path))) {
			kvh_cli_complain("demo", "%s is not installed; name a trace with --trace",
			                 slice_name);
			return KVH_EXIT_ENVIRONMENT;
		}
		chosen->trace_path = chosen->found_path;
	}
	result.trace_path = chosen->trace_path;
	if (kvh_trace_read(chosen->trace_path, chosen->request_limit, &trace, &error) != KVH_OK) {
		kvh_cli_complain("demo", "%s", error.text);
		return KVH_EXIT_USAGE;
	}
	if (kvh_trace_measure(&trace, KVH_ENGINE_LCM_TOKENS / KVH_TRACE_BLOCK_TOKENS,
	                      &result.reuse))
		code = open_and_run(&store, &trace, &result, chosen);
	kvh_trace_fini(&trace);
	return code;
}

int kvh_cli_demo(int argc, char **argv)
{
	struct demo_options chosen = {
		.report_path = default_report,
		.seed = 1,
		.rank_count = 2,
		.seconds = 25,
		.neighbour = true,
	};
	const struct kvh_cli_args args = {
		.command = "demo",
		.usage = "demo [options]",
		.about = about,
		.options = options,
		.argc = argc,
		.argv = argv,
	};
	const char *value;
	int id;

	while ((id = kvh_cli_next(&args, &value)) > 0)
		if (!take_option(&chosen, id, value))
			return KVH_EXIT_USAGE;
	if (id == KVH_CLI_HELP)
		return KVH_EXIT_OK;
	return id == KVH_CLI_END ? run_demo(&chosen) : KVH_EXIT_USAGE;
}
