/* SPDX-License-Identifier: Apache-2.0 */
/* Room for a pool's file: which file systems can hold one, and whether all of it is to be had. */
#ifndef KVH_POOL_LOCAL_SHM_ROOM_H
#define KVH_POOL_LOCAL_SHM_ROOM_H

#include "pool/pool.h"

/* What a file lies on. */
struct kvh_room {
	const char *name;    /* static: "tmpfs", ... */
	bool is_memory;      /* tmpfs and hugetlbfs: NUMA policies work, memory limits count */
	uint64_t page_bytes; /* files end and are mapped on these */
	uint64_t free_bytes;
};

/* KVH_NOT_SUPPORTED: none that this pool can rely on. room: NULL allowed. */
kvh_status kvh_room_file_system(const char *path, int fd, struct kvh_room *room,
                                struct kvh_error *error);

/*
 * Whether so many bytes can be had at all: free space, limits of this process, its control group
 * and this machine. A file that is only half backed by memory ends in SIGBUS later.
 */
kvh_status kvh_room_ask(const struct kvh_shared_options *options, const struct kvh_room *room,
                        uint64_t file_bytes, struct kvh_error *error);
/* Takes them, every one. */
kvh_status kvh_room_take(const struct kvh_shared_options *options, const struct kvh_room *room,
                         int fd, uint64_t file_bytes, struct kvh_error *error);
/* KVH_NO_MEMORY with the words for an errno. */
kvh_status kvh_room_refused(const struct kvh_shared_options *options, const struct kvh_room *room,
                            uint64_t file_bytes, int number, struct kvh_error *error);

/* Whether option numa (NULL: not given) means anything, also where the file is there already. */
kvh_status kvh_room_numa_check(const char *numa, struct kvh_error *error);
/* Where the file's pages are to lie, before they are taken. numa: checked. */
kvh_status kvh_room_numa(const struct kvh_shared_options *options, const struct kvh_room *room,
                         void *memory, uint64_t file_bytes, struct kvh_error *error);

static inline uint64_t kvh_round_up_pages(uint64_t bytes, uint64_t page_bytes)
{
	return bytes > UINT64_MAX - page_bytes ? 0
	                                       : (bytes + page_bytes - 1) / page_bytes * page_bytes;
}

#endif
