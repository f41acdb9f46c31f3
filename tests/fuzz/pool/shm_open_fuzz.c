/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Damaged pool files: refused with words or put right, and never a wrong object. An input is
 *
 *   1 byte      bit 0: as a killed process left it; the rest: number of patches, modulo 8
 *   patches     11 bytes each: part of the area and width, index (2 bytes), value (8 bytes)
 *   the rest    2 bytes each: what to do with which object
 */
#include "fuzz/fuzz.h"

#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <kvhold/kvhold.h>

#include "base/check.h"
#include "pool/core/area.h"

enum {
	UNITS = 64,
	OBJECTS = 16,
	HELD = 40,
	BYTES_MAX = 3 * KVH_UNIT_BYTES,
	HASH_BYTES = 32,
	TEXT_BYTES = 40,
	PATCH_BYTES = 11,
	WORK_MAX = 64
};

/* What every input begins with; made once. */
static struct {
	char path[64], url[128];
	struct kvh_area area; /* in the file */
	unsigned char *file, *clean, *killed;
	size_t bytes;
	unsigned char *memory; /* registered */
} fuzz;

static void remove_file(void)
{
	unlink(fuzz.path);
}

/* ---- objects ---------------------------------------------------------------------------- */

struct pool {
	struct kvh_store *store;
	uint32_t prefixes[2]; /* of short keys, and of keys whose text lies beside the object */
};

static size_t bytes_of(uint64_t number)
{
	return 1 + number * 1237 % BYTES_MAX;
}

static uint8_t byte_at(uint64_t number, size_t at)
{
	return (uint8_t)((number + 1) * 151 + at * 7 + (at >> 8) * 31);
}

struct one {
	uint8_t hash[TEXT_BYTES];
	struct kvh_key key;
	struct kvh_segment segment;
	struct kvh_value value;
	struct kvh_result result;
	struct kvh_batch batch;
};

static void one_make(const struct pool *pool, uint64_t number, struct one *one)
{
	bool is_long = number % 2;

	memset(one, 0, sizeof(*one));
	for (size_t i = 0; i < sizeof(one->hash); i++)
		one->hash[i] = byte_at(number, i * 3);
	one->key = (struct kvh_key){.hash = one->hash,
	                            .hash_bytes = is_long ? TEXT_BYTES : HASH_BYTES,
	                            .prefix_id = pool->prefixes[is_long]};
	one->segment = (struct kvh_segment){.addr = fuzz.memory, .bytes = bytes_of(number)};
	one->value = (struct kvh_value){.segments = &one->segment, .segment_count = 1};
	one->batch = (struct kvh_batch){
		.count = 1, .keys = &one->key, .values = &one->value, .results = &one->result};
}

static int64_t put(const struct pool *pool, uint64_t number, const struct kvh_put_options *options)
{
	struct one one;

	one_make(pool, number, &one);
	for (size_t i = 0; i < one.segment.bytes; i++)
		fuzz.memory[i] = byte_at(number, i);
	KVH_CHECK(kvh_store_put(pool->store, &one.batch, options, NULL) == KVH_OK);
	return one.result.value;
}

/* forged: anything may have been made to look right. */
static int64_t get(const struct pool *pool, uint64_t number, bool forged)
{
	struct one one;

	one_make(pool, number, &one);
	KVH_CHECK(kvh_store_get(pool->store, &one.batch, NULL) == KVH_OK);
	if (one.result.value > 0 && !forged) {
		KVH_CHECK(one.result.value == (int64_t)one.segment.bytes);
		for (size_t i = 0; i < one.segment.bytes; i++)
			KVH_CHECK(fuzz.memory[i] == byte_at(number, i));
	}
	return one.result.value;
}

static kvh_status open_pool(struct pool *pool, struct kvh_error *error)
{
	struct kvh_prefix prefix = {.struct_bytes = sizeof(prefix),
	                            .text = "fuzz@",
	                            .text_bytes = 5,
	                            .family_bytes = 1,
	                            .hash_bytes = HASH_BYTES};
	kvh_region_id region;
	kvh_status status = kvh_store_open(fuzz.url, NULL, &pool->store, error);

	if (status)
		return status;
	KVH_CHECK(kvh_store_register(pool->store, fuzz.memory, BYTES_MAX, KVH_MEMORY_HOST, &region,
	                             error) == KVH_OK);
	KVH_CHECK(kvh_store_prefix(pool->store, &prefix, &pool->prefixes[0], error) == KVH_OK);
	prefix.text = "fuzz-of-long-keys@";
	prefix.text_bytes = strlen(prefix.text);
	prefix.hash_bytes = TEXT_BYTES;
	KVH_CHECK(kvh_store_prefix(pool->store, &prefix, &pool->prefixes[1], error) == KVH_OK);
	return KVH_OK;
}

/* ---- the file --------------------------------------------------------------------------- */

static void fill(const struct pool *pool)
{
	struct kvh_token token;
	const struct kvh_put_options hold = {
		.struct_bytes = sizeof(hold), .flags = KVH_PUT_HOLD, .tokens = &token};
	const struct kvh_put_options group = {.struct_bytes = sizeof(group),
	                                      .flags = KVH_PUT_LIFECYCLE_GROUP,
	                                      .keep_seconds = 600,
	                                      .priority = 1};

	for (uint64_t i = 0; i < 2 * OBJECTS; i++)
		KVH_CHECK(put(pool, i, i % 3 ? NULL : &group) == KVH_OK);
	KVH_CHECK(put(pool, HELD, &hold) == KVH_OK);
}

static unsigned char *copy_file(void)
{
	unsigned char *copy = malloc(fuzz.bytes);

	KVH_CHECK(copy);
	memcpy(copy, fuzz.file, fuzz.bytes);
	return copy;
}

/* Where a program may mount, the file is nobody else's and goes with the process. */
static void name_file(void)
{
	bool own = unshare(CLONE_NEWNS) == 0 &&
	           mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
	           mount("none", "/dev/shm", "tmpfs", 0, "size=32M") == 0;

	snprintf(fuzz.path, sizeof(fuzz.path), "/dev/shm/kvhold-fuzz-%ld", (long)getpid());
	if (!own)
		atexit(remove_file);
}

static void make_file(void)
{
	struct kvh_error error = {0};
	struct stat file;
	struct pool pool;
	int fd;

	name_file();
	fuzz.memory = malloc(BYTES_MAX);
	KVH_CHECK(fuzz.memory);
	snprintf(fuzz.url, sizeof(fuzz.url), "local://%s?size=%d&verify=1", fuzz.path,
	         UNITS * KVH_UNIT_BYTES);
	KVH_CHECK(open_pool(&pool, &error) == KVH_OK);
	fill(&pool);
	fd = open(fuzz.path, O_RDWR | O_CLOEXEC);
	KVH_CHECK(fd >= 0 && fstat(fd, &file) == 0);
	fuzz.bytes = (size_t)file.st_size;
	fuzz.file = mmap(NULL, fuzz.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	KVH_CHECK(fuzz.file != MAP_FAILED);
	close(fd);
	/* What a killed process leaves: all but its locks. */
	fuzz.killed = copy_file();
	KVH_CHECK(kvh_store_close(pool.store, 0) == KVH_OK);
	fuzz.clean = copy_file();
	kvh_area_attach(&fuzz.area, fuzz.file);
}

/* Only what differs: most pages of an area are never touched. */
static void restore(const unsigned char *from)
{
	for (size_t at = 0; at < fuzz.bytes; at += KVH_UNIT_BYTES)
		if (memcmp(fuzz.file + at, from + at, KVH_UNIT_BYTES) != 0)
			memcpy(fuzz.file + at, from + at, KVH_UNIT_BYTES);
}

/* ---- patches ---------------------------------------------------------------------------- */

struct part {
	void *start;
	size_t bytes;
};

static struct part part_of(unsigned index)
{
	const struct kvh_area *a = &fuzz.area;
	const struct kvh_geometry *g = &a->geometry;
	struct kvh_area_fixed *f = a->fixed;
	const struct part parts[] = {
		{f->super_bytes, sizeof(f->super)},
		{&f->super.lock, sizeof(f->super) - offsetof(struct kvh_super, lock)},
		{f->prefixes, 4 * sizeof(f->prefixes[0])},
		{f->sessions, 2 * sizeof(f->sessions[0])},
		{f->sessions, sizeof(f->sessions)},
		{f->ring, 64 * sizeof(f->ring[0])},
		{&f->victims, sizeof(f->victims)},
		{f->prefix_states, 4 * sizeof(f->prefix_states[0])},
		{f->classes, sizeof(f->classes)},
		{&f->tally, sizeof(f->tally)},
		{a->slots, g->slot_count * sizeof(a->slots[0])},
		{a->links, g->slot_count * sizeof(a->links[0])},
		{a->buckets, g->bucket_count * sizeof(a->buckets[0])},
		{a->shapes, g->region_count * sizeof(a->shapes[0])},
		{a->regions, g->region_count * sizeof(a->regions[0])},
		{a->bitmap, g->region_count * g->region_bitmap_words * sizeof(a->bitmap[0])},
		{a->sums, g->slot_count * sizeof(uint64_t)},
	};

	return parts[index % (sizeof(parts) / sizeof(parts[0]))];
}

static bool touches(const unsigned char *at, size_t width, const void *start, size_t bytes)
{
	const unsigned char *from = start;

	return at < from + bytes && at + width > from;
}

/* What an input may have forged, and is not asked for then. */
struct forged {
	bool bytes;     /* check words or checksums: they vouch for whose and which bytes */
	bool committed; /* control words: they say that all bytes are there */
};

static void note_forged(const unsigned char *at, size_t width, struct forged *forged)
{
	const struct kvh_area *a = &fuzz.area;

	forged->bytes |= touches(at, width, a->sums, a->geometry.slot_count * sizeof(uint64_t));
	for (uint32_t i = 0; i < a->geometry.slot_count; i++) {
		forged->bytes |= touches(at, width, &a->slots[i].check, sizeof(a->slots[i].check));
		forged->committed |= touches(at, width, &a->slots[i].ctl, sizeof(a->slots[i].ctl));
	}
}

static void patch(const uint8_t *data, struct forged *forged)
{
	struct part part = part_of(data[0] & 31);
	size_t width = (size_t)1 << (data[0] >> 5 & 3);
	size_t index = data[1] | (size_t)data[2] << 8;
	unsigned char *at = (unsigned char *)part.start + index * width % part.bytes;

	memcpy(at, data + 3, width);
	note_forged(at, width, forged);
}

/* ---- one input -------------------------------------------------------------------------- */

static void work(const struct pool *pool, uint8_t what, uint8_t number, bool forged)
{
	struct kvh_store_stats stats = {.struct_bytes = sizeof(stats)};
	struct kvh_evicted_key keys[8];
	size_t count = 0;
	bool lost;
	struct one one;

	one_make(pool, number % (4 * OBJECTS), &one);
	switch (what % 7) {
	case 0:
		put(pool, number % (4 * OBJECTS), NULL);
		break;
	case 1:
		get(pool, number % (4 * OBJECTS), forged);
		break;
	case 2:
		one.batch.values = NULL;
		KVH_CHECK(kvh_store_exists(pool->store, &one.batch, KVH_EXISTS_DEDUP, NULL) ==
		          KVH_OK);
		break;
	case 3:
		one.batch.values = NULL;
		KVH_CHECK(kvh_store_remove(pool->store, &one.batch, NULL) == KVH_OK);
		break;
	case 4:
		KVH_CHECK(kvh_store_take_evicted(pool->store, keys, 8, &count, &lost) == KVH_OK);
		for (size_t i = 0; i < count; i++)
			KVH_CHECK(keys[i].hash_bytes <= KVH_KEY_HASH_BYTES_MAX);
		break;
	case 5:
		KVH_CHECK(kvh_store_get_stats(pool->store, &stats) == KVH_OK);
		KVH_CHECK(stats.used_bytes <= UNITS * KVH_UNIT_BYTES);
		break;
	default:
		KVH_CHECK(kvh_store_clear(pool->store, NULL, NULL) == KVH_OK);
		break;
	}
}

static void use_pool(const uint8_t *data, size_t bytes, struct forged forged)
{
	struct kvh_error error = {0};
	struct pool pool;
	kvh_status status = open_pool(&pool, &error);

	if (status) {
		KVH_CHECK(status == error.status && error.text[0]);
		KVH_CHECK(status == KVH_INVALID_PARAMS || status == KVH_NOT_SUPPORTED);
		return;
	}
	for (uint64_t i = 0; i < OBJECTS; i++)
		get(&pool, i, forged.bytes);
	KVH_CHECK(get(&pool, HELD, forged.bytes) < 0 || forged.bytes || forged.committed);
	for (size_t at = 0; at + 2 <= bytes && at < 2 * WORK_MAX; at += 2)
		work(&pool, data[at], data[at + 1], forged.bytes);
	KVH_CHECK(kvh_store_close(pool.store, 0) == KVH_OK);
	/* What one closed well, the next one takes as it is. */
	KVH_CHECK(open_pool(&pool, &error) == KVH_OK);
	for (uint64_t i = 0; i < 4 * OBJECTS; i++)
		get(&pool, i, forged.bytes);
	KVH_CHECK(kvh_store_close(pool.store, 0) == KVH_OK);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	uint64_t mark;
	unsigned patches;
	struct forged forged = {0};

	if (!fuzz.file)
		make_file();
	if (bytes == 0)
		return 0;
	restore(data[0] & 1 ? fuzz.killed : fuzz.clean);
	mark = atomic_load(&fuzz.area.super->clean_mark);
	patches = data[0] >> 1 & 7;
	for (data++, bytes--; patches > 0 && bytes >= PATCH_BYTES; patches--) {
		patch(data, &forged);
		data += PATCH_BYTES;
		bytes -= PATCH_BYTES;
	}
	/* A fuzzer that finds the right mark for damaged data has only broken the hash. */
	if (atomic_load(&fuzz.area.super->clean_mark) != mark)
		atomic_store(&fuzz.area.super->clean_mark, 0);
	use_pool(data, bytes, forged);
	return 0;
}
