/* SPDX-License-Identifier: Apache-2.0 */
/* Handing a job in: checked as the store will check it, copied in one allocation, queued. */
#include "queue_internal.h"

#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/fault.h"
#include "base/size.h"
#include "store_internal.h"
#include "struct_bytes.h"

/* A job on its way in: checked, not yet copied. */
struct hand_in {
	struct kvh_queue *queue;
	struct kvh_queue_job job;   /* ours; what it points at is the caller's */
	struct kvh_put_options put; /* likewise */
	uint64_t value_bytes;
	size_t hash_bytes;
	size_t segment_count;
	size_t node_bytes; /* of put.preferred_node, the final 0 included */
	struct kvh_error *error;
};

static const char *name_of(enum kvh_queue_op op)
{
	static const char *const names[] = {
		[KVH_QUEUE_GET] = "get",       [KVH_QUEUE_PUT] = "put",
		[KVH_QUEUE_EXISTS] = "exists", [KVH_QUEUE_EXISTS_PREFIX] = "exists_prefix",
		[KVH_QUEUE_REMOVE] = "remove",
	};

	return names[op];
}

static bool has_values(enum kvh_queue_op op)
{
	return op == KVH_QUEUE_GET || op == KVH_QUEUE_PUT;
}

/* ---- checks --------------------------------------------------------------------------- */

static kvh_status check_shape(struct hand_in *in)
{
	const struct kvh_queue_job *job = &in->job;
	const char *name;

	if (job->op < KVH_QUEUE_GET || job->op > KVH_QUEUE_REMOVE)
		return kvh_fail(in->error, KVH_INVALID_PARAMS,
		                "queue job: op %d is none of KVH_QUEUE_GET to KVH_QUEUE_REMOVE",
		                (int)job->op);
	name = name_of(job->op);
	if (job->batch.count == 0 || job->batch.count > KVH_BATCH_KEYS_MAX)
		return kvh_fail(in->error, KVH_INVALID_PARAMS, "queue %s: %zu keys; 1 to %d", name,
		                job->batch.count, KVH_BATCH_KEYS_MAX);
	if (!job->batch.keys)
		return kvh_fail(in->error, KVH_INVALID_PARAMS, "queue %s: keys is NULL", name);
	if (has_values(job->op) && !job->batch.values)
		return kvh_fail(in->error, KVH_INVALID_PARAMS, "queue %s: values is NULL", name);
	if (!has_values(job->op))
		in->job.batch.values = NULL;
	if (job->put && job->op != KVH_QUEUE_PUT)
		return kvh_fail(in->error, KVH_INVALID_PARAMS, "queue %s: it has options of a put",
		                name);
	if (job->exists_flags && (has_values(job->op) || job->op == KVH_QUEUE_REMOVE ||
	                          (job->exists_flags & ~(uint32_t)KVH_EXISTS_DEDUP)))
		return kvh_fail(in->error, KVH_INVALID_PARAMS, "queue %s: exists_flags 0x%x", name,
		                job->exists_flags);
	return KVH_OK;
}

/* The words for a check that failed; one key at a time finds the first that is wrong. */
static kvh_status refuse_keys(struct hand_in *in, kvh_status status)
{
	const struct kvh_batch *batch = &in->job.batch;
	const char *name = name_of(in->job.op);
	size_t i = 0;

	while (i + 1 < batch->count && !kvh_check_keys(in->queue->store, name, &batch->keys[i], 1))
		i++;
	return kvh_fail(in->error, status,
	                "queue %s: key %zu: prefix %u was not interned by this store, or a hash of "
	                "%u bytes is not what the prefix wants, or it is NULL",
	                name, i, batch->keys[i].prefix_id, batch->keys[i].hash_bytes);
}

static kvh_status refuse_values(struct hand_in *in, kvh_status status)
{
	const struct kvh_batch *batch = &in->job.batch;
	const char *name = name_of(in->job.op);
	uint64_t bytes;
	size_t i = 0;

	while (i + 1 < batch->count &&
	       !kvh_check_values(in->queue->store, name, &batch->values[i], 1, &bytes))
		i++;
	return kvh_fail(in->error, status,
	                "queue %s: value %zu: neither a block of a layout of this store nor a list "
	                "of segments inside its registered memory",
	                name, i);
}

/* What the store checks at the call it checks here first, so that the caller learns of it now. */
static kvh_status check_by_store(struct hand_in *in)
{
	struct kvh_store *store = in->queue->store;
	const struct kvh_batch *batch = &in->job.batch;
	const char *name = name_of(in->job.op);
	kvh_status status = kvh_check_keys(store, name, batch->keys, batch->count);

	if (status)
		return refuse_keys(in, status);
	if (batch->values) {
		status = kvh_check_values(store, name, batch->values, batch->count,
		                          &in->value_bytes);
		if (status)
			return refuse_values(in, status);
	}
	if (in->job.op != KVH_QUEUE_PUT)
		return KVH_OK;
	status = kvh_check_put_options(store, in->job.put, batch, &in->put);
	if (status)
		return kvh_fail(in->error, status,
		                "queue put: options that are out of range or that this store can't "
		                "do (%s); its log says which",
		                kvh_strstatus(status));
	return KVH_OK;
}

static kvh_status check_job(struct hand_in *in, const struct kvh_queue_job *given)
{
	unsigned phase;
	kvh_status status;

	if (!given || !kvh_struct_in(&in->job, sizeof(in->job), given))
		return kvh_fail(in->error, KVH_INVALID_PARAMS,
		                "queue job: it is NULL, or its struct_bytes is not that of a known "
		                "version; set it to sizeof(struct kvh_queue_job)");
	status = check_shape(in);
	if (status)
		return status;
	status = kvh_store_enter(in->queue->store, &phase);
	if (status)
		return kvh_fail(in->error, status, "queue %s: the store: %s", name_of(in->job.op),
		                kvh_strstatus(status));
	status = check_by_store(in);
	kvh_store_leave(in->queue->store, phase);
	return status;
}

/* ---- copying -------------------------------------------------------------------------- */

static bool count_lists(struct hand_in *in)
{
	const struct kvh_batch *batch = &in->job.batch;

	for (size_t i = 0; i < batch->count; i++) {
		if (!kvh_size_add(in->hash_bytes, batch->keys[i].hash_bytes, &in->hash_bytes))
			return false;
		if (batch->values && !batch->values[i].layout &&
		    !kvh_size_add(in->segment_count, batch->values[i].segment_count,
		                  &in->segment_count))
			return false;
	}
	if (in->put.preferred_node)
		in->node_bytes = strlen(in->put.preferred_node) + 1;
	return true;
}

static bool count_bytes(struct hand_in *in, size_t *total)
{
	const struct kvh_batch *batch = &in->job.batch;

	return count_lists(in) && kvh_arena_count(total, 1, sizeof(struct queue_job)) &&
	       kvh_arena_count(total, batch->count, sizeof(*batch->keys)) &&
	       kvh_arena_count(total, in->hash_bytes, 1) &&
	       kvh_arena_count(total, batch->values ? batch->count : 0, sizeof(*batch->values)) &&
	       kvh_arena_count(total, in->segment_count, sizeof(struct kvh_segment)) &&
	       kvh_arena_count(total, batch->results ? 0 : batch->count, sizeof(*batch->results)) &&
	       kvh_arena_count(total, in->node_bytes, 1);
}

static const struct kvh_key *copy_keys(struct kvh_arena *arena, const struct hand_in *in)
{
	const struct kvh_batch *batch = &in->job.batch;
	struct kvh_key *keys = kvh_arena_copy(arena, batch->keys, batch->count, sizeof(*keys));
	uint8_t *hash = kvh_arena_take(arena, in->hash_bytes, 1);

	for (size_t i = 0; i < batch->count; i++) {
		memcpy(hash, keys[i].hash, keys[i].hash_bytes);
		keys[i].hash = hash;
		hash += keys[i].hash_bytes;
	}
	return keys;
}

static const struct kvh_value *copy_values(struct kvh_arena *arena, const struct hand_in *in)
{
	const struct kvh_batch *batch = &in->job.batch;
	struct kvh_value *values =
		kvh_arena_copy(arena, batch->values, batch->count, sizeof(*values));
	struct kvh_segment *segments = kvh_arena_take(arena, in->segment_count, sizeof(*segments));

	for (size_t i = 0; segments && i < batch->count; i++) {
		if (values[i].layout)
			continue;
		memcpy(segments, values[i].segments, values[i].segment_count * sizeof(*segments));
		values[i].segments = segments;
		segments += values[i].segment_count;
	}
	return values;
}

/* One allocation. NULL: no memory. */
static struct queue_job *copy_job(struct hand_in *in)
{
	const struct kvh_batch *batch = &in->job.batch;
	struct kvh_arena arena = {0};
	struct queue_job *job;

	if (!count_bytes(in, &arena.bytes))
		return NULL;
	arena.base = kvh_alloc(arena.bytes);
	if (!arena.base)
		return NULL;
	job = kvh_arena_take(&arena, 1, sizeof(*job));
	*job = (struct queue_job){
		.user = in->job.user,
		.op = in->job.op,
		.exists_flags = in->job.exists_flags,
		.batch = *batch,
		.put = in->put,
		.deadline_ns = in->job.deadline_ns,
		.event = in->job.event,
		.value_bytes = in->value_bytes,
		.submitted_ns = kvh_now_ns(in->queue->env),
	};
	job->batch.keys = copy_keys(&arena, in);
	job->batch.values = copy_values(&arena, in);
	if (!batch->results)
		job->batch.results = kvh_arena_take(&arena, batch->count, sizeof(*batch->results));
	job->put.preferred_node = kvh_arena_copy(&arena, in->put.preferred_node, in->node_bytes, 1);
	return job;
}

/* A job that never runs leaves these behind. */
static void preset(struct queue_job *job)
{
	kvh_results_preset(job->batch.results, job->batch.count);
	for (size_t i = 0; job->put.tokens && i < job->batch.count; i++)
		job->put.tokens[i] = (struct kvh_token){{0}};
}

/* ---- handing in ----------------------------------------------------------------------- */

static kvh_status reserve(struct hand_in *in)
{
	struct kvh_queue *queue = in->queue;
	kvh_status status;

	kvh_queue_lock(queue);
	status = kvh_queue_reserve(queue, in->job.op, in->job.batch.count);
	kvh_queue_unlock(queue);
	if (status)
		return kvh_fail(in->error, status, "queue %s: %s", name_of(in->job.op),
		                status == KVH_BUSY ? "its line is full; take completions first"
		                                   : "the queue closes");
	return KVH_OK;
}

static void release(struct hand_in *in)
{
	kvh_queue_lock(in->queue);
	kvh_queue_release(in->queue, in->job.op, in->job.batch.count);
	kvh_queue_unlock(in->queue);
}

/* From here on the job may run, end and be freed at any moment. False: the queue closes. */
static bool add(struct kvh_queue *queue, struct queue_job *job, uint64_t *id)
{
	bool is_open;

	kvh_queue_lock(queue);
	is_open = !queue->closing;
	if (is_open) {
		kvh_queue_add(queue, job);
		*id = job->id;
	}
	kvh_queue_unlock(queue);
	return is_open;
}

kvh_status kvh_queue_hand_in(struct kvh_queue *queue, const struct kvh_queue_job *given,
                             bool has_waiter, uint64_t *id, struct kvh_error *error)
{
	struct hand_in in = {.queue = queue, .error = error};
	struct queue_job *job;
	kvh_status status = check_job(&in, given);

	if (status)
		return status;
	status = reserve(&in);
	if (status)
		return status;
	job = copy_job(&in);
	if (!job) {
		status = kvh_fail(error, KVH_NO_MEMORY, "queue %s: no memory for %zu keys",
		                  name_of(in.job.op), in.job.batch.count);
		goto out;
	}
	preset(job);
	job->waiter_count = has_waiter;
	if (!add(queue, job, id)) {
		status = kvh_fail(error, KVH_CLOSED, "queue %s: the queue closes",
		                  name_of(in.job.op));
		goto out;
	}
	return KVH_OK;
out:
	kvh_free(job);
	release(&in);
	return status;
}

kvh_status kvh_queue_submit(struct kvh_queue *queue, const struct kvh_queue_job *job,
                            uint64_t *job_id, struct kvh_error *error)
{
	unsigned phase;
	uint64_t id;
	kvh_status status = kvh_queue_begin(queue, &phase);

	if (status)
		return kvh_fail(error, status, "queue: %s", kvh_strstatus(status));
	if (!job_id)
		status = kvh_fail(error, KVH_INVALID_PARAMS, "queue: no place for the job's id");
	else
		status = kvh_queue_hand_in(queue, job, false, &id, error);
	if (!status)
		*job_id = id;
	kvh_queue_end(queue, phase);
	return status;
}
