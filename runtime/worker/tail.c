/* SPDX-License-Identifier: Apache-2.0 */
/* Objects that end inside a block: the partial tail and explicit boundary puts. */
#include "base/size.h"
#include "layout/chunks.h"
#include "worker/save.h"

/* The block that an entry hands over for this group; the last entry counts. false: none. */
static bool handed_block(const struct save_part *save, uint32_t group, int32_t *block_id)
{
	for (size_t i = save->tail_count; i > 0; i--) {
		if (save->tail[i - 1].group == group) {
			*block_id = save->tail[i - 1].block_id;
			return true;
		}
	}
	return false;
}

static void add_tail_group(struct save_run *run, uint32_t g, uint64_t boundary,
                           uint64_t saved_tokens)
{
	struct kvh_worker *worker = run->worker;
	const struct worker_group *group = &worker->groups[g];
	const struct kvh_block_table *table = &run->job->blocks[g];
	uint32_t block_tokens = group->config.block_tokens;
	uint64_t last = kvh_div_up(boundary, block_tokens) - 1;
	uint64_t first = saved_tokens / block_tokens;

	for (uint64_t i = first < last ? first : last; i <= last; i++) {
		struct kvh_chunk chunk =
			kvh_chunk_at(i, block_tokens, worker->hash_tokens, boundary);
		int32_t block_id = KVH_NULL_BLOCK;
		bool inside = chunk.end_token == boundary && boundary % block_tokens != 0;

		if (!kvh_chunk_is_mine(i, group->put_step, worker->tp_rank, g))
			continue;
		if (!(inside && handed_block(&run->job->save, g, &block_id)) && i < table->count)
			block_id = table->ids[i];
		if (block_id != KVH_NULL_BLOCK)
			kvh_save_add(run, g, i, chunk.hash_index, block_id);
	}
}

static size_t tail_count_max(const struct save_run *run, uint64_t boundary)
{
	size_t count = 0;

	for (size_t g = 0; g < run->worker->group_count; g++) {
		const struct worker_group *group = &run->worker->groups[g];

		if (group->participates)
			count += kvh_div_up(boundary, group->config.block_tokens);
	}
	return count * kvh_worker_shards(run->worker);
}

kvh_status kvh_save_tail(struct save_run *run)
{
	struct kvh_worker *worker = run->worker;
	const struct save_part *save = &run->job->save;
	uint64_t boundary = save->tail_count ? save->tail[0].tokens : 0;
	uint64_t saved_tokens;
	kvh_status status;

	if (!worker->partial_hits || !run->job->hash_count)
		return KVH_OK;
	for (size_t i = 1; i < save->tail_count; i++) {
		if (save->tail[i].tokens != boundary) {
			run->job->save.raised = true;
			return KVH_INVALID_PARAMS;
		}
	}
	if (!boundary || boundary / worker->hash_tokens > run->job->hash_count)
		return KVH_OK;
	run->batch->count = 0;
	status = kvh_batch_reserve(run->batch, tail_count_max(run, boundary));
	if (status)
		return status;
	kvh_worker_lock(worker);
	saved_tokens = run->job->request ? run->job->request->saved_tokens : 0;
	kvh_worker_unlock(worker);
	for (uint32_t g = 0; g < worker->group_count; g++) {
		if (worker->groups[g].participates)
			add_tail_group(run, g, boundary, saved_tokens);
	}
	return kvh_save_store(run);
}

kvh_status kvh_save_boundaries(struct save_run *run)
{
	struct kvh_worker *worker = run->worker;
	const struct save_part *save = &run->job->save;
	kvh_status status;

	run->batch->count = 0;
	status =
		kvh_batch_reserve(run->batch, save->boundary_put_count * kvh_worker_shards(worker));
	if (status)
		return status;
	for (size_t i = 0; i < save->boundary_put_count; i++) {
		const struct kvh_boundary *put = &save->boundary_puts[i];
		const struct worker_group *group = &worker->groups[put->group];
		uint64_t chunk;

		if (!group->participates || put->block_id == KVH_NULL_BLOCK || !put->tokens ||
		    put->tokens / worker->hash_tokens > run->job->hash_count)
			continue;
		chunk = kvh_div_up(put->tokens, group->config.block_tokens) - 1;
		if (kvh_chunk_is_mine(chunk, group->put_step, worker->tp_rank, put->group))
			kvh_save_add(run, put->group, chunk, put->tokens / worker->hash_tokens - 1,
			             put->block_id);
	}
	return kvh_save_store(run);
}
