/* SPDX-License-Identifier: Apache-2.0 */
/* Which files an open takes for pools of ours: kind, owner, permissions, superblock, size. */
#include "file_fixture.h"

#include <grp.h>
#include <sys/socket.h>
#include <sys/sysmacros.h>
#include <sys/un.h>

static unsigned mode_of(const char *path)
{
	struct stat file;

	assert_int_equal(stat(path, &file), 0);
	return file.st_mode & 07777;
}

/* ---- permissions ------------------------------------------------------------------------ */

static void a_new_pool_is_its_owners_alone_whatever_the_umask(void **state)
{
	struct place place = place_of("pool", "?size=256KiB");
	const mode_t masks[] = {0, 0777, 022};

	(void)state;
	for (size_t i = 0; i < COUNT_OF(masks); i++) {
		mode_t before = umask(masks[i]);

		make_pool(place.url);
		umask(before);
		assert_int_equal(mode_of(place.path), 0600);
		assert_int_equal(unlink(place.path), 0);
	}
	make_pool(place_of("said", "?size=256KiB&mode=0600").url);
	assert_int_equal(mode_of(place_of("said", "").path), 0600);
}

static void permissions_other_than_those_said_are_refused(void **state)
{
	const unsigned modes[] = {0644, 0660, 0622, 0700, 04600, 0666};
	struct place place = place_of("pool", "?size=256KiB");
	char word[8];

	(void)state;
	make_pool(place.url);
	for (size_t i = 0; i < COUNT_OF(modes); i++) {
		assert_int_equal(chmod(place.path, modes[i]), 0);
		snprintf(word, sizeof(word), "%04o", modes[i]);
		refused(place_of("pool", "?mode=0600").url, KVH_INVALID_PARAMS, word);
		refused(place_of("pool", "?mode=0600").url, KVH_INVALID_PARAMS, "mode says 0600");
		refused(place_of("pool", "").url, KVH_INVALID_PARAMS, "is by default 0600");
		assert_int_equal(mode_of(place.path), modes[i]);
	}
	assert_int_equal(chmod(place.path, 0600), 0);
	make_pool(place.url);
}

static void needs_root(void)
{
	if (geteuid() == 0)
		return;
	print_message("skipped: only root can become other users\n");
	skip();
}

static void be_nobody(gid_t group)
{
	CHILD_CHECK(setgroups(0, NULL) == 0 && setgid(group) == 0 && setuid(NOBODY) == 0);
}

static void nobody_is_refused(const void *ctx)
{
	const char *url = ctx;
	struct kvh_store *store;
	struct kvh_error error;

	be_nobody(NOBODY);
	CHILD_CHECK(try_open(url, NULL, &store, &error) == KVH_INVALID_PARAMS);
	CHILD_CHECK(strstr(error.text, "Permission denied") ||
	            strstr(error.text, "belongs to user 0, and you are 65534"));
}

static void nobody_makes(const void *ctx)
{
	const char *url = ctx;
	struct pool pool;

	be_nobody(NOBODY);
	child_opens(&pool, url);
	CHILD_CHECK(kvh_store_close(pool.store, 0) == KVH_OK);
}

/* proves: S-15 */
static void another_users_pool_is_refused(void **state)
{
	struct place place = place_of("pool", "?size=256KiB");

	(void)state;
	needs_root();
	make_pool(place.url);
	child_ends_well(run_child(nobody_is_refused, place.url));
	/* Also where the file's permissions let everybody in: then it is the owner that counts. */
	assert_int_equal(chmod(place.path, 0666), 0);
	child_ends_well(run_child(nobody_is_refused, place.url));
	assert_int_equal(unlink(place.path), 0);
	/* And root doesn't take what anybody may have put there. */
	assert_int_equal(chmod(shared.folder, 0777), 0);
	child_ends_well(run_child(nobody_makes, place.url));
	refused(place.url, KVH_INVALID_PARAMS, "belongs to user 65534, and you are 0");
	refused(place_of("pool", "").url, KVH_INVALID_PARAMS, "mode=0660&group=GROUP");
}

enum { GROUP = 54321 };

static void member_reads(const void *ctx)
{
	const char *url = ctx;
	struct pool pool;

	be_nobody(GROUP);
	child_opens(&pool, url);
	CHILD_CHECK(child_has(&pool, 1, 5000));
	CHILD_CHECK(child_puts(&pool, 2, 5000) == 0);
	CHILD_CHECK(kvh_store_close(pool.store, 0) == KVH_OK);
}

static void members_of_the_group_share_a_pool(void **state)
{
	struct place place = place_of("pool", "?size=256KiB&mode=0660&group=54321");
	struct stat file;
	struct pool pool;

	(void)state;
	needs_root();
	shared_open(&pool, place.url);
	assert_int_equal(stat(place.path, &file), 0);
	assert_int_equal(file.st_gid, GROUP);
	assert_int_equal(mode_of(place.path), 0660);
	assert_int_equal(put_number(&pool, 1, 5000, NULL), 0);
	child_ends_well(run_child(member_reads, place.url));
	assert_int_equal(get_number(&pool, 2, 5000), 5000);
	child_ends_well(run_child(nobody_is_refused, place.url));
	child_ends_well(run_child(nobody_is_refused, place_of("pool", "").url));
	pool_close(&pool);
	/* Without the option it is too open, with another group it is another one's. */
	refused(place_of("pool", "").url, KVH_INVALID_PARAMS, "has permissions 0660");
	refused(place_of("pool", "?group=1").url, KVH_INVALID_PARAMS,
	        "belongs to group 54321, not to that of option group (1)");
	make_pool(place_of("pool", "?group=54321").url);
}

static void not_a_member(const void *ctx)
{
	const char *url = ctx;
	struct kvh_store *store;
	struct kvh_error error;

	be_nobody(NOBODY);
	CHILD_CHECK(try_open(url, NULL, &store, &error) == KVH_INVALID_PARAMS);
	CHILD_CHECK(strstr(error.text, "can't be given to group 54321"));
}

static void a_file_is_given_to_own_groups_only(void **state)
{
	(void)state;
	needs_root();
	assert_int_equal(chmod(shared.folder, 0777), 0);
	child_ends_well(run_child(not_a_member, place_of("pool", "?size=256KiB&group=54321").url));
	assert_int_equal(shared_left(), 0);
}

/* ---- what is no file -------------------------------------------------------------------- */

/* proves: S-15 */
static void what_is_no_regular_file_is_refused(void **state)
{
	struct place place = place_of("pool", "?size=256KiB");
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd;

	(void)state;
	make_pool(place.url);
	assert_int_equal(symlink(place.path, place_of("link", "").path), 0);
	refused(place_of("link", "").url, KVH_INVALID_PARAMS, "links are not followed");
	assert_int_equal(symlink("/nowhere", place_of("loose", "").path), 0);
	refused(place_of("loose", "?size=256KiB").url, KVH_INVALID_PARAMS, "not followed");
	assert_int_equal(mkdir(place_of("folder", "").path, 0700), 0);
	refused(place_of("folder", "?size=256KiB").url, KVH_INVALID_PARAMS, "Is a directory");
	/* Neither end of it is there: nobody waits for one. */
	assert_int_equal(mkfifo(place_of("fifo", "").path, 0600), 0);
	refused(place_of("fifo", "?size=256KiB").url, KVH_INVALID_PARAMS, "not a regular file");
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	snprintf(address.sun_path, sizeof(address.sun_path), "%s/socket", shared.folder);
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	refused(place_of("socket", "?size=256KiB").url, KVH_INVALID_PARAMS, "can't be opened");
	close(fd);
	refused("local:///dev/null?size=256KiB", KVH_INVALID_PARAMS, "not a regular file");
	refused("local:///dev/zero?size=256KiB", KVH_INVALID_PARAMS, "not a regular file");
}

/* ---- what is no pool -------------------------------------------------------------------- */

static void write_file(const char *path, const void *bytes, size_t count, off_t whole)
{
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	assert_true(fd >= 0 && write(fd, bytes, count) == (ssize_t)count);
	assert_int_equal(ftruncate(fd, whole), 0);
	close(fd);
}

/* It is refused and not a byte of it was touched. */
static void stays_as_it_is(const char *path, const char *url, kvh_status status, const char *word)
{
	struct mapped before = map_pool(path), after;
	uint64_t hash = kvh_hash64(before.fixed, before.bytes);

	unmap_pool(&before);
	refused(url, status, word);
	after = map_pool(path);
	assert_true(kvh_hash64(after.fixed, after.bytes) == hash);
	unmap_pool(&after);
}

/* proves: S-15 */
static void files_that_are_no_pools_are_refused_and_kept(void **state)
{
	static const char text[] = "These are the notes of somebody who keeps them here.\n";
	struct place place = place_of("file", "?size=256KiB");
	struct stat file;

	(void)state;
	write_file(place.path, "", 0, 0);
	refused(place.url, KVH_INVALID_PARAMS, "too short for a pool");
	write_file(place.path, text, sizeof(text), sizeof(text));
	refused(place.url, KVH_INVALID_PARAMS, "too short for a pool");
	write_file(place.path, text, sizeof(text), sizeof(struct kvh_area_fixed) - 1);
	refused(place.url, KVH_INVALID_PARAMS, "too short for a pool");
	write_file(place.path, text, sizeof(text), 6 * MIB);
	stays_as_it_is(place.path, place.url, KVH_INVALID_PARAMS, "is not a pool of kvhold");
	write_file(place.path, "", 0, 6 * MIB);
	stays_as_it_is(place.path, place.url, KVH_INVALID_PARAMS, "is not a pool of kvhold");
	assert_int_equal(stat(place.path, &file), 0);
	assert_int_equal(file.st_size, 6 * MIB);
	assert_int_equal(shared_left(), 1);
}

/* The words and the status for a superblock that one word makes another's. */
static void refused_with(struct place place, size_t offset, uint32_t value, kvh_status status,
                         const char *word)
{
	struct mapped mapped = map_pool(place.path);
	uint32_t *at = (uint32_t *)(void *)(mapped.fixed->super_bytes + offset);
	uint32_t before = *at;

	/* As its maker would have written it: sealed. */
	*at = value;
	seal_super(&mapped.fixed->super);
	stays_as_it_is(place.path, place.url, status, word);
	*at = before;
	seal_super(&mapped.fixed->super);
	unmap_pool(&mapped);
	make_pool(place.url);
}

#define GEOMETRY(field)                                                                            \
	(offsetof(struct kvh_super, geometry) + offsetof(struct kvh_geometry, field))

/* proves: S-15 */
static void superblocks_of_others_are_refused(void **state)
{
	struct place place = place_of("pool", "");

	(void)state;
	make_pool(place_of("pool", "?size=1MiB").url);
	refused_with(place, offsetof(struct kvh_super, magic), 0x31646c70, KVH_INVALID_PARAMS,
	             "is not a pool of kvhold");
	refused_with(place, offsetof(struct kvh_super, version), 2, KVH_NOT_SUPPORTED,
	             "is a pool of format 2, and this kvhold knows format 1");
	refused_with(place, offsetof(struct kvh_super, stamp), 1, KVH_NOT_SUPPORTED,
	             "another kind of machine or by another build");
	refused_with(place, GEOMETRY(unit_count), 0, KVH_INVALID_PARAMS, "damaged superblock");
	refused_with(place, GEOMETRY(unit_count), UINT32_MAX, KVH_INVALID_PARAMS,
	             "damaged superblock");
	refused_with(place, GEOMETRY(slot_count), 1 << 30, KVH_INVALID_PARAMS,
	             "damaged superblock");
	refused_with(place, GEOMETRY(area_bytes), 0, KVH_INVALID_PARAMS, "");
	refused_with(place, GEOMETRY(area_bytes) + 4, UINT32_MAX, KVH_INVALID_PARAMS, "");
	refused_with(place, GEOMETRY(payload_offset_bytes), 0, KVH_INVALID_PARAMS,
	             "damaged superblock");
	refused_with(place, GEOMETRY(sums_offset_bytes), 4096, KVH_INVALID_PARAMS,
	             "damaged superblock");
	refused_with(place, GEOMETRY(region_units), 0, KVH_INVALID_PARAMS, "damaged superblock");
}

/* proves: S-15 */
static void a_file_of_another_size_than_its_superblock_says_is_refused(void **state)
{
	struct place place = place_of("pool", "");
	struct stat file;

	(void)state;
	make_pool(place_of("pool", "?size=1MiB").url);
	assert_int_equal(stat(place.path, &file), 0);
	assert_int_equal(truncate(place.path, file.st_size - 1), 0);
	refused(place.url, KVH_INVALID_PARAMS, "it was cut or resized");
	assert_int_equal(truncate(place.path, file.st_size + KVH_UNIT_BYTES), 0);
	refused(place.url, KVH_INVALID_PARAMS, "it was cut or resized");
	assert_int_equal(truncate(place.path, file.st_size - KVH_UNIT_BYTES), 0);
	refused(place.url, KVH_INVALID_PARAMS, "it was cut or resized");
	assert_int_equal(truncate(place.path, file.st_size), 0);
	make_pool(place.url);
}

static void options_that_the_file_denies_are_refused(void **state)
{
	struct place place = place_of("pool", "?size=1MiB");

	(void)state;
	make_pool(place.url);
	refused(place_of("pool", "?size=2MiB").url, KVH_INVALID_PARAMS,
	        "has 1048576 bytes for objects, and option size says 2097152");
	refused(place_of("pool", "?verify=1").url, KVH_INVALID_PARAMS, "has no checksums");
	make_pool(place_of("pool", "?verify=0").url);
	/* Sizes are rounded down to a page when the file is made: then, too. */
	make_pool(place_of("pool", "?size=1048577").url);
	make_pool(place_of("summed", "?size=1MiB&verify=1").url);
	refused(place_of("summed", "?verify=0").url, KVH_INVALID_PARAMS, "has checksums");
	make_pool(place_of("summed", "?verify=1").url);
	make_pool(place_of("summed", "").url);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		shared_test(a_new_pool_is_its_owners_alone_whatever_the_umask),
		shared_test(permissions_other_than_those_said_are_refused),
		shared_test(another_users_pool_is_refused),
		shared_test(members_of_the_group_share_a_pool),
		shared_test(a_file_is_given_to_own_groups_only),
		shared_test(what_is_no_regular_file_is_refused),
		shared_test(files_that_are_no_pools_are_refused_and_kept),
		shared_test(superblocks_of_others_are_refused),
		shared_test(a_file_of_another_size_than_its_superblock_says_is_refused),
		shared_test(options_that_the_file_denies_are_refused),
	};

	shared_begin();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
