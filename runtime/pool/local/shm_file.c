/* SPDX-License-Identifier: Apache-2.0 */
/* Opening by name: what the file of a pool must be. */
#include "pool/local/shm_file.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fault.h"
#include "base/hash.h"
#include "base/lock.h"
#include "base/size.h"
#include "pool/local/shm_room.h"

enum { NAME_BYTES_MAX = 200, MODE_DEFAULT = 0600, MODE_BITS = 07777 };

#define NAME_FOLDER          "/dev/shm/kvhold."
#define TURN_WAIT_NS         UINT64_C(10000000000)
#define TURN_WAIT_NS_PER_GIB UINT64_C(1000000000)
#define TURN_NAP_NS          UINT64_C(1000000)

/* ---- names ------------------------------------------------------------------------------ */

static bool is_name(const char *name)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				      "0123456789._-";
	size_t bytes = strlen(name);

	return bytes >= 1 && bytes <= NAME_BYTES_MAX && strspn(name, letters) == bytes;
}

kvh_status kvh_shared_path(const char *rest, char path[KVH_SHARED_PATH_BYTES],
                           struct kvh_error *error)
{
	size_t rest_bytes = strlen(rest);
	int bytes;

	if (strncmp(rest, "///", 3) == 0 && rest[3] && rest[3] != '/' &&
	    rest[rest_bytes - 1] != '/')
		bytes = snprintf(path, KVH_SHARED_PATH_BYTES, "%s", rest + 2);
	else if (is_name(rest))
		bytes = snprintf(path, KVH_SHARED_PATH_BYTES, NAME_FOLDER "%s", rest);
	else
		return kvh_fail(error, KVH_INVALID_PARAMS,
		                "url: local: takes a name of at most %d letters, digits, '.', '_' "
		                "and '-' (local:NAME) or a file's absolute path (local:///PATH)",
		                NAME_BYTES_MAX);
	if (bytes >= KVH_SHARED_PATH_BYTES)
		return kvh_fail(error, KVH_INVALID_PARAMS, "url: local: the path is too long");
	return KVH_OK;
}

void kvh_boot_id(uint64_t boot_id[2])
{
	char text[64];
	struct kvh_hash128 hash;
	ssize_t bytes = -1;
	int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);

	boot_id[0] = 0;
	boot_id[1] = 0;
	if (fd < 0)
		return;
	bytes = read(fd, text, sizeof(text));
	close(fd);
	if (bytes <= 0)
		return;
	hash = kvh_hash128(text, (size_t)bytes);
	boot_id[0] = hash.low;
	boot_id[1] = hash.high;
}

/* ---- trust ------------------------------------------------------------------------------ */

static kvh_status group_id(const struct kvh_shared_options *options, gid_t *gid,
                           struct kvh_error *error)
{
	char buffer[4096];
	struct group group, *found = NULL;
	size_t digits = strspn(options->group, "0123456789");

	if (digits && digits <= 9 && !options->group[digits]) {
		*gid = (gid_t)strtoul(options->group, NULL, 10);
		return KVH_OK;
	}
	if (getgrnam_r(options->group, &group, buffer, sizeof(buffer), &found) != 0 || !found)
		return kvh_fail(error, KVH_INVALID_PARAMS,
		                "local: option group: this system has no group %s", options->group);
	*gid = found->gr_gid;
	return KVH_OK;
}

static kvh_status check_owner(const struct kvh_shared_options *options, const struct stat *file,
                              struct kvh_error *error)
{
	gid_t gid = 0;
	kvh_status status = options->group ? group_id(options, &gid, error) : KVH_OK;

	if (status)
		return status;
	if (options->group && file->st_gid != gid)
		return kvh_fail(error, KVH_INVALID_PARAMS,
		                "local: %s belongs to group %lu, not to that of option group (%lu)",
		                options->path, (unsigned long)file->st_gid, (unsigned long)gid);
	if (file->st_uid != geteuid() && !options->group)
		return kvh_fail(error, KVH_INVALID_PARAMS,
		                "local: %s belongs to user %lu, and you are %lu; pools are shared "
		                "between users with mode=0660&group=GROUP only",
		                options->path, (unsigned long)file->st_uid,
		                (unsigned long)geteuid());
	return KVH_OK;
}

static kvh_status check_mode(const struct kvh_shared_options *options, const struct stat *file,
                             struct kvh_error *error)
{
	unsigned wanted = options->mode ? options->mode : MODE_DEFAULT;
	unsigned mode = file->st_mode & MODE_BITS;

	/* Whoever can write the file can make this process read wrong blocks. */
	if (mode == wanted)
		return KVH_OK;
	return kvh_fail(error, KVH_INVALID_PARAMS,
	                "local: %s has permissions %04o, and option mode %s %04o; chmod the file "
	                "or give its mode",
	                options->path, mode, options->mode ? "says" : "is by default", wanted);
}

kvh_status kvh_shared_trust(const struct kvh_shared_options *options, int fd,
                            struct kvh_error *error)
{
	struct stat file;
	kvh_status status;

	if (fstat(fd, &file) != 0)
		return kvh_fail(error, KVH_INTERNAL, "local: %s: %s", options->path,
		                strerror(errno));
	if (!S_ISREG(file.st_mode))
		return kvh_fail(error, KVH_INVALID_PARAMS, "local: %s is not a regular file",
		                options->path);
	status = kvh_room_file_system(options->path, fd, NULL, error);
	if (status == KVH_OK)
		status = check_owner(options, &file, error);
	return status ? status : check_mode(options, &file, error);
}

kvh_status kvh_shared_geometry(const struct kvh_shared_options *options, int fd,
                               struct kvh_geometry *geometry, struct kvh_error *error)
{
	union {
		unsigned char bytes[KVH_UNIT_BYTES];
		struct kvh_super super;
	} * head;
	struct kvh_error why = {0};
	struct kvh_room room;
	struct stat file;
	kvh_status status = kvh_room_file_system(options->path, fd, &room, error);
	uint64_t area_bytes;
	bool sums;

	if (status)
		return status;
	if (fstat(fd, &file) != 0 || file.st_size < (off_t)sizeof(struct kvh_area_fixed))
		return kvh_fail(error, KVH_INVALID_PARAMS,
		                "local: %s is too short for a pool of kvhold; remove the file or "
		                "take another name",
		                options->path);
	/* Not read(2): hugetlbfs has none. */
	head = mmap(NULL, room.page_bytes, PROT_READ, MAP_SHARED, fd, 0);
	if (head == MAP_FAILED)
		return kvh_fail(error, KVH_NO_MEMORY, "local: %s can't be mapped: %s",
		                options->path, strerror(errno));
	*geometry = head->super.geometry;
	area_bytes = geometry->area_bytes;
	/* The file ends on a page of its system. */
	if (kvh_round_up_pages(area_bytes, room.page_bytes) != (uint64_t)file.st_size)
		area_bytes = (uint64_t)file.st_size;
	status = kvh_area_check(head, area_bytes, &why);
	munmap(head, room.page_bytes);
	if (status)
		return kvh_fail(error, status, "local: %s %s; remove the file or take another name",
		                options->path, why.text);
	if (options->capacity_bytes &&
	    options->capacity_bytes / KVH_UNIT_BYTES != geometry->unit_count)
		return kvh_fail(error, KVH_INVALID_PARAMS,
		                "local: %s has %llu bytes for objects, and option size says %llu; "
		                "leave size out, or remove the file to make a new pool",
		                options->path,
		                (unsigned long long)geometry->unit_count * KVH_UNIT_BYTES,
		                (unsigned long long)options->capacity_bytes);
	sums = geometry->sums_offset_bytes != 0;
	if (options->verify && *options->verify != sums)
		return kvh_fail(error, KVH_INVALID_PARAMS,
		                "local: %s %s checksums, and option verify says otherwise; leave "
		                "verify out, or remove the file to make a new pool",
		                options->path, sums ? "has" : "has no");
	return KVH_OK;
}

/* ---- making ----------------------------------------------------------------------------- */

/* The folder of an absolute path. */
static void folder_of(const char *path, char folder[KVH_SHARED_PATH_BYTES])
{
	size_t bytes = (size_t)(strrchr(path, '/') - path);

	memcpy(folder, path, bytes);
	folder[bytes] = 0;
	if (!bytes)
		memcpy(folder, "/", 2);
}

static kvh_status set_owner(const struct kvh_shared_options *options, int fd,
                            struct kvh_error *error)
{
	gid_t gid;
	kvh_status status = options->group ? group_id(options, &gid, error) : KVH_OK;

	if (status)
		return status;
	if (options->group && fchown(fd, (uid_t)-1, gid) != 0)
		return kvh_fail(error, KVH_INVALID_PARAMS,
		                "local: %s can't be given to group %s: %s", options->path,
		                options->group, strerror(errno));
	if (fchmod(fd, options->mode ? options->mode : MODE_DEFAULT) != 0)
		return kvh_fail(error, KVH_INTERNAL, "local: %s: chmod: %s", options->path,
		                strerror(errno));
	return KVH_OK;
}

/* The file is mapped for its NUMA policy, and because hugetlbfs knows no write(2). */
static kvh_status fill_file(const struct kvh_shared_options *options, int fd, uint64_t epoch,
                            struct kvh_error *error)
{
	bool sums = options->verify && *options->verify;
	struct kvh_geometry geometry;
	uint64_t boot_id[2], file_bytes;
	struct kvh_room room;
	kvh_status status = kvh_room_file_system(options->path, fd, &room, error);
	void *memory;

	if (status)
		return status;
	if (kvh_geometry_make(options->capacity_bytes, sums, &geometry))
		return kvh_fail(error, KVH_INVALID_PARAMS,
		                "local: size %llu is not between 4KiB and 4TiB",
		                (unsigned long long)options->capacity_bytes);
	file_bytes = kvh_round_up_pages(geometry.area_bytes, room.page_bytes);
	status = kvh_room_ask(options, &room, file_bytes, error);
	if (status)
		return status;
	if (ftruncate(fd, (off_t)file_bytes) != 0)
		return kvh_room_refused(options, &room, file_bytes, errno, error);
	memory = mmap(NULL, file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (memory == MAP_FAILED)
		return kvh_room_refused(options, &room, file_bytes, errno, error);
	status = kvh_room_numa(options, &room, memory, file_bytes, error);
	if (status == KVH_OK)
		status = kvh_room_take(options, &room, fd, file_bytes, error);
	if (status == KVH_OK) {
		kvh_boot_id(boot_id);
		kvh_area_format(memory, &geometry, epoch, boot_id);
	}
	munmap(memory, file_bytes);
	return status;
}

/* *made: the name is this file's; else another process was faster. */
static kvh_status name_file(const char *path, int fd, bool *made, struct kvh_error *error)
{
	char link[64];

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	*made = linkat(AT_FDCWD, link, AT_FDCWD, path, AT_SYMLINK_FOLLOW) == 0;
	if (*made || errno == EEXIST)
		return KVH_OK;
	return kvh_fail(error, KVH_INTERNAL, "local: %s can't be made: %s", path, strerror(errno));
}

static kvh_status make_file(const struct kvh_shared_options *options, const char *folder,
                            uint64_t epoch, bool *made, struct kvh_error *error)
{
	kvh_status status;
	int fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, MODE_DEFAULT);

	if (fd < 0)
		return kvh_fail(
			error, KVH_INVALID_PARAMS, "local: %s can't be made in %s: %s%s",
			options->path, folder, strerror(errno),
			errno == EOPNOTSUPP ? " (take a folder on tmpfs, ext4, xfs or btrfs)" : "");
	status = set_owner(options, fd, error);
	if (status == KVH_OK)
		status = fill_file(options, fd, epoch, error);
	KVH_CRASH_POINT(POOL_CREATE);
	if (status == KVH_OK)
		status = name_file(options->path, fd, made, error);
	close(fd);
	return status;
}

/*
 * One at a time makes files in a folder: the ranks of an engine start together, and if each took
 * the space of all, none might get it. Only a courtesy: without the turn in time it goes on, and
 * the name still decides. The wait grows with the size, for so do the makers'.
 */
static int take_turn(const struct kvh_shared_options *options, const char *folder,
                     const struct kvh_env *env)
{
	uint64_t wait_ns = TURN_WAIT_NS + (options->capacity_bytes >> 30) * TURN_WAIT_NS_PER_GIB;
	kvh_deadline deadline_ns = kvh_deadline_after(env, wait_ns);
	int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	while (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK &&
	       !kvh_deadline_passed(env, deadline_ns))
		env->ops->sleep_ns(env->ctx, TURN_NAP_NS);
	return fd;
}

static void give_turn(int fd)
{
	if (fd < 0)
		return;
	/* A child that a fork made meanwhile has the same lock. */
	(void)flock(fd, LOCK_UN);
	close(fd);
}

kvh_status kvh_shared_create(const struct kvh_shared_options *options, const struct kvh_env *env,
                             bool *made, struct kvh_error *error)
{
	char folder[KVH_SHARED_PATH_BYTES];
	struct stat named;
	kvh_status status = KVH_OK;
	int turn;

	*made = false;
	folder_of(options->path, folder);
	turn = take_turn(options, folder, env);
	if (lstat(options->path, &named) != 0)
		status = make_file(options, folder, env->ops->random(env->ctx), made, error);
	give_turn(turn);
	return status;
}
