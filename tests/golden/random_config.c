/* SPDX-License-Identifier: Apache-2.0 */
/* Draws the config of a random scenario, within the rules of C-1. */
#include "random.h"

/* the namespace of the shards that this file draws. */
#define SHARED_NAMESPACE "@store_tp:4@store_pp:1@store_format:tp_shared_lbhnc"

void draw_start(struct draw *draw, uint64_t seed, uint64_t index)
{
	*draw = (struct draw){.next_job_id = 1};
	draw->random = (seed * 0x9E3779B97F4A7C15u) ^ ((index + 1) * 0xD1342543DE82EF95u);
	if (draw->random == 0)
		draw->random = 1;
	for (int i = 0; i < 8; i++)
		draw_below(draw, 2);
}

/* xorshift64* */
static uint64_t draw_bits(struct draw *draw)
{
	draw->random ^= draw->random >> 12;
	draw->random ^= draw->random << 25;
	draw->random ^= draw->random >> 27;
	return draw->random * 0x2545F4914F6CDD1Du;
}

int64_t draw_below(struct draw *draw, int64_t limit)
{
	return limit < 1 ? 0 : (int64_t)((draw_bits(draw) >> 11) % (uint64_t)limit);
}

bool draw_percent(struct draw *draw, int64_t percent)
{
	return draw_below(draw, 100) < percent;
}

static void set_int(json_t *object, const char *name, int64_t value)
{
	json_object_set_new(object, name, json_integer(value));
}

static void set_bool(json_t *object, const char *name, bool value)
{
	json_object_set_new(object, name, json_boolean(value));
}

static void set_text(json_t *object, const char *name, const char *value)
{
	json_object_set_new(object, name, json_string(value));
}

/* Sizes that divide each other, so that the largest is the lcm. */
static void draw_block_sizes(struct draw *draw)
{
	static const int64_t hash_sizes[] = {2, 4, 4, 8};

	draw->hash_block_size = hash_sizes[draw_below(draw, 4)];
	draw->group_count = (size_t)(1 + draw_below(draw, DRAW_MAX_GROUPS));
	for (size_t g = 0; g < draw->group_count; g++) {
		draw->block_size[g] = draw->hash_block_size << draw_below(draw, 3);
		if (draw->block_size[g] > draw->lcm_block_size)
			draw->lcm_block_size = draw->block_size[g];
	}
}

static json_t *draw_group(struct draw *draw, size_t index, int64_t tp_rank)
{
	json_t *group = json_object();
	int64_t base = (int64_t)(index + 1) << 20;
	int64_t kind = index == 0 && draw_percent(draw, 70) ? 0 : draw_below(draw, 3);
	static const char *const kinds[] = {"full", "sliding_window", "mamba"};
	char prefix[96];

	draw->is_window[index] = kind == 1;
	draw->is_mamba[index] = kind == 2;
	set_text(group, "kind", kinds[kind]);
	set_int(group, "block_size", draw->block_size[index]);
	if (kind == 1)
		set_int(group, "window", 1 + draw_below(draw, 3 * draw->block_size[index]));
	if (kind == 2)
		set_text(group, "mamba_mode", "align");
	if (draw_percent(draw, 5))
		set_bool(group, "eagle", true);
	if (index > 0 && draw_percent(draw, 5))
		set_bool(group, "participates", false);
	set_int(group, "put_step", draw_percent(draw, 65) ? 1 : (int64_t)1 << draw_below(draw, 3));
	json_object_set_new(group, "base_addrs",
	                    json_pack("[I,I]", (json_int_t)base, (json_int_t)(base + 262144)));
	json_object_set_new(group, "block_lens",
	                    draw_percent(draw, 50) ? json_pack("[i,i]", 64, 32)
	                                           : json_pack("[i]", 4096));
	snprintf(prefix, sizeof(prefix), "m@tp_rank:%lld@pcp0@dcp0@pp_rank:0@group:%zu",
	         (long long)tp_rank, index);
	set_text(group, "key_prefix", prefix);
	return group;
}

/* one full-attention group whose blocks are two shards each. */
static json_t *draw_shard_group(struct draw *draw, int64_t tp_rank)
{
	json_t *group =
		json_pack("{s:s,s:I,s:{s:i,s:i,s:i,s:[{s:[i,i],s:[i,i],s:[i,i]},"
	                  "{s:[i,i],s:[i,i],s:[i,i]}]},s:i}",
	                  "kind", "full", "block_size", (json_int_t)draw->block_size[0], "shards",
	                  "local_tp", 2, "store_tp", 4, "num_kv_heads", 8, "templates", "bases",
	                  1048576, 1310720, "strides", 128, 128, "sizes", 64, 64, "bases", 1048640,
	                  1310784, "strides", 128, 128, "sizes", 64, 64, "put_step", 1);
	char prefix[96];

	snprintf(prefix, sizeof(prefix),
	         "m" SHARED_NAMESPACE "@tp_rank:%lld@pcp0@dcp0@pp_rank:0@group:0",
	         (long long)tp_rank);
	set_text(group, "key_prefix", prefix);
	return group;
}

static json_t *draw_chain(struct draw *draw, int64_t hash_bytes)
{
	json_t *chain = json_array();

	for (int i = 0; i < DRAW_HASHES; i++) {
		char hex[65];

		for (int64_t b = 0; b < hash_bytes; b++)
			snprintf(hex + 2 * b, 3, "%02x", (unsigned)draw_below(draw, 256));
		json_array_append_new(chain, json_string(hex));
	}
	return chain;
}

static void set_chains(struct draw *draw, json_t *config)
{
	int64_t hash_bytes = draw_percent(draw, 50) ? 8 : 32;
	json_t *chains = json_object();

	json_object_set_new(chains, "a", draw_chain(draw, hash_bytes));
	json_object_set_new(chains, "b", draw_chain(draw, hash_bytes));
	set_int(config, "hash_bytes", hash_bytes);
	json_object_set_new(config, "chains", chains);
}

/* Budgets of one to a few keys: some loads fit, some split, some keys are oversized. */
static void set_budget(struct draw *draw, json_t *config)
{
	static const int64_t raw[] = {8192, 12288, 24576, 40000, 100000};
	static const double ratios[] = {0.9, 1.0, 0.5};
	double ratio = ratios[draw_below(draw, 3)];
	int64_t bytes = raw[draw_below(draw, 5)];

	if (draw_percent(draw, 60)) {
		json_object_set_new(config, "disk_budget", json_null());
		json_object_set_new(config, "disk_usable_ratio", json_real(0.9));
		json_object_set_new(config, "usable_disk_budget", json_null());
		return;
	}
	set_int(config, "disk_budget", bytes);
	json_object_set_new(config, "disk_usable_ratio", json_real(ratio));
	set_int(config, "usable_disk_budget", (int64_t)((double)bytes * ratio));
}

static void set_masks(struct draw *draw, json_t *config)
{
	bool coarse = false;

	for (size_t g = 0; g < draw->group_count; g++)
		coarse = coarse || draw->block_size[g] > draw->hash_block_size;
	draw->partial_hash_hits = coarse && draw_percent(draw, 50);
	set_bool(config, "partial_hash_hits", draw->partial_hash_hits);
	set_bool(config, "use_eagle", draw_percent(draw, 15));
	if (draw_percent(draw, 60))
		json_object_set_new(config, "retention_interval", json_null());
	else
		set_int(config, "retention_interval", draw_below(draw, 3) * draw->lcm_block_size);
}

static void set_switches(struct draw *draw, json_t *config)
{
	draw->events = draw_percent(draw, 40);
	set_bool(config, "enable_kv_event", draw->events);
	set_bool(config, "int_event_hashes", draw_percent(draw, 30));
	set_bool(config, "group_semantics", draw_percent(draw, 30));
	set_bool(config, "supports_group_ids", draw_percent(draw, 60));
	set_bool(config, "record_ops", draw_percent(draw, 95));
	set_bool(config, "tier_log", draw_percent(draw, 10));
	set_bool(config, "hma", draw->group_count > 1);
}

json_t *draw_config(struct draw *draw)
{
	json_t *config = json_object();
	json_t *groups = json_array();
	bool sharded = draw_percent(draw, 10);
	int64_t tp_rank = draw_below(draw, sharded ? 2 : 6);

	draw_block_sizes(draw);
	if (sharded) {
		draw->group_count = 1;
		draw->lcm_block_size = draw->block_size[0];
		json_array_append_new(groups, draw_shard_group(draw, tp_rank));
	}
	for (size_t g = 0; g < draw->group_count && !sharded; g++)
		json_array_append_new(groups, draw_group(draw, g, tp_rank));
	set_int(config, "block_size", draw->lcm_block_size);
	set_int(config, "lcm_block_size", draw->lcm_block_size);
	set_int(config, "hash_block_size", draw->hash_block_size);
	set_masks(draw, config);
	set_int(config, "tp_rank", tp_rank);
	set_text(config, "model_name", "m");
	set_text(config, "cache_prefix", "");
	set_int(config, "pcp_rank", 0);
	set_int(config, "dcp_rank", 0);
	set_int(config, "pp_rank", 0);
	set_text(config, "store_namespace", sharded ? SHARED_NAMESPACE : "");
	json_object_set_new(config, "groups", groups);
	set_chains(draw, config);
	set_switches(draw, config);
	set_budget(draw, config);
	return config;
}
