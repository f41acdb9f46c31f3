/* SPDX-License-Identifier: Apache-2.0 */
/* `kvhold store ls` and `kvhold store verify`: a line or a judgement for each object. */
#include "store.h"

#include <string.h>

enum { OPT_JSON = 257, OPT_PREFIX, OPT_LIMIT };

static unsigned long long whole(uint64_t number)
{
	return number;
}

/* ---- ls -------------------------------------------------------------------------------- */

struct ls {
	struct kvh_cli_view view;
	const char *prefix; /* NULL: all */
	uint64_t limit, count;
	bool as_json, failed;
};

static void print_object(const char *key, const struct kvh_listed *listed)
{
	printf("%s  %llu  %llu", key, whole(listed->bytes), whole(listed->uses_since));
	if (listed->priority)
		printf("  priority=%u", listed->priority);
	if (listed->keep_seconds)
		printf("  keep=%llus", whole(listed->keep_seconds));
	if (listed->expire_seconds)
		printf("  expire=%llus", whole(listed->expire_seconds));
	if (listed->flags & KVH_LISTED_LIFECYCLE_GROUP)
		printf("  group");
	putchar('\n');
}

static bool print_json(const char *key, const struct kvh_listed *listed)
{
	json_t *object = json_pack(
		"{s:s, s:I, s:I, s:i, s:I, s:I, s:b}", "key", key, "bytes",
		(json_int_t)listed->bytes, "uses_since", (json_int_t)listed->uses_since, "priority",
		(int)listed->priority, "keep_seconds", (json_int_t)listed->keep_seconds,
		"expire_seconds", (json_int_t)listed->expire_seconds, "group",
		(listed->flags & KVH_LISTED_LIFECYCLE_GROUP) != 0);
	bool ok = object && json_dumpf(object, stdout, JSON_COMPACT) == 0;

	json_decref(object);
	putchar('\n');
	return ok;
}

static bool list_object(void *user, const struct kvh_listed *listed)
{
	struct ls *ls = user;
	const char *key = kvh_cli_view_key(&ls->view, &listed->key);

	/* Without a prefix that can be told: a damaged table, which verify is there for. */
	if (!key || (ls->prefix && strncmp(key, ls->prefix, strlen(ls->prefix)) != 0))
		return true;
	if (!ls->as_json)
		print_object(key, listed);
	else if (!print_json(key, listed))
		ls->failed = true;
	return ++ls->count < ls->limit && !ls->failed;
}

static int run_ls(struct ls *ls)
{
	int code = kvh_cli_view_open(&ls->view);
	kvh_status status;

	if (code)
		return code;
	status = kvh_cli_view_each(&ls->view, 0, list_object, ls);
	if (status)
		code = kvh_cli_view_complain(&ls->view, status);
	else if (ls->failed) {
		kvh_cli_complain(ls->view.command, "standard output: writing to it failed");
		code = KVH_EXIT_ENVIRONMENT;
	}
	return kvh_cli_view_close(&ls->view, code);
}

static bool take_ls_option(struct ls *ls, int id, const char *value)
{
	switch (id) {
	case OPT_JSON:
		ls->as_json = true;
		return true;
	case OPT_PREFIX:
		ls->prefix = value;
		return true;
	default:
		if (kvh_cli_number(value, 1, UINT64_MAX, &ls->limit))
			return true;
		kvh_cli_complain(ls->view.command, "--limit %s: a whole number from 1 is needed",
		                 value);
		return false;
	}
}

static const char ls_about[] =
	"Prints a line for each object of a store, in no order: its key, its bytes, how many\n"
	"uses of objects there were since its own last one, and how it was put where that is\n"
	"not the default.";

int kvh_cli_store_ls(int argc, char **argv)
{
	static const struct kvh_cli_option options[] = {
		{"json", OPT_JSON, NULL, "print a JSON object a line"},
		{"prefix", OPT_PREFIX, "TEXT", "only keys that begin with TEXT"},
		{"limit", OPT_LIMIT, "N", "stop after N keys"},
		{NULL, 0, NULL, NULL},
	};
	struct ls ls = {.view = {.command = "store ls"}, .limit = UINT64_MAX};
	const struct kvh_cli_args args = kvh_cli_view_args(&ls.view, "store ls URL [options]",
	                                                   ls_about, options, argc, argv);
	const char *value;
	int id;

	while ((id = kvh_cli_next(&args, &value)) > 0)
		if (!take_ls_option(&ls, id, value))
			return KVH_EXIT_USAGE;
	if (id != KVH_CLI_END)
		return id == KVH_CLI_HELP ? KVH_EXIT_OK : KVH_EXIT_USAGE;
	return run_ls(&ls);
}

/* ---- verify ---------------------------------------------------------------------------- */

struct verify {
	struct kvh_cli_view view;
	uint64_t good, damaged, unverifiable;
	bool as_json;
	json_t *damaged_objects;
};

static const char *what_is_damaged(const struct kvh_listed *listed)
{
	if (listed->flags & KVH_LISTED_BAD_RECORD)
		return "record";
	return listed->status == KVH_CHECKSUM_MISMATCH ? "payload" : kvh_strstatus(listed->status);
}

static bool judge_object(void *user, const struct kvh_listed *listed)
{
	struct verify *verify = user;
	const char *key;

	verify->good += listed->status == KVH_OK;
	verify->unverifiable += listed->status == KVH_NOT_SUPPORTED;
	if (listed->status == KVH_OK || listed->status == KVH_NOT_SUPPORTED)
		return true;
	verify->damaged++;
	key = kvh_cli_view_key(&verify->view, &listed->key);
	if (verify->as_json)
		json_array_append_new(
			verify->damaged_objects,
			json_pack("{s:s?, s:s}", "key", key, "damage", what_is_damaged(listed)));
	else
		printf("damaged %s: %s\n", what_is_damaged(listed),
		       key ? key : "(its key can't be told)");
	return true;
}

static bool print_verdict(struct verify *verify)
{
	json_t *root;
	bool ok;

	if (verify->as_json) {
		root = json_pack("{s:I, s:I, s:I, s:O}", "good", (json_int_t)verify->good,
		                 "damaged", (json_int_t)verify->damaged, "unverifiable",
		                 (json_int_t)verify->unverifiable, "damaged_objects",
		                 verify->damaged_objects);
		ok = root && kvh_cli_write_json(verify->view.command, root, "-");
		json_decref(root);
		return ok;
	}
	printf("%llu good, %llu damaged, %llu unverifiable\n", whole(verify->good),
	       whole(verify->damaged), whole(verify->unverifiable));
	if (verify->unverifiable)
		printf("of the unverifiable only the records were checked: the store keeps no "
		       "checksums (verify=1)\n");
	return true;
}

static int run_verify(struct verify *verify)
{
	int code = kvh_cli_view_open(&verify->view);
	kvh_status status;

	if (code)
		return code;
	verify->damaged_objects = json_array();
	status = kvh_cli_view_each(&verify->view, KVH_LIST_VERIFY, judge_object, verify);
	if (status)
		code = kvh_cli_view_complain(&verify->view, status);
	else if (!print_verdict(verify))
		code = KVH_EXIT_ENVIRONMENT;
	else
		code = verify->damaged ? KVH_EXIT_FAILURE : KVH_EXIT_OK;
	json_decref(verify->damaged_objects);
	return kvh_cli_view_close(&verify->view, code);
}

static const char verify_about[] =
	"Checks the record of each object of a store and, where the store keeps checksums\n"
	"(verify=1), compares its bytes. Names what is damaged; exit status 1 if anything is.";

int kvh_cli_store_verify(int argc, char **argv)
{
	static const struct kvh_cli_option options[] = {
		{"json", OPT_JSON, NULL, "print the counts and what is damaged as JSON"},
		{NULL, 0, NULL, NULL}};
	struct verify verify = {.view = {.command = "store verify"}};
	const struct kvh_cli_args args = kvh_cli_view_args(
		&verify.view, "store verify URL [options]", verify_about, options, argc, argv);
	const char *value;
	int id;

	while ((id = kvh_cli_next(&args, &value)) > 0)
		verify.as_json = true;
	if (id != KVH_CLI_END)
		return id == KVH_CLI_HELP ? KVH_EXIT_OK : KVH_EXIT_USAGE;
	return run_verify(&verify);
}
