/* SPDX-License-Identifier: Apache-2.0 */
/* The longest prefix that every rank could load. */
#include "worker/internal.h"

#include "base/error.h"
#include "base/logging.h"
#include "layout/lookup_plan.h"

enum { CANDIDATES_AT_ONCE = 256 };

/* One lookup on its way. */
struct lookup_run {
	struct kvh_worker *worker;
	const struct kvh_lookup *in;
	struct worker_epoch *epoch;
	struct kvh_lookup_plan plan;
	struct worker_batch batch;
};

static kvh_status check_lookup(const struct kvh_worker *worker, const struct kvh_lookup *lookup,
                               const struct kvh_lookup_result *result, struct kvh_error *error)
{
	if (!lookup || !result || lookup->struct_bytes < sizeof(*lookup) ||
	    result->struct_bytes < sizeof(*result))
		return kvh_fail(error, KVH_INVALID_PARAMS,
		                "lookup: lookup and result with their struct_bytes");
	if (lookup->hash_count && !lookup->hashes)
		return kvh_fail(error, KVH_INVALID_PARAMS,
		                "lookup: hashes is NULL, but hash_count is %zu",
		                lookup->hash_count);
	if (lookup->token_count > KVH_TOKENS_MAX ||
	    lookup->hash_count > KVH_TOKENS_MAX / worker->hash_tokens)
		return kvh_fail(error, KVH_INVALID_PARAMS,
		                "lookup: %llu tokens with %zu hashes, at most %d tokens",
		                (unsigned long long)lookup->token_count, lookup->hash_count,
		                KVH_TOKENS_MAX);
	return KVH_OK;
}

/* Fills the batch with all candidates, or as many as one call may carry. */
static kvh_status fill_batch(struct lookup_run *run, struct kvh_lookup_cursor *cursor)
{
	struct kvh_worker *worker = run->worker;
	struct kvh_lookup_candidate candidates[CANDIDATES_AT_ONCE];
	size_t room = run->plan.candidate_count < KVH_BATCH_KEYS_MAX ? run->plan.candidate_count
	                                                             : KVH_BATCH_KEYS_MAX;
	kvh_status status = kvh_batch_reserve(&run->batch, room);

	run->batch.count = 0;
	while (!status && run->batch.count < room) {
		size_t left = room - run->batch.count;
		size_t count =
			kvh_lookup_plan_next(&run->plan, cursor, candidates,
		                             left < CANDIDATES_AT_ONCE ? left : CANDIDATES_AT_ONCE);

		if (!count)
			break;
		for (size_t i = 0; i < count; i++) {
			const struct kvh_lookup_candidate *c = &candidates[i];
			const uint32_t *prefixes =
				run->epoch->lookup + worker->group_first_lookup[c->group];
			size_t k = kvh_batch_next(&run->batch);

			run->batch.keys[k] = (struct kvh_key){
				.hash = run->in->hashes + c->hash_index * worker->hash_bytes,
				.hash_bytes = worker->hash_bytes,
				.prefix_id = prefixes[c->name_space]};
			run->batch.items[k] = (struct batch_item){.chunk = c->slot};
		}
	}
	return status;
}

static kvh_status ask_all(struct lookup_run *run)
{
	const struct kvh_call call = {.struct_bytes = sizeof(call),
	                              .cancel = run->in->cancel,
	                              .deadline_ns = run->in->deadline_ns};
	struct kvh_lookup_cursor cursor = {0};
	kvh_status status;

	while (!(status = fill_batch(run, &cursor)) && run->batch.count) {
		struct kvh_batch view = kvh_batch_view(&run->batch, 0, run->batch.count);

		status = kvh_store_exists(run->worker->store, &view, KVH_EXISTS_LOOKUP, &call);
		if (status)
			break;
		for (size_t i = 0; i < run->batch.count; i++) {
			const struct kvh_lookup_candidate candidate = {
				.slot = run->batch.items[i].chunk};

			kvh_lookup_plan_answer(&run->plan, &candidate,
			                       run->batch.results[i].value == 1);
		}
	}
	return status;
}

/* The store's own share: what the engine had before is neither asked of it nor its merit (B42). */
static uint64_t beyond(uint64_t tokens, uint64_t cached_tokens)
{
	return tokens > cached_tokens ? tokens - cached_tokens : 0;
}

static void count_lookup(struct kvh_worker *worker, const struct kvh_lookup *lookup,
                         kvh_status status, uint64_t hit_tokens)
{
	kvh_worker_lock(worker);
	worker->stats.lookups++;
	worker->stats.lookup_errors += status != KVH_OK;
	worker->stats.lookup_query_tokens +=
		beyond(lookup->token_count, lookup->cached_token_count);
	worker->stats.lookup_hit_tokens += beyond(hit_tokens, lookup->cached_token_count);
	kvh_worker_unlock(worker);
	if (status)
		kvh_log_line(&worker->log, KVH_LOG_WARN,
		             "lookup: counted as no hit, the store answered %d (%s)", status,
		             kvh_strstatus(status));
}

static struct worker_epoch *use_epoch(struct kvh_worker *worker)
{
	struct worker_epoch *epoch;

	kvh_worker_lock(worker);
	epoch = worker->epoch;
	epoch->user_count++;
	kvh_worker_unlock(worker);
	return epoch;
}

static void leave_epoch(struct kvh_worker *worker, struct worker_epoch *epoch)
{
	kvh_worker_lock(worker);
	kvh_epoch_release(worker, epoch);
	kvh_worker_unlock(worker);
}

kvh_status kvh_worker_lookup(struct kvh_worker *worker, const struct kvh_lookup *lookup,
                             struct kvh_lookup_result *result, struct kvh_error *error)
{
	struct lookup_run run = {.worker = worker, .in = lookup};
	kvh_status status = kvh_worker_serving(worker);

	if (status)
		return kvh_fail(error, status, "lookup: %s", kvh_strstatus(status));
	status = check_lookup(worker, lookup, result, error);
	if (status)
		return status;
	result->hit_tokens = 0;
	result->tail_key_count = 0;
	run.epoch = use_epoch(worker);
	status = kvh_lookup_plan_make(&run.plan, worker->coordinator, lookup->token_count,
	                              lookup->hash_count, worker->group_namespaces);
	if (!status)
		status = ask_all(&run);
	if (!status)
		kvh_lookup_plan_result(&run.plan, result);
	kvh_lookup_plan_fini(&run.plan);
	kvh_batch_fini(&run.batch);
	leave_epoch(worker, run.epoch);
	count_lookup(worker, lookup, status, result->hit_tokens);
	return KVH_OK;
}
