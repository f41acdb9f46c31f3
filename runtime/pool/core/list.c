/* SPDX-License-Identifier: Apache-2.0 */
/* Walking over the slots, with one pin. */
#include "pool/core/list.h"

#include "base/size.h"
#include "pool/core/sessions.h"

enum {
	LOOKS = 2 /* an eviction that met a pin takes itself back */
};

static _Atomic uint32_t *pin_of(struct kvh_core *core, const struct kvh_core_walk *walk)
{
	return &kvh_pin_block(&core->area, core->session, walk->block)->slot_plus_1[0];
}

static void let_go(struct kvh_core *core, struct kvh_core_walk *walk)
{
	walk->ref.slot = KVH_NONE;
	/* Whoever sees the pin gone sees the reads done. */
	atomic_store_explicit(pin_of(core, walk), 0, memory_order_release);
}

bool kvh_core_walk_begin(struct kvh_core *core, struct kvh_core_walk *walk, uint32_t slot)
{
	*walk = (struct kvh_core_walk){.slot = slot, .ref = {.slot = KVH_NONE}};
	walk->block = kvh_pin_block_take(&core->area, core->session);
	return walk->block != KVH_NONE;
}

void kvh_core_walk_end(struct kvh_core *core, struct kvh_core_walk *walk)
{
	walk->ref.slot = KVH_NONE;
	kvh_pin_block_give(&core->area, core->session, walk->block);
}

/* The protocol of kvh_core_pin: pin, fence, and VALID as before means that it stays. */
static bool pin(struct kvh_core *core, struct kvh_core_walk *walk, uint32_t index)
{
	const struct kvh_slot *slot = &core->area.slots[index];

	for (unsigned look = 0; look < LOOKS; look++) {
		uint64_t ctl = atomic_load_explicit(&slot->ctl, memory_order_acquire);

		if (kvh_ctl_state(ctl) == KVH_SLOT_FREE || kvh_ctl_state(ctl) == KVH_SLOT_RESERVED)
			break;
		atomic_store_explicit(pin_of(core, walk), index + 1, memory_order_relaxed);
		kvh_fence_full();
		if (kvh_ctl_state(ctl) != KVH_SLOT_VALID ||
		    atomic_load_explicit(&slot->ctl, memory_order_acquire) != ctl)
			continue;
		walk->ref = (struct kvh_core_ref){.slot = index, .ctl = ctl};
		return true;
	}
	return false;
}

/* Whether the pinned slot holds what the walk tells of. */
static bool is_there(const struct kvh_core *core, struct kvh_core_walk *walk, uint64_t now_unit)
{
	const struct kvh_slot *slot = &core->area.slots[walk->ref.slot];
	uint64_t use = atomic_load_explicit(&slot->use, memory_order_relaxed);

	walk->good = kvh_slot_is_good(&core->area, slot, walk->ref.ctl);
	return !kvh_slot_expired(&core->area, walk->ref.ctl, use, now_unit);
}

bool kvh_core_walk_next(struct kvh_core *core, struct kvh_core_walk *walk, uint64_t now_unit)
{
	let_go(core, walk);
	for (unsigned i = 0; i < KVH_TURN_KEYS_MAX && !kvh_core_walk_over(core, walk); i++) {
		if (pin(core, walk, walk->slot++) && is_there(core, walk, now_unit))
			return true;
		let_go(core, walk);
	}
	return false;
}

/* ---- telling --------------------------------------------------------------------------- */

static void tell_key(const struct kvh_core *core, const struct kvh_core_walk *walk,
                     uint8_t hash[KVH_KEY_HASH_BYTES_MAX], struct kvh_key *key)
{
	const struct kvh_area *area = &core->area;
	const struct kvh_slot *slot = &area->slots[walk->ref.slot];

	*key = (struct kvh_key){
		.hash = hash,
		.prefix_id = atomic_load_explicit(&slot->prefix_id, memory_order_relaxed)};
	/* Where its text would lie is what a bad record can't say. */
	if (walk->good ||
	    (key->prefix_id < KVH_PREFIXES_MAX && kvh_slot_text_bytes(area, slot) == 0))
		key->hash_bytes = kvh_slot_hash(area, slot, hash);
	if (key->hash_bytes == 0)
		*key = (struct kvh_key){.prefix_id = KVH_NONE};
}

/* Whole seconds until a time unit begins; 0: it has begun. */
static uint64_t seconds_until(uint64_t unit, uint64_t now_ns)
{
	uint64_t until_ns = unit * KVH_TIME_UNIT_NS;

	return until_ns > now_ns ? kvh_div_up(until_ns - now_ns, UINT64_C(1000000000)) : 0;
}

void kvh_core_walk_tell(const struct kvh_core *core, const struct kvh_core_walk *walk,
                        uint64_t now_ns, uint8_t hash[KVH_KEY_HASH_BYTES_MAX],
                        struct kvh_listed *listed)
{
	const struct kvh_slot *slot = &core->area.slots[walk->ref.slot];
	uint64_t use = atomic_load_explicit(&slot->use, memory_order_relaxed);
	uint64_t uses = atomic_load_explicit(&core->area.super->use_counter, memory_order_relaxed);
	uint32_t flags = kvh_ctl_flags(walk->ref.ctl);
	uint64_t seconds_left = 0;

	if (use & 0xffff)
		seconds_left = seconds_until(kvh_until_unit(&core->area, use), now_ns);
	*listed = (struct kvh_listed){
		.bytes = atomic_load_explicit(&slot->length_bytes, memory_order_relaxed),
		.uses_since = uses > use >> 16 ? uses - (use >> 16) : 0,
		.keep_seconds = flags & KVH_SLOT_EXPIRES ? 0 : seconds_left,
		.expire_seconds = flags & KVH_SLOT_EXPIRES ? seconds_left : 0,
		.priority = flags & KVH_SLOT_PRIORITY_MASK,
		.flags = (flags & KVH_SLOT_GROUP ? KVH_LISTED_LIFECYCLE_GROUP : 0u) |
	                 (walk->good ? 0u : KVH_LISTED_BAD_RECORD),
	};
	tell_key(core, walk, hash, &listed->key);
}
