/* SPDX-License-Identifier: Apache-2.0 */
/* Listing and verifying: no lock, one object pinned at a time. */
#include "pool/core/list.h"

#include <string.h>

#include "pool/core/prefixes.h"
#include "pool/local/local.h"

struct lister {
	struct kvh_local *local;
	const struct kvh_list *list;
	struct kvh_core_walk walk;
	size_t count;
	size_t hashes_bytes; /* of list->hashes that are used */
};

static kvh_status verify(struct lister *lister, const struct kvh_listed *listed)
{
	const struct kvh_core *core = &lister->local->core;

	if (listed->flags & KVH_LISTED_BAD_RECORD)
		return KVH_CHECKSUM_MISMATCH;
	if (!(lister->list->flags & KVH_LIST_VERIFY))
		return KVH_OK;
	if (!core->area.sums)
		return KVH_NOT_SUPPORTED;
	return kvh_local_sum_is_right(core, lister->walk.ref.slot) ? KVH_OK : KVH_CHECKSUM_MISMATCH;
}

/* False: there is no room for its hash. */
static bool take_pinned(struct lister *lister)
{
	struct kvh_core *core = &lister->local->core;
	const struct kvh_list *list = lister->list;
	uint8_t hash[KVH_KEY_HASH_BYTES_MAX];
	struct kvh_listed listed;

	if (!lister->walk.good && !(list->flags & KVH_LIST_VERIFY))
		return true;
	kvh_core_walk_tell(core, &lister->walk, kvh_now_ns(lister->local->env), hash, &listed);
	if (listed.key.hash_bytes > list->hashes_bytes - lister->hashes_bytes)
		return false;
	listed.status = verify(lister, &listed);
	/* While a pin holds its object can't have changed; looked at all the same. */
	if (!kvh_core_pin_holds(core, &lister->walk.ref))
		listed.status = KVH_INTERNAL;
	if (listed.key.hash_bytes) {
		memcpy(list->hashes + lister->hashes_bytes, hash, listed.key.hash_bytes);
		listed.key.hash = list->hashes + lister->hashes_bytes;
		lister->hashes_bytes += listed.key.hash_bytes;
	}
	list->objects[lister->count++] = listed;
	return true;
}

static kvh_status begin(struct lister *lister, uint64_t cursor, const struct kvh_call *call)
{
	struct kvh_local *local = lister->local;
	uint32_t ever = kvh_slots_ever(&local->core.area);
	uint32_t slot = cursor < ever ? (uint32_t)cursor : ever;
	kvh_status stop = KVH_OK;

	while (!kvh_core_walk_begin(&local->core, &lister->walk, slot)) {
		stop = kvh_local_stop(local, call);
		if (stop)
			break;
		kvh_local_nap(local);
	}
	return stop;
}

kvh_status kvh_local_list(void *self, const struct kvh_list *list, uint64_t *cursor, size_t *count,
                          const struct kvh_call *call)
{
	struct lister lister = {.local = self, .list = list};
	struct kvh_core *core = &lister.local->core;
	struct kvh_core_walk *walk = &lister.walk;
	kvh_status stop = begin(&lister, *cursor, call);

	if (stop)
		return stop;
	/* A step at least, so that a caller gets on however short its deadlines are. */
	while (lister.count < list->capacity && !kvh_core_walk_over(core, walk) && !stop) {
		if (kvh_core_walk_next(core, walk, kvh_local_now_unit(lister.local)) &&
		    !take_pinned(&lister)) {
			walk->slot--;
			break;
		}
		stop = kvh_local_stop(lister.local, call);
	}
	*cursor = kvh_core_walk_over(core, walk) ? 0 : walk->slot;
	*count = lister.count;
	kvh_core_walk_end(core, walk);
	return KVH_OK;
}

kvh_status kvh_local_prefix_at(void *self, uint32_t prefix_id, char *text,
                               struct kvh_prefix *prefix)
{
	const struct kvh_local *local = self;

	return kvh_prefix_record_read(&local->core.area, prefix_id, text, prefix)
	               ? KVH_OK
	               : KVH_OBJECT_NOT_FOUND;
}
