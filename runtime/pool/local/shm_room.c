/* SPDX-License-Identifier: Apache-2.0 */
/* Room for a pool's file. */
#include "pool/local/shm_room.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/mempolicy.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/error.h"

#ifndef XFS_SUPER_MAGIC
#define XFS_SUPER_MAGIC 0x58465342
#endif

/* ---- small files of the system ---------------------------------------------------------- */

/* The start of a small text file, with a final 0. False: there is none. */
static bool read_text(const char *path, char *text, size_t bytes)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t got;

	if (fd < 0)
		return false;
	got = read(fd, text, bytes - 1);
	close(fd);
	if (got <= 0)
		return false;
	text[got] = 0;
	return true;
}

/* A line "NAME:  N kB" of /proc/meminfo in bytes. */
static bool meminfo_bytes(const char *text, const char *name, uint64_t *bytes)
{
	const char *at = strstr(text, name);

	if (!at)
		return false;
	*bytes = strtoull(at + strlen(name), NULL, 10) * 1024;
	return true;
}

/* Memory that this machine can give without killing anybody. */
static uint64_t machine_bytes(void)
{
	char text[4096];
	uint64_t available, swap;

	if (!read_text("/proc/meminfo", text, sizeof(text)) ||
	    !meminfo_bytes(text, "MemAvailable:", &available) ||
	    !meminfo_bytes(text, "SwapFree:", &swap))
		return UINT64_MAX;
	return available + swap;
}

/* ---- file systems ----------------------------------------------------------------------- */

/* Those whose locks end with the process, whose fallocate is a promise, whose pages are one. */
static const struct {
	uint64_t magic;
	const char *name;
	bool is_memory;
} file_systems[] = {
	{TMPFS_MAGIC, "tmpfs", true},        {HUGETLBFS_MAGIC, "hugetlbfs", true},
	{EXT4_SUPER_MAGIC, "ext4", false},   {XFS_SUPER_MAGIC, "xfs", false},
	{BTRFS_SUPER_MAGIC, "btrfs", false},
};

/* One of the counts that the system keeps of huge pages of a size. */
static uint64_t huge_count(uint64_t page_bytes, const char *name)
{
	char path[128], text[64];

	snprintf(path, sizeof(path), "/sys/kernel/mm/hugepages/hugepages-%llukB/%s_hugepages",
	         (unsigned long long)page_bytes / 1024, name);
	return read_text(path, text, sizeof(text)) ? strtoull(text, NULL, 10) : 0;
}

/* Those that are there or may be made, and nobody has or is promised. */
static uint64_t huge_bytes(uint64_t page_bytes)
{
	uint64_t have = huge_count(page_bytes, "free") + huge_count(page_bytes, "nr_overcommit");
	uint64_t gone = huge_count(page_bytes, "resv") + huge_count(page_bytes, "surplus");

	return have > gone ? (have - gone) * page_bytes : 0;
}

/* A mount without a limit of its own says that it has 0 blocks: then the machine's memory is it. */
static uint64_t free_bytes(const struct statfs *file_system)
{
	if (file_system->f_blocks)
		return (uint64_t)file_system->f_bavail * (uint64_t)file_system->f_bsize;
	return file_system->f_type == HUGETLBFS_MAGIC ? huge_bytes((uint64_t)file_system->f_bsize)
	                                              : machine_bytes();
}

kvh_status kvh_room_file_system(const char *path, int fd, struct kvh_room *room,
                                struct kvh_error *error)
{
	struct statfs file_system;

	if (fstatfs(fd, &file_system) != 0)
		return kvh_fail(error, KVH_INTERNAL, "local: %s: %s", path, strerror(errno));
	for (size_t i = 0; i < sizeof(file_systems) / sizeof(file_systems[0]); i++) {
		if ((uint64_t)file_system.f_type != file_systems[i].magic)
			continue;
		if (!room)
			return KVH_OK;
		*room = (struct kvh_room){
			.name = file_systems[i].name,
			.is_memory = file_systems[i].is_memory,
			.page_bytes = file_systems[i].magic == HUGETLBFS_MAGIC
		                              ? (uint64_t)file_system.f_bsize
		                              : (uint64_t)sysconf(_SC_PAGESIZE),
			.free_bytes = free_bytes(&file_system),
		};
		return KVH_OK;
	}
	return kvh_fail(error, KVH_NOT_SUPPORTED,
	                "local: %s lies on a file system (type %#llx) that can't hold a pool; take "
	                "tmpfs (such as /dev/shm), hugetlbfs, ext4, xfs or btrfs",
	                path, (unsigned long long)file_system.f_type);
}

/* ---- limits ----------------------------------------------------------------------------- */

/* The limit in one file of a control group; "max" and what is not there are none. */
static uint64_t limit_in(const char *folder, const char *group, const char *file)
{
	char path[1024], text[64];
	int bytes = snprintf(path, sizeof(path), "%s%s/%s", folder, group, file);

	if (bytes < 0 || (size_t)bytes >= sizeof(path) || !read_text(path, text, sizeof(text)) ||
	    text[0] < '0' || text[0] > '9')
		return UINT64_MAX;
	return strtoull(text, NULL, 10);
}

static uint64_t lower_of(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* The memory limit of this process's control group, of either version. */
static uint64_t group_bytes(void)
{
	char text[4096];
	uint64_t limit = UINT64_MAX;

	if (!read_text("/proc/self/cgroup", text, sizeof(text)))
		return limit;
	for (char *line = text, *end; line && *line; line = end) {
		const char *group;

		end = strchr(line, '\n');
		if (end)
			*end++ = 0;
		group = strrchr(line, ':');
		if (!group++)
			continue;
		if (strncmp(line, "0::", 3) == 0)
			limit = lower_of(limit, limit_in("/sys/fs/cgroup", group, "memory.max"));
		else if (strstr(line, ":memory:"))
			limit = lower_of(limit, limit_in("/sys/fs/cgroup/memory", group,
			                                 "memory.limit_in_bytes"));
	}
	/* In a container the group's own folder is the root of what it sees. */
	limit = lower_of(limit, limit_in("/sys/fs/cgroup", "", "memory.max"));
	return lower_of(limit, limit_in("/sys/fs/cgroup/memory", "", "memory.limit_in_bytes"));
}

static kvh_status too_large(const struct kvh_shared_options *options, uint64_t file_bytes,
                            uint64_t limit_bytes, const char *whose, struct kvh_error *error)
{
	return kvh_fail(error, KVH_NO_MEMORY,
	                "local: %s needs %llu bytes (option size %llu and what keeps count of it), "
	                "and %s is %llu; give a smaller size or raise that limit",
	                options->path, (unsigned long long)file_bytes,
	                (unsigned long long)options->capacity_bytes, whose,
	                (unsigned long long)limit_bytes);
}

kvh_status kvh_room_ask(const struct kvh_shared_options *options, const struct kvh_room *room,
                        uint64_t file_bytes, struct kvh_error *error)
{
	struct rlimit limit;
	uint64_t bytes;

	/* Over this one the kernel sends SIGXFSZ. */
	if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
	    file_bytes > limit.rlim_cur)
		return too_large(options, file_bytes, limit.rlim_cur,
		                 "the largest file of this process (ulimit -f)", error);
	if (file_bytes > room->free_bytes)
		return kvh_room_refused(options, room, file_bytes, ENOSPC, error);
	if (!room->is_memory)
		return KVH_OK;
	bytes = group_bytes();
	if (file_bytes > bytes)
		return too_large(options, file_bytes, bytes,
		                 "the memory limit of this control group", error);
	bytes = machine_bytes();
	if (strcmp(room->name, "tmpfs") == 0 && file_bytes > bytes)
		return too_large(options, file_bytes, bytes, "what this machine has available",
		                 error);
	return KVH_OK;
}

kvh_status kvh_room_refused(const struct kvh_shared_options *options, const struct kvh_room *room,
                            uint64_t file_bytes, int number, struct kvh_error *error)
{
	return kvh_fail(error, KVH_NO_MEMORY,
	                "local: %s needs %llu bytes of %s (option size %llu and what keeps count "
	                "of it), %llu are free: %s; give a smaller size or make room",
	                options->path, (unsigned long long)file_bytes, room->name,
	                (unsigned long long)options->capacity_bytes,
	                (unsigned long long)room->free_bytes, strerror(number));
}

kvh_status kvh_room_take(const struct kvh_shared_options *options, const struct kvh_room *room,
                         int fd, uint64_t file_bytes, struct kvh_error *error)
{
	int number;

	do
		number = fallocate(fd, 0, 0, (off_t)file_bytes) == 0 ? 0 : errno;
	while (number == EINTR);
	return number ? kvh_room_refused(options, room, file_bytes, number, error) : KVH_OK;
}

/* ---- NUMA ------------------------------------------------------------------------------- */

enum { NODES_MAX = 1024, WORD_BITS = 8 * sizeof(unsigned long) };

static bool parse_node(const char *text, unsigned *node)
{
	size_t digits = strspn(text, "0123456789");

	if (digits < 1 || digits > 4 || text[digits])
		return false;
	*node = (unsigned)strtoul(text, NULL, 10);
	return *node < NODES_MAX;
}

kvh_status kvh_room_numa_check(const char *numa, struct kvh_error *error)
{
	unsigned node;

	if (!numa || strcmp(numa, "interleave") == 0 || parse_node(numa, &node))
		return KVH_OK;
	return kvh_fail(error, KVH_INVALID_PARAMS,
	                "local: option numa is neither \"interleave\" nor a node's number");
}

/* Those that this process may take memory from. */
static bool allowed_nodes(unsigned long nodes[NODES_MAX / WORD_BITS])
{
	int policy;

	return syscall(SYS_get_mempolicy, &policy, nodes, (unsigned long)NODES_MAX, NULL,
	               MPOL_F_MEMS_ALLOWED) == 0;
}

kvh_status kvh_room_numa(const struct kvh_shared_options *options, const struct kvh_room *room,
                         void *memory, uint64_t file_bytes, struct kvh_error *error)
{
	unsigned long nodes[NODES_MAX / WORD_BITS] = {0};
	int policy = MPOL_INTERLEAVE;
	unsigned node;

	if (!options->numa)
		return KVH_OK;
	if (!room->is_memory)
		return kvh_fail(error, KVH_NOT_SUPPORTED,
		                "local: option numa: a file on %s has no memory of its own; take "
		                "tmpfs or hugetlbfs",
		                room->name);
	if (parse_node(options->numa, &node)) {
		policy = MPOL_BIND;
		nodes[node / WORD_BITS] = 1UL << node % WORD_BITS;
	} else if (!allowed_nodes(nodes)) {
		nodes[0] = 1;
	}
	if (syscall(SYS_mbind, memory, file_bytes, policy, nodes, (unsigned long)NODES_MAX, 0) != 0)
		return kvh_fail(error, KVH_INVALID_PARAMS,
		                "local: option numa=%s: this machine doesn't give such memory: %s",
		                options->numa, strerror(errno));
	return KVH_OK;
}
