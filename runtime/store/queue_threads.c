/* SPDX-License-Identifier: Apache-2.0 */
/* A queue's threads: taking jobs, calling the store, asking it about bytes that may still move. */
#include "queue_internal.h"

#include "base/fault.h"
#include "base/logging.h"
#include "event.h"
#include "store_internal.h"

enum {
	QUESTION_NS = 10 * 1000 * 1000, /* between two questions to the store (D-23) */
	DEADLINE_PASSED = 1             /* a deadline that makes a call a mere question */
};

/* ---- calling the store ---------------------------------------------------------------- */

/* Counts the keys of a chunk that lead. True: the prefix ends in it, and *status says how. */
static bool prefix_ends(struct queue_job *job, size_t first, size_t count, kvh_status *status)
{
	const struct kvh_result *results = job->batch.results;

	for (size_t i = first; i < first + count; i++) {
		if (!kvh_result_good(KVH_OP_EXISTS, &results[i])) {
			/* "Can't tell" is not "absent". */
			if (!*status && results[i].value < 0)
				*status = (kvh_status)results[i].value;
			return true;
		}
		job->good_keys++;
	}
	return *status != KVH_OK;
}

static kvh_status exists_prefix(struct kvh_queue *queue, struct queue_job *job,
                                const struct kvh_call *call)
{
	const struct kvh_batch *whole = &job->batch;
	kvh_status status = KVH_OK;

	for (size_t first = 0; first < whole->count; first += KVH_QUEUE_PREFIX_KEYS) {
		struct kvh_batch chunk = {.keys = whole->keys + first,
		                          .results = whole->results + first};

		chunk.count = whole->count - first;
		if (chunk.count > KVH_QUEUE_PREFIX_KEYS)
			chunk.count = KVH_QUEUE_PREFIX_KEYS;
		status = kvh_store_exists(queue->store, &chunk, job->exists_flags, call);
		if (prefix_ends(job, first, chunk.count, &status))
			break;
	}
	return status;
}

static kvh_status call_store(struct kvh_queue *queue, struct queue_job *job,
                             const struct kvh_call *call)
{
	switch (job->op) {
	case KVH_QUEUE_GET:
		return kvh_store_get(queue->store, &job->batch, call);
	case KVH_QUEUE_PUT:
		return kvh_store_put(queue->store, &job->batch, &job->put, call);
	case KVH_QUEUE_EXISTS:
		return kvh_store_exists(queue->store, &job->batch, job->exists_flags, call);
	case KVH_QUEUE_REMOVE:
		return kvh_store_remove(queue->store, &job->batch, call);
	default:
		return exists_prefix(queue, job, call);
	}
}

static enum kvh_store_op store_op_of(enum kvh_queue_op op)
{
	switch (op) {
	case KVH_QUEUE_GET:
		return KVH_OP_GET;
	case KVH_QUEUE_PUT:
		return KVH_OP_PUT;
	case KVH_QUEUE_REMOVE:
		return KVH_OP_REMOVE;
	default:
		return KVH_OP_EXISTS;
	}
}

/* Counts what came out; false: bytes of some key may still move. */
static bool count_results(struct queue_job *job)
{
	enum kvh_store_op op = store_op_of(job->op);
	const struct kvh_batch *batch = &job->batch;
	uint32_t quiet = KVH_RESULT_QUIET;
	size_t good_keys = 0;

	for (size_t i = 0; i < batch->count; i++) {
		good_keys += kvh_result_good(op, &batch->results[i]);
		quiet &= batch->results[i].flags;
	}
	if (job->op != KVH_QUEUE_EXISTS_PREFIX)
		job->good_keys = good_keys;
	if (batch->values)
		job->bytes = good_keys == batch->count ? job->value_bytes
		                                       : kvh_batch_good_bytes(op, batch);
	return quiet != 0;
}

static void run_job(struct kvh_queue *queue, struct queue_job *job)
{
	const struct kvh_call call = {.struct_bytes = sizeof(call),
	                              .cancel = &job->cancel,
	                              .deadline_ns = job->deadline_ns};
	kvh_status status = kvh_event_wait(queue->env, &queue->device, job->event, &call);
	bool is_quiet;

	if (!status)
		status = call_store(queue, job, &call);
	is_quiet = count_results(job);
	if (!is_quiet)
		kvh_log_line(&queue->log, KVH_LOG_WARN,
		             "queue job %llu is in doubt: its bytes may still move; what it was "
		             "lent stays lent",
		             (unsigned long long)job->id);
	kvh_queue_lock(queue);
	if (is_quiet)
		kvh_queue_finish(queue, job, status);
	else
		kvh_queue_doubt(queue, job, status);
	kvh_queue_unlock(queue);
	kvh_queue_show(queue);
}

/* ---- doubt ---------------------------------------------------------------------------- */

static void mark_quiet(struct queue_job *job)
{
	for (; job; job = job->next) {
		for (size_t i = 0; i < job->batch.count; i++)
			job->batch.results[i].flags |= KVH_RESULT_QUIET;
	}
}

/*
 * Asks the store whether bytes of jobs in doubt can still move. Only what was in doubt before the
 * question is settled by the answer.
 */
static void ask(struct kvh_queue *queue) KVH_REQUIRES(kvh_role_queue)
{
	struct queue_job *asked = kvh_queue_take_doubt(queue);
	kvh_status status;

	queue->next_question_ns = kvh_deadline_after(queue->env, QUESTION_NS);
	kvh_queue_unlock(queue);
	status = kvh_store_quiesce(queue->store, DEADLINE_PASSED);
	if (status == KVH_OK)
		mark_quiet(asked);
	kvh_queue_lock(queue);
	while (asked) {
		struct queue_job *next = asked->next;

		kvh_queue_settle(queue, asked, status == KVH_OK);
		asked = next;
	}
}

/* ---- threads -------------------------------------------------------------------------- */

static void sleep_for_job(struct kvh_queue *queue) KVH_REQUIRES(kvh_role_queue)
{
	kvh_deadline until_ns =
		atomic_load_explicit(&queue->next_deadline_ns, memory_order_relaxed);

	if (queue->doubt_count) {
		kvh_deadline question_ns = kvh_deadline_after(queue->env, QUESTION_NS);

		if (!until_ns || question_ns < until_ns)
			until_ns = question_ns;
	}
	queue->sleeper_count++;
	queue->env->ops->cond_wait(queue->env->ctx, queue->ready, queue->mutex, until_ns);
	queue->sleeper_count--;
	if (queue->signalled_count)
		queue->signalled_count--;
}

/* What needs no job: deadlines of queued ones, and the question about those in doubt. */
static void look_around(struct kvh_queue *queue) KVH_REQUIRES(kvh_role_queue)
{
	size_t live_count = queue->live_count;

	/* Also when there are jobs to do: those in doubt must not wait for an idle thread. */
	if (queue->doubt.head && kvh_now_ns(queue->env) >= queue->next_question_ns)
		ask(queue);
	kvh_queue_expire(queue);
	if (queue->live_count >= live_count)
		return;
	kvh_queue_unlock(queue);
	kvh_queue_show(queue);
	kvh_queue_lock(queue);
}

/* NULL: the queue stops. */
static struct queue_job *next_job(struct kvh_queue *queue)
{
	struct queue_job *job = NULL;

	if (queue->env->ops->between_jobs)
		queue->env->ops->between_jobs(queue->env->ctx);
	kvh_queue_lock(queue);
	for (;;) {
		look_around(queue);
		job = kvh_queue_pick(queue);
		if (job || queue->stop)
			break;
		sleep_for_job(queue);
	}
	kvh_queue_unlock(queue);
	return job;
}

static void thread_main(void *arg)
{
	struct kvh_queue *queue = arg;
	struct queue_job *job;

	while ((job = next_job(queue)))
		run_job(queue, job);
}

kvh_status kvh_queue_start(struct kvh_queue *queue, size_t count, const char *name)
{
	queue->threads = kvh_calloc(count, sizeof(struct kvh_thread *));
	if (!queue->threads)
		return KVH_NO_MEMORY;
	for (size_t i = 0; i < count; i++) {
		kvh_status status = queue->env->ops->thread_create(
			queue->env->ctx, &queue->threads[i], name, thread_main, queue);

		if (status)
			return status;
		queue->thread_count++;
	}
	return KVH_OK;
}

void kvh_queue_stop(struct kvh_queue *queue)
{
	if (queue->thread_count) {
		kvh_queue_lock(queue);
		queue->stop = true;
		queue->env->ops->cond_broadcast(queue->env->ctx, queue->ready);
		kvh_queue_unlock(queue);
	}
	for (size_t i = 0; i < queue->thread_count; i++)
		queue->env->ops->thread_join(queue->env->ctx, queue->threads[i]);
	kvh_free(queue->threads);
	queue->threads = NULL;
	queue->thread_count = 0;
}
