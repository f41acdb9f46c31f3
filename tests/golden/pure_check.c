/* SPDX-License-Identifier: Apache-2.0 */
/* Checks coordinator and lookup lines. */
#include "pure_check.h"

#include <string.h>

enum pure_line pure_line_kind(json_t *line)
{
	if (jread_present(line, "lookup_key_prefixes"))
		return PURE_LOOKUP;
	if (jread_present(line, "num_hashes") && jread_present(line, "cases"))
		return PURE_COORDINATOR;
	if (jread_present(line, "fn") && jread_present(line, "args"))
		return PURE_VECTOR;
	return PURE_NONE;
}

void pure_differs(struct arena *arena, struct pure_outcome *out, const char *what,
                  const char *recorded, const char *computed)
{
	if (out->text == NULL)
		out->text =
			arena_text(arena, "%s: recorded %s, computed %s", what, recorded, computed);
}

/* A mask as text, whether recorded as "0101", as [0,1,0,1] or as null (all). */
static const char *mask_text(struct arena *arena, json_t *mask)
{
	size_t count = json_array_size(mask);
	char *text;

	if (json_is_string(mask))
		return json_string_value(mask);
	if (!json_is_array(mask))
		return "all";
	text = arena_take(arena, count + 1, 1);
	for (size_t i = 0; i < count; i++) {
		json_t *bit = json_array_get(mask, i);

		text[i] = json_is_true(bit) || json_integer_value(bit) != 0 ? '1' : '0';
	}
	return text;
}

void pure_check_masks(struct arena *arena, json_t *recorded, const struct pure_masks *masks,
                      const char *what, struct pure_outcome *out)
{
	json_t *value;
	size_t g;

	for (g = 0; g < json_array_size(recorded); g++) {
		value = json_array_get(recorded, g);
		const char *wanted = mask_text(arena, value);
		const char *got = masks->by_group[g] == NULL ? "all" : masks->by_group[g];

		if (strcmp(wanted, got) != 0)
			pure_differs(arena, out, what, wanted, got);
	}
}

static void read_eagle(struct jread *in, json_t *line, struct pure_setup *setup)
{
	json_t *flags = jread_array(in, line, "eagle_groups");
	size_t g;

	for (g = 0; g < json_array_size(flags); g++)
		if (g < setup->group_count)
			setup->groups[g].eagle = json_integer_value(json_array_get(flags, g)) != 0;
}

void pure_read_setup(struct jread *in, json_t *line, struct pure_setup *setup)
{
	json_t *groups = jread_array(in, line, "groups");
	json_t *value;
	size_t g;

	*setup = (struct pure_setup){.lcm_block_size = jread_int(in, line, "lcm_block_size")};
	setup->hash_block_size = jread_int(in, line, "hash_block_size");
	setup->partial_hash_hits = jread_bool_or(in, line, "partial_hash_hits", false);
	setup->use_eagle = jread_bool_or(in, line, "use_eagle", false);
	setup->has_retention = jread_present(line, "retention_interval");
	setup->retention_interval = jread_int_or(in, line, "retention_interval", 0);
	if (json_array_size(groups) > TRACE_MAX_GROUPS) {
		jread_fail(in, "groups", "too many");
		return;
	}
	for (g = 0; g < json_array_size(groups); g++) {
		value = json_array_get(groups, g);
		struct pure_group *group = &setup->groups[g];

		if (!trace_group_kind(jread_text(in, value, "kind"), &group->kind))
			jread_fail(in, "kind", "unknown");
		group->block_size = jread_int(in, value, "block_size");
		group->window = jread_int_or(in, value, "sliding_window",
		                             jread_int_or(in, value, "window", 0));
		group->eagle = jread_bool_or(in, value, "eagle", false);
		group->participates = jread_bool_or(in, value, "participates", true);
	}
	setup->group_count = json_array_size(groups);
	read_eagle(in, line, setup);
}

static void check_number(struct arena *arena, struct pure_outcome *out, const char *what,
                         int64_t recorded, int64_t computed)
{
	if (recorded != computed)
		pure_differs(arena, out, what, arena_text(arena, "%lld", (long long)recorded),
		             arena_text(arena, "%lld", (long long)computed));
}

static void fill_held(struct jread *in, json_t *test, const struct pure_setup *setup,
                      struct pure_present *present)
{
	bool *held[TRACE_MAX_GROUPS];
	json_t *value;
	size_t i;

	for (size_t g = 0; g < setup->group_count; g++) {
		held[g] = arena_take(in->arena, present->hash_count + 1, sizeof(bool));
		present->by_group[g] = held[g];
	}
	for (i = 0; i < json_array_size(json_object_get(test, "exists")); i++) {
		value = json_array_get(json_object_get(test, "exists"), i);
		json_int_t group = json_integer_value(json_array_get(value, 0));
		json_int_t hash = json_integer_value(json_array_get(value, 1));

		if (group < 0 || (size_t)group >= setup->group_count || hash < 0 ||
		    (size_t)hash >= present->hash_count)
			jread_fail(in, "exists", "out of range");
		else
			held[group][hash] = true;
	}
}

static void check_coordinator_case(struct jread *in, const struct pure_ops *ops,
                                   const struct pure_setup *setup, json_t *test, size_t hash_count,
                                   struct pure_outcome *out)
{
	struct arena *arena = in->arena;
	json_t *store = json_object_get(test, "store");
	int64_t token_len = jread_int(in, test, "token_len");
	struct pure_store_mask store_in = {.token_len = token_len};
	struct pure_present present = {.hash_count = hash_count};
	struct pure_masks masks;
	struct pure_hit hit;

	fill_held(in, test, setup, &present);
	ops->find_hit(arena, setup, &present, jread_int(in, test, "aligned_len"), &hit);
	check_number(arena, out, "hit_length", jread_int(in, test, "hit_length"), hit.tokens);
	pure_check_masks(arena, json_object_get(test, "hit_masks"), &hit.needed, "hit_masks", out);
	ops->load_mask(arena, setup, hash_count, token_len, &masks);
	pure_check_masks(arena, json_object_get(test, "load_masks"), &masks, "load_masks", out);
	store_in.start = jread_int(in, store, "start_token");
	store_in.has_prompt = jread_present(store, "num_prompt_tokens");
	store_in.prompt = jread_int_or(in, store, "num_prompt_tokens", 0);
	if (ops->store_mask(arena, setup, &store_in, &masks))
		pure_check_masks(arena, json_object_get(store, "masks"), &masks, "store", out);
	else
		pure_differs(arena, out, "store", "masks", "invalid argument");
	if (ops->lookup_mask(arena, setup, token_len, &masks))
		pure_check_masks(arena, json_object_get(test, "lookup_masks"), &masks,
		                 "lookup_masks", out);
	else
		pure_differs(arena, out, "lookup_masks", "masks", "invalid argument");
}

/* The store of a lookup case: what it holds, and what it was asked. */
struct lookup_store {
	struct arena *arena;
	struct texts present;
	bool raises;
	struct texts asked; /* one text per call */
};

static const char *joined(struct arena *arena, const struct texts *keys)
{
	size_t bytes = 1;
	char *text, *end;

	for (size_t i = 0; i < keys->count; i++)
		bytes += strlen(keys->at[i]) + 1;
	text = end = arena_take(arena, bytes, 1);
	for (size_t i = 0; i < keys->count; i++) {
		end = stpcpy(end, keys->at[i]);
		*end++ = ' ';
	}
	return text;
}

static bool lookup_exists(void *context, const struct texts *keys, struct ints *states)
{
	struct lookup_store *store = context;

	texts_push(store->arena, &store->asked, joined(store->arena, keys));
	if (store->raises)
		return false;
	for (size_t i = 0; i < keys->count; i++)
		ints_push(store->arena, states, texts_has(&store->present, keys->at[i]) ? 1 : 0);
	return true;
}

static void check_asked(struct jread *in, json_t *queried, const struct lookup_store *store,
                        struct pure_outcome *out)
{
	json_t *value;
	size_t i;

	check_number(in->arena, out, "number of exists calls", (int64_t)json_array_size(queried),
	             (int64_t)store->asked.count);
	for (i = 0; i < json_array_size(queried); i++) {
		value = json_array_get(queried, i);
		struct texts keys = jread_text_list(in, value, "queried_keys");
		const char *wanted = joined(in->arena, &keys);

		if (i < store->asked.count && strcmp(wanted, store->asked.at[i]) != 0)
			pure_differs(in->arena, out, "queried_keys", wanted, store->asked.at[i]);
	}
}

static void check_lookup_case(struct jread *in, const struct pure_ops *ops,
                              const struct pure_lookup *common, json_t *test,
                              struct pure_outcome *out)
{
	struct pure_lookup lookup = *common;
	struct arena *arena = in->arena;
	json_t *tails = json_object_get(test, "tail_key_boundaries");
	struct lookup_store store = {.arena = arena};
	struct pure_lookup_result result;
	json_t *value;
	size_t i;

	store.present = jread_text_list(in, json_object_get(test, "present"), "present");
	store.raises = jread_bool_or(in, test, "store_raises", false);
	lookup.token_count = jread_int(in, test, "num_tokens");
	lookup.exists = lookup_exists;
	lookup.context = &store;
	ops->lookup(arena, &lookup, &result);
	check_number(arena, out, "hit_length", jread_int(in, test, "hit_length"),
	             result.hit_tokens);
	check_number(arena, out, "number of tails", (int64_t)json_array_size(tails),
	             (int64_t)result.tail_groups.count);
	check_asked(in, json_object_get(test, "queried_keys"), &store, out);
	for (i = 0; i < json_array_size(tails); i++) {
		value = json_array_get(tails, i);
		if (i >= result.tail_groups.count)
			break;
		check_number(arena, out, "tail group", json_integer_value(json_array_get(value, 0)),
		             result.tail_groups.at[i]);
		check_number(arena, out, "tail tokens",
		             json_integer_value(json_array_get(value, 1)),
		             result.tail_tokens.at[i]);
	}
}

static void read_lookup(struct jread *in, json_t *line, struct pure_lookup *lookup)
{
	json_t *prefixes = json_object_get(line, "lookup_key_prefixes");
	size_t g;

	lookup->hashes =
		jread_text_list(in, json_object_get(line, "block_hashes_hex"), "block_hashes_hex");
	for (g = 0; g < json_array_size(prefixes) && g < TRACE_MAX_GROUPS; g++)
		lookup->prefixes[g] =
			jread_text_list(in, json_array_get(prefixes, g), "lookup_key_prefixes");
}

static void check_cases(struct jread *in, const struct pure_ops *ops, json_t *line,
                        struct pure_outcome *out)
{
	bool is_lookup = pure_line_kind(line) == PURE_LOOKUP;
	struct pure_lookup lookup = {0};
	json_t *test;
	size_t i;

	pure_read_setup(in, line, &lookup.setup);
	if (is_lookup)
		read_lookup(in, line, &lookup);
	for (i = 0; i < json_array_size(json_object_get(line, "cases")); i++) {
		test = json_array_get(json_object_get(line, "cases"), i);
		struct pure_outcome one = {0};

		if (is_lookup && ops->lookup == NULL)
			continue;
		out->case_count++;
		if (is_lookup)
			check_lookup_case(in, ops, &lookup, test, &one);
		else
			check_coordinator_case(in, ops, &lookup.setup, test,
			                       (size_t)jread_int(in, line, "num_hashes"), &one);
		if (one.text == NULL)
			continue;
		out->different_count++;
		if (out->text == NULL)
			out->text = arena_text(in->arena, "%s case %zu: %s",
			                       jread_text(in, line, "name"), i, one.text);
	}
}

void pure_check_line(struct arena *arena, const struct pure_ops *ops, json_t *line,
                     struct pure_outcome *out)
{
	struct jread in = {.arena = arena};

	*out = (struct pure_outcome){0};
	if (pure_line_kind(line) == PURE_VECTOR) {
		pure_check_vector(arena, ops, line, out);
		return;
	}
	check_cases(&in, ops, line, out);
	if (in.error != NULL) {
		out->different_count++;
		out->text = in.error;
	}
}
