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

/* A pool that processes share: one file, mapped by all of them. */
struct kvh_shared_options {
	const char *path;        /* absolute */
	uint64_t capacity_bytes; /* 0: as the file has it */
	const bool *verify;      /* NULL: as the file has it, false for a new one */
	uint32_t mode;           /* permissions of the file; 0: 0600 */
	const char *group;       /* who else may open it (mode 0660); NULL: nobody */
	const char *numa;        /* "interleave" or a node's number; NULL: as the system does */
	bool prefault;           /* map every page at open, not at its first use */
};

enum { KVH_SHARED_PATH_BYTES = 4096 };

/*
 * The file that "local:" + rest names: NAME is /dev/shm/kvhold.NAME, ///PATH is /PATH.
 * KVH_INVALID_PARAMS: neither.
 */
kvh_status kvh_shared_path(const char *rest, char path[KVH_SHARED_PATH_BYTES],
                           struct kvh_error *error);

/*
 * Opens the pool in the file, makes it first where there is none and a capacity is given. Waits at
 * most 10 s for others that open or close it (KVH_TIMEOUT). KVH_INVALID_PARAMS: the file is no pool
 * of ours, or not as the options say. KVH_NO_MEMORY: no room for it. KVH_BUSY: 256 sessions have it
 * open. The rest as kvh_local_open.
 */
kvh_status kvh_shared_open(const struct kvh_shared_options *options,
                           const struct kvh_store_options *common, struct kvh_store_ops *ops,
                           void **self, struct kvh_error *error);

/*
 * A pool in this process's memory. common: env, device and log, none NULL, lent until close. ops,
 * *self: written on success only; ops->close frees. KVH_INVALID_PARAMS: a capacity that no pool can
 * have. KVH_NO_MEMORY.
 */
kvh_status kvh_local_open(const struct kvh_local_options *options,
                          const struct kvh_store_options *common, struct kvh_store_ops *ops,
                          void **self, struct kvh_error *error);

#endif
