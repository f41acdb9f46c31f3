/* SPDX-License-Identifier: Apache-2.0 */
/* The worker's state as tests and checkers see it. Empty in the shipped library. */
#include "worker/inspect.h"

#ifdef KVH_FAULTS

#include "worker/internal.h"

enum { LIVE_MAX = 4096 };

static size_t list_live(const struct worker_job *job, uint64_t *ids) KVH_REQUIRES(kvh_role_worker)
{
	size_t count = 0;

	for (; job && count < LIVE_MAX; job = job->peer_next) {
		if (ids)
			ids[count] = job->job_id;
		count++;
	}
	return count;
}

static void show(const struct worker_request *request, kvh_inspect_request_fn fn, void *user)
	KVH_REQUIRES(kvh_role_worker)
{
	uint64_t live[LIVE_MAX];
	struct kvh_inspect_request out = {.id = request->id,
	                                  .id_bytes = request->entry.key_bytes,
	                                  .saved_tokens = request->saved_tokens,
	                                  .skipped = request->skipped,
	                                  .finishing = request->finishing,
	                                  .live_saves = live,
	                                  .live_load_count = list_live(request->loads, NULL),
	                                  .unstorable_count = request->unstorable_count};

	out.live_save_count = list_live(request->saves, live);
	if (request->kept) {
		out.kept_start = request->kept->start;
		out.kept_ids = request->kept->ids;
		out.kept_count = request->kept->count;
	}
	fn(user, &out);
}

void kvh_inspect_requests(struct kvh_worker *worker, kvh_inspect_request_fn fn, void *user)
{
	struct kvh_map_entry *entry = NULL;

	kvh_worker_lock(worker);
	while ((entry = kvh_map_next(&worker->requests, entry)))
		show((const struct worker_request *)entry, fn, user);
	kvh_worker_unlock(worker);
}

bool kvh_inspect_pressure(struct kvh_worker *worker)
{
	bool active;

	kvh_worker_lock(worker);
	active = worker->pressure.active;
	kvh_worker_unlock(worker);
	return active;
}

bool kvh_inspect_raised(struct kvh_worker *worker, uint64_t job_id)
{
	const struct worker_job *job;
	bool raised;

	kvh_worker_lock(worker);
	job = (const struct worker_job *)kvh_map_get(&worker->jobs, &job_id, sizeof(job_id));
	raised = job && !job->is_load && job->state == JOB_DONE && job->save.raised;
	kvh_worker_unlock(worker);
	return raised;
}

#endif
