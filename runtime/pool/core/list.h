/* SPDX-License-Identifier: Apache-2.0 */
/* Looking at all objects of a pool, one after the other. No lock, no use counted. */
#ifndef KVH_POOL_CORE_LIST_H
#define KVH_POOL_CORE_LIST_H

#include "pool/core/core.h"

/*
 * A walk over the slots. One object is pinned at a time, from kvh_core_walk_next to the next call;
 * what is pinned can't be evicted or removed.
 */
struct kvh_core_walk {
	uint32_t block;          /* own pin block */
	uint32_t slot;           /* the next to look at */
	struct kvh_core_ref ref; /* what is pinned; slot KVH_NONE: nothing */
	bool good;               /* its record can be believed (S-15); else a get doesn't find it */
};

/* From slot on. False: all pin blocks are in use, try again. */
bool kvh_core_walk_begin(struct kvh_core *core, struct kvh_core_walk *walk, uint32_t slot);
/*
 * Pins the next VALID object, not expired, among up to KVH_TURN_KEYS_MAX slots. False: none is
 * there; the walk is over when kvh_core_walk_over says so.
 */
bool kvh_core_walk_next(struct kvh_core *core, struct kvh_core_walk *walk, uint64_t now_unit);
void kvh_core_walk_end(struct kvh_core *core, struct kvh_core_walk *walk);

static inline bool kvh_core_walk_over(const struct kvh_core *core, const struct kvh_core_walk *walk)
{
	return walk->slot >= kvh_slots_ever(&core->area);
}

/*
 * What the pinned object is; key.hash points to hash. Of a bad record the key is told as far as
 * bounds allow. status is left KVH_OK.
 */
void kvh_core_walk_tell(const struct kvh_core *core, const struct kvh_core_walk *walk,
                        uint64_t now_ns, uint8_t hash[KVH_KEY_HASH_BYTES_MAX],
                        struct kvh_listed *listed);

#endif
