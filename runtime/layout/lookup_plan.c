/* SPDX-License-Identifier: Apache-2.0 */
/* Candidates of a lookup, the answers to them, and the hit (R-40, C-40). */
#include "layout/lookup_plan.h"

#include <string.h>

#include "base/fault.h"
#include "layout/attention.h"

void kvh_lookup_plan_fini(struct kvh_lookup_plan *plan)
{
	kvh_masks_fini(&plan->masks);
	kvh_free(plan->slots);
	*plan = (struct kvh_lookup_plan){0};
}

/* R-40's n. */
static uint64_t aligned_tokens(const struct kvh_coordinator *coordinator, uint64_t token_count,
                               size_t hash_count)
{
	uint64_t token_limit;

	if (!__builtin_mul_overflow((uint64_t)hash_count, coordinator->hash_tokens, &token_limit) &&
	    token_limit < token_count)
		token_count = token_limit;
	return kvh_round_down(token_count, coordinator->align_tokens);
}

/* Returns the slots of all groups together: at most 64 groups of 2^30. */
static size_t place_slots(struct kvh_lookup_plan *plan, const uint32_t *name_space_counts)
{
	const struct kvh_coordinator *coordinator = plan->coordinator;
	size_t total = 0;

	for (uint32_t index = 0; index < plan->group_count; index++) {
		const struct kvh_shape *shape = &coordinator->groups[index];
		struct kvh_lookup_slots *group = &plan->group[index];

		*group = (struct kvh_lookup_slots){.first_slot = total, .step_hashes = 1};
		if (!shape->ops)
			continue;
		if (!coordinator->partial_hits)
			group->step_hashes = shape->block_tokens / coordinator->hash_tokens;
		group->slot_count =
			plan->aligned_tokens / coordinator->hash_tokens / group->step_hashes;
		group->name_space_count = name_space_counts[index];
		total += group->slot_count;
	}
	return total;
}

/* Marks what is asked for, and counts it. */
static void mark_slots(struct kvh_lookup_plan *plan)
{
	for (uint32_t index = 0; index < plan->group_count; index++) {
		const struct kvh_lookup_slots *group = &plan->group[index];
		const struct kvh_mask *mask = &plan->masks.group[index];
		size_t asked = group->slot_count;
		uint8_t *slots;

		if (!asked)
			continue;
		slots = plan->slots + group->first_slot;
		memset(slots, 1, asked);
		if (!plan->coordinator->partial_hits && !mask->all) {
			/* Without partial hits slots are chunks, and a lookup mask begins at 0. */
			asked = 0;
			memcpy(slots, mask->bits, group->slot_count);
			for (uint64_t slot = 0; slot < group->slot_count; slot++)
				asked += slots[slot];
		}
		plan->candidate_count += asked * group->name_space_count;
	}
}

static kvh_status make(struct kvh_lookup_plan *plan, const uint32_t *name_space_counts)
{
	kvh_status status = KVH_OK;

	if (plan->aligned_tokens > KVH_TOKENS_MAX)
		return KVH_INVALID_PARAMS;
	if (!kvh_bytes_reserve(&plan->slots, &plan->slots_bytes,
	                       place_slots(plan, name_space_counts)))
		return KVH_NO_MEMORY;
	if (!plan->coordinator->partial_hits)
		status = kvh_lookup_mask(plan->coordinator, plan->aligned_tokens, &plan->masks);
	if (status == KVH_OK)
		mark_slots(plan);
	return status;
}

kvh_status kvh_lookup_plan_make(struct kvh_lookup_plan *plan,
                                const struct kvh_coordinator *coordinator, uint64_t token_count,
                                size_t hash_count, const uint32_t *name_space_counts)
{
	kvh_status status;

	plan->coordinator = coordinator;
	plan->token_count = token_count;
	plan->hash_count = hash_count;
	plan->aligned_tokens = aligned_tokens(coordinator, token_count, hash_count);
	plan->candidate_count = 0;
	plan->group_count = coordinator->group_count;
	status = make(plan, name_space_counts);
	if (status != KVH_OK) {
		plan->group_count = 0;
		plan->aligned_tokens = 0;
	}
	return status;
}

/*
 * Moves to the next slot that is asked for, from where the cursor is. A slot that an answer has
 * made absent meanwhile is done with, whatever its other namespaces hold. False: no more in this
 * group.
 */
static bool seek_slot(const struct kvh_lookup_plan *plan, struct kvh_lookup_cursor *cursor)
{
	const struct kvh_lookup_slots *group = &plan->group[cursor->group];

	while (cursor->slot < group->slot_count && !plan->slots[group->first_slot + cursor->slot]) {
		cursor->slot++;
		cursor->name_space = 0;
	}
	return cursor->slot < group->slot_count && group->name_space_count;
}

size_t kvh_lookup_plan_next(const struct kvh_lookup_plan *plan, struct kvh_lookup_cursor *cursor,
                            struct kvh_lookup_candidate *candidates, size_t capacity)
{
	size_t count = 0;

	while (count < capacity && cursor->group < plan->group_count) {
		const struct kvh_lookup_slots *group = &plan->group[cursor->group];

		if (!seek_slot(plan, cursor)) {
			*cursor = (struct kvh_lookup_cursor){.group = cursor->group + 1};
			continue;
		}
		candidates[count++] = (struct kvh_lookup_candidate){
			.group = cursor->group,
			.name_space = cursor->name_space,
			.hash_index = (cursor->slot + 1) * group->step_hashes - 1,
			.slot = group->first_slot + cursor->slot};
		if (++cursor->name_space == group->name_space_count) {
			cursor->name_space = 0;
			cursor->slot++;
		}
	}
	return count;
}

/* What was not asked counts as absent. */
static bool present(void *user, uint32_t group_index, uint64_t hash_index)
{
	const struct kvh_lookup_plan *plan = user;
	const struct kvh_lookup_slots *group = &plan->group[group_index];
	uint64_t slot = (hash_index + 1) / group->step_hashes - 1;

	return (hash_index + 1) % group->step_hashes == 0 && slot < group->slot_count &&
	       plan->slots[group->first_slot + slot];
}

void kvh_lookup_plan_result(const struct kvh_lookup_plan *plan, struct kvh_lookup_result *result)
{
	const struct kvh_presence presence = {present, (void *)(uintptr_t)plan};
	uint64_t hit_tokens = 0;

	if (plan->aligned_tokens)
		kvh_coordinator_hit(plan->coordinator, &presence, plan->hash_count,
		                    plan->aligned_tokens, &hit_tokens, NULL);
	/* The engine must compute the last token itself, so the prompt is never all hit. */
	if (hit_tokens && hit_tokens == plan->token_count)
		kvh_coordinator_hit(
			plan->coordinator, &presence, plan->hash_count,
			aligned_tokens(plan->coordinator, plan->token_count - 1, plan->hash_count),
			&hit_tokens, NULL);
	result->hit_tokens = hit_tokens;
	result->tail_key_count = 0;
	for (uint32_t group = 0; group < plan->group_count; group++) {
		struct kvh_tail_key *tail = &result->tail_keys[result->tail_key_count];

		if (!kvh_tail_boundary(plan->coordinator, &presence, plan->hash_count, group,
		                       hit_tokens, &tail->tokens))
			continue;
		tail->group = group;
		result->tail_key_count++;
	}
}
