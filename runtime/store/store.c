/* SPDX-License-Identifier: Apache-2.0 */
/* The store handle: open over a backend, enter and leave, close. */
#include "store_internal.h"

#include "base/error.h"
#include "base/fault.h"
#include "base/logging.h"
#include "base/process.h"
#include "struct_bytes.h"

void kvh_store_lock(struct kvh_store *store) KVH_NO_THREAD_SAFETY_ANALYSIS
{
	store->env->ops->mutex_lock(store->env->ctx, store->lock);
}

void kvh_store_unlock(struct kvh_store *store) KVH_NO_THREAD_SAFETY_ANALYSIS
{
	store->env->ops->mutex_unlock(store->env->ctx, store->lock);
}

kvh_status kvh_store_usable(const struct kvh_store *store)
{
	if (!store)
		return KVH_INVALID_PARAMS;
	if (kvh_process_id() != store->process_id)
		return KVH_FORKED;
	return kvh_gate_is_shut(&store->gate) ? KVH_CLOSED : KVH_OK;
}

kvh_status kvh_store_enter(struct kvh_store *store, unsigned *phase)
{
	if (!store)
		return KVH_INVALID_PARAMS;
	/* Its threads and locks, and RDMA's mappings, did not come along into a child (B32). */
	if (kvh_process_id() != store->process_id)
		return KVH_FORKED;
	return kvh_gate_enter(&store->gate, phase);
}

void kvh_store_leave(struct kvh_store *store, unsigned phase)
{
	kvh_gate_leave(&store->gate, phase);
}

void kvh_cancel_request(struct kvh_cancel *cancel)
{
	__atomic_store_n(&cancel->requested, 1, __ATOMIC_RELEASE);
}

bool kvh_cancel_requested(const struct kvh_cancel *cancel)
{
	return __atomic_load_n(&cancel->requested, __ATOMIC_ACQUIRE) != 0;
}

static kvh_status take_options(struct kvh_store *store, const struct kvh_store_options *given,
                               struct kvh_error *error)
{
	struct kvh_store_options options = {.struct_bytes = sizeof(options)};

	if (given && !kvh_struct_in(&options, sizeof(options), given))
		return kvh_fail(error, KVH_INVALID_PARAMS,
		                "store options: struct_bytes %zu is not that of a known version; "
		                "set it to sizeof(struct kvh_store_options)",
		                given->struct_bytes);
	store->env = options.env ? options.env : kvh_env_posix();
	store->device = options.device ? *options.device : *kvh_device_host();
	store->log = options.log;
	if (!store->env->ops)
		return kvh_fail(error, KVH_INVALID_PARAMS, "store options: env has no functions");
	if (!store->device.ops)
		return kvh_fail(error, KVH_INVALID_PARAMS,
		                "store options: device has no functions");
	return KVH_OK;
}

static kvh_status take_ops(struct kvh_store *store, const struct kvh_store_ops *ops, void *self,
                           struct kvh_error *error)
{
	if (!kvh_struct_in(&store->ops, sizeof(store->ops), ops))
		return kvh_fail(error, KVH_INVALID_PARAMS,
		                "store: the backend's struct_bytes %zu is not that of a known "
		                "version",
		                ops->struct_bytes);
	kvh_store_ops_fill(&store->ops);
	store->self = self;
	store->caps.struct_bytes = sizeof(store->caps);
	store->ops.caps(self, &store->caps);
	if (store->caps.replicas_max == 0)
		store->caps.replicas_max = 1;
	return KVH_OK;
}

static kvh_status create_locks(struct kvh_store *store)
{
	const struct kvh_env *env = store->env;
	kvh_status status = env->ops->mutex_create(env->ctx, &store->lock);

	if (status)
		return status;
	status = env->ops->cond_create(env->ctx, &store->left);
	if (status)
		return status;
	kvh_gate_init(&store->gate, env, store->lock, store->left);
	return kvh_regions_init(store);
}

/* Frees a handle that may be only partly made. The backend is not closed here. */
static void destroy(struct kvh_store *store)
{
	const struct kvh_env *env = store->env;

	kvh_regions_fini(store);
	kvh_prefix_table_fini(&store->prefixes);
	kvh_prefix_table_fini(&store->learned);
	if (store->left)
		env->ops->cond_destroy(env->ctx, store->left);
	if (store->lock)
		env->ops->mutex_destroy(env->ctx, store->lock);
	kvh_free(store);
}

static kvh_status make(struct kvh_store *store, const struct kvh_store_ops *ops, void *self,
                       const struct kvh_store_options *options, struct kvh_error *error)
{
	kvh_status status = take_options(store, options, error);

	if (status)
		return status;
	status = take_ops(store, ops, self, error);
	if (status)
		return status;
	status = create_locks(store);
	if (status)
		return kvh_fail(error, status, "store: no memory or locks for a handle: %s",
		                kvh_strstatus(status));
	store->process_id = kvh_process_id();
	return KVH_OK;
}

kvh_status kvh_store_open_ops(const struct kvh_store_ops *ops, void *self,
                              const struct kvh_store_options *options, struct kvh_store **store,
                              struct kvh_error *error)
{
	struct kvh_store *made = NULL;
	kvh_status status;

	if (!ops)
		return kvh_fail(error, KVH_INVALID_PARAMS, "store: ops is NULL");
	if (!store) {
		status = kvh_fail(error, KVH_INVALID_PARAMS, "store: there is no place for it");
		goto out;
	}
	made = kvh_calloc(1, sizeof(*made));
	if (!made) {
		status = kvh_fail(error, KVH_NO_MEMORY, "store: no memory for a handle");
		goto out;
	}
	status = make(made, ops, self, options, error);
	if (status)
		goto out;
	*store = made;
	return KVH_OK;
out:
	if (made)
		destroy(made);
	if (kvh_struct_bytes_ok(ops->struct_bytes) &&
	    ops->struct_bytes >= offsetof(struct kvh_store_ops, close) + sizeof(ops->close) &&
	    ops->close)
		ops->close(self);
	return status;
}

static bool has_layouts(struct kvh_store *store)
{
	bool has;

	kvh_store_lock(store);
	has = store->layout_count != 0;
	kvh_store_unlock(store);
	return has;
}

kvh_status kvh_store_close(struct kvh_store *store, kvh_deadline deadline_ns)
{
	kvh_status status;

	if (!store)
		return KVH_OK;
	if (kvh_process_id() != store->process_id)
		return KVH_FORKED;
	if (has_layouts(store))
		return KVH_BUSY;
	status = kvh_gate_shut(&store->gate, deadline_ns);
	if (status)
		return status;
	/* A call that returned unquiet may still move bytes of the caller's memory (D-23). */
	status = store->ops.quiesce(store->self, deadline_ns);
	if (status == KVH_TIMEOUT)
		return status;
	if (status && status != KVH_NOT_SUPPORTED)
		kvh_log_line(&store->log, KVH_LOG_WARN, "store %s: quiesce before close: %s (%d)",
		             store->ops.name, kvh_strstatus(status), (int)status);
	store->ops.close(store->self);
	destroy(store);
	return KVH_OK;
}
