/* SPDX-License-Identifier: Apache-2.0 */
/* Finding keys and pinning their objects. */
#include "pool/core/find.h"

#include "base/fault.h"
#include "pool/core/index.h"
#include "pool/core/sessions.h"

/* Keys whose hashes are fetched ahead: they lie wherever the engine keeps them. */
enum { PREFETCH_KEYS = 8 };

uint32_t kvh_find_locked(const struct kvh_core *core, const struct kvh_stored_key *key,
                         uint64_t *ctl)
{
	struct kvh_index_search search;
	uint32_t slot = key->likely_slot;

	/* The record alone says so; a RESERVED one may have left the index. */
	if (slot != KVH_NONE && !key->text_bytes) {
		*ctl = atomic_load(&core->area.slots[slot].ctl);
		if (kvh_ctl_state(*ctl) == KVH_SLOT_VALID &&
		    kvh_slot_has_key(&core->area.slots[slot], key))
			return slot;
	}
	kvh_index_begin(&core->area, key->hash, &search);
	while ((slot = kvh_index_next(&core->area, &search)) != KVH_NONE) {
		struct kvh_slot *at = &core->area.slots[slot];

		*ctl = atomic_load(&at->ctl);
		if (!kvh_slot_has_key(at, key))
			continue;
		if (kvh_ctl_state(*ctl) == KVH_SLOT_RESERVED ||
		    (kvh_ctl_state(*ctl) == KVH_SLOT_VALID &&
		     kvh_slot_has_text(&core->area, at, key)))
			return slot;
	}
	return KVH_NONE;
}

void kvh_core_prepare(const struct kvh_core *core, const struct kvh_key *keys, size_t count,
                      struct kvh_stored_key *stored)
{
	const struct kvh_area *area = &core->area;

	for (size_t i = 0; i < count; i++) {
		__builtin_prefetch(keys[i + PREFETCH_KEYS < count ? i + PREFETCH_KEYS : i].hash);
		kvh_stored_key_make(area, &keys[i], core->hash_mask, &stored[i]);
		__builtin_prefetch(&area->buckets[kvh_index_bucket(area, stored[i].hash)]);
	}
	for (size_t i = 0; i < count; i++) {
		struct kvh_index_search search;
		uint32_t slot;

		kvh_index_begin(area, stored[i].hash, &search);
		slot = kvh_index_next(area, &search);
		stored[i].likely_slot = slot;
		if (slot != KVH_NONE)
			__builtin_prefetch(&area->slots[slot]);
	}
}

/* Whether the slot is the VALID object of this key, its text apart; *ctl: then its ctl. */
static bool slot_is_object(const struct kvh_core *core, uint32_t index,
                           const struct kvh_stored_key *key, uint64_t now_unit, uint64_t *ctl)
{
	struct kvh_slot *slot = &core->area.slots[index];
	uint64_t use = 0;

	*ctl = atomic_load_explicit(&slot->ctl, memory_order_acquire);
	if (kvh_ctl_state(*ctl) != KVH_SLOT_VALID || !kvh_slot_has_key(slot, key))
		return false;
	if (kvh_ctl_flags(*ctl) & KVH_SLOT_EXPIRES)
		use = atomic_load_explicit(&slot->use, memory_order_acquire);
	/* The fields were this life's. */
	return atomic_load_explicit(&slot->ctl, memory_order_relaxed) == *ctl &&
	       !kvh_slot_expired(&core->area, *ctl, use, now_unit);
}

struct kvh_core_ref kvh_core_find(const struct kvh_core *core, const struct kvh_stored_key *key,
                                  uint32_t skip, uint64_t now_unit)
{
	struct kvh_core_ref ref = {.slot = key->likely_slot};
	struct kvh_index_search search;

	/* The record alone says whose it is: no second walk through the index. */
	if (ref.slot != KVH_NONE && !key->text_bytes && !skip &&
	    slot_is_object(core, ref.slot, key, now_unit, &ref.ctl))
		return ref;
	kvh_index_begin(&core->area, key->hash, &search);
	while ((ref.slot = kvh_index_next(&core->area, &search)) != KVH_NONE)
		if (slot_is_object(core, ref.slot, key, now_unit, &ref.ctl) && skip-- == 0)
			return ref;
	return ref;
}

void kvh_core_find_all(const struct kvh_core *core, const struct kvh_stored_key *keys, size_t count,
                       uint64_t now_unit, struct kvh_core_ref *refs)
{
	for (size_t i = 0; i < count; i++)
		refs[i] = kvh_core_find(core, &keys[i], 0, now_unit);
}

/* ---- pins ------------------------------------------------------------------------------ */

/* Pinned for good: the slot is what was found, and its record is whole (S-15). */
static bool pin_took(const struct kvh_core *core, const struct kvh_core_ref *ref)
{
	const struct kvh_slot *slot = &core->area.slots[ref->slot];

	return atomic_load_explicit(&slot->ctl, memory_order_acquire) == ref->ctl &&
	       atomic_load_explicit(&slot->check, memory_order_relaxed) ==
	               kvh_slot_check(slot, kvh_ctl_generation(ref->ctl));
}

/*
 * Settles one pin after the fence: another object of the same digest is tried next, one that left
 * meanwhile is looked for once more.
 */
static struct kvh_core_ref settle(struct kvh_core *core, _Atomic uint32_t *pin,
                                  const struct kvh_stored_key *key, struct kvh_core_ref ref,
                                  uint64_t now_unit)
{
	uint32_t skip = 0;
	bool again = false;

	while (ref.slot != KVH_NONE) {
		if (pin_took(core, &ref)) {
			if (kvh_slot_has_text(&core->area, &core->area.slots[ref.slot], key))
				return ref;
			skip++;
		} else {
			if (again)
				break;
			again = true;
		}
		ref = kvh_core_find(core, key, skip, now_unit);
		if (ref.slot == KVH_NONE)
			break;
		atomic_store_explicit(pin, ref.slot + 1, memory_order_relaxed);
		kvh_fence_full();
	}
	return (struct kvh_core_ref){.slot = KVH_NONE};
}

bool kvh_core_pin(struct kvh_core *core, const struct kvh_stored_key *keys, size_t count,
                  uint64_t now_unit, struct kvh_pins *pins)
{
	struct kvh_pin_block *block;
	uint32_t pinned = 0;

	pins->block = kvh_pin_block_take(&core->area, core->session);
	if (pins->block == KVH_NONE)
		return false;
	block = kvh_pin_block(&core->area, core->session, pins->block);
	for (size_t i = 0; i < count; i++) {
		pins->refs[i] = kvh_core_find(core, &keys[i], 0, now_unit);
		if (pins->refs[i].slot != KVH_NONE)
			atomic_store_explicit(&block->slot_plus_1[pinned++], pins->refs[i].slot + 1,
			                      memory_order_relaxed);
	}
	KVH_CRASH_POINT(POOL_PIN);
	kvh_fence_full();
	pinned = 0;
	for (size_t i = 0; i < count; i++)
		if (pins->refs[i].slot != KVH_NONE)
			pins->refs[i] = settle(core, &block->slot_plus_1[pinned++], &keys[i],
			                       pins->refs[i], now_unit);
	return true;
}

void kvh_core_unpin(struct kvh_core *core, struct kvh_pins *pins)
{
	kvh_pin_block_give(&core->area, core->session, pins->block);
}

bool kvh_core_pin_holds(struct kvh_core *core, const struct kvh_core_ref *ref)
{
	uint64_t ctl = atomic_load_explicit(&core->area.slots[ref->slot].ctl, memory_order_acquire);

	/* DYING for a moment: an eviction that will meet the pin and take it back. */
	if (kvh_ctl_generation(ctl) == kvh_ctl_generation(ref->ctl) &&
	    kvh_ctl_state(ctl) != KVH_SLOT_FREE)
		return true;
	atomic_fetch_add(&core->area.fixed->tally.broken_pins, 1);
	return false;
}

bool kvh_core_has(struct kvh_core *core, const struct kvh_stored_key *key, uint64_t now_unit,
                  struct kvh_core_ref *ref)
{
	struct kvh_pins pins;

	if (!key->text_bytes) {
		*ref = kvh_core_find(core, key, 0, now_unit);
		return true;
	}
	/* Its text lies in the extent, which only a pin keeps. */
	if (!kvh_core_pin(core, key, 1, now_unit, &pins))
		return false;
	*ref = pins.refs[0];
	kvh_core_unpin(core, &pins);
	return true;
}
