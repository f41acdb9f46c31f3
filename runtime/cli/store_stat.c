/* SPDX-License-Identifier: Apache-2.0 */
/* `kvhold store stat`: how much a store holds, in sections: counts, prefixes, sessions. */
#include "store.h"

#include <stdlib.h>

struct prefix_sum {
	uint64_t objects;
	uint64_t bytes;
};

/* What is found before anything is printed. */
struct stat {
	struct kvh_cli_view view;
	struct kvh_store_stats stats;
	bool listed;             /* the store can list, so there are sums */
	struct prefix_sum *sums; /* KVH_PREFIXES_MAX */
	struct kvh_cli_sessions sessions;
};

static unsigned long long whole(uint64_t number)
{
	return number;
}

static bool add_object(void *user, const struct kvh_listed *listed)
{
	struct stat *stat = user;

	if (listed->key.prefix_id < KVH_PREFIXES_MAX) {
		stat->sums[listed->key.prefix_id].objects++;
		stat->sums[listed->key.prefix_id].bytes += listed->bytes;
	}
	return true;
}

static kvh_status collect(struct stat *stat)
{
	kvh_status status = kvh_store_get_stats(stat->view.store, &stat->stats);

	if (status == KVH_OK)
		status = kvh_cli_sessions_collect(stat->view.store, &stat->sessions);
	if (status)
		return status;
	status = kvh_cli_view_each(&stat->view, 0, add_object, stat);
	stat->listed = status == KVH_OK;
	return status == KVH_NOT_SUPPORTED ? KVH_OK : status;
}

/* ---- for people ------------------------------------------------------------------------ */

static void print_counts(const struct kvh_store_stats *stats)
{
	double share = stats->capacity_bytes
	                       ? 100 * (double)stats->used_bytes / (double)stats->capacity_bytes
	                       : 0;

	printf("  objects   %llu\n", whole(stats->objects));
	printf("  used      %llu of %llu bytes (%.1f %%)\n", whole(stats->used_bytes),
	       whole(stats->capacity_bytes), share);
	printf("  pinned    %llu objects that are being read\n", whole(stats->pinned_objects));
	printf("  reserved  %llu objects that are being written\n", whole(stats->reserved_objects));
	printf("  evicted   %llu objects, %llu bytes so far\n", whole(stats->evicted_keys),
	       whole(stats->evicted_bytes));
	printf("  expired   %llu objects so far\n", whole(stats->expired_keys));
}

static void print_prefixes(struct stat *stat)
{
	for (uint32_t id = 0; id < KVH_PREFIXES_MAX; id++) {
		const struct prefix_sum *sum = &stat->sums[id];
		const char *text = sum->objects ? kvh_cli_view_prefix(&stat->view, id) : NULL;

		if (sum->objects)
			printf("  prefix    %s  %llu objects, %llu bytes\n",
			       text ? text : "(unknown)", whole(sum->objects), whole(sum->bytes));
	}
}

/* ---- for programs ---------------------------------------------------------------------- */

static json_t *counts_json(const struct kvh_store_stats *stats)
{
	return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "objects",
	                 (json_int_t)stats->objects, "used_bytes", (json_int_t)stats->used_bytes,
	                 "capacity_bytes", (json_int_t)stats->capacity_bytes, "pinned_objects",
	                 (json_int_t)stats->pinned_objects, "reserved_objects",
	                 (json_int_t)stats->reserved_objects, "evicted_keys",
	                 (json_int_t)stats->evicted_keys, "evicted_bytes",
	                 (json_int_t)stats->evicted_bytes, "expired_keys",
	                 (json_int_t)stats->expired_keys);
}

static json_t *prefixes_json(struct stat *stat)
{
	json_t *list = json_array();

	for (uint32_t id = 0; list && id < KVH_PREFIXES_MAX; id++) {
		const struct prefix_sum *sum = &stat->sums[id];
		const char *text = sum->objects ? kvh_cli_view_prefix(&stat->view, id) : NULL;

		if (sum->objects)
			json_array_append_new(list, json_pack("{s:s?, s:I, s:I}", "prefix", text,
			                                      "objects", (json_int_t)sum->objects,
			                                      "bytes", (json_int_t)sum->bytes));
	}
	return list;
}

static bool write_json(struct stat *stat)
{
	json_t *root = counts_json(&stat->stats);
	bool ok = root && (!stat->listed ||
	                   json_object_set_new(root, "prefixes", prefixes_json(stat)) == 0);

	ok = ok &&
	     json_object_set_new(root, "sessions", kvh_cli_sessions_json(&stat->sessions)) == 0;
	ok = ok && kvh_cli_write_json(stat->view.command, root, "-");
	json_decref(root);
	return ok;
}

/* ---- the command ----------------------------------------------------------------------- */

static int print(struct stat *stat, bool as_json)
{
	kvh_status status = stat->sums ? collect(stat) : KVH_NO_MEMORY;

	if (status)
		return kvh_cli_view_complain(&stat->view, status);
	if (as_json)
		return write_json(stat) ? KVH_EXIT_OK : KVH_EXIT_ENVIRONMENT;
	print_counts(&stat->stats);
	print_prefixes(stat);
	kvh_cli_sessions_print(&stat->sessions);
	return KVH_EXIT_OK;
}

static int run(struct stat *stat, bool as_json)
{
	int code = kvh_cli_view_open(&stat->view);

	if (code)
		return code;
	stat->sums = calloc(KVH_PREFIXES_MAX, sizeof(*stat->sums));
	code = print(stat, as_json);
	free(stat->sums);
	return kvh_cli_view_close(&stat->view, code);
}

static const char about[] =
	"Says how much a store holds, how much of it is being read or written, how much is each\n"
	"prefix's, and which processes have it open: a stopped one may hold space.";

int kvh_cli_store_stat(int argc, char **argv)
{
	enum { OPT_JSON = 257 };
	static const struct kvh_cli_option options[] = {
		{"json", OPT_JSON, NULL, "print it as JSON"}, {NULL, 0, NULL, NULL}};
	struct stat stat = {.view = {.command = "store stat"},
	                    .stats = {.struct_bytes = sizeof(stat.stats)}};
	const struct kvh_cli_args args = kvh_cli_view_args(&stat.view, "store stat URL [options]",
	                                                   about, options, argc, argv);
	bool as_json = false;
	const char *value;
	int id;

	while ((id = kvh_cli_next(&args, &value)) > 0)
		as_json = true;
	if (id != KVH_CLI_END)
		return id == KVH_CLI_HELP ? KVH_EXIT_OK : KVH_EXIT_USAGE;
	return run(&stat, as_json);
}
