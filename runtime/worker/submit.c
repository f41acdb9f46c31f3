/* SPDX-License-Identifier: Apache-2.0 */
/* Handing in jobs: everything that depends on the caller's arguments is checked here (D-13). */
#include "worker/internal.h"

#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/fault.h"
#include "base/size.h"
#include "worker/submit.h"

static kvh_status check_request(const struct kvh_request_id *request, struct kvh_error *error)
{
	if (!request->data || !request->bytes)
		return kvh_fail(error, KVH_INVALID_PARAMS, "request: empty id");
	if (request->bytes > KVH_REQUEST_BYTES_MAX)
		return kvh_fail(error, KVH_INVALID_PARAMS, "request: id of %zu bytes, at most %d",
		                request->bytes, KVH_REQUEST_BYTES_MAX);
	return KVH_OK;
}

kvh_status kvh_submit_check(struct kvh_worker *worker, const struct job_input *in,
                            struct kvh_error *error)
{
	kvh_status status = check_request(&in->request, error);
	uint64_t hash_limit = KVH_TOKENS_MAX / worker->hash_tokens;

	if (status)
		return status;
	if (in->token_count > KVH_TOKENS_MAX)
		return kvh_fail(error, KVH_INVALID_PARAMS, "token_count: %llu, at most %d",
		                (unsigned long long)in->token_count, KVH_TOKENS_MAX);
	if (!in->blocks)
		return kvh_fail(error, KVH_INVALID_PARAMS,
		                "blocks: NULL; one table per group must be given");
	if (in->hash_count && !in->hashes)
		return kvh_fail(error, KVH_INVALID_PARAMS, "hashes: NULL, but hash_count is %zu",
		                in->hash_count);
	if (in->hash_count > hash_limit)
		return kvh_fail(error, KVH_INVALID_PARAMS, "hash_count: %zu, at most %llu",
		                in->hash_count, (unsigned long long)hash_limit);
	if (in->needed_tokens / worker->hash_tokens > in->hash_count)
		return kvh_fail(error, KVH_INVALID_PARAMS,
		                "hash_count: %zu hashes of %u tokens do not cover %llu tokens",
		                in->hash_count, worker->hash_tokens,
		                (unsigned long long)in->needed_tokens);
	return KVH_OK;
}

/* A short list may be a suffix: its blocks would go under the keys of other tokens. */
kvh_status kvh_submit_check_tables(struct kvh_worker *worker, const struct job_input *in,
                                   struct kvh_error *error)
{
	uint64_t keys = 0;

	for (size_t g = 0; g < worker->group_count; g++) {
		const struct worker_group *group = &worker->groups[g];
		const struct kvh_block_table *table = &in->blocks[g];
		uint64_t chunks;

		if (!group->participates)
			continue;
		chunks = kvh_div_up(in->needed_tokens, group->config.block_tokens);
		if (table->count && !table->ids)
			return kvh_fail(error, KVH_INVALID_PARAMS,
			                "blocks[%zu].ids: NULL, but count is %zu", g, table->count);
		if (table->count < chunks)
			return kvh_fail(error, KVH_INVALID_PARAMS,
			                "blocks[%zu]: %zu block ids, %llu tokens take %llu", g,
			                table->count, (unsigned long long)in->needed_tokens,
			                (unsigned long long)chunks);
		if (table->count > KVH_TOKENS_MAX)
			return kvh_fail(error, KVH_INVALID_PARAMS, "blocks[%zu]: %zu block ids", g,
			                table->count);
		keys += chunks * kvh_worker_shards(worker);
	}
	if (keys > KVH_BATCH_KEYS_MAX)
		return kvh_fail(error, KVH_INVALID_PARAMS, "token_count: %llu keys, at most %d",
		                (unsigned long long)keys, KVH_BATCH_KEYS_MAX);
	return KVH_OK;
}

kvh_status kvh_submit_check_block(struct kvh_worker *worker, const char *what, size_t group,
                                  int64_t block_id, struct kvh_error *error)
{
	if (block_id >= 0 && (uint64_t)block_id < worker->groups[group].block_count)
		return KVH_OK;
	return kvh_fail(error, KVH_INVALID_PARAMS, "%s: block %lld of group %zu, which has %llu",
	                what, (long long)block_id, group,
	                (unsigned long long)worker->groups[group].block_count);
}

/* An event names the hash before its chunk too. */
static uint64_t first_hash_of(const struct kvh_worker *worker, const struct job_input *in)
{
	uint64_t first_hash = in->first_token / worker->hash_tokens;

	return first_hash ? first_hash - 1 : 0;
}

static size_t first_block_of(const struct kvh_worker *worker, const struct job_input *in, size_t g)
{
	return in->first_token / worker->groups[g].config.block_tokens;
}

/* The pieces that every job keeps; the caller counts its own beside them. */
bool kvh_submit_count(const struct kvh_worker *worker, const struct job_input *in, size_t *bytes)
{
	bool fits = kvh_arena_count(bytes, 1, sizeof(struct worker_job)) &&
	            kvh_arena_count(bytes, in->request.bytes, 1) &&
	            kvh_arena_count(bytes, in->hash_count - first_hash_of(worker, in),
	                            worker->hash_bytes);

	if (in->keeps_blocks) {
		fits = fits &&
		       kvh_arena_count(bytes, worker->group_count, sizeof(struct kvh_block_table));
		for (size_t g = 0; fits && g < worker->group_count; g++) {
			if (worker->groups[g].participates)
				fits = kvh_arena_count(
					bytes, in->blocks[g].count - first_block_of(worker, in, g),
					sizeof(int32_t));
		}
	}
	return fits;
}

/* The last count - first elements; NULL, which takes no offset, when there are none. */
static void *copy_from(struct kvh_arena *arena, const void *array, size_t first, size_t count,
                       size_t bytes)
{
	if (first == count)
		return NULL;
	return kvh_arena_copy(arena, (const uint8_t *)array + first * bytes, count - first, bytes);
}

static void copy_blocks(const struct kvh_worker *worker, const struct job_input *in,
                        struct worker_job *job, struct kvh_arena *arena)
{
	job->blocks = kvh_arena_take(arena, worker->group_count, sizeof(*job->blocks));
	memset(job->blocks, 0, worker->group_count * sizeof(*job->blocks));
	for (size_t g = 0; g < worker->group_count; g++) {
		size_t count = in->blocks[g].count;
		size_t first_block;

		if (!worker->groups[g].participates)
			continue;
		first_block = first_block_of(worker, in, g);
		job->blocks[g].count = count - first_block;
		job->blocks[g].ids =
			copy_from(arena, in->blocks[g].ids, first_block, count, sizeof(int32_t));
	}
}

/* Takes the pieces in the order in which they were counted. */
struct worker_job *kvh_submit_build(const struct kvh_worker *worker, const struct job_input *in,
                                    size_t bytes, struct kvh_arena *arena)
{
	struct worker_job *job;

	arena->base = kvh_alloc(bytes);
	if (!arena->base)
		return NULL;
	arena->bytes = bytes;
	arena->used_bytes = 0;
	job = kvh_arena_take(arena, 1, sizeof(*job));
	memset(job, 0, sizeof(*job));
	job->job_id = in->job_id;
	job->user = in->user;
	job->event = in->event;
	job->entry.key = &job->job_id;
	job->entry.key_bytes = sizeof(job->job_id);
	job->request_id = kvh_arena_copy(arena, in->request.data, in->request.bytes, 1);
	job->request_id_bytes = in->request.bytes;
	job->first_token = in->first_token;
	job->first_hash = first_hash_of(worker, in);
	job->hashes =
		copy_from(arena, in->hashes, job->first_hash, in->hash_count, worker->hash_bytes);
	job->hash_count = in->hash_count;
	if (in->keeps_blocks)
		copy_blocks(worker, in, job, arena);
	return job;
}

static kvh_status refuse_any(const struct kvh_worker *worker, struct kvh_error *error)
	KVH_REQUIRES(kvh_role_worker)
{
	if (worker->closing)
		return kvh_fail(error, KVH_CLOSED, "the worker is closing");
	if (!worker->registered)
		return kvh_fail(error, KVH_INVALID_PARAMS, "no caches: call register_caches first");
	return KVH_OK;
}

static kvh_status refuse_entry(struct kvh_worker *worker, const struct worker_job *job,
                               struct kvh_error *error) KVH_REQUIRES(kvh_role_worker)
{
	kvh_status status = refuse_any(worker, error);

	if (status)
		return status;
	if (kvh_map_get(&worker->jobs, &job->job_id, sizeof(job->job_id)))
		return kvh_fail(error, KVH_INVALID_PARAMS,
		                "job_id: %llu is in use; ids are never reused",
		                (unsigned long long)job->job_id);
	if (job->is_load)
		return KVH_OK;
	if (worker->saves.count >= worker->max_queued_jobs)
		return kvh_fail(error, KVH_BUSY, "%zu saves are queued (max_queued_jobs)",
		                worker->saves.count);
	/* One job alone is always taken, however large. */
	if (worker->saves.count &&
	    (worker->queued_save_bytes >= worker->max_queued_bytes ||
	     job->save.source_bytes > worker->max_queued_bytes - worker->queued_save_bytes))
		return kvh_fail(error, KVH_BUSY,
		                "%llu bytes of saves are queued (max_queued_bytes)",
		                (unsigned long long)worker->queued_save_bytes);
	return KVH_OK;
}

kvh_status kvh_submit_enter(struct kvh_worker *worker, struct worker_job *job,
                            struct kvh_error *error)
{
	struct worker_request *request;
	uint64_t saved_tokens;
	kvh_status status;

	kvh_worker_lock(worker);
	request = kvh_ledger_find(worker, job->request_id, job->request_id_bytes);
	saved_tokens = request ? request->saved_tokens : 0;
	if (!job->is_load)
		job->save.source_bytes =
			kvh_save_source_bytes(worker, saved_tokens, job->save.floored_tokens);
	status = refuse_entry(worker, job, error);
	if (!status && job->first_token > saved_tokens)
		status = KVH_SUBMIT_AGAIN;
	if (!status) {
		request = kvh_ledger_enter(worker, job->request_id, job->request_id_bytes);
		if (!request)
			status = kvh_fail(error, KVH_NO_MEMORY, "no memory for the request");
	}
	if (!status) {
		kvh_ledger_link(request, job);
		if (job->is_load)
			worker->stats.load_jobs++;
		else
			worker->stats.save_jobs++;
		request->has_saves |= !job->is_load;
		job->epoch = worker->epoch;
		job->epoch->user_count++;
		kvh_jobs_enter(worker, job);
	}
	kvh_worker_unlock(worker);
	return status;
}

void kvh_submit_refused(struct kvh_worker *worker)
{
	kvh_worker_lock(worker);
	worker->stats.save_jobs_refused++;
	kvh_worker_unlock(worker);
}

kvh_status kvh_submit_ready(struct kvh_worker *worker, struct kvh_error *error)
{
	kvh_status status = kvh_worker_usable(worker);

	if (status)
		return kvh_fail(error, status, "worker: %s", kvh_strstatus(status));
	kvh_worker_lock(worker);
	status = refuse_any(worker, error);
	kvh_worker_unlock(worker);
	return status;
}
