/* SPDX-License-Identifier: Apache-2.0 */
/* Evicting: pins, the ring, and giving back what a slot held, in an order that survives a crash. */
#include "pool/core/evict.h"

#include "base/fault.h"
#include "pool/core/index.h"
#include "pool/core/prefixes.h"
#include "pool/core/ring.h"
#include "pool/core/sessions.h"
#include "pool/core/spans.h"
#include "pool/core/victims.h"

static uint64_t slot_rank(const struct kvh_core *core, uint32_t slot, uint64_t now_unit)
{
	const struct kvh_slot *at = &core->area.slots[slot];

	return kvh_slot_rank(&core->area, atomic_load(&at->ctl), atomic_load(&at->use), now_unit);
}

static void stored_words(const struct kvh_slot *slot, struct kvh_stored_key *key)
{
	for (unsigned i = 0; i < KVH_STORED_WORDS; i++)
		key->word[i] = atomic_load_explicit(&slot->word[i], memory_order_relaxed);
	key->prefix_id = atomic_load_explicit(&slot->prefix_id, memory_order_relaxed);
}

/* The VALID group object of this key; KVH_NONE: there is none. */
static uint32_t find_member(const struct kvh_core *core, const struct kvh_stored_key *key)
{
	struct kvh_index_search search;
	uint32_t slot;

	kvh_index_begin(&core->area,
	                kvh_stored_hash(&core->area, key->word, key->prefix_id, core->hash_mask),
	                &search);
	while ((slot = kvh_index_next(&core->area, &search)) != KVH_NONE) {
		uint64_t ctl = atomic_load(&core->area.slots[slot].ctl);

		if (kvh_ctl_state(ctl) == KVH_SLOT_VALID && (kvh_ctl_flags(ctl) & KVH_SLOT_GROUP) &&
		    kvh_slot_has_key(&core->area.slots[slot], key))
			return slot;
	}
	return KVH_NONE;
}

bool kvh_evict_collect(struct kvh_core *core, uint32_t slot, uint64_t rank_max, uint64_t now_unit,
                       struct kvh_evict_unit *unit)
{
	struct kvh_stored_key key;
	uint64_t rank = slot_rank(core, slot, now_unit);
	uint32_t prefix, own;

	unit->count = 1;
	unit->slots[0] = slot;
	stored_words(&core->area.slots[slot], &key);
	own = key.prefix_id;
	/* An expired object goes alone: it is no part of anything any more. */
	if (kvh_rank_level(rank) == 0 ||
	    !(kvh_ctl_flags(atomic_load(&core->area.slots[slot].ctl)) & KVH_SLOT_GROUP))
		return rank <= rank_max;
	for (prefix = kvh_prefix_family_first(&core->area, own); prefix != KVH_NONE;
	     prefix = kvh_prefix_family_next(&core->area, prefix)) {
		uint32_t member = slot;

		key.prefix_id = prefix;
		if (prefix != own)
			member = find_member(core, &key);
		if (member == KVH_NONE)
			continue;
		if (slot_rank(core, member, now_unit) > rank_max)
			return false;
		if (prefix != own)
			unit->slots[unit->count++] = member;
	}
	return true;
}

/* Everything but the ring: the slot's last arrow, then what derives from it. */
static void give_back(struct kvh_core *core, uint32_t slot, uint64_t ctl)
	KVH_REQUIRES(kvh_role_pool)
{
	struct kvh_area *area = &core->area;
	struct kvh_stored_key key;
	uint32_t unit = atomic_load_explicit(&area->slots[slot].extent_unit, memory_order_relaxed);
	uint64_t used_bytes;

	stored_words(&area->slots[slot], &key);
	kvh_index_remove(area, kvh_stored_hash(area, key.word, key.prefix_id, core->hash_mask),
	                 slot);
	KVH_CRASH_POINT(POOL_UNINDEXED);
	/* The record names nothing before its extent can be granted again (S-17). */
	atomic_store_explicit(&area->slots[slot].ctl, kvh_ctl_free(ctl), memory_order_release);
	KVH_CRASH_POINT(POOL_FREED);
	used_bytes = (uint64_t)kvh_extent_give(area, unit, slot) * KVH_UNIT_BYTES;
	kvh_count64(&area->fixed->prefix_states[key.prefix_id].used_bytes, -used_bytes);
	KVH_CRASH_POINT(POOL_EXTENT_GIVEN);
	kvh_slots_give(area, slot);
}

/* VALID -> DYING for all; false: one is pinned and all are VALID as before. */
static bool all_die(struct kvh_core *core, const uint32_t *slots, uint32_t count)
{
	bool pinned = false;

	for (uint32_t i = 0; i < count; i++)
		if (kvh_slot_is_pinned(&core->area, slots[i]))
			return false;
	for (uint32_t i = 0; i < count; i++) {
		struct kvh_slot *slot = &core->area.slots[slots[i]];
		uint64_t ctl = atomic_load(&slot->ctl);

		atomic_store_explicit(&slot->ctl, kvh_ctl_with_state(ctl, KVH_SLOT_DYING),
		                      memory_order_release);
	}
	KVH_CRASH_POINT(POOL_DYING);
	/* A reader that pinned before sees VALID and is seen here, or sees DYING and lets go. */
	kvh_fence_full();
	for (uint32_t i = 0; i < count && !pinned; i++)
		pinned = kvh_slot_is_pinned(&core->area, slots[i]);
	for (uint32_t i = 0; i < count && pinned; i++) {
		struct kvh_slot *slot = &core->area.slots[slots[i]];

		atomic_store(&slot->ctl,
		             kvh_ctl_with_state(atomic_load(&slot->ctl), KVH_SLOT_VALID));
	}
	return !pinned;
}

static void leave(struct kvh_core *core, uint32_t slot) KVH_REQUIRES(kvh_role_pool)
{
	/* In the ring before the extent is free (S-13). */
	kvh_ring_push(&core->area, &core->area.slots[slot]);
	KVH_CRASH_POINT(POOL_EVICTED);
	give_back(core, slot, atomic_load(&core->area.slots[slot].ctl));
}

bool kvh_evict(struct kvh_core *core, const struct kvh_evict_unit *unit, uint64_t now_unit)
{
	struct kvh_tally *tally = &core->area.fixed->tally;
	uint64_t bytes = 0;
	bool expired = kvh_rank_level(slot_rank(core, unit->slots[0], now_unit)) == 0;

	if (!all_die(core, unit->slots, unit->count))
		return false;
	for (uint32_t i = 0; i < unit->count; i++) {
		bytes += kvh_core_length(core, unit->slots[i]);
		leave(core, unit->slots[i]);
	}
	if (expired) {
		kvh_count64(&tally->expired_keys, 1);
		return true;
	}
	kvh_count64(&tally->evicted_keys, unit->count);
	kvh_count64(&tally->evicted_bytes, bytes);
	return true;
}

bool kvh_evict_alone(struct kvh_core *core, uint32_t slot)
{
	uint64_t ctl = atomic_load(&core->area.slots[slot].ctl);

	if (!all_die(core, &slot, 1))
		return false;
	leave(core, slot);
	/* The group's newest may be gone: the lists passed its older members over. */
	if (kvh_ctl_flags(ctl) & KVH_SLOT_GROUP)
		kvh_victims_note(&core->area, 0, UINT64_MAX);
	return true;
}

bool kvh_release(struct kvh_core *core, uint32_t slot, uint64_t ctl)
{
	struct kvh_session_record *owner;

	/* Against a commit of the same reservation one of the two wins. */
	if (kvh_ctl_state(ctl) != KVH_SLOT_RESERVED ||
	    !kvh_slot_move(&core->area.slots[slot], ctl, kvh_ctl_free(ctl)))
		return false;
	KVH_CRASH_POINT(POOL_ABORTED);
	owner = &core->area.fixed->sessions[kvh_ctl_owner(ctl) - 1];
	/* Abandoned ones are counted no more. */
	if (!(kvh_ctl_flags(ctl) & KVH_SLOT_ABANDONED))
		atomic_fetch_sub_explicit(&owner->reserved_slots, 1, memory_order_relaxed);
	give_back(core, slot, ctl);
	return true;
}
