/* SPDX-License-Identifier: Apache-2.0 */
/* The model's store and lookup masks (C-31 to C-36) and the lookup (R-40, C-40). */
#include "model_pure.h"

#include <string.h>

struct boundaries {
	int64_t at[2];
	size_t count;
};

/* C-36: any flagged group counts, mamba too. */
static struct boundaries replay_boundaries(const struct pure_setup *setup,
                                           const struct pure_store_mask *in)
{
	int64_t lcm = setup->lcm_block_size;
	bool eagle = setup->use_eagle;
	struct boundaries found = {0};

	for (size_t g = 0; g < setup->group_count; g++)
		eagle = eagle || setup->groups[g].eagle;
	if (!in->has_prompt)
		return found;
	found.at[0] = in->prompt - 1;
	found.count = 1;
	if (eagle) {
		found.at[0] = floor_to(in->prompt - 1, lcm) - lcm;
		found.at[1] = floor_to(in->prompt, lcm) - lcm;
		found.count = 2;
		for (size_t i = 0; i < 2; i++)
			if (found.at[i] < 0)
				found.at[i] = 0;
	}
	return found;
}

/* C-34, the regular tails; `per` and `need` in chunks. */
static bool keeps_regular(int64_t chunk, int64_t shift, int64_t per, int64_t need)
{
	return per > 0 && chunk >= shift && (chunk - shift) % per >= per - need;
}

static char *window_mask(struct arena *arena, const struct pure_setup *setup, size_t group,
                         const struct pure_store_mask *in)
{
	const struct pure_group *spec = &setup->groups[group];
	bool flagged = model_flagged(setup, group);
	int64_t need = model_window_need(spec, flagged);
	int64_t shift = flagged ? 1 : 0;
	int64_t interval = setup->has_retention ? setup->retention_interval : setup->lcm_block_size;
	int64_t per = interval / spec->block_size;
	int64_t first = ceil_div(in->start, spec->block_size);
	int64_t end = in->token_len / spec->block_size;
	struct boundaries replay = replay_boundaries(setup, in);
	char *mask;

	if (per > 0 && need >= per)
		return NULL;
	mask = arena_take(arena, end > first ? (size_t)(end - first) + 1 : 1, 1);
	for (int64_t i = first; i < end; i++) {
		bool keep = keeps_regular(i, shift, per, need);

		for (size_t b = 0; b < replay.count && setup->has_retention; b++) {
			int64_t tail =
				floor_to(replay.at[b], setup->lcm_block_size) / spec->block_size +
				shift;

			keep = keep || (i >= tail - need && i < tail);
		}
		mask[i - first] = keep ? '1' : '0';
	}
	return mask;
}

static char *zeros(struct arena *arena, const struct pure_group *group,
                   const struct pure_store_mask *in)
{
	int64_t chunks = in->token_len / group->block_size - ceil_div(in->start, group->block_size);
	char *mask = arena_take(arena, chunks > 0 ? (size_t)chunks + 1 : 1, 1);

	if (chunks > 0)
		memset(mask, '0', (size_t)chunks);
	return mask;
}

bool model_store_mask(struct arena *arena, const struct pure_setup *setup,
                      const struct pure_store_mask *in, struct pure_masks *out)
{
	if (in->token_len % model_alignment(setup) != 0)
		return false;
	for (size_t g = 0; g < setup->group_count; g++) {
		const struct pure_group *group = &setup->groups[g];

		out->by_group[g] = NULL;
		if (!group->participates)
			out->by_group[g] = "";
		else if (group->kind == GROUP_MAMBA) /* C-32 */
			out->by_group[g] = zeros(arena, group, in);
		else if (group->kind == GROUP_SLIDING_WINDOW)
			out->by_group[g] = window_mask(arena, setup, g, in);
	}
	return true;
}

bool model_lookup_mask(struct arena *arena, const struct pure_setup *setup, int64_t token_len,
                       struct pure_masks *out)
{
	struct pure_store_mask whole = {.token_len = token_len};
	struct pure_setup dense = *setup;

	/* C-31 is silent on it; recorded: a lookup asks as if no retention interval were set. */
	dense.has_retention = false;
	if (!model_store_mask(arena, &dense, &whole, out))
		return false;
	for (size_t g = 0; g < setup->group_count; g++)
		if (setup->groups[g].participates && setup->groups[g].kind == GROUP_MAMBA)
			out->by_group[g] = NULL; /* C-35 */
	return true;
}

/* Asks for the candidates: a list of (group, hash) with one key per namespace each. */
struct asked {
	struct ints groups;
	struct ints hashes;
	struct texts keys;
};

static void ask_for(struct arena *arena, const struct pure_lookup *in, size_t group, int64_t hash,
                    struct asked *asked)
{
	ints_push(arena, &asked->groups, (int64_t)group);
	ints_push(arena, &asked->hashes, hash);
	for (size_t p = 0; p < in->prefixes[group].count; p++)
		texts_push(
			arena, &asked->keys,
			arena_text(arena, "%s@%s", in->prefixes[group].at[p], in->hashes.at[hash]));
}

static void collect_candidates(struct arena *arena, const struct pure_lookup *in, int64_t tokens,
                               struct asked *asked)
{
	const struct pure_setup *setup = &in->setup;
	struct pure_masks masks;

	model_lookup_mask(arena, setup, tokens, &masks);
	for (size_t g = 0; g < setup->group_count; g++) {
		int64_t hb = setup->hash_block_size;
		int64_t step = setup->partial_hash_hits ? hb : setup->groups[g].block_size;
		const char *mask = setup->partial_hash_hits ? NULL : masks.by_group[g];

		if (!setup->groups[g].participates)
			continue;
		for (int64_t i = 0; (i + 1) * step <= tokens; i++)
			if (mask == NULL || mask[i] == '1')
				ask_for(arena, in, g, (i + 1) * step / hb - 1, asked);
	}
}

/* False if the store failed. */
static bool fill_present(struct arena *arena, const struct pure_lookup *in,
                         const struct asked *asked, bool **held)
{
	struct ints states = {0};
	size_t key = 0;

	if (asked->keys.count == 0)
		return true;
	if (!in->exists(in->context, &asked->keys, &states))
		return false;
	for (size_t i = 0; i < asked->groups.count; i++) {
		size_t group = (size_t)asked->groups.at[i];
		bool all = true;

		for (size_t p = 0; p < in->prefixes[group].count; p++, key++)
			all = all && key < states.count && states.at[key] == 1;
		held[group][asked->hashes.at[i]] = all;
	}
	(void)arena;
	return true;
}

/* C-40 */
static void find_tails(struct arena *arena, const struct pure_setup *setup,
                       const struct pure_present *present, struct pure_lookup_result *out)
{
	int64_t hb = setup->hash_block_size;

	for (size_t g = 0; g < setup->group_count && out->hit_tokens > 0; g++) {
		int64_t bs = setup->groups[g].block_size;
		int64_t last = ceil_div(out->hit_tokens, bs) * bs;

		if (!setup->groups[g].participates)
			continue;
		if (!setup->partial_hash_hits)
			last = out->hit_tokens;
		for (int64_t end = out->hit_tokens; end <= last; end += hb) {
			size_t hash = (size_t)(end / hb - 1);

			if (hash < present->hash_count && present->by_group[g][hash]) {
				ints_push(arena, &out->tail_groups, (int64_t)g);
				ints_push(arena, &out->tail_tokens, end);
				break;
			}
		}
	}
}

void model_lookup(struct arena *arena, const struct pure_lookup *in, struct pure_lookup_result *out)
{
	const struct pure_setup *setup = &in->setup;
	int64_t hashed = (int64_t)in->hashes.count * setup->hash_block_size;
	int64_t tokens = in->token_count < hashed ? in->token_count : hashed;
	int64_t unit = model_alignment(setup);
	struct pure_present present = {.hash_count = in->hashes.count};
	bool *held[TRACE_MAX_GROUPS];
	struct asked asked = {0};
	struct pure_hit hit;

	*out = (struct pure_lookup_result){0};
	for (size_t g = 0; g < setup->group_count; g++) {
		held[g] = arena_take(arena, in->hashes.count + 1, sizeof(bool));
		present.by_group[g] = held[g];
	}
	tokens = floor_to(tokens, unit);
	collect_candidates(arena, in, tokens, &asked);
	if (!fill_present(arena, in, &asked, held))
		return;
	model_find_hit(arena, setup, &present, tokens, &hit);
	if (hit.tokens > 0 && hit.tokens == in->token_count)
		model_find_hit(arena, setup, &present, floor_to(in->token_count - 1, unit), &hit);
	out->hit_tokens = hit.tokens;
	find_tails(arena, setup, &present, out);
}
