/* SPDX-License-Identifier: Apache-2.0 */
/* Writes step records as the `expect` of a scenario. */
#include "trace.h"

static json_t *ints_json(const struct ints *list)
{
	json_t *array = json_array();

	for (size_t i = 0; i < list->count; i++)
		json_array_append_new(array, json_integer(list->at[i]));
	return array;
}

static json_t *texts_json(const struct texts *list)
{
	json_t *array = json_array();

	for (size_t i = 0; i < list->count; i++)
		json_array_append_new(array, json_string(list->at[i]));
	return array;
}

static json_t *lists_json(const struct ints *lists, size_t count)
{
	json_t *array = json_array();

	for (size_t i = 0; i < count; i++)
		json_array_append_new(array, ints_json(&lists[i]));
	return array;
}

static json_t *call_json(const struct store_call *call)
{
	json_t *object = json_pack("{s:s}", "fn", store_fn_name(call->fn));

	if (call->fn != FN_EVENT_SYNC)
		json_object_set_new(object, "keys", texts_json(&call->keys));
	if (call->addrs != NULL) {
		json_object_set_new(object, "addrs", lists_json(call->addrs, call->keys.count));
		json_object_set_new(object, "sizes", lists_json(call->sizes, call->keys.count));
	}
	if (call->fn == FN_PUT)
		json_object_set_new(object, "group_ids",
		                    call->has_group_ids ? texts_json(&call->group_ids)
		                                        : json_null());
	return object;
}

static json_t *event_json(const struct kv_event *event)
{
	return json_pack("{s:[s],s:s?,s:o,s:I,s:s,s:n,s:n,s:I}", "block_hashes", event->hash,
	                 "parent", event->parent, "token_ids",
	                 event->has_token_ids ? ints_json(&event->token_ids) : json_null(),
	                 "block_size", (json_int_t)event->block_size, "medium", event->medium,
	                 "lora_id", "lora_name", "group_idx", (json_int_t)event->group);
}

static json_t *op_json(const struct op_record *op)
{
	return json_pack("{s:s,s:s,s:I,s:I,s:I}", "name", op->name, "status", op->status, "keys",
	                 (json_int_t)op->key_count, "failed", (json_int_t)op->failed_count, "bytes",
	                 (json_int_t)op->payload_bytes);
}

static json_t *map_json(const struct named_list *map)
{
	json_t *object = json_object();

	for (size_t i = 0; i < map->count; i++)
		json_object_set_new(object, map->at[i].name, json_integer(map->at[i].value));
	return object;
}

static json_t *live_json(const struct named_list *map)
{
	json_t *object = json_object();

	for (size_t i = 0; i < map->count; i++)
		json_object_set_new(object, map->at[i].name, ints_json(&map->at[i].ids));
	return object;
}

static json_t *retry_json(const struct named_list *map)
{
	json_t *object = json_object();

	for (size_t i = 0; i < map->count; i++)
		json_object_set_new(object, map->at[i].name,
		                    json_pack("[I,o]", (json_int_t)map->at[i].value,
		                              ints_json(&map->at[i].ids)));
	return object;
}

static json_t *state_json(const struct step_state *state)
{
	return json_pack("{s:o,s:b,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o}", "saved_offset",
	                 map_json(&state->saved_offset), "pressure", state->pressure, "skipped",
	                 texts_json(&state->skipped), "live_jobs", live_json(&state->live_jobs),
	                 "completed_saves", map_json(&state->completed_saves), "retry_token_ids",
	                 retry_json(&state->retry_token_ids), "failed_requests",
	                 texts_json(&state->failed_requests), "finishing",
	                 texts_json(&state->finishing), "finished_recv",
	                 texts_json(&state->finished_recv), "load_errors",
	                 ints_json(&state->load_errors));
}

static json_t *result_json(const struct step_result *result)
{
	if (result->is_poll)
		return json_pack("{s:o}", "finished_sending",
		                 texts_json(&result->finished_sending));
	return json_pack("{s:o,s:o,s:I,s:o,s:o}", "finished_recv",
	                 texts_json(&result->finished_recv), "load_errors",
	                 ints_json(&result->load_errors), "kv_events",
	                 (json_int_t)result->kv_event_count, "failed_requests",
	                 texts_json(&result->failed_requests), "completed_saves",
	                 map_json(&result->completed_saves));
}

json_t *trace_expect_json(const struct step_record *record)
{
	json_t *object = json_object();
	json_t *calls = json_array();
	json_t *ops = json_array();
	json_t *events = json_array();

	for (size_t i = 0; i < record->call_count; i++)
		json_array_append_new(calls, call_json(&record->calls[i]));
	for (size_t i = 0; i < record->op_count; i++)
		json_array_append_new(ops, op_json(&record->ops[i]));
	for (size_t i = 0; i < record->event_count; i++)
		json_array_append_new(events, event_json(&record->events[i]));
	json_object_set_new(object, "calls", calls);
	json_object_set_new(object, "ops", ops);
	json_object_set_new(object, "kv_events", events);
	if (record->error)
		json_object_set_new(object, "error",
		                    json_pack("{s:s,s:b}", "type", "Error", "scripted", 0));
	if (record->result.is_poll || record->result.is_drain)
		json_object_set_new(object, "result", result_json(&record->result));
	json_object_set_new(object, "state", state_json(&record->state));
	return object;
}
