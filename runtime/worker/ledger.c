/* SPDX-License-Identifier: Apache-2.0 */
/* The ledger: which jobs of which request are live, and what each life of a request knows (R-11,
 * */
#include "worker/internal.h"

#include <string.h>

#include "base/fault.h"

struct worker_request *kvh_ledger_find(struct kvh_worker *worker, const void *id, size_t bytes)
{
	return (struct worker_request *)kvh_map_get(&worker->requests, id, bytes);
}

struct worker_request *kvh_ledger_enter(struct kvh_worker *worker, const void *id, size_t bytes)
{
	struct worker_request *request = kvh_ledger_find(worker, id, bytes);

	if (request)
		return request;
	request = kvh_calloc(1, sizeof(*request) + bytes);
	if (!request)
		return NULL;
	memcpy(request->id, id, bytes);
	request->entry.key = request->id;
	request->entry.key_bytes = bytes;
	kvh_map_put(&worker->requests, &request->entry);
	return request;
}

void kvh_ledger_link(struct worker_request *request, struct worker_job *job)
{
	struct worker_job **head = job->is_load ? &request->loads : &request->saves;

	job->request = request;
	job->peer_next = *head;
	job->peer_link = head;
	if (*head)
		(*head)->peer_link = &job->peer_next;
	*head = job;
}

static void detach(struct worker_job *job) KVH_REQUIRES(kvh_role_worker)
{
	*job->peer_link = job->peer_next;
	if (job->peer_next)
		job->peer_next->peer_link = job->peer_link;
	job->request = NULL;
}

static void clear_skip(struct kvh_worker *worker, struct worker_request *request)
	KVH_REQUIRES(kvh_role_worker)
{
	if (request->skipped)
		worker->pressure.skipped_count--;
	request->skipped = false;
}

static void free_entry(struct kvh_worker *worker, struct worker_request *request)
	KVH_REQUIRES(kvh_role_worker)
{
	clear_skip(worker, request);
	if (request->finishing)
		worker->finishing_count--;
	kvh_map_remove(&worker->requests, &request->entry);
	kvh_free(request->kept);
	kvh_free(request->unstorable);
	kvh_free(request);
}

void kvh_ledger_unlink(struct kvh_worker *worker, struct worker_job *job)
{
	struct worker_request *request = job->request;

	if (!request)
		return;
	detach(job);
	/* A request that only ever loaded has nothing to remember. */
	if (!request->has_saves && !request->loads && !request->finishing)
		free_entry(worker, request);
}

/* Detaches first: ending the last load must not free the entry under us. */
void kvh_ledger_cancel_loads(struct kvh_worker *worker, struct worker_request *request)
{
	while (request->loads) {
		struct worker_job *job = request->loads;

		detach(job);
		kvh_cancel_request(&job->cancel);
		if (job->state == JOB_QUEUED)
			kvh_jobs_drop_queued(worker, job, KVH_CANCELLED);
	}
}

/* Ends a life: saves become stale. What loads or finish still need of the entry stays. */
static void end_life(struct kvh_worker *worker, struct worker_request *request)
	KVH_REQUIRES(kvh_role_worker)
{
	while (request->saves)
		detach(request->saves);
	if (!request->loads && !request->finishing) {
		free_entry(worker, request);
		return;
	}
	clear_skip(worker, request);
	kvh_free(request->kept);
	kvh_free(request->unstorable);
	request->kept = NULL;
	request->unstorable = NULL;
	request->unstorable_count = 0;
	request->saved_tokens = 0;
	request->has_saves = false;
}

static void stop_finishing(struct kvh_worker *worker, struct worker_request *request)
	KVH_REQUIRES(kvh_role_worker)
{
	if (request->finishing)
		worker->finishing_count--;
	request->finishing = false;
}

void kvh_ledger_drop(struct kvh_worker *worker, struct worker_request *request)
{
	kvh_ledger_cancel_loads(worker, request);
	stop_finishing(worker, request);
	end_life(worker, request);
}

void kvh_ledger_drop_all(struct kvh_worker *worker)
{
	struct kvh_map_entry *entry;

	while ((entry = kvh_map_next(&worker->requests, NULL)))
		kvh_ledger_drop(worker, (struct worker_request *)entry);
}

bool kvh_ledger_is_unstorable(const struct worker_request *request, uint32_t group, uint64_t chunk)
{
	for (size_t i = 0; i < request->unstorable_count; i++) {
		if (request->unstorable[i].group == group && request->unstorable[i].chunk == chunk)
			return true;
	}
	return false;
}

bool kvh_ledger_mark_unstorable(struct worker_request *request, uint32_t group, uint64_t chunk)
{
	size_t count = request->unstorable_count;
	struct unstorable_chunk *larger;

	if (kvh_ledger_is_unstorable(request, group, chunk))
		return false;
	/* Grows at powers of two. Without memory the chunk is tried again: slower, not wrong. */
	if ((count & (count - 1)) == 0) {
		larger = kvh_alloc((count ? count * 2 : 1) * sizeof(*larger));
		if (!larger)
			return false;
		if (count)
			memcpy(larger, request->unstorable, count * sizeof(*larger));
		kvh_free(request->unstorable);
		request->unstorable = larger;
	}
	request->unstorable[count] = (struct unstorable_chunk){.group = group, .chunk = chunk};
	request->unstorable_count++;
	return true;
}

kvh_status kvh_worker_preempt(struct kvh_worker *worker, struct kvh_request_id id)
{
	kvh_status status = kvh_worker_usable(worker);
	struct worker_request *request;

	if (status)
		return status;
	if (!id.data || !id.bytes || id.bytes > KVH_REQUEST_BYTES_MAX)
		return KVH_INVALID_PARAMS;
	kvh_worker_lock(worker);
	request = kvh_ledger_find(worker, id.data, id.bytes);
	/* One that is finishing stays so until finish sees it drained. */
	if (request) {
		kvh_ledger_cancel_loads(worker, request);
		end_life(worker, request);
	}
	kvh_worker_unlock(worker);
	return KVH_OK;
}

static void finish_one(struct kvh_worker *worker, struct worker_request *request)
	KVH_REQUIRES(kvh_role_worker)
{
	if (request->saves) {
		worker->finishing_count += !request->finishing;
		request->finishing = true;
		kvh_ledger_cancel_loads(worker, request);
	} else {
		kvh_ledger_drop(worker, request);
	}
}

/*
 * The requests that ended earlier and have drained since. Loads that came after the end belong to a
 * later life.
 */
static void sweep_finishing(struct kvh_worker *worker) KVH_REQUIRES(kvh_role_worker)
{
	struct kvh_map_entry *entry = NULL;

	if (worker->finishing_count)
		entry = kvh_map_next(&worker->requests, NULL);
	while (entry) {
		struct worker_request *request = (struct worker_request *)entry;

		entry = kvh_map_next(&worker->requests, entry);
		if (request->finishing && !request->saves) {
			stop_finishing(worker, request);
			end_life(worker, request);
		}
	}
}

kvh_status kvh_worker_finish(struct kvh_worker *worker, const struct kvh_request_id *requests,
                             size_t count)
{
	kvh_status status = kvh_worker_usable(worker);

	if (status)
		return status;
	if (count && !requests)
		return KVH_INVALID_PARAMS;
	for (size_t i = 0; i < count; i++) {
		if (!requests[i].data || !requests[i].bytes ||
		    requests[i].bytes > KVH_REQUEST_BYTES_MAX)
			return KVH_INVALID_PARAMS;
	}
	kvh_worker_lock(worker);
	sweep_finishing(worker);
	for (size_t i = 0; i < count; i++) {
		struct worker_request *request =
			kvh_ledger_find(worker, requests[i].data, requests[i].bytes);

		if (request)
			finish_one(worker, request);
	}
	kvh_worker_unlock(worker);
	return KVH_OK;
}
