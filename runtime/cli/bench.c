/* SPDX-License-Identifier: Apache-2.0 */
/* `kvhold bench`: measures the shipped library against the machine's limits, in one process. */
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench_peer.h"
#include "cli.h"

enum {
	ROUNDS = 7,
	SECONDS = 60,
	PEER_SECONDS = 120, /* for one answer, the first among them */
	SET_MIB = 256,
	SET_MIB_MAX = 1 << 20,
	KEYS = 100000,
	KEYS_MAX = 1 << 26,
	SPACE_KEYS = 1000000,
	OPEN_KEYS = 1 << 17
};

#define SECOND_NS UINT64_C(1000000000)

enum option_id {
	OPTION_ROUNDS = 256 + 1,
	OPTION_SECONDS,
	OPTION_SET,
	OPTION_KEYS,
	OPTION_SPACE_KEYS,
	OPTION_OPEN_KEYS,
	OPTION_ONLY,
	OPTION_STORE,
	OPTION_PEER,
	OPTION_PEER_SECONDS,
	OPTION_NO_PEER,
	OPTION_JSON
};

static const struct kvh_cli_option options[] = {
	{"rounds", OPTION_ROUNDS, "N", "measured rounds of each case (default 7)"},
	{"seconds", OPTION_SECONDS, "N",
         "time for the whole run (default 60); a case that is out\nof its share ends after 3 "
         "rounds, beside a peer after\nall, when half of the time is over after 1"},
	{"set", OPTION_SET, "MIB",
         "MiB copied in each pass, a power of two (default 256);\nengine and store memory together "
         "are twice that and\nshould exceed the last-level cache"},
	{"keys", OPTION_KEYS, "N", "keys of the per-key figures (default 100000)"},
	{"space-keys", OPTION_SPACE_KEYS, "N",
         "objects of the figure of bytes an object (default\n1000000)"},
	{"open-keys", OPTION_OPEN_KEYS, "N",
         "objects of the shared pool that is opened (default\n131072); each takes 16 KiB of "
         "/dev/shm"},
	{"only", OPTION_ONLY, "PART", "copies, keys, space, open or worker"},
	{"store", OPTION_STORE, "URL",
         "the store of the copies and the keys (default: a pool in\nthis process, made for each "
         "case); it is EMPTIED before\neach round, and needs room for a quarter more than --set\n"
         "and for 16 KiB a key"},
	{"peer", OPTION_PEER, "COMMAND",
         "measure another store beside kvhold in each round: a\nsimple command that answers the "
         "lines in\nruntime/cli/bench_peer.h, as tools/bench_mooncake.py\ndoes; its time is not "
         "counted in --seconds"},
	{"peer-seconds", OPTION_PEER_SECONDS, "N",
         "how long an answer of the peer may take (default 120)"},
	{"no-peer", OPTION_NO_PEER, "WHY", "say in the figures why there is no peer"},
	{"json", OPTION_JSON, "FILE",
         "all figures of all rounds; \"-\" for stdout, the\nwords then go to stderr"},
	{0}};

static const struct kvh_cli_args arguments = {
	.command = "bench",
	.usage = "bench [options]",
	.about = "Measures put, get, exists and the worker against the limits of this machine: "
		 "plain\n"
		 "copy loops over the same memory, in the same process, interleaved. A missed "
		 "target\n"
		 "is printed as such; only wrong bytes or a failed call fail the run.",
	.options = options};

struct part {
	const char *name;
	bool (*run)(struct kvh_bench *bench);
};

static const struct part parts[] = {{"copies", kvh_bench_copies},
                                    {"keys", kvh_bench_per_key},
                                    {"worker", kvh_bench_worker},
                                    {"space", kvh_bench_space},
                                    {"open", kvh_bench_open}};

#define PART_COUNT (sizeof(parts) / sizeof(parts[0]))

/* What the command line asked for. */
struct request {
	struct kvh_bench bench;
	const char *only;
	const char *json_path;
	const char *peer_command; /* NULL: no peer */
	const char *why_no_peer;  /* NULL: nobody said why */
	uint64_t peer_limit_ns;
	char *peer_name; /* owned; NULL until it was ready */
};

static bool is_part(const char *name)
{
	for (size_t i = 0; i < PART_COUNT; i++) {
		if (strcmp(parts[i].name, name) == 0)
			return true;
	}
	return false;
}

static bool take_number(const char *name, const char *value, uint64_t min, uint64_t max,
                        uint64_t *number)
{
	if (kvh_cli_number(value, min, max, number))
		return true;
	kvh_cli_complain("bench", "--%s %s: a whole number from %llu to %llu", name, value,
	                 (unsigned long long)min, (unsigned long long)max);
	return false;
}

static bool take_set(struct kvh_bench *bench, const char *value)
{
	uint64_t mib;

	if (!take_number("set", value, 16, SET_MIB_MAX, &mib))
		return false;
	if (mib & (mib - 1)) {
		kvh_cli_complain("bench", "--set %s: a power of two, such as 256", value);
		return false;
	}
	bench->set_bytes = mib * KVH_BENCH_MIB;
	return true;
}

static bool is_store(const char *url)
{
	struct kvh_error error = {0};
	struct kvh_store *store;

	if (kvh_store_open(url, NULL, &store, &error)) {
		kvh_cli_complain("bench", "--store %s: %s", url, error.text);
		return false;
	}
	return kvh_bench_ok("close", kvh_store_close(store, 0), NULL);
}

static bool take_option(struct request *request, int id, const char *value)
{
	struct kvh_bench *bench = &request->bench;
	uint64_t number = 0;
	bool ok = true;

	switch (id) {
	case OPTION_ROUNDS:
		ok = take_number("rounds", value, 1, KVH_BENCH_ROUNDS_MAX, &number);
		bench->rounds = (uint32_t)number;
		break;
	case OPTION_SECONDS:
		ok = take_number("seconds", value, 1, 86400, &number);
		bench->limit_ns = number * SECOND_NS;
		break;
	case OPTION_SET:
		return take_set(bench, value);
	case OPTION_KEYS:
		return take_number("keys", value, 64, KEYS_MAX, &bench->keys);
	case OPTION_SPACE_KEYS:
		return take_number("space-keys", value, 64, KEYS_MAX, &bench->space_keys);
	case OPTION_OPEN_KEYS:
		ok = take_number("open-keys", value, 64, KEYS_MAX, &number);
		bench->open_keys = number - number % KVH_BENCH_BATCH_KEYS;
		break;
	case OPTION_ONLY:
		request->only = value;
		ok = is_part(value);
		if (!ok)
			kvh_cli_complain("bench", "--only %s: copies, keys, space, open or worker",
			                 value);
		break;
	case OPTION_PEER:
		request->peer_command = value;
		break;
	case OPTION_PEER_SECONDS:
		ok = take_number("peer-seconds", value, 1, 86400, &number);
		request->peer_limit_ns = number * SECOND_NS;
		break;
	case OPTION_NO_PEER:
		request->why_no_peer = value;
		break;
	case OPTION_STORE:
		bench->store_url = value;
		ok = is_store(value);
		break;
	default:
		request->json_path = value;
	}
	return ok;
}

/* KVH_CLI_END: go on. Anything else: KVH_CLI_HELP or KVH_CLI_WRONG. */
static int take_options(struct request *request, int argc, char **argv)
{
	struct kvh_cli_args args = arguments;
	const char *value = NULL;
	int id;

	args.argc = argc;
	args.argv = argv;
	while ((id = kvh_cli_next(&args, &value)) >= 0) {
		if (!take_option(request, id, value))
			return KVH_CLI_WRONG;
	}
	if (id == KVH_CLI_END && request->peer_command && request->why_no_peer) {
		kvh_cli_complain("bench", "--peer and --no-peer exclude each other");
		return KVH_CLI_WRONG;
	}
	return id;
}

static void print_machine(const json_t *machine, const struct kvh_bench *bench)
{
	const char *cpu = json_string_value(json_object_get(machine, "cpu"));
	json_int_t cache_bytes =
		json_integer_value(json_object_get(machine, "last_level_cache_bytes"));

	fprintf(bench->out, "kvhold %s bench on %s, last-level cache %lld MiB, load %.2f\n",
	        kvh_version_text(), cpu, (long long)cache_bytes / (long long)KVH_BENCH_MIB,
	        json_real_value(json_object_get(machine, "load_average_1min")));
	fprintf(bench->out,
	        "%u rounds after one that does not count, %llu MiB a pass; targets are held "
	        "against "
	        "medians\n",
	        bench->rounds, (unsigned long long)(bench->set_bytes / KVH_BENCH_MIB));
	if (!kvh_bench_kernel_runs(KVH_BENCH_STREAM))
		fprintf(bench->out, "no AVX2 here: the NT limit is memcpy\n");
}

static bool run_parts(struct request *request)
{
	bool ok = true;

	for (size_t i = 0; ok && i < PART_COUNT; i++) {
		if (!request->only || strcmp(parts[i].name, request->only) == 0)
			ok = parts[i].run(&request->bench);
	}
	return ok;
}

/* Says that there is none, too. False: words were printed. */
static bool open_peer(struct request *request)
{
	struct kvh_bench *bench = &request->bench;

	if (!request->peer_command) {
		kvh_bench_skip(bench, "against a peer",
		               request->why_no_peer ? request->why_no_peer : "no --peer was given");
		return true;
	}
	bench->peer =
		kvh_bench_peer_open(bench->env, request->peer_command, request->peer_limit_ns);
	if (!bench->peer)
		return false;
	request->peer_name = strdup(kvh_bench_peer_name(bench->peer));
	fprintf(bench->out, "the peer is %s\n", kvh_bench_peer_name(bench->peer));
	return true;
}

/* is_whole: whether all that was to be measured was. */
static bool write_json(const struct request *request, json_t *machine, bool is_whole)
{
	const struct kvh_bench *bench = &request->bench;
	json_t *root =
		json_pack("{s:s, s:b, s:O, s:s?, s:s?, s:I, s:I, s:I, s:I, s:O}", "kvhold",
	                  kvh_version_text(), "ok", (int)is_whole, "machine", machine, "store",
	                  bench->store_url, "peer", request->peer_name, "rounds",
	                  (json_int_t)bench->rounds, "set_bytes", (json_int_t)bench->set_bytes,
	                  "targets", (json_int_t)bench->target_count, "missed",
	                  (json_int_t)bench->missed_count, "figures", bench->figures);
	bool ok = root && kvh_cli_write_json("bench", root, request->json_path);

	json_decref(root);
	return ok;
}

static int run(struct request *request)
{
	struct kvh_bench *bench = &request->bench;
	json_t *machine = kvh_bench_machine();
	bool ok;

	bench->out = request->json_path && strcmp(request->json_path, "-") == 0 ? stderr : stdout;
	bench->figures = json_array();
	print_machine(machine, bench);
	ok = open_peer(request);
	bench->started_ns = kvh_bench_now(bench);
	ok = ok && run_parts(request);
	ok = kvh_bench_peer_close(bench->peer) && ok;
	fprintf(bench->out, "\n%u of %u targets missed; %.0f s\n", bench->missed_count,
	        bench->target_count, (double)(kvh_bench_now(bench) - bench->started_ns) * 1e-9);
	if (request->json_path)
		ok = write_json(request, machine, ok) && ok;
	free(request->peer_name);
	json_decref(bench->figures);
	json_decref(machine);
	return ok ? KVH_EXIT_OK : KVH_EXIT_FAILURE;
}

int kvh_cli_bench(int argc, char **argv)
{
	struct request request = {.bench = {.env = kvh_env_posix(),
	                                    .rounds = ROUNDS,
	                                    .set_bytes = SET_MIB * KVH_BENCH_MIB,
	                                    .keys = KEYS,
	                                    .space_keys = SPACE_KEYS,
	                                    .open_keys = OPEN_KEYS,
	                                    .limit_ns = SECONDS * SECOND_NS},
	                          .peer_limit_ns = PEER_SECONDS * SECOND_NS};
	int id = take_options(&request, argc, argv);

	if (id == KVH_CLI_HELP)
		return KVH_EXIT_OK;
	if (id == KVH_CLI_WRONG)
		return KVH_EXIT_USAGE;
	if (request.json_path && !kvh_cli_can_write("bench", "json", request.json_path))
		return KVH_EXIT_USAGE;
	return run(&request);
}
