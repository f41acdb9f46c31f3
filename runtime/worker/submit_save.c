/* SPDX-License-Identifier: Apache-2.0 */
/* Handing in a save (R-10, D-13, D-17). */
#include "base/error.h"
#include "base/fault.h"
#include "base/size.h"
#include "worker/submit.h"

/* Entries of either list: the group, the block and the place of the boundary on the hash grid. */
static kvh_status check_boundary(struct kvh_worker *worker, const char *list, size_t i,
                                 const struct kvh_boundary *entry, struct kvh_error *error)
{
	if (entry->group >= worker->group_count)
		return kvh_fail(error, KVH_INVALID_PARAMS, "%s[%zu].group: %u of %zu", list, i,
		                entry->group, worker->group_count);
	if (entry->tokens > KVH_TOKENS_MAX)
		return kvh_fail(error, KVH_INVALID_PARAMS, "%s[%zu].tokens: %llu, at most %d", list,
		                i, (unsigned long long)entry->tokens, KVH_TOKENS_MAX);
	if (entry->tokens % worker->hash_tokens)
		return kvh_fail(error, KVH_INVALID_PARAMS,
		                "%s[%zu].tokens: %llu is not a multiple of hash_tokens %u: no hash "
		                "names that prefix",
		                list, i, (unsigned long long)entry->tokens, worker->hash_tokens);
	if (!worker->groups[entry->group].participates)
		return KVH_OK;
	return kvh_submit_check_block(worker, list, entry->group, entry->block_id, error);
}

static kvh_status check_list(struct kvh_worker *worker, const char *name,
                             const struct kvh_boundary *list, size_t count, struct kvh_error *error)
{
	if (count && !list)
		return kvh_fail(error, KVH_INVALID_PARAMS, "%s: NULL, but its count is %zu", name,
		                count);
	if (count > KVH_BATCH_KEYS_MAX)
		return kvh_fail(error, KVH_INVALID_PARAMS, "%s: %zu entries, at most %d", name,
		                count, KVH_BATCH_KEYS_MAX);
	for (size_t i = 0; i < count; i++) {
		kvh_status status = check_boundary(worker, name, i, &list[i], error);

		if (status)
			return status;
	}
	return KVH_OK;
}

static kvh_status check_lists(struct kvh_worker *worker, const struct kvh_save_job *job,
                              struct kvh_error *error)
{
	kvh_status status;

	if (job->tail && job->boundary_puts)
		return kvh_fail(error, KVH_INVALID_PARAMS,
		                "tail and boundary_puts: only one may be given");
	status = check_list(worker, "tail", job->tail, job->tail_count, error);
	if (!status)
		status = check_list(worker, "boundary_puts", job->boundary_puts,
		                    job->boundary_put_count, error);
	return status;
}

static kvh_status check_tokens(const struct kvh_save_job *job, struct kvh_error *error)
{
	uint64_t end;

	if (job->token_id_count && !job->token_ids)
		return kvh_fail(error, KVH_INVALID_PARAMS,
		                "token_ids: NULL, but token_id_count is %zu", job->token_id_count);
	if (__builtin_add_overflow(job->token_ids_start, job->token_id_count, &end) ||
	    end > KVH_TOKENS_MAX)
		return kvh_fail(error, KVH_INVALID_PARAMS,
		                "token_ids: %zu from %llu on end beyond %d tokens",
		                job->token_id_count, (unsigned long long)job->token_ids_start,
		                KVH_TOKENS_MAX);
	return KVH_OK;
}

/* Every block that the job may read: an id out of range would be read as somebody else's memory. */
static kvh_status check_blocks(struct kvh_worker *worker, const struct job_input *in,
                               struct kvh_error *error)
{
	for (size_t g = 0; g < worker->group_count; g++) {
		const struct kvh_block_table *table = &in->blocks[g];

		if (!worker->groups[g].participates)
			continue;
		for (size_t i = 0; i < table->count; i++) {
			kvh_status status;

			if ((uint64_t)(int64_t)table->ids[i] < worker->groups[g].block_count)
				continue;
			status = kvh_submit_check_block(worker, "blocks", g, table->ids[i], error);
			if (status)
				return status;
		}
	}
	return KVH_OK;
}

uint64_t kvh_save_source_bytes(const struct kvh_worker *worker, uint64_t from_tokens,
                               uint64_t to_tokens)
{
	uint64_t bytes = 0;

	for (size_t g = 0; g < worker->group_count && from_tokens < to_tokens; g++) {
		const struct worker_group *group = &worker->groups[g];

		if (group->participates)
			bytes += (to_tokens - from_tokens) / group->config.block_tokens *
			         group->value_bytes * kvh_worker_shards(worker);
	}
	return bytes;
}

static struct worker_job *build(struct kvh_worker *worker, const struct kvh_save_job *job,
                                const struct job_input *in)
{
	struct kvh_arena arena;
	struct worker_job *built;
	struct save_part *save;
	size_t bytes = 0;

	if (!kvh_submit_count(worker, in, &bytes) ||
	    !kvh_arena_count(&bytes, job->token_id_count, sizeof(int32_t)) ||
	    !kvh_arena_count(&bytes, job->tail_count, sizeof(*job->tail)) ||
	    !kvh_arena_count(&bytes, job->boundary_put_count, sizeof(*job->boundary_puts)))
		return NULL;
	built = kvh_submit_build(worker, in, bytes, &arena);
	if (!built)
		return NULL;
	save = &built->save;
	save->events_end = &save->events;
	save->floored_tokens = in->needed_tokens;
	save->has_replay = job->has_prefill_end || job->has_prompt;
	save->replay_tokens = job->has_prefill_end ? job->prefill_end_tokens : job->prompt_tokens;
	save->token_ids =
		kvh_arena_copy(&arena, job->token_ids, job->token_id_count, sizeof(int32_t));
	save->has_token_ids = job->token_ids != NULL;
	save->token_id_count = job->token_id_count;
	save->token_ids_start = job->token_ids_start;
	save->tail = kvh_arena_copy(&arena, job->tail, job->tail_count, sizeof(*job->tail));
	save->tail_count = job->tail_count;
	save->boundary_puts = kvh_arena_copy(&arena, job->boundary_puts, job->boundary_put_count,
	                                     sizeof(*job->boundary_puts));
	save->boundary_put_count = job->boundary_put_count;
	return built;
}

/*
 * What is saved already need not be kept: else each step of a long request would copy all of it.
 * An object that ends inside a block may lie anywhere.
 */
static uint64_t first_token_of(struct kvh_worker *worker, const struct kvh_save_job *job,
                               const struct job_input *in)
{
	const struct worker_request *request;
	uint64_t saved_tokens = 0;

	if (job->tail_count || job->boundary_put_count)
		return 0;
	kvh_worker_lock(worker);
	request = kvh_ledger_find(worker, in->request.data, in->request.bytes);
	if (request)
		saved_tokens = request->saved_tokens;
	kvh_worker_unlock(worker);
	return saved_tokens < in->needed_tokens ? saved_tokens : in->needed_tokens;
}

static kvh_status submit(struct kvh_worker *worker, const struct kvh_save_job *job,
                         struct kvh_error *error)
{
	struct job_input in = {.job_id = job->job_id,
	                       .user = job->user,
	                       .request = job->request,
	                       .token_count = job->token_count,
	                       .needed_tokens =
	                               kvh_round_down(job->token_count, worker->lcm_tokens),
	                       .blocks = job->blocks,
	                       .keeps_blocks = true,
	                       .hashes = job->hashes,
	                       .hash_count = job->hash_count,
	                       .event = job->event};
	struct worker_job *built;
	kvh_status status = kvh_submit_check(worker, &in, error);

	if (!status)
		status = kvh_submit_check_tables(worker, &in, error);
	if (!status)
		status = check_blocks(worker, &in, error);
	if (!status)
		status = check_lists(worker, job, error);
	if (!status)
		status = check_tokens(job, error);
	if (status)
		return status;
	do {
		in.first_token = first_token_of(worker, job, &in);
		built = build(worker, job, &in);
		if (!built)
			return kvh_fail(error, KVH_NO_MEMORY, "no memory for the job");
		status = kvh_submit_enter(worker, built, error);
		if (status)
			kvh_free(built);
	} while (status == KVH_SUBMIT_AGAIN);
	return status;
}

kvh_status kvh_worker_save(struct kvh_worker *worker, const struct kvh_save_job *job,
                           struct kvh_error *error)
{
	kvh_status status = kvh_submit_ready(worker, error);

	if (status)
		return status;
	if (!job || job->struct_bytes < sizeof(*job))
		status = kvh_fail(error, KVH_INVALID_PARAMS, "save: job with its struct_bytes");
	else
		status = submit(worker, job, error);
	if (status)
		kvh_submit_refused(worker);
	return status;
}
