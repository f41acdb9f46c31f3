/* SPDX-License-Identifier: Apache-2.0 */
/* "local:": a core in private memory of this process. */
#include <sys/mman.h>

#include "base/error.h"
#include "base/fault.h"
#include "pool/core/sessions.h"
#include "pool/local/local.h"
#include "pool/pool.h"

/* ---- the lock: private memory needs no more than the environment's ---------------------- */

static bool lock_take(void *ctx, kvh_deadline deadline_ns)
{
	struct kvh_local *local = ctx;

	(void)deadline_ns;
	local->env->ops->mutex_lock(local->env->ctx, local->mutex);
	return true;
}

static void lock_give(void *ctx)
{
	struct kvh_local *local = ctx;

	local->env->ops->mutex_unlock(local->env->ctx, local->mutex);
}

/* ---- open and close -------------------------------------------------------------------- */

static void local_close(void *self)
{
	struct kvh_local *local = self;

	kvh_core_close(&local->core);
	if (local->mutex)
		local->env->ops->mutex_destroy(local->env->ctx, local->mutex);
	if (local->memory)
		munmap(local->memory, local->memory_bytes);
	kvh_free(local);
}

static kvh_status map_area(struct kvh_local *local, const struct kvh_geometry *geometry,
                           struct kvh_error *error)
{
	void *memory = mmap(NULL, geometry->area_bytes, PROT_READ | PROT_WRITE,
	                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (memory == MAP_FAILED)
		return kvh_fail(error, KVH_NO_MEMORY,
		                "local: %llu bytes of memory are not to be had; open a smaller "
		                "pool or raise the limit on address space (ulimit -v)",
		                (unsigned long long)geometry->area_bytes);
	local->memory = memory;
	local->memory_bytes = geometry->area_bytes;
	/* Hints: fewer page faults, and no cached blocks in core dumps. */
	madvise(memory, geometry->area_bytes, MADV_HUGEPAGE);
	madvise(memory, geometry->area_bytes, MADV_DONTDUMP);
	return KVH_OK;
}

static kvh_status start_core(struct kvh_local *local)
{
	struct kvh_core_lock lock = {.take = lock_take, .give = lock_give, .ctx = local};
	const struct kvh_session_owner nobody = {0};
	uint64_t now_ns = kvh_now_ns(local->env);
	kvh_status status = local->env->ops->mutex_create(local->env->ctx, &local->mutex);

	if (status)
		return status;
	status = kvh_core_open(&local->core, local->memory, &lock);
	if (status)
		return status;
	if (!kvh_core_take(&local->core, 0))
		return KVH_TIMEOUT;
	atomic_store(&local->core.area.super->time_base, kvh_time_unit(now_ns));
	kvh_core_rebuild(&local->core, now_ns);
	local->core.session =
		kvh_session_begin(&local->core.area, kvh_session_draw(&local->core.area), &nobody);
	kvh_core_give(&local->core);
	return KVH_OK;
}

kvh_status kvh_local_open(const struct kvh_local_options *options,
                          const struct kvh_store_options *common, struct kvh_store_ops *ops,
                          void **self, struct kvh_error *error)
{
	const uint64_t no_boot[2] = {0};
	const struct kvh_env *env = common->env;
	struct kvh_geometry geometry;
	struct kvh_local *local;
	kvh_status status;

	if (kvh_geometry_make(options->capacity_bytes, options->verify, &geometry))
		return kvh_fail(error, KVH_INVALID_PARAMS,
		                "local: size %llu is not between 4KiB and 4TiB",
		                (unsigned long long)options->capacity_bytes);
	local = kvh_calloc(1, sizeof(*local));
	if (!local)
		return kvh_fail(error, KVH_NO_MEMORY, "local: no memory for the handle");
	local->env = env;
	local->log = common->log;
	status = map_area(local, &geometry, error);
	if (status)
		goto out;
	kvh_area_format(local->memory, &geometry, env->ops->random(env->ctx), no_boot);
	status = start_core(local);
	if (status)
		kvh_fail(error, status, "local: no memory for the pool's bookkeeping");
out:
	if (status) {
		local_close(local);
		return status;
	}
	*ops = kvh_local_ops;
	ops->close = local_close;
	*self = local;
	return KVH_OK;
}
