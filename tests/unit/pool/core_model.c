/* SPDX-License-Identifier: Apache-2.0 */
/* The naive model of the core. */
#include "core_model.h"

#include <string.h>

#define NOTHING UINT32_MAX

static uint32_t prefix_of(uint32_t object)
{
	return object / MODEL_HASHES;
}

/* ---- age ------------------------------------------------------------------------------- */

static bool is_expired(const struct model *model, const struct model_object *object)
{
	return object->expires && object->until && object->until <= model->now_unit;
}

/* 0: expired; 1..4 by priority; 5..8 kept. */
static uint64_t level_of(const struct model *model, const struct model_object *object)
{
	bool kept = !object->expires && object->until > model->now_unit;

	if (is_expired(model, object))
		return 0;
	return 1 + object->priority + (kept ? 4 : 0);
}

static bool is_older(const struct model *model, uint32_t a, uint32_t b)
{
	uint64_t level_a = level_of(model, &model->objects[a]);
	uint64_t level_b = level_of(model, &model->objects[b]);

	if (level_a != level_b)
		return level_a < level_b;
	return model->objects[a].use < model->objects[b].use;
}

/* ---- what leaves together -------------------------------------------------------------- */

static size_t unit_of(const struct model *model, uint32_t object, uint32_t members[MODEL_PREFIXES])
{
	const struct model_object *self = &model->objects[object];
	size_t count = 0;

	members[count++] = object;
	if (!self->grouped || !model->family[prefix_of(object)] || is_expired(model, self))
		return count;
	for (uint32_t p = 0; p < MODEL_PREFIXES; p++) {
		uint32_t other = p * MODEL_HASHES + object % MODEL_HASHES;

		if (other != object && model->family[p] && model->objects[other].grouped &&
		    model->objects[other].state == MODEL_VALID)
			members[count++] = other;
	}
	return count;
}

static bool is_newest(const struct model *model, uint32_t object)
{
	uint32_t members[MODEL_PREFIXES];
	size_t count = unit_of(model, object, members);

	for (size_t i = 1; i < count; i++)
		if (is_older(model, object, members[i]))
			return false;
	return true;
}

static void free_space(struct model *model, uint32_t object)
{
	struct model_object *self = &model->objects[object];
	struct model_region span =
		model->regions[model->regions[self->at_unit / REGION_UNITS].first];

	self->state = MODEL_ABSENT;
	for (uint32_t i = 0; i < MODEL_OBJECTS; i++) {
		const struct model_object *other = &model->objects[i];

		if (other->state != MODEL_ABSENT &&
		    model->regions[other->at_unit / REGION_UNITS].first == span.first)
			return;
	}
	for (uint32_t i = 0; i < span.count; i++)
		model->regions[span.first + i] = (struct model_region){0};
}

static void leave(struct model *model, uint32_t object)
{
	model->left[model->left_count++ % MODEL_LEFT_MAX] = object;
	free_space(model, object);
}

static void evict_unit(struct model *model, uint32_t object)
{
	uint32_t members[MODEL_PREFIXES];
	size_t count = unit_of(model, object, members);

	for (size_t i = 0; i < count; i++)
		leave(model, members[i]);
}

/* ---- space ----------------------------------------------------------------------------- */

/* Eighths of the power of two below. */
static uint32_t rounded_units(uint32_t units)
{
	uint32_t power = 8;

	while (power * 2 <= units)
		power *= 2;
	return (units + power / 8 - 1) / (power / 8) * (power / 8);
}

static uint32_t class_units(struct model *model, uint32_t units)
{
	for (unsigned i = 0; i < MODEL_CLASSES; i++) {
		if (model->classes[i] == 0)
			model->classes[i] = units;
		if (model->classes[i] == units)
			return units;
	}
	return rounded_units(units) <= model->unit_count ? rounded_units(units) : units;
}

static uint32_t units_between(const struct model *model, uint32_t first, uint32_t count)
{
	uint32_t end = (first + count) * REGION_UNITS;

	return (end < model->unit_count ? end : model->unit_count) - first * REGION_UNITS;
}

/* Lowest free place of the span; NOTHING: it is full or of another size. */
static uint32_t place_in(const struct model *model, uint32_t region, uint32_t extent_units)
{
	const struct model_region *span = &model->regions[region];
	uint32_t end;

	if (span->count == 0 || span->first != region || span->extent_units != extent_units)
		return NOTHING;
	end = region * REGION_UNITS + units_between(model, region, span->count);
	for (uint32_t at = region * REGION_UNITS; at + extent_units <= end; at += extent_units) {
		bool taken = false;

		for (uint32_t i = 0; i < MODEL_OBJECTS && !taken; i++)
			taken = model->objects[i].state != MODEL_ABSENT &&
			        model->objects[i].at_unit == at;
		if (!taken)
			return at;
	}
	return NOTHING;
}

static bool run_is_free(const struct model *model, uint32_t first, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		if (model->regions[first + i].count)
			return false;
	return true;
}

static bool make_span(struct model *model, uint32_t extent_units, uint32_t count)
{
	for (uint32_t first = 0; first + count <= model->region_count; first++) {
		if (!run_is_free(model, first, count) ||
		    units_between(model, first, count) < extent_units)
			continue;
		for (uint32_t i = 0; i < count; i++)
			model->regions[first + i] = (struct model_region){
				.first = first, .count = count, .extent_units = extent_units};
		return true;
	}
	return false;
}

static bool make_any_span(struct model *model, uint32_t extent_units, bool tight)
{
	uint32_t least = (extent_units + REGION_UNITS - 1) / REGION_UNITS;
	uint32_t most = least > 16 ? least : 16;
	bool fits_well = false;

	for (uint32_t n = least; n <= most; n++) {
		uint32_t units = n * REGION_UNITS;

		if (units % extent_units * 16 > units)
			continue;
		fits_well = true;
		if (make_span(model, extent_units, n))
			return true;
	}
	for (uint32_t n = least; n <= most && (tight || !fits_well); n++)
		if (make_span(model, extent_units, n))
			return true;
	return false;
}

/* There are as many slots as units in areas this small. */
static bool slots_are_used(const struct model *model)
{
	return model_count(model, MODEL_VALID) + model_count(model, MODEL_RESERVED) ==
	       model->unit_count;
}

static uint32_t place_anywhere(struct model *model, uint32_t extent_units, bool tight)
{
	if (slots_are_used(model))
		return NOTHING;
	for (unsigned tries = 0; tries < 2; tries++) {
		for (uint32_t i = 0; i < model->region_count; i++) {
			uint32_t at = place_in(model, i, extent_units);

			if (at != NOTHING)
				return at;
		}
		if (tries || !make_any_span(model, extent_units, tight))
			break;
	}
	return NOTHING;
}

/* ---- room ------------------------------------------------------------------------------ */

/* The span's objects, the newest first: the next one after `after` (NOTHING: the first). */
static uint32_t next_in_span(const struct model *model, uint32_t region, uint32_t after)
{
	uint32_t best = NOTHING;

	for (uint32_t i = 0; i < MODEL_OBJECTS; i++) {
		const struct model_object *object = &model->objects[i];

		if (object->state == MODEL_ABSENT ||
		    model->regions[object->at_unit / REGION_UNITS].first != region ||
		    (after != NOTHING && object->born >= model->objects[after].born))
			continue;
		if (best == NOTHING || object->born > model->objects[best].born)
			best = i;
	}
	return best;
}

/* Whether nothing in the span has to stay at this level. */
static bool may_drain(const struct model *model, uint32_t region, uint64_t level)
{
	for (uint32_t i = next_in_span(model, region, NOTHING); i != NOTHING;
	     i = next_in_span(model, region, i))
		if (model->objects[i].state != MODEL_VALID ||
		    level_of(model, &model->objects[i]) > level)
			return false;
	return true;
}

/* False: an object's group holds it. */
static bool drain(struct model *model, uint32_t region, uint64_t level)
{
	for (;;) {
		uint32_t object = next_in_span(model, region, NOTHING);
		uint32_t members[MODEL_PREFIXES];
		size_t count;

		if (object == NOTHING)
			return true;
		count = unit_of(model, object, members);
		for (size_t i = 0; i < count; i++)
			if (level_of(model, &model->objects[members[i]]) > level)
				return false;
		evict_unit(model, object);
	}
}

static uint32_t oldest_after(const struct model *model, uint32_t after)
{
	uint32_t best = NOTHING;

	for (uint32_t i = 0; i < MODEL_OBJECTS; i++) {
		if (model->objects[i].state != MODEL_VALID ||
		    (after != NOTHING && !is_older(model, after, i)))
			continue;
		if (best == NOTHING || is_older(model, i, best))
			best = i;
	}
	return best;
}

/* Evicts the oldest that helps. False: nothing can go in order. */
static bool evict_oldest(struct model *model, uint32_t extent_units)
{
	for (uint32_t i = oldest_after(model, NOTHING); i != NOTHING; i = oldest_after(model, i)) {
		const struct model_object *victim = &model->objects[i];
		uint64_t level = level_of(model, victim);
		uint32_t region = model->regions[victim->at_unit / REGION_UNITS].first;

		if (!is_newest(model, i))
			continue;
		if (slots_are_used(model) || model->regions[region].extent_units == extent_units) {
			evict_unit(model, i);
			return true;
		}
		if (model->blocked[region] > level)
			continue;
		if (may_drain(model, region, level)) {
			bool drained = drain(model, region, level);

			model->blocked[region] = drained ? 0 : level + 1;
			return true;
		}
		model->blocked[region] = level + 1;
	}
	return false;
}

static uint32_t next_by_slot(const struct model *model, uint32_t slot_min)
{
	uint32_t best = NOTHING;

	for (uint32_t i = 0; i < MODEL_OBJECTS; i++)
		if (model->objects[i].state == MODEL_VALID && model->objects[i].slot >= slot_min &&
		    (best == NOTHING || model->objects[i].slot < model->objects[best].slot))
			best = i;
	return best;
}

static uint32_t sweep(struct model *model, uint32_t extent_units)
{
	uint32_t slot_min = 0;

	for (;;) {
		uint32_t at = place_anywhere(model, extent_units, true);
		uint32_t next;

		if (at != NOTHING)
			return at;
		next = next_by_slot(model, slot_min);
		if (next == NOTHING)
			return NOTHING;
		slot_min = model->objects[next].slot + 1;
		evict_unit(model, next);
	}
}

static uint32_t find_room(struct model *model, uint32_t extent_units)
{
	for (;;) {
		uint32_t at = place_anywhere(model, extent_units, false);

		if (at != NOTHING)
			return at;
		if (model->full_units && extent_units >= model->full_units)
			return NOTHING;
		if (!evict_oldest(model, extent_units))
			return sweep(model, extent_units);
	}
}

/* ---- the calls ------------------------------------------------------------------------- */

static uint64_t prefix_units(const struct model *model, uint32_t prefix)
{
	uint64_t units = 0;

	for (uint32_t i = 0; i < MODEL_HASHES; i++) {
		const struct model_object *object = &model->objects[prefix * MODEL_HASHES + i];

		if (object->state != MODEL_ABSENT)
			units += object->extent_units;
	}
	return units;
}

void model_reserve_begin(struct model *model)
{
	memset(model->blocked, 0, sizeof(model->blocked));
	model->full_units = 0;
}

static kvh_status present_status(struct model *model, uint32_t object)
{
	struct model_object *self = &model->objects[object];

	if (self->state == MODEL_RESERVED)
		return KVH_BUSY;
	if (self->state == MODEL_ABSENT)
		return KVH_OK;
	if (is_expired(model, self)) {
		leave(model, object);
		return KVH_OK;
	}
	model_touch(model, object);
	return KVH_OBJECT_ALREADY_EXISTS;
}

kvh_status model_reserve(struct model *model, const struct model_put *put)
{
	struct model_object *self = &model->objects[put->object];
	uint64_t quota = model->quota_units[prefix_of(put->object)];
	kvh_status status = present_status(model, put->object);
	uint32_t extent_units, at;

	if (status)
		return status;
	if (put->units > model->unit_count)
		return KVH_INVALID_PARAMS;
	extent_units = class_units(model, put->units);
	if (quota && extent_units > quota)
		return KVH_INVALID_PARAMS;
	if (quota && prefix_units(model, prefix_of(put->object)) + extent_units > quota)
		return KVH_NO_AVAILABLE_HANDLE;
	at = find_room(model, extent_units);
	if (at == NOTHING) {
		if (!model->full_units || extent_units < model->full_units)
			model->full_units = extent_units;
		return KVH_NO_AVAILABLE_HANDLE;
	}
	*self = (struct model_object){.state = MODEL_RESERVED,
	                              .priority = put->priority,
	                              .expires = put->expires,
	                              .grouped = put->grouped,
	                              .until = put->until,
	                              .born = ++model->counter,
	                              .units = put->units,
	                              .extent_units = extent_units,
	                              .at_unit = at};
	return KVH_OK;
}

kvh_status model_commit(struct model *model, uint32_t object)
{
	if (model->objects[object].state != MODEL_RESERVED)
		return KVH_OBJECT_NOT_FOUND;
	model->objects[object].state = MODEL_VALID;
	model_touch(model, object);
	return KVH_OK;
}

kvh_status model_abort(struct model *model, uint32_t object)
{
	if (model->objects[object].state != MODEL_RESERVED)
		return KVH_OBJECT_NOT_FOUND;
	free_space(model, object);
	return KVH_OK;
}

kvh_status model_remove(struct model *model, uint32_t object)
{
	if (model->objects[object].state == MODEL_RESERVED)
		return KVH_REPLICA_IS_NOT_READY;
	if (!model_exists(model, object))
		return KVH_OBJECT_NOT_FOUND;
	leave(model, object);
	return KVH_OK;
}

bool model_exists(const struct model *model, uint32_t object)
{
	return model->objects[object].state == MODEL_VALID &&
	       !is_expired(model, &model->objects[object]);
}

void model_touch(struct model *model, uint32_t object)
{
	model->objects[object].use = ++model->counter;
}

void model_clear(struct model *model)
{
	for (uint32_t i = next_by_slot(model, 0); i != NOTHING; i = next_by_slot(model, 0))
		leave(model, i);
}

void model_rebuild(struct model *model)
{
	/* Slots are linked from the last to the first: the lowest counts as the newest. */
	for (uint32_t i = 0; i < MODEL_OBJECTS; i++)
		if (model->objects[i].state != MODEL_ABSENT)
			model->objects[i].born = model->counter + MODEL_REGIONS * REGION_UNITS -
			                         model->objects[i].slot;
	model->counter += MODEL_REGIONS * REGION_UNITS;
}

uint64_t model_used_units(const struct model *model)
{
	uint64_t units = 0;

	for (uint32_t i = 0; i < MODEL_PREFIXES; i++)
		units += prefix_units(model, i);
	return units;
}

uint64_t model_count(const struct model *model, enum model_state state)
{
	uint64_t count = 0;

	for (uint32_t i = 0; i < MODEL_OBJECTS; i++)
		count += model->objects[i].state == state;
	return count;
}
