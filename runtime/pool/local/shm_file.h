/* SPDX-License-Identifier: Apache-2.0 */
/* The file of a shared pool: where it may lie, whose it may be, how it is made. */
#ifndef KVH_POOL_LOCAL_SHM_FILE_H
#define KVH_POOL_LOCAL_SHM_FILE_H

#include "pool/core/area.h"
#include "pool/pool.h"

/* Of the machine's present boot; zeroes where /proc is not there. */
void kvh_boot_id(uint64_t boot_id[2]);

/*
 * Makes the file with all its space, formatted, under its name at last: nobody sees half of it, and
 * a crash leaves nothing. KVH_OK also if another process was faster: then *made is false. Waits for
 * others that make one in the folder, 10 s and 1 s for each GiB of the capacity.
 */
kvh_status kvh_shared_create(const struct kvh_shared_options *options, const struct kvh_env *env,
                             bool *made, struct kvh_error *error);

/* Whether an open file is one we may trust to be ours: kind, owner, permissions, file system. */
kvh_status kvh_shared_trust(const struct kvh_shared_options *options, int fd,
                            struct kvh_error *error);

/* What a file's superblock says, bounded and compared with the options (S-15). */
kvh_status kvh_shared_geometry(const struct kvh_shared_options *options, int fd,
                               struct kvh_geometry *geometry, struct kvh_error *error);

#endif
