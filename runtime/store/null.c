/* SPDX-License-Identifier: Apache-2.0 */
/* The null store, for benches. */
#include "null.h"

#include "base/error.h"
#include "base/fault.h"
#include "base/lock.h"
#include "prefixes.h"
#include "store_internal.h"

struct null_store {
	const struct kvh_env *env;
	struct kvh_mutex *lock; /* guards prefixes against two adders */
	uint32_t prefix_count;
	bool exists;
	struct kvh_prefix_table prefixes;
};

static kvh_status null_register(void *self, kvh_region_id region, void *addr, size_t bytes,
                                enum kvh_memory_kind kind, struct kvh_error *error)
{
	(void)self, (void)region, (void)addr, (void)bytes, (void)kind, (void)error;
	return KVH_OK;
}

static kvh_status null_unregister(void *self, kvh_region_id region, kvh_deadline deadline_ns)
{
	(void)self, (void)region, (void)deadline_ns;
	return KVH_OK;
}

/* Lock held. */
static kvh_status intern(struct null_store *null, const struct kvh_prefix *prefix,
                         uint32_t *prefix_id, struct kvh_error *error)
{
	const struct kvh_prefix_entry *entry = kvh_prefix_find(&null->prefixes, prefix);
	kvh_status status;

	if (entry) {
		*prefix_id = entry->id;
		return KVH_OK;
	}
	if (null->prefix_count == KVH_PREFIXES_MAX)
		return kvh_fail(error, KVH_BUSY, "prefix: the table of %d is full",
		                KVH_PREFIXES_MAX);
	status = kvh_prefix_add(&null->prefixes, prefix, null->prefix_count);
	if (status)
		return kvh_fail(error, status, "prefix: no memory for its text");
	*prefix_id = null->prefix_count++;
	return KVH_OK;
}

static kvh_status null_prefix(void *self, const struct kvh_prefix *prefix, uint32_t *prefix_id,
                              struct kvh_error *error)
{
	struct null_store *null = self;
	kvh_status status;

	null->env->ops->mutex_lock(null->env->ctx, null->lock);
	status = intern(null, prefix, prefix_id, error);
	null->env->ops->mutex_unlock(null->env->ctx, null->lock);
	return status;
}

static void answer_all(const struct kvh_batch *batch, int64_t value)
{
	for (size_t i = 0; i < batch->count; i++)
		batch->results[i].value = value;
}

static kvh_status null_exists(void *self, const struct kvh_batch *batch, uint32_t flags,
                              const struct kvh_call *call)
{
	const struct null_store *null = self;

	(void)flags, (void)call;
	answer_all(batch, null->exists);
	return KVH_OK;
}

static kvh_status null_put(void *self, const struct kvh_batch *batch,
                           const struct kvh_put_options *options, const struct kvh_call *call)
{
	(void)self, (void)options, (void)call;
	answer_all(batch, 0);
	return KVH_OK;
}

static kvh_status null_get(void *self, const struct kvh_batch *batch, const struct kvh_call *call)
{
	(void)self, (void)call;
	for (size_t i = 0; i < batch->count; i++)
		batch->results[i].value = (int64_t)kvh_value_bytes(&batch->values[i]);
	return KVH_OK;
}

static kvh_status null_remove(void *self, const struct kvh_batch *batch,
                              const struct kvh_call *call)
{
	const struct null_store *null = self;

	(void)call;
	answer_all(batch, null->exists ? KVH_OK : KVH_OBJECT_NOT_FOUND);
	return KVH_OK;
}

static kvh_status null_clear(void *self, const struct kvh_call *call, uint64_t *removed)
{
	(void)self, (void)call;
	*removed = 0;
	return KVH_OK;
}

static kvh_status null_quiesce(void *self, kvh_deadline deadline_ns)
{
	(void)self, (void)deadline_ns;
	return KVH_OK;
}

static kvh_status null_stats(void *self, struct kvh_store_stats *stats)
{
	(void)self, (void)stats;
	return KVH_OK;
}

static void null_close(void *self)
{
	struct null_store *null = self;

	kvh_prefix_table_fini(&null->prefixes);
	null->env->ops->mutex_destroy(null->env->ctx, null->lock);
	kvh_free(null);
}

kvh_status kvh_null_open(const struct kvh_null_options *options, const struct kvh_env *env,
                         struct kvh_store_ops *ops, void **self, struct kvh_error *error)
{
	struct null_store *null = kvh_calloc(1, sizeof(*null));
	kvh_status status;

	if (!null)
		return kvh_fail(error, KVH_NO_MEMORY, "null store: no memory");
	status = env->ops->mutex_create(env->ctx, &null->lock);
	if (status) {
		kvh_free(null);
		return kvh_fail(error, status, "null store: no lock: %s", kvh_strstatus(status));
	}
	null->env = env;
	null->exists = options->exists;
	*ops = (struct kvh_store_ops){
		.struct_bytes = sizeof(*ops),
		.name = "null",
		.register_region = null_register,
		.unregister_region = null_unregister,
		.prefix = null_prefix,
		.exists = null_exists,
		.put = null_put,
		.get = null_get,
		.remove = null_remove,
		.clear = null_clear,
		.quiesce = null_quiesce,
		.stats = null_stats,
		.close = null_close,
	};
	*self = null;
	return KVH_OK;
}
