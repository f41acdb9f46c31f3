/* SPDX-License-Identifier: Apache-2.0 */
/* Handing out a queue's completions: poll, wait, the eventfd; and asking jobs to stop. */
#include "queue_internal.h"

#include "base/eventfd.h"
#include "base/fault.h"

/*
 * done_count changes first, and whoever changed it comes here. Who finds the eventfd being moved,
 * or moved meanwhile, leaves: the mover looks at the count once more when it is through. All
 * seq_cst: of a change of the count and the end of a move, one sees the other. The count is looked
 * at again by who may move, so between two writes there was a moment without completions.
 */
void kvh_queue_show(struct kvh_queue *queue)
{
	int fd = atomic_load(&queue->fd);

	while (fd >= 0) {
		int state = atomic_load(&queue->fd_state);
		bool is_high = atomic_load(&queue->done_count) > 0;

		if (state == (is_high ? QUEUE_FD_HIGH : QUEUE_FD_LOW) || state == QUEUE_FD_MOVING ||
		    !atomic_compare_exchange_strong(&queue->fd_state, &state, QUEUE_FD_MOVING))
			return;
		is_high = atomic_load(&queue->done_count) > 0;
		if (is_high && state == QUEUE_FD_LOW) {
			atomic_fetch_add_explicit(&queue->fd_writes, 1, memory_order_relaxed);
			kvh_eventfd_set(fd);
		} else if (!is_high && state == QUEUE_FD_HIGH) {
			kvh_eventfd_clear(fd);
		}
		atomic_store(&queue->fd_state, is_high ? QUEUE_FD_HIGH : QUEUE_FD_LOW);
	}
}

static kvh_status make_fd(struct kvh_queue *queue, int *fd)
{
	kvh_status status = KVH_OK;
	int made = -1;

	kvh_queue_lock(queue);
	made = atomic_load(&queue->fd);
	if (made < 0) {
		status = kvh_eventfd_create(&made);
		if (!status)
			atomic_store(&queue->fd, made);
	}
	kvh_queue_unlock(queue);
	if (status)
		return status;
	/* What waits already. */
	kvh_queue_show(queue);
	*fd = made;
	return KVH_OK;
}

kvh_status kvh_queue_fd(struct kvh_queue *queue, int *fd)
{
	unsigned phase;
	kvh_status status = kvh_queue_begin(queue, &phase);

	if (status)
		return status;
	if (!fd)
		status = KVH_INVALID_PARAMS;
	else if (queue->env->ops != kvh_env_posix()->ops)
		status = KVH_NOT_SUPPORTED;
	else
		status = make_fd(queue, fd);
	kvh_queue_end(queue, phase);
	return status;
}

/* ---- poll ----------------------------------------------------------------------------- */

static void free_jobs(struct queue_job *job)
{
	while (job) {
		struct queue_job *next = job->next;

		kvh_free(job);
		job = next;
	}
}

static size_t take_done(struct kvh_queue *queue, struct kvh_queue_completion *completions,
                        size_t capacity)
{
	struct queue_job *taken = NULL;
	size_t count = 0;

	kvh_queue_lock(queue);
	kvh_queue_expire(queue);
	while (count < capacity && queue->done.head) {
		struct queue_job *job = queue->done.head;

		kvh_queue_take(queue, job, &completions[count++]);
		job->next = taken;
		taken = job;
	}
	kvh_queue_unlock(queue);
	kvh_queue_show(queue);
	free_jobs(taken);
	return count;
}

static bool nothing_there(struct kvh_queue *queue)
{
	/* acquire: who was told of a completion by the eventfd or another thread finds it. */
	return atomic_load_explicit(&queue->done_count, memory_order_acquire) == 0 &&
	       !kvh_deadline_passed(queue->env, atomic_load_explicit(&queue->next_deadline_ns,
	                                                             memory_order_relaxed));
}

kvh_status kvh_queue_poll(struct kvh_queue *queue, struct kvh_queue_completion *completions,
                          size_t entry_bytes, size_t capacity, size_t *count)
{
	unsigned phase;
	kvh_status status = kvh_queue_begin(queue, &phase);

	if (status)
		return status;
	if (!count || (capacity && !completions) || entry_bytes != sizeof(*completions))
		status = KVH_INVALID_PARAMS;
	else
		*count = nothing_there(queue) ? 0 : take_done(queue, completions, capacity);
	kvh_queue_end(queue, phase);
	return status;
}

/* ---- wait ----------------------------------------------------------------------------- */

bool kvh_queue_sleep(struct kvh_queue *queue, kvh_deadline deadline_ns)
{
	kvh_deadline until_ns =
		atomic_load_explicit(&queue->next_deadline_ns, memory_order_relaxed);
	size_t live_count = queue->live_count;

	if (!until_ns || (deadline_ns && deadline_ns < until_ns))
		until_ns = deadline_ns;
	if (queue->env->ops->cond_wait(queue->env->ctx, queue->changed, queue->mutex, until_ns) !=
	    KVH_TIMEOUT)
		return true;
	kvh_queue_expire(queue);
	if (queue->live_count < live_count) {
		kvh_queue_unlock(queue);
		kvh_queue_show(queue);
		kvh_queue_lock(queue);
	}
	return !kvh_deadline_passed(queue->env, deadline_ns);
}

/* KVH_TIMEOUT: not yet. */
static kvh_status find_done(struct kvh_queue *queue, uint64_t id, struct queue_job **done)
	KVH_REQUIRES(kvh_role_queue)
{
	struct queue_job *job = id ? kvh_queue_find(queue, id) : queue->done.head;

	if (!job && id)
		return KVH_OBJECT_NOT_FOUND;
	if (!job)
		return queue->closing && queue->live_count == 0 ? KVH_CLOSED : KVH_TIMEOUT;
	if (job->state != KVH_QUEUE_JOB_DONE)
		return KVH_TIMEOUT;
	*done = job;
	return KVH_OK;
}

/* Of a job that is DONE the waiters don't matter any more. */
static void count_waiter(struct kvh_queue *queue, uint64_t id, int change)
	KVH_REQUIRES(kvh_role_queue)
{
	struct queue_job *job = id ? kvh_queue_find(queue, id) : NULL;

	if (!id)
		queue->any_waiter_count += (size_t)change;
	else if (job && job->state != KVH_QUEUE_JOB_DONE)
		job->waiter_count += (size_t)change;
}

/* As kvh_queue_wait. */
static kvh_status await(struct kvh_queue *queue, uint64_t id, kvh_deadline deadline_ns,
                        struct kvh_queue_completion *completion)
{
	struct queue_job *done = NULL;
	bool goes_on = true;
	kvh_status status;

	kvh_queue_lock(queue);
	count_waiter(queue, id, 1);
	for (;;) {
		/* The job may have ended with the deadline, or been taken by another waiter. */
		status = find_done(queue, id, &done);
		if (status != KVH_TIMEOUT || !goes_on)
			break;
		goes_on = kvh_queue_sleep(queue, deadline_ns);
	}
	if (status == KVH_OK)
		kvh_queue_take(queue, done, completion);
	count_waiter(queue, id, -1);
	kvh_queue_unlock(queue);
	kvh_queue_show(queue);
	kvh_free(done);
	return status;
}

kvh_status kvh_queue_wait(struct kvh_queue *queue, uint64_t job_id, kvh_deadline deadline_ns,
                          struct kvh_queue_completion *completion, size_t entry_bytes)
{
	unsigned phase;
	kvh_status status = kvh_queue_begin(queue, &phase);

	if (status)
		return status;
	if (!completion || entry_bytes != sizeof(*completion))
		status = KVH_INVALID_PARAMS;
	else
		status = await(queue, job_id, deadline_ns, completion);
	kvh_queue_end(queue, phase);
	return status;
}

kvh_status kvh_queue_run(struct kvh_queue *queue, const struct kvh_queue_job *job,
                         struct kvh_queue_completion *completion, size_t entry_bytes,
                         struct kvh_error *error)
{
	unsigned phase;
	uint64_t id;
	kvh_status status = kvh_queue_begin(queue, &phase);

	if (status)
		return status;
	if (!completion || entry_bytes != sizeof(*completion)) {
		status = KVH_INVALID_PARAMS;
	} else {
		status = kvh_queue_hand_in(queue, job, true, &id, error);
		if (!status)
			status = await(queue, id, 0, completion);
	}
	kvh_queue_end(queue, phase);
	return status;
}
