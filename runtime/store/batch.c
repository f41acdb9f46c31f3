/* SPDX-License-Identifier: Apache-2.0 */
/* The calls over batches of keys: check, preset, hand to the backend, count. */
#include "store_internal.h"
#include "struct_bytes.h"

void kvh_results_preset(struct kvh_result *results, size_t count)
{
	for (size_t i = 0; i < count; i++)
		results[i] = (struct kvh_result){.value = KVH_NO_ANSWER, .flags = KVH_RESULT_QUIET};
}

static bool count_ok(size_t count)
{
	return count > 0 && count <= KVH_BATCH_KEYS_MAX;
}

kvh_status kvh_call_begin(struct kvh_inside *inside, struct kvh_store *store, enum kvh_store_op op)
{
	kvh_status status = kvh_store_enter(store, &inside->phase);
	int64_t fault;

	if (status)
		return status;
	inside->store = store;
	inside->op = op;
	inside->start_ns = kvh_now_ns(store->env);
	fault = kvh_call_fault(op);
	return fault ? kvh_call_end(inside, (kvh_status)fault) : KVH_OK;
}

kvh_status kvh_call_end(const struct kvh_inside *inside, kvh_status status)
{
	struct kvh_store *store = inside->store;

	kvh_metrics_call(&store->metrics, inside->op, status,
	                 kvh_now_ns(store->env) - inside->start_ns);
	kvh_store_leave(store, inside->phase);
	return status;
}

kvh_status kvh_call_take(struct kvh_store *store, const struct kvh_call *given,
                         struct kvh_call *own)
{
	*own = (struct kvh_call){.struct_bytes = sizeof(*own)};
	if (!given)
		return KVH_OK;
	if (!kvh_struct_in(own, sizeof(*own), given))
		return kvh_refuse(store, KVH_INVALID_PARAMS,
		                  "struct_bytes %zu of the call is not that of a known version",
		                  given->struct_bytes);
	if (own->cancel && kvh_cancel_requested(own->cancel))
		return KVH_CANCELLED;
	return kvh_deadline_passed(store->env, own->deadline_ns) ? KVH_TIMEOUT : KVH_OK;
}

bool kvh_result_good(enum kvh_store_op op, const struct kvh_result *result)
{
	switch (op) {
	case KVH_OP_EXISTS:
		return result->value == 1;
	case KVH_OP_GET:
		return result->value >= 0;
	default:
		return result->value == 0;
	}
}

uint64_t kvh_batch_good_bytes(enum kvh_store_op op, const struct kvh_batch *batch)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < batch->count; i++) {
		if (kvh_result_good(op, &batch->results[i]))
			bytes += kvh_value_bytes(&batch->values[i]);
	}
	return bytes;
}

static void count_results(const struct kvh_batch_call *batch_call)
{
	const struct kvh_batch *batch = &batch_call->batch;
	struct kvh_batch_counts counts = {.keys = batch->count};

	for (size_t i = 0; i < batch->count; i++) {
		const struct kvh_result *result = &batch->results[i];

		counts.good_keys += kvh_result_good(batch_call->op, result);
		counts.no_space_keys += result->value == KVH_NO_AVAILABLE_HANDLE;
		counts.unquiet_keys += !(result->flags & KVH_RESULT_QUIET);
	}
	if (batch->values)
		counts.bytes = counts.good_keys == counts.keys
		                       ? batch_call->value_bytes
		                       : kvh_batch_good_bytes(batch_call->op, batch);
	kvh_metrics_batch(&batch_call->store->metrics, batch_call->op, &counts);
}

kvh_status kvh_batch_dispatch(const struct kvh_batch_call *batch_call,
                              const struct kvh_batch *batch, struct kvh_token *tokens)
{
	const struct kvh_store_ops *ops = &batch_call->store->ops;
	void *self = batch_call->store->self;
	struct kvh_put_options put;

	switch (batch_call->op) {
	case KVH_OP_EXISTS:
		return ops->exists(self, batch, batch_call->exists_flags, &batch_call->call);
	case KVH_OP_PUT:
		put = batch_call->put;
		put.tokens = tokens;
		return ops->put(self, batch, &put, &batch_call->call);
	case KVH_OP_GET:
		return ops->get(self, batch, &batch_call->call);
	default:
		return ops->remove(self, batch, &batch_call->call);
	}
}

/* Everything that is checked by the batch alone. Values only where the operation has some. */
static kvh_status check_batch(struct kvh_batch_call *batch_call)
{
	const char *name = kvh_store_op_name(batch_call->op);
	struct kvh_batch *batch = &batch_call->batch;
	struct kvh_store *store = batch_call->store;
	kvh_status status;

	if (!batch->keys)
		return kvh_refuse(store, KVH_INVALID_PARAMS, "%s: keys is NULL", name);
	status = kvh_check_keys(store, name, batch->keys, batch->count);
	if (status)
		return status;
	if (batch_call->op != KVH_OP_PUT && batch_call->op != KVH_OP_GET) {
		batch->values = NULL;
		return KVH_OK;
	}
	if (!batch->values)
		return kvh_refuse(store, KVH_INVALID_PARAMS, "%s: values is NULL", name);
	return kvh_check_values(store, name, batch->values, batch->count, &batch_call->value_bytes);
}

static kvh_status check_options(struct kvh_batch_call *batch_call,
                                const struct kvh_put_options *put_options)
{
	if (batch_call->exists_flags & ~(uint32_t)KVH_EXISTS_DEDUP)
		return kvh_refuse(batch_call->store, KVH_INVALID_PARAMS,
		                  "exists: unknown flags 0x%x", batch_call->exists_flags);
	if (batch_call->op != KVH_OP_PUT)
		return KVH_OK;
	return kvh_check_put_options(batch_call->store, put_options, &batch_call->batch,
	                             &batch_call->put);
}

static kvh_status check_and_dispatch(struct kvh_batch_call *batch_call,
                                     const struct kvh_put_options *put_options,
                                     const struct kvh_call *call)
{
	kvh_status status = check_batch(batch_call);

	if (status)
		return status;
	status = check_options(batch_call, put_options);
	if (status)
		return status;
	status = kvh_call_take(batch_call->store, call, &batch_call->call);
	if (status)
		return status;
	for (size_t i = 0; batch_call->put.tokens && i < batch_call->batch.count; i++)
		batch_call->put.tokens[i] = (struct kvh_token){{0}};
	status = kvh_batch_dispatch_faulted(batch_call);
	count_results(batch_call);
	return status;
}

static kvh_status run(struct kvh_batch_call *batch_call, const struct kvh_batch *batch,
                      const struct kvh_put_options *put_options, const struct kvh_call *call)
{
	struct kvh_inside inside;
	kvh_status status;

	if (!batch || !batch->results || !count_ok(batch->count))
		return KVH_INVALID_PARAMS;
	batch_call->batch = *batch;
	kvh_results_preset(batch->results, batch->count);
	status = kvh_call_begin(&inside, batch_call->store, batch_call->op);
	if (status)
		return status;
	status = check_and_dispatch(batch_call, put_options, call);
	return kvh_call_end(&inside, status);
}

kvh_status kvh_store_exists(struct kvh_store *store, const struct kvh_batch *batch, uint32_t flags,
                            const struct kvh_call *call)
{
	struct kvh_batch_call batch_call = {
		.store = store, .op = KVH_OP_EXISTS, .exists_flags = flags};

	return run(&batch_call, batch, NULL, call);
}

kvh_status kvh_store_put(struct kvh_store *store, const struct kvh_batch *batch,
                         const struct kvh_put_options *options, const struct kvh_call *call)
{
	struct kvh_batch_call batch_call = {.store = store, .op = KVH_OP_PUT};

	return run(&batch_call, batch, options, call);
}

kvh_status kvh_store_get(struct kvh_store *store, const struct kvh_batch *batch,
                         const struct kvh_call *call)
{
	struct kvh_batch_call batch_call = {.store = store, .op = KVH_OP_GET};

	return run(&batch_call, batch, NULL, call);
}

kvh_status kvh_store_remove(struct kvh_store *store, const struct kvh_batch *batch,
                            const struct kvh_call *call)
{
	struct kvh_batch_call batch_call = {.store = store, .op = KVH_OP_REMOVE};

	return run(&batch_call, batch, NULL, call);
}

static kvh_status settle(struct kvh_store *store, enum kvh_store_op op,
                         const struct kvh_token *tokens, size_t count, struct kvh_result *results)
{
	struct kvh_inside inside;
	kvh_status status;

	if (!tokens || !results || !count_ok(count))
		return KVH_INVALID_PARAMS;
	kvh_results_preset(results, count);
	status = kvh_call_begin(&inside, store, op);
	if (status)
		return status;
	if (!store->caps.hold)
		status = KVH_NOT_SUPPORTED;
	else if (op == KVH_OP_COMMIT)
		status = store->ops.commit(store->self, tokens, count, results);
	else
		status = store->ops.abort(store->self, tokens, count, results);
	return kvh_call_end(&inside, status);
}

kvh_status kvh_store_commit(struct kvh_store *store, const struct kvh_token *tokens, size_t count,
                            struct kvh_result *results)
{
	return settle(store, KVH_OP_COMMIT, tokens, count, results);
}

kvh_status kvh_store_abort(struct kvh_store *store, const struct kvh_token *tokens, size_t count,
                           struct kvh_result *results)
{
	return settle(store, KVH_OP_ABORT, tokens, count, results);
}
