/* SPDX-License-Identifier: Apache-2.0 */
/* The longest hit of all specs together (C-20..C-23), load masks (C-30) and tail boundaries (C-40).
 */
#include "base/check.h"
#include "layout/attention.h"

/* One search for a hit: the question, and what the specs have said so far. */
struct rounds {
	struct kvh_search search;
	uint64_t hash_limit_tokens; /* where the hashes end */
	uint64_t verified_specs;    /* C-21, bit s: spec s */
	struct kvh_run runs[KVH_GROUPS_MAX];
};

static bool must_drop(const struct rounds *rounds, uint32_t index)
{
	const struct kvh_shape *shape = &rounds->search.coordinator->specs[index].shape;

	return rounds->search.presence && shape->eagle && shape->ops->drops &&
	       !(rounds->verified_specs >> index & 1);
}

/* C-21: how far a spec that will drop a block may look beyond the length. */
static uint32_t margin_tokens(const struct kvh_coordinator *coordinator,
                              const struct kvh_shape *shape)
{
	if (coordinator->partial_hits && shape->ops->inner_boundaries)
		return coordinator->hash_tokens;
	return shape->block_tokens;
}

/* Searches one spec within tokens and the margin; returns the new length. */
static uint64_t shorten(struct rounds *rounds, uint32_t index, uint64_t tokens)
{
	const struct kvh_spec *spec = &rounds->search.coordinator->specs[index];
	struct kvh_run *run = &rounds->runs[index];
	struct kvh_search search = rounds->search;
	uint64_t margin = 0;

	search.drop = must_drop(rounds, index);
	if (search.drop)
		margin = margin_tokens(search.coordinator, &spec->shape);
	search.max_tokens = rounds->hash_limit_tokens - tokens < margin ? rounds->hash_limit_tokens
	                                                                : tokens + margin;
	*run = spec->shape.ops->search(spec, &search);
	if (search.drop)
		rounds->verified_specs |= UINT64_C(1) << index;
	else if (run->tokens < tokens)
		rounds->verified_specs = 0;
	return run->tokens < tokens ? run->tokens : tokens;
}

/* C-20, several specs. Each round but the last shortens the length, so it ends. */
static uint64_t run_rounds(struct rounds *rounds)
{
	const struct kvh_coordinator *coordinator = rounds->search.coordinator;
	const bool one_is_enough = coordinator->spec_count == 2 &&
	                           coordinator->specs[0].shape.ops == &kvh_attention_full;
	uint64_t tokens = rounds->search.max_tokens;

	for (bool first = true;; first = false) {
		uint64_t before_tokens = tokens;

		for (uint32_t index = 0; index < coordinator->spec_count; index++) {
			/* A prefix of a full-attention hit is one: no need to ask again. */
			if (!first && coordinator->specs[index].shape.ops == &kvh_attention_full)
				continue;
			tokens = shorten(rounds, index, tokens);
		}
		if (tokens == before_tokens || one_is_enough)
			return tokens;
	}
}

static uint64_t search_all(struct rounds *rounds)
{
	const struct kvh_coordinator *coordinator = rounds->search.coordinator;
	struct kvh_search *search = &rounds->search;

	if (coordinator->spec_count == 0)
		return 0;
	if (coordinator->spec_count > 1)
		return run_rounds(rounds);
	search->drop = must_drop(rounds, 0);
	rounds->runs[0] = coordinator->specs[0].shape.ops->search(&coordinator->specs[0], search);
	return rounds->runs[0].tokens;
}

/*
 * C-22, C-23. At the end every spec's own length is the hit, or (full attention) a longer one that
 * is cut to it.
 */
static void set_masks(const struct rounds *rounds, uint64_t hit_tokens, struct kvh_masks *masks)
{
	const struct kvh_coordinator *coordinator = rounds->search.coordinator;

	for (uint32_t group = 0; group < coordinator->group_count; group++)
		masks->group[group] = (struct kvh_mask){.all = true};
	for (uint32_t index = 0; index < coordinator->spec_count; index++) {
		const struct kvh_spec *spec = &coordinator->specs[index];
		uint64_t first_chunk = rounds->runs[index].first_chunk;
		uint64_t end_chunk = kvh_div_up(hit_tokens, spec->shape.block_tokens);

		KVH_CHECK(first_chunk <= end_chunk);
		for (uint64_t left = spec->groups; left; left &= left - 1) {
			struct kvh_mask *mask = &masks->group[__builtin_ctzll(left)];

			mask->first_chunk = first_chunk;
			mask->count = end_chunk - first_chunk;
		}
	}
}

/* presence NULL: everything is present and no eagle block is dropped (C-30). */
static uint64_t find_hit(const struct kvh_coordinator *coordinator,
                         const struct kvh_presence *presence, size_t hash_count,
                         uint64_t max_tokens, struct kvh_masks *masks)
{
	struct rounds rounds = {.search = {.coordinator = coordinator, .presence = presence}};
	uint64_t hit_tokens;

	if (__builtin_mul_overflow((uint64_t)hash_count, coordinator->hash_tokens,
	                           &rounds.hash_limit_tokens))
		rounds.hash_limit_tokens = kvh_round_down(UINT64_MAX, coordinator->hash_tokens);
	rounds.search.max_tokens =
		max_tokens < rounds.hash_limit_tokens ? max_tokens : rounds.hash_limit_tokens;
	hit_tokens = search_all(&rounds);
	if (masks)
		set_masks(&rounds, hit_tokens, masks);
	return hit_tokens;
}

kvh_status kvh_coordinator_hit(const struct kvh_coordinator *coordinator,
                               const struct kvh_presence *presence, size_t hash_count,
                               uint64_t max_tokens, uint64_t *hit_tokens, struct kvh_masks *masks)
{
	KVH_CHECK(presence && presence->present);
	*hit_tokens = find_hit(coordinator, presence, hash_count, max_tokens, masks);
	return KVH_OK;
}

kvh_status kvh_load_mask(const struct kvh_coordinator *coordinator, size_t hash_count,
                         uint64_t token_count, struct kvh_masks *masks)
{
	find_hit(coordinator, NULL, hash_count, token_count, masks);
	return KVH_OK;
}

bool kvh_tail_boundary(const struct kvh_coordinator *coordinator,
                       const struct kvh_presence *presence, size_t hash_count, uint32_t group,
                       uint64_t hit_tokens, uint64_t *boundary_tokens)
{
	const uint32_t hash_tokens = coordinator->hash_tokens;
	const struct kvh_shape *shape;
	uint64_t hash_index, end_index;

	KVH_CHECK(group < coordinator->group_count && hit_tokens % hash_tokens == 0);
	shape = &coordinator->groups[group];
	if (hit_tokens == 0 || !shape->ops)
		return false;
	hash_index = hit_tokens / hash_tokens - 1;
	end_index = hash_index + 1;
	if (coordinator->partial_hits)
		end_index = kvh_div_up(hit_tokens, shape->block_tokens) *
		            (shape->block_tokens / hash_tokens);
	for (; hash_index < end_index && hash_index < hash_count; hash_index++) {
		if (presence->present(presence->user, group, hash_index)) {
			*boundary_tokens = (hash_index + 1) * hash_tokens;
			return true;
		}
	}
	return false;
}
