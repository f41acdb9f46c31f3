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

uint32_t kvh_slot_check(const struct kvh_slot *slot, uint64_t generation)
{
	uint64_t place = (uint64_t)atomic_load_explicit(&slot->prefix_id, memory_order_relaxed)
	                         << 32 |
	                 atomic_load_explicit(&slot->extent_unit, memory_order_relaxed);
	uint64_t word[KVH_STORED_WORDS], check;

	for (unsigned i = 0; i < KVH_STORED_WORDS; i++)
		word[i] = atomic_load_explicit(&slot->word[i], memory_order_relaxed);
	check = kvh_mix64(word[0] ^ UINT64_C(0x2545f4914f6cdd1d),
	                  word[1] ^ UINT64_C(0x9e3779b97f4a7c15)) ^
	        kvh_mix64(word[2] ^ UINT64_C(0xbf58476d1ce4e5b9),
	                  word[3] ^ UINT64_C(0x94d049bb133111eb));
	check = kvh_mix64(check ^ place, generation ^ UINT64_C(0xd6e8feb86659fd93));
	return (uint32_t)kvh_mix64(
		check ^ atomic_load_explicit(&slot->length_bytes, memory_order_relaxed),
		UINT64_C(0xff51afd7ed558ccd));
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
	uint64_t ctl;

	if (slot >= area->geometry.slot_count)
		return KVH_NONE;
	/* Whatever a damaged file has here, it was in no rebuild (S-15). */
	ctl = atomic_load_explicit(&area->slots[slot].ctl, memory_order_relaxed);
	if (kvh_ctl_state(ctl) != KVH_SLOT_FREE)
		atomic_store(&area->slots[slot].ctl, kvh_ctl_free(ctl));
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
