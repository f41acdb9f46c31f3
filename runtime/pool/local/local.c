/* SPDX-License-Identifier: Apache-2.0 */
/* A store over a core in this machine's memory: what is the same for private and shared memory. */
#include "pool/local/local.h"

#include "base/error.h"
#include "pool/local/shm.h"

#define LET_GO_NS     UINT64_C(10000000)
#define PREFIX_NS     UINT64_C(10000000000) /* it has no deadline of its own (S-9) */
#define SESSIONS_NS   UINT64_C(100000000)
#define LOOK_AGAIN_NS UINT64_C(100000000)

/* ---- small operations ------------------------------------------------------------------ */

static void local_caps(void *self, struct kvh_store_caps *caps)
{
	struct kvh_local *local = self;

	caps->hold = true;
	caps->lifecycle = true;
	caps->tiers = true;
	caps->evicted = true;
	caps->list = true;
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

	return kvh_core_prefix(&local->core, prefix, kvh_deadline_after(local->env, PREFIX_NS),
	                       prefix_id, error);
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
	*lost = false;
	*count = kvh_core_take_evicted(&local->core, keys, capacity, lost);
	return KVH_OK;
}

static kvh_status local_stats(void *self, struct kvh_store_stats *stats)
{
	struct kvh_local *local = self;

	kvh_core_stats(&local->core, stats);
	return KVH_OK;
}

static kvh_status local_sessions(void *self, struct kvh_store_session *sessions, size_t capacity,
                                 size_t *count)
{
	struct kvh_local *local = self;
	struct kvh_store_session session;
	size_t found = 0;

	kvh_local_bury(local, kvh_deadline_after(local->env, SESSIONS_NS));
	for (uint32_t i = 0; i < KVH_SESSIONS_MAX; i++) {
		if (!kvh_core_session(&local->core, i, &session))
			continue;
		if (found < capacity)
			sessions[found] = session;
		found++;
	}
	*count = found;
	return KVH_OK;
}

/* ---- remove and clear ------------------------------------------------------------------ */

/* Whoever pins or reserves may be dead: that is asked at first and then every few naps. */
static void wait_for_holder(struct kvh_local *local, uint32_t looks, kvh_deadline deadline_ns)
{
	if (looks % KVH_LOCAL_BURY_NAPS == 0 && kvh_local_bury(local, deadline_ns))
		return;
	kvh_local_nap(local);
}

/* Up to 64 keys; pinned ones are tried again until the call has to stop. */
static void remove_turn(struct kvh_local *local, const struct kvh_key *keys, size_t count,
                        struct kvh_result *results, const struct kvh_call *call)
{
	uint32_t looks = 0;
	struct kvh_stored_key stored[KVH_TURN_KEYS_MAX];
	kvh_status statuses[KVH_TURN_KEYS_MAX];
	size_t places[KVH_TURN_KEYS_MAX];
	size_t left = count;

	kvh_core_prepare(&local->core, keys, count, stored);
	for (size_t i = 0; i < count; i++) {
		places[i] = i;
		/* If the lock is not to be had. */
		results[i].value = KVH_TIMEOUT;
	}
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
			wait_for_holder(local, looks++, kvh_local_deadline(call));
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
	uint32_t slot = 0, looks = 0;

	while (slot < kvh_slots_ever(&local->core.area)) {
		uint32_t before = slot;
		kvh_status stop;

		if (!kvh_core_clear(&local->core, &slot, kvh_local_deadline(call), &count))
			return KVH_TIMEOUT;
		stop = slot < kvh_slots_ever(&local->core.area) ? kvh_local_stop(local, call)
		                                                : KVH_OK;
		if (stop)
			return slot == before ? KVH_OBJECT_HAS_LEASE : stop;
		/* A pinned object: its reader is waited for. */
		if (slot == before)
			wait_for_holder(local, looks++, kvh_local_deadline(call));
	}
	*removed = count;
	return KVH_OK;
}

/* ---- sessions that died ----------------------------------------------------------------- */

bool kvh_local_bury(struct kvh_local *local, kvh_deadline deadline_ns)
{
	return local->shared && kvh_shared_bury(local, deadline_ns);
}

void kvh_local_let_go(struct kvh_local *local, const struct kvh_core_ref *refs, size_t count,
                      kvh_status *statuses)
{
	/* Short: nobody waits for the bytes, and the lock's holder may be stopped (S-9). */
	if (!kvh_core_abort(&local->core, refs, count, kvh_deadline_after(local->env, LET_GO_NS),
	                    statuses))
		kvh_core_abandon(&local->core, refs, count, statuses);
}

struct kvh_rebuild_watch kvh_local_watch(const struct kvh_local *local)
{
	return (struct kvh_rebuild_watch){
		.counter = atomic_load(&local->core.area.super->rebuild_counter)};
}

bool kvh_local_look_again(struct kvh_local *local, struct kvh_rebuild_watch *watch,
                          const struct kvh_call *call)
{
	uint64_t counter = atomic_load(&local->core.area.super->rebuild_counter);
	kvh_deadline until_ns;

	if (counter == watch->counter && counter % 2 == 0)
		return false;
	if (!watch->until_ns)
		watch->until_ns = kvh_deadline_after(local->env, LOOK_AGAIN_NS);
	if (kvh_deadline_passed(local->env, watch->until_ns) || kvh_local_stop(local, call))
		return false;
	/* If whoever rebuilt is dead, burying it finds that and rebuilds; if not, nobody waits. */
	until_ns = kvh_local_deadline(call);
	if (!until_ns || until_ns > watch->until_ns)
		until_ns = watch->until_ns;
	wait_for_holder(local, ++watch->looks, until_ns);
	watch->counter = counter;
	return true;
}

/* ---- the table -------------------------------------------------------------------------- */

const struct kvh_store_ops kvh_local_ops = {
	.struct_bytes = sizeof(kvh_local_ops),
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
	.list = kvh_local_list,
	.prefix_at = kvh_local_prefix_at,
	.sessions = local_sessions,
};
