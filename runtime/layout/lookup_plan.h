/* SPDX-License-Identifier: Apache-2.0 */
/* What a lookup asks the store, in order, and what follows from the answers. No I/O. */
#ifndef KVH_LAYOUT_LOOKUP_PLAN_H
#define KVH_LAYOUT_LOOKUP_PLAN_H

#include "layout/coordinator.h"

/* One key to ask for: prefix of (group, name_space), hash number hash_index. */
struct kvh_lookup_candidate {
	uint32_t group;
	uint32_t name_space; /* 0 .. the group's name_space_counts - 1; see kvh_key_ranks_at */
	uint64_t hash_index;
	size_t slot; /* where the answer goes */
};

/* Of one group: hashes step - 1, 2 * step - 1, ...; slot_count of them. */
struct kvh_lookup_slots {
	uint64_t step_hashes;
	uint64_t slot_count;
	size_t first_slot;
	uint32_t name_space_count;
};

/*
 * Zero-initialise before first use; reusable, memory only grows. One thread at a time. A slot is 1
 * while every answer for its (group, hash) has been yes, 0 when one was no or it was never asked.
 */
struct kvh_lookup_plan {
	const struct kvh_coordinator *coordinator; /* lent */
	uint64_t token_count;                      /* of the request */
	uint64_t aligned_tokens;                   /* the n of R-40: nothing beyond is asked for */
	size_t hash_count;
	size_t candidate_count; /* of a full enumeration */
	uint32_t group_count;
	struct kvh_lookup_slots group[KVH_GROUPS_MAX];
	uint8_t *slots; /* owned */
	size_t slots_bytes;
	struct kvh_masks masks;
};

/*
 * Plans a lookup of token_count tokens. name_space_counts: borrowed, per group how many rank
 * namespaces must hold a chunk (kvh_key_ranks_count; not read for groups that opt out). Until
 * answered otherwise, every candidate counts as present: answer each of them, or take no result.
 * KVH_INVALID_PARAMS: more than KVH_TOKENS_MAX tokens to look for. KVH_NO_MEMORY. The plan is then
 * empty.
 */
kvh_status kvh_lookup_plan_make(struct kvh_lookup_plan *plan,
                                const struct kvh_coordinator *coordinator, uint64_t token_count,
                                size_t hash_count, const uint32_t *name_space_counts);
void kvh_lookup_plan_fini(struct kvh_lookup_plan *plan);

/* Where an enumeration is. Zero-initialise. */
struct kvh_lookup_cursor {
	uint64_t slot;
	uint32_t group;
	uint32_t name_space;
};

/*
 * Writes the next candidates, at most capacity, and returns how many; 0: there are no more. Order:
 * group by group, ascending hashes, then namespaces.
 */
size_t kvh_lookup_plan_next(const struct kvh_lookup_plan *plan, struct kvh_lookup_cursor *cursor,
                            struct kvh_lookup_candidate *candidates, size_t capacity);

/* The store's answer for one candidate. */
static inline void kvh_lookup_plan_answer(struct kvh_lookup_plan *plan,
                                          const struct kvh_lookup_candidate *candidate,
                                          bool present)
{
	plan->slots[candidate->slot] &= present;
}

/* Hit length and tail boundaries by the answers; sets hit_tokens, tail_keys and tail_key_count
 * only. */
void kvh_lookup_plan_result(const struct kvh_lookup_plan *plan, struct kvh_lookup_result *result);

#endif
