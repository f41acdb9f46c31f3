/* SPDX-License-Identifier: Apache-2.0 */
/* Handing out completions, and asking jobs to stop. */
#include "worker/internal.h"

#include <string.h>

#include "base/fault.h"

/* The next completion of an ended load; false after its LOAD_DONE. */
static void next_of_load(struct worker_job *job, struct kvh_completion *out)
{
	struct load_part *load = &job->load;

	while (load->failed_next < load->chunk_count) {
		const struct load_chunk *chunk = &load->chunks[load->failed_next++];

		if (!chunk->failed)
			continue;
		out->kind = KVH_BLOCK_FAILED;
		out->status = chunk->status;
		out->group = chunk->group;
		out->block_index = chunk->block_index;
		out->block_id = chunk->block_id;
		return;
	}
	out->kind = KVH_LOAD_DONE;
	out->status = job->status;
}

static void next_of_save(struct worker_job *job, struct kvh_completion *out)
{
	struct worker_event *event = job->save.events;

	if (!event) {
		out->kind = KVH_SAVE_DONE;
		out->status = job->status;
		return;
	}
	job->save.events = event->next;
	out->kind = KVH_EVENT;
	out->group = event->event->group;
	out->event = event->event;
	kvh_free(event);
}

/* Fills one completion; false: there is none. */
static bool take_one(struct kvh_worker *worker, struct kvh_completion *out)
	KVH_REQUIRES(kvh_role_worker)
{
	struct worker_job *job = worker->done.head;

	if (!job && worker->evicted_count) {
		*out = worker->evicted[worker->evicted_first];
		worker->evicted_first = (worker->evicted_first + 1) % KVH_EVICTED_RING;
		worker->evicted_count--;
		return true;
	}
	if (!job)
		return false;
	memset(out, 0, sizeof(*out));
	out->job_id = job->job_id;
	out->user = job->user;
	if (job->is_load)
		next_of_load(job, out);
	else
		next_of_save(job, out);
	if (out->kind == KVH_SAVE_DONE || out->kind == KVH_LOAD_DONE) {
		kvh_queue_pop(&worker->done);
		kvh_job_free(worker, job);
	}
	return true;
}

kvh_status kvh_worker_poll(struct kvh_worker *worker, struct kvh_completion *completions,
                           size_t entry_bytes, size_t capacity, size_t *count)
{
	kvh_status status = kvh_worker_usable(worker);
	size_t taken = 0;

	if (status)
		return status;
	if (!count || (capacity && !completions) || entry_bytes != sizeof(*completions))
		return KVH_INVALID_PARAMS;
	kvh_worker_lock(worker);
	if (kvh_deadline_passed(worker->env, worker->next_load_deadline_ns))
		kvh_jobs_expire_loads(worker);
	while (taken < capacity && take_one(worker, &completions[taken]))
		taken++;
	kvh_worker_unlock(worker);
	*count = taken;
	return KVH_OK;
}

kvh_status kvh_worker_cancel(struct kvh_worker *worker, uint64_t job_id,
                             enum kvh_cancel_outcome *outcome)
{
	kvh_status status = kvh_worker_usable(worker);
	enum kvh_cancel_outcome found = KVH_CANCEL_ALREADY_DONE;
	struct worker_job *job;

	if (status)
		return status;
	if (!outcome)
		return KVH_INVALID_PARAMS;
	kvh_worker_lock(worker);
	job = (struct worker_job *)kvh_map_get(&worker->jobs, &job_id, sizeof(job_id));
	if (job && job->state == JOB_QUEUED) {
		found = KVH_CANCEL_NOT_STARTED;
		kvh_jobs_drop_queued(worker, job, KVH_CANCELLED);
	} else if (job && job->state != JOB_DONE) {
		found = KVH_CANCEL_STOPPING;
		kvh_cancel_request(&job->cancel);
	}
	kvh_worker_unlock(worker);
	*outcome = found;
	return KVH_OK;
}
