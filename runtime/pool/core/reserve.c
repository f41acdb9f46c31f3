/* SPDX-License-Identifier: Apache-2.0 */
/* Reserving: find the key, find room for it, evict for it. */
#include "base/fault.h"
#include "pool/core/evict.h"
#include "pool/core/find.h"
#include "pool/core/index.h"
#include "pool/core/prefixes.h"
#include "pool/core/sessions.h"
#include "pool/core/spans.h"
#include "pool/core/victims.h"

enum {
	SWEEP_LOOKS_MAX = 512, /* slots looked at in one hold of the lock */
	LOOKS_MAX = 1 << 20    /* objects of a span looked at without it */
};

#define FILLER_STALLED_NS UINT64_C(1000000000)

/* How far a search for room came. */
enum room {
	ROOM_TRY,   /* something left: try again */
	ROOM_LATER, /* this turn is over */
	ROOM_NONE   /* nothing is left to evict */
};

/* ---- finding the key ------------------------------------------------------------------- */

/* What the key's present state says; KVH_OK: it is free to be reserved. */
static kvh_status present_status(struct kvh_core *core, struct kvh_reserve_key *key,
                                 uint64_t now_ns) KVH_REQUIRES(kvh_role_pool)
{
	uint64_t ctl, now_unit = kvh_time_unit(now_ns);
	uint32_t slot = kvh_find_locked(core, key->key, &ctl);

	if (slot == KVH_NONE)
		return KVH_OK;
	if (kvh_ctl_state(ctl) == KVH_SLOT_RESERVED) {
		if (kvh_ctl_flags(ctl) & KVH_SLOT_ABANDONED)
			return kvh_release(core, slot, ctl) ? KVH_OK : KVH_BUSY;
		if (kvh_owner_is_live(&core->area, ctl))
			return KVH_BUSY;
		kvh_index_remove(&core->area, key->key->hash, slot);
		return KVH_OK;
	}
	if (kvh_slot_expired(&core->area, ctl, atomic_load(&core->area.slots[slot].use),
	                     now_unit)) {
		if (!kvh_evict_alone(core, slot))
			return KVH_BUSY;
		kvh_count64(&core->area.fixed->tally.expired_keys, 1);
		return KVH_OK;
	}
	key->ref = (struct kvh_core_ref){.slot = slot, .ctl = ctl};
	kvh_core_touch(core, &key->ref, 1, now_unit);
	return KVH_OBJECT_ALREADY_EXISTS;
}

/* ---- evicting for room ----------------------------------------------------------------- */

static bool is_blocked(const struct kvh_reserve *reserve, uint32_t region, uint64_t level)
{
	return reserve->blocked[region % KVH_BLOCKED_SPANS] > level;
}

static void block(struct kvh_reserve *reserve, uint32_t region)
{
	reserve->blocked[region % KVH_BLOCKED_SPANS] = (uint8_t)(reserve->drain_level + 1);
}

static void spend(struct kvh_reserve *reserve, uint32_t victims)
{
	reserve->victims_left -= victims < reserve->victims_left ? victims : reserve->victims_left;
}

/* No rank of this level is higher. */
static uint64_t rank_max(uint64_t level)
{
	return (level + 1) << 48;
}

/* Without the lock, so only a guess: every object is judged again before it is evicted. */
static void look_through(struct kvh_core *core, struct kvh_reserve *reserve, uint64_t now_unit)
{
	uint32_t region = reserve->look_plus_1 - 1;
	uint32_t slot = kvh_span_first_slot(&core->area, region);

	reserve->look_plus_1 = 0;
	for (uint32_t i = 0; i < LOOKS_MAX && slot < core->area.geometry.slot_count; i++) {
		struct kvh_slot *at = &core->area.slots[slot];
		uint64_t ctl = atomic_load(&at->ctl);
		uint64_t rank = kvh_slot_rank(&core->area, ctl, atomic_load(&at->use), now_unit);

		if (kvh_ctl_state(ctl) != KVH_SLOT_VALID ||
		    kvh_rank_level(rank) > reserve->drain_level ||
		    kvh_slot_is_pinned(&core->area, slot)) {
			block(reserve, region);
			return;
		}
		slot = kvh_span_next_slot(&core->area, slot);
	}
	reserve->drain_plus_1 = region + 1;
}

/* Evicts the span's objects, newest first, until it is empty, the turn is over or one stays. */
static enum room drain(struct kvh_core *core, struct kvh_reserve *reserve, uint64_t now_unit)
	KVH_REQUIRES(kvh_role_pool)
{
	uint32_t region = reserve->drain_plus_1 - 1;
	struct kvh_evict_unit unit;

	while (kvh_span_extent_units(&core->area, region)) {
		uint32_t slot = kvh_span_first_slot(&core->area, region);

		if (!reserve->victims_left)
			return ROOM_LATER;
		if (kvh_ctl_state(atomic_load(&core->area.slots[slot].ctl)) != KVH_SLOT_VALID ||
		    !kvh_evict_collect(core, slot, rank_max(reserve->drain_level), now_unit,
		                       &unit) ||
		    !kvh_evict(core, &unit, now_unit)) {
			block(reserve, region);
			break;
		}
		spend(reserve, unit.count);
	}
	reserve->drain_plus_1 = 0;
	return ROOM_TRY;
}

/* Nothing can be evicted in order: what can be at all goes, slot by slot (S-14). */
static enum room sweep(struct kvh_core *core, struct kvh_reserve *reserve, uint64_t now_unit)
	KVH_REQUIRES(kvh_role_pool)
{
	struct kvh_evict_unit unit;

	for (uint32_t looks = 0; looks < SWEEP_LOOKS_MAX; looks++) {
		uint32_t slot = reserve->sweep_slot;

		if (slot >= kvh_slots_ever(&core->area))
			return ROOM_NONE;
		reserve->sweep_slot++;
		if (kvh_ctl_state(atomic_load(&core->area.slots[slot].ctl)) != KVH_SLOT_VALID)
			continue;
		kvh_evict_collect(core, slot, UINT64_MAX, now_unit, &unit);
		if (!kvh_evict(core, &unit, now_unit))
			continue;
		spend(reserve, unit.count);
		return ROOM_TRY;
	}
	return ROOM_LATER;
}

static enum room list_is_over(struct kvh_core *core, struct kvh_reserve *reserve)
{
	uint64_t left_keys = atomic_load(&core->area.super->ring_head);

	if (!reserve->list_fresh || reserve->left_keys != left_keys) {
		/* What this list hid may be free to go now, and others take victims, too. */
		reserve->from_rank = 0;
	} else if (reserve->bound_rank != UINT64_MAX) {
		/* All of this list has to stay: the next younger ones. */
		reserve->from_rank = reserve->bound_rank;
	} else {
		reserve->sweeping = true;
		return ROOM_TRY;
	}
	reserve->want_scan = true;
	return ROOM_LATER;
}

/* same_size: an extent of this many units is missing; 0: a slot is. */
static enum room evict_oldest(struct kvh_core *core, struct kvh_reserve *reserve,
                              uint32_t same_size, uint64_t now_unit) KVH_REQUIRES(kvh_role_pool)
{
	struct kvh_area *area = &core->area;
	struct kvh_ranked victim = kvh_victims_at(area, &reserve->cursor, now_unit);
	struct kvh_evict_unit unit;
	uint32_t region;

	if (victim.slot == KVH_NONE)
		return list_is_over(core, reserve);
	spend(reserve, 1);
	if (!kvh_evict_collect(core, victim.slot, victim.rank, now_unit, &unit)) {
		/* A newer member of its group stands for it. */
		kvh_victims_pass(area, &reserve->cursor, true);
		return ROOM_TRY;
	}
	region = kvh_span_of(area, atomic_load(&area->slots[victim.slot].extent_unit));
	if (!same_size || kvh_span_extent_units(area, region) == same_size) {
		if (kvh_evict(core, &unit, now_unit))
			spend(reserve, unit.count - 1);
		else
			kvh_victims_pass(area, &reserve->cursor, false);
		return ROOM_TRY;
	}
	if (is_blocked(reserve, region, kvh_rank_level(victim.rank))) {
		kvh_victims_pass(area, &reserve->cursor, false);
		return ROOM_TRY;
	}
	reserve->look_plus_1 = region + 1;
	reserve->drain_level = kvh_rank_level(victim.rank);
	return ROOM_LATER;
}

static void begin_search(struct kvh_core *core, struct kvh_reserve *reserve)
{
	uint32_t switches = atomic_load(&core->area.fixed->victims.switches);

	if (reserve->searching && reserve->switches == switches)
		return;
	reserve->searching = true;
	reserve->switches = switches;
	reserve->cursor = kvh_victims_head(&core->area);
}

static enum room make_room(struct kvh_core *core, struct kvh_reserve *reserve, uint32_t same_size,
                           uint64_t now_unit) KVH_REQUIRES(kvh_role_pool)
{
	if (!reserve->victims_left)
		return ROOM_LATER;
	if (reserve->drain_plus_1)
		return drain(core, reserve, now_unit);
	if (reserve->sweeping)
		return sweep(core, reserve, now_unit);
	begin_search(core, reserve);
	return evict_oldest(core, reserve, same_size, now_unit);
}

static void end_search(struct kvh_core *core, struct kvh_reserve *reserve)
{
	if (reserve->from_rank)
		kvh_victims_note(&core->area, 0, UINT64_MAX);
	reserve->from_rank = 0;
	reserve->searching = false;
	reserve->want_scan = false;
	reserve->list_fresh = false;
	reserve->sweeping = false;
	reserve->sweep_slot = 0;
	reserve->look_plus_1 = 0;
	reserve->drain_plus_1 = 0;
}

/* ---- one key --------------------------------------------------------------------------- */

static void fill_slot(struct kvh_core *core, const struct kvh_reserve *reserve,
                      struct kvh_reserve_key *key, uint32_t slot, uint32_t unit)
	KVH_REQUIRES(kvh_role_pool)
{
	struct kvh_area *area = &core->area;
	struct kvh_slot *at = &area->slots[slot];
	uint64_t free_ctl = atomic_load_explicit(&at->ctl, memory_order_relaxed);
	uint64_t ctl = kvh_ctl_make(kvh_ctl_generation(free_ctl), core->session + 1,
	                            KVH_SLOT_RESERVED, reserve->flags | KVH_SLOT_UNWRITTEN);

	KVH_CRASH_POINT(POOL_RESERVE);
	kvh_slot_fill(at, key->key, unit, (uint32_t)key->length_bytes);
	atomic_store_explicit(&at->use,
	                      reserve->until_unit ? kvh_until_code(reserve->until_unit) : 0,
	                      memory_order_relaxed);
	atomic_store_explicit(&at->ctl, ctl, memory_order_release);
	KVH_CRASH_POINT(POOL_RESERVED);
	kvh_index_insert(area, key->key->hash, slot);
	KVH_CRASH_POINT(POOL_INDEXED);
	key->ref = (struct kvh_core_ref){.slot = slot, .ctl = ctl};
	key->status = KVH_OK;
}

/* False: *same_size says what is missing (evict_oldest). */
static bool try_room(struct kvh_core *core, const struct kvh_reserve *reserve,
                     struct kvh_reserve_key *key, const struct kvh_size_class *size,
                     uint32_t *same_size) KVH_REQUIRES(kvh_role_pool)
{
	uint32_t slot = kvh_slots_take(&core->area);
	uint32_t unit;

	*same_size = 0;
	if (slot == KVH_NONE)
		return false;
	unit = kvh_extent_take(&core->area, size, reserve->sweeping, slot);
	if (unit == KVH_NONE) {
		kvh_slots_give(&core->area, slot);
		*same_size = size->extent_units;
		return false;
	}
	fill_slot(core, reserve, key, slot, unit);
	kvh_count64(&core->area.fixed->prefix_states[key->key->prefix_id].used_bytes,
	            (uint64_t)size->extent_units * KVH_UNIT_BYTES);
	return true;
}

static enum room find_room(struct kvh_core *core, struct kvh_reserve *reserve,
                           struct kvh_reserve_key *key, const struct kvh_size_class *size,
                           uint64_t now_unit) KVH_REQUIRES(kvh_role_pool)
{
	enum room room = ROOM_TRY;
	uint32_t same_size = 0;

	while (room == ROOM_TRY) {
		if (!reserve->drain_plus_1 && try_room(core, reserve, key, size, &same_size))
			return ROOM_TRY;
		if (reserve->full_units && size->extent_units >= reserve->full_units)
			return ROOM_NONE;
		room = make_room(core, reserve, same_size, now_unit);
	}
	return room;
}

/* Says why the key can't be stored, or KVH_OK and its class. */
static kvh_status size_status(struct kvh_core *core, const struct kvh_reserve_key *key,
                              struct kvh_size_class *size) KVH_REQUIRES(kvh_role_pool)
{
	uint64_t bytes = key->length_bytes + key->key->text_bytes;
	uint64_t extent_bytes;

	if (key->length_bytes > UINT32_MAX ||
	    !kvh_class_of(&core->area, kvh_units_of(&core->area, bytes), size))
		return KVH_INVALID_PARAMS;
	extent_bytes = (uint64_t)size->extent_units * KVH_UNIT_BYTES;
	if (!kvh_quota_could_hold(&core->area, key->key->prefix_id, extent_bytes))
		return KVH_INVALID_PARAMS;
	if (!kvh_quota_has_room(&core->area, key->key->prefix_id, extent_bytes))
		return KVH_NO_AVAILABLE_HANDLE;
	return KVH_OK;
}

/* False: the turn is over before the key has its status. */
static bool reserve_one(struct kvh_core *core, struct kvh_reserve *reserve,
                        struct kvh_reserve_key *key, uint64_t now_ns) KVH_REQUIRES(kvh_role_pool)
{
	struct kvh_size_class size;

	key->ref.slot = KVH_NONE;
	key->status = present_status(core, key, now_ns);
	if (key->status == KVH_OK)
		key->status = size_status(core, key, &size);
	if (key->status != KVH_OK)
		return true;
	switch (find_room(core, reserve, key, &size, kvh_time_unit(now_ns))) {
	case ROOM_TRY:
		return true;
	case ROOM_NONE:
		key->status = KVH_NO_AVAILABLE_HANDLE;
		if (!reserve->full_units || size.extent_units < reserve->full_units)
			reserve->full_units = size.extent_units;
		return true;
	case ROOM_LATER:
	default:
		return false;
	}
}

/* A scan takes a second of a stopped process only: then another one does it. */
static bool may_fill(struct kvh_core *core, struct kvh_reserve *reserve, uint64_t now_ns)
{
	uint64_t filler = atomic_load(&core->area.fixed->victims.filler);

	if (filler == reserve->seen_filler)
		return !filler || now_ns - reserve->seen_since_ns >= FILLER_STALLED_NS ||
		       !kvh_victims_filler_lives(&core->area, filler);
	reserve->seen_filler = filler;
	reserve->seen_since_ns = now_ns;
	return !filler;
}

static bool scan(struct kvh_core *core, struct kvh_reserve *reserve, uint64_t now_ns,
                 kvh_deadline deadline_ns)
{
	uint64_t left_keys = atomic_load(&core->area.super->ring_head);

	if (!may_fill(core, reserve, now_ns) ||
	    !kvh_victims_fill(core, reserve, now_ns, deadline_ns))
		return false;
	reserve->want_scan = false;
	reserve->list_fresh = true;
	reserve->left_keys = left_keys;
	return true;
}

/* Once a turn: this session's other threads count theirs down without the lock. */
static void count_reserved(struct kvh_core *core, const struct kvh_reserve *reserve, size_t first)
{
	uint32_t reserved = 0;

	for (size_t i = first; i < reserve->next; i++)
		reserved += reserve->keys[i].status == KVH_OK;
	atomic_fetch_add_explicit(&core->area.fixed->sessions[core->session].reserved_slots,
	                          reserved, memory_order_relaxed);
}

enum kvh_reserve_step kvh_core_reserve(struct kvh_core *core, struct kvh_reserve *reserve,
                                       uint64_t now_ns, kvh_deadline deadline_ns)
{
	size_t first = reserve->next;

	if (reserve->want_scan && !scan(core, reserve, now_ns, deadline_ns))
		return KVH_RESERVE_WAIT;
	if (reserve->look_plus_1)
		look_through(core, reserve, kvh_time_unit(now_ns));
	if (!kvh_core_take(core, deadline_ns))
		return KVH_RESERVE_LOCKED;
	reserve->victims_left = KVH_TURN_KEYS_MAX;
	while (reserve->next < reserve->count &&
	       reserve_one(core, reserve, &reserve->keys[reserve->next], now_ns)) {
		end_search(core, reserve);
		reserve->next++;
	}
	count_reserved(core, reserve, first);
	kvh_core_give(core);
	return reserve->next < reserve->count ? KVH_RESERVE_AGAIN : KVH_RESERVE_DONE;
}
