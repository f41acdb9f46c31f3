/* SPDX-License-Identifier: Apache-2.0 */
/* Prefixes: append-only records that name the long part of keys, their families and quotas. */
#ifndef KVH_POOL_CORE_PREFIXES_H
#define KVH_POOL_CORE_PREFIXES_H

#include "base/lock.h"
#include "pool/core/area.h"

/* Records that are whole. Bounded: the word may come from a file (S-15). */
static inline uint32_t kvh_prefixes_count(const struct kvh_area *area)
{
	uint32_t count = atomic_load_explicit(&area->super->prefix_count, memory_order_acquire);

	return count < KVH_PREFIXES_MAX ? count : KVH_PREFIXES_MAX;
}

/*
 * The prefix with this text and identity from id `from` on; KVH_NONE: it is not known. Any thread:
 * records below the count never change.
 */
uint32_t kvh_prefix_record_find(const struct kvh_area *area, const struct kvh_prefix *prefix,
                                uint32_t from);
/* Whether a known prefix says the same of its hashes and family. */
bool kvh_prefix_agrees(const struct kvh_area *area, uint32_t id, const struct kvh_prefix *prefix);
/* Lock held. KVH_NONE: the table is full. */
uint32_t kvh_prefix_record_append(struct kvh_area *area, const struct kvh_prefix *prefix)
	KVH_REQUIRES(kvh_role_pool);

/*
 * What a prefix is, less identity and quota; text: KVH_PREFIX_TEXT_BYTES_MAX bytes, where
 * prefix->text then points. False: no such id, or a damaged record (S-15). Any thread.
 */
bool kvh_prefix_record_read(const struct kvh_area *area, uint32_t id, char *text,
                            struct kvh_prefix *prefix);

/* The next prefix of the same family; begin with the first. KVH_NONE: no more. Lock held. */
uint32_t kvh_prefix_family_first(const struct kvh_area *area, uint32_t id);
uint32_t kvh_prefix_family_next(const struct kvh_area *area, uint32_t id);

/* Whether this many bytes more stay within the quota, and within it at all. Lock held. */
bool kvh_quota_has_room(const struct kvh_area *area, uint32_t id, uint64_t bytes)
	KVH_REQUIRES(kvh_role_pool);
bool kvh_quota_could_hold(const struct kvh_area *area, uint32_t id, uint64_t bytes);

/* Rebuild: counts up to the first damaged record (S-15), zeroes use, links families again. */
void kvh_prefixes_reset(struct kvh_area *area) KVH_REQUIRES(kvh_role_pool);

#endif
