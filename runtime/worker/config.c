/* SPDX-License-Identifier: Apache-2.0 */
/* Checking a worker's configuration, and deriving from it what never changes. */
#include "worker/internal.h"

#include <string.h>

#include "base/error.h"
#include "base/fault.h"
#include "base/logging.h"
#include "worker/staging.h"

enum {
	DEFAULT_MAX_QUEUED_JOBS = 4096,
	DEFAULT_PRESSURE_PROBE_MS = 1000,
	DEFAULT_LOAD_TIMEOUT_MS = 30000,
	NS_PER_MS = 1000000
};

#define DEFAULT_STAGING_RATIO 0.9

kvh_status kvh_worker_check_identity(const void *identity, size_t identity_bytes, bool none,
                                     struct kvh_error *error)
{
	if (none)
		return KVH_OK;
	if (!identity || !identity_bytes)
		return kvh_fail(error, KVH_INVALID_PARAMS,
		                "identity: empty; give the bytes that name model revision, weights "
		                "epoch, KV dtype and layout, or say identity_none");
	if (identity_bytes > KVH_IDENTITY_BYTES_MAX)
		return kvh_fail(error, KVH_INVALID_PARAMS, "identity: %zu bytes, at most %d",
		                identity_bytes, KVH_IDENTITY_BYTES_MAX);
	return KVH_OK;
}

static uint32_t or_one(uint32_t size)
{
	return size ? size : 1;
}

/* Sizes and ranks, which kvh_sharding_choose has checked one by one. */
static void take_ranks(struct kvh_worker *worker, const struct kvh_worker_config *config)
{
	uint32_t dcp_size = or_one(config->dcp_size);

	/* A lookup asks for all ranks, so it must know which dcp rank a tp rank is. */
	if (or_one(config->tp_size) % dcp_size || config->dcp_rank != config->tp_rank % dcp_size)
		kvh_log_line(&worker->log, KVH_LOG_WARN,
		             "dcp_rank %u of %u does not follow from tp_rank %u of %u (tp_rank mod "
		             "dcp_size): no lookup will find what this rank saves",
		             config->dcp_rank, dcp_size, config->tp_rank, or_one(config->tp_size));
	worker->ranks = (struct kvh_worker_config){.struct_bytes = sizeof(worker->ranks),
	                                           .tp_rank = config->tp_rank,
	                                           .tp_size = or_one(config->tp_size),
	                                           .pcp_rank = config->pcp_rank,
	                                           .pcp_size = or_one(config->pcp_size),
	                                           .dcp_rank = config->dcp_rank,
	                                           .dcp_size = dcp_size,
	                                           .pp_rank = config->pp_rank,
	                                           .pp_size = or_one(config->pp_size)};
	worker->tp_rank = config->tp_rank;
}

static kvh_status take_limits(struct kvh_worker *worker, const struct kvh_worker_config *config,
                              struct kvh_error *error)
{
	int64_t probe_ms =
		config->pressure_probe_ms ? config->pressure_probe_ms : DEFAULT_PRESSURE_PROBE_MS;
	int64_t timeout_ms =
		config->load_timeout_ms ? config->load_timeout_ms : DEFAULT_LOAD_TIMEOUT_MS;
	const int64_t ms_max = INT64_MAX / NS_PER_MS;

	if (config->save_threads > 1)
		return kvh_fail(error, KVH_NOT_SUPPORTED,
		                "save_threads: %u; only 1 is supported (D-9)",
		                config->save_threads);
	if (config->load_threads > KVH_LOAD_THREADS_MAX)
		return kvh_fail(error, KVH_INVALID_PARAMS, "load_threads: %u, at most %d",
		                config->load_threads, KVH_LOAD_THREADS_MAX);
	if (probe_ms > ms_max || timeout_ms > ms_max)
		return kvh_fail(error, KVH_INVALID_PARAMS,
		                "pressure_probe_ms or load_timeout_ms: more than %lld",
		                (long long)ms_max);
	worker->load_threads = config->load_threads ? config->load_threads : 1;
	worker->max_queued_jobs =
		config->max_queued_jobs ? config->max_queued_jobs : DEFAULT_MAX_QUEUED_JOBS;
	worker->max_queued_bytes = config->max_queued_bytes ? config->max_queued_bytes : UINT64_MAX;
	worker->pressure_probe_ns = probe_ms < 0 ? 0 : (uint64_t)probe_ms * NS_PER_MS;
	worker->load_timeout_ns = timeout_ms < 0 ? 0 : (uint64_t)timeout_ms * NS_PER_MS;
	return KVH_OK;
}

/* usable = max(1, floor(raw * ratio)). */
static kvh_status take_staging(struct kvh_worker *worker, const struct kvh_worker_config *config,
                               struct kvh_error *error)
{
	double ratio =
		config->staging_usable_ratio ? config->staging_usable_ratio : DEFAULT_STAGING_RATIO;

	if (!(ratio > 0 && ratio <= 1))
		return kvh_fail(error, KVH_INVALID_PARAMS,
		                "staging_usable_ratio: %g is not above 0 and at most 1", ratio);
	if (config->staging_bytes > INT64_MAX)
		return kvh_fail(error, KVH_INVALID_PARAMS, "staging_bytes: %llu is too large",
		                (unsigned long long)config->staging_bytes);
	worker->staging_raw_bytes = config->staging_bytes;
	worker->staging_usable_bytes = kvh_staging_usable(config->staging_bytes, ratio);
	return KVH_OK;
}

/* Before anything walks them. */
static kvh_status check_groups(const struct kvh_worker_config *config, struct kvh_error *error)
{
	if (config->groups && config->group_count && config->group_count <= KVH_GROUPS_MAX)
		return KVH_OK;
	return kvh_fail(error, KVH_INVALID_PARAMS, "groups: %zu given%s, 1 to %d are possible",
	                config->group_count, config->groups ? "" : " at NULL", KVH_GROUPS_MAX);
}

static kvh_status take_groups(struct kvh_worker *worker, const struct kvh_worker_config *config,
                              struct kvh_error *error)
{
	worker->group_count = config->group_count;
	for (size_t i = 0; i < config->group_count; i++) {
		struct worker_group *group = &worker->groups[i];

		group->config = config->groups[i];
		group->participates = !group->config.opts_out;
		group->factor = kvh_replication_factor(&group->config, worker->ranks.tp_size,
		                                       worker->ranks.dcp_size);
		group->put_step = group->config.put_step ? group->config.put_step : group->factor;
		/* With fewer ranks than steps some chunks would be nobody's. */
		if (group->put_step > worker->ranks.tp_size)
			return kvh_fail(
				error, KVH_INVALID_PARAMS,
				"groups[%zu].put_step: %u ranks can't share the puts, tp_size "
				"is %u",
				i, group->put_step, worker->ranks.tp_size);
	}
	return KVH_OK;
}

/* Where each group's prefix ids lie in an epoch. */
static void place_prefixes(struct kvh_worker *worker)
{
	for (size_t i = 0; i < worker->group_count; i++) {
		struct worker_group *group = &worker->groups[i];

		if (worker->sharding.format != KVH_FORMAT_RANK_LOCAL)
			group->put_step = 1; /* */
		worker->group_first_own[i] = worker->own_count;
		worker->group_first_lookup[i] = worker->lookup_count;
		if (!group->participates)
			continue;
		worker->group_namespaces[i] = (uint32_t)kvh_key_ranks_count(
			&worker->sharding, &worker->ranks, &group->config);
		worker->own_count += worker->sharding.shards_per_rank;
		worker->lookup_count += worker->group_namespaces[i];
	}
}

static kvh_status take_coordinator(struct kvh_worker *worker,
                                   const struct kvh_worker_config *config, struct kvh_error *error)
{
	const struct kvh_coordinator_config set_up = {.groups = config->groups,
	                                              .group_count = config->group_count,
	                                              .hash_tokens = config->hash_tokens,
	                                              .lcm_tokens = config->lcm_tokens,
	                                              .partial_hits = config->partial_hits,
	                                              .use_eagle = config->use_eagle,
	                                              .has_retention = config->has_retention,
	                                              .retention_tokens = config->retention_tokens};
	kvh_status status = kvh_coordinator_create(&set_up, &worker->coordinator, error);

	if (status)
		return status;
	worker->lcm_tokens = kvh_coordinator_lcm_tokens(worker->coordinator);
	worker->hash_tokens = config->hash_tokens;
	worker->partial_hits = config->partial_hits;
	worker->hash_bytes = config->hash_bytes ? config->hash_bytes : KVH_HASH_BYTES_MAX;
	if (worker->hash_bytes > KVH_HASH_BYTES_MAX)
		return kvh_fail(error, KVH_INVALID_PARAMS, "hash_bytes: %u, at most %d",
		                worker->hash_bytes, KVH_HASH_BYTES_MAX);
	return KVH_OK;
}

static kvh_status take_names(struct kvh_worker *worker, const struct kvh_worker_config *config,
                             struct kvh_error *error)
{
	const char *prefix = config->cache_prefix ? config->cache_prefix : "";

	if (!config->model || !config->model[0])
		return kvh_fail(error, KVH_INVALID_PARAMS, "model: empty; it is part of every key");
	worker->model = kvh_alloc(strlen(config->model) + 1);
	worker->cache_prefix = kvh_alloc(strlen(prefix) + 1);
	if (!worker->model || !worker->cache_prefix)
		return KVH_NO_MEMORY;
	memcpy(worker->model, config->model, strlen(config->model) + 1);
	memcpy(worker->cache_prefix, prefix, strlen(prefix) + 1);
	return KVH_OK;
}

kvh_status kvh_worker_configure(struct kvh_worker *worker, const struct kvh_worker_config *config,
                                struct kvh_error *error)
{
	char note[256] = "";
	kvh_status status;

	worker->events = config->events;
	worker->integer_hashes = config->integer_hashes;
	worker->lifecycle_groups = config->lifecycle_groups && worker->caps.lifecycle;
	worker->tier_log = config->tier_log && worker->caps.tiers;
	worker->record = config->record;
	worker->record_user = config->record_user;
	status = kvh_worker_check_identity(config->identity, config->identity_bytes,
	                                   config->identity_none, error);
	if (!status)
		status = check_groups(config, error);
	if (!status)
		status = kvh_sharding_choose(config, &worker->sharding, note, sizeof(note), error);
	if (status)
		return status;
	take_ranks(worker, config);
	status = take_limits(worker, config, error);
	if (!status)
		status = take_staging(worker, config, error);
	if (!status)
		status = take_groups(worker, config, error);
	if (!status)
		status = take_coordinator(worker, config, error);
	if (!status)
		status = take_names(worker, config, error);
	if (status)
		return status;
	if (note[0])
		kvh_log_line(&worker->log, KVH_LOG_WARN, "%s", note);
	place_prefixes(worker);
	return KVH_OK;
}
