/* SPDX-License-Identifier: Apache-2.0 */
/* Keys of this worker that left the store, on their way to poll. */
#include "worker/internal.h"

enum { TAKE_AT_ONCE = 64 };

static bool is_ours(const struct kvh_worker *worker, uint32_t prefix_id)
	KVH_REQUIRES(kvh_role_worker)
{
	for (size_t i = 0; i < worker->own_count; i++) {
		if (worker->epoch->own[i] == prefix_id)
			return true;
	}
	return false;
}

/* A full ring drops its oldest entry: the one put in its place says that keys are missing. */
static void push(struct kvh_worker *worker, const struct kvh_evicted_key *key, kvh_status status)
	KVH_REQUIRES(kvh_role_worker)
{
	struct kvh_completion *slot;

	if (worker->evicted_count == KVH_EVICTED_RING) {
		worker->evicted_first = (worker->evicted_first + 1) % KVH_EVICTED_RING;
		worker->evicted_count--;
		worker->evicted[worker->evicted_first].status = KVH_NO_ANSWER;
		worker->stats.events_dropped++;
	}
	slot = &worker->evicted[(worker->evicted_first + worker->evicted_count++) %
	                        KVH_EVICTED_RING];
	*slot = (struct kvh_completion){.kind = KVH_EVICTED, .status = status};
	if (key)
		slot->evicted = *key;
}

void kvh_evicted_collect(struct kvh_worker *worker)
{
	struct kvh_evicted_key keys[TAKE_AT_ONCE];
	size_t count = 0;
	bool lost = false;

	do {
		if (kvh_store_take_evicted(worker->store, keys, TAKE_AT_ONCE, &count, &lost))
			return;
		kvh_worker_lock(worker);
		if (lost)
			push(worker, NULL, KVH_NO_ANSWER);
		for (size_t i = 0; i < count; i++) {
			if (is_ours(worker, keys[i].prefix_id))
				push(worker, &keys[i], KVH_OK);
		}
		kvh_worker_unlock(worker);
	} while (count == TAKE_AT_ONCE);
}
