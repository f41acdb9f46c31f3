/* SPDX-License-Identifier: Apache-2.0 */
/* The registered regions of a handle, sorted by address. Read without a lock. */
#ifndef KVH_STORE_REGIONS_H
#define KVH_STORE_REGIONS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <kvhold/store.h>

struct kvh_region {
	uintptr_t begin;
	uintptr_t end;
	kvh_region_id id;
	enum kvh_memory_kind kind;
	/* Of layouts that lie in it. Own memory, shared by copies; guarded by the store's lock. */
	uint32_t *template_count;
};

/* Its set of regions never changes once it is published: another one takes its place. */
struct kvh_region_table {
	struct kvh_region_table *next_retired;
	size_t count;
	struct kvh_region regions[]; /* by begin, no two overlap */
};

/* The region that holds [addr, addr + bytes), or NULL. bytes > 0. */
const struct kvh_region *kvh_region_find(const struct kvh_region_table *table, uintptr_t addr,
                                         size_t bytes);

/* Whether the region holds [addr, addr + bytes), without overflow. */
static inline bool kvh_region_holds(const struct kvh_region *region, uintptr_t addr, size_t bytes)
{
	return addr >= region->begin && addr < region->end && bytes <= region->end - addr;
}

#endif
