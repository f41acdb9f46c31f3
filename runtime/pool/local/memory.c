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

/* ---- small operations ------------------------------------------------------------------ */

static void local_caps(void *self, struct kvh_store_caps *caps)
{
	struct kvh_local *local = self;

	caps->hold = true;
	caps->lifecycle = true;
	caps->tiers = true;
	caps->evicted = true;
	caps->stop_ms_max = KVH_LOCAL_STOP_MS;
	caps->capacity_bytes = (uint64_t)local->core.area.geometry.unit_count * KVH_UNIT_BYTES;
	caps->replicas_max = 1;
}

static kvh_status local_register(void *self, kvh_region_id region, void *addr, size_t bytes,
                                 enum kvh_memory_kind kind, struct kvh_error *error)
{
	(void)self, (void)region, (void)addr, (void)bytes;
	if (kind == KVH_MEMORY_DEVICE)
		return kvh_fail(error, KVH_NOT_SUPPORTED,
		                "register: the local pool copies host memory only; register a host "
		                "buffer and copy to the device from there");
	return KVH_OK;
}

/* Bytes move inside calls only, and the front door waits for those. */
static kvh_status local_unregister(void *self, kvh_region_id region, kvh_deadline deadline_ns)
{
	(void)self, (void)region, (void)deadline_ns;
	return KVH_OK;
}

static kvh_status local_quiesce(void *self, kvh_deadline deadline_ns)
{
	(void)self, (void)deadline_ns;
	return KVH_OK;
}

static kvh_status local_prefix(void *self, const struct kvh_prefix *prefix, uint32_t *prefix_id,
                               struct kvh_error *error)
{
	struct kvh_local *local = self;

	return kvh_core_prefix(&local->core, prefix, 0, prefix_id, error);
}

static kvh_status local_tiers(void *self, const struct kvh_key *keys, size_t count,
                              enum kvh_tier *tiers, const struct kvh_call *call)
{
	struct kvh_result results[KVH_TURN_KEYS_MAX] = {0};

	for (size_t first = 0; first < count; first += KVH_TURN_KEYS_MAX) {
		size_t left = count - first;
		struct kvh_batch batch = {.count = left < KVH_TURN_KEYS_MAX ? left
		                                                            : KVH_TURN_KEYS_MAX,
		                          .keys = keys + first,
		                          .results = results};

		kvh_local_exists(self, &batch, KVH_EXISTS_LOOKUP, call);
		for (size_t i = 0; i < batch.count; i++)
			tiers[first + i] =
				results[i].value == 1 ? KVH_TIER_MEMORY : KVH_TIER_UNKNOWN;
	}
	return KVH_OK;
}

static kvh_status local_take_evicted(void *self, struct kvh_evicted_key *keys, size_t capacity,
                                     size_t *count, bool *lost)
{
	struct kvh_local *local = self;
	size_t taken = 0, more;
	bool gap = false;

	do {
		if (!kvh_core_take_evicted(&local->core, keys + taken, capacity - taken, 0, &more,
		                           &gap))
			return KVH_TIMEOUT;
		taken += more;
	} while (more == KVH_TURN_KEYS_MAX && taken < capacity);
	*count = taken;
	*lost = gap;
	return KVH_OK;
}

static kvh_status local_stats(void *self, struct kvh_store_stats *stats)
{
	struct kvh_local *local = self;

	kvh_core_stats(&local->core, stats);
	return KVH_OK;
}

/* ---- remove and clear ------------------------------------------------------------------ */

/* Up to 64 keys; pinned ones are tried again until the call has to stop. */
static void remove_turn(struct kvh_local *local, const struct kvh_key *keys, size_t count,
                        struct kvh_result *results, const struct kvh_call *call)
{
	struct kvh_stored_key stored[KVH_TURN_KEYS_MAX];
	kvh_status statuses[KVH_TURN_KEYS_MAX];
	size_t places[KVH_TURN_KEYS_MAX];
	size_t left = count;

	kvh_core_prepare(&local->core, keys, count, stored);
	for (size_t i = 0; i < count; i++)
		places[i] = i;
	while (left) {
		size_t kept = 0;

		if (!kvh_core_remove(&local->core, stored, left, kvh_local_now_unit(local),
		                     kvh_local_deadline(call), statuses))
			return;
		for (size_t i = 0; i < left; i++) {
			results[places[i]].value = statuses[i];
			if (statuses[i] != KVH_OBJECT_HAS_LEASE)
				continue;
			places[kept] = places[i];
			stored[kept++] = stored[i];
		}
		left = kept;
		if (left && kvh_local_stop(local, call))
			return;
		if (left)
			kvh_local_nap(local);
	}
}

static kvh_status local_remove(void *self, const struct kvh_batch *batch,
                               const struct kvh_call *call)
{
	for (size_t first = 0; first < batch->count; first += KVH_TURN_KEYS_MAX) {
		size_t left = batch->count - first;

		remove_turn(self, batch->keys + first,
		            left < KVH_TURN_KEYS_MAX ? left : KVH_TURN_KEYS_MAX,
		            batch->results + first, call);
	}
	return KVH_OK;
}

static kvh_status local_clear(void *self, const struct kvh_call *call, uint64_t *removed)
{
	struct kvh_local *local = self;
	uint64_t count = 0;
	uint32_t slot = 0;

	while (slot < kvh_slots_ever(&local->core.area)) {
		uint32_t before = slot;

		if (!kvh_core_clear(&local->core, &slot, kvh_local_deadline(call), &count))
			return KVH_TIMEOUT;
		if (slot != before)
			continue;
		/* A pinned object: its reader is waited for. */
		if (kvh_local_stop(local, call))
			return KVH_OBJECT_HAS_LEASE;
		kvh_local_nap(local);
	}
	*removed = count;
	return KVH_OK;
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

static const struct kvh_store_ops local_ops = {
	.struct_bytes = sizeof(local_ops),
	.name = "local",
	.caps = local_caps,
	.register_region = local_register,
	.unregister_region = local_unregister,
	.prefix = local_prefix,
	.exists = kvh_local_exists,
	.put = kvh_local_put,
	.get = kvh_local_get,
	.remove = local_remove,
	.commit = kvh_local_commit,
	.abort = kvh_local_abort,
	.clear = local_clear,
	.tiers = local_tiers,
	.take_evicted = local_take_evicted,
	.quiesce = local_quiesce,
	.stats = local_stats,
	.close = local_close,
};

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
	local->core.session = kvh_session_open(&local->core.area);
	kvh_core_give(&local->core);
	return KVH_OK;
}

kvh_status kvh_local_open(const struct kvh_local_options *options,
                          const struct kvh_store_options *common, struct kvh_store_ops *ops,
                          void **self, struct kvh_error *error)
{
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
	kvh_area_format(local->memory, &geometry, env->ops->random(env->ctx));
	status = start_core(local);
	if (status)
		kvh_fail(error, status, "local: no memory for the pool's bookkeeping");
out:
	if (status) {
		local_close(local);
		return status;
	}
	*ops = local_ops;
	*self = local;
	return KVH_OK;
}
