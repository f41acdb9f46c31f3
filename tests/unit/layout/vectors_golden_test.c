/* SPDX-License-Identifier: Apache-2.0 */
/* Keys, chunks and masks against the recorded pure-function vectors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/text.h"
#include "layout/chunks.h"
#include "layout/coordinator.h"
#include "layout/keys.h"
#include "unit/layout/recorded.h"

struct counts {
	size_t keys, group_ids, chunk_lists, store_masks, load_masks;
};

/*
 * The recorded functions take the model as it is and keep its folders; R-1 drops them before. What
 * is expected here is the recorded text without them.
 */
static void expect_without_folders(const json_t *line, char *out, size_t out_bytes)
{
	const char *model = recorded_text(recorded_member(line, "args"), "model_name");
	const char *text = recorded_text(line, "ret");
	const char *slash = strrchr(model, '/');
	size_t folders = slash ? (size_t)(slash + 1 - model) : 0;
	const char *at = strstr(text, model);

	assert_non_null(at);
	snprintf(out, out_bytes, "%.*s%s", (int)(at - text), text, at + folders);
}

static struct kvh_prefix_text compose(const json_t *args)
{
	struct kvh_key_parts parts = {
		.cache_prefix = recorded_text(args, "cache_prefix"),
		.model = recorded_text(args, "model_name"),
		.name_space = json_string_value(json_object_get(args, "store_namespace")),
		.tp_rank = (uint32_t)recorded_number(args, "tp_rank"),
		.pcp_rank = (uint32_t)recorded_number(args, "pcp_rank"),
		.dcp_rank = (uint32_t)recorded_number(args, "dcp_rank"),
		.pp_rank = (uint32_t)recorded_number(args, "pp_rank"),
		.group = (uint32_t)recorded_number(args, "group_id"),
	};
	struct kvh_prefix_text prefix;

	assert_int_equal(kvh_key_compose(&parts, &prefix, NULL), KVH_OK);
	return prefix;
}

static void check_key(const json_t *line)
{
	const json_t *args = recorded_member(line, "args");
	struct kvh_prefix_text prefix = compose(args);
	char expected[1024], key[1024];

	expect_without_folders(line, expected, sizeof(expected));
	snprintf(key, sizeof(key), "%s%s", prefix.text, recorded_text(args, "hash"));
	assert_string_equal(key, expected);
}

static void check_group_id(const json_t *line)
{
	const json_t *args = recorded_member(line, "args");
	struct kvh_prefix_text prefix = compose(args);
	const char *hash_hex = recorded_text(args, "hash");
	char expected[1024], text[1024];
	uint8_t hash[64];

	assert_in_range(strlen(hash_hex), 2, 2 * sizeof(hash));
	assert_true(kvh_hex_decode(hash_hex, strlen(hash_hex), hash));
	expect_without_folders(line, expected, sizeof(expected));
	assert_int_equal(kvh_group_id_text(prefix.text, prefix.family_bytes, hash,
	                                   strlen(hash_hex) / 2, text, sizeof(text)),
	                 KVH_OK);
	assert_string_equal(text, expected);
}

/* A mask text counts from the chunk at or after mask_num; null is all. */
static bool is_selected(const json_t *mask, uint64_t index, uint64_t first_masked)
{
	if (!json_is_string(mask))
		return true;
	if (index < first_masked || index - first_masked >= strlen(json_string_value(mask)))
		return false;
	return json_string_value(mask)[index - first_masked] == '1';
}

static void check_chunks(const json_t *line)
{
	const json_t *args = recorded_member(line, "args");
	const json_t *expected = recorded_member(line, "ret");
	uint32_t block_tokens = (uint32_t)recorded_number(args, "block_size");
	uint32_t hash_tokens = (uint32_t)recorded_number(args, "hash_block_size");
	uint64_t token_count = recorded_number(args, "token_len");
	uint64_t hash_count = recorded_number(args, "num_hashes");
	uint64_t first = kvh_chunk_count(recorded_number(args, "mask_num"), block_tokens);
	uint32_t put_step = (uint32_t)recorded_number(args, "put_step");
	uint32_t tp_rank = (uint32_t)recorded_number(args, "put_step_rank");
	size_t found = 0;

	for (uint64_t index = first; index < kvh_chunk_count(token_count, block_tokens); index++) {
		struct kvh_chunk chunk =
			kvh_chunk_at(index, block_tokens, hash_tokens, token_count);
		const json_t *entry = json_array_get(expected, found);

		if (!is_selected(json_object_get(args, "chunk_mask"), index, first) ||
		    !kvh_chunk_is_mine(index, put_step, tp_rank, 0) ||
		    chunk.hash_index >= hash_count)
			continue;
		assert_int_equal(chunk.index, index);
		assert_int_equal(json_integer_value(json_array_get(entry, 0)), chunk.start_token);
		assert_int_equal(json_integer_value(json_array_get(entry, 1)), chunk.end_token);
		assert_int_equal(json_integer_value(json_array_get(entry, 2)), chunk.hash_index);
		found++;
	}
	assert_int_equal(found, json_array_size(expected));
}

/* expected: per group a text of 0 and 1 from first_chunk on, or null for all up to end. */
static void check_masks(const json_t *line, const struct kvh_masks *masks, uint64_t start_token)
{
	const json_t *args = recorded_member(line, "args");
	const json_t *groups = recorded_member(args, "groups");
	const json_t *expected = recorded_member(line, "ret");

	assert_int_equal(json_array_size(expected), json_array_size(groups));
	for (size_t group = 0; group < json_array_size(groups); group++) {
		const json_t *text = json_array_get(expected, group);
		uint64_t block_tokens =
			recorded_number(json_array_get(groups, group), "block_size");
		uint64_t first = kvh_div_up(start_token, block_tokens);
		uint64_t end = recorded_number(args, "token_len") / block_tokens;

		if (json_is_string(text))
			end = first + strlen(json_string_value(text));
		for (uint64_t chunk = first; chunk < end; chunk++)
			assert_int_equal(kvh_mask_has(&masks->group[group], chunk),
			                 is_selected(text, chunk, first));
		assert_false(kvh_mask_has(&masks->group[group], first > end ? first : end));
	}
}

static void check_mask_line(const json_t *line, bool store)
{
	const json_t *args = recorded_member(line, "args");
	const json_t *prompt = json_object_get(args, "num_prompt");
	struct kvh_coordinator *coordinator = recorded_coordinator(args);
	uint64_t token_count = recorded_number(args, "token_len");
	uint64_t start_token = store ? recorded_number(args, "start") : 0;
	struct kvh_masks masks = {0};
	kvh_status status;

	if (store)
		status = kvh_store_mask(coordinator, token_count, start_token,
		                        json_is_integer(prompt),
		                        (uint64_t)json_integer_value(prompt), &masks);
	else
		status = kvh_load_mask(coordinator, recorded_number(args, "num_hashes"),
		                       token_count, &masks);
	assert_int_equal(status, KVH_OK);
	check_masks(line, &masks, start_token);
	kvh_masks_fini(&masks);
	kvh_coordinator_destroy(coordinator);
}

static void check_line(const json_t *line, void *user)
{
	struct counts *counts = user;
	const char *fn = recorded_text(line, "fn");

	if (strcmp(fn, "key") == 0) {
		check_key(line);
		counts->keys++;
	} else if (strcmp(fn, "group_id") == 0) {
		check_group_id(line);
		counts->group_ids++;
	} else if (strcmp(fn, "process_tokens") == 0) {
		check_chunks(line);
		counts->chunk_lists++;
	} else if (strcmp(fn, "store_mask") == 0) {
		check_mask_line(line, true);
		counts->store_masks++;
	} else if (strcmp(fn, "load_mask") == 0) {
		check_mask_line(line, false);
		counts->load_masks++;
	}
}

/* proves, C-30, C-31 */
static void recorded_vectors_are_answered_alike(void **state)
{
	struct counts counts = {0};

	(void)state;
	recorded_each_line("vectors/v032.jsonl", check_line, &counts);
	assert_int_equal(counts.keys, 30);
	assert_int_equal(counts.group_ids, 30);
	assert_int_equal(counts.chunk_lists, 200);
	assert_int_equal(counts.store_masks, 491);
	assert_int_equal(counts.load_masks, 500);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(recorded_vectors_are_answered_alike),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
