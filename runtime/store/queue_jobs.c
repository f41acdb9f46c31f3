/* SPDX-License-Identifier: Apache-2.0 */
/* A queue's lines of jobs, their limits, and how a job reaches its end. */
#include "queue_internal.h"

#include "base/check.h"

static void list_push(struct queue_list *list, struct queue_job *job)
{
	job->next = NULL;
	job->previous = list->tail;
	if (list->tail)
		list->tail->next = job;
	else
		list->head = job;
	list->tail = job;
	list->count++;
}

static void list_remove(struct queue_list *list, struct queue_job *job)
{
	if (job->previous)
		job->previous->next = job->next;
	else
		list->head = job->next;
	if (job->next)
		job->next->previous = job->previous;
	else
		list->tail = job->previous;
	list->count--;
}

/* ---- lines ---------------------------------------------------------------------------- */

kvh_status kvh_queue_reserve(struct kvh_queue *queue, enum kvh_queue_op op, size_t key_count)
{
	struct queue_line *line = &queue->lines[kvh_queue_line_of(op)];

	if (queue->closing)
		return KVH_CLOSED;
	if (line->job_count >= queue->max_jobs ||
	    (line->job_count && (line->key_count > queue->max_keys ||
	                         key_count > queue->max_keys - line->key_count))) {
		queue->stats.refused_jobs++;
		return KVH_BUSY;
	}
	line->job_count++;
	line->key_count += key_count;
	return KVH_OK;
}

void kvh_queue_release(struct kvh_queue *queue, enum kvh_queue_op op, size_t key_count)
{
	struct queue_line *line = &queue->lines[kvh_queue_line_of(op)];

	line->job_count--;
	line->key_count -= key_count;
}

/* Queued jobs that a thread which is free now could take. */
static size_t takeable(const struct kvh_queue *queue) KVH_REQUIRES(kvh_role_queue)
{
	size_t writes = queue->lines[QUEUE_WRITES].queued.count;
	size_t free_places = queue->write_threads - queue->running_writes;

	return queue->lines[QUEUE_READS].queued.count +
	       (writes < free_places ? writes : free_places);
}

/*
 * A wake-up only for a job that no thread is on its way to. must: also without one. When a write
 * ends, its place is the only thing that changes, and the thread that leaves it looks for jobs
 * anyway; so hand-in is the only time to wake somebody.
 */
static void wake_one(struct kvh_queue *queue, bool must) KVH_REQUIRES(kvh_role_queue)
{
	if (queue->signalled_count >= queue->sleeper_count)
		return;
	if (takeable(queue) <= queue->signalled_count && !(must && queue->signalled_count == 0))
		return;
	queue->signalled_count++;
	queue->stats.wakeups++;
	queue->env->ops->cond_signal(queue->env->ctx, queue->ready);
}

/* True: it is the earliest now. */
static bool note_deadline(struct kvh_queue *queue, kvh_deadline deadline_ns)
{
	uint64_t next_ns = atomic_load_explicit(&queue->next_deadline_ns, memory_order_relaxed);

	if (!deadline_ns || (next_ns && next_ns <= deadline_ns))
		return false;
	atomic_store_explicit(&queue->next_deadline_ns, deadline_ns, memory_order_relaxed);
	return true;
}

void kvh_queue_add(struct kvh_queue *queue, struct queue_job *job)
{
	bool is_earliest = note_deadline(queue, job->deadline_ns);

	job->id = ++queue->last_id;
	job->entry.key = &job->id;
	job->entry.key_bytes = sizeof(job->id);
	job->state = KVH_QUEUE_JOB_QUEUED;
	kvh_map_put(&queue->jobs, &job->entry);
	list_push(&queue->lines[kvh_queue_line_of(job->op)].queued, job);
	queue->live_count++;
	queue->stats.submitted_jobs++;
	queue->stats.submitted_keys += job->batch.count;
	/* Whoever sleeps has set its alarm by what was the earliest deadline before. */
	wake_one(queue, is_earliest);
	if (is_earliest && (queue->any_waiter_count || queue->drainer_count))
		queue->env->ops->cond_broadcast(queue->env->ctx, queue->changed);
}

/* The line to take from; QUEUE_LINES: none. */
static enum queue_line_id choose_line(struct kvh_queue *queue) KVH_REQUIRES(kvh_role_queue)
{
	bool has_read = queue->lines[QUEUE_READS].queued.head;
	bool has_write = queue->lines[QUEUE_WRITES].queued.head &&
	                 queue->running_writes < queue->write_threads;

	if (!has_write)
		return has_read ? QUEUE_READS : QUEUE_LINES;
	if (has_read && queue->reads_ahead < KVH_QUEUE_READS_AHEAD) {
		queue->reads_ahead++;
		return QUEUE_READS;
	}
	queue->reads_ahead = 0;
	return QUEUE_WRITES;
}

struct queue_job *kvh_queue_pick(struct kvh_queue *queue)
{
	enum queue_line_id id = choose_line(queue);
	struct queue_job *job;

	if (id == QUEUE_LINES)
		return NULL;
	job = queue->lines[id].queued.head;
	list_remove(&queue->lines[id].queued, job);
	job->state = KVH_QUEUE_JOB_RUNNING;
	job->started_ns = kvh_now_ns(queue->env);
	queue->running_count++;
	queue->running_writes += id == QUEUE_WRITES;
	return job;
}

/* ---- ends ----------------------------------------------------------------------------- */

static void count_end(struct kvh_queue *queue, kvh_status status) KVH_REQUIRES(kvh_role_queue)
{
	switch (status) {
	case KVH_OK:
		queue->stats.ok_jobs++;
		break;
	case KVH_CANCELLED:
		queue->stats.cancelled_jobs++;
		break;
	case KVH_TIMEOUT:
		queue->stats.timed_out_jobs++;
		break;
	default:
		queue->stats.failed_jobs++;
	}
}

static void leave_thread(struct kvh_queue *queue, const struct queue_job *job)
	KVH_REQUIRES(kvh_role_queue)
{
	queue->running_count--;
	queue->running_writes -= kvh_queue_line_of(job->op) == QUEUE_WRITES;
}

void kvh_queue_finish(struct kvh_queue *queue, struct queue_job *job, kvh_status status)
{
	KVH_CHECK(job->state != KVH_QUEUE_JOB_DONE);
	if (job->state == KVH_QUEUE_JOB_RUNNING)
		leave_thread(queue, job);
	job->state = KVH_QUEUE_JOB_DONE;
	job->status = status;
	queue->live_count--;
	count_end(queue, status);
	if (!job->waiter_count) {
		job->is_listed = true;
		list_push(&queue->done, job);
		/* seq_cst, with kvh_queue_show: who moves the eventfd meanwhile sees this one. */
		atomic_fetch_add(&queue->done_count, 1);
	}
	if (job->waiter_count || queue->any_waiter_count || queue->drainer_count)
		queue->env->ops->cond_broadcast(queue->env->ctx, queue->changed);
}

void kvh_queue_drop(struct kvh_queue *queue, struct queue_job *job, kvh_status status)
{
	KVH_CHECK(job->state == KVH_QUEUE_JOB_QUEUED);
	list_remove(&queue->lines[kvh_queue_line_of(job->op)].queued, job);
	kvh_queue_finish(queue, job, status);
}

void kvh_queue_drop_all(struct kvh_queue *queue, kvh_status status)
{
	for (size_t i = 0; i < QUEUE_LINES; i++) {
		while (queue->lines[i].queued.head)
			kvh_queue_drop(queue, queue->lines[i].queued.head, status);
	}
}

void kvh_queue_expire(struct kvh_queue *queue)
{
	uint64_t next_ns = atomic_load_explicit(&queue->next_deadline_ns, memory_order_relaxed);
	uint64_t now_ns;

	if (!next_ns)
		return;
	now_ns = kvh_now_ns(queue->env);
	if (now_ns < next_ns)
		return;
	atomic_store_explicit(&queue->next_deadline_ns, 0, memory_order_relaxed);
	for (size_t i = 0; i < QUEUE_LINES; i++) {
		struct queue_job *next;

		for (struct queue_job *job = queue->lines[i].queued.head; job; job = next) {
			next = job->next;
			if (job->deadline_ns && job->deadline_ns <= now_ns)
				kvh_queue_drop(queue, job, KVH_TIMEOUT);
			else
				note_deadline(queue, job->deadline_ns);
		}
	}
}

struct queue_job *kvh_queue_find(struct kvh_queue *queue, uint64_t id)
{
	return (struct queue_job *)kvh_map_get(&queue->jobs, &id, sizeof(id));
}

void kvh_queue_take(struct kvh_queue *queue, struct queue_job *job,
                    struct kvh_queue_completion *completion)
{
	KVH_CHECK(job->state == KVH_QUEUE_JOB_DONE);
	*completion = (struct kvh_queue_completion){
		.job_id = job->id,
		.user = job->user,
		.op = job->op,
		.status = job->status,
		.key_count = job->batch.count,
		.good_keys = job->good_keys,
		.bytes = job->bytes,
	};
	if (job->is_listed) {
		list_remove(&queue->done, job);
		atomic_fetch_sub(&queue->done_count, 1);
	}
	kvh_map_remove(&queue->jobs, &job->entry);
	kvh_queue_release(queue, job->op, job->batch.count);
}

/* ---- doubt ---------------------------------------------------------------------------- */

void kvh_queue_doubt(struct kvh_queue *queue, struct queue_job *job, kvh_status status)
{
	leave_thread(queue, job);
	job->state = KVH_QUEUE_JOB_IN_DOUBT;
	job->status = status;
	list_push(&queue->doubt, job);
	queue->stats.in_doubt_jobs++;
	if (queue->doubt_count++ > 0)
		return;
	queue->next_question_ns = kvh_now_ns(queue->env);
	/* Who fell asleep before knows of no job in doubt and set no alarm to ask about one. */
	queue->env->ops->cond_broadcast(queue->env->ctx, queue->ready);
}

struct queue_job *kvh_queue_take_doubt(struct kvh_queue *queue)
{
	struct queue_job *first = queue->doubt.head;

	queue->doubt = (struct queue_list){0};
	return first;
}

void kvh_queue_settle(struct kvh_queue *queue, struct queue_job *job, bool is_quiet)
{
	if (!is_quiet) {
		list_push(&queue->doubt, job);
		return;
	}
	queue->doubt_count--;
	kvh_queue_finish(queue, job, job->status);
}
