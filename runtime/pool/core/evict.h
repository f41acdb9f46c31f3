/* SPDX-License-Identifier: Apache-2.0 */
/* Evicting: an object, or a whole lifecycle group, leaves unless it is pinned. Lock held. */
#ifndef KVH_POOL_CORE_EVICT_H
#define KVH_POOL_CORE_EVICT_H

#include "pool/core/core.h"

/* What leaves together: an object, or the VALID members of its group (all or none). */
struct kvh_evict_unit {
	uint32_t count;
	uint32_t slots[KVH_PREFIXES_MAX];
};

/* False: a member ranks above rank_max, so the unit is not as old as that. */
bool kvh_evict_collect(struct kvh_core *core, uint32_t slot, uint64_t rank_max, uint64_t now_unit,
                       struct kvh_evict_unit *unit) KVH_REQUIRES(kvh_role_pool);
/* False: something of it is pinned; nothing changed. */
bool kvh_evict(struct kvh_core *core, const struct kvh_evict_unit *unit, uint64_t now_unit)
	KVH_REQUIRES(kvh_role_pool);
/* One object, without its group. False: pinned. Counted as evicted or expired by the caller. */
bool kvh_evict_alone(struct kvh_core *core, uint32_t slot) KVH_REQUIRES(kvh_role_pool);

/* A RESERVED slot -> FREE, its extent back. False: it is not in this state any more (S-11). */
bool kvh_release(struct kvh_core *core, uint32_t slot, uint64_t ctl) KVH_REQUIRES(kvh_role_pool);

#endif
