/* SPDX-License-Identifier: Apache-2.0 */
/* Slot records: the control word and its arrows (S-2), the check word, age and time. */
#ifndef KVH_POOL_CORE_SLOTS_H
#define KVH_POOL_CORE_SLOTS_H

#include "base/lock.h"
#include "pool/core/area.h"

/* ctl = generation 40 | owner 12 | state 4 | flags 8. The owner is a session's index + 1. */
enum kvh_slot_state {
	KVH_SLOT_FREE = 0,
	KVH_SLOT_RESERVED = 1,
	KVH_SLOT_VALID = 2,
	KVH_SLOT_DYING = 3
};

enum {
	KVH_SLOT_PRIORITY_MASK = 3,
	KVH_SLOT_EXPIRES = 1 << 2, /* until is an expiry, else it is kept until then */
	KVH_SLOT_DMA = 1 << 3,     /* a device may write the extent after its writer died */
	KVH_SLOT_GROUP = 1 << 4,   /* evicted together with its lifecycle group */
	/* Given up by its writer, who had no time for the lock: whoever holds it next frees it. */
	KVH_SLOT_ABANDONED = 1 << 5,
	/* Goes with RESERVED: no one damaged byte makes an object of unwritten space (S-15). */
	KVH_SLOT_UNWRITTEN = 1 << 7
};

static inline uint64_t kvh_ctl_make(uint64_t generation, uint32_t owner, enum kvh_slot_state state,
                                    uint32_t flags)
{
	return generation << 24 | (uint64_t)owner << 12 | (uint64_t)state << 8 | flags;
}

static inline uint64_t kvh_ctl_generation(uint64_t ctl)
{
	return ctl >> 24;
}

static inline uint32_t kvh_ctl_owner(uint64_t ctl)
{
	return (uint32_t)(ctl >> 12) & 0xfff;
}

static inline uint32_t kvh_ctl_state(uint64_t ctl)
{
	return (uint32_t)(ctl >> 8) & 0xf;
}

static inline uint32_t kvh_ctl_flags(uint64_t ctl)
{
	return (uint32_t)ctl & 0xff;
}

/* The ctl of the next life of this slot. */
static inline uint64_t kvh_ctl_free(uint64_t ctl)
{
	return kvh_ctl_make((kvh_ctl_generation(ctl) + 1) & ((UINT64_C(1) << 40) - 1), 0,
	                    KVH_SLOT_FREE, 0);
}

static inline uint64_t kvh_ctl_with_state(uint64_t ctl, enum kvh_slot_state state)
{
	return (ctl & ~UINT64_C(0xf00)) | (uint64_t)state << 8;
}

/* One arrow. False: the slot was not in the state from, nothing changed. */
static inline bool kvh_slot_move(struct kvh_slot *slot, uint64_t from, uint64_t to)
{
	return atomic_compare_exchange_strong_explicit(&slot->ctl, &from, to, memory_order_seq_cst,
	                                               memory_order_relaxed);
}

/* Order all loads and stores before against all after; gcc's TSan only models the atomics. */
static inline void kvh_fence_full(void)
{
#pragma GCC diagnostic push
#ifndef __clang__
#pragma GCC diagnostic ignored "-Wtsan"
#endif
	atomic_thread_fence(memory_order_seq_cst);
#pragma GCC diagnostic pop
}

/* ---- time: 16 s units ------------------------------------------------------------------ */

enum {
	KVH_TIME_SPAN_UNITS = 32768 /* keep and expiry reach at most this far, 6 days */
};

#define KVH_TIME_UNIT_NS UINT64_C(16000000000)

static inline uint64_t kvh_time_unit(uint64_t now_ns)
{
	return now_ns / KVH_TIME_UNIT_NS;
}

/* The unit that begins at or after now + seconds, at most KVH_TIME_SPAN_UNITS ahead. */
uint64_t kvh_time_until(uint64_t now_ns, uint64_t seconds);

/*
 * Moves the base of the 16-bit times when it lies far back, so that none is ever read a round
 * late. Any thread, no lock: a passed time is pulled to the new base first, which doesn't change
 * what it says.
 */
void kvh_times_rebase(struct kvh_area *area, uint64_t now_ns);

/* use = last use 48 | until code 16. A code is never 0, so that 0 says "none". */
static inline uint64_t kvh_until_code(uint64_t until_unit)
{
	return until_unit % 65535 + 1;
}

/* UINT64_MAX: none. */
static inline uint64_t kvh_until_unit(const struct kvh_area *area, uint64_t use)
{
	uint64_t base = atomic_load_explicit(&area->super->time_base, memory_order_acquire);
	uint64_t code = use & 0xffff;

	if (!code)
		return UINT64_MAX;
	/* The one unit in [base, base + 65535) with this code. */
	return base + (code - 1 + 65535 - base % 65535) % 65535;
}

/* ---- age ------------------------------------------------------------------------------- */

/*
 * Who goes first: expired objects, then by priority, then what is kept by priority (S-14: kept
 * objects go last); the longest unused first.
 */
static inline uint64_t kvh_slot_rank(const struct kvh_area *area, uint64_t ctl, uint64_t use,
                                     uint64_t now_unit)
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

static inline uint64_t kvh_rank_level(uint64_t rank)
{
	return rank >> 48;
}

static inline bool kvh_slot_expired(const struct kvh_area *area, uint64_t ctl, uint64_t use,
                                    uint64_t now_unit)
{
	return (kvh_ctl_flags(ctl) & KVH_SLOT_EXPIRES) && kvh_until_unit(area, use) <= now_unit;
}

/* ---- records --------------------------------------------------------------------------- */

/* A key as slots hold it. */
struct kvh_stored_key {
	uint64_t word[KVH_STORED_WORDS];
	uint64_t hash; /* where the index looks; tag in the high half */
	uint32_t prefix_id;
	uint32_t likely_slot; /* where it was a moment ago; KVH_NONE: unknown */
	uint32_t text_bytes;  /* above 0: word holds a digest, the text lies after the payload */
	const uint8_t *text;  /* borrowed */
};

/*
 * Without the lock it holds only if ctl is the same before and after: a field of another life comes
 * with that life's ctl (acquire here, release in kvh_slot_fill).
 */
static inline bool kvh_slot_has_key(const struct kvh_slot *slot, const struct kvh_stored_key *key)
{
	uint64_t differ = 0;

	for (unsigned i = 0; i < KVH_STORED_WORDS; i++)
		differ |= atomic_load_explicit(&slot->word[i], memory_order_acquire) ^ key->word[i];
	return !differ &&
	       atomic_load_explicit(&slot->prefix_id, memory_order_acquire) == key->prefix_id;
}

/* Over the generation and every field that says where the bytes are and whose. */
uint32_t kvh_slot_check(const struct kvh_slot *slot, uint64_t generation);

/* Fills a FREE slot's fields, check word last. Lock held. */
void kvh_slot_fill(struct kvh_slot *slot, const struct kvh_stored_key *key, uint32_t extent_unit,
                   uint32_t length_bytes) KVH_REQUIRES(kvh_role_pool);

/* Slots from here on were never used. Bounded: the word may come from a file (S-15). */
static inline uint32_t kvh_slots_ever(const struct kvh_area *area)
{
	uint32_t ever = atomic_load_explicit(&area->super->slots_ever, memory_order_acquire);

	return ever < area->geometry.slot_count ? ever : area->geometry.slot_count;
}

/* Takes and gives back free slots. Lock held. KVH_NONE: all are used. */
uint32_t kvh_slots_take(struct kvh_area *area) KVH_REQUIRES(kvh_role_pool);
void kvh_slots_give(struct kvh_area *area, uint32_t slot) KVH_REQUIRES(kvh_role_pool);

#endif
