/* SPDX-License-Identifier: Apache-2.0 */
/* Loads what a step was recorded to do. */
#include "trace_parts.h"

#include <string.h>

static struct ints *read_segments(struct jread *in, json_t *object, const char *field,
                                  size_t key_count)
{
	json_t *array = jread_array(in, object, field);
	struct ints *lists = arena_take(in->arena, key_count + 1, sizeof(*lists));
	size_t i;

	if (json_array_size(array) != key_count) {
		jread_fail(in, field, "one list per key is needed");
		return lists;
	}
	for (i = 0; i < json_array_size(array); i++)
		lists[i] = jread_int_list(in, json_array_get(array, i), field);
	return lists;
}

static void read_call(struct jread *in, json_t *object, struct store_call *call)
{
	const char *fn = jread_text(in, object, "fn");

	for (enum store_fn i = FN_EXIST; i <= FN_EVENT_SYNC; i++)
		if (strcmp(store_fn_name(i), fn) == 0)
			call->fn = i;
	call->keys = jread_text_list(in, jread_array(in, object, "keys"), "keys");
	if (call->fn == FN_PUT || call->fn == FN_GET) {
		call->addrs = read_segments(in, object, "addrs", call->keys.count);
		call->sizes = read_segments(in, object, "sizes", call->keys.count);
	}
	call->has_group_ids = jread_present(object, "group_ids");
	call->group_ids = jread_text_list(in, jread_array(in, object, "group_ids"), "group_ids");
}

static void read_calls(struct jread *in, json_t *array, struct step_record *record)
{
	size_t i;

	record->call_count = json_array_size(array);
	record->calls = arena_take(in->arena, record->call_count + 1, sizeof(*record->calls));
	for (i = 0; i < json_array_size(array); i++)
		read_call(in, json_array_get(array, i), &record->calls[i]);
}

static void read_ops(struct jread *in, json_t *array, struct step_record *record)
{
	json_t *value;
	size_t i;

	record->op_count = json_array_size(array);
	record->ops = arena_take(in->arena, record->op_count + 1, sizeof(*record->ops));
	for (i = 0; i < json_array_size(array); i++) {
		value = json_array_get(array, i);
		record->ops[i].name = jread_text(in, value, "name");
		record->ops[i].status = jread_text(in, value, "status");
		record->ops[i].key_count = jread_int(in, value, "keys");
		record->ops[i].failed_count = jread_int(in, value, "failed");
		record->ops[i].payload_bytes = jread_int(in, value, "bytes");
	}
}

static void read_events(struct jread *in, json_t *array, struct step_record *record)
{
	json_t *value;
	size_t i;

	record->event_count = json_array_size(array);
	record->events = arena_take(in->arena, record->event_count + 1, sizeof(*record->events));
	for (i = 0; i < json_array_size(array); i++) {
		value = json_array_get(array, i);
		struct kv_event *event = &record->events[i];
		struct texts hashes =
			jread_text_list(in, jread_array(in, value, "block_hashes"), "block_hashes");

		event->hash = hashes.count == 1 ? hashes.at[0] : "";
		event->parent = jread_text_or(in, value, "parent", NULL);
		event->has_token_ids = jread_present(value, "token_ids");
		event->token_ids =
			jread_int_list(in, jread_array(in, value, "token_ids"), "token_ids");
		event->block_size = jread_int(in, value, "block_size");
		event->medium = jread_text(in, value, "medium");
		event->group = jread_int(in, value, "group_idx");
	}
}

/* An object of name -> integer. */
static struct named_list read_map(struct jread *in, json_t *object)
{
	struct named_list map = {0};
	const char *name;
	json_t *value;

	json_object_foreach (object, name, value) {
		struct named_ints *entry =
			named_list_add(in->arena, &map, arena_text(in->arena, "%s", name));

		if (json_is_array(value))
			entry->ids = jread_int_list(in, value, name);
		else
			entry->value = json_integer_value(value);
	}
	return map;
}

static struct named_list read_retry(struct jread *in, json_t *object)
{
	struct named_list map = {0};
	const char *name;
	json_t *value;

	json_object_foreach (object, name, value) {
		struct named_ints *entry =
			named_list_add(in->arena, &map, arena_text(in->arena, "%s", name));

		entry->value = json_integer_value(json_array_get(value, 0));
		entry->ids = jread_int_list(in, json_array_get(value, 1), "retry_token_ids");
	}
	return map;
}

static struct texts read_names(struct jread *in, json_t *object, const char *field)
{
	return jread_text_list(in, jread_array(in, object, field), field);
}

static void read_failed_blocks(struct jread *in, json_t *object, struct failed_list *list)
{
	json_t *array = jread_array(in, object, "failed_blocks");
	json_t *value;
	size_t i;

	for (i = 0; i < json_array_size(array); i++) {
		value = json_array_get(array, i);
		struct ints numbers = jread_int_list(in, value, "failed_blocks");

		if (numbers.count != 3)
			jread_fail(in, "failed_blocks", "group, index, block are needed");
		else
			failed_list_add(
				in->arena, list,
				(struct failed_block){numbers.at[0], numbers.at[1], numbers.at[2]});
	}
}

static void read_state(struct jread *in, json_t *object, struct step_state *state)
{
	state->saved_offset = read_map(in, json_object_get(object, "saved_offset"));
	state->pressure = jread_bool_or(in, object, "pressure", false);
	state->skipped = read_names(in, object, "skipped");
	state->has_live_jobs = jread_present(object, "live_jobs");
	state->live_jobs = read_map(in, json_object_get(object, "live_jobs"));
	state->has_completed_saves = jread_present(object, "completed_saves");
	state->completed_saves = read_map(in, json_object_get(object, "completed_saves"));
	state->has_retry = jread_present(object, "retry_token_ids");
	state->retry_token_ids = read_retry(in, json_object_get(object, "retry_token_ids"));
	state->has_failed_requests = jread_present(object, "failed_requests");
	state->failed_requests = read_names(in, object, "failed_requests");
	state->finishing = read_names(in, object, "finishing");
	state->finished_recv = read_names(in, object, "finished_recv");
	state->load_errors =
		jread_int_list(in, jread_array(in, object, "load_errors"), "load_errors");
	state->has_failed_blocks = jread_present(object, "failed_blocks");
	read_failed_blocks(in, object, &state->failed_blocks);
}

static void read_result(struct jread *in, json_t *object, enum op_kind kind,
                        struct step_result *result)
{
	result->is_drain = kind == OP_DRAIN;
	result->is_poll = kind == OP_POLL;
	result->finished_sending = read_names(in, object, "finished_sending");
	result->finished_recv = read_names(in, object, "finished_recv");
	result->load_errors =
		jread_int_list(in, jread_array(in, object, "load_errors"), "load_errors");
	result->kv_event_count = jread_int_or(in, object, "kv_events", 0);
	result->has_failed_requests = jread_present(object, "failed_requests");
	result->failed_requests = read_names(in, object, "failed_requests");
	result->has_completed_saves = jread_present(object, "completed_saves");
	result->completed_saves = read_map(in, json_object_get(object, "completed_saves"));
	result->has_failed_blocks = jread_present(object, "failed_blocks");
	read_failed_blocks(in, object, &result->failed_blocks);
}

void trace_read_expect(struct jread *in, json_t *object, struct trace_step *step)
{
	struct step_record *record = &step->expect;

	read_calls(in, jread_array(in, object, "calls"), record);
	read_ops(in, jread_array(in, object, "ops"), record);
	read_events(in, jread_array(in, object, "kv_events"), record);
	record->error = jread_present(object, "error");
	read_result(in, json_object_get(object, "result"), step->op.kind, &record->result);
	read_state(in, json_object_get(object, "state"), &record->state);
}
