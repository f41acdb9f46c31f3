/* SPDX-License-Identifier: Apache-2.0 */
/* One load: which keys, in which order, in which gets, and what each block's fate is (R-30 to
 * */
#include "worker/internal.h"

#include "base/fault.h"
#include "base/logging.h"
#include "worker/staging.h"

struct load_run {
	struct kvh_worker *worker;
	struct worker_job *job;
	struct worker_batch *batch;
	bool unquiet;
	bool get_failed;
};

static kvh_status build_batch(struct load_run *run)
{
	struct kvh_worker *worker = run->worker;
	struct worker_job *job = run->job;
	struct worker_batch *batch = run->batch;
	uint32_t shards = kvh_worker_shards(worker);
	kvh_status status;

	batch->count = 0;
	status = kvh_batch_reserve(batch, job->load.chunk_count * shards);
	if (status)
		return status;
	for (size_t i = 0; i < job->load.chunk_count; i++) {
		const struct load_chunk *chunk = &job->load.chunks[i];
		const uint32_t *prefixes = job->epoch->own + worker->group_first_own[chunk->group];
		const uint8_t *hash = kvh_job_hash(worker, job, chunk->hash_index);
		struct kvh_layout *const *layouts = worker->groups[chunk->group].layouts;

		for (uint32_t shard = 0; shard < shards; shard++) {
			size_t k = kvh_batch_next(batch);

			batch->keys[k] = (struct kvh_key){.hash = hash,
			                                  .hash_bytes = worker->hash_bytes,
			                                  .prefix_id = prefixes[shard]};
			batch->values[k] = (struct kvh_value){
				.layout = layouts[shard], .block_id = (uint64_t)chunk->block_id};
			batch->items[k] = (struct batch_item){.chunk = i, .group = chunk->group};
		}
	}
	/* ranks start at different keys. */
	if (batch->count)
		kvh_batch_rotate(batch, worker->tp_rank % batch->count);
	return KVH_OK;
}

static uint64_t value_bytes(const void *user, size_t index)
{
	const struct worker_batch *batch = user;

	return kvh_layout_value_bytes(batch->values[index].layout);
}

/* a key that no staging buffer of the owner could ever hold. */
static bool has_oversized(const struct load_run *run)
{
	uint64_t raw_bytes = run->worker->staging_raw_bytes;

	for (size_t i = 0; raw_bytes && i < run->batch->count; i++) {
		if (kvh_staging_bytes(value_bytes(run->batch, i)) > raw_bytes)
			return true;
	}
	return false;
}

/* The number is a backend's, and indexes arrays here. */
static enum kvh_tier known_tier(enum kvh_tier tier)
{
	return tier == KVH_TIER_MEMORY || tier == KVH_TIER_DISK ? tier : KVH_TIER_UNKNOWN;
}

/* An error of the question leaves the tiers unknown and the load as it is. */
static void count_tiers(struct load_run *run, size_t first, size_t count)
{
	struct kvh_worker *worker = run->worker;
	const struct kvh_call call = {.struct_bytes = sizeof(call),
	                              .cancel = &run->job->cancel,
	                              .deadline_ns = run->job->load.deadline_ns};
	enum kvh_tier *tiers = kvh_calloc(count, sizeof(*tiers));
	uint64_t keys[3] = {0}, bytes[3] = {0};

	if (!tiers)
		return;
	if (kvh_store_tiers(worker->store, run->batch->keys + first, count, tiers, &call))
		for (size_t i = 0; i < count; i++)
			tiers[i] = KVH_TIER_UNKNOWN;
	for (size_t i = 0; i < count; i++) {
		enum kvh_tier tier = known_tier(tiers[i]);

		keys[tier]++;
		bytes[tier] += value_bytes(run->batch, first + i);
	}
	kvh_free(tiers);
	kvh_worker_lock(worker);
	worker->stats.load_memory_keys += keys[KVH_TIER_MEMORY];
	worker->stats.load_disk_keys += keys[KVH_TIER_DISK];
	worker->stats.load_unknown_keys += keys[KVH_TIER_UNKNOWN];
	worker->stats.load_memory_bytes += bytes[KVH_TIER_MEMORY];
	worker->stats.load_disk_bytes += bytes[KVH_TIER_DISK];
	worker->stats.load_unknown_bytes += bytes[KVH_TIER_UNKNOWN];
	kvh_worker_unlock(worker);
	kvh_log_line(&worker->log, KVH_LOG_INFO,
	             "load job %llu: %llu keys in memory, %llu on disk, %llu unknown",
	             (unsigned long long)run->job->job_id,
	             (unsigned long long)keys[KVH_TIER_MEMORY],
	             (unsigned long long)keys[KVH_TIER_DISK],
	             (unsigned long long)keys[KVH_TIER_UNKNOWN]);
}

/* What the keys of one get have come to. */
struct get_outcome {
	size_t failed_count, gone_count, lease_count;
	uint64_t good_bytes;
	kvh_status first; /* failure */
};

/* D-4: only the exact length is success. */
static kvh_status key_status(const struct kvh_result *result, uint64_t wanted_bytes)
{
	if (result->value >= 0 && (uint64_t)result->value == wanted_bytes)
		return KVH_OK;
	if (result->value >= 0)
		return KVH_TRANSFER_FAIL;
	return result->value >= INT32_MIN ? (kvh_status)result->value : KVH_INTERNAL;
}

static void settle_key(struct load_run *run, size_t i, kvh_status call_status,
                       struct get_outcome *out)
{
	const struct kvh_result *result = &run->batch->results[i];
	struct load_chunk *chunk = &run->job->load.chunks[run->batch->items[i].chunk];
	uint64_t bytes = value_bytes(run->batch, i);
	kvh_status status = call_status ? call_status : key_status(result, bytes);

	run->unquiet |= !(result->flags & KVH_RESULT_QUIET);
	if (!status) {
		out->good_bytes += bytes;
		if (++chunk->good_shards == kvh_worker_shards(run->worker))
			chunk->failed = false;
		return;
	}
	chunk->status = status;
	out->failed_count++;
	out->gone_count += status == KVH_OBJECT_NOT_FOUND;
	out->lease_count += status == KVH_LEASE_EXPIRED;
	if (!out->first)
		out->first = status;
}

static void account(struct load_run *run, size_t count, const struct get_outcome *out)
{
	struct kvh_worker *worker = run->worker;

	kvh_worker_lock(worker);
	worker->stats.load_keys += count;
	worker->stats.load_keys_failed += out->failed_count;
	worker->stats.load_keys_gone += out->gone_count;
	worker->stats.load_keys_lease_expired += out->lease_count;
	worker->stats.load_bytes += out->good_bytes;
	kvh_worker_unlock(worker);
	if (out->first)
		kvh_log_line(&worker->log, KVH_LOG_WARN,
		             "load job %llu: %zu of %zu keys failed, first because of %d (%s)",
		             (unsigned long long)run->job->job_id, out->failed_count, count,
		             out->first, kvh_strstatus(out->first));
}

/* One get of count keys. */
static kvh_status get_some(struct load_run *run, size_t first, size_t count)
{
	struct kvh_worker *worker = run->worker;
	const struct kvh_call call = {.struct_bytes = sizeof(call),
	                              .cancel = &run->job->cancel,
	                              .deadline_ns = run->job->load.deadline_ns};
	struct kvh_batch view = kvh_batch_view(run->batch, first, count);
	struct kvh_record record = {
		.name = KVH_RECORD_LOAD_GET, .key_count = count, .job_id = run->job->job_id};
	struct get_outcome out = {0};
	uint64_t begin_ns;
	kvh_status status;

	if (worker->tier_log)
		count_tiers(run, first, count);
	begin_ns = kvh_now_ns(worker->env);
	status = kvh_store_get(worker->store, &view, &call);
	record.duration_ns = kvh_now_ns(worker->env) - begin_ns;
	for (size_t i = first; i < first + count; i++) {
		settle_key(run, i, status, &out);
		record.bytes += value_bytes(run->batch, i);
	}
	record.failed_count = out.failed_count;
	if (status)
		record.status = KVH_RECORD_ERROR;
	else if (out.failed_count)
		record.status = KVH_RECORD_PARTIAL_FAILURE;
	kvh_worker_record(worker, &record);
	account(run, count, &out);
	return out.first;
}

/* Sub-batches in order; after one that fails the rest is not fetched, but all of it is reported
 * (D-3). */
static kvh_status get_all(struct load_run *run)
{
	struct kvh_worker *worker = run->worker;
	struct worker_batch *batch = run->batch;
	kvh_status status = KVH_OK;
	size_t first = 0;

	while (first < batch->count && !status) {
		size_t count = batch->count - first;

		if (worker->staging_raw_bytes)
			count = kvh_staging_take(value_bytes, batch, first, batch->count,
			                         worker->staging_usable_bytes);
		if (kvh_cancel_requested(&run->job->cancel))
			return KVH_CANCELLED;
		if (kvh_deadline_passed(worker->env, run->job->load.deadline_ns))
			return KVH_TIMEOUT;
		status = get_some(run, first, count);
		first += count;
	}
	run->get_failed = status != KVH_OK;
	return status;
}

static kvh_status run_load(struct load_run *run)
{
	struct kvh_worker *worker = run->worker;
	struct worker_job *job = run->job;
	kvh_status status;

	if (kvh_cancel_requested(&job->cancel))
		return KVH_CANCELLED;
	status = (kvh_status)KVH_FAULT(WORKER_LOAD_BEGIN, job->request_id, job->request_id_bytes);
	if (status)
		return status;
	if (!job->load.chunk_count)
		return KVH_OK; /* D-1 */
	status = build_batch(run);
	if (status)
		return status;
	if (has_oversized(run)) {
		kvh_worker_lock(worker);
		worker->stats.load_jobs_oversized++;
		kvh_worker_unlock(worker);
		kvh_log_line(&worker->log, KVH_LOG_WARN,
		             "load job %llu: an object is larger than the staging budget of %llu "
		             "bytes; nothing is loaded",
		             (unsigned long long)job->job_id,
		             (unsigned long long)worker->staging_raw_bytes);
		return KVH_TOO_LARGE;
	}
	status = kvh_job_wait_event(worker, job, job->load.deadline_ns);
	if (status)
		return status;
	return get_all(run);
}

/* Blocks that the load ended before asking for say why; behind a failed get they have no answer. */
static void explain_unasked(const struct load_run *run, kvh_status status)
{
	struct load_part *load = &run->job->load;

	for (size_t i = 0; status && !run->get_failed && i < load->chunk_count; i++) {
		if (load->chunks[i].status == KVH_NO_ANSWER)
			load->chunks[i].status = status;
	}
}

void kvh_load_run(struct worker_thread *thread, struct worker_job *job)
{
	struct kvh_worker *worker = thread->worker;
	struct load_run run = {.worker = worker, .job = job, .batch = &thread->batch};
	kvh_status status = run_load(&run);

	explain_unasked(&run, status);
	if (status && status != KVH_CANCELLED && !run.get_failed)
		kvh_log_line(&worker->log, KVH_LOG_WARN,
		             "load job %llu: ended before its last get with %d (%s)",
		             (unsigned long long)job->job_id, status, kvh_strstatus(status));
	if (run.unquiet)
		kvh_jobs_log_doubt(worker, job);
	if (worker->evicted)
		kvh_evicted_collect(worker);
	kvh_worker_lock(worker);
	worker->stats.running_jobs--;
	if (run.unquiet)
		kvh_jobs_doubt(worker, job, status);
	else
		kvh_jobs_finish(worker, job, status);
	kvh_worker_unlock(worker);
}
