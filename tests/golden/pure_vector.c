/* SPDX-License-Identifier: Apache-2.0 */
/* Checks one line of the vectors: a function, its arguments and what it returned. */
#include "pure_check.h"

#include <stdlib.h>
#include <string.h>

typedef json_t *(*vector_fn)(struct jread *in, const struct pure_ops *ops, json_t *args);

static json_t *key_text(struct jread *in, const struct pure_ops *ops, json_t *args,
                        bool wants_group_id)
{
	struct pure_key key = {
		.cache_prefix = jread_text(in, args, "cache_prefix"),
		.model = jread_text(in, args, "model_name"),
		.store_namespace = jread_text_or(in, args, "store_namespace", ""),
		.tp_rank = jread_int(in, args, "tp_rank"),
		.pcp_rank = jread_int(in, args, "pcp_rank"),
		.dcp_rank = jread_int(in, args, "dcp_rank"),
		.pp_rank = jread_int(in, args, "pp_rank"),
		.group = jread_int(in, args, "group_id"),
		.hash = jread_text(in, args, "hash"),
	};

	return json_string(wants_group_id ? ops->group_id(in->arena, &key)
	                                  : ops->key(in->arena, &key));
}

static json_t *vector_key(struct jread *in, const struct pure_ops *ops, json_t *args)
{
	return key_text(in, ops, args, false);
}

static json_t *vector_group_id(struct jread *in, const struct pure_ops *ops, json_t *args)
{
	return key_text(in, ops, args, true);
}

static json_t *int_list_json(const struct ints *list)
{
	json_t *array = json_array();

	for (size_t i = 0; i < list->count; i++)
		json_array_append_new(array, json_integer(list->at[i]));
	return array;
}

static json_t *vector_process_tokens(struct jread *in, const struct pure_ops *ops, json_t *args)
{
	struct pure_chunks chunks = {
		.block_size = jread_int(in, args, "block_size"),
		.hash_block_size = jread_int(in, args, "hash_block_size"),
		.token_len = jread_int(in, args, "token_len"),
		.hash_count = jread_int(in, args, "num_hashes"),
		.first_token = jread_int(in, args, "mask_num"),
		.chunk_mask = jread_text_or(in, args, "chunk_mask", NULL),
		.put_step = jread_int(in, args, "put_step"),
		.put_step_rank = jread_int(in, args, "put_step_rank"),
	};
	json_t *array = json_array();
	struct ints found = {0};

	ops->process_tokens(in->arena, &chunks, &found);
	for (size_t i = 0; i + 2 < found.count; i += 3) {
		struct ints triple = {.at = found.at + i, .count = 3};

		json_array_append_new(array, int_list_json(&triple));
	}
	return array;
}

static json_t *masks_json(const struct pure_setup *setup, const struct pure_masks *masks)
{
	json_t *array = json_array();

	for (size_t g = 0; g < setup->group_count; g++)
		json_array_append_new(array, masks->by_group[g] == NULL
		                                     ? json_null()
		                                     : json_string(masks->by_group[g]));
	return array;
}

static json_t *vector_store_mask(struct jread *in, const struct pure_ops *ops, json_t *args)
{
	struct pure_store_mask store = {
		.token_len = jread_int(in, args, "token_len"),
		.start = jread_int(in, args, "start"),
		.has_prompt = jread_present(args, "num_prompt"),
		.prompt = jread_int_or(in, args, "num_prompt", 0),
	};
	struct pure_setup setup;
	struct pure_masks masks;

	pure_read_setup(in, args, &setup);
	if (!ops->store_mask(in->arena, &setup, &store, &masks))
		return json_string("invalid argument");
	return masks_json(&setup, &masks);
}

static json_t *vector_load_mask(struct jread *in, const struct pure_ops *ops, json_t *args)
{
	struct pure_setup setup;
	struct pure_masks masks;

	pure_read_setup(in, args, &setup);
	if (!ops->load_mask(in->arena, &setup, (size_t)jread_int(in, args, "num_hashes"),
	                    jread_int(in, args, "token_len"), &masks))
		return json_string("invalid argument");
	return masks_json(&setup, &masks);
}

static json_t *vector_staging_bytes(struct jread *in, const struct pure_ops *ops, json_t *args)
{
	struct ints sizes = jread_int_list(in, json_object_get(args, "sizes"), "sizes");

	return json_integer(ops->staging_bytes(&sizes));
}

static json_t *vector_usable_budget(struct jread *in, const struct pure_ops *ops, json_t *args)
{
	return json_integer(ops->usable_budget(jread_int(in, args, "raw"),
	                                       json_number_value(json_object_get(args, "ratio"))));
}

static json_t *vector_rotate(struct jread *in, const struct pure_ops *ops, json_t *args)
{
	struct ints order = {0};

	ops->rotate(in->arena, (size_t)jread_int(in, args, "n"), jread_int(in, args, "rank"),
	            &order);
	return int_list_json(&order);
}

static json_t *vector_split(struct jread *in, const struct pure_ops *ops, json_t *args)
{
	struct ints staging = {0};
	struct pure_split split;
	json_t *batches = json_array();
	json_t *value;
	size_t i;

	for (i = 0; i < json_array_size(json_object_get(args, "sizes")); i++) {
		value = json_array_get(json_object_get(args, "sizes"), i);
		struct ints sizes = jread_int_list(in, value, "sizes");

		ints_push(in->arena, &staging, ops->staging_bytes(&sizes));
	}
	ops->split(in->arena, &staging, jread_int(in, args, "usable"), jread_int(in, args, "raw"),
	           &split);
	for (size_t b = 0; b < split.batch_count; b++)
		json_array_append_new(batches, int_list_json(&split.batches[b]));
	return json_pack("{s:o,s:o}", "batches", batches, "oversized",
	                 split.oversized < 0 ? json_null() : json_integer(split.oversized));
}

static vector_fn find_vector_fn(const char *name)
{
	static const struct {
		const char *name;
		vector_fn fn;
	} known[] = {
		{"key", vector_key},
		{"group_id", vector_group_id},
		{"process_tokens", vector_process_tokens},
		{"store_mask", vector_store_mask},
		{"load_mask", vector_load_mask},
		{"staging_bytes", vector_staging_bytes},
		{"usable_budget", vector_usable_budget},
		{"rotate", vector_rotate},
		{"split", vector_split},
	};

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (strcmp(known[i].name, name) == 0)
			return known[i].fn;
	return NULL;
}

static const char *dump(struct arena *arena, json_t *value)
{
	char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_SORT_KEYS);
	const char *kept = arena_text(arena, "%s", text == NULL ? "?" : text);

	free(text);
	return kept;
}

void pure_check_vector(struct arena *arena, const struct pure_ops *ops, json_t *line,
                       struct pure_outcome *out)
{
	struct jread in = {.arena = arena};
	json_t *args = json_object_get(line, "args");
	json_t *recorded = json_object_get(line, "ret");
	json_t *computed;
	vector_fn fn;

	out->fn = jread_text(&in, line, "fn");
	out->case_count = 1;
	fn = find_vector_fn(out->fn);
	computed = fn == NULL ? json_string("unknown function") : fn(&in, ops, args);
	if (in.error != NULL || !json_equal(recorded, computed)) {
		out->different_count = 1;
		pure_differs(arena, out, dump(arena, line), dump(arena, recorded),
		             in.error != NULL ? in.error : dump(arena, computed));
	}
	json_decref(computed);
}
