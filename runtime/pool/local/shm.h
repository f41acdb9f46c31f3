/* SPDX-License-Identifier: Apache-2.0 */
/* The shared half of a local pool: sessions of other processes. */
#ifndef KVH_POOL_LOCAL_SHM_H
#define KVH_POOL_LOCAL_SHM_H

#include "pool/local/local.h"
#include "pool/pool.h"

/*
 * kvh_shared_open on memory where the caller has the whole file mapped, lent until close: so
 * handles of one process can share a mapping. NULL: the handle maps it for itself.
 */
kvh_status kvh_shared_open_at(const struct kvh_shared_options *options,
                              const struct kvh_store_options *common, void *memory,
                              struct kvh_store_ops *ops, void **self, struct kvh_error *error);

/* kvh_local_bury of a pool that has a shared half. */
bool kvh_shared_bury(struct kvh_local *local, kvh_deadline deadline_ns);

#endif
