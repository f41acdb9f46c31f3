/* SPDX-License-Identifier: Apache-2.0 */
/* Prefix ids: which prefixes this rank writes, and which the ranks of a lookup are asked for. */
#include "worker/internal.h"

#include "base/check.h"
#include "base/error.h"
#include "base/fault.h"
#include "layout/keys.h"

static kvh_status intern(struct kvh_worker *worker, uint32_t group,
                         const struct kvh_key_ranks *ranks, const struct kvh_prefix *identity,
                         uint32_t *prefix_id, struct kvh_error *error)
{
	const struct kvh_key_parts parts = {.cache_prefix = worker->cache_prefix,
	                                    .model = worker->model,
	                                    .name_space = worker->sharding.name_space,
	                                    .tp_rank = ranks->tp_rank,
	                                    .pcp_rank = ranks->pcp_rank,
	                                    .dcp_rank = ranks->dcp_rank,
	                                    .pp_rank = ranks->pp_rank,
	                                    .group = group};
	struct kvh_prefix_text text;
	struct kvh_prefix prefix = *identity;
	kvh_status status = kvh_key_compose(&parts, &text, error);

	if (status)
		return status;
	prefix.text = text.text;
	prefix.text_bytes = text.text_bytes;
	prefix.family_bytes = text.family_bytes;
	return kvh_store_prefix(worker->store, &prefix, prefix_id, error);
}

static kvh_status intern_own(struct kvh_worker *worker, uint32_t group,
                             const struct kvh_prefix *identity, uint32_t *ids,
                             struct kvh_error *error)
{
	struct kvh_key_ranks ranks = {.pcp_rank = worker->ranks.pcp_rank,
	                              .dcp_rank = worker->ranks.dcp_rank,
	                              .pp_rank = worker->ranks.pp_rank};

	for (uint32_t shard = 0; shard < worker->sharding.shards_per_rank; shard++) {
		kvh_status status;

		ranks.tp_rank = kvh_shard_key_rank(&worker->sharding, worker->tp_rank,
		                                   worker->groups[group].factor, shard);
		status = intern(worker, group, &ranks, identity, &ids[shard], error);
		if (status)
			return status;
	}
	return KVH_OK;
}

/* All ranks that write this group. */
static kvh_status intern_lookup(struct kvh_worker *worker, uint32_t group,
                                const struct kvh_prefix *identity, uint32_t *ids,
                                struct kvh_error *error)
{
	for (uint32_t i = 0; i < worker->group_namespaces[group]; i++) {
		const struct kvh_key_ranks ranks = kvh_key_ranks_at(
			&worker->sharding, &worker->ranks, &worker->groups[group].config, i);
		kvh_status status = intern(worker, group, &ranks, identity, &ids[i], error);

		if (status)
			return status;
	}
	return KVH_OK;
}

kvh_status kvh_epoch_create(struct kvh_worker *worker, const void *identity, size_t identity_bytes,
                            struct worker_epoch **out, struct kvh_error *error)
{
	size_t ids = worker->own_count + worker->lookup_count;
	struct worker_epoch *epoch = kvh_calloc(1, sizeof(*epoch) + ids * sizeof(uint32_t));
	const struct kvh_prefix prefix = {.struct_bytes = sizeof(prefix),
	                                  .identity = identity,
	                                  .identity_bytes = identity_bytes,
	                                  .hash_bytes = worker->hash_bytes};

	if (!epoch)
		return kvh_fail(error, KVH_NO_MEMORY, "identity: no memory for its prefixes");
	epoch->own = (uint32_t *)(epoch + 1);
	epoch->lookup = epoch->own + worker->own_count;
	for (uint32_t group = 0; group < worker->group_count; group++) {
		kvh_status status;

		if (!worker->groups[group].participates)
			continue;
		status = intern_own(worker, group, &prefix,
		                    epoch->own + worker->group_first_own[group], error);
		if (!status)
			status = intern_lookup(worker, group, &prefix,
			                       epoch->lookup + worker->group_first_lookup[group],
			                       error);
		if (status) {
			kvh_epoch_destroy(epoch);
			return status;
		}
	}
	*out = epoch;
	return KVH_OK;
}

void kvh_epoch_destroy(struct worker_epoch *epoch)
{
	kvh_free(epoch);
}

void kvh_epoch_release(struct kvh_worker *worker, struct worker_epoch *epoch)
{
	KVH_CHECK(epoch->user_count > 0);
	if (--epoch->user_count == 0 && epoch != worker->epoch)
		kvh_epoch_destroy(epoch);
}

kvh_status kvh_worker_set_epoch(struct kvh_worker *worker, const void *identity,
                                size_t identity_bytes, struct kvh_error *error)
{
	struct worker_epoch *epoch, *old;
	kvh_status status = kvh_worker_serving(worker);

	if (status)
		return kvh_fail(error, status, "set_epoch: %s", kvh_strstatus(status));
	status = kvh_worker_check_identity(identity, identity_bytes, false, error);
	if (!status)
		status = kvh_epoch_create(worker, identity, identity_bytes, &epoch, error);
	if (status)
		return status;
	kvh_worker_lock(worker);
	old = worker->epoch;
	worker->epoch = epoch;
	kvh_ledger_drop_all(worker);
	if (old->user_count == 0)
		kvh_epoch_destroy(old);
	kvh_worker_unlock(worker);
	return KVH_OK;
}
