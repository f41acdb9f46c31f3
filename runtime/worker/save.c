/* SPDX-License-Identifier: Apache-2.0 */
/* The normal save: from the saved offset to the job's end, and where the offset goes (R-13 to
 * */
#include "worker/save.h"

#include "base/fault.h"
#include "base/logging.h"
#include "base/size.h"
#include "layout/chunks.h"

/* A chunk that isn't saved: the offset may not pass its start. */
static void stop_at(struct save_run *run, uint32_t group, uint64_t chunk)
{
	uint64_t start_tokens = chunk * run->worker->groups[group].config.block_tokens;
	uint64_t stop_tokens = kvh_round_down(start_tokens, run->worker->lcm_tokens);

	if (stop_tokens < run->stop_tokens)
		run->stop_tokens = stop_tokens;
}

/* The chunks of one group that this job selects. */
static void add_group(struct save_run *run, uint32_t g, bool any_unstorable)
{
	struct kvh_worker *worker = run->worker;
	const struct worker_group *group = &worker->groups[g];
	const struct kvh_mask *mask = &run->thread->masks.group[g];
	const struct kvh_block_table *table = &run->job->blocks[g];
	/* A mask holds whole chunks, and hash_tokens divides a chunk (C-1). */
	uint64_t chunk_hashes = group->config.block_tokens / worker->hash_tokens;
	uint64_t first_kept = run->job->first_token / group->config.block_tokens;
	uint64_t end = mask->first_chunk + mask->count;
	uint64_t c = kvh_chunk_first_mine(mask->first_chunk, group->put_step, worker->tp_rank, g);

	for (; c < end; c += group->put_step) {
		int32_t block_id;

		if (!kvh_mask_has(mask, c))
			continue;
		block_id = table->ids[c - first_kept];
		if (block_id == KVH_NULL_BLOCK) {
			run->null_count++;
			/* D-12; in the other kinds such blocks are normal. */
			if (group->config.kind == KVH_ATTENTION_FULL)
				stop_at(run, g, c);
			continue;
		}
		/* There is data that the store never confirmed: it stops the offset in any kind. */
		if (any_unstorable && kvh_save_is_unstorable(run, g, c)) {
			stop_at(run, g, c);
			continue;
		}
		kvh_save_add(run, g, c, (c + 1) * chunk_hashes - 1, block_id);
	}
}

static kvh_status select_chunks(struct save_run *run)
{
	struct kvh_worker *worker = run->worker;
	const struct save_part *save = &run->job->save;
	struct kvh_masks *masks = &run->thread->masks;
	kvh_status status =
		kvh_store_mask(worker->coordinator, save->floored_tokens, run->start_tokens,
	                       save->has_replay, save->replay_tokens, masks);
	bool any_unstorable;
	size_t count = 0;

	if (status)
		return status;
	for (size_t g = 0; g < worker->group_count; g++)
		count += worker->groups[g].participates ? masks->group[g].count : 0;
	run->batch->count = 0;
	status = kvh_batch_reserve(run->batch, count * kvh_worker_shards(worker));
	if (status)
		return status;
	kvh_worker_lock(worker);
	any_unstorable = run->job->request && run->job->request->unstorable_count;
	kvh_worker_unlock(worker);
	for (uint32_t g = 0; g < worker->group_count; g++) {
		if (worker->groups[g].participates)
			add_group(run, g, any_unstorable);
	}
	return KVH_OK;
}

/* D-22: what was refused for good stops the offset where it is. */
static void stop_at_unstorable(struct save_run *run)
{
	for (size_t i = 0; i < run->put_count; i++) {
		const struct batch_item *item = &run->batch->items[i];

		if (kvh_result_is_permanent(run->batch->results[i].value))
			stop_at(run, item->group, item->chunk);
	}
}

static kvh_status save_normal(struct save_run *run, bool *failed)
{
	struct kvh_worker *worker = run->worker;
	struct worker_job *job = run->job;
	kvh_status status;

	kvh_worker_lock(worker);
	/* In the life that the job belongs to, what was saved only grows. */
	run->start_tokens = job->request ? job->request->saved_tokens : job->first_token;
	if (job->save.floored_tokens <= run->start_tokens)
		worker->stats.save_jobs_not_due++;
	kvh_worker_unlock(worker);
	KVH_CHECK(run->start_tokens >= job->first_token);
	run->stop_tokens = job->save.floored_tokens;
	run->put_count = 0;
	run->only_permanent = false;
	if (job->save.floored_tokens <= run->start_tokens)
		return KVH_OK;
	status = (kvh_status)KVH_FAULT(WORKER_SAVE_NORMAL, job->request_id, job->request_id_bytes);
	if (!status)
		status = select_chunks(run);
	if (!status)
		status = kvh_save_store(run);
	job->save.raised |= run->exists_failed;
	/* What can never be stored stops the offset where it is; other failures hold it at S. */
	*failed = status && !run->only_permanent;
	stop_at_unstorable(run);
	if (worker->events)
		kvh_events_stored(run);
	return status;
}

/* What a job is before its first store call: stale, skipped under pressure, or to be run. */
static kvh_status begin(struct save_run *run)
{
	struct kvh_worker *worker = run->worker;
	struct worker_job *job = run->job;
	kvh_status status = KVH_OK;

	kvh_worker_lock(worker);
	if (!job->request) {
		worker->stats.save_jobs_stale++;
		status = KVH_CANCELLED;
	} else if (kvh_pressure_skips(worker, job, &run->probe)) {
		worker->stats.save_jobs_pressure_skipped++;
		status = KVH_NO_AVAILABLE_HANDLE;
	}
	if (job->request && worker->events && job->save.floored_tokens)
		kvh_events_begin(run);
	kvh_worker_unlock(worker);
	if (!status && kvh_cancel_requested(&job->cancel))
		status = KVH_CANCELLED;
	return status;
}

static void end(struct save_run *run, kvh_status status, bool failed)
{
	struct kvh_worker *worker = run->worker;
	struct worker_job *job = run->job;

	if (run->unquiet)
		kvh_jobs_log_doubt(worker, job);
	kvh_worker_lock(worker);
	if (job->request) {
		if (!failed && run->stop_tokens > job->request->saved_tokens)
			job->request->saved_tokens = run->stop_tokens; /* D-16 */
		if (worker->events && job->save.floored_tokens)
			kvh_events_end(run, failed);
	}
	worker->stats.save_chunks_null += run->null_count;
	if (status && run->ran)
		worker->stats.save_jobs_failed++;
	worker->stats.running_jobs--;
	if (run->unquiet)
		kvh_jobs_doubt(worker, job, status);
	else
		kvh_jobs_finish(worker, job, status);
	kvh_worker_unlock(worker);
	kvh_free(run->tokens);
}

/* Whatever ends a job other than a cancel leaves one line. */
static void tell(const struct save_run *run, kvh_status status)
{
	if (status && status != KVH_CANCELLED && run->ran && !run->told)
		kvh_log_line(&run->worker->log, KVH_LOG_WARN,
		             "save job %llu: ended before its put with %d (%s)",
		             (unsigned long long)run->job->job_id, status, kvh_strstatus(status));
}

void kvh_save_run(struct worker_thread *thread, struct worker_job *job)
{
	struct save_run run = {
		.worker = thread->worker, .thread = thread, .job = job, .batch = &thread->batch};
	kvh_status status = begin(&run);
	bool failed = status != KVH_OK;

	run.ran = !failed;
	if (!status)
		status = (kvh_status)KVH_FAULT(WORKER_SAVE_BEGIN, job->request_id,
		                               job->request_id_bytes);
	if (!status)
		status = kvh_save_tail(&run);
	if (!status)
		status = kvh_save_boundaries(&run);
	failed = status != KVH_OK;
	if (!status && job->save.floored_tokens)
		status = save_normal(&run, &failed);
	if (thread->worker->evicted)
		kvh_evicted_collect(thread->worker);
	tell(&run, status);
	end(&run, status, failed);
}
