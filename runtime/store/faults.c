/* SPDX-License-Identifier: Apache-2.0 */
/* The fault points of the front door; nothing of this is in the shipped library. */
#include "base/fault.h"

#ifdef KVH_FAULTS

#include <string.h>

#include "base/text.h"
#include "store_internal.h"

static const enum kvh_fault_point call_points[KVH_OP_COUNT] = {
	[KVH_OP_EXISTS] = KVH_FAULT_STORE_EXISTS,
	[KVH_OP_PUT] = KVH_FAULT_STORE_PUT,
	[KVH_OP_GET] = KVH_FAULT_STORE_GET,
	[KVH_OP_REMOVE] = KVH_FAULT_STORE_REMOVE,
	[KVH_OP_COMMIT] = KVH_FAULT_STORE_COMMIT,
	[KVH_OP_ABORT] = KVH_FAULT_STORE_ABORT,
	[KVH_OP_CLEAR] = KVH_FAULT_STORE_CLEAR,
	[KVH_OP_TIERS] = KVH_FAULT_STORE_TIERS,
	[KVH_OP_TAKE_EVICTED] = KVH_FAULT_STORE_TAKE_EVICTED,
	[KVH_OP_QUIESCE] = KVH_FAULT_STORE_QUIESCE,
	[KVH_OP_LIST] = KVH_FAULT_STORE_LIST,
};

static const struct {
	enum kvh_fault_point key;
	enum kvh_fault_point answer;
} key_points[] = {
	[KVH_OP_EXISTS] = {KVH_FAULT_STORE_EXISTS_KEY, KVH_FAULT_STORE_EXISTS_ANSWER},
	[KVH_OP_PUT] = {KVH_FAULT_STORE_PUT_KEY, KVH_FAULT_STORE_PUT_ANSWER},
	[KVH_OP_GET] = {KVH_FAULT_STORE_GET_KEY, KVH_FAULT_STORE_GET_ANSWER},
	[KVH_OP_REMOVE] = {KVH_FAULT_STORE_REMOVE_KEY, KVH_FAULT_STORE_REMOVE_ANSWER},
};

static bool armed(void)
{
	return __atomic_load_n(&kvh_faults_armed, __ATOMIC_RELAXED) != 0;
}

int64_t kvh_call_fault(enum kvh_store_op op)
{
	return armed() ? kvh_fault_fire(call_points[op], "", 0) : 0;
}

static int64_t fire_for_key(const struct kvh_batch_call *batch_call, enum kvh_fault_point point,
                            const struct kvh_key *key)
{
	const struct kvh_prefix_entry *entry =
		kvh_prefix_by_id(&batch_call->store->prefixes, key->prefix_id);
	char text[KVH_PREFIX_TEXT_BYTES_MAX + 2 * KVH_KEY_HASH_BYTES_MAX];

	memcpy(text, entry->bytes, entry->text_bytes);
	kvh_hex_encode(key->hash, key->hash_bytes, text + entry->text_bytes);
	return kvh_fault_fire(point, text, entry->text_bytes + 2 * (size_t)key->hash_bytes);
}

/* What is left of a batch when the keys that a rule fails are taken out. */
struct rest {
	struct kvh_batch batch;
	struct kvh_key *keys;
	struct kvh_value *values; /* NULL where the batch has none */
	struct kvh_token *tokens; /* likewise */
	struct kvh_result *results;
	size_t *places; /* in the whole batch */
};

static bool rest_alloc(struct rest *rest, size_t count, bool values, bool tokens)
{
	rest->keys = kvh_calloc(count, sizeof(*rest->keys));
	rest->results = kvh_calloc(count, sizeof(*rest->results));
	rest->places = kvh_calloc(count, sizeof(*rest->places));
	rest->values = values ? kvh_calloc(count, sizeof(*rest->values)) : NULL;
	rest->tokens = tokens ? kvh_calloc(count, sizeof(*rest->tokens)) : NULL;
	return rest->keys && rest->results && rest->places && (!values || rest->values) &&
	       (!tokens || rest->tokens);
}

static void rest_free(struct rest *rest)
{
	kvh_free(rest->keys);
	kvh_free(rest->values);
	kvh_free(rest->tokens);
	kvh_free(rest->results);
	kvh_free(rest->places);
}

static void rest_add(struct rest *rest, const struct kvh_batch *whole, size_t place)
{
	size_t at = rest->batch.count++;

	rest->places[at] = place;
	rest->keys[at] = whole->keys[place];
	rest->results[at] = whole->results[place];
	if (rest->values)
		rest->values[at] = whole->values[place];
}

static void set_result(struct kvh_result *result, int64_t number)
{
	result->value = number;
	if (number == KVH_IN_DOUBT)
		result->flags &= ~(uint32_t)KVH_RESULT_QUIET;
}

static void fill_rest(const struct kvh_batch_call *batch_call, struct rest *rest)
{
	const struct kvh_batch *whole = &batch_call->batch;

	for (size_t i = 0; i < whole->count; i++) {
		int64_t number =
			fire_for_key(batch_call, key_points[batch_call->op].key, &whole->keys[i]);

		if (number)
			set_result(&whole->results[i], number);
		else
			rest_add(rest, whole, i);
	}
	rest->batch.keys = rest->keys;
	rest->batch.values = rest->values;
	rest->batch.results = rest->results;
}

static void give_back(const struct kvh_batch_call *batch_call, const struct rest *rest)
{
	for (size_t i = 0; i < rest->batch.count; i++) {
		size_t place = rest->places[i];
		struct kvh_result *result = &batch_call->batch.results[place];
		int64_t number = fire_for_key(batch_call, key_points[batch_call->op].answer,
		                              &batch_call->batch.keys[place]);

		*result = rest->results[i];
		if (number)
			set_result(result, number);
		if (batch_call->put.tokens)
			batch_call->put.tokens[place] = rest->tokens[i];
	}
}

kvh_status kvh_batch_dispatch_faulted(const struct kvh_batch_call *batch_call)
{
	const struct kvh_batch *whole = &batch_call->batch;
	struct rest rest = {.batch = {.count = 0}};
	kvh_status status = KVH_OK;

	if (!armed())
		return kvh_batch_dispatch(batch_call, whole, batch_call->put.tokens);
	if (!rest_alloc(&rest, whole->count, whole->values != NULL,
	                batch_call->put.tokens != NULL)) {
		status = KVH_NO_MEMORY;
		goto out;
	}
	fill_rest(batch_call, &rest);
	if (rest.batch.count)
		status = kvh_batch_dispatch(batch_call, &rest.batch, rest.tokens);
	give_back(batch_call, &rest);
out:
	rest_free(&rest);
	return status;
}

#endif
