/* SPDX-License-Identifier: Apache-2.0 */
/* Registering the engine's caches: memory with the store, one layout per group and shard. */
#include "worker/internal.h"

#include "base/error.h"
#include "base/fault.h"
#include "base/size.h"

void kvh_caches_release(struct kvh_worker *worker)
{
	for (size_t g = 0; g < worker->group_count; g++) {
		struct worker_group *group = &worker->groups[g];

		for (uint32_t s = 0; group->layouts && s < kvh_worker_shards(worker); s++)
			kvh_layout_destroy(group->layouts[s]);
		kvh_free(group->layouts);
		group->layouts = NULL;
	}
}

static size_t regions_of(const struct kvh_caches *caches, uint32_t group)
{
	size_t count = 0;

	for (size_t i = 0; i < caches->region_count; i++)
		count += caches->regions[i].group == group;
	return count;
}

/* Fills all templates of one shard of a group, region after region. */
static kvh_status fill_templates(struct kvh_worker *worker, const struct kvh_caches *caches,
                                 uint32_t group, uint32_t shard,
                                 struct kvh_segment_template *templates, struct kvh_error *error)
{
	const struct kvh_group *config = &worker->groups[group].config;
	size_t per_region = kvh_shard_template_count(&worker->sharding, config);

	for (size_t i = 0; i < caches->region_count; i++) {
		kvh_status status;

		if (caches->regions[i].group != group)
			continue;
		status = kvh_shard_templates(&worker->sharding, config, &caches->regions[i], shard,
		                             templates, error);
		if (status)
			return status;
		templates += per_region;
	}
	return KVH_OK;
}

static kvh_status make_layouts(struct kvh_worker *worker, const struct kvh_caches *caches,
                               uint32_t group, struct kvh_error *error)
{
	struct worker_group *g = &worker->groups[group];
	uint32_t shards = kvh_worker_shards(worker);
	size_t count =
		regions_of(caches, group) * kvh_shard_template_count(&worker->sharding, &g->config);
	struct kvh_segment_template *templates;
	kvh_status status = KVH_OK;

	if (!count)
		return kvh_fail(error, KVH_INVALID_PARAMS,
		                "register_caches: group %u has no cache region", group);
	if (count > KVH_SEGMENTS_MAX)
		return kvh_fail(error, KVH_INVALID_PARAMS,
		                "register_caches: a block of group %u has %zu segments, at most %d",
		                group, count, KVH_SEGMENTS_MAX);
	templates = kvh_calloc(count, sizeof(*templates));
	g->layouts = kvh_calloc(shards, sizeof(*g->layouts));
	if (!templates || !g->layouts)
		status = kvh_fail(error, KVH_NO_MEMORY, "register_caches: no memory for layouts");
	for (uint32_t shard = 0; shard < shards && !status; shard++) {
		status = fill_templates(worker, caches, group, shard, templates, error);
		if (!status)
			status = kvh_layout_create(worker->store, templates, count,
			                           caches->block_counts[group], &g->layouts[shard],
			                           error);
	}
	if (!status) {
		g->value_bytes = kvh_layout_value_bytes(g->layouts[0]);
		g->block_count = caches->block_counts[group];
	}
	kvh_free(templates);
	return status;
}

static kvh_status register_memory(struct kvh_worker *worker, const struct kvh_caches *caches,
                                  struct kvh_error *error)
{
	worker->regions = kvh_calloc(caches->memory_count, sizeof(*worker->regions));
	if (!worker->regions)
		return kvh_fail(error, KVH_NO_MEMORY, "register_caches: no memory for regions");
	for (size_t i = 0; i < caches->memory_count; i++) {
		const struct kvh_memory *memory = &caches->memory[i];
		kvh_status status = kvh_store_register(worker->store, memory->addr, memory->bytes,
		                                       memory->kind, &worker->regions[i], error);

		if (status)
			return status;
		worker->region_count++;
	}
	return KVH_OK;
}

kvh_status kvh_caches_unregister(struct kvh_worker *worker, kvh_deadline deadline_ns)
{
	while (worker->region_count > 0) {
		kvh_status status = kvh_store_unregister(
			worker->store, worker->regions[worker->region_count - 1], deadline_ns);

		if (status)
			return status;
		worker->region_count--;
	}
	kvh_free(worker->regions);
	worker->regions = NULL;
	return KVH_OK;
}

static kvh_status check_caches(struct kvh_worker *worker, const struct kvh_caches *caches,
                               struct kvh_error *error)
{
	if (!caches || caches->struct_bytes < sizeof(*caches) || !caches->memory ||
	    !caches->memory_count || !caches->regions || !caches->region_count ||
	    !caches->block_counts)
		return kvh_fail(error, KVH_INVALID_PARAMS,
		                "register_caches: memory, regions and block_counts must be given");
	if (caches->memory_count > KVH_REGIONS_MAX)
		return kvh_fail(error, KVH_INVALID_PARAMS,
		                "register_caches: %zu memory ranges, at most %d",
		                caches->memory_count, KVH_REGIONS_MAX);
	if (caches->region_count > KVH_SEGMENTS_MAX * (size_t)KVH_GROUPS_MAX)
		return kvh_fail(error, KVH_INVALID_PARAMS,
		                "register_caches: %zu cache regions are too many",
		                caches->region_count);
	for (size_t i = 0; i < caches->region_count; i++) {
		if (caches->regions[i].group >= worker->group_count)
			return kvh_fail(error, KVH_INVALID_PARAMS,
			                "register_caches: region %zu names group %u of %zu", i,
			                caches->regions[i].group, worker->group_count);
		if (!caches->regions[i].base)
			return kvh_fail(error, KVH_INVALID_PARAMS,
			                "register_caches: region %zu has no base", i);
	}
	return KVH_OK;
}

kvh_status kvh_worker_register_caches(struct kvh_worker *worker, const struct kvh_caches *caches,
                                      struct kvh_error *error)
{
	kvh_status status = kvh_worker_serving(worker);
	bool taken;

	if (status)
		return kvh_fail(error, status, "register_caches: %s", kvh_strstatus(status));
	status = check_caches(worker, caches, error);
	if (status)
		return status;
	kvh_worker_lock(worker);
	taken = worker->registered;
	kvh_worker_unlock(worker);
	if (taken)
		return kvh_fail(error, KVH_BUSY, "register_caches: caches are registered already");
	/* What a try before this one could not give back. Nothing uses it: this can't wait. */
	status = kvh_caches_unregister(worker, 0);
	if (status)
		return kvh_fail(error, status,
		                "register_caches: the store can't forget the last try: %s",
		                kvh_strstatus(status));
	status = register_memory(worker, caches, error);
	for (uint32_t g = 0; g < worker->group_count && !status; g++) {
		if (worker->groups[g].participates)
			status = make_layouts(worker, caches, g, error);
	}
	if (!status) {
		status = kvh_threads_start(worker, worker->load_threads);
		if (status)
			kvh_fail(error, status, "register_caches: no threads: %s",
			         kvh_strstatus(status));
	}
	if (status) {
		kvh_caches_release(worker);
		/* What can't be given back now is at the next try, or at close. */
		(void)kvh_caches_unregister(worker, 0);
		return status;
	}
	kvh_worker_lock(worker);
	worker->registered = true;
	kvh_worker_unlock(worker);
	return KVH_OK;
}
