/* SPDX-License-Identifier: Apache-2.0 */
/* The index: linear probing over cache lines of seven entries. */
#include "pool/core/index.h"

#include "base/check.h"
#include "base/fault.h"

static uint32_t bucket_after(const struct kvh_area *area, uint32_t bucket)
{
	return bucket + 1 == area->geometry.bucket_count ? 0 : bucket + 1;
}

bool kvh_index_overflows(const struct kvh_area *area, struct kvh_index_search *search)
{
	if (--search->buckets_left == 0)
		return false;
	search->bucket = bucket_after(area, search->bucket);
	search->matches = kvh_bucket_matches(&area->buckets[search->bucket], search->tag);
	return true;
}

static _Atomic uint64_t *find_entry(struct kvh_bucket *bucket, uint64_t wanted)
{
	for (unsigned i = 0; i < KVH_BUCKET_ENTRIES; i++)
		if (atomic_load_explicit(&bucket->entry[i], memory_order_relaxed) == wanted)
			return &bucket->entry[i];
	return NULL;
}

static uint64_t entry_of(uint64_t hash, uint32_t slot)
{
	return (hash & ~(uint64_t)UINT32_MAX) | (slot + 1);
}

void kvh_index_insert(struct kvh_area *area, uint64_t hash, uint32_t slot)
{
	uint32_t at = kvh_index_bucket(area, hash);

	for (uint32_t left = area->geometry.bucket_count; left > 0; left--) {
		struct kvh_bucket *bucket = &area->buckets[at];
		_Atomic uint64_t *entry = find_entry(bucket, 0);

		if (entry) {
			atomic_store_explicit(entry, entry_of(hash, slot), memory_order_release);
			return;
		}
		/* Before the entry is written: too high after a crash, never too low. */
		atomic_fetch_add_explicit(&bucket->overflow, 1, memory_order_release);
		KVH_CRASH_POINT(POOL_INDEX_OVERFLOW);
		at = bucket_after(area, at);
	}
	KVH_CHECK(!"the index has an entry for every slot");
}

void kvh_index_remove(struct kvh_area *area, uint64_t hash, uint32_t slot)
{
	uint32_t home = kvh_index_bucket(area, hash);
	uint32_t at = home;
	_Atomic uint64_t *entry = NULL;

	for (uint32_t left = area->geometry.bucket_count; left > 0; left--) {
		entry = find_entry(&area->buckets[at], entry_of(hash, slot));
		if (entry || !atomic_load(&area->buckets[at].overflow))
			break;
		at = bucket_after(area, at);
	}
	if (!entry)
		return;
	atomic_store_explicit(entry, 0, memory_order_release);
	KVH_CRASH_POINT(POOL_INDEX_REMOVED);
	for (; home != at; home = bucket_after(area, home))
		atomic_fetch_sub_explicit(&area->buckets[home].overflow, 1, memory_order_release);
}
