/* SPDX-License-Identifier: Apache-2.0 */
/* Replication factors, the choice of a layout, segment templates and the ranks in keys. */
#include <stdlib.h>
#include <string.h>

#include "layout/keys.h"
#include "layout/shards.h"
#include "unit/base/unit.h"

static struct kvh_group full_group(uint32_t kv_heads)
{
	return (struct kvh_group){
		.kind = KVH_ATTENTION_FULL, .block_tokens = 4, .kv_heads = kv_heads};
}

/* proves: R-2 */
static void ranks_that_hold_equal_bytes_share_a_key(void **state)
{
	struct kvh_group group = full_group(0);

	(void)state;
	/* As many heads as ranks, more, and fewer: 8 ranks over 2 heads are 4 to a head. */
	assert_int_equal(kvh_replication_factor(&group, 8, 1), 1);
	group.kv_heads = 16;
	assert_int_equal(kvh_replication_factor(&group, 8, 1), 1);
	group.kv_heads = 2;
	assert_int_equal(kvh_replication_factor(&group, 8, 1), 4);
	assert_int_equal(kvh_replication_factor(&group, 8, 0), 4);
	group.kind = KVH_ATTENTION_SLIDING_WINDOW;
	assert_int_equal(kvh_replication_factor(&group, 8, 1), 4);
	/* max(1, tp_size / kv_heads), rounded down. */
	group.kv_heads = 3;
	assert_int_equal(kvh_replication_factor(&group, 8, 1), 2);
	assert_int_equal(kvh_replication_factor(&group, 1, 1), 1);
}

/* proves: R-2 */
static void kinds_and_context_parallelism_go_before_the_heads(void **state)
{
	struct kvh_group group = full_group(2);

	(void)state;
	assert_int_equal(kvh_replication_factor(&group, 8, 2), 1);
	group.mla = true;
	assert_int_equal(kvh_replication_factor(&group, 8, 1), 8);
	assert_int_equal(kvh_replication_factor(&group, 8, 2), 1);
	group = (struct kvh_group){.kind = KVH_ATTENTION_MAMBA, .kv_heads = 2};
	assert_int_equal(kvh_replication_factor(&group, 8, 1), 1);
	group.mla = true;
	assert_int_equal(kvh_replication_factor(&group, 8, 1), 1);
}

struct choice {
	struct kvh_sharding sharding;
	char note[256];
};

static struct choice choose(const struct kvh_worker_config *config)
{
	struct choice choice;
	struct kvh_error error = {0};

	if (kvh_sharding_choose(config, &choice.sharding, choice.note, sizeof(choice.note),
	                        &error) != KVH_OK)
		fail_msg("%s", error.text);
	return choice;
}

/* proves */
static void rank_local_keys_have_no_namespace(void **state)
{
	struct kvh_group group = full_group(8);
	struct kvh_worker_config config = {.groups = &group, .group_count = 1, .tp_size = 2};
	struct choice choice = choose(&config);

	(void)state;
	assert_int_equal(choice.sharding.format, KVH_FORMAT_RANK_LOCAL);
	assert_int_equal(choice.sharding.shards_per_rank, 1);
	assert_int_equal(choice.sharding.store_tp_size, 2);
	assert_string_equal(choice.sharding.name_space, "");
	assert_string_equal(choice.note, "");
}

/* proves: R-4 */
static void shards_carry_their_format_in_the_namespace(void **state)
{
	struct kvh_group group = full_group(8);
	struct kvh_worker_config config = {.groups = &group,
	                                   .group_count = 1,
	                                   .tp_size = 2,
	                                   .store_tp_size = 4,
	                                   .format = KVH_FORMAT_TP_SHARED_LBHNC};
	struct choice choice = choose(&config);

	(void)state;
	assert_int_equal(choice.sharding.format, KVH_FORMAT_TP_SHARED_LBHNC);
	assert_int_equal(choice.sharding.shards_per_rank, 2);
	assert_string_equal(choice.sharding.name_space,
	                    "@store_tp:4@store_pp:1@store_format:tp_shared_lbhnc");
	assert_string_equal(choice.note, "");
	config.format = KVH_FORMAT_TP_SHARED_LBNHC;
	config.pp_size = 3;
	config.store_tp_size = 0;
	choice = choose(&config);
	assert_int_equal(choice.sharding.shards_per_rank, 1);
	assert_string_equal(choice.sharding.name_space,
	                    "@store_tp:2@store_pp:3@store_format:tp_shared_lbnhc");
}

static void assert_rank_local(const struct kvh_worker_config *config, const char *reason)
{
	struct choice choice = choose(config);

	assert_int_equal(choice.sharding.format, KVH_FORMAT_RANK_LOCAL);
	assert_int_equal(choice.sharding.shards_per_rank, 1);
	assert_int_equal(choice.sharding.store_tp_size, 2);
	assert_string_equal(choice.sharding.name_space,
	                    "@store_tp:2@store_pp:1@store_format:rank_local");
	if (!strstr(choice.note, reason) || !strstr(choice.note, "tp_shared_lbhnc"))
		fail_msg("\"%s\" does not say \"%s\"", choice.note, reason);
}

/* proves: R-4 */
static void what_can_not_be_cut_is_rank_local_under_a_namespace_of_its_own(void **state)
{
	struct kvh_group groups[2] = {full_group(8), full_group(8)};
	const struct kvh_worker_config good = {.groups = groups,
	                                       .group_count = 1,
	                                       .tp_size = 2,
	                                       .store_tp_size = 4,
	                                       .format = KVH_FORMAT_TP_SHARED_LBHNC};
	struct kvh_worker_config config = good;

	(void)state;
	config.group_count = 2;
	assert_rank_local(&config, "exactly one group");
	groups[1].opts_out = true;
	assert_int_equal(choose(&config).sharding.format, KVH_FORMAT_TP_SHARED_LBHNC);
	groups[0].opts_out = true;
	assert_rank_local(&config, "exactly one group");
	groups[0].opts_out = false;
	config = good;
	config.pcp_size = 2;
	assert_rank_local(&config, "context parallelism");
	config = good;
	config.dcp_size = 2;
	assert_rank_local(&config, "context parallelism");
	config = good;
	config.store_tp_size = 3;
	assert_rank_local(&config, "multiple of tp_size");
	config.store_tp_size = 1;
	assert_rank_local(&config, "multiple of tp_size");
	config = good;
	groups[0].kv_heads = 6;
	assert_rank_local(&config, "KV heads");
	/* As many heads as ranks can't make more shards than ranks. */
	groups[0].kv_heads = 0;
	assert_rank_local(&config, "KV heads");
	groups[0] = full_group(8);
	groups[0].mla = true;
	assert_rank_local(&config, "full attention");
	groups[0] = full_group(8);
	groups[0].kind = KVH_ATTENTION_SLIDING_WINDOW;
	assert_rank_local(&config, "full attention");
}

static void assert_refused(const struct kvh_worker_config *config, const char *word)
{
	struct kvh_sharding sharding = {.store_tp_size = 77};
	struct kvh_error error = {0};

	assert_int_equal(kvh_sharding_choose(config, &sharding, NULL, 0, &error),
	                 KVH_INVALID_PARAMS);
	if (!strstr(error.text, word))
		fail_msg("\"%s\" does not say \"%s\"", error.text, word);
	assert_int_equal(sharding.store_tp_size, 77);
}

/* proves */
static void a_geometry_that_makes_no_sense_is_refused_with_words(void **state)
{
	struct kvh_group group = full_group(8);
	const struct kvh_worker_config good = {.groups = &group, .group_count = 1, .tp_size = 2};
	struct kvh_worker_config config = good;

	(void)state;
	config.tp_rank = 2;
	assert_refused(&config, "tp_rank");
	config = good;
	config.tp_size = KVH_RANKS_MAX + 1;
	assert_refused(&config, "tp_size");
	config = good;
	config.pcp_rank = 1;
	assert_refused(&config, "pcp_rank");
	config = good;
	config.dcp_rank = 1;
	assert_refused(&config, "dcp_rank");
	config = good;
	config.pp_rank = UINT32_MAX;
	assert_refused(&config, "pp_rank");
	config = good;
	config.store_tp_size = UINT32_MAX;
	assert_refused(&config, "store_tp_size");
	config.store_tp_size = 4;
	assert_refused(&config, "no shards");
	config = good;
	config.format = (enum kvh_store_format)9;
	assert_refused(&config, "format");
	config = good;
	config.tp_size = 6;
	group.kv_heads = 4;
	assert_refused(&config, "kv_heads");
	group.opts_out = true;
	assert_int_equal(choose(&config).sharding.store_tp_size, 6);
}

/* ---- templates ------------------------------------------------------------------------ */

enum { TOKENS = 4, HEADS = 4, CELL_BYTES = 8, BLOCK_BYTES = TOKENS * HEADS * CELL_BYTES };

static struct kvh_sharding shards_of(enum kvh_store_format format, uint32_t shards_per_rank)
{
	return (struct kvh_sharding){.format = format,
	                             .shards_per_rank = shards_per_rank,
	                             .store_tp_size = shards_per_rank};
}

/* Writes what a shard's object holds of the block at base. */
static size_t gather(const struct kvh_sharding *sharding, char *base, uint32_t shard, char *object)
{
	struct kvh_group group = full_group(HEADS);
	struct kvh_cache_region region = {
		.base = base, .stride_bytes = 3 * BLOCK_BYTES, .block_bytes = BLOCK_BYTES};
	struct kvh_segment_template templates[TOKENS];
	size_t count = kvh_shard_template_count(sharding, &group);
	size_t bytes = 0;

	assert_in_range(count, 1, TOKENS);
	assert_int_equal(kvh_shard_templates(sharding, &group, &region, shard, templates, NULL),
	                 KVH_OK);
	for (size_t index = 0; index < count; index++) {
		assert_int_equal(templates[index].stride_bytes, region.stride_bytes);
		memcpy(object + bytes, templates[index].base, templates[index].bytes);
		bytes += templates[index].bytes;
	}
	return bytes;
}

/* A cell of the block's bytes: its token and its head, over and over. */
static void fill_cell(char *cell, size_t token, size_t head)
{
	memset(cell, (int)(16 * token + head), CELL_BYTES);
}

/* proves: R-4 */
static void a_head_major_shard_is_one_slice_of_whole_heads(void **state)
{
	char block[BLOCK_BYTES], object[BLOCK_BYTES], expected[BLOCK_BYTES];
	const uint32_t shard_counts[] = {1, 2, 4};

	(void)state;
	for (size_t head = 0; head < HEADS; head++) {
		for (size_t token = 0; token < TOKENS; token++)
			fill_cell(block + (head * TOKENS + token) * CELL_BYTES, token, head);
	}
	for (size_t index = 0; index < COUNT_OF(shard_counts); index++) {
		struct kvh_sharding sharding =
			shards_of(KVH_FORMAT_TP_SHARED_LBHNC, shard_counts[index]);
		size_t heads = HEADS / shard_counts[index];

		for (uint32_t shard = 0; shard < shard_counts[index]; shard++) {
			char *at = expected;

			for (size_t head = shard * heads; head < (shard + 1) * heads; head++) {
				for (size_t token = 0; token < TOKENS; token++, at += CELL_BYTES)
					fill_cell(at, token, head);
			}
			assert_int_equal(gather(&sharding, block, shard, object), at - expected);
			assert_memory_equal(object, expected, (size_t)(at - expected));
		}
	}
}

/* proves: R-4 */
static void a_token_major_shard_is_one_slice_of_each_token(void **state)
{
	char block[BLOCK_BYTES], object[BLOCK_BYTES], expected[BLOCK_BYTES];
	const uint32_t shard_counts[] = {1, 2, 4};

	(void)state;
	for (size_t token = 0; token < TOKENS; token++) {
		for (size_t head = 0; head < HEADS; head++)
			fill_cell(block + (token * HEADS + head) * CELL_BYTES, token, head);
	}
	for (size_t index = 0; index < COUNT_OF(shard_counts); index++) {
		struct kvh_sharding sharding =
			shards_of(KVH_FORMAT_TP_SHARED_LBNHC, shard_counts[index]);
		size_t heads = HEADS / shard_counts[index];

		for (uint32_t shard = 0; shard < shard_counts[index]; shard++) {
			char *at = expected;

			for (size_t token = 0; token < TOKENS; token++) {
				for (size_t head = shard * heads; head < (shard + 1) * heads;
				     head++, at += CELL_BYTES)
					fill_cell(at, token, head);
			}
			assert_int_equal(gather(&sharding, block, shard, object), at - expected);
			assert_memory_equal(object, expected, (size_t)(at - expected));
		}
	}
}

/* proves: R-4 */
static void two_ranks_of_two_shards_write_what_four_ranks_of_one_write(void **state)
{
	char halves[2][BLOCK_BYTES], quarter[BLOCK_BYTES / 2];
	char from_half[BLOCK_BYTES], from_quarter[BLOCK_BYTES];
	struct kvh_sharding two = shards_of(KVH_FORMAT_TP_SHARED_LBNHC, 2);
	struct kvh_sharding one = shards_of(KVH_FORMAT_TP_SHARED_LBNHC, 1);
	struct kvh_group group = full_group(HEADS);
	const size_t row_bytes = HEADS * CELL_BYTES;

	(void)state;
	/* Heads 0 .. 3 lie in rank 0 of two, 4 .. 7 in rank 1; of four ranks each has two. */
	for (size_t rank = 0; rank < 2; rank++) {
		for (size_t token = 0; token < TOKENS; token++) {
			for (size_t head = 0; head < HEADS; head++)
				fill_cell(halves[rank] + token * row_bytes + head * CELL_BYTES,
				          token, rank * HEADS + head);
		}
	}
	for (uint32_t rank = 0; rank < 4; rank++) {
		struct kvh_cache_region region = {.base = quarter, .block_bytes = sizeof(quarter)};
		struct kvh_segment_template template;

		for (size_t token = 0; token < TOKENS; token++) {
			for (size_t head = 0; head < HEADS / 2; head++)
				fill_cell(quarter + token * row_bytes / 2 + head * CELL_BYTES,
				          token, rank * HEADS / 2 + head);
		}
		assert_int_equal(kvh_shard_templates(&one, &group, &region, 0, &template, NULL),
		                 KVH_OK);
		assert_int_equal(template.bytes, sizeof(quarter));
		memcpy(from_quarter, template.base, template.bytes);
		assert_int_equal(gather(&two, halves[rank / 2], rank % 2, from_half),
		                 sizeof(quarter));
		assert_memory_equal(from_half, from_quarter, sizeof(quarter));
		assert_int_equal(kvh_shard_key_rank(&two, rank / 2, 1, rank % 2), rank);
		assert_int_equal(kvh_shard_key_rank(&one, rank, 1, 0), rank);
	}
}

/* proves: R-4 */
static void a_block_that_is_not_whole_heads_is_refused(void **state)
{
	struct kvh_group group = full_group(HEADS);
	struct kvh_sharding sharding = shards_of(KVH_FORMAT_TP_SHARED_LBNHC, 2);
	struct kvh_segment_template templates[TOKENS];
	const size_t wrong[] = {0, 1, BLOCK_BYTES - 1, BLOCK_BYTES + TOKENS, TOKENS, 2 * TOKENS};
	struct kvh_cache_region region = {.group = 3, .base = templates};

	(void)state;
	for (size_t index = 0; index < COUNT_OF(wrong); index++) {
		struct kvh_error error = {0};

		region.block_bytes = wrong[index];
		assert_int_equal(
			kvh_shard_templates(&sharding, &group, &region, 1, templates, &error),
			KVH_INVALID_PARAMS);
		assert_non_null(strstr(error.text, "group 3"));
	}
	region.base = (void *)(UINTPTR_MAX - 8);
	region.block_bytes = BLOCK_BYTES;
	assert_int_equal(kvh_shard_templates(&sharding, &group, &region, 0, templates, NULL),
	                 KVH_INVALID_PARAMS);
}

/* proves: R-1 */
static void a_rank_local_block_is_one_segment_of_any_length(void **state)
{
	struct kvh_group group = full_group(HEADS);
	struct kvh_sharding sharding = shards_of(KVH_FORMAT_RANK_LOCAL, 1);
	struct kvh_cache_region region = {.base = &group, .stride_bytes = 64, .block_bytes = 7};
	struct kvh_segment_template template;

	(void)state;
	assert_int_equal(kvh_shard_template_count(&sharding, &group), 1);
	assert_int_equal(kvh_shard_templates(&sharding, &group, &region, 0, &template, NULL),
	                 KVH_OK);
	assert_ptr_equal(template.base, &group);
	assert_int_equal(template.stride_bytes, 64);
	assert_int_equal(template.bytes, 7);
}

/* ---- who writes what a lookup asks for ------------------------------------------------- */

static bool same_ranks(struct kvh_key_ranks a, struct kvh_key_ranks b)
{
	return a.tp_rank == b.tp_rank && a.pcp_rank == b.pcp_rank && a.dcp_rank == b.dcp_rank &&
	       a.pp_rank == b.pp_rank;
}

/* The index that a lookup gives these ranks; each must have exactly one. */
static size_t find_ranks(const struct kvh_sharding *sharding,
                         const struct kvh_worker_config *config, const struct kvh_group *group,
                         struct kvh_key_ranks ranks)
{
	size_t count = kvh_key_ranks_count(sharding, config, group);
	size_t found = count;

	for (size_t index = 0; index < count; index++) {
		if (!same_ranks(kvh_key_ranks_at(sharding, config, group, index), ranks))
			continue;
		assert_int_equal(found, count);
		found = index;
	}
	assert_true(found < count);
	return found;
}

/* Every put of every rank is asked for, and nothing else is. */
static void assert_lookup_asks_what_ranks_write(struct kvh_worker_config config)
{
	struct kvh_sharding sharding = choose(&config).sharding;
	bool written[256] = {false};
	const struct kvh_group *group = &config.groups[0];
	uint32_t factor = kvh_replication_factor(group, config.tp_size, config.dcp_size);
	size_t count = kvh_key_ranks_count(&sharding, &config, group);

	assert_in_range(count, 1, COUNT_OF(written));
	for (uint32_t rank = 0; rank < config.tp_size * config.pcp_size * config.pp_size; rank++) {
		uint32_t tp_rank = rank % config.tp_size;

		for (uint32_t shard = 0; shard < sharding.shards_per_rank; shard++) {
			struct kvh_key_ranks ranks = {
				.tp_rank = kvh_shard_key_rank(&sharding, tp_rank, factor, shard),
				.pcp_rank = rank / config.tp_size % config.pcp_size,
				.dcp_rank = tp_rank % config.dcp_size,
				.pp_rank = rank / config.tp_size / config.pcp_size};

			written[find_ranks(&sharding, &config, group, ranks)] = true;
		}
	}
	for (size_t index = 0; index < count; index++)
		assert_true(written[index]);
}

/* proves: B10, R-2, R-40 */
static void a_lookup_asks_for_exactly_the_keys_that_all_ranks_write(void **state)
{
	const uint32_t heads[] = {0, 1, 2, 4, 8};

	(void)state;
	for (size_t index = 0; index < COUNT_OF(heads); index++) {
		struct kvh_group group = full_group(heads[index]);
		struct kvh_worker_config config = {.groups = &group,
		                                   .group_count = 1,
		                                   .tp_size = 4,
		                                   .pp_size = 2,
		                                   .pcp_size = 1,
		                                   .dcp_size = 1};

		assert_lookup_asks_what_ranks_write(config);
		config.pcp_size = 3;
		assert_lookup_asks_what_ranks_write(config);
		config.dcp_size = 2;
		assert_lookup_asks_what_ranks_write(config);
		config.pcp_size = 1;
		config.dcp_size = 1;
		config.format = KVH_FORMAT_TP_SHARED_LBHNC;
		config.store_tp_size = 8;
		assert_lookup_asks_what_ranks_write(config);
		config.format = KVH_FORMAT_RANK_LOCAL;
		config.store_tp_size = 0;
		group.mla = true;
		assert_lookup_asks_what_ranks_write(config);
	}
}

/* proves: B10 */
static void keys_of_ranks_stages_and_groups_all_differ(void **state)
{
	struct kvh_prefix_text texts[4 * 2 * 2];
	size_t count = 0;

	(void)state;
	for (uint32_t number = 0; number < COUNT_OF(texts); number++) {
		struct kvh_key_parts parts = {.model = "m",
		                              .tp_rank = number % 4,
		                              .pp_rank = number / 4 % 2,
		                              .group = number / 8};

		assert_int_equal(kvh_key_compose(&parts, &texts[count], NULL), KVH_OK);
		for (size_t other = 0; other < count; other++)
			assert_string_not_equal(texts[other].text, texts[count].text);
		count++;
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ranks_that_hold_equal_bytes_share_a_key),
		cmocka_unit_test(kinds_and_context_parallelism_go_before_the_heads),
		cmocka_unit_test(rank_local_keys_have_no_namespace),
		cmocka_unit_test(shards_carry_their_format_in_the_namespace),
		cmocka_unit_test(what_can_not_be_cut_is_rank_local_under_a_namespace_of_its_own),
		cmocka_unit_test(a_geometry_that_makes_no_sense_is_refused_with_words),
		cmocka_unit_test(a_head_major_shard_is_one_slice_of_whole_heads),
		cmocka_unit_test(a_token_major_shard_is_one_slice_of_each_token),
		cmocka_unit_test(two_ranks_of_two_shards_write_what_four_ranks_of_one_write),
		cmocka_unit_test(a_block_that_is_not_whole_heads_is_refused),
		cmocka_unit_test(a_rank_local_block_is_one_segment_of_any_length),
		cmocka_unit_test(a_lookup_asks_for_exactly_the_keys_that_all_ranks_write),
		cmocka_unit_test(keys_of_ranks_stages_and_groups_all_differ),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
