/* SPDX-License-Identifier: Apache-2.0 */
/* What must be true of a shared pool when all who used it are gone (S-7, S-23). */
#include "stress_check.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pool/core/sessions.h"
#include "pool/core/spans.h"

struct check {
	struct crowd_board *board;
	const char *path;
	struct crowd_handle handle;
	struct kvh_area area; /* over a mapping of its own */
	void *memory;
	size_t memory_bytes;
};

static bool open_pool(struct check *check)
{
	struct kvh_error error = {0};
	char url[512];
	kvh_status status;

	snprintf(url, sizeof(url), "local://%s", check->path);
	check->handle =
		(struct crowd_handle){.env = kvh_env_posix(), .board = check->board, .call_ns = 0};
	status = kvh_store_open(url, NULL, &check->handle.store, &error);
	if (status)
		return crowd_fail(check->board, "reopen: %d: %s", status, error.text);
	return crowd_join(&check->handle, 2);
}

static bool map_area(struct check *check)
{
	struct stat file = {0};
	int fd = open(check->path, O_RDWR | O_CLOEXEC);

	if (fd < 0 || fstat(fd, &file) != 0)
		return crowd_fail(check->board, "%s can't be opened", check->path);
	check->memory_bytes = (size_t)file.st_size;
	check->memory = mmap(NULL, check->memory_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (check->memory == MAP_FAILED)
		return crowd_fail(check->board, "%s can't be mapped", check->path);
	kvh_area_attach(&check->area, check->memory);
	return true;
}

static struct kvh_store_stats stats_of(struct check *check)
{
	struct kvh_store_stats stats = {.struct_bytes = sizeof(stats)};

	if (kvh_store_get_stats(check->handle.store, &stats))
		crowd_fail(check->board, "no stats");
	return stats;
}

static bool demand(struct check *check, bool good, const char *what, uint64_t is, uint64_t wanted)
{
	if (good)
		return true;
	return crowd_fail(check->board, "at the end: %s: %llu, and not %llu", what,
	                  (unsigned long long)is, (unsigned long long)wanted);
}

static bool demand_equal(struct check *check, const char *what, uint64_t is, uint64_t wanted)
{
	return demand(check, is == wanted, what, is, wanted);
}

/* ---- slots and extents ------------------------------------------------------------------ */

struct census {
	uint64_t valid, other, expired, units, overlaps;
	uint64_t quota_bytes; /* that the prefix with a quota uses */
};

static void count_extent(struct check *check, uint32_t unit, bool *taken, struct census *census)
{
	const struct kvh_area *area = &check->area;
	uint32_t units = kvh_span_extent_units(area, kvh_span_of(area, unit));

	census->units += units;
	census->overlaps += units == 0;
	for (uint32_t i = unit; i < unit + units; i++) {
		census->overlaps += taken[i];
		taken[i] = true;
	}
}

static struct census count_slots(struct check *check)
{
	const struct kvh_area *area = &check->area;
	const struct kvh_env *env = check->handle.env;
	uint64_t now_unit = kvh_time_unit(env->ops->now_ns(env->ctx));
	struct census census = {0};
	bool *taken = calloc(2 * (size_t)area->geometry.unit_count, sizeof(*taken));

	for (uint32_t i = 0; taken && i < kvh_slots_ever(area); i++) {
		struct kvh_slot *slot = &area->slots[i];
		uint64_t ctl = atomic_load(&slot->ctl);

		if (kvh_ctl_state(ctl) == KVH_SLOT_FREE)
			continue;
		census.other += kvh_ctl_state(ctl) != KVH_SLOT_VALID;
		census.valid += kvh_ctl_state(ctl) == KVH_SLOT_VALID;
		census.expired += kvh_slot_expired(area, ctl, atomic_load(&slot->use), now_unit);
		count_extent(check, atomic_load(&slot->extent_unit), taken, &census);
	}
	free(taken);
	return census;
}

/* How many of the crowd's keys are there; each must have its bytes. */
static uint64_t count_present(struct check *check)
{
	struct crowd_handle *handle = &check->handle;
	uint64_t present = 0;

	for (uint64_t number = 0; number < CROWD_KEYS; number++) {
		uint8_t hash[CROWD_HASH_BYTES_MAX];
		size_t bytes = crowd_value_bytes(number);
		struct kvh_segment segment = {.addr = handle->memory, .bytes = bytes};
		struct kvh_value value = {.segments = &segment, .segment_count = 1};
		struct kvh_key key = {.hash = hash,
		                      .hash_bytes = crowd_hash(number, hash),
		                      .prefix_id = handle->prefixes[number % CROWD_KINDS]};
		struct kvh_result result = {0};
		struct kvh_batch batch = {
			.count = 1, .keys = &key, .values = &value, .results = &result};
		kvh_status status = kvh_store_get(handle->store, &batch, NULL);

		if (status == KVH_OK && result.value == KVH_OBJECT_NOT_FOUND)
			continue;
		if (status || result.value != (int64_t)bytes ||
		    !crowd_is(number, handle->memory, bytes))
			crowd_fail(check->board, "at the end: key %llu is wrong: %lld",
			           (unsigned long long)number, (long long)result.value);
		present++;
	}
	return present;
}

static bool check_objects(struct check *check)
{
	const struct kvh_tally *tally = &check->area.fixed->tally;
	struct kvh_store_stats stats = stats_of(check);
	struct census before = count_slots(check), after;
	uint64_t present = count_present(check);

	after = count_slots(check);
	/* The clock of expiry may have moved on in between. */
	demand(check,
	       present + before.expired <= before.valid && present + after.expired >= after.valid,
	       "objects found", present, before.valid);
	demand_equal(check, "objects", stats.objects, before.valid);
	demand_equal(check, "slots that are no object", before.other, 0);
	demand_equal(check, "extents that overlap", before.overlaps, 0);
	demand_equal(check, "bytes used", stats.used_bytes, before.units * KVH_UNIT_BYTES);
	demand_equal(check, "reserved", stats.reserved_objects, 0);
	demand_equal(check, "pinned", stats.pinned_objects, 0);
	demand_equal(check, "broken pins", atomic_load(&tally->broken_pins), 0);
	demand_equal(check, "bad records", atomic_load(&tally->dropped_slots), 0);
	return !atomic_load(&check->board->failed);
}

/* ---- the whole room --------------------------------------------------------------------- */

static int64_t put_filler(struct check *check, uint64_t number, void *at, size_t bytes)
{
	uint8_t hash[32] = {0xff};
	struct kvh_segment segment = {.addr = at, .bytes = bytes};
	struct kvh_value value = {.segments = &segment, .segment_count = 1};
	struct kvh_key key = {
		.hash = hash, .hash_bytes = sizeof(hash), .prefix_id = check->handle.prefixes[0]};
	struct kvh_result result = {0};
	struct kvh_batch batch = {.count = 1, .keys = &key, .values = &value, .results = &result};
	kvh_status status;

	memcpy(hash + 8, &number, sizeof(number));
	status = kvh_store_put(check->handle.store, &batch, NULL, NULL);
	return status ? status : result.value;
}

static bool clear_pool(struct check *check)
{
	kvh_status status = kvh_store_clear(check->handle.store, NULL, NULL);

	if (status)
		return crowd_fail(check->board, "at the end: clear: %d", status);
	return demand_equal(check, "bytes used when all is cleared", stats_of(check).used_bytes, 0);
}

/* By one object of all its bytes, and by the smallest, without evicting one. */
static bool fill_pool(struct check *check)
{
	struct kvh_store_stats stats = stats_of(check);
	uint64_t capacity_bytes = stats.capacity_bytes, evicted_keys = stats.evicted_keys;
	unsigned char *memory = calloc(1, capacity_bytes);
	struct kvh_error error = {0};
	kvh_region_id region;

	if (!memory || kvh_store_register(check->handle.store, memory, capacity_bytes,
	                                  KVH_MEMORY_HOST, &region, &error)) {
		free(memory);
		return crowd_fail(check->board, "no memory: %s", error.text);
	}
	if (clear_pool(check))
		demand_equal(check, "put of one object of all bytes",
		             (uint64_t)put_filler(check, 0, memory, capacity_bytes), 0);
	if (clear_pool(check))
		for (uint64_t i = 0; i < capacity_bytes / KVH_UNIT_BYTES; i++)
			demand_equal(check, "put of the smallest objects",
			             (uint64_t)put_filler(check, i, memory, KVH_UNIT_BYTES), 0);
	stats = stats_of(check);
	demand_equal(check, "bytes used when all is filled", stats.used_bytes, capacity_bytes);
	demand_equal(check, "keys evicted", stats.evicted_keys, evicted_keys);
	clear_pool(check);
	kvh_store_unregister(check->handle.store, region, 0);
	free(memory);
	return !atomic_load(&check->board->failed);
}

/* The last one closed it in order: the next one finds all as it was, and rebuilds nothing. */
static bool reopen(struct check *check)
{
	struct kvh_store_stats before = stats_of(check), after;
	uint64_t rebuilds = atomic_load(&check->area.super->rebuild_counter);

	if (!crowd_leave(&check->handle) || !open_pool(check))
		return false;
	after = stats_of(check);
	demand_equal(check, "objects after a clean close", after.objects, before.objects);
	demand_equal(check, "bytes used after a clean close", after.used_bytes, before.used_bytes);
	return demand_equal(check, "rebuilds after a clean close",
	                    atomic_load(&check->area.super->rebuild_counter), rebuilds);
}

bool stress_check(struct crowd_board *board, const char *path, uint64_t *rebuilds)
{
	struct check check = {.board = board, .path = path};
	bool good = open_pool(&check) && map_area(&check);

	if (good) {
		*rebuilds = atomic_load(&check.area.super->rebuild_counter) / 2;
		good = check_objects(&check) && reopen(&check) && check_objects(&check) &&
		       fill_pool(&check);
	}
	if (check.memory)
		munmap(check.memory, check.memory_bytes);
	if (check.handle.store && !crowd_leave(&check.handle))
		good = false;
	return good;
}
