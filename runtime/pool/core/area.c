/* SPDX-License-Identifier: Apache-2.0 */
/* Geometry: how large each part of the area is and where it lies. */
#include "pool/core/area.h"

#include <string.h>

#include "base/check.h"
#include "base/hash.h"
#include "base/size.h"

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

void kvh_area_format(void *memory, const struct kvh_geometry *geometry, uint64_t epoch)
{
	struct kvh_super *super = memory;

	super->magic = AREA_MAGIC;
	super->version = AREA_VERSION;
	super->stamp = layout_stamp();
	super->geometry = *geometry;
	super->epoch = epoch;
	super->checksum = kvh_hash64(super, offsetof(struct kvh_super, checksum));
	atomic_init(&super->use_counter, 1);
	atomic_init(&super->next_serial, 1);
}

bool kvh_area_check(const void *memory, uint64_t bytes)
{
	const struct kvh_super *super = memory;
	struct kvh_geometry again;
	bool sums;

	if (bytes < sizeof(struct kvh_area_fixed) || super->magic != AREA_MAGIC ||
	    super->version != AREA_VERSION || super->stamp != layout_stamp() ||
	    super->checksum != kvh_hash64(super, offsetof(struct kvh_super, checksum)))
		return false;
	/* All follows from the capacity: any other geometry is not ours. */
	sums = super->geometry.sums_offset_bytes != 0;
	if (kvh_geometry_make((uint64_t)super->geometry.unit_count * KVH_UNIT_BYTES, sums, &again))
		return false;
	return memcmp(&again, &super->geometry, sizeof(again)) == 0 && again.area_bytes <= bytes;
}

void kvh_area_attach(struct kvh_area *area, void *memory)
{
	unsigned char *base = memory;
	const struct kvh_geometry *g = &area->geometry;

	KVH_CHECK((uintptr_t)memory % KVH_UNIT_BYTES == 0);
	area->fixed = memory;
	area->super = &area->fixed->super;
	area->geometry = area->super->geometry;
	area->slots = (void *)(base + g->slots_offset_bytes);
	area->links = (void *)(base + g->links_offset_bytes);
	area->buckets = (void *)(base + g->buckets_offset_bytes);
	area->shapes = (void *)(base + g->shapes_offset_bytes);
	area->regions = (void *)(base + g->regions_offset_bytes);
	area->bitmap = (void *)(base + g->bitmap_offset_bytes);
	area->sums = g->sums_offset_bytes ? (void *)(base + g->sums_offset_bytes) : NULL;
	area->payload = base + g->payload_offset_bytes;
}
