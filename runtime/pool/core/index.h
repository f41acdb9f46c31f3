/* SPDX-License-Identifier: Apache-2.0 */
/* The index: from a key's hash to slots. Readers need no lock; entries never move. */
#ifndef KVH_POOL_CORE_INDEX_H
#define KVH_POOL_CORE_INDEX_H

#include "base/lock.h"
#include "pool/core/area.h"

/* Where a search stands; begin with kvh_index_begin. */
struct kvh_index_search {
	uint32_t bucket;
	uint32_t matches; /* a bit an entry of it still to be looked at */
	uint32_t tag;
	uint32_t buckets_left;
};

/* The low half chooses the bucket, the high half is the tag. */
static inline uint32_t kvh_index_bucket(const struct kvh_area *area, uint64_t hash)
{
	return (uint32_t)((hash & UINT32_MAX) * area->geometry.bucket_count >> 32);
}

static inline uint64_t kvh_bucket_entry(const struct kvh_bucket *bucket, unsigned index)
{
	return atomic_load_explicit(&bucket->entry[index], memory_order_acquire);
}

static inline uint32_t kvh_bucket_match(const struct kvh_bucket *bucket, uint32_t tag,
                                        unsigned index)
{
	return (uint32_t)(kvh_bucket_entry(bucket, index) >> 32 == tag) << index;
}

/* Entries with this tag, a bit each. Which one it is can't be foreseen: no branch, no loop. */
static inline uint32_t kvh_bucket_matches(const struct kvh_bucket *bucket, uint32_t tag)
{
	_Static_assert(KVH_BUCKET_ENTRIES == 7, "each is named here");
	return kvh_bucket_match(bucket, tag, 0) | kvh_bucket_match(bucket, tag, 1) |
	       kvh_bucket_match(bucket, tag, 2) | kvh_bucket_match(bucket, tag, 3) |
	       kvh_bucket_match(bucket, tag, 4) | kvh_bucket_match(bucket, tag, 5) |
	       kvh_bucket_match(bucket, tag, 6);
}

static inline void kvh_index_begin(const struct kvh_area *area, uint64_t hash,
                                   struct kvh_index_search *search)
{
	search->bucket = kvh_index_bucket(area, hash);
	search->tag = (uint32_t)(hash >> 32);
	search->matches = kvh_bucket_matches(&area->buckets[search->bucket], search->tag);
	search->buckets_left = area->geometry.bucket_count;
}

/* To the next bucket, if an entry may have passed by this one. */
bool kvh_index_overflows(const struct kvh_area *area, struct kvh_index_search *search);

/* The next slot with this tag, in bounds; KVH_NONE: no more. Any thread. */
static inline uint32_t kvh_index_next(const struct kvh_area *area, struct kvh_index_search *search)
{
	do {
		while (search->matches) {
			unsigned i = (unsigned)__builtin_ctz(search->matches);
			uint64_t entry = kvh_bucket_entry(&area->buckets[search->bucket], i);
			uint32_t slot = (uint32_t)entry - 1;

			search->matches &= search->matches - 1;
			/* Again: an entry may have gone since. A free one has slot KVH_NONE. */
			if (entry >> 32 == search->tag && slot < area->geometry.slot_count)
				return slot;
		}
	} while (atomic_load_explicit(&area->buckets[search->bucket].overflow,
	                              memory_order_acquire) &&
	         kvh_index_overflows(area, search));
	return KVH_NONE;
}

/* Lock held. A slot is in at most once; there are more entries than slots. */
void kvh_index_insert(struct kvh_area *area, uint64_t hash, uint32_t slot)
	KVH_REQUIRES(kvh_role_pool);
/* Nothing happens if the slot is not in. */
void kvh_index_remove(struct kvh_area *area, uint64_t hash, uint32_t slot)
	KVH_REQUIRES(kvh_role_pool);

#endif
