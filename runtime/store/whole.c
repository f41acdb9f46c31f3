/* SPDX-License-Identifier: Apache-2.0 */
/* The calls that are about the store, not about a batch of results. */
#include "store_internal.h"

static kvh_status clear(struct kvh_store *store, const struct kvh_call *given, uint64_t *removed)
{
	struct kvh_call call;
	kvh_status status = kvh_call_take(store, given, &call);

	return status ? status : store->ops.clear(store->self, &call, removed);
}

kvh_status kvh_store_clear(struct kvh_store *store, const struct kvh_call *call, uint64_t *removed)
{
	struct kvh_inside inside;
	uint64_t removed_count = 0;
	kvh_status status = kvh_call_begin(&inside, store, KVH_OP_CLEAR);

	if (status)
		return status;
	status = clear(store, call, &removed_count);
	if (status == KVH_OK) {
		struct kvh_batch_counts counts = {.keys = removed_count,
		                                  .good_keys = removed_count};

		kvh_metrics_batch(&store->metrics, KVH_OP_CLEAR, &counts);
		if (removed)
			*removed = removed_count;
	}
	return kvh_call_end(&inside, status);
}

static kvh_status tiers_of(struct kvh_store *store, const struct kvh_batch *keys,
                           enum kvh_tier *tiers, const struct kvh_call *given)
{
	struct kvh_call call;
	kvh_status status = kvh_check_keys(store, "tiers", keys->keys, keys->count);

	if (status)
		return status;
	status = kvh_call_take(store, given, &call);
	if (status)
		return status;
	if (!store->caps.tiers)
		return KVH_NOT_SUPPORTED;
	return store->ops.tiers(store->self, keys->keys, keys->count, tiers, &call);
}

kvh_status kvh_store_tiers(struct kvh_store *store, const struct kvh_key *keys, size_t count,
                           enum kvh_tier *tiers, const struct kvh_call *call)
{
	const struct kvh_batch batch = {.count = count, .keys = keys};
	struct kvh_inside inside;
	kvh_status status;

	if (!keys || !tiers || count == 0 || count > KVH_BATCH_KEYS_MAX)
		return KVH_INVALID_PARAMS;
	for (size_t i = 0; i < count; i++)
		tiers[i] = KVH_TIER_UNKNOWN;
	status = kvh_call_begin(&inside, store, KVH_OP_TIERS);
	if (status)
		return status;
	return kvh_call_end(&inside, tiers_of(store, &batch, tiers, call));
}

kvh_status kvh_store_take_evicted(struct kvh_store *store, struct kvh_evicted_key *keys,
                                  size_t capacity, size_t *count, bool *lost)
{
	struct kvh_inside inside;
	size_t taken_count = 0;
	bool taken_lost = false;
	kvh_status status;

	if (!keys || capacity == 0 || !count || !lost)
		return KVH_INVALID_PARAMS;
	status = kvh_call_begin(&inside, store, KVH_OP_TAKE_EVICTED);
	if (status)
		return status;
	status = store->caps.evicted ? store->ops.take_evicted(store->self, keys, capacity,
	                                                       &taken_count, &taken_lost)
	                             : KVH_NOT_SUPPORTED;
	/* A count beyond the array would be read by whoever walks it. */
	if (status == KVH_OK && taken_count > capacity)
		status = KVH_INTERNAL;
	if (status == KVH_OK) {
		*count = taken_count;
		*lost = taken_lost;
	}
	return kvh_call_end(&inside, status);
}

kvh_status kvh_store_quiesce(struct kvh_store *store, kvh_deadline deadline_ns)
{
	struct kvh_inside inside;
	kvh_status status = kvh_call_begin(&inside, store, KVH_OP_QUIESCE);

	if (status)
		return status;
	return kvh_call_end(&inside, store->ops.quiesce(store->self, deadline_ns));
}
