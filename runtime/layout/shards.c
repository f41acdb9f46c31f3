/* SPDX-License-Identifier: Apache-2.0 */
/* Replication factors, the choice of a TP-shared layout and its segment templates. */
#include "layout/shards.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/check.h"
#include "base/error.h"
#include "base/size.h"

static uint32_t or_one(uint32_t count)
{
	return count ? count : 1;
}

/* Whether the number of KV heads decides which ranks hold equal bytes. */
static bool heads_decide(const struct kvh_group *group, uint32_t dcp_size)
{
	return group->kind != KVH_ATTENTION_MAMBA && !group->mla && group->kv_heads &&
	       dcp_size <= 1;
}

uint32_t kvh_replication_factor(const struct kvh_group *group, uint32_t tp_size, uint32_t dcp_size)
{
	if (heads_decide(group, dcp_size))
		return or_one(tp_size / group->kv_heads);
	return group->mla && group->kind != KVH_ATTENTION_MAMBA && dcp_size <= 1 ? tp_size : 1;
}

/* ---- the choice ----------------------------------------------------------------------- */

static const char *format_word(enum kvh_store_format format)
{
	switch (format) {
	case KVH_FORMAT_RANK_LOCAL:
		return "rank_local";
	case KVH_FORMAT_TP_SHARED_LBHNC:
		return "tp_shared_lbhnc";
	case KVH_FORMAT_TP_SHARED_LBNHC:
		return "tp_shared_lbnhc";
	}
	return NULL;
}

static kvh_status check_rank(const char *name, uint32_t rank, uint32_t rank_count,
                             struct kvh_error *error)
{
	if (rank_count > KVH_RANKS_MAX)
		return kvh_fail(error, KVH_INVALID_PARAMS,
		                "%s_size is %" PRIu32 ", must be at most %d", name, rank_count,
		                KVH_RANKS_MAX);
	if (rank >= or_one(rank_count))
		return kvh_fail(error, KVH_INVALID_PARAMS,
		                "%s_rank is %" PRIu32 ", must be below %s_size %" PRIu32, name,
		                rank, name, or_one(rank_count));
	return KVH_OK;
}

static kvh_status check_ranks(const struct kvh_worker_config *config, struct kvh_error *error)
{
	kvh_status status = check_rank("tp", config->tp_rank, config->tp_size, error);

	if (status == KVH_OK)
		status = check_rank("pcp", config->pcp_rank, config->pcp_size, error);
	if (status == KVH_OK)
		status = check_rank("dcp", config->dcp_rank, config->dcp_size, error);
	if (status == KVH_OK)
		status = check_rank("pp", config->pp_rank, config->pp_size, error);
	if (status == KVH_OK)
		status = check_rank("store_tp", 0, config->store_tp_size, error);
	return status;
}

static kvh_status check_heads(const struct kvh_worker_config *config, struct kvh_error *error)
{
	const uint32_t tp_size = or_one(config->tp_size);

	for (size_t index = 0; index < config->group_count; index++) {
		const struct kvh_group *group = &config->groups[index];

		if (group->opts_out || !heads_decide(group, config->dcp_size))
			continue;
		if (group->kv_heads < tp_size && tp_size % group->kv_heads)
			return kvh_fail(error, KVH_INVALID_PARAMS,
			                "group %zu: tp_size %" PRIu32
			                " is not a multiple of kv_heads %" PRIu32
			                ", so equal bytes of ranks can't be told",
			                index, tp_size, group->kv_heads);
	}
	return KVH_OK;
}

/* The only group that takes part; NULL: there is none or more than one. */
static const struct kvh_group *sole_group(const struct kvh_worker_config *config)
{
	const struct kvh_group *found = NULL;

	for (size_t index = 0; index < config->group_count; index++) {
		if (config->groups[index].opts_out)
			continue;
		if (found)
			return NULL;
		found = &config->groups[index];
	}
	return found;
}

/* Why the blocks can't be cut into shards; NULL: they can. */
static const char *shared_refusal(const struct kvh_worker_config *config, uint32_t store_tp_size)
{
	const struct kvh_group *group = sole_group(config);
	const uint32_t tp_size = or_one(config->tp_size);

	if (config->pcp_size > 1 || config->dcp_size > 1)
		return "context parallelism is on";
	if (!group)
		return "not exactly one group takes part";
	if (group->kind != KVH_ATTENTION_FULL || group->mla)
		return "the group is not full attention with heads";
	if (store_tp_size % tp_size)
		return "store_tp_size is not a multiple of tp_size";
	if ((group->kv_heads ? group->kv_heads : tp_size) % store_tp_size)
		return "the KV heads do not divide evenly into store_tp_size shards";
	return NULL;
}

static void set_name_space(struct kvh_sharding *sharding, uint32_t pp_size)
{
	int bytes = snprintf(sharding->name_space, sizeof(sharding->name_space),
	                     "@store_tp:%" PRIu32 "@store_pp:%" PRIu32 "@store_format:%s",
	                     sharding->store_tp_size, pp_size, format_word(sharding->format));

	KVH_CHECK(bytes > 0 && (size_t)bytes < sizeof(sharding->name_space));
}

static kvh_status check_choice(const struct kvh_worker_config *config, struct kvh_error *error)
{
	kvh_status status = check_ranks(config, error);

	if (status == KVH_OK)
		status = check_heads(config, error);
	if (status != KVH_OK)
		return status;
	if (!format_word(config->format))
		return kvh_fail(error, KVH_INVALID_PARAMS, "format: unknown number %d",
		                (int)config->format);
	if (config->format == KVH_FORMAT_RANK_LOCAL && config->store_tp_size &&
	    config->store_tp_size != or_one(config->tp_size))
		return kvh_fail(error, KVH_INVALID_PARAMS,
		                "store_tp_size is %" PRIu32
		                ", but rank-local keys have no shards; leave it 0 or choose a "
		                "TP-shared format",
		                config->store_tp_size);
	return KVH_OK;
}

kvh_status kvh_sharding_choose(const struct kvh_worker_config *config, struct kvh_sharding *out,
                               char *note, size_t note_bytes, struct kvh_error *error)
{
	const uint32_t tp_size = or_one(config->tp_size);
	struct kvh_sharding chosen = {.shards_per_rank = 1, .store_tp_size = tp_size};
	const char *refusal = NULL;
	kvh_status status = check_choice(config, error);

	if (status != KVH_OK)
		return status;
	if (config->format != KVH_FORMAT_RANK_LOCAL) {
		uint32_t store_tp_size = config->store_tp_size ? config->store_tp_size : tp_size;

		refusal = shared_refusal(config, store_tp_size);
		if (!refusal) {
			chosen.format = config->format;
			chosen.store_tp_size = store_tp_size;
			chosen.shards_per_rank = store_tp_size / tp_size;
		}
		set_name_space(&chosen, or_one(config->pp_size));
	}
	if (note_bytes)
		note[0] = 0;
	if (note_bytes && refusal)
		snprintf(note, note_bytes, "format %s is not possible, keys are rank-local: %s",
		         format_word(config->format), refusal);
	*out = chosen;
	return KVH_OK;
}

/* ---- keys ----------------------------------------------------------------------------- */

uint32_t kvh_shard_key_rank(const struct kvh_sharding *sharding, uint32_t tp_rank, uint32_t factor,
                            uint32_t shard)
{
	if (sharding->format == KVH_FORMAT_RANK_LOCAL)
		return tp_rank / factor;
	return tp_rank * sharding->shards_per_rank + shard;
}

/* Different ranks or shards that keys of the group name. */
static uint32_t key_tp_count(const struct kvh_sharding *sharding,
                             const struct kvh_worker_config *config, const struct kvh_group *group)
{
	uint32_t factor;

	if (sharding->format != KVH_FORMAT_RANK_LOCAL)
		return sharding->store_tp_size;
	factor = kvh_replication_factor(group, or_one(config->tp_size), config->dcp_size);
	return (or_one(config->tp_size) - 1) / factor + 1;
}

size_t kvh_key_ranks_count(const struct kvh_sharding *sharding,
                           const struct kvh_worker_config *config, const struct kvh_group *group)
{
	return (size_t)key_tp_count(sharding, config, group) * or_one(config->pcp_size) *
	       or_one(config->pp_size);
}

struct kvh_key_ranks kvh_key_ranks_at(const struct kvh_sharding *sharding,
                                      const struct kvh_worker_config *config,
                                      const struct kvh_group *group, size_t index)
{
	const uint32_t pp_size = or_one(config->pp_size);
	const uint32_t pcp_size = or_one(config->pcp_size);
	struct kvh_key_ranks ranks = {0};

	KVH_CHECK(index < kvh_key_ranks_count(sharding, config, group));
	ranks.pp_rank = (uint32_t)(index % pp_size);
	ranks.pcp_rank = (uint32_t)(index / pp_size % pcp_size);
	ranks.tp_rank = (uint32_t)(index / pp_size / pcp_size);
	/* With context parallelism the factor is 1, so this is the rank itself. */
	ranks.dcp_rank = ranks.tp_rank % or_one(config->dcp_size);
	return ranks;
}

/* ---- templates ------------------------------------------------------------------------ */

static bool is_token_major(const struct kvh_sharding *sharding)
{
	return sharding->format == KVH_FORMAT_TP_SHARED_LBNHC && sharding->shards_per_rank > 1;
}

size_t kvh_shard_template_count(const struct kvh_sharding *sharding, const struct kvh_group *group)
{
	return is_token_major(sharding) ? group->block_tokens : 1;
}

/* Heads of the group that one rank has; 1 where heads do not matter. */
static uint64_t heads_per_rank(const struct kvh_sharding *sharding, const struct kvh_group *group)
{
	if (sharding->format == KVH_FORMAT_RANK_LOCAL || !group->kv_heads)
		return 1;
	return group->kv_heads / (sharding->store_tp_size / sharding->shards_per_rank);
}

kvh_status kvh_shard_templates(const struct kvh_sharding *sharding, const struct kvh_group *group,
                               const struct kvh_cache_region *region, uint32_t shard,
                               struct kvh_segment_template *out, struct kvh_error *error)
{
	const size_t count = kvh_shard_template_count(sharding, group);
	const uint64_t heads = heads_per_rank(sharding, group);
	const size_t row_bytes = region->block_bytes / count;
	const size_t slice_bytes = row_bytes / sharding->shards_per_rank;

	KVH_CHECK(shard < sharding->shards_per_rank);
	/* A slice is whole heads: head-major of all tokens, token-major of one. */
	if (!slice_bytes || region->block_bytes % count || row_bytes % heads)
		return kvh_fail(error, KVH_INVALID_PARAMS,
		                "group %" PRIu32 ": block_bytes %zu is not a multiple of %" PRIu64
		                " heads%s",
		                region->group, region->block_bytes, heads,
		                count > 1 ? " times block_tokens" : "");
	if (!kvh_range_ok(region->base, region->block_bytes))
		return kvh_fail(error, KVH_INVALID_PARAMS,
		                "group %" PRIu32 ": the region's first block ends beyond memory",
		                region->group);
	for (size_t row = 0; row < count; row++)
		out[row] = (struct kvh_segment_template){
			.base = (char *)region->base + row * row_bytes + shard * slice_bytes,
			.stride_bytes = region->stride_bytes,
			.bytes = slice_bytes};
	return KVH_OK;
}
