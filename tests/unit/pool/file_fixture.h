/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pools in files, in a folder that each test gets empty and that goes with it. Where the system
 * lets a program mount, /dev/shm is a private one: then nothing is left behind even by a crash.
 */
#ifndef KVH_TESTS_UNIT_POOL_FILE_FIXTURE_H
#define KVH_TESTS_UNIT_POOL_FILE_FIXTURE_H

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "local_fixture.h"

#include "base/hash.h"
#include "pool/core/area.h"

enum {
	MIB = 1 << 20,
	SHM_BYTES = 96 * MIB, /* of the private /dev/shm */
	NOBODY = 65534
};

/* Of one test program, which is single-threaded where it matters. */
static struct {
	char folder[64];
	bool may_mount;
	const char *why_not; /* may_mount false */
} shared;

/* ---- the folder ------------------------------------------------------------------------- */

static inline void shared_begin(void)
{
	char limit[32];

	snprintf(limit, sizeof(limit), "size=%d", SHM_BYTES);
	/* Private first: what is mounted here is nobody else's and goes with this process. */
	shared.may_mount = unshare(CLONE_NEWNS) == 0 &&
	                   mount("none", "/", "none", MS_REC | MS_PRIVATE, NULL) == 0 &&
	                   mount("none", "/dev/shm", "tmpfs", 0, limit) == 0;
	if (!shared.may_mount)
		shared.why_not = strerror(errno);
}

static inline int shared_setup(void **state)
{
	(void)state;
	snprintf(shared.folder, sizeof(shared.folder), "/dev/shm/kvhold-test-%ld-XXXXXX",
	         (long)getpid());
	/* Other users come in, too. */
	return mkdtemp(shared.folder) && chmod(shared.folder, 0755) == 0 ? 0 : -1;
}

static inline int shared_teardown(void **state)
{
	struct dirent *entry;
	DIR *folder = opendir(shared.folder);
	char path[512];

	(void)state;
	while (folder && (entry = readdir(folder))) {
		if (entry->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "%s/%s", shared.folder, entry->d_name);
		umount2(path, MNT_DETACH);
		if (unlinkat(dirfd(folder), entry->d_name, 0) != 0)
			unlinkat(dirfd(folder), entry->d_name, AT_REMOVEDIR);
	}
	if (folder)
		closedir(folder);
	return rmdir(shared.folder);
}

#define shared_test(test) cmocka_unit_test_setup_teardown(test, shared_setup, shared_teardown)

/* Files in the folder. */
static inline unsigned shared_left(void)
{
	struct dirent *entry;
	DIR *folder = opendir(shared.folder);
	unsigned count = 0;

	assert_non_null(folder);
	while ((entry = readdir(folder)))
		count += entry->d_name[0] != '.';
	closedir(folder);
	return count;
}

static inline unsigned open_files(void)
{
	struct dirent *entry;
	DIR *folder = opendir("/proc/self/fd");
	unsigned count = 0;

	assert_non_null(folder);
	while ((entry = readdir(folder)))
		count++;
	closedir(folder);
	return count;
}

struct place {
	char path[160];
	char url[320];
};

/* A file of the folder; options: "?size=1MiB" or "". */
static inline struct place place_of(const char *name, const char *options)
{
	struct place place;

	snprintf(place.path, sizeof(place.path), "%s/%s", shared.folder, name);
	snprintf(place.url, sizeof(place.url), "local://%s%s", place.path, options);
	return place;
}

/* The same file, other options. */
static inline struct place with_options(struct place place, const char *options)
{
	snprintf(place.url, sizeof(place.url), "local://%s%s", place.path, options);
	return place;
}

/* ---- opening ---------------------------------------------------------------------------- */

static inline kvh_status try_open(const char *url, const struct kvh_env *env,
                                  struct kvh_store **store, struct kvh_error *error)
{
	const struct kvh_store_options options = {.struct_bytes = sizeof(options), .env = env};

	*error = (struct kvh_error){0};
	*store = NULL;
	return kvh_store_open(url, &options, store, error);
}

static inline void adopt_store(struct pool *pool, struct kvh_store *store)
{
	struct kvh_error error;

	memset(pool, 0, sizeof(*pool));
	pool->store = store;
	pool->memory_bytes = MIB;
	pool->memory = calloc(1, pool->memory_bytes);
	assert_non_null(pool->memory);
	assert_int_equal(kvh_store_register(pool->store, pool->memory, pool->memory_bytes,
	                                    KVH_MEMORY_HOST, &pool->region, &error),
	                 KVH_OK);
	pool->prefix = pool_intern(pool, "m@", HASH_BYTES, 0, 0);
}

static inline void shared_open_at(struct pool *pool, const char *url, const struct kvh_env *env)
{
	struct kvh_store *store;
	struct kvh_error error;

	if (try_open(url, env, &store, &error))
		fail_msg("%s: %s", url, error.text);
	adopt_store(pool, store);
}

static inline void shared_open(struct pool *pool, const char *url)
{
	shared_open_at(pool, url, NULL);
}

/* It is refused with this status, and the words hold this one. */
static inline void refused(const char *url, kvh_status status, const char *word)
{
	unsigned files = open_files();
	struct kvh_store *store;
	struct kvh_error error;
	kvh_status got = try_open(url, NULL, &store, &error);

	if (got != status || !strstr(error.text, word))
		fail_msg("%.200s: %d \"%s\", not %d with \"%s\"", url, got, error.text, status,
		         word);
	assert_null(store);
	assert_int_equal(error.status, status);
	assert_int_equal(open_files(), files);
}

static inline void make_pool(const char *url)
{
	struct pool pool;

	shared_open(&pool, url);
	pool_close(&pool);
}

/* ---- children --------------------------------------------------------------------------- */

/* In a child no assertion may jump: it says what was wrong and ends. */
#define CHILD_CHECK(condition)                                                                     \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "child: line %d: %s\n", __LINE__, #condition);             \
			_exit(1);                                                                  \
		}                                                                                  \
	} while (0)

static inline pid_t run_child(void (*body)(const void *ctx), const void *ctx)
{
	pid_t child;

	fflush(NULL);
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		body(ctx);
		_exit(0);
	}
	return child;
}

static inline void child_ends_well(pid_t child)
{
	int status;

	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

static inline void child_opens(struct pool *pool, const char *url)
{
	struct kvh_error error = {0};
	struct kvh_prefix prefix = {.struct_bytes = sizeof(prefix),
	                            .text = "m@",
	                            .text_bytes = 2,
	                            .hash_bytes = HASH_BYTES};

	memset(pool, 0, sizeof(*pool));
	pool->memory_bytes = MIB;
	pool->memory = calloc(1, pool->memory_bytes);
	if (!pool->memory || kvh_store_open(url, NULL, &pool->store, &error) ||
	    kvh_store_register(pool->store, pool->memory, pool->memory_bytes, KVH_MEMORY_HOST,
	                       &pool->region, &error) ||
	    kvh_store_prefix(pool->store, &prefix, &pool->prefix, &error)) {
		fprintf(stderr, "child: %s: %s\n", url, error.text);
		_exit(1);
	}
}

static inline int64_t child_puts(struct pool *pool, uint64_t number, size_t bytes)
{
	struct numbered n;

	numbered_make(&n, pool, &number, 1, bytes);
	make_bytes(number, pool->memory, bytes);
	CHILD_CHECK(kvh_store_put(pool->store, &n.batch, NULL, NULL) == KVH_OK);
	return n.results[0].value;
}

static inline bool child_has(struct pool *pool, uint64_t number, size_t bytes)
{
	struct numbered n;

	numbered_make(&n, pool, &number, 1, bytes);
	CHILD_CHECK(kvh_store_get(pool->store, &n.batch, NULL) == KVH_OK);
	if (n.results[0].value != (int64_t)bytes)
		return false;
	CHILD_CHECK(bytes_are(number, pool->memory, bytes));
	return true;
}

/* ---- the file itself -------------------------------------------------------------------- */

struct mapped {
	struct kvh_area_fixed *fixed;
	size_t bytes;
};

static inline struct mapped map_pool(const char *path)
{
	struct mapped mapped = {0};
	struct stat file;
	int fd = open(path, O_RDWR | O_CLOEXEC);

	assert_true(fd >= 0 && fstat(fd, &file) == 0);
	mapped.bytes = (size_t)file.st_size;
	mapped.fixed = mmap(NULL, mapped.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(mapped.fixed, MAP_FAILED);
	close(fd);
	return mapped;
}

static inline void unmap_pool(struct mapped *mapped)
{
	munmap(mapped->fixed, mapped->bytes);
}

/* Makes a life record that somebody wrote into right again. */
static inline void seal_life(struct kvh_life *life)
{
	life->checksum = kvh_hash64(life, offsetof(struct kvh_life, checksum));
}

static inline void seal_super(struct kvh_super *super)
{
	super->checksum = kvh_hash64(super, offsetof(struct kvh_super, checksum));
}

#endif
