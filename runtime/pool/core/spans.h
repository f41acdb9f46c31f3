/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Space: the payload is cut into regions; a span of regions next to each other serves extents of
 * one size. Empty spans return their regions, so any size can use them again.
 */
#ifndef KVH_POOL_CORE_SPANS_H
#define KVH_POOL_CORE_SPANS_H

#include "base/lock.h"
#include "pool/core/area.h"

/*
 * A region's shape, truth: units of the span's extents 32 | regions of the span 16 | this region's
 * place in it 16. 0: free. Written before a slot names an extent of it, taken back after the last.
 */
static inline uint64_t kvh_shape_make(uint32_t extent_units, uint32_t regions, uint32_t index)
{
	return (uint64_t)extent_units << 32 | (uint64_t)regions << 16 | index;
}

static inline uint32_t kvh_shape_extent_units(uint64_t shape)
{
	return (uint32_t)(shape >> 32);
}

static inline uint32_t kvh_shape_regions(uint64_t shape)
{
	return (uint32_t)(shape >> 16) & 0xffff;
}

static inline uint32_t kvh_shape_index(uint64_t shape)
{
	return (uint32_t)shape & 0xffff;
}

/* What one size of object asks for. */
struct kvh_size_class {
	uint32_t index; /* of its class state */
	uint32_t extent_units;
};

/* Units that bytes take; UINT32_MAX if they fit nowhere. */
uint32_t kvh_units_of(const struct kvh_area *area, uint64_t bytes);

/*
 * The class of an object of this many units: exact while exact classes are free, else rounded up.
 * Lock held. False: it could never fit.
 */
bool kvh_class_of(struct kvh_area *area, uint32_t units, struct kvh_size_class *size)
	KVH_REQUIRES(kvh_role_pool);

/*
 * An extent of the class, in an open span or a new one; KVH_NONE: there is no room. tight: also a
 * span that wastes more of its tail than 1/16. Lock held; the extent is then the slot's.
 */
uint32_t kvh_extent_take(struct kvh_area *area, const struct kvh_size_class *size, bool tight,
                         uint32_t slot) KVH_REQUIRES(kvh_role_pool);
/* Returns the extent's units. */
uint32_t kvh_extent_give(struct kvh_area *area, uint32_t unit, uint32_t slot)
	KVH_REQUIRES(kvh_role_pool);

/* First region of the span that an extent lies in. */
uint32_t kvh_span_of(const struct kvh_area *area, uint32_t unit);
/* Units of the span's extents; 0: no span begins in this region. */
uint32_t kvh_span_extent_units(const struct kvh_area *area, uint32_t region);
/* Newest slot of the span, and the next older one. KVH_NONE: no more. */
uint32_t kvh_span_first_slot(const struct kvh_area *area, uint32_t region);
uint32_t kvh_span_next_slot(const struct kvh_area *area, uint32_t slot);

/* ---- rebuild --------------------------------------------------------------------------- */

/* Takes back shapes that don't fit each other (S-15) and marks all spans empty. */
void kvh_spans_reset(struct kvh_area *area) KVH_REQUIRES(kvh_role_pool);
/* Marks an extent that a slot names as its own. False: it is no extent, or another one's. */
bool kvh_extent_claim(struct kvh_area *area, uint32_t unit, uint32_t units_min, uint32_t slot)
	KVH_REQUIRES(kvh_role_pool);
/* After all claims: empty spans return, class states follow. */
void kvh_spans_settle(struct kvh_area *area) KVH_REQUIRES(kvh_role_pool);

#endif
