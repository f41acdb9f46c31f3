/* SPDX-License-Identifier: Apache-2.0 */
/* The model's longest-hit search (C-2, C-3, C-10 to C-23) and the load mask (C-30). */
#include "model_pure.h"

#include <string.h>

/* Groups with equal kind, block size and window, matched as one (C-2). */
struct spec {
	const struct pure_group *like;
	size_t groups[TRACE_MAX_GROUPS];
	size_t group_count;
	bool flagged;
	bool searched;
	bool verified;
	int64_t tokens; /* of the last search */
	char *mask;     /* of the last search; one character a chunk */
};

struct search {
	struct arena *arena;
	const struct pure_setup *setup;
	const struct pure_present *present;
	int64_t unit; /* A */
	struct spec specs[TRACE_MAX_GROUPS];
	size_t spec_count;
};

int64_t model_alignment(const struct pure_setup *setup)
{
	return setup->partial_hash_hits ? setup->hash_block_size : setup->lcm_block_size;
}

static bool any_flagged(const struct pure_setup *setup)
{
	for (size_t g = 0; g < setup->group_count; g++)
		if (setup->groups[g].participates && setup->groups[g].eagle)
			return true;
	return false;
}

bool model_flagged(const struct pure_setup *setup, size_t group)
{
	if (setup->use_eagle && !any_flagged(setup))
		return true;
	return setup->groups[group].eagle;
}

int64_t model_window_need(const struct pure_group *group, bool drop)
{
	return ceil_div(group->window - 1, group->block_size) + (drop ? 1 : 0);
}

static bool same_spec(const struct pure_group *a, const struct pure_group *b)
{
	bool windowed = a->kind == GROUP_SLIDING_WINDOW || a->kind == GROUP_CHUNKED_LOCAL;

	return a->kind == b->kind && a->block_size == b->block_size &&
	       (!windowed || a->window == b->window);
}

static void add_to_specs(struct search *search, size_t group)
{
	const struct pure_group *like = &search->setup->groups[group];
	struct spec *spec = NULL;

	for (size_t s = 0; s < search->spec_count && spec == NULL; s++)
		if (same_spec(search->specs[s].like, like))
			spec = &search->specs[s];
	if (spec == NULL) {
		spec = &search->specs[search->spec_count++];
		spec->like = like;
	}
	spec->groups[spec->group_count++] = group;
	/* C-21: nothing of a mamba spec is ever dropped. */
	if (like->kind != GROUP_MAMBA && model_flagged(search->setup, group))
		spec->flagged = true;
}

/* Full attention first, otherwise in order of appearance. */
static void collect_specs(struct search *search)
{
	for (int others = 0; others < 2; others++)
		for (size_t g = 0; g < search->setup->group_count; g++) {
			const struct pure_group *group = &search->setup->groups[g];

			if (group->participates && (group->kind != GROUP_FULL) == (others == 1))
				add_to_specs(search, g);
		}
}

/* The prefix of `tokens` (a multiple of the hash block) is held by every group of the spec. */
static bool holds(const struct search *search, const struct spec *spec, int64_t tokens)
{
	int64_t hash = tokens / search->setup->hash_block_size - 1;

	if (hash < 0 || (size_t)hash >= search->present->hash_count)
		return false;
	for (size_t i = 0; i < spec->group_count; i++) {
		const bool *held = search->present->by_group[spec->groups[i]];

		if (held != NULL && !held[hash])
			return false;
	}
	return true;
}

static void set_result(struct search *search, struct spec *spec, int64_t tokens)
{
	int64_t chunks = ceil_div(tokens, spec->like->block_size);

	spec->tokens = tokens;
	spec->mask = arena_take(search->arena, (size_t)chunks + 1, 1);
	memset(spec->mask, '0', (size_t)chunks);
}

static void need_chunks(struct spec *spec, int64_t first, int64_t end)
{
	for (int64_t i = first; i < end; i++)
		spec->mask[i] = '1';
}

/* C-10 */
static void search_full(struct search *search, struct spec *spec, int64_t max_len, bool drop)
{
	int64_t bs = spec->like->block_size;
	int64_t hb = search->setup->hash_block_size;
	int64_t tokens = 0;

	while (tokens + bs <= max_len && holds(search, spec, tokens + bs))
		tokens += bs;
	if (search->unit < bs) {
		for (int64_t inner = tokens + bs - hb; inner > tokens; inner -= hb) {
			if (inner <= max_len && holds(search, spec, inner)) {
				tokens = inner;
				break;
			}
		}
	}
	if (drop && tokens > 0)
		tokens -= search->unit < bs ? search->unit : bs;
	set_result(search, spec, floor_to(tokens, search->unit));
	need_chunks(spec, 0, ceil_div(spec->tokens, bs));
}

/* C-11: `first` and `end` of the run of chunks that makes the hit, before any drop. */
static void find_window_run(const struct search *search, const struct spec *spec, int64_t max_len,
                            bool drop, int64_t *first, int64_t *end)
{
	int64_t bs = spec->like->block_size;
	int64_t need = model_window_need(spec->like, drop);
	int64_t run = 0;

	for (int64_t i = max_len / bs - 1; i >= 0; i--) {
		int64_t end_after_drop = (drop ? i : i + 1) * bs;

		if (!holds(search, spec, (i + 1) * bs)) {
			run = 0;
			continue;
		}
		if (run == 0 && bs != search->unit && end_after_drop % search->unit != 0)
			continue;
		run++;
		if (run >= need) {
			*first = i;
			*end = i + run;
			return;
		}
	}
	while (bs != search->unit && run * bs % search->unit != 0)
		run--;
	*first = 0;
	*end = run;
}

static void search_window(struct search *search, struct spec *spec, int64_t max_len, bool drop)
{
	int64_t bs = spec->like->block_size;
	int64_t first, end;

	find_window_run(search, spec, max_len, drop, &first, &end);
	if (drop && end > 0) {
		end--;
		while (bs != search->unit && end * bs % search->unit != 0)
			end--;
	}
	set_result(search, spec, end * bs);
	need_chunks(spec, first, end);
}

/* C-12 */
static void search_mamba(struct search *search, struct spec *spec, int64_t max_len)
{
	int64_t bs = spec->like->block_size;
	int64_t step = search->unit < bs ? search->setup->hash_block_size : bs;
	int64_t tokens = floor_to(max_len, step);

	while (tokens > 0 && (tokens % search->unit != 0 || !holds(search, spec, tokens)))
		tokens -= step;
	set_result(search, spec, tokens);
	if (tokens > 0)
		need_chunks(spec, ceil_div(tokens, bs) - 1, ceil_div(tokens, bs));
}

/* C-13: what lies before the attention chunk that max_len falls in is not looked at. */
static void search_local(struct search *search, struct spec *spec, int64_t max_len)
{
	int64_t bs = spec->like->block_size;
	int64_t first = floor_to(max_len, spec->like->window) / bs;
	int64_t end = first;

	while ((end + 1) * bs <= max_len && holds(search, spec, (end + 1) * bs))
		end++;
	set_result(search, spec, end * bs);
	need_chunks(spec, first, end);
}

static void search_spec(struct search *search, struct spec *spec, int64_t max_len, bool drop)
{
	spec->searched = true;
	switch (spec->like->kind) {
	case GROUP_FULL:
		search_full(search, spec, max_len, drop);
		break;
	case GROUP_SLIDING_WINDOW:
		search_window(search, spec, max_len, drop);
		break;
	case GROUP_MAMBA:
		search_mamba(search, spec, max_len);
		break;
	case GROUP_CHUNKED_LOCAL:
		search_local(search, spec, max_len);
		break;
	}
}

/* C-21: how far beyond the current length a flagged spec looks before its drop. */
static int64_t eagle_margin(const struct search *search, const struct spec *spec)
{
	bool inner = search->setup->partial_hash_hits && spec->like->kind == GROUP_FULL &&
	             spec->like->block_size > search->setup->hash_block_size;

	return inner ? search->setup->hash_block_size : spec->like->block_size;
}

static void forget_verified(struct search *search)
{
	for (size_t s = 0; s < search->spec_count; s++)
		search->specs[s].verified = false;
}

/* One spec's turn at the current length; returns the length after it. */
static int64_t take_turn(struct search *search, struct spec *spec, int64_t length)
{
	int64_t hashed = (int64_t)search->present->hash_count * search->setup->hash_block_size;
	bool drop = spec->flagged && !spec->verified;
	int64_t max_len = length;

	if (spec->like->kind == GROUP_FULL && spec->searched)
		return length < spec->tokens ? length : spec->tokens;
	if (drop) {
		max_len = length + eagle_margin(search, spec);
		if (max_len > hashed)
			max_len = hashed;
	}
	search_spec(search, spec, max_len, drop);
	if (drop)
		spec->verified = true;
	else if (spec->tokens < length)
		forget_verified(search);
	return spec->tokens < length ? spec->tokens : length;
}

static int64_t search_all(struct search *search, int64_t max_len)
{
	bool one_round = search->spec_count == 2 && search->specs[0].like->kind == GROUP_FULL;
	int64_t length = max_len;

	if (search->spec_count == 1) {
		search_spec(search, &search->specs[0], max_len, search->specs[0].flagged);
		return search->specs[0].tokens;
	}
	for (;;) {
		int64_t before = length;

		for (size_t s = 0; s < search->spec_count; s++)
			length = take_turn(search, &search->specs[s], length);
		if (length >= before || one_round)
			return length;
	}
}

void model_find_hit(struct arena *arena, const struct pure_setup *setup,
                    const struct pure_present *present, int64_t max_len, struct pure_hit *out)
{
	struct search search = {.arena = arena, .setup = setup, .present = present};

	search.unit = model_alignment(setup);
	collect_specs(&search);
	out->tokens = search.spec_count == 0 ? 0 : search_all(&search, max_len);
	for (size_t g = 0; g < setup->group_count; g++)
		out->needed.by_group[g] = "";
	for (size_t s = 0; s < search.spec_count; s++) {
		struct spec *spec = &search.specs[s];
		size_t chunks = (size_t)ceil_div(out->tokens, spec->like->block_size);

		/* C-22 */
		if (spec->like->kind == GROUP_FULL && strlen(spec->mask) > chunks)
			spec->mask[chunks] = '\0';
		for (size_t i = 0; i < spec->group_count; i++)
			out->needed.by_group[spec->groups[i]] = spec->mask;
	}
}

bool model_load_mask(struct arena *arena, const struct pure_setup *setup, size_t hash_count,
                     int64_t token_len, struct pure_masks *out)
{
	struct pure_present everything = {.hash_count = hash_count};
	struct pure_setup undropped = *setup;
	struct pure_hit hit;

	undropped.use_eagle = false;
	for (size_t g = 0; g < setup->group_count; g++)
		undropped.groups[g].eagle = false;
	model_find_hit(arena, &undropped, &everything, token_len, &hit);
	*out = hit.needed;
	return true;
}
