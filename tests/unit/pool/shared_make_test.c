/* SPDX-License-Identifier: Apache-2.0 */
/* Making the file of a shared pool: all its space or words that say why not, and nothing left. */
#include "file_fixture.h"

#include <sys/statvfs.h>
#include <sys/vfs.h>

/* What a pool of one page takes: superblock, sessions, prefixes, ring, victims. */
static uint64_t least_bytes(void)
{
	return sizeof(struct kvh_area_fixed);
}

/* ---- space ------------------------------------------------------------------------------ */

static void all_space_is_taken_at_once(void **state)
{
	struct place place = place_of("pool", "?size=1MiB");
	struct stat file;

	(void)state;
	make_pool(place.url);
	assert_int_equal(stat(place.path, &file), 0);
	assert_true((uint64_t)file.st_size > least_bytes() + MIB);
	assert_int_equal(file.st_blocks * 512, file.st_size);
	assert_int_equal(file.st_nlink, 1);
	assert_int_equal(shared_left(), 1);
}

static void a_pool_larger_than_its_file_system_is_refused(void **state)
{
	(void)state;
	refused(place_of("pool", "?size=4TiB").url, KVH_NO_MEMORY, "option size 4398046511104 ");
	refused(place_of("pool", "?size=4TiB").url, KVH_NO_MEMORY, "of tmpfs");
	refused(place_of("pool", "?size=4TiB").url, KVH_NO_MEMORY, "are free");
	assert_int_equal(shared_left(), 0);
}

static void a_file_above_the_limit_of_the_process_is_refused(void **state)
{
	struct rlimit before, low = {.rlim_cur = 4096};
	struct place place = place_of("pool", "?size=1MiB");

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	low.rlim_max = before.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &low), 0);
	refused(place.url, KVH_NO_MEMORY, "(ulimit -f) is 4096;");
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
	assert_int_equal(shared_left(), 0);
	make_pool(place.url);
}

/* A tmpfs that is nearly full; where none can be mounted, /dev/shm itself and a size beyond it. */
static void a_full_file_system_is_refused_with_what_it_has(void **state)
{
	struct place place = place_of("small", "/pool?size=256KiB"), filler;
	char text[64];
	struct statvfs space;
	int fd;

	(void)state;
	if (!shared.may_mount) {
		assert_int_equal(statvfs(shared.folder, &space), 0);
		snprintf(text, sizeof(text), "?size=%" PRIu64,
		         (uint64_t)space.f_bavail * space.f_bsize);
		refused(place_of("pool", text).url, KVH_NO_MEMORY, "are free");
		assert_int_equal(shared_left(), 0);
		return;
	}
	assert_int_equal(mkdir(place.path, 0700), 0);
	assert_int_equal(mount("none", place.path, "tmpfs", 0, "size=8M"), 0);
	filler = place_of("small/filler", "");
	fd = open(filler.path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	assert_true(fd >= 0 && fallocate(fd, 0, 0, 4 * MIB) == 0);
	refused(place.url, KVH_NO_MEMORY, "4194304 are free");
	/* And nothing of it stays reserved. */
	close(fd);
	assert_int_equal(unlink(filler.path), 0);
	make_pool(place.url);
}

static void a_tmpfs_without_a_limit_takes_a_pool(void **state)
{
	struct place place = place_of("any", "/pool?size=1MiB");

	(void)state;
	if (!shared.may_mount) {
		print_message("skipped: no file system can be mounted here: %s\n", shared.why_not);
		skip();
	}
	assert_int_equal(mkdir(place.path, 0700), 0);
	assert_int_equal(mount("none", place.path, "tmpfs", 0, "size=0"), 0);
	make_pool(place.url);
	/* Its limit is then the machine's. */
	refused(place_of("any/large", "?size=4TiB").url, KVH_NO_MEMORY, "are free");
}

/* ---- places ----------------------------------------------------------------------------- */

static void a_folder_that_is_not_there_is_named(void **state)
{
	(void)state;
	refused(place_of("nowhere", "/pool?size=1MiB").url, KVH_INVALID_PARAMS,
	        "/nowhere: No such file or directory");
	refused(place_of("pool", "").url, KVH_OBJECT_NOT_FOUND, "give option size to make it");
	refused("local:///dev/null/pool?size=1MiB", KVH_INVALID_PARAMS, "Not a directory");
	assert_int_equal(shared_left(), 0);
}

static void as_nobody(const void *ctx)
{
	const char *url = ctx;
	struct kvh_store *store;
	struct kvh_error error;

	CHILD_CHECK(setgid(NOBODY) == 0 && setuid(NOBODY) == 0);
	CHILD_CHECK(try_open(url, NULL, &store, &error) == KVH_INVALID_PARAMS);
	CHILD_CHECK(strstr(error.text, "Permission denied"));
}

static void a_folder_that_may_not_be_written_is_refused(void **state)
{
	struct place place = place_of("fixed", "/pool?size=1MiB");

	(void)state;
	assert_int_equal(mkdir(place.path, 0555), 0);
	if (geteuid() == 0)
		child_ends_well(run_child(as_nobody, place.url));
	else
		refused(place.url, KVH_INVALID_PARAMS, "Permission denied");
	if (!shared.may_mount)
		return;
	assert_int_equal(mount("none", place.path, "tmpfs", MS_RDONLY, "size=8M"), 0);
	refused(place.url, KVH_INVALID_PARAMS, "Read-only file system");
}

/* proves: S-15 */
static void file_systems_that_can_hold_no_pool_are_refused(void **state)
{
	(void)state;
	refused("local:///proc/kvhold-pool?size=1MiB", KVH_INVALID_PARAMS,
	        "/proc/kvhold-pool can't be made in /proc");
	refused("local:///sys/kvhold-pool?size=1MiB", KVH_INVALID_PARAMS, "can't be made in /sys");
	/* A file that is there, and opens for writing. */
	refused("local:///proc/self/comm", KVH_NOT_SUPPORTED, "can't hold a pool; take tmpfs");
}

/* Memory of this process's own disk file system, if that is one that pools can be on. */
static void a_file_on_a_disk_works_but_has_no_memory_of_a_node(void **state)
{
	char path[64], url[96];
	struct statfs system;
	struct pool pool;

	(void)state;
	snprintf(path, sizeof(path), "/var/tmp/kvhold-test-%ld", (long)getpid());
	snprintf(url, sizeof(url), "local://%s?size=256KiB", path);
	assert_int_equal(statfs("/var/tmp", &system), 0);
	if (system.f_type != 0xef53) {
		print_message("skipped: /var/tmp is no ext4 (type %lx)\n", (long)system.f_type);
		skip();
	}
	shared_open(&pool, url);
	unlink(path);
	assert_int_equal(put_number(&pool, 1, 5000, NULL), 0);
	assert_int_equal(get_number(&pool, 1, 5000), 5000);
	pool_close(&pool);
	strcat(url, "&numa=0");
	refused(url, KVH_NOT_SUPPORTED, "a file on ext4 has no memory of its own");
	assert_int_equal(access(path, F_OK), -1);
}

/* ---- options ---------------------------------------------------------------------------- */

static void numa_is_a_node_of_the_machine_or_interleave(void **state)
{
	(void)state;
	make_pool(place_of("zero", "?size=256KiB&numa=0").url);
	make_pool(place_of("all", "?size=256KiB&numa=interleave").url);
	refused(place_of("far", "?size=256KiB&numa=99").url, KVH_INVALID_PARAMS, "numa=99");
	assert_int_equal(shared_left(), 2);
	/* Nonsense also where there is nothing to be placed any more. */
	for (unsigned i = 0; i < 2; i++) {
		const char *file = i ? "none" : "zero";

		refused(place_of(file, "?size=256KiB&numa=near").url, KVH_INVALID_PARAMS,
		        "neither \"interleave\" nor a node's number");
		refused(place_of(file, "?size=256KiB&numa=-1").url, KVH_INVALID_PARAMS, "numa");
		refused(place_of(file, "?size=256KiB&numa=12345").url, KVH_INVALID_PARAMS, "numa");
		refused(place_of(file, "?size=256KiB&numa=0x0").url, KVH_INVALID_PARAMS, "numa");
	}
	assert_int_equal(shared_left(), 2);
}

static void prefault_maps_every_page(void **state)
{
	struct place place = place_of("pool", "?size=1MiB&prefault=1");
	char line[256], name[128] = "";
	unsigned long kib = 0, resident = 0;
	struct stat file;
	struct pool pool;
	FILE *maps;

	(void)state;
	shared_open(&pool, place.url);
	assert_int_equal(stat(place.path, &file), 0);
	maps = fopen("/proc/self/smaps", "re");
	assert_non_null(maps);
	while (fgets(line, sizeof(line), maps) && !resident) {
		if (sscanf(line, "%*x-%*x %*s %*s %*s %*s %127s", name) == 1 &&
		    strcmp(name, place.path) == 0)
			kib = (unsigned long)file.st_size / 1024;
		else if (kib)
			resident = strncmp(line, "Rss:", 4) ? 0 : strtoul(line + 4, NULL, 10);
	}
	fclose(maps);
	assert_int_equal(resident, kib);
	pool_close(&pool);
	refused(place_of("other", "?size=1MiB&prefault=2").url, KVH_INVALID_PARAMS,
	        "option prefault is neither 0 nor 1");
}

static void options_that_are_not_known_are_named(void **state)
{
	(void)state;
	refused(place_of("pool", "?sise=1MiB").url, KVH_INVALID_PARAMS, "did you mean size?");
	refused(place_of("pool", "?size=1MiB&numma=0").url, KVH_INVALID_PARAMS,
	        "did you mean numa?");
	refused(place_of("pool", "?size=1MiB&grop=x").url, KVH_INVALID_PARAMS, "mean group?");
	refused(place_of("pool", "?size=1MiB&colour=blue").url, KVH_INVALID_PARAMS,
	        "it has: size verify mode group numa prefault");
	/* And of a pool in one process only two are known. */
	refused("local:?size=1MiB&mode=0600", KVH_INVALID_PARAMS, "no option mode");
	refused(place_of("pool", "?size=4095").url, KVH_INVALID_PARAMS, "4096 to");
	refused(place_of("pool", "?size=5TiB").url, KVH_INVALID_PARAMS, "4096 to");
	refused(place_of("pool", "?size=1MiB&mode=0644").url, KVH_INVALID_PARAMS, "0600");
	refused(place_of("pool", "?size=1MiB&mode=0660").url, KVH_INVALID_PARAMS, "option group");
	refused(place_of("pool", "?size=1MiB&mode=0600&group=0").url, KVH_INVALID_PARAMS, "0660");
	refused(place_of("pool", "?size=1MiB&group=no-such-group").url, KVH_INVALID_PARAMS,
	        "this system has no group no-such-group");
	assert_int_equal(shared_left(), 0);
}

/* ---- names ------------------------------------------------------------------------------ */

static void names_stay_in_their_folder(void **state)
{
	static const char *const bad[] = {
		"local:a/b?size=1MiB",   "local:/tmp/x?size=1MiB", "local:../x?size=1MiB",
		"local://x?size=1MiB",   "local:///?size=1MiB",    "local:////x?size=1MiB",
		"local:a%20b?size=1MiB", "local:a%2Fb?size=1MiB",  "local:%C3%A4?size=1MiB",
		"local:a:b?size=1MiB",   "local:///x/?size=1MiB",  "local:a~?size=1MiB",
	};
	char url[512];

	(void)state;
	for (size_t i = 0; i < COUNT_OF(bad); i++)
		refused(bad[i], KVH_INVALID_PARAMS, "local: takes a name of at most 200 letters");
	snprintf(url, sizeof(url), "local:%0201d?size=1MiB", 1);
	refused(url, KVH_INVALID_PARAMS, "at most 200 letters");
	assert_int_equal(shared_left(), 0);
}

static void a_name_and_its_path_are_one_pool(void **state)
{
	char name[256], path[320], url[400];
	struct pool by_name, by_path;

	(void)state;
	/* As long as names get, with every kind of letter, and the dots that mean nothing here. */
	snprintf(name, sizeof(name), "..A-z_9.%0192ld", (long)getpid());
	assert_int_equal(strlen(name), 200);
	snprintf(path, sizeof(path), "/dev/shm/kvhold.%s", name);
	snprintf(url, sizeof(url), "local:%s?size=256KiB", name);
	shared_open(&by_name, url);
	snprintf(url, sizeof(url), "local://%s", path);
	shared_open(&by_path, url);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(put_number(&by_name, 1, 5000, NULL), 0);
	assert_int_equal(get_number(&by_path, 1, 5000), 5000);
	pool_close(&by_name);
	pool_close(&by_path);
}

/* ---- huge pages ------------------------------------------------------------------------- */

#define HUGE_COUNT "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages"

static bool read_count(unsigned long *count)
{
	FILE *file = fopen(HUGE_COUNT, "re");
	char line[32];
	bool read = file && fgets(line, sizeof(line), file);

	if (read)
		*count = strtoul(line, NULL, 10);
	if (file)
		fclose(file);
	return read;
}

static void write_count(unsigned long count)
{
	FILE *file = fopen(HUGE_COUNT, "we");

	if (!file)
		return;
	fprintf(file, "%lu\n", count);
	fclose(file);
}

/* Pages that the machine had before; they are its own again after the test, however it ends. */
static unsigned long pages_before;
static bool pages_taken;

static int give_pages_back(void **state)
{
	int left = shared_teardown(state);

	if (pages_taken)
		write_count(pages_before);
	return left;
}

static void huge_pages_hold_a_pool(void **state)
{
	enum { PAGES = 6 };
	struct place place = place_of("huge", "/pool?size=4MiB");
	unsigned long now = 0;
	struct pool pool;
	struct stat file;

	(void)state;
	if (!shared.may_mount || !read_count(&pages_before)) {
		print_message("skipped: no huge pages, or none can be mounted here\n");
		skip();
	}
	assert_int_equal(mkdir(place.path, 0700), 0);
	pages_taken = true;
	write_count(pages_before + PAGES);
	if (!read_count(&now) || now < pages_before + PAGES ||
	    mount("none", place.path, "hugetlbfs", 0, "pagesize=2M") != 0) {
		print_message("skipped: this machine gives no %d huge pages\n", PAGES);
		skip();
	}
	refused(place_of("huge/large", "?size=1GiB").url, KVH_NO_MEMORY, "of hugetlbfs");
	shared_open(&pool, place.url);
	assert_int_equal(stat(place.path, &file), 0);
	assert_int_equal(file.st_size % (2 * MIB), 0);
	assert_int_equal(put_number(&pool, 1, 5000, NULL), 0);
	pool_close(&pool);
	shared_open(&pool, place_of("huge", "/pool").url);
	assert_int_equal(get_number(&pool, 1, 5000), 5000);
	pool_close(&pool);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		shared_test(all_space_is_taken_at_once),
		shared_test(a_pool_larger_than_its_file_system_is_refused),
		shared_test(a_file_above_the_limit_of_the_process_is_refused),
		shared_test(a_full_file_system_is_refused_with_what_it_has),
		shared_test(a_tmpfs_without_a_limit_takes_a_pool),
		shared_test(a_folder_that_is_not_there_is_named),
		shared_test(a_folder_that_may_not_be_written_is_refused),
		shared_test(file_systems_that_can_hold_no_pool_are_refused),
		shared_test(a_file_on_a_disk_works_but_has_no_memory_of_a_node),
		shared_test(numa_is_a_node_of_the_machine_or_interleave),
		shared_test(prefault_maps_every_page),
		shared_test(options_that_are_not_known_are_named),
		shared_test(names_stay_in_their_folder),
		shared_test(a_name_and_its_path_are_one_pool),
		cmocka_unit_test_setup_teardown(huge_pages_hold_a_pool, shared_setup,
	                                        give_pages_back),
	};

	shared_begin();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
