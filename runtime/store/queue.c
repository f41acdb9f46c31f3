/* SPDX-License-Identifier: Apache-2.0 */
/* The queue's life: open, cancel, drain, close; and looking at it. */
#include "queue_internal.h"

#include "base/error.h"
#include "base/eventfd.h"
#include "base/fault.h"
#include "base/process.h"
#include "device/device.h"
#include "store_internal.h"
#include "struct_bytes.h"

enum { MAX_JOBS = 4096, MAX_KEYS = 1 << 20, THREADS = 2 };

void kvh_queue_lock(struct kvh_queue *queue) KVH_NO_THREAD_SAFETY_ANALYSIS
{
	queue->env->ops->mutex_lock(queue->env->ctx, queue->mutex);
}

void kvh_queue_unlock(struct kvh_queue *queue) KVH_NO_THREAD_SAFETY_ANALYSIS
{
	queue->env->ops->mutex_unlock(queue->env->ctx, queue->mutex);
}

kvh_status kvh_queue_begin(struct kvh_queue *queue, unsigned *phase)
{
	if (!queue)
		return KVH_INVALID_PARAMS;
	/* Its threads and locks did not come along into a child. */
	if (kvh_process_id() != queue->process_id)
		return KVH_FORKED;
	return kvh_gate_enter(&queue->gate, phase);
}

void kvh_queue_end(struct kvh_queue *queue, unsigned phase)
{
	kvh_gate_leave(&queue->gate, phase);
}

/* ---- open ----------------------------------------------------------------------------- */

static kvh_status take_options(struct kvh_queue *queue, const struct kvh_queue_options *given,
                               struct kvh_queue_options *options, struct kvh_error *error)
{
	*options = (struct kvh_queue_options){.struct_bytes = sizeof(*options)};
	if (given && !kvh_struct_in(options, sizeof(*options), given))
		return kvh_fail(error, KVH_INVALID_PARAMS,
		                "queue options: struct_bytes %zu is not that of a known version; "
		                "set it to sizeof(struct kvh_queue_options)",
		                given->struct_bytes);
	if (options->threads > KVH_QUEUE_THREADS_MAX)
		return kvh_fail(error, KVH_INVALID_PARAMS,
		                "queue options: %u threads; 1 to %d, 0 for %d", options->threads,
		                KVH_QUEUE_THREADS_MAX, THREADS);
	if (options->reserved)
		return kvh_fail(error, KVH_INVALID_PARAMS, "queue options: reserved is %u, not 0",
		                options->reserved);
	queue->env = options->env ? options->env : queue->store->env;
	if (!queue->env->ops)
		return kvh_fail(error, KVH_INVALID_PARAMS, "queue options: env has no functions");
	queue->log = options->log;
	queue->max_jobs = options->max_jobs ? options->max_jobs : MAX_JOBS;
	queue->max_keys = options->max_keys ? options->max_keys : MAX_KEYS;
	if (!options->threads)
		options->threads = THREADS;
	/* One is left to reads. */
	queue->write_threads = options->threads > 1 ? options->threads - 1 : 1;
	if (!options->thread_name)
		options->thread_name = "kvh-queue";
	return KVH_OK;
}

static kvh_status take_store(struct kvh_queue *queue, struct kvh_store *store,
                             struct kvh_error *error)
{
	kvh_status status = kvh_store_usable(store);

	if (status)
		return kvh_fail(error, status, "queue: the store: %s", kvh_strstatus(status));
	queue->store = store;
	queue->device = store->device;
	if (kvh_device_ops_fill(store->device.ops, &queue->device_ops))
		return kvh_fail(error, KVH_INVALID_PARAMS,
		                "queue: the store's device: its functions are not whole");
	queue->device.ops = &queue->device_ops;
	return KVH_OK;
}

static kvh_status make_parts(struct kvh_queue *queue) KVH_NO_THREAD_SAFETY_ANALYSIS
{
	const struct kvh_env *env = queue->env;
	kvh_status status = env->ops->mutex_create(env->ctx, &queue->mutex);

	if (!status)
		status = env->ops->cond_create(env->ctx, &queue->ready);
	if (!status)
		status = env->ops->cond_create(env->ctx, &queue->changed);
	if (!status)
		status = env->ops->cond_create(env->ctx, &queue->left);
	if (!status)
		status = kvh_map_init(&queue->jobs);
	if (!status)
		kvh_gate_init(&queue->gate, env, queue->mutex, queue->left);
	return status;
}

/* Frees a queue that may be only partly made; nobody else has it. */
static void destroy(struct kvh_queue *queue) KVH_NO_THREAD_SAFETY_ANALYSIS
{
	const struct kvh_env *env = queue->env;
	int fd = atomic_load(&queue->fd);

	if (fd >= 0)
		kvh_eventfd_destroy(fd);
	while (queue->done.head) {
		struct queue_job *next = queue->done.head->next;

		kvh_free(queue->done.head);
		queue->done.head = next;
	}
	kvh_map_fini(&queue->jobs);
	if (queue->left)
		env->ops->cond_destroy(env->ctx, queue->left);
	if (queue->changed)
		env->ops->cond_destroy(env->ctx, queue->changed);
	if (queue->ready)
		env->ops->cond_destroy(env->ctx, queue->ready);
	if (queue->mutex)
		env->ops->mutex_destroy(env->ctx, queue->mutex);
	kvh_free(queue);
}

static kvh_status make(struct kvh_queue *queue, struct kvh_store *store,
                       const struct kvh_queue_options *given, struct kvh_error *error)
{
	struct kvh_queue_options options;
	kvh_status status = take_store(queue, store, error);

	if (status)
		return status;
	status = take_options(queue, given, &options, error);
	if (status)
		return status;
	queue->process_id = kvh_process_id();
	status = make_parts(queue);
	if (!status)
		status = kvh_queue_start(queue, options.threads, options.thread_name);
	if (status)
		return kvh_fail(error, status, "queue: no memory, locks or threads for it: %s",
		                kvh_strstatus(status));
	return KVH_OK;
}

kvh_status kvh_queue_open(struct kvh_store *store, const struct kvh_queue_options *options,
                          struct kvh_queue **queue, struct kvh_error *error)
{
	struct kvh_queue *made;
	kvh_status status;

	if (!queue)
		return kvh_fail(error, KVH_INVALID_PARAMS, "queue: there is no place for it");
	made = kvh_calloc(1, sizeof(*made));
	if (!made)
		return kvh_fail(error, KVH_NO_MEMORY, "queue: no memory for a handle");
	atomic_init(&made->fd, -1);
	status = make(made, store, options, error);
	if (status) {
		kvh_queue_stop(made);
		destroy(made);
		return status;
	}
	*queue = made;
	return KVH_OK;
}

/* ---- stopping ------------------------------------------------------------------------- */

kvh_status kvh_queue_cancel(struct kvh_queue *queue, uint64_t job_id,
                            enum kvh_cancel_outcome *outcome)
{
	enum kvh_cancel_outcome found = KVH_CANCEL_ALREADY_DONE;
	struct queue_job *job;
	unsigned phase;
	kvh_status status = kvh_queue_begin(queue, &phase);

	if (status)
		return status;
	if (!outcome) {
		status = KVH_INVALID_PARAMS;
		goto out;
	}
	kvh_queue_lock(queue);
	job = kvh_queue_find(queue, job_id);
	if (job && job->state == KVH_QUEUE_JOB_QUEUED) {
		found = KVH_CANCEL_NOT_STARTED;
		kvh_queue_drop(queue, job, KVH_CANCELLED);
	} else if (job && job->state != KVH_QUEUE_JOB_DONE) {
		found = KVH_CANCEL_STOPPING;
		kvh_cancel_request(&job->cancel);
	}
	kvh_queue_unlock(queue);
	kvh_queue_show(queue);
	*outcome = found;
out:
	kvh_queue_end(queue, phase);
	return status;
}

/* Jobs that are not terminal; ids NULL: of the queue. */
static size_t count_left(struct kvh_queue *queue, const uint64_t *ids, size_t count)
	KVH_REQUIRES(kvh_role_queue)
{
	size_t left = 0;

	if (!ids)
		return queue->live_count;
	for (size_t i = 0; i < count; i++) {
		const struct queue_job *job = kvh_queue_find(queue, ids[i]);

		left += job && job->state != KVH_QUEUE_JOB_DONE;
	}
	return left;
}

/* Waits until none is left, to the deadline; returns how many are. */
static size_t wait_left(struct kvh_queue *queue, const uint64_t *ids, size_t count,
                        kvh_deadline deadline_ns) KVH_REQUIRES(kvh_role_queue)
{
	bool goes_on = true;
	size_t left;

	queue->drainer_count++;
	for (;;) {
		left = count_left(queue, ids, count);
		if (!left || !goes_on)
			break;
		goes_on = kvh_queue_sleep(queue, deadline_ns);
	}
	queue->drainer_count--;
	return left;
}

kvh_status kvh_queue_drain(struct kvh_queue *queue, const uint64_t *job_ids, size_t count,
                           kvh_deadline deadline_ns, size_t *left_jobs)
{
	size_t left;
	unsigned phase;
	kvh_status status = kvh_queue_begin(queue, &phase);

	if (status)
		return status;
	if (!job_ids != !count) {
		status = KVH_INVALID_PARAMS;
		goto out;
	}
	kvh_queue_lock(queue);
	left = wait_left(queue, job_ids, count, deadline_ns);
	kvh_queue_unlock(queue);
	if (left_jobs)
		*left_jobs = left;
	status = left ? KVH_TIMEOUT : KVH_OK;
out:
	kvh_queue_end(queue, phase);
	return status;
}

/* Those that run or are in doubt; nothing is queued any more. */
static void ask_all_to_stop(struct kvh_queue *queue) KVH_REQUIRES(kvh_role_queue)
{
	struct kvh_map_entry *entry = NULL;

	while ((entry = kvh_map_next(&queue->jobs, entry)))
		kvh_cancel_request(&((struct queue_job *)entry)->cancel);
}

/* Returns how many jobs are not terminal at the deadline. */
static size_t close_jobs(struct kvh_queue *queue, kvh_deadline deadline_ns)
{
	size_t left;

	kvh_queue_lock(queue);
	queue->closing = true;
	kvh_queue_drop_all(queue, KVH_CANCELLED);
	/* Who waits for any job may wait for nothing now. */
	queue->env->ops->cond_broadcast(queue->env->ctx, queue->changed);
	kvh_queue_unlock(queue);
	kvh_queue_show(queue);
	kvh_queue_lock(queue);
	left = wait_left(queue, NULL, 0, deadline_ns);
	if (left)
		ask_all_to_stop(queue);
	kvh_queue_unlock(queue);
	return left;
}

kvh_status kvh_queue_close(struct kvh_queue *queue, kvh_deadline deadline_ns, size_t *left_jobs)
{
	kvh_status status;
	size_t left;

	if (!queue)
		return KVH_OK;
	if (kvh_process_id() != queue->process_id)
		return KVH_FORKED;
	left = close_jobs(queue, deadline_ns);
	if (left_jobs)
		*left_jobs = left;
	if (left)
		return KVH_TIMEOUT;
	status = kvh_gate_shut(&queue->gate, deadline_ns);
	if (status)
		return status;
	kvh_queue_stop(queue);
	destroy(queue);
	return KVH_OK;
}

/* ---- looking -------------------------------------------------------------------------- */

kvh_status kvh_queue_get_job(struct kvh_queue *queue, uint64_t job_id,
                             struct kvh_queue_job_info *info)
{
	struct kvh_queue_job_info own = {.struct_bytes = sizeof(own)};
	const struct queue_job *job;
	unsigned phase;
	kvh_status status = kvh_queue_begin(queue, &phase);

	if (status)
		return status;
	kvh_queue_lock(queue);
	job = kvh_queue_find(queue, job_id);
	if (job) {
		own.state = job->state;
		own.op = job->op;
		own.user = job->user;
		own.submitted_ns = job->submitted_ns;
		own.started_ns = job->started_ns;
	}
	kvh_queue_unlock(queue);
	if (!job)
		status = KVH_OBJECT_NOT_FOUND;
	else if (!info || !kvh_struct_out(info, &own, sizeof(own)))
		status = KVH_INVALID_PARAMS;
	kvh_queue_end(queue, phase);
	return status;
}

kvh_status kvh_queue_get_stats(struct kvh_queue *queue, struct kvh_queue_stats *stats)
{
	struct kvh_queue_stats own;
	unsigned phase;
	kvh_status status = kvh_queue_begin(queue, &phase);

	if (status)
		return status;
	kvh_queue_lock(queue);
	own = queue->stats;
	own.queued_reads = queue->lines[QUEUE_READS].queued.count;
	own.queued_writes = queue->lines[QUEUE_WRITES].queued.count;
	own.running_jobs = queue->running_count;
	own.doubtful_jobs = queue->doubt_count;
	own.waiting_completions = queue->done.count;
	kvh_queue_unlock(queue);
	own.struct_bytes = sizeof(own);
	own.fd_writes = atomic_load_explicit(&queue->fd_writes, memory_order_relaxed);
	if (!stats || !kvh_struct_out(stats, &own, sizeof(own)))
		status = KVH_INVALID_PARAMS;
	kvh_queue_end(queue, phase);
	return status;
}
