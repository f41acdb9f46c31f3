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

/* One dimension of the rank; size 0 stands for 1. */
static kvh_status check_rank(const char *name, uint32_t rank, uint32_t given_size, uint32_t *size,
			     struct kvh_error *error)
{
	*size = given_size ? given_size : 1;
	if (*size > KVH_RANKS_MAX)
		return kvh_fail(error, KVH_INVALID_PARAMS, "%s_size: %u, at most %d", name, *size,
				KVH_RANKS_MAX);
	if (rank >= *size)
		return kvh_fail(error, KVH_INVALID_PARAMS, "%s_rank: %u, but %s_size is %u", name,
				rank, name, *size);
	return KVH_OK;
}

static kvh_status take_ranks(struct kvh_worker *worker, const struct kvh_worker_config *config,
			     struct kvh_error *error)
{
	kvh_status status;

	status = check_rank("tp", config->tp_rank, config->tp_size, &worker->tp_size, error);
	if (!status)
		status = check_rank("pcp", config->pcp_rank, config->pcp_size, &worker->pcp_size,
				    error);
	if (!status)
		status = check_rank("dcp", config->dcp_rank, config->dcp_size, &worker->dcp_size,
				    error);
	if (!status)
		status = check_rank("pp", config->pp_rank, config->pp_size, &worker->pp_size, error);
	if (status)
		return status;
	/* A lookup asks for all ranks, so it must know which dcp rank a tp rank is. */
	if (worker->tp_size % worker->dcp_size ||
	    config->dcp_rank != config->tp_rank % worker->dcp_size)
		return kvh_fail(error, KVH_INVALID_PARAMS,
				"dcp_rank: %u of %u does not follow from tp_rank %u of %u (it is "
				"tp_rank mod dcp_size, and dcp_size divides tp_size)",
				config->dcp_rank, worker->dcp_size, config->tp_rank,
				worker->tp_size);
	worker->tp_rank = config->tp_rank;
	worker->pcp_rank = config->pcp_rank;
	worker->dcp_rank = config->dcp_rank;
	worker->pp_rank = config->pp_rank;
	return KVH_OK;
}

static kvh_status take_limits(struct kvh_worker *worker, const struct kvh_worker_config *config,
			      struct kvh_error *error)
{
	int64_t probe_ms = config->pressure_probe_ms ? config->pressure_probe_ms
						     : DEFAULT_PRESSURE_PROBE_MS;
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
	worker->max_queued_bytes =
		config->max_queued_bytes ? config->max_queued_bytes : UINT64_MAX;
	worker->pressure_probe_ns = probe_ms < 0 ? 0 : (uint64_t)probe_ms * NS_PER_MS;
	worker->load_timeout_ns = timeout_ms < 0 ? 0 : (uint64_t)timeout_ms * NS_PER_MS;
	return KVH_OK;
}

/* usable = max(1, floor(raw * ratio)). */
static kvh_status take_staging(struct kvh_worker *worker, const struct kvh_worker_config *config,
			       struct kvh_error *error)
{
	double ratio = config->staging_usable_ratio ? config->staging_usable_ratio
						    : DEFAULT_STAGING_RATIO;

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

static kvh_status take_groups(struct kvh_worker *worker, const struct kvh_worker_config *config,
			      struct kvh_error *error)
{
	if (!config->groups || !config->group_count || config->group_count > KVH_GROUPS_MAX)
		return kvh_fail(error, KVH_INVALID_PARAMS,
				"groups: %zu given, 1 to %d are possible", config->group_count,
				KVH_GROUPS_MAX);
	worker->group_count = config->group_count;
	for (size_t i = 0; i < config->group_count; i++) {
		struct worker_group *group = &worker->groups[i];

		group->config = config->groups[i];
		group->participates = !group->config.opts_out;
		group->factor = kvh_replication_factor(&group->config, worker->tp_size,
						       worker->dcp_size);
		group->put_step = group->config.put_step ? group->config.put_step : group->factor;
		if (group->put_step > KVH_RANKS_MAX)
			return kvh_fail(error, KVH_INVALID_PARAMS,
					"groups[%zu].put_step: %u, at most %d", i,
					group->put_step, KVH_RANKS_MAX);
	}
	return KVH_OK;
}

/* Where each group's prefix ids lie in an epoch. */
static void place_prefixes(struct kvh_worker *worker)
{
	for (size_t i = 0; i < worker->group_count; i++) {
		struct worker_group *group = &worker->groups[i];
		bool shared = worker->sharding.format != KVH_FORMAT_RANK_LOCAL;
		size_t ranks = shared ? worker->sharding.store_tp_size
				      : worker->tp_size / group->factor;

		if (shared)
			group->put_step = 1; /* */
		worker->group_first_own[i] = worker->own_count;
		worker->group_first_lookup[i] = worker->lookup_count;
		worker->group_namespaces[i] = ranks * worker->pcp_size * worker->pp_size;
		if (!group->participates)
			continue;
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
		status = take_ranks(worker, config, error);
	if (!status)
		status = take_limits(worker, config, error);
	if (!status)
		status = take_staging(worker, config, error);
	if (!status)
		status = take_groups(worker, config, error);
	if (!status)
		status = take_coordinator(worker, config, error);
	if (!status)
		status = take_names(worker, config, error);
	if (!status)
		status = kvh_sharding_choose(config, &worker->sharding, note, sizeof(note), error);
	if (status)
		return status;
	if (note[0])
		kvh_log_line(&worker->log, KVH_LOG_WARN, "%s", note);
	place_prefixes(worker);
	return KVH_OK;
}
