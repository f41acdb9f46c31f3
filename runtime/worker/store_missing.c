/* SPDX-License-Identifier: Apache-2.0 */
/* Exists, event, put: how a batch of a save gets into the store. */
#include "base/logging.h"
#include "store/event.h"
#include "worker/save.h"

void kvh_save_add(struct save_run *run, uint32_t group, uint64_t chunk, uint64_t hash_index,
                  int32_t block_id)
{
	struct kvh_worker *worker = run->worker;
	const struct worker_job *job = run->job;
	const uint32_t *prefixes = job->epoch->own + worker->group_first_own[group];
	const uint8_t *hash = kvh_job_hash(worker, job, hash_index);
	struct kvh_layout *const *layouts = worker->groups[group].layouts;
	struct worker_batch *batch = run->batch;

	for (uint32_t shard = 0; shard < kvh_worker_shards(worker); shard++) {
		size_t i = kvh_batch_next(batch);

		batch->keys[i] = (struct kvh_key){.hash = hash,
		                                  .hash_bytes = worker->hash_bytes,
		                                  .prefix_id = prefixes[shard]};
		batch->values[i] = (struct kvh_value){.layout = layouts[shard],
		                                      .block_id = (uint64_t)block_id};
		batch->items[i] = (struct batch_item){.chunk = chunk, .group = group};
	}
}

kvh_status kvh_job_wait_event(struct kvh_worker *worker, struct worker_job *job,
                              kvh_deadline deadline_ns)
{
	const struct kvh_call call = {
		.struct_bytes = sizeof(call), .cancel = &job->cancel, .deadline_ns = deadline_ns};

	return kvh_event_wait(worker->env, &worker->device, job->event, &call);
}

static kvh_status ask(struct save_run *run, struct worker_batch *batch)
{
	const struct kvh_call call = {.struct_bytes = sizeof(call), .cancel = &run->job->cancel};
	struct kvh_batch view = kvh_batch_view(batch, 0, batch->count);

	return kvh_store_exists(run->worker->store, &view, KVH_EXISTS_DEDUP, &call);
}

/* */
static kvh_status ask_and_record(struct save_run *run)
{
	struct kvh_worker *worker = run->worker;
	struct worker_batch *batch = run->batch;
	struct kvh_record record = {.name = KVH_RECORD_SAVE_EXISTS,
	                            .key_count = batch->count,
	                            .job_id = run->job->job_id};
	uint64_t begin_ns = kvh_now_ns(worker->env);
	kvh_status status = ask(run, batch);

	record.duration_ns = kvh_now_ns(worker->env) - begin_ns;
	if (status) {
		record.status = KVH_RECORD_ERROR;
		record.failed_count = batch->count;
	}
	kvh_worker_record(worker, &record);
	return status;
}

/*
 * D-11: "already exists" is as good as stored only when the object can be seen: the other writer
 * may have died before its commit.
 */
static void settle_existing(struct save_run *run)
{
	struct worker_batch *batch = run->batch;
	struct worker_batch *recheck = &run->thread->recheck;
	size_t next;

	recheck->count = 0;
	for (size_t i = 0; i < batch->count; i++) {
		if (batch->results[i].value != KVH_OBJECT_ALREADY_EXISTS)
			continue;
		if (kvh_batch_reserve(recheck, recheck->count + 1))
			return; /* no memory to ask: they stay failures */
		next = kvh_batch_next(recheck);
		recheck->keys[next] = batch->keys[i];
		recheck->values[next] = batch->values[i];
	}
	if (!recheck->count || ask(run, recheck))
		return;
	next = 0;
	for (size_t i = 0; i < batch->count; i++) {
		if (batch->results[i].value != KVH_OBJECT_ALREADY_EXISTS)
			continue;
		if (recheck->results[next++].value == 1) {
			batch->results[i].value = 0;
			batch->items[i].by_other = true;
		}
	}
}

static uint64_t batch_bytes(const struct worker_batch *batch)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < batch->count; i++)
		bytes += kvh_layout_value_bytes(batch->values[i].layout);
	return bytes;
}

struct put_outcome {
	kvh_status status; /* of the call, else the first failed key's */
	size_t failed_count;
	size_t permanent_count; /* of these */
	size_t other_count;
	bool pressure;
};

static struct put_outcome read_results(struct save_run *run, kvh_status call_status)
{
	struct put_outcome out = {.status = call_status,
	                          .pressure = call_status == KVH_NO_AVAILABLE_HANDLE};

	for (size_t i = 0; i < run->batch->count; i++) {
		const struct kvh_result *result = &run->batch->results[i];

		run->unquiet |= !(result->flags & KVH_RESULT_QUIET);
		out.other_count += run->batch->items[i].by_other;
		out.pressure |= result->value == KVH_NO_AVAILABLE_HANDLE;
		if (result->value >= 0)
			continue;
		out.failed_count++;
		out.permanent_count += kvh_result_is_permanent(result->value);
		if (!out.status)
			out.status = result->value >= INT32_MIN ? (kvh_status)result->value
			                                        : KVH_INTERNAL;
	}
	return out;
}

/* Pressure and counts after a put. */
static void account(struct save_run *run, const struct put_outcome *out, uint64_t bytes)
{
	struct kvh_worker *worker = run->worker;
	bool cleared = false;

	kvh_worker_lock(worker);
	worker->stats.save_keys_put += run->batch->count - out->failed_count - out->other_count;
	worker->stats.save_keys_failed += out->failed_count;
	worker->stats.save_keys_duplicate += out->other_count;
	if (!out->failed_count)
		worker->stats.save_bytes += bytes;
	if (out->pressure)
		kvh_pressure_raise(worker, run->job->request, run->probe);
	else if (!out->status)
		cleared = kvh_pressure_clear(worker);
	kvh_worker_unlock(worker);
	if (cleared)
		kvh_log_line(&worker->log, KVH_LOG_INFO,
		             "save job %llu: a whole batch was stored, pressure is over",
		             (unsigned long long)run->job->job_id);
	run->told |= out->status != KVH_OK;
	if (out->status)
		kvh_log_line(&worker->log, KVH_LOG_WARN,
		             "save job %llu: %zu of %zu keys not stored, first because of %d (%s)",
		             (unsigned long long)run->job->job_id, out->failed_count,
		             run->batch->count, out->status, kvh_strstatus(out->status));
}

bool kvh_save_is_unstorable(struct save_run *run, uint32_t group, uint64_t chunk)
{
	struct worker_request *request;
	bool unstorable;

	kvh_worker_lock(run->worker);
	request = run->job->request;
	unstorable = request && kvh_ledger_is_unstorable(request, group, chunk);
	kvh_worker_unlock(run->worker);
	return unstorable;
}

/* D-22: what no retry can store is not tried again in this life. */
static void mark_unstorable(struct save_run *run)
{
	struct kvh_worker *worker = run->worker;
	size_t marked = 0;

	kvh_worker_lock(worker);
	for (size_t i = 0; i < run->put_count && run->job->request; i++) {
		const struct batch_item *item = &run->batch->items[i];

		if (kvh_result_is_permanent(run->batch->results[i].value))
			marked += kvh_ledger_mark_unstorable(run->job->request, item->group,
			                                     item->chunk);
	}
	worker->stats.save_chunks_unstorable += marked;
	kvh_worker_unlock(worker);
	if (marked)
		kvh_log_line(&worker->log, KVH_LOG_WARN,
		             "save job %llu: %zu chunks can never be stored here; not tried again",
		             (unsigned long long)run->job->job_id, marked);
}

static kvh_status put_missing(struct save_run *run)
{
	struct kvh_worker *worker = run->worker;
	struct worker_batch *batch = run->batch;
	const struct kvh_call call = {.struct_bytes = sizeof(call), .cancel = &run->job->cancel};
	const struct kvh_put_options options = {
		.struct_bytes = sizeof(options),
		.flags = worker->lifecycle_groups ? KVH_PUT_LIFECYCLE_GROUP : 0};
	struct kvh_record record = {.name = KVH_RECORD_SAVE_PUT,
	                            .key_count = batch->count,
	                            .bytes = batch_bytes(batch),
	                            .job_id = run->job->job_id};
	uint64_t begin_ns = kvh_now_ns(worker->env);
	struct kvh_batch view = kvh_batch_view(batch, 0, batch->count);
	struct put_outcome out;
	kvh_status status;

	status = kvh_store_put(worker->store, &view, &options, &call);
	record.duration_ns = kvh_now_ns(worker->env) - begin_ns;
	if (!status)
		settle_existing(run);
	out = read_results(run, status);
	record.failed_count = status ? batch->count : out.failed_count;
	if (status)
		record.status = KVH_RECORD_ERROR;
	else if (out.failed_count)
		record.status = KVH_RECORD_PARTIAL_FAILURE;
	kvh_worker_record(worker, &record);
	run->put_count = status ? 0 : batch->count;
	run->only_permanent =
		!status && out.failed_count && out.permanent_count == out.failed_count;
	account(run, &out, record.bytes);
	if (out.permanent_count)
		mark_unstorable(run);
	return out.status;
}

kvh_status kvh_save_store(struct save_run *run)
{
	struct kvh_worker *worker = run->worker;
	struct worker_batch *batch = run->batch;
	size_t asked;
	kvh_status status;

	run->put_count = 0;
	run->exists_failed = false;
	if (!batch->count)
		return KVH_OK;
	status = kvh_batch_drop_duplicates(batch);
	if (status)
		return status;
	status = ask_and_record(run);
	if (status) {
		run->exists_failed = true;
		return status;
	}
	asked = batch->count;
	kvh_batch_keep_missing(batch);
	kvh_worker_lock(worker);
	worker->stats.save_keys_present += asked - batch->count;
	kvh_worker_unlock(worker);
	if (!batch->count)
		return KVH_OK;
	status = kvh_job_wait_event(worker, run->job, 0);
	if (status) {
		run->job->save.raised = true;
		run->told = true;
		kvh_log_line(&worker->log, KVH_LOG_WARN,
		             "save job %llu: nothing is put, its event ended with %d (%s)",
		             (unsigned long long)run->job->job_id, status, kvh_strstatus(status));
		return status;
	}
	if (kvh_cancel_requested(&run->job->cancel))
		return KVH_CANCELLED;
	return put_missing(run);
}
