/* SPDX-License-Identifier: Apache-2.0 */
/* Slot records: check words, ranks, 16-bit times, the chain of free slots. */
#include "pool/core/slots.h"

#include "base/hash.h"

uint64_t kvh_time_until(uint64_t now_ns, uint64_t seconds)
{
	uint64_t now_unit = kvh_time_unit(now_ns);
	uint64_t limit_ns = KVH_TIME_SPAN_UNITS * KVH_TIME_UNIT_NS;
	uint64_t ns;

	if (__builtin_mul_overflow(seconds, UINT64_C(1000000000), &ns) || ns > limit_ns)
		ns = limit_ns;
	return now_unit +
	       (now_ns % KVH_TIME_UNIT_NS + ns + KVH_TIME_UNIT_NS - 1) / KVH_TIME_UNIT_NS;
}

uint64_t kvh_until_unit(const struct kvh_area *area, uint64_t use)
{
	uint64_t base = atomic_load_explicit(&area->super->time_base, memory_order_acquire);
	uint64_t code = use & 0xffff;

	if (!code)
		return UINT64_MAX;
	/* The one unit in [base, base + 65535) with this code. */
	return base + (code - 1 + 65535 - base % 65535) % 65535;
}

/* A time before `from` becomes `from`: still passed, still in order with what comes. */
static void pull_time(struct kvh_area *area, struct kvh_slot *slot, uint64_t from)
{
	uint64_t use = atomic_load_explicit(&slot->use, memory_order_relaxed);

	while ((use & 0xffff) && kvh_until_unit(area, use) < from) {
		uint64_t pulled = (use & ~UINT64_C(0xffff)) | kvh_until_code(from);

		if (atomic_compare_exchange_weak(&slot->use, &use, pulled))
			return;
	}
}

void kvh_times_rebase(struct kvh_area *area, uint64_t now_ns)
{
	uint64_t base = atomic_load(&area->super->time_base);
	uint64_t now_unit = kvh_time_unit(now_ns);

	if (now_unit < base + KVH_TIME_SPAN_UNITS / 2)
		return;
	for (uint32_t i = 0; i < kvh_slots_ever(area); i++)
		pull_time(area, &area->slots[i], now_unit);
	atomic_compare_exchange_strong(&area->super->time_base, &base, now_unit);
}

uint64_t kvh_slot_rank(const struct kvh_area *area, uint64_t ctl, uint64_t use, uint64_t now_unit)
{
	uint32_t flags = kvh_ctl_flags(ctl);
	uint64_t level = 1 + (flags & KVH_SLOT_PRIORITY_MASK);

	if (use & 0xffff) {
		bool passed = kvh_until_unit(area, use) <= now_unit;

		if (flags & KVH_SLOT_EXPIRES)
			level = passed ? 0 : level;
		else
			level += passed ? 0 : 1 + KVH_SLOT_PRIORITY_MASK;
	}
	return level << 48 | use >> 16;
}

uint32_t kvh_slot_check(const struct kvh_slot *slot, uint64_t generation)
{
	uint64_t words[KVH_STORED_WORDS + 3];

	for (unsigned i = 0; i < KVH_STORED_WORDS; i++)
		words[i] = atomic_load_explicit(&slot->word[i], memory_order_relaxed);
	words[KVH_STORED_WORDS] =
		(uint64_t)atomic_load_explicit(&slot->prefix_id, memory_order_relaxed) << 32 |
		atomic_load_explicit(&slot->extent_unit, memory_order_relaxed);
	words[KVH_STORED_WORDS + 1] =
		atomic_load_explicit(&slot->length_bytes, memory_order_relaxed);
	words[KVH_STORED_WORDS + 2] = generation;
	return (uint32_t)kvh_hash64(words, sizeof(words));
}

void kvh_slot_fill(struct kvh_slot *slot, const struct kvh_stored_key *key, uint32_t extent_unit,
                   uint32_t length_bytes)
{
	uint64_t ctl = atomic_load_explicit(&slot->ctl, memory_order_relaxed);

	/* Release: who sees a new field sees that the slot's last life ended. */
	for (unsigned i = 0; i < KVH_STORED_WORDS; i++)
		atomic_store_explicit(&slot->word[i], key->word[i], memory_order_release);
	atomic_store_explicit(&slot->prefix_id, key->prefix_id, memory_order_release);
	atomic_store_explicit(&slot->extent_unit, extent_unit, memory_order_release);
	atomic_store_explicit(&slot->length_bytes, length_bytes, memory_order_release);
	atomic_store_explicit(&slot->check, kvh_slot_check(slot, kvh_ctl_generation(ctl)),
	                      memory_order_release);
}

/* Untouched slots come last, so that a pool's memory is touched only as it fills. */
static uint32_t take_new(struct kvh_area *area)
{
	uint32_t slot = atomic_load_explicit(&area->super->slots_ever, memory_order_relaxed);

	if (slot >= area->geometry.slot_count)
		return KVH_NONE;
	atomic_store_explicit(&area->super->slots_ever, slot + 1, memory_order_release);
	kvh_count32(&area->fixed->tally.used_slots, 1);
	return slot;
}

uint32_t kvh_slots_take(struct kvh_area *area)
{
	struct kvh_tally *tally = &area->fixed->tally;
	uint32_t slot = atomic_load_explicit(&tally->free_slot, memory_order_relaxed);

	if (slot == KVH_NONE)
		return take_new(area);
	atomic_store_explicit(&tally->free_slot,
	                      atomic_load_explicit(&area->links[slot].next, memory_order_relaxed),
	                      memory_order_relaxed);
	kvh_count32(&tally->used_slots, 1);
	return slot;
}

void kvh_slots_give(struct kvh_area *area, uint32_t slot)
{
	struct kvh_tally *tally = &area->fixed->tally;

	atomic_store_explicit(&area->links[slot].next,
	                      atomic_load_explicit(&tally->free_slot, memory_order_relaxed),
	                      memory_order_relaxed);
	atomic_store_explicit(&tally->free_slot, slot, memory_order_relaxed);
	kvh_count32(&tally->used_slots, -UINT32_C(1));
}
