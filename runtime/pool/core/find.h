/* SPDX-License-Identifier: Apache-2.0 */
/* Finding a key under the lock; without it, see core.h. */
#ifndef KVH_POOL_CORE_FIND_H
#define KVH_POOL_CORE_FIND_H

#include "pool/core/core.h"

/*
 * The key's slot, VALID (its whole text is equal, S-12) or RESERVED (its text is not written yet:
 * the digest has to do), and its ctl. KVH_NONE: the key is free. Lock held.
 */
uint32_t kvh_find_locked(const struct kvh_core *core, const struct kvh_stored_key *key,
                         uint64_t *ctl) KVH_REQUIRES(kvh_role_pool);

#endif
