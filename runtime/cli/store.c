/* SPDX-License-Identifier: Apache-2.0 */
/* `kvhold store`: its commands, what they share, and the one that changes something. */
#include "store.h"

#include <stdlib.h>

enum { PAGE_OBJECTS = 256, PAGE_HASH_BYTES = 64 << 10 };

/* A reader that holds an object is waited for so long. */
#define CLEAR_WAIT_NS UINT64_C(10000000000)

/* ---- a store from outside -------------------------------------------------------------- */

struct kvh_cli_args kvh_cli_view_args(struct kvh_cli_view *view, const char *usage,
                                      const char *about, const struct kvh_cli_option *options,
                                      int argc, char **argv)
{
	return (struct kvh_cli_args){
		.command = view->command,
		.usage = usage,
		.about = about,
		.options = options,
		.argc = argc,
		.argv = argv,
		.operand = &view->url,
		.operand_name = "the store's URL",
	};
}

int kvh_cli_view_open(struct kvh_cli_view *view)
{
	struct kvh_error error = {0};
	kvh_status status = kvh_store_open(view->url, NULL, &view->store, &error);

	if (status == KVH_OK)
		return KVH_EXIT_OK;
	kvh_cli_complain(view->command, "%s: %s", view->url,
	                 error.text[0] ? error.text : kvh_strstatus(status));
	return kvh_cli_exit_of(status);
}

int kvh_cli_view_close(struct kvh_cli_view *view, int code)
{
	kvh_status status = kvh_store_close(view->store, 0);

	if (status == KVH_OK || code != KVH_EXIT_OK)
		return code;
	kvh_cli_complain(view->command, "%s: closing it failed: %s", view->url,
	                 kvh_strstatus(status));
	return KVH_EXIT_FAILURE;
}

int kvh_cli_view_complain(const struct kvh_cli_view *view, kvh_status status)
{
	if (status == KVH_NOT_SUPPORTED)
		kvh_cli_complain(view->command, "%s: this kind of store can't do that", view->url);
	else
		kvh_cli_complain(view->command, "%s: %s", view->url, kvh_strstatus(status));
	return status == KVH_NOT_SUPPORTED ? KVH_EXIT_USAGE : KVH_EXIT_FAILURE;
}

struct page {
	struct kvh_listed objects[PAGE_OBJECTS];
	uint8_t hashes[PAGE_HASH_BYTES];
};

kvh_status kvh_cli_view_each(struct kvh_cli_view *view, uint32_t flags, kvh_cli_object_fn fn,
                             void *user)
{
	struct page *page = malloc(sizeof(*page));
	struct kvh_list list = {.struct_bytes = sizeof(list),
	                        .flags = flags,
	                        .capacity = PAGE_OBJECTS,
	                        .hashes_bytes = PAGE_HASH_BYTES};
	kvh_status status = page ? KVH_OK : KVH_NO_MEMORY;
	bool more = status == KVH_OK;
	uint64_t cursor = 0;
	size_t count;

	while (more) {
		list.objects = page->objects;
		list.hashes = page->hashes;
		status = kvh_store_list(view->store, &list, &cursor, &count, NULL);
		more = status == KVH_OK;
		for (size_t i = 0; more && i < count; i++)
			more = fn(user, &page->objects[i]);
		more = more && cursor;
	}
	free(page);
	return status;
}

const char *kvh_cli_view_key(struct kvh_cli_view *view, const struct kvh_key *key)
{
	if (key->hash_bytes == 0)
		return NULL;
	return kvh_store_key_text(view->store, key, view->text, sizeof(view->text), NULL)
	               ? NULL
	               : view->text;
}

const char *kvh_cli_view_prefix(struct kvh_cli_view *view, uint32_t prefix_id)
{
	return kvh_store_prefix_text(view->store, prefix_id, view->text, sizeof(view->text), NULL)
	               ? NULL
	               : view->text;
}

/* ---- clear ----------------------------------------------------------------------------- */

static int clear(struct kvh_cli_view *view)
{
	const struct kvh_env *env = kvh_env_posix();
	const struct kvh_call call = {.struct_bytes = sizeof(call),
	                              .deadline_ns = env->ops->now_ns(env->ctx) + CLEAR_WAIT_NS};
	uint64_t removed = 0;
	kvh_status status = kvh_store_clear(view->store, &call, &removed);

	if (status == KVH_OBJECT_HAS_LEASE || status == KVH_TIMEOUT) {
		kvh_cli_complain(view->command,
		                 "%s: %s after 10 s; what was removed until then is gone, the rest "
		                 "is still there: try again",
		                 view->url, kvh_strstatus(status));
		return KVH_EXIT_FAILURE;
	}
	if (status)
		return kvh_cli_view_complain(view, status);
	printf("removed %llu objects\n", (unsigned long long)removed);
	return KVH_EXIT_OK;
}

static const char clear_about[] =
	"Removes every object of a store, also while others use it, and prints how many.\n"
	"Objects that are being written are left alone; those that are being read are waited\n"
	"for, 10 seconds at most.";

static int run_clear(int argc, char **argv)
{
	enum { OPT_YES = 257 };
	static const struct kvh_cli_option options[] = {
		{"yes", OPT_YES, NULL, "nothing is removed without this"}, {NULL, 0, NULL, NULL}};
	struct kvh_cli_view view = {.command = "store clear"};
	const struct kvh_cli_args args =
		kvh_cli_view_args(&view, "store clear URL --yes", clear_about, options, argc, argv);
	bool yes = false;
	const char *value;
	int id, code;

	while ((id = kvh_cli_next(&args, &value)) > 0)
		yes = true;
	if (id != KVH_CLI_END)
		return id == KVH_CLI_HELP ? KVH_EXIT_OK : KVH_EXIT_USAGE;
	if (!yes) {
		kvh_cli_complain(view.command, "removes every object of %s; say --yes to do so",
		                 view.url);
		return KVH_EXIT_USAGE;
	}
	code = kvh_cli_view_open(&view);
	return code ? code : kvh_cli_view_close(&view, clear(&view));
}

int kvh_cli_store(int argc, char **argv)
{
	static const struct kvh_cli_command list[] = {
		{"stat", "how much it holds, by prefix", kvh_cli_store_stat},
		{"ls", "the keys of its objects", kvh_cli_store_ls},
		{"verify", "compare what it holds with its checksums", kvh_cli_store_verify},
		{"clear", "remove every object", run_clear},
	};
	static const struct kvh_cli_commands commands = {
		.name = "store",
		.about = "Looks at the store that a URL names, also while other processes use it.",
		.list = list,
		.count = sizeof(list) / sizeof(list[0]),
	};

	return kvh_cli_run(&commands, argc, argv);
}
