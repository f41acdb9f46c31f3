/* SPDX-License-Identifier: Apache-2.0 */
/* Geometry: how large each part of the area is and where it lies. */
#include "pool/core/area.h"

#include <string.h>

#include "base/check.h"
#include "base/error.h"
#include "base/fault.h"
#include "base/hash.h"
#include "base/size.h"
#include "pool/core/prefixes.h"
#include "pool/core/slots.h"

#define AREA_MAGIC UINT64_C(0x31646c6f6876706b)

enum {
	AREA_VERSION = 1,
	LINE_BYTES = 64,
	/* A slot per 16 KiB: no KV block of a real model is smaller. */
	SLOT_UNITS = 4,
	SLOTS_MIN = 4096,
	SLOTS_MAX = 1 << 26,
	/* Load of the index at most 0.6 of 7 entries. */
	BUCKET_SLOTS_TIMES_5 = 21,
	REGIONS_AIM = 512,
	REGION_UNITS_MIN = 16,   /* 64 KiB */
	REGION_UNITS_MAX = 8192, /* 32 MiB */
	UNITS_MAX = 1 << 30      /* 4 TiB */
};

static uint32_t slot_count(uint32_t units)
{
	uint32_t slots = units / SLOT_UNITS;

	if (slots < SLOTS_MIN)
		slots = SLOTS_MIN;
	if (slots > SLOTS_MAX)
		slots = SLOTS_MAX;
	return slots < units ? slots : units;
}

static uint32_t region_units(uint32_t units)
{
	uint32_t region = REGION_UNITS_MIN;

	while (region < REGION_UNITS_MAX && region * 2 <= units / REGIONS_AIM)
		region *= 2;
	return region;
}

/* Takes the next part; sizes are bounded by UNITS_MAX, so no sum can wrap. */
static uint64_t place(uint64_t *end_bytes, uint64_t count, uint64_t bytes)
{
	uint64_t at = *end_bytes;
	uint64_t part = count * bytes;

	*end_bytes = at + kvh_round_down(part + LINE_BYTES - 1, LINE_BYTES);
	return at;
}

kvh_status kvh_geometry_make(uint64_t capacity_bytes, bool sums, struct kvh_geometry *geometry)
{
	uint64_t units = capacity_bytes / KVH_UNIT_BYTES;
	uint64_t end = sizeof(struct kvh_area_fixed);
	struct kvh_geometry g = {0};

	if (units < 1 || units > UNITS_MAX)
		return KVH_INVALID_PARAMS;
	g.unit_count = (uint32_t)units;
	g.slot_count = slot_count(g.unit_count);
	g.bucket_count = (uint32_t)kvh_div_up((uint64_t)g.slot_count * 5, BUCKET_SLOTS_TIMES_5);
	g.region_units = region_units(g.unit_count);
	g.region_count = (uint32_t)kvh_div_up(units, g.region_units);
	g.region_bitmap_words = (uint32_t)kvh_div_up(g.region_units, 64);
	g.slots_offset_bytes = place(&end, g.slot_count, sizeof(struct kvh_slot));
	g.buckets_offset_bytes = place(&end, g.bucket_count, sizeof(struct kvh_bucket));
	g.links_offset_bytes = place(&end, g.slot_count, sizeof(struct kvh_link));
	if (sums)
		g.sums_offset_bytes = place(&end, g.slot_count, sizeof(uint64_t));
	g.shapes_offset_bytes = place(&end, g.region_count, sizeof(uint64_t));
	g.regions_offset_bytes = place(&end, g.region_count, sizeof(struct kvh_region_state));
	g.bitmap_offset_bytes =
		place(&end, g.region_count, g.region_bitmap_words * sizeof(uint64_t));
	g.payload_offset_bytes = kvh_div_up(end, KVH_UNIT_BYTES) * KVH_UNIT_BYTES;
	g.area_bytes = g.payload_offset_bytes + units * KVH_UNIT_BYTES;
	*geometry = g;
	return KVH_OK;
}

static uint32_t layout_stamp(void)
{
	const uint32_t facts[] = {0x01020304,
	                          KVH_UNIT_BYTES,
	                          sizeof(struct kvh_area_fixed),
	                          sizeof(struct kvh_slot),
	                          sizeof(struct kvh_bucket),
	                          sizeof(struct kvh_link),
	                          sizeof(struct kvh_region_state)};

	return (uint32_t)kvh_hash64(facts, sizeof(facts));
}

static uint64_t life_checksum(const struct kvh_life *life)
{
	return kvh_hash64(life, offsetof(struct kvh_life, checksum));
}

static bool life_is_good(const struct kvh_life *life)
{
	return life->number != 0 && life->checksum == life_checksum(life);
}

const struct kvh_life *kvh_area_life(const void *superblock)
{
	const struct kvh_life *a = &((const struct kvh_super *)superblock)->lives[0];
	const struct kvh_life *b = a + 1;

	if (!life_is_good(b))
		return life_is_good(a) ? a : NULL;
	return life_is_good(a) && a->number > b->number ? a : b;
}

void kvh_area_set_life(void *superblock, const struct kvh_life *life)
{
	struct kvh_life *at = &((struct kvh_super *)superblock)->lives[life->number % 2];

	*at = *life;
	at->checksum = 0;
	KVH_CRASH_POINT(POOL_LIFE);
	at->checksum = life_checksum(at);
}

static void begin_life(struct kvh_super *super, uint64_t number, uint64_t epoch,
                       const uint64_t boot_id[2])
{
	const struct kvh_life life = {
		.number = number, .epoch = epoch, .boot_id = {boot_id[0], boot_id[1]}};

	kvh_area_set_life(super, &life);
}

void kvh_area_format(void *memory, const struct kvh_geometry *geometry, uint64_t epoch,
                     const uint64_t boot_id[2])
{
	struct kvh_super *super = memory;

	super->magic = AREA_MAGIC;
	super->version = AREA_VERSION;
	super->stamp = layout_stamp();
	super->geometry = *geometry;
	super->checksum = kvh_hash64(super, offsetof(struct kvh_super, checksum));
	begin_life(super, 1, epoch, boot_id);
	atomic_init(&super->use_counter, 1);
	atomic_init(&super->next_serial, 1);
}

kvh_status kvh_area_check(const void *superblock, uint64_t area_bytes, struct kvh_error *error)
{
	const struct kvh_super *super = superblock;
	struct kvh_geometry again;
	uint64_t capacity_bytes;

	if (super->magic != AREA_MAGIC)
		return kvh_fail(error, KVH_INVALID_PARAMS, "is not a pool of kvhold");
	if (super->version != AREA_VERSION)
		return kvh_fail(error, KVH_NOT_SUPPORTED,
		                "is a pool of format %u, and this kvhold knows format %d",
		                super->version, AREA_VERSION);
	if (super->checksum != kvh_hash64(super, offsetof(struct kvh_super, checksum)))
		return kvh_fail(error, KVH_INVALID_PARAMS, "has a damaged superblock");
	if (super->stamp != layout_stamp())
		return kvh_fail(error, KVH_NOT_SUPPORTED,
		                "was made on another kind of machine or by another build");
	/* All follows from the capacity: any other geometry is not ours. */
	capacity_bytes = (uint64_t)super->geometry.unit_count * KVH_UNIT_BYTES;
	if (kvh_geometry_make(capacity_bytes, super->geometry.sums_offset_bytes != 0, &again) ||
	    memcmp(&again, &super->geometry, sizeof(again)) != 0)
		return kvh_fail(error, KVH_INVALID_PARAMS, "has a damaged superblock");
	if (again.area_bytes != area_bytes)
		return kvh_fail(error, KVH_INVALID_PARAMS,
		                "has %llu bytes where its superblock says %llu: it was cut or "
		                "resized",
		                (unsigned long long)area_bytes,
		                (unsigned long long)again.area_bytes);
	if (!kvh_area_life(super))
		return kvh_fail(error, KVH_INVALID_PARAMS, "has a damaged superblock");
	return KVH_OK;
}

void kvh_area_empty(struct kvh_area *area, uint64_t epoch, const uint64_t boot_id[2])
{
	struct kvh_super *super = area->super;
	unsigned char *base = (unsigned char *)area->fixed;
	uint64_t number = kvh_area_life(super)->number + 1;

	atomic_store(&super->clean_mark, 0);
	atomic_store(&super->prefix_count, 0);
	atomic_store(&super->slots_ever, 0);
	for (uint32_t i = 0; i < KVH_EXACT_CLASSES; i++)
		atomic_store(&super->class_units[i], 0);
	for (uint32_t i = 0; i < KVH_SESSIONS_MAX / 64; i++)
		atomic_store(&super->live_sessions[i], 0);
	KVH_CRASH_POINT(POOL_EMPTIED);
	memset(base + sizeof(area->fixed->super_bytes), 0,
	       area->geometry.payload_offset_bytes - sizeof(area->fixed->super_bytes));
	begin_life(super, number, epoch, boot_id);
}

uint64_t kvh_area_mark(const struct kvh_area *area)
{
	const struct kvh_geometry *g = &area->geometry;
	const struct kvh_area_fixed *fixed = area->fixed;
	uint64_t ever = kvh_slots_ever(area);
	const struct {
		const void *start;
		uint64_t bytes;
	} parts[] = {
		{&area->epoch, sizeof(area->epoch)},
		{&fixed->super.use_counter,
	         offsetof(struct kvh_super, clean_mark) - offsetof(struct kvh_super, use_counter)},
		{fixed->prefixes, sizeof(fixed->prefixes[0]) * kvh_prefixes_count(area)},
		{fixed->ring, sizeof(fixed->ring)},
		{fixed->prefix_states, sizeof(fixed->prefix_states)},
		{fixed->classes, sizeof(fixed->classes)},
		{&fixed->tally, sizeof(fixed->tally)},
		{area->slots, ever * sizeof(area->slots[0])},
		{area->links, ever * sizeof(area->links[0])},
		{area->sums, area->sums ? ever * sizeof(area->sums[0]) : 0},
		{area->buckets, g->bucket_count * sizeof(area->buckets[0])},
		{area->shapes, g->region_count * sizeof(area->shapes[0])},
		{area->regions, g->region_count * sizeof(area->regions[0])},
		{area->bitmap,
	         (uint64_t)g->region_count * g->region_bitmap_words * sizeof(area->bitmap[0])},
	};
	uint64_t hashes[sizeof(parts) / sizeof(parts[0])];

	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		hashes[i] = kvh_hash64(parts[i].start, parts[i].bytes);
	return kvh_hash64(hashes, sizeof(hashes)) | 1;
}

void kvh_area_attach(struct kvh_area *area, void *memory)
{
	unsigned char *base = memory;
	const struct kvh_geometry *g = &area->geometry;

	KVH_CHECK((uintptr_t)memory % KVH_UNIT_BYTES == 0);
	area->fixed = memory;
	area->super = &area->fixed->super;
	area->geometry = area->super->geometry;
	area->epoch = kvh_area_life(area->super)->epoch;
	area->slots = (void *)(base + g->slots_offset_bytes);
	area->links = (void *)(base + g->links_offset_bytes);
	area->buckets = (void *)(base + g->buckets_offset_bytes);
	area->shapes = (void *)(base + g->shapes_offset_bytes);
	area->regions = (void *)(base + g->regions_offset_bytes);
	area->bitmap = (void *)(base + g->bitmap_offset_bytes);
	area->sums = g->sums_offset_bytes ? (void *)(base + g->sums_offset_bytes) : NULL;
	area->payload = base + g->payload_offset_bytes;
}
