/* SPDX-License-Identifier: Apache-2.0 */
/* Makes a pool file to keep, packed: make_kept_pool "size=256KiB" > tests/data/pools/NAME */
#include "kept_pool.h"

static int stop(const char *what)
{
	fprintf(stderr, "make_kept_pool: %s\n", what);
	return 1;
}

static bool fill(struct pool *pool)
{
	struct objects objects;

	if (objects_init(&objects, pool))
		return false;
	/* One that left, so that not everything is as new. */
	if (object_put(&objects, KEPT_OBJECTS, 3 * KVH_UNIT_BYTES, NULL) ||
	    kvh_store_clear(pool->store, NULL, NULL))
		return false;
	for (uint64_t i = 0; i < KEPT_OBJECTS; i++)
		if (object_put(&objects, i, kept_bytes(i), NULL))
			return false;
	return true;
}

/* No machine has this one: whoever reads the file says first that it is of its own boot. */
static void forget_boot(struct kvh_super *super)
{
	struct kvh_life *life = &super->lives[kvh_area_life(super) - super->lives];

	memset(life->boot_id, 0, sizeof(life->boot_id));
	seal_life(life);
}

static int pack(const char *path)
{
	struct stat file;
	void *bytes;
	int fd = open(path, O_RDWR | O_CLOEXEC);

	if (fd < 0 || fstat(fd, &file) != 0)
		return stop("the pool's file is gone");
	unlink(path);
	bytes = mmap(NULL, (size_t)file.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (bytes == MAP_FAILED)
		return stop("can't map it");
	forget_boot(bytes);
	if (!kept_pack(bytes, (size_t)file.st_size, stdout) || fflush(stdout) != 0)
		return stop("can't write");
	return 0;
}

int main(int argc, char **argv)
{
	struct pool pool = {.memory_bytes = MIB, .memory = calloc(1, MIB)};
	struct kvh_error error;
	char path[64], url[256];

	if (argc != 2 || !pool.memory)
		return stop("usage: make_kept_pool OPTIONS > FILE");
	snprintf(path, sizeof(path), "/dev/shm/kvhold-kept-%ld", (long)getpid());
	snprintf(url, sizeof(url), "local://%s?%s", path, argv[1]);
	if (kvh_store_open(url, NULL, &pool.store, &error))
		return stop(error.text);
	if (kvh_store_register(pool.store, pool.memory, pool.memory_bytes, KVH_MEMORY_HOST,
	                       &pool.region, &error) ||
	    !fill(&pool) || kvh_store_close(pool.store, 0)) {
		unlink(path);
		return stop("can't fill it");
	}
	free(pool.memory);
	return pack(path);
}
