/* SPDX-License-Identifier: Apache-2.0 */
/* The worker's threads: taking jobs, and asking the store about those in doubt. */
#include "worker/internal.h"

#include "base/fault.h"

enum {
	DOUBT_POLL_NS = 10 * 1000 * 1000, /* between two questions to the store (D-23) */
	DEADLINE_PASSED = 1               /* a deadline that makes a call a mere question */
};

/*
 * Asks the store whether bytes of jobs in doubt can still move. Only what was in doubt before the
 * question is confirmed by the answer.
 */
static void settle_doubt(struct kvh_worker *worker) KVH_REQUIRES(kvh_role_worker)
{
	struct worker_job *asked = worker->doubt;
	kvh_status status;

	worker->doubt = NULL;
	worker->next_question_ns = kvh_deadline_after(worker->env, DOUBT_POLL_NS);
	kvh_worker_unlock(worker);
	status = kvh_store_quiesce(worker->store, DEADLINE_PASSED);
	kvh_worker_lock(worker);
	while (asked) {
		struct worker_job *next = asked->next;

		if (status == KVH_OK) {
			worker->doubt_count--;
			kvh_jobs_finish(worker, asked, asked->status);
		} else {
			asked->next = worker->doubt;
			worker->doubt = asked;
		}
		asked = next;
	}
}

static void sleep_for_job(struct worker_thread *thread) KVH_REQUIRES(kvh_role_worker)
{
	struct kvh_worker *worker = thread->worker;
	struct sleepers *sleepers =
		thread->is_load ? &worker->sleeping_loads : &worker->sleeping_saves;
	kvh_deadline until_ns = 0;

	if (worker->doubt_count)
		until_ns = kvh_deadline_after(worker->env, DOUBT_POLL_NS);
	sleepers->count++;
	worker->env->ops->cond_wait(worker->env->ctx,
	                            thread->is_load ? worker->load_ready : worker->save_ready,
	                            worker->mutex, until_ns);
	sleepers->count--;
	if (sleepers->signalled)
		sleepers->signalled--;
}

/* Also when there are jobs to do: those in doubt must not wait for an idle thread. */
static bool must_ask(const struct kvh_worker *worker, const struct job_queue *queue)
	KVH_REQUIRES(kvh_role_worker)
{
	return worker->doubt &&
	       (!queue->head || kvh_now_ns(worker->env) >= worker->next_question_ns);
}

/* NULL: the worker stops. */
static struct worker_job *next_job(struct worker_thread *thread)
{
	struct kvh_worker *worker = thread->worker;
	struct job_queue *queue = thread->is_load ? &worker->loads : &worker->saves;
	struct worker_job *job = NULL;

	if (worker->env->ops->between_jobs)
		worker->env->ops->between_jobs(worker->env->ctx);
	kvh_worker_lock(worker);
	for (;;) {
		if (must_ask(worker, queue))
			settle_doubt(worker);
		job = kvh_queue_pop(queue);
		if (job || worker->stop)
			break;
		sleep_for_job(thread);
	}
	if (job) {
		job->state = JOB_RUNNING;
		worker->stats.running_jobs++;
		if (!job->is_load)
			worker->queued_save_bytes -= job->save.source_bytes;
	}
	kvh_worker_unlock(worker);
	return job;
}

static void thread_main(void *arg)
{
	struct worker_thread *thread = arg;
	struct worker_job *job;

	while ((job = next_job(thread))) {
		if (thread->is_load)
			kvh_load_run(thread, job);
		else
			kvh_save_run(thread, job);
	}
}

kvh_status kvh_threads_start(struct kvh_worker *worker, uint32_t load_threads)
{
	size_t count = (size_t)load_threads + 1;

	worker->threads = kvh_calloc(count, sizeof(*worker->threads));
	if (!worker->threads)
		return KVH_NO_MEMORY;
	for (size_t i = 0; i < count; i++) {
		struct worker_thread *thread = &worker->threads[i];
		kvh_status status;

		thread->worker = worker;
		thread->is_load = i > 0;
		status = worker->env->ops->thread_create(worker->env->ctx, &thread->thread,
		                                         i ? "kvh-load" : "kvh-save", thread_main,
		                                         thread);
		if (status) {
			kvh_threads_stop(worker);
			return status;
		}
		worker->thread_count++;
	}
	return KVH_OK;
}

void kvh_threads_stop(struct kvh_worker *worker)
{
	kvh_worker_lock(worker);
	worker->stop = true;
	kvh_jobs_wake_all(worker);
	kvh_worker_unlock(worker);
	for (size_t i = 0; i < worker->thread_count; i++) {
		struct worker_thread *thread = &worker->threads[i];

		worker->env->ops->thread_join(worker->env->ctx, thread->thread);
		kvh_batch_fini(&thread->batch);
		kvh_batch_fini(&thread->recheck);
		kvh_masks_fini(&thread->masks);
	}
	kvh_free(worker->threads);
	worker->threads = NULL;
	worker->thread_count = 0;
	kvh_worker_lock(worker);
	worker->stop = false;
	kvh_worker_unlock(worker);
}
