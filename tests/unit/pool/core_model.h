/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the core should do, said without any of its data structures: an array of objects, sorted
 * when somebody asks who is oldest, and an array of regions. Slow and plain.
 */
#ifndef KVH_TESTS_UNIT_POOL_CORE_MODEL_H
#define KVH_TESTS_UNIT_POOL_CORE_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <kvhold/status.h>

enum {
	MODEL_PREFIXES = 4,
	MODEL_HASHES = 40,
	MODEL_OBJECTS = MODEL_PREFIXES * MODEL_HASHES,
	MODEL_REGIONS = 64,
	MODEL_CLASSES = 16,
	MODEL_LEFT_MAX = 1024,
	REGION_UNITS = 16
};

enum model_state { MODEL_ABSENT, MODEL_RESERVED, MODEL_VALID };

/* Object prefix * MODEL_HASHES + hash; there is one per key. */
struct model_object {
	enum model_state state;
	uint32_t priority;
	bool expires;
	bool grouped;
	uint64_t until; /* time unit; 0: none */
	uint64_t use;
	uint64_t born; /* order of reservations */
	uint32_t slot; /* as the core named it */
	uint32_t units;
	uint32_t extent_units;
	uint32_t at_unit;
};

struct model_region {
	uint32_t first; /* of its span */
	uint32_t count; /* regions of the span; 0: free */
	uint32_t extent_units;
};

struct model {
	uint32_t unit_count;
	uint32_t region_count;
	uint64_t now_unit;
	uint64_t counter;
	bool family[MODEL_PREFIXES];
	uint64_t quota_units[MODEL_PREFIXES]; /* 0: none */
	struct model_object objects[MODEL_OBJECTS];
	struct model_region regions[MODEL_REGIONS];
	uint32_t classes[MODEL_CLASSES];
	/* Of one reserve call. */
	uint64_t blocked[MODEL_REGIONS]; /* level + 1 up to which a span has to stay; 0: none */
	uint32_t full_units;
	/* Keys that left, oldest first; taken by the test. */
	uint32_t left[MODEL_LEFT_MAX];
	size_t left_count;
};

struct model_put {
	uint32_t object;
	uint32_t units;
	uint32_t priority;
	bool expires;
	bool grouped;
	uint64_t until;
};

/* Begins a reserve call of one or more keys. */
void model_reserve_begin(struct model *model);
/* KVH_OK: object's at_unit is set, the caller sets its slot. */
kvh_status model_reserve(struct model *model, const struct model_put *put);
kvh_status model_commit(struct model *model, uint32_t object);
kvh_status model_abort(struct model *model, uint32_t object);
kvh_status model_remove(struct model *model, uint32_t object);
bool model_exists(const struct model *model, uint32_t object);
void model_touch(struct model *model, uint32_t object);
void model_clear(struct model *model);
/* The order of a span's objects is derived: a rebuild makes one of its own. */
void model_rebuild(struct model *model);
uint64_t model_used_units(const struct model *model);
uint64_t model_count(const struct model *model, enum model_state state);

#endif
