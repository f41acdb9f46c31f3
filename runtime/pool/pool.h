/* SPDX-License-Identifier: Apache-2.0 */
/* The pool's ways in, for the URL table. */
#ifndef KVH_POOL_POOL_H
#define KVH_POOL_POOL_H

#include <kvhold/store_ops.h>

/* Capacities that a pool can have. */
#define KVH_LOCAL_BYTES_MIN ((uint64_t)4 << 10)
#define KVH_LOCAL_BYTES_MAX ((uint64_t)4 << 40)

struct kvh_local_options {
	uint64_t capacity_bytes; /* of payloads; rounded down to 4 KiB */
	bool verify; /* keep an XXH3 of every object and compare it at each get (-801) */
};

/*
 * A pool in this process's memory. common: env, device and log, none NULL, lent until close. ops,
 * *self: written on success only; ops->close frees. KVH_INVALID_PARAMS: a capacity that no pool can
 * have. KVH_NO_MEMORY.
 */
kvh_status kvh_local_open(const struct kvh_local_options *options,
                          const struct kvh_store_options *common, struct kvh_store_ops *ops,
                          void **self, struct kvh_error *error);

#endif
