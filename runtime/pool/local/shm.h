/* SPDX-License-Identifier: Apache-2.0 */
/* The shared half of a local pool: sessions of other processes. */
#ifndef KVH_POOL_LOCAL_SHM_H
#define KVH_POOL_LOCAL_SHM_H

#include "pool/local/local.h"

/* kvh_local_bury of a pool that has a shared half. */
bool kvh_shared_bury(struct kvh_local *local, kvh_deadline deadline_ns);

#endif
