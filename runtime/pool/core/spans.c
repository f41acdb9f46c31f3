/* SPDX-License-Identifier: Apache-2.0 */
/* Spans and extents: size classes, bitmaps, the slots of a span. */
#include "pool/core/spans.h"

#include "base/check.h"
#include "base/fault.h"
#include "base/size.h"

enum { SPAN_REGIONS_PREFERRED = 16, TAIL_SHARE = 16 };

#define LOAD(word)         atomic_load_explicit(&(word), memory_order_relaxed)
#define STORE(word, value) atomic_store_explicit(&(word), (value), memory_order_relaxed)

/* ---- classes --------------------------------------------------------------------------- */

uint32_t kvh_units_of(const struct kvh_area *area, uint64_t bytes)
{
	uint64_t units = kvh_div_up(bytes, KVH_UNIT_BYTES);

	return units <= area->geometry.unit_count ? (uint32_t)units : UINT32_MAX;
}

/* Rounds up to eighths of a power of two; *index counts the steps. */
static uint32_t round_to_eighth(uint32_t units, uint32_t *index)
{
	uint32_t power = units < 8 ? 3 : 31 - (uint32_t)__builtin_clz(units);
	uint32_t step = UINT32_C(1) << (power - 3);
	uint32_t steps = (units + step - 1) / step;

	*index = (power - 3) * 8 + steps;
	return steps * step;
}

static bool find_exact(const struct kvh_area *area, uint32_t units, struct kvh_size_class *size)
{
	for (uint32_t i = 0; i < KVH_EXACT_CLASSES; i++) {
		if (LOAD(area->super->class_units[i]) != units)
			continue;
		*size = (struct kvh_size_class){.index = i, .extent_units = units};
		return true;
	}
	return false;
}

static bool add_exact(struct kvh_area *area, uint32_t units, struct kvh_size_class *size)
{
	for (uint32_t i = 0; i < KVH_EXACT_CLASSES; i++) {
		if (LOAD(area->super->class_units[i]))
			continue;
		STORE(area->super->class_units[i], units);
		*size = (struct kvh_size_class){.index = i, .extent_units = units};
		return true;
	}
	return false;
}

bool kvh_class_of(struct kvh_area *area, uint32_t units, struct kvh_size_class *size)
{
	uint32_t index, rounded;

	if (units > area->geometry.unit_count)
		return false;
	if (find_exact(area, units, size) || add_exact(area, units, size))
		return true;
	rounded = round_to_eighth(units, &index);
	/* What rounding would push past the end of the area stays as it is. */
	if (rounded > area->geometry.unit_count)
		rounded = units;
	else if (find_exact(area, rounded, size))
		return true;
	*size = (struct kvh_size_class){.index = KVH_EXACT_CLASSES + index,
	                                .extent_units = rounded};
	return true;
}

/* The class state of a span that exists. */
static struct kvh_class_state *class_of_span(struct kvh_area *area, uint32_t extent_units)
{
	struct kvh_size_class size;
	uint32_t index;

	if (find_exact(area, extent_units, &size))
		return &area->fixed->classes[size.index];
	round_to_eighth(extent_units, &index);
	return &area->fixed->classes[KVH_EXACT_CLASSES + index];
}

/* ---- geometry of a span ---------------------------------------------------------------- */

static uint32_t span_units(const struct kvh_area *area, uint32_t region, uint32_t regions)
{
	const struct kvh_geometry *g = &area->geometry;
	uint64_t begin = (uint64_t)region * g->region_units;
	uint64_t end = begin + (uint64_t)regions * g->region_units;

	return (uint32_t)((end < g->unit_count ? end : g->unit_count) - begin);
}

static uint32_t span_extents(const struct kvh_area *area, uint32_t region)
{
	uint64_t shape = LOAD(area->shapes[region]);

	return span_units(area, region, kvh_shape_regions(shape)) / kvh_shape_extent_units(shape);
}

uint32_t kvh_span_of(const struct kvh_area *area, uint32_t unit)
{
	uint32_t region = unit / area->geometry.region_units;

	return region - kvh_shape_index(LOAD(area->shapes[region]));
}

uint32_t kvh_span_extent_units(const struct kvh_area *area, uint32_t region)
{
	uint64_t shape = LOAD(area->shapes[region]);

	return kvh_shape_index(shape) == 0 ? kvh_shape_extent_units(shape) : 0;
}

uint32_t kvh_span_first_slot(const struct kvh_area *area, uint32_t region)
{
	return LOAD(area->regions[region].first_slot);
}

uint32_t kvh_span_next_slot(const struct kvh_area *area, uint32_t slot)
{
	return LOAD(area->links[slot].next);
}

/* ---- slots of a span ------------------------------------------------------------------- */

static void link_slot(struct kvh_area *area, uint32_t region, uint32_t slot)
{
	struct kvh_region_state *state = &area->regions[region];
	uint32_t next = LOAD(state->first_slot);

	STORE(area->links[slot].prev, KVH_NONE);
	STORE(area->links[slot].next, next);
	if (next != KVH_NONE)
		STORE(area->links[next].prev, slot);
	STORE(state->first_slot, slot);
}

static void unlink_slot(struct kvh_area *area, uint32_t region, uint32_t slot)
{
	uint32_t prev = LOAD(area->links[slot].prev);
	uint32_t next = LOAD(area->links[slot].next);

	if (prev == KVH_NONE)
		STORE(area->regions[region].first_slot, next);
	else
		STORE(area->links[prev].next, next);
	if (next != KVH_NONE)
		STORE(area->links[next].prev, prev);
}

/* ---- making and dropping spans --------------------------------------------------------- */

static void empty_span(struct kvh_area *area, uint32_t region, uint32_t regions)
{
	const struct kvh_geometry *g = &area->geometry;
	_Atomic uint64_t *words = &area->bitmap[(uint64_t)region * g->region_bitmap_words];

	for (uint64_t i = 0; i < (uint64_t)regions * g->region_bitmap_words; i++)
		STORE(words[i], 0);
	STORE(area->regions[region].used_extents, 0);
	STORE(area->regions[region].first_slot, KVH_NONE);
	STORE(area->regions[region].hint_word, 0);
}

/* Lowest run of free regions that holds an extent at least; KVH_NONE: there is none. */
static uint32_t find_run(struct kvh_area *area, uint32_t regions, uint32_t extent_units)
{
	uint32_t run = 0, longest = 0;

	if (regions > LOAD(area->fixed->tally.run_max))
		return KVH_NONE;
	for (uint32_t i = 0; i < area->geometry.region_count; i++) {
		run = LOAD(area->shapes[i]) ? 0 : run + 1;
		if (run >= regions && span_units(area, i + 1 - regions, regions) >= extent_units)
			return i + 1 - regions;
		longest = run > longest ? run : longest;
	}
	STORE(area->fixed->tally.run_max, longest);
	return KVH_NONE;
}

static bool wastes_little(const struct kvh_area *area, uint32_t regions, uint32_t extent_units)
{
	uint64_t units = (uint64_t)regions * area->geometry.region_units;

	return units >= extent_units && units % extent_units * TAIL_SHARE <= units;
}

/* The span has an extent more to give. */
static void span_opens(struct kvh_class_state *class, uint32_t region, bool was_full)
{
	if (was_full)
		kvh_count32(&class->open_spans, 1);
	if (LOAD(class->open_spans) == 1 || region < LOAD(class->hint_region))
		STORE(class->hint_region, region);
}

static uint32_t make_span(struct kvh_area *area, const struct kvh_size_class *size,
                          uint32_t regions)
{
	struct kvh_class_state *class = &area->fixed->classes[size->index];
	uint32_t region = find_run(area, regions, size->extent_units);

	if (region == KVH_NONE)
		return KVH_NONE;
	empty_span(area, region, regions);
	for (uint32_t i = 0; i < regions; i++) {
		STORE(area->shapes[region + i], kvh_shape_make(size->extent_units, regions, i));
		KVH_CRASH_POINT(POOL_SPAN_SHAPE);
	}
	span_opens(class, region, true);
	return region;
}

/* Regions that one extent takes. */
static uint32_t regions_min(const struct kvh_area *area, uint32_t extent_units)
{
	return (uint32_t)kvh_div_up(extent_units, area->geometry.region_units);
}

static uint32_t make_any_span(struct kvh_area *area, const struct kvh_size_class *size, bool tight)
{
	uint32_t least = regions_min(area, size->extent_units);
	uint32_t most = least > SPAN_REGIONS_PREFERRED ? least : SPAN_REGIONS_PREFERRED;
	bool fits_well = false;
	uint32_t region = KVH_NONE;

	for (uint32_t n = least; n <= most && region == KVH_NONE; n++) {
		if (!wastes_little(area, n, size->extent_units))
			continue;
		fits_well = true;
		region = make_span(area, size, n);
	}
	/* Some sizes never fit well. */
	if (tight || !fits_well)
		for (uint32_t n = least; n <= most && region == KVH_NONE; n++)
			region = make_span(area, size, n);
	return region;
}

static void drop_span(struct kvh_area *area, uint32_t region)
{
	uint32_t regions = kvh_shape_regions(LOAD(area->shapes[region]));

	for (uint32_t i = 0; i < regions; i++) {
		STORE(area->shapes[region + i], 0);
		KVH_CRASH_POINT(POOL_SPAN_DROP);
	}
	STORE(area->fixed->tally.run_max, area->geometry.region_count);
}

/* ---- extents --------------------------------------------------------------------------- */

static uint32_t open_span(struct kvh_area *area, const struct kvh_size_class *size)
{
	struct kvh_class_state *class = &area->fixed->classes[size->index];

	if (!LOAD(class->open_spans))
		return KVH_NONE;
	for (uint32_t i = LOAD(class->hint_region); i < area->geometry.region_count; i++) {
		if (kvh_span_extent_units(area, i) != size->extent_units ||
		    LOAD(area->regions[i].used_extents) == span_extents(area, i))
			continue;
		STORE(class->hint_region, i);
		return i;
	}
	KVH_CHECK(!"a class counts its open spans");
	return KVH_NONE;
}

static uint32_t take_bit(struct kvh_area *area, uint32_t region)
{
	_Atomic uint64_t *words =
		&area->bitmap[(uint64_t)region * area->geometry.region_bitmap_words];
	uint32_t at = LOAD(area->regions[region].hint_word);
	uint32_t bit;

	while (LOAD(words[at]) == UINT64_MAX)
		at++;
	bit = (uint32_t)__builtin_ctzll(~LOAD(words[at]));
	STORE(words[at], LOAD(words[at]) | UINT64_C(1) << bit);
	STORE(area->regions[region].hint_word, at);
	return at * 64 + bit;
}

uint32_t kvh_extent_take(struct kvh_area *area, const struct kvh_size_class *size, bool tight,
                         uint32_t slot)
{
	uint32_t region = open_span(area, size);
	struct kvh_region_state *state;
	uint32_t extent;

	if (region == KVH_NONE)
		region = make_any_span(area, size, tight);
	if (region == KVH_NONE)
		return KVH_NONE;
	state = &area->regions[region];
	extent = take_bit(area, region);
	STORE(state->used_extents, LOAD(state->used_extents) + 1);
	if (LOAD(state->used_extents) == span_extents(area, region))
		kvh_count32(&area->fixed->classes[size->index].open_spans, -UINT32_C(1));
	KVH_CRASH_POINT(POOL_EXTENT_BIT);
	link_slot(area, region, slot);
	kvh_count64(&area->fixed->tally.used_units, size->extent_units);
	return region * area->geometry.region_units + extent * size->extent_units;
}

uint32_t kvh_extent_give(struct kvh_area *area, uint32_t unit, uint32_t slot)
{
	uint32_t region = kvh_span_of(area, unit);
	uint32_t extent_units = kvh_span_extent_units(area, region);
	struct kvh_region_state *state = &area->regions[region];
	struct kvh_class_state *class = class_of_span(area, extent_units);
	_Atomic uint64_t *word;
	uint32_t extent;
	bool was_full;

	/* A slot takes or claims its extent, in a span that is there. */
	KVH_CHECK(extent_units);
	extent = (unit - region * area->geometry.region_units) / extent_units;
	word = &area->bitmap[(uint64_t)region * area->geometry.region_bitmap_words + extent / 64];
	was_full = LOAD(state->used_extents) == span_extents(area, region);
	unlink_slot(area, region, slot);
	STORE(*word, LOAD(*word) & ~(UINT64_C(1) << extent % 64));
	if (extent / 64 < LOAD(state->hint_word))
		STORE(state->hint_word, extent / 64);
	STORE(state->used_extents, LOAD(state->used_extents) - 1);
	kvh_count64(&area->fixed->tally.used_units, -(uint64_t)extent_units);
	if (LOAD(state->used_extents)) {
		span_opens(class, region, was_full);
		return extent_units;
	}
	if (!was_full)
		kvh_count32(&class->open_spans, -UINT32_C(1));
	drop_span(area, region);
	return extent_units;
}

/* ---- rebuild --------------------------------------------------------------------------- */

/* Whether kvh_class_of could have given this size. */
static bool is_class_size(const struct kvh_area *area, uint32_t extent_units)
{
	struct kvh_size_class size;
	uint32_t index, rounded;

	if (extent_units == 0 || extent_units > area->geometry.unit_count)
		return false;
	rounded = round_to_eighth(extent_units, &index);
	return rounded == extent_units || rounded > area->geometry.unit_count ||
	       find_exact(area, extent_units, &size);
}

/* Whether a whole span begins here. */
static bool span_is_whole(const struct kvh_area *area, uint32_t region)
{
	uint64_t shape = LOAD(area->shapes[region]);
	uint32_t regions = kvh_shape_regions(shape);
	uint32_t units = kvh_shape_extent_units(shape);

	if (kvh_shape_index(shape) != 0 || regions == 0 || !is_class_size(area, units) ||
	    regions > area->geometry.region_count - region ||
	    units > span_units(area, region, regions))
		return false;
	for (uint32_t i = 1; i < regions; i++)
		if (LOAD(area->shapes[region + i]) != kvh_shape_make(units, regions, i))
			return false;
	return true;
}

void kvh_spans_reset(struct kvh_area *area)
{
	uint32_t region = 0;

	while (region < area->geometry.region_count) {
		if (LOAD(area->shapes[region]) && span_is_whole(area, region)) {
			uint32_t regions = kvh_shape_regions(LOAD(area->shapes[region]));

			empty_span(area, region, regions);
			region += regions;
		} else {
			STORE(area->shapes[region], 0);
			region++;
		}
	}
	for (uint32_t i = 0; i < KVH_CLASSES; i++) {
		STORE(area->fixed->classes[i].open_spans, 0);
		STORE(area->fixed->classes[i].hint_region, area->geometry.region_count);
	}
	STORE(area->fixed->tally.used_units, 0);
	STORE(area->fixed->tally.run_max, area->geometry.region_count);
}

bool kvh_extent_claim(struct kvh_area *area, uint32_t unit, uint32_t units_min, uint32_t slot)
{
	uint32_t region, inner, extent, extent_units;
	_Atomic uint64_t *word;

	if (unit >= area->geometry.unit_count)
		return false;
	region = kvh_span_of(area, unit);
	extent_units = LOAD(area->shapes[region]) ? kvh_span_extent_units(area, region) : 0;
	if (extent_units == 0 || extent_units < units_min)
		return false;
	inner = unit - region * area->geometry.region_units;
	extent = inner / extent_units;
	word = &area->bitmap[(uint64_t)region * area->geometry.region_bitmap_words + extent / 64];
	if (inner % extent_units || extent >= span_extents(area, region) ||
	    (LOAD(*word) >> extent % 64 & 1))
		return false;
	STORE(*word, LOAD(*word) | UINT64_C(1) << extent % 64);
	STORE(area->regions[region].used_extents, LOAD(area->regions[region].used_extents) + 1);
	link_slot(area, region, slot);
	kvh_count64(&area->fixed->tally.used_units, extent_units);
	return true;
}

void kvh_spans_settle(struct kvh_area *area)
{
	struct kvh_size_class size;

	for (uint32_t i = 0; i < area->geometry.region_count; i++) {
		uint32_t used, extent_units = kvh_span_extent_units(area, i);

		if (!extent_units)
			continue;
		used = LOAD(area->regions[i].used_extents);
		/* A size that the damaged list of exact ones forgot: it must not change its class.
		 */
		if (used && !find_exact(area, extent_units, &size))
			add_exact(area, extent_units, &size);
		if (used == 0)
			drop_span(area, i);
		else if (used < span_extents(area, i))
			span_opens(class_of_span(area, extent_units), i, true);
	}
}
