/* SPDX-License-Identifier: Apache-2.0 */
/* Opening, draining and closing a worker. */
#include "worker/internal.h"

#include <string.h>

#include "base/error.h"
#include "base/fault.h"
#include "base/logging.h"
#include "base/process.h"
#include "device/device.h"

enum { NS_PER_MS = 1000000, STOP_MARGIN_MS = 1000 };

void kvh_worker_lock(struct kvh_worker *worker) KVH_NO_THREAD_SAFETY_ANALYSIS
{
	worker->env->ops->mutex_lock(worker->env->ctx, worker->mutex);
}

void kvh_worker_unlock(struct kvh_worker *worker) KVH_NO_THREAD_SAFETY_ANALYSIS
{
	worker->env->ops->mutex_unlock(worker->env->ctx, worker->mutex);
}

kvh_status kvh_worker_usable(const struct kvh_worker *worker)
{
	if (!worker)
		return KVH_INVALID_PARAMS;
	return worker->process_id == kvh_process_id() ? KVH_OK : KVH_FORKED;
}

kvh_status kvh_worker_serving(struct kvh_worker *worker)
{
	kvh_status status = kvh_worker_usable(worker);

	if (status)
		return status;
	kvh_worker_lock(worker);
	if (worker->closing)
		status = KVH_CLOSED;
	kvh_worker_unlock(worker);
	return status;
}

static kvh_status make_locks(struct kvh_worker *worker)
{
	const struct kvh_env *env = worker->env;
	kvh_status status = env->ops->mutex_create(env->ctx, &worker->mutex);

	if (!status)
		status = env->ops->cond_create(env->ctx, &worker->save_ready);
	if (!status)
		status = env->ops->cond_create(env->ctx, &worker->load_ready);
	if (!status)
		status = env->ops->cond_create(env->ctx, &worker->changed);
	return status;
}

/* Frees what open made; no thread runs and nobody else has the handle. */
static void free_worker(struct kvh_worker *worker) KVH_NO_THREAD_SAFETY_ANALYSIS
{
	const struct kvh_env *env = worker->env;

	kvh_epoch_destroy(worker->epoch);
	kvh_coordinator_destroy(worker->coordinator);
	kvh_map_fini(&worker->requests);
	kvh_map_fini(&worker->jobs);
	if (worker->mutex)
		env->ops->mutex_destroy(env->ctx, worker->mutex);
	if (worker->save_ready)
		env->ops->cond_destroy(env->ctx, worker->save_ready);
	if (worker->load_ready)
		env->ops->cond_destroy(env->ctx, worker->load_ready);
	if (worker->changed)
		env->ops->cond_destroy(env->ctx, worker->changed);
	kvh_free(worker->regions);
	kvh_free(worker->evicted);
	kvh_free(worker->model);
	kvh_free(worker->cache_prefix);
	kvh_free(worker);
}

static kvh_status init_worker(struct kvh_worker *worker, const struct kvh_worker_config *config,
                              struct kvh_error *error) KVH_NO_THREAD_SAFETY_ANALYSIS
{
	const void *identity = config->identity_none ? NULL : config->identity;
	kvh_status status;

	worker->process_id = kvh_process_id();
	kvh_queue_init(&worker->saves);
	kvh_queue_init(&worker->loads);
	kvh_queue_init(&worker->done);
	worker->caps.struct_bytes = sizeof(worker->caps);
	status = kvh_store_get_caps(worker->store, &worker->caps);
	if (!status)
		status = make_locks(worker);
	if (!status)
		status = kvh_map_init(&worker->requests);
	if (!status)
		status = kvh_map_init(&worker->jobs);
	if (!status)
		status = kvh_worker_configure(worker, config, error);
	if (!status && worker->events && worker->caps.evicted) {
		worker->evicted = kvh_calloc(KVH_EVICTED_RING, sizeof(*worker->evicted));
		if (!worker->evicted)
			status = KVH_NO_MEMORY;
	}
	if (!status)
		status = kvh_epoch_create(worker, identity, identity ? config->identity_bytes : 0,
		                          &worker->epoch, error);
	return status;
}

static kvh_status take_platform(struct kvh_worker *worker, const struct kvh_worker_config *config,
                                struct kvh_error *error)
{
	worker->env = config->env ? config->env : kvh_env_posix();
	worker->device = config->device ? *config->device : *kvh_device_host();
	if (!worker->env->ops)
		return kvh_fail(error, KVH_INVALID_PARAMS, "env: it has no functions");
	if (kvh_device_ops_fill(worker->device.ops, &worker->device_ops))
		return kvh_fail(error, KVH_INVALID_PARAMS, "device: its functions are not whole");
	worker->device.ops = &worker->device_ops;
	return KVH_OK;
}

kvh_status kvh_worker_open(struct kvh_store *store, const struct kvh_worker_config *config,
                           struct kvh_worker **out, struct kvh_error *error)
{
	struct kvh_worker *worker;
	kvh_status status;

	if (!store || !config || !out || config->struct_bytes < sizeof(*config))
		return kvh_fail(error, KVH_INVALID_PARAMS,
		                "worker_open: store, config with its struct_bytes, and a place for "
		                "the worker must be given");
	worker = kvh_calloc(1, sizeof(*worker));
	if (!worker)
		return kvh_fail(error, KVH_NO_MEMORY, "worker_open: no memory");
	worker->log = config->log;
	worker->store = store;
	if (error)
		error->text[0] = 0;
	status = take_platform(worker, config, error);
	if (status) {
		kvh_free(worker);
		return status;
	}
	status = init_worker(worker, config, error);
	if (status) {
		if (error && !error->text[0])
			kvh_fail(error, status, "worker_open: %s", kvh_strstatus(status));
		free_worker(worker);
		return status;
	}
	*out = worker;
	return KVH_OK;
}

/* Jobs of the request that are not terminal; NULL: of the worker. */
static size_t count_left(struct kvh_worker *worker, const struct kvh_request_id *request)
	KVH_REQUIRES(kvh_role_worker)
{
	struct kvh_map_entry *entry = NULL;
	size_t left = 0;

	if (!request)
		return worker->live_jobs;
	while ((entry = kvh_map_next(&worker->jobs, entry))) {
		const struct worker_job *job = (const struct worker_job *)entry;

		left += job->state != JOB_DONE && job->request_id_bytes == request->bytes &&
		        memcmp(job->request_id, request->data, request->bytes) == 0;
	}
	return left;
}

/* Jobs that end by themselves; those in doubt may end only when their regions do (D-23). */
static size_t count_moving(struct kvh_worker *worker, const struct kvh_request_id *request)
	KVH_REQUIRES(kvh_role_worker)
{
	(void)request;
	return worker->live_jobs - worker->doubt_count;
}

typedef size_t (*count_fn)(struct kvh_worker *worker, const struct kvh_request_id *request);

/* Waits until none is left, to the deadline (0: none); returns how many are. */
static size_t wait_left(struct kvh_worker *worker, count_fn count,
                        const struct kvh_request_id *request, kvh_deadline deadline_ns)
	KVH_REQUIRES(kvh_role_worker)
{
	const struct kvh_env *env = worker->env;
	size_t left;

	worker->change_waiters++;
	while ((left = count(worker, request)) > 0) {
		uint64_t expiry_ns = worker->next_load_deadline_ns;
		kvh_deadline until_ns = deadline_ns;

		if (expiry_ns && (!until_ns || expiry_ns < until_ns))
			until_ns = expiry_ns;
		if (env->ops->cond_wait(env->ctx, worker->changed, worker->mutex, until_ns) ==
		    KVH_TIMEOUT) {
			kvh_jobs_expire_loads(worker);
			if (kvh_deadline_passed(env, deadline_ns)) {
				left = count(worker, request);
				break;
			}
		}
	}
	worker->change_waiters--;
	return left;
}

kvh_status kvh_worker_drain(struct kvh_worker *worker, const struct kvh_request_id *request,
                            kvh_deadline deadline_ns, size_t *left_jobs)
{
	kvh_status status = kvh_worker_usable(worker);
	size_t left;

	if (status)
		return status;
	if (request &&
	    (!request->data || !request->bytes || request->bytes > KVH_REQUEST_BYTES_MAX))
		return KVH_INVALID_PARAMS;
	kvh_worker_lock(worker);
	left = wait_left(worker, count_left, request, deadline_ns);
	kvh_worker_unlock(worker);
	if (left_jobs)
		*left_jobs = left;
	return left ? KVH_TIMEOUT : KVH_OK;
}

/* Ends what is queued and asks what runs to stop. */
static void cancel_all(struct kvh_worker *worker) KVH_REQUIRES(kvh_role_worker)
{
	struct kvh_map_entry *entry = NULL;

	while ((entry = kvh_map_next(&worker->jobs, entry))) {
		struct worker_job *job = (struct worker_job *)entry;

		if (job->state == JOB_DONE)
			continue;
		kvh_cancel_request(&job->cancel);
		if (job->state == JOB_QUEUED)
			kvh_jobs_drop_queued(worker, job, KVH_CANCELLED);
	}
}

/* How long a cancelled store call may still take: what the store states, and some for us. */
static kvh_deadline stop_deadline(const struct kvh_worker *worker)
{
	uint64_t stop_ms = (uint64_t)worker->caps.stop_ms_max;

	if (worker->caps.stop_ms_max < 0)
		return 1;
	if (stop_ms > UINT64_MAX / NS_PER_MS - STOP_MARGIN_MS)
		return UINT64_MAX;
	return kvh_deadline_after(worker->env, (stop_ms + STOP_MARGIN_MS) * NS_PER_MS);
}

/* D-8: drains, then cancels, then waits for what can't be interrupted. False: some still run. */
static bool close_jobs(struct kvh_worker *worker, kvh_deadline deadline_ns, size_t *left)
{
	bool ended;

	kvh_worker_lock(worker);
	worker->closing = true;
	if (wait_left(worker, count_moving, NULL, deadline_ns)) {
		cancel_all(worker);
		wait_left(worker, count_moving, NULL, stop_deadline(worker));
	}
	ended = count_moving(worker, NULL) == 0;
	*left = worker->live_jobs;
	kvh_worker_unlock(worker);
	return ended;
}

/* The caller's, but late enough for what was just cancelled. */
static kvh_deadline memory_deadline(const struct kvh_worker *worker, kvh_deadline deadline_ns)
{
	kvh_deadline stop_ns = stop_deadline(worker);

	return deadline_ns && deadline_ns < stop_ns ? stop_ns : deadline_ns;
}

/*
 * Jobs in doubt can't be waited for, but once their regions are unregistered no byte of them can
 * move (D-23), so they don't keep a worker open.
 */
kvh_status kvh_worker_close(struct kvh_worker *worker, kvh_deadline deadline_ns, size_t *left_jobs)
{
	kvh_status status = kvh_worker_usable(worker);
	size_t left = 0;
	bool ended;

	if (status)
		return status;
	ended = close_jobs(worker, deadline_ns, &left);
	if (left_jobs)
		*left_jobs = left;
	if (!ended)
		return KVH_TIMEOUT;
	kvh_threads_stop(worker);
	kvh_caches_release(worker);
	if (kvh_caches_unregister(worker, memory_deadline(worker, deadline_ns)))
		return KVH_TIMEOUT;
	kvh_worker_lock(worker);
	kvh_jobs_confirm(worker);
	kvh_ledger_drop_all(worker);
	worker->registered = false;
	kvh_worker_unlock(worker);
	if (left_jobs)
		*left_jobs = 0;
	return KVH_OK;
}

static void free_completions(struct kvh_worker *worker)
{
	struct worker_job *job;

	kvh_worker_lock(worker);
	while ((job = kvh_queue_pop(&worker->done)))
		kvh_job_free(worker, job);
	kvh_worker_unlock(worker);
}

void kvh_worker_destroy(struct kvh_worker *worker)
{
	if (!worker)
		return;
	if (kvh_worker_usable(worker) == KVH_FORKED)
		return; /* the parent's threads, locks and memory are not ours to touch */
	if (kvh_worker_close(worker, 1, NULL)) {
		kvh_log_line(&worker->log, KVH_LOG_ERROR,
		             "worker_destroy: bytes may still move; the worker is kept for ever");
		return;
	}
	free_completions(worker);
	free_worker(worker);
}
