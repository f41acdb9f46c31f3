/* SPDX-License-Identifier: Apache-2.0 */
/* Victims: scanning all slots for the oldest, and walking the list of them. */
#include "pool/core/victims.h"

#include <string.h>

#include "base/fault.h"
#include "pool/core/index.h"
#include "pool/core/sessions.h"
#define LOAD(word)         atomic_load_explicit(&(word), memory_order_relaxed)
#define STORE(word, value) atomic_store_explicit(&(word), (value), memory_order_relaxed)

enum {
	LIST_SHARE = 4, /* of all slots: a scan costs this many slots a victim */
	LIST_MIN = 64,
	/* How many victims ahead a record is fetched, and then what the record names. */
	PREFETCH_RECORDS = 16,
	PREFETCH_NAMED = 8,
	SAMPLES_MAX = 512,
	RADIX_BITS = 11,
	FILLER_BITS = 12,
	FILLER_MASK = (1 << FILLER_BITS) - 1
};

uint32_t kvh_victims_list_max(const struct kvh_area *area)
{
	uint32_t max = area->geometry.slot_count / LIST_SHARE;

	if (max < LIST_MIN)
		max = LIST_MIN;
	return max < KVH_VICTIMS_MAX ? max : KVH_VICTIMS_MAX;
}

void kvh_victims_reset(struct kvh_area *area)
{
	struct kvh_victims *victims = &area->fixed->victims;

	STORE(victims->active, 0);
	STORE(victims->head, 0);
	STORE(victims->filler, 0);
	for (unsigned i = 0; i < 2; i++) {
		STORE(victims->bounds[i].count, 0);
		STORE(victims->bounds[i].limit_rank, 0);
		STORE(victims->bounds[i].change_unit, 0);
	}
}

static void lower(_Atomic uint64_t *word, uint64_t value)
{
	uint64_t now = atomic_load(word);

	while (value < now && !atomic_compare_exchange_weak(word, &now, value))
		;
}

void kvh_victims_note(struct kvh_area *area, uint64_t rank, uint64_t until_unit)
{
	struct kvh_victims *victims = &area->fixed->victims;

	for (unsigned i = 0; i < 2; i++) {
		lower(&victims->bounds[i].limit_rank, rank);
		if (until_unit != UINT64_MAX)
			lower(&victims->bounds[i].change_unit, until_unit);
	}
}

/* ---- scan ------------------------------------------------------------------------------ */

static void swap(struct kvh_ranked *a, struct kvh_ranked *b)
{
	struct kvh_ranked c = *a;

	*a = *b;
	*b = c;
}

static uint64_t middle_of(uint64_t a, uint64_t b, uint64_t c)
{
	if (a > b)
		return b > c ? b : (a > c ? c : a);
	return a > c ? a : (b > c ? c : b);
}

/* Moves the `keep` lowest of count entries to the front, in no order. */
static void select_lowest(struct kvh_ranked *entries, size_t count, size_t keep)
{
	size_t low = 0, high = count;

	while (high - low > 1) {
		uint64_t pivot = middle_of(entries[low].rank, entries[(low + high) / 2].rank,
		                           entries[high - 1].rank);
		size_t i = low, j = high;

		for (;;) {
			while (entries[i].rank < pivot)
				i++;
			do
				j--;
			while (entries[j].rank > pivot);
			if (i >= j)
				break;
			swap(&entries[i++], &entries[j]);
		}
		/* [low, i) <= pivot <= [i, high), neither empty unless all is equal. */
		if (i == low || i == high)
			return;
		if (keep <= i)
			high = i;
		else
			low = i;
	}
}

/* By rank; spare holds count entries as well. The result lies in entries. */
static void sort_by_rank(struct kvh_ranked *entries, struct kvh_ranked *spare, size_t count)
{
	uint64_t lowest = UINT64_MAX, highest = 0;
	struct kvh_ranked *from = entries, *to = spare;

	for (size_t i = 0; i < count; i++) {
		lowest = entries[i].rank < lowest ? entries[i].rank : lowest;
		highest = entries[i].rank > highest ? entries[i].rank : highest;
	}
	for (unsigned shift = 0; count && (highest - lowest) >> shift; shift += RADIX_BITS) {
		uint32_t starts[(1 << RADIX_BITS) + 1] = {0};
		struct kvh_ranked *other = from;

		for (size_t i = 0; i < count; i++)
			starts[1 + ((from[i].rank - lowest) >> shift & ((1 << RADIX_BITS) - 1))]++;
		for (size_t i = 1; i <= 1 << RADIX_BITS; i++)
			starts[i] += starts[i - 1];
		for (size_t i = 0; i < count; i++)
			to[starts[(from[i].rank - lowest) >> shift & ((1 << RADIX_BITS) - 1)]++] =
				from[i];
		from = to;
		to = other;
		if (shift + RADIX_BITS >= 64)
			break;
	}
	if (from != entries)
		memcpy(entries, from, count * sizeof(*entries));
}

struct scan {
	size_t count;
	uint64_t from_rank;
	uint64_t bound_rank; /* higher ones can't be among the lowest */
	uint64_t change_unit;
};

/* Whatever is left out ranks at the new bound or behind it. */
static void keep_lowest(struct kvh_core *core, struct scan *scan)
{
	select_lowest(core->scratch, scan->count, core->victims_max);
	scan->count = core->victims_max;
	scan->bound_rank = 0;
	for (size_t i = 0; i < scan->count; i++)
		if (core->scratch[i].rank >= scan->bound_rank)
			scan->bound_rank = core->scratch[i].rank + 1;
}

static void scan_slot(struct kvh_core *core, uint32_t index, uint64_t now_unit, struct scan *scan)
{
	struct kvh_slot *slot = &core->area.slots[index];
	uint64_t ctl = atomic_load(&slot->ctl);
	uint64_t use = atomic_load(&slot->use);
	uint64_t until, rank;

	if (kvh_ctl_state(ctl) != KVH_SLOT_VALID)
		return;
	if (use & 0xffff) {
		until = kvh_until_unit(&core->area, use);
		if (until > now_unit && until < scan->change_unit)
			scan->change_unit = until;
	}
	rank = kvh_slot_rank(&core->area, ctl, use, now_unit);
	if (rank < scan->from_rank || rank >= scan->bound_rank)
		return;
	core->scratch[scan->count++] = (struct kvh_ranked){.rank = rank, .slot = index};
	if (scan->count < 2 * (size_t)core->victims_max)
		return;
	keep_lowest(core, scan);
}

/*
 * A rank that about victims_max objects are below, from a sample; UINT64_MAX: there are hardly
 * more. Saves most of the sorting; whatever it is, the list stays complete below it.
 */
static uint64_t guess_bound(struct kvh_core *core, uint64_t from_rank, uint64_t now_unit)
{
	uint64_t ever = kvh_slots_ever(&core->area);
	uint64_t samples = core->victims_max < SAMPLES_MAX ? core->victims_max : SAMPLES_MAX;
	struct scan sample = {.from_rank = from_rank, .bound_rank = UINT64_MAX};
	uint64_t place;

	if (ever < 4 * samples)
		return UINT64_MAX;
	for (uint64_t i = 0; i < samples; i++)
		scan_slot(core, (uint32_t)(i * ever / samples), now_unit, &sample);
	sort_by_rank(core->scratch, core->scratch + core->victims_max, sample.count);
	place = samples * core->victims_max / ever;
	return place < sample.count ? core->scratch[place].rank : UINT64_MAX;
}

static struct scan scan_below(struct kvh_core *core, uint64_t from_rank, uint64_t bound_rank,
                              uint64_t now_unit)
{
	struct scan scan = {
		.from_rank = from_rank, .bound_rank = bound_rank, .change_unit = UINT64_MAX};

	for (uint32_t i = 0; i < kvh_slots_ever(&core->area); i++)
		scan_slot(core, i, now_unit, &scan);
	if (scan.count > core->victims_max)
		keep_lowest(core, &scan);
	return scan;
}

static struct scan scan_slots(struct kvh_core *core, uint64_t from_rank, uint64_t now_unit)
{
	uint64_t bound_rank = guess_bound(core, from_rank, now_unit);
	struct scan scan = scan_below(core, from_rank, bound_rank, now_unit);

	/* A bad guess is right, too, but its list would soon be used up. */
	if (bound_rank != UINT64_MAX && scan.count <= core->victims_max / 4)
		scan = scan_below(core, from_rank, UINT64_MAX, now_unit);
	sort_by_rank(core->scratch, core->scratch + core->victims_max, scan.count);
	return scan;
}

static uint64_t victim_of(const struct kvh_ranked *ranked)
{
	return (uint64_t)ranked->slot << 32 | (uint32_t)ranked->rank;
}

bool kvh_victims_filler_lives(const struct kvh_area *area, uint64_t filler)
{
	return kvh_session_is_live(area, (uint32_t)(filler & FILLER_MASK) - 1);
}

/* Into the list that is not in use. */
static struct scan fill_list(struct kvh_core *core, uint64_t from_rank, uint64_t now_unit,
                             uint32_t list)
{
	struct kvh_victim_bounds *bounds = &core->area.fixed->victims.bounds[list];
	struct scan scan;

	/* Before the scan: what changes behind its back lowers these. */
	atomic_store(&bounds->limit_rank, UINT64_MAX);
	atomic_store(&bounds->change_unit, UINT64_MAX);
	kvh_fence_full();
	scan = scan_slots(core, from_rank, now_unit);
	KVH_CRASH_POINT(POOL_VICTIMS);
	for (size_t i = 0; i < scan.count; i++)
		STORE(core->area.fixed->victim_lists[list].victims[i],
		      victim_of(&core->scratch[i]));
	STORE(bounds->count, (uint32_t)scan.count);
	lower(&bounds->limit_rank, scan.bound_rank);
	lower(&bounds->change_unit, scan.change_unit);
	return scan;
}

/*
 * A stopped filler whose place was taken may write into either list when it goes on: then a list
 * isn't the oldest in order any more, but every victim is judged again before it is evicted.
 */
static bool fill_in_place_of(struct kvh_core *core, struct kvh_reserve *reserve, uint64_t now_ns,
                             kvh_deadline deadline_ns)
{
	struct kvh_victims *victims = &core->area.fixed->victims;
	uint64_t before = reserve->seen_filler;
	uint64_t filler =
		(atomic_fetch_add(&victims->fills, 1) + 1) << FILLER_BITS | (core->session + 1);
	struct scan scan;
	uint32_t other;
	bool ours;

	if (!atomic_compare_exchange_strong(&victims->filler, &before, filler))
		return false;
	reserve->seen_filler = 0;
	other = 1 - (atomic_load(&victims->active) & 1);
	scan = fill_list(core, reserve->from_rank, kvh_time_unit(now_ns), other);
	if (!kvh_core_take(core, deadline_ns)) {
		atomic_compare_exchange_strong(&victims->filler, &filler, 0);
		return false;
	}
	/* Not if another one took over, or a rebuild reset the lists. */
	ours = atomic_compare_exchange_strong(&victims->filler, &filler, 0);
	if (ours) {
		STORE(victims->active, other);
		STORE(victims->head, 0);
		STORE(victims->switches, LOAD(victims->switches) + 1);
		reserve->bound_rank = scan.bound_rank;
	}
	kvh_core_give(core);
	return ours;
}

bool kvh_victims_fill(struct kvh_core *core, struct kvh_reserve *reserve, uint64_t now_ns,
                      kvh_deadline deadline_ns)
{
	bool filled;

	/* Also a fill of ours that was taken over: it still uses the scratch. */
	if (atomic_exchange(&core->filling, true))
		return false;
	filled = fill_in_place_of(core, reserve, now_ns, deadline_ns);
	atomic_store(&core->filling, false);
	return filled;
}

/* ---- walk ------------------------------------------------------------------------------ */

uint32_t kvh_victims_head(const struct kvh_area *area)
{
	return LOAD(area->fixed->victims.head);
}

void kvh_victims_pass(struct kvh_area *area, uint32_t *cursor, bool for_good)
{
	if (for_good && *cursor == LOAD(area->fixed->victims.head))
		STORE(area->fixed->victims.head, *cursor + 1);
	++*cursor;
}

static uint32_t slot_at(const struct kvh_area *area, uint32_t active, uint32_t cursor)
{
	return (uint32_t)(LOAD(area->fixed->victim_lists[active].victims[cursor]) >> 32);
}

/* The lines that evicting a slot goes to by its record: its bucket and its span's neighbours. */
static void prefetch_named(const struct kvh_area *area, uint32_t index)
{
	const struct kvh_slot *slot = &area->slots[index];
	uint64_t word[KVH_STORED_WORDS];
	uint64_t hash;

	for (unsigned i = 0; i < KVH_STORED_WORDS; i++)
		word[i] = LOAD(slot->word[i]);
	/* A test's mask aside, which makes this a fetch for nothing. */
	hash = kvh_stored_hash(area, word, LOAD(slot->prefix_id), UINT64_MAX);
	__builtin_prefetch(&area->buckets[kvh_index_bucket(area, hash)]);
	__builtin_prefetch(&area->links[LOAD(area->links[index].prev)]);
	__builtin_prefetch(&area->links[LOAD(area->links[index].next)]);
}

/* What evicting the next victims will read: each of these is far away in a large pool. */
static void prefetch_ahead(const struct kvh_area *area, uint32_t active, uint32_t cursor)
{
	uint32_t count = LOAD(area->fixed->victims.bounds[active].count);

	if (cursor + PREFETCH_RECORDS < count) {
		uint32_t slot = slot_at(area, active, cursor + PREFETCH_RECORDS);

		__builtin_prefetch(&area->slots[slot]);
		__builtin_prefetch(&area->links[slot]);
	}
	if (cursor + PREFETCH_NAMED < count)
		prefetch_named(area, slot_at(area, active, cursor + PREFETCH_NAMED));
}

struct kvh_ranked kvh_victims_at(struct kvh_area *area, uint32_t *cursor, uint64_t now_unit)
{
	const struct kvh_victims *victims = &area->fixed->victims;
	uint32_t active = LOAD(victims->active) & 1;
	const struct kvh_victim_bounds *bounds = &victims->bounds[active];

	if (atomic_load(&bounds->change_unit) <= now_unit)
		return (struct kvh_ranked){.slot = KVH_NONE};
	prefetch_ahead(area, active, *cursor);
	while (*cursor < LOAD(bounds->count)) {
		uint64_t victim = LOAD(area->fixed->victim_lists[active].victims[*cursor]);
		uint32_t index = (uint32_t)(victim >> 32);
		struct kvh_slot *slot = &area->slots[index];
		uint64_t ctl = atomic_load(&slot->ctl);
		uint64_t use = atomic_load(&slot->use);
		struct kvh_ranked found = {.slot = index};

		if (kvh_ctl_state(ctl) == KVH_SLOT_VALID &&
		    (uint32_t)(use >> 16) == (uint32_t)victim) {
			found.rank = kvh_slot_rank(area, ctl, use, now_unit);
			if (found.rank < atomic_load(&bounds->limit_rank))
				return found;
			return (struct kvh_ranked){.slot = KVH_NONE};
		}
		kvh_victims_pass(area, cursor, true);
	}
	return (struct kvh_ranked){.slot = KVH_NONE};
}
