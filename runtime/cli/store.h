/* SPDX-License-Identifier: Apache-2.0 */
/* What the commands of `kvhold store` share: a store looked at from outside, object by object. */
#ifndef KVH_CLI_STORE_H
#define KVH_CLI_STORE_H

#include <kvhold/kvhold.h>

#include "cli.h"

enum { KVH_CLI_KEY_BYTES = KVH_PREFIX_TEXT_BYTES_MAX + 2 * KVH_KEY_HASH_BYTES_MAX + 1 };

struct kvh_cli_view {
	const char *command; /* for complaints: "store ls" */
	const char *url;
	struct kvh_store *store;
	char text[KVH_CLI_KEY_BYTES]; /* of the key or prefix that was asked for last */
};

/* The command line of view's command: options, and the URL, which goes to view. */
struct kvh_cli_args kvh_cli_view_args(struct kvh_cli_view *view, const char *usage,
                                      const char *about, const struct kvh_cli_option *options,
                                      int argc, char **argv);
/* KVH_EXIT_OK, or words were printed. The caller has set command and url. */
int kvh_cli_view_open(struct kvh_cli_view *view);
/* Closes and returns code, or, if only that fails, what to return instead. */
int kvh_cli_view_close(struct kvh_cli_view *view, int code);
/* Says that a call failed, and what to return. */
int kvh_cli_view_complain(const struct kvh_cli_view *view, kvh_status status);

/* False: it has seen enough. */
typedef bool (*kvh_cli_object_fn)(void *user, const struct kvh_listed *listed);
/* flags: KVH_LIST_*. */
kvh_status kvh_cli_view_each(struct kvh_cli_view *view, uint32_t flags, kvh_cli_object_fn fn,
                             void *user);

/* Lent until the next call. NULL: it can't be told. */
const char *kvh_cli_view_key(struct kvh_cli_view *view, const struct kvh_key *key);
const char *kvh_cli_view_prefix(struct kvh_cli_view *view, uint32_t prefix_id);

/* ---- store_sessions.c ---- */

enum { KVH_CLI_SESSIONS_MAX = 256 };

/* Who else has it open. */
struct kvh_cli_sessions {
	struct kvh_store_session list[KVH_CLI_SESSIONS_MAX];
	size_t count;
};

/* None where the store knows of none. */
kvh_status kvh_cli_sessions_collect(struct kvh_store *store, struct kvh_cli_sessions *sessions);
void kvh_cli_sessions_print(const struct kvh_cli_sessions *sessions);
/* Given to the caller; NULL: no memory. */
json_t *kvh_cli_sessions_json(const struct kvh_cli_sessions *sessions);

int kvh_cli_store_stat(int argc, char **argv);
int kvh_cli_store_ls(int argc, char **argv);
int kvh_cli_store_verify(int argc, char **argv);

#endif
