/* SPDX-License-Identifier: Apache-2.0 */
/* Job queues and how a job reaches its end. */
#include "worker/internal.h"

#include "base/check.h"
#include "base/fault.h"
#include "base/logging.h"

void kvh_queue_init(struct job_queue *queue)
{
	queue->head = NULL;
	queue->tail = &queue->head;
	queue->count = 0;
}

void kvh_queue_push(struct job_queue *queue, struct worker_job *job)
{
	job->next = NULL;
	*queue->tail = job;
	queue->tail = &job->next;
	queue->count++;
}

struct worker_job *kvh_queue_pop(struct job_queue *queue)
{
	struct worker_job *job = queue->head;

	if (job)
		kvh_queue_remove(queue, job);
	return job;
}

void kvh_queue_remove(struct job_queue *queue, struct worker_job *job)
{
	struct worker_job **link = &queue->head;

	while (*link != job)
		link = &(*link)->next;
	*link = job->next;
	if (!*link)
		queue->tail = link;
	job->next = NULL;
	queue->count--;
}

/* P9: a wake-up only when a thread sleeps, and one per job at most. */
static void wake_one(struct kvh_worker *worker, bool is_load) KVH_REQUIRES(kvh_role_worker)
{
	struct sleepers *sleepers = is_load ? &worker->sleeping_loads : &worker->sleeping_saves;

	if (sleepers->signalled >= sleepers->count)
		return;
	sleepers->signalled++;
	worker->stats.wakeups++;
	worker->env->ops->cond_signal(worker->env->ctx,
	                              is_load ? worker->load_ready : worker->save_ready);
}

void kvh_jobs_wake_all(struct kvh_worker *worker)
{
	worker->env->ops->cond_broadcast(worker->env->ctx, worker->save_ready);
	worker->env->ops->cond_broadcast(worker->env->ctx, worker->load_ready);
}

void kvh_jobs_enter(struct kvh_worker *worker, struct worker_job *job)
{
	job->state = JOB_QUEUED;
	kvh_map_put(&worker->jobs, &job->entry);
	worker->live_jobs++;
	if (job->is_load) {
		uint64_t deadline_ns = job->load.deadline_ns;

		kvh_queue_push(&worker->loads, job);
		if (deadline_ns &&
		    (!worker->next_load_deadline_ns || deadline_ns < worker->next_load_deadline_ns))
			worker->next_load_deadline_ns = deadline_ns;
	} else {
		kvh_queue_push(&worker->saves, job);
		worker->queued_save_bytes += job->save.source_bytes;
	}
	wake_one(worker, job->is_load);
}

static void tell_waiters(struct kvh_worker *worker) KVH_REQUIRES(kvh_role_worker)
{
	if (worker->change_waiters)
		worker->env->ops->cond_broadcast(worker->env->ctx, worker->changed);
}

static void count_end(struct kvh_worker *worker, const struct worker_job *job)
	KVH_REQUIRES(kvh_role_worker)
{
	if (!job->is_load)
		return;
	if (job->status == KVH_CANCELLED)
		worker->stats.load_jobs_cancelled++;
	else if (job->status == KVH_TIMEOUT)
		worker->stats.load_jobs_timed_out++;
	else if (job->status)
		worker->stats.load_jobs_failed++;
}

void kvh_jobs_finish(struct kvh_worker *worker, struct worker_job *job, kvh_status status)
{
	KVH_CHECK(job->state != JOB_DONE);
	job->state = JOB_DONE;
	job->status = status;
	kvh_ledger_unlink(worker, job);
	kvh_queue_push(&worker->done, job);
	worker->live_jobs--;
	count_end(worker, job);
	tell_waiters(worker);
}

void kvh_jobs_log_doubt(struct kvh_worker *worker, const struct worker_job *job)
{
	kvh_log_line(&worker->log, KVH_LOG_WARN,
	             "job %llu is in doubt: its bytes may still move; its blocks stay lent",
	             (unsigned long long)job->job_id);
}

void kvh_jobs_doubt(struct kvh_worker *worker, struct worker_job *job, kvh_status status)
{
	job->state = JOB_DOUBT;
	job->status = status;
	job->next = worker->doubt;
	if (!worker->doubt_count)
		worker->next_question_ns = kvh_deadline_after(worker->env, 0);
	worker->doubt = job;
	worker->stats.in_doubt_jobs++;
	/* Who fell asleep before knows of no job in doubt and set no time to ask about one. */
	if (worker->doubt_count++ == 0)
		kvh_jobs_wake_all(worker);
	tell_waiters(worker);
}

void kvh_jobs_confirm(struct kvh_worker *worker)
{
	struct worker_job *job = worker->doubt;

	worker->doubt = NULL;
	worker->doubt_count = 0;
	while (job) {
		struct worker_job *next = job->next;

		kvh_jobs_finish(worker, job, job->status);
		job = next;
	}
}

void kvh_jobs_drop_queued(struct kvh_worker *worker, struct worker_job *job, kvh_status status)
{
	KVH_CHECK(job->state == JOB_QUEUED);
	if (job->is_load) {
		kvh_queue_remove(&worker->loads, job);
		for (size_t i = 0; i < job->load.chunk_count; i++)
			job->load.chunks[i].status = status;
	} else {
		kvh_queue_remove(&worker->saves, job);
		worker->queued_save_bytes -= job->save.source_bytes;
	}
	kvh_jobs_finish(worker, job, status);
}

/* D-14 for loads that no thread has taken yet. */
void kvh_jobs_expire_loads(struct kvh_worker *worker)
{
	uint64_t now_ns = kvh_now_ns(worker->env);
	uint64_t earliest_ns = 0;
	struct worker_job *next;

	for (struct worker_job *job = worker->loads.head; job; job = next) {
		uint64_t deadline_ns = job->load.deadline_ns;

		next = job->next;
		if (!deadline_ns)
			continue;
		if (deadline_ns <= now_ns)
			kvh_jobs_drop_queued(worker, job, KVH_TIMEOUT);
		else if (!earliest_ns || deadline_ns < earliest_ns)
			earliest_ns = deadline_ns;
	}
	worker->next_load_deadline_ns = earliest_ns;
}

void kvh_job_free(struct kvh_worker *worker, struct worker_job *job)
{
	if (!job->is_load) {
		struct worker_event *event = job->save.events;

		while (event) {
			struct worker_event *next = event->next;

			kvh_stored_event_free(event->event);
			kvh_free(event);
			event = next;
		}
	}
	kvh_map_remove(&worker->jobs, &job->entry);
	kvh_epoch_release(worker, job->epoch);
	kvh_free(job);
}
