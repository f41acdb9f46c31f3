/* SPDX-License-Identifier: Apache-2.0 */
/* The URL table: the only place that names backends. */
#include <string.h>

#include <kvhold/store_ops.h>

#include "base/error.h"
#include "pool/pool.h"
#include "store/null.h"
#include "store/struct_bytes.h"
#include "url.h"

/* A backend's opener: reads the URL, then fills ops and self. options are our own copy, complete.
 */
typedef kvh_status (*backend_open_fn)(const struct kvh_url *url,
                                      const struct kvh_store_options *options,
                                      struct kvh_store_ops *ops, void **self,
                                      struct kvh_error *error);

struct backend {
	const char *scheme;
	backend_open_fn open;
	const char *absent; /* open NULL: why */
};

static kvh_status refuse_rest(const struct kvh_url *url, const char *form, struct kvh_error *error)
{
	return kvh_fail(error, KVH_INVALID_PARAMS,
	                "url: %s: takes nothing between the colon and the '?'; write %s",
	                url->scheme, form);
}

static kvh_status open_null(const struct kvh_url *url, const struct kvh_store_options *options,
                            struct kvh_store_ops *ops, void **self, struct kvh_error *error)
{
	struct kvh_null_options null = {.exists = false};
	const struct kvh_url_known known[] = {
		{.name = "exists", .kind = KVH_URL_FLAG, .value = &null.exists},
	};
	kvh_status status;

	if (url->rest[0])
		return refuse_rest(url, "null: or null:?exists=1", error);
	status = kvh_url_read(url, known, sizeof(known) / sizeof(known[0]), error);
	return status ? status : kvh_null_open(&null, options->env, ops, self, error);
}

/* "0600" or "0660": everybody who opens a pool writes into it. */
static kvh_status read_mode(const char *text, const char *group, uint32_t *mode,
                            struct kvh_error *error)
{
	*mode = group ? 0660 : 0;
	if (!text)
		return KVH_OK;
	*mode = group ? 0660 : 0600;
	if (strcmp(text, "0660") == 0 && !group)
		return kvh_fail(error, KVH_INVALID_PARAMS,
		                "url: option mode 0660 needs option group: whose members may open "
		                "the pool");
	if (strcmp(text, group ? "0660" : "0600") != 0)
		return kvh_fail(error, KVH_INVALID_PARAMS,
		                "url: option mode is 0600 (alone) or 0660 (with option group)");
	return KVH_OK;
}

static kvh_status open_shared(const struct kvh_url *url, const struct kvh_store_options *options,
                              struct kvh_store_ops *ops, void **self, struct kvh_error *error)
{
	char path[KVH_SHARED_PATH_BYTES];
	struct kvh_shared_options shared = {.path = path};
	const char *mode = NULL;
	bool verify = false;
	const struct kvh_url_known known[] = {
		{"size", KVH_URL_SIZE, &shared.capacity_bytes, KVH_LOCAL_BYTES_MIN,
	         KVH_LOCAL_BYTES_MAX},
		{"verify", KVH_URL_FLAG, &verify, 0, 0},
		{"mode", KVH_URL_TEXT, &mode, 0, 0},
		{"group", KVH_URL_TEXT, &shared.group, 0, 0},
		{"numa", KVH_URL_TEXT, &shared.numa, 0, 0},
		{"prefault", KVH_URL_FLAG, &shared.prefault, 0, 0},
	};
	kvh_status status = kvh_shared_path(url->rest, path, error);

	if (status == KVH_OK)
		status = kvh_url_read(url, known, sizeof(known) / sizeof(known[0]), error);
	if (status == KVH_OK)
		status = read_mode(mode, shared.group, &shared.mode, error);
	if (status)
		return status;
	if (kvh_url_has(url, "verify"))
		shared.verify = &verify;
	return kvh_shared_open(&shared, options, ops, self, error);
}

static kvh_status open_local(const struct kvh_url *url, const struct kvh_store_options *options,
                             struct kvh_store_ops *ops, void **self, struct kvh_error *error)
{
	struct kvh_local_options local = {.capacity_bytes = 0};
	const struct kvh_url_known known[] = {
		{"size", KVH_URL_SIZE, &local.capacity_bytes, KVH_LOCAL_BYTES_MIN,
	         KVH_LOCAL_BYTES_MAX},
		{"verify", KVH_URL_FLAG, &local.verify, 0, 0},
	};
	kvh_status status;

	if (url->rest[0])
		return open_shared(url, options, ops, self, error);
	status = kvh_url_read(url, known, sizeof(known) / sizeof(known[0]), error);
	if (status)
		return status;
	if (local.capacity_bytes == 0)
		return kvh_fail(error, KVH_INVALID_PARAMS,
		                "url: local: needs a size, such as local:?size=8GiB");
	return kvh_local_open(&local, options, ops, self, error);
}

static const struct backend backends[] = {
	{"null", open_null, NULL},
	{"local", open_local, NULL},
	{"rdma", NULL, "the pool over RDMA"},
	{"mooncake", NULL, "the Mooncake store"},
	{"sim-mooncake", NULL, "the model of the Mooncake store, which lives in the simulator"},
};

enum { BACKEND_COUNT = sizeof(backends) / sizeof(backends[0]) };

static kvh_status find_backend(const struct kvh_url *url, const struct backend **backend,
                               struct kvh_error *error)
{
	const char *schemes[BACKEND_COUNT];
	const char *nearest;

	for (size_t i = 0; i < BACKEND_COUNT; i++) {
		schemes[i] = backends[i].scheme;
		if (strcmp(backends[i].scheme, url->scheme) != 0)
			continue;
		if (!backends[i].open)
			return kvh_fail(error, KVH_NOT_SUPPORTED,
			                "url: %s: (%s) is not in this build", url->scheme,
			                backends[i].absent);
		*backend = &backends[i];
		return KVH_OK;
	}
	nearest = kvh_nearest_word(url->scheme, schemes, BACKEND_COUNT);
	return kvh_fail(error, KVH_INVALID_PARAMS, "url: no store has the scheme %s:%s%s%s",
	                url->scheme, nearest ? "; did you mean " : "", nearest ? nearest : "",
	                nearest ? ":?" : "");
}

static kvh_status take_options(const struct kvh_store_options *given, struct kvh_store_options *own,
                               struct kvh_error *error)
{
	*own = (struct kvh_store_options){.struct_bytes = sizeof(*own)};
	if (given && !kvh_struct_in(own, sizeof(*own), given))
		return kvh_fail(error, KVH_INVALID_PARAMS,
		                "store options: struct_bytes %zu is not that of a known version; "
		                "set it to sizeof(struct kvh_store_options)",
		                given->struct_bytes);
	if (!own->env)
		own->env = kvh_env_posix();
	if (!own->device)
		own->device = kvh_device_host();
	return KVH_OK;
}

kvh_status kvh_store_open(const char *url, const struct kvh_store_options *options,
                          struct kvh_store **store, struct kvh_error *error)
{
	const struct backend *backend = NULL;
	struct kvh_store_options own;
	struct kvh_store_ops ops;
	struct kvh_url parsed;
	kvh_status status;
	void *self;

	if (!store)
		return kvh_fail(error, KVH_INVALID_PARAMS, "store: there is no place for it");
	status = take_options(options, &own, error);
	if (status)
		return status;
	status = kvh_url_parse(url, &parsed, error);
	if (status)
		return status;
	status = find_backend(&parsed, &backend, error);
	if (status)
		return status;
	status = backend->open(&parsed, &own, &ops, &self, error);
	return status ? status : kvh_store_open_ops(&ops, self, &own, store, error);
}
