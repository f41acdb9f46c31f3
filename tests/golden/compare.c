/* SPDX-License-Identifier: Apache-2.0 */
/* Compares records by writing each field in one canonical form. */
#include "compare.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A text that grows. */
struct writer {
	struct arena *arena;
	char *at;
	size_t count;
	size_t room;
};

static void put(struct writer *out, const char *text)
{
	size_t length = strlen(text);

	while (out->count + length + 1 > out->room)
		out->at = arena_grow(out->arena, out->at, out->room, &out->room, 1);
	memcpy(out->at + out->count, text, length + 1);
	out->count += length;
}

static void put_int(struct writer *out, int64_t value)
{
	char text[32];

	snprintf(text, sizeof(text), "%lld ", (long long)value);
	put(out, text);
}

static void put_ints(struct writer *out, const struct ints *list)
{
	put(out, "[");
	for (size_t i = 0; i < list->count; i++)
		put_int(out, list->at[i]);
	put(out, "] ");
}

static void put_texts(struct writer *out, const struct texts *list)
{
	put(out, "[");
	for (size_t i = 0; i < list->count; i++) {
		put(out, list->at[i]);
		put(out, " ");
	}
	put(out, "] ");
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Sorted, doubles dropped. */
static void put_set(struct writer *out, const struct texts *list)
{
	struct texts sorted = {0};

	for (size_t i = 0; i < list->count; i++)
		texts_add(out->arena, &sorted, list->at[i]);
	if (sorted.count > 0)
		qsort(sorted.at, sorted.count, sizeof(*sorted.at), by_text);
	put_texts(out, &sorted);
}

static void put_int_set(struct writer *out, const struct ints *list)
{
	struct texts texts = {0};

	for (size_t i = 0; i < list->count; i++)
		texts_push(out->arena, &texts,
		           arena_text(out->arena, "%lld", (long long)list->at[i]));
	put_set(out, &texts);
}

/* name=value; zero values are absent. */
static void put_map(struct writer *out, const struct named_list *map)
{
	struct texts texts = {0};

	for (size_t i = 0; i < map->count; i++)
		if (map->at[i].value != 0)
			texts_push(out->arena, &texts,
			           arena_text(out->arena, "%s=%lld", map->at[i].name,
			                      (long long)map->at[i].value));
	put_set(out, &texts);
}

/* name:value[ids]; entries without ids are absent. `sorted` takes the ids as a set. */
static void put_id_map(struct writer *out, const struct named_list *map, bool sorted)
{
	struct texts texts = {0};

	for (size_t i = 0; i < map->count; i++) {
		struct writer entry = {.arena = out->arena};

		if (map->at[i].ids.count == 0)
			continue;
		put(&entry, map->at[i].name);
		put(&entry, ":");
		put_int(&entry, map->at[i].value);
		if (sorted)
			put_int_set(&entry, &map->at[i].ids);
		else
			put_ints(&entry, &map->at[i].ids);
		texts_push(out->arena, &texts, entry.at);
	}
	put_set(out, &texts);
}

static void put_failed_blocks(struct writer *out, const struct failed_list *list)
{
	struct texts texts = {0};

	for (size_t i = 0; i < list->count; i++)
		texts_push(out->arena, &texts,
		           arena_text(out->arena, "group %lld index %lld block %lld",
		                      (long long)list->at[i].group, (long long)list->at[i].index,
		                      (long long)list->at[i].block));
	put_set(out, &texts);
}

static void put_call(struct writer *out, const struct store_call *call)
{
	put(out, store_fn_name(call->fn));
	put(out, " ");
	put_texts(out, &call->keys);
	for (size_t i = 0; i < call->keys.count && call->addrs != NULL; i++) {
		put_ints(out, &call->addrs[i]);
		put_ints(out, &call->sizes[i]);
	}
	if (call->has_group_ids)
		put_texts(out, &call->group_ids);
	put(out, "\n");
}

static void put_op(struct writer *out, const struct op_record *op)
{
	put(out, op->name);
	put(out, " ");
	put(out, op->status);
	put(out, " ");
	put_int(out, op->key_count);
	put_int(out, op->failed_count);
	put_int(out, op->payload_bytes);
	put(out, "\n");
}

static void put_event(struct writer *out, const struct kv_event *event)
{
	put(out, event->hash);
	put(out, " parent ");
	put(out, event->parent == NULL ? "none" : event->parent);
	put(out, " tokens ");
	put(out, event->has_token_ids ? "" : "null");
	put_ints(out, &event->token_ids);
	put_int(out, event->block_size);
	put(out, event->medium);
	put(out, " ");
	put_int(out, event->group);
	put(out, "\n");
}

/* What the pair of records has in common decides what is written. */
struct view {
	const struct step_record *record;
	const struct step_record *other;
	const struct compare_options *options;
	bool is_expected;
	size_t calls; /* how many of them to write */
	size_t ops;
};

static void put_load_errors(struct writer *out, const struct view *view, const struct ints *errors,
                            const struct failed_list *pairs)
{
	struct ints blocks = {0};

	if (!view->options->expect_is_seed || view->is_expected) {
		put_int_set(out, errors);
		return;
	}
	for (size_t i = 0; i < pairs->count; i++)
		ints_push(out->arena, &blocks, pairs->at[i].block);
	put_int_set(out, &blocks);
}

static void put_result(struct writer *out, const struct view *view)
{
	const struct step_result *result = &view->record->result;
	const struct step_result *other = &view->other->result;

	if (result->is_poll && !view->options->expect_is_seed)
		put_set(out, &result->finished_sending);
	if (!result->is_drain)
		return;
	put_set(out, &result->finished_recv);
	put_load_errors(out, view, &result->load_errors, &result->failed_blocks);
	if (view->options->fields & FIELD_BIT(FIELD_KV_EVENTS))
		put_int(out, result->kv_event_count);
	if (result->has_failed_requests && other->has_failed_requests)
		put_set(out, &result->failed_requests);
	if (result->has_completed_saves && other->has_completed_saves)
		put_map(out, &result->completed_saves);
	if (result->has_failed_blocks && other->has_failed_blocks)
		put_failed_blocks(out, &result->failed_blocks);
}

static void put_step_part(struct writer *out, const struct view *view, enum record_field field)
{
	const struct step_record *record = view->record;

	if (field == FIELD_CALLS)
		for (size_t i = 0; i < view->calls; i++)
			put_call(out, &record->calls[i]);
	if (field == FIELD_OPS)
		for (size_t i = 0; i < view->ops; i++)
			put_op(out, &record->ops[i]);
	if (field == FIELD_KV_EVENTS)
		for (size_t i = 0; i < record->event_count; i++)
			put_event(out, &record->events[i]);
	if (field == FIELD_ERROR)
		put(out, (view->options->tail_only ? record->tail_error : record->error)
		                 ? "error"
		                 : "no error");
	if (field == FIELD_RESULT)
		put_result(out, view);
}

static void put_ledger_part(struct writer *out, const struct view *view, enum record_field field)
{
	const struct step_state *state = &view->record->state;
	const struct step_state *other = &view->other->state;

	if (field == FIELD_SAVED_OFFSET)
		put_map(out, &state->saved_offset);
	if (field == FIELD_PRESSURE)
		put(out, state->pressure ? "on" : "off");
	if (field == FIELD_SKIPPED)
		put_set(out, &state->skipped);
	if (field == FIELD_LIVE_JOBS && state->has_live_jobs && other->has_live_jobs)
		put_id_map(out, &state->live_jobs, true);
	if (field == FIELD_COMPLETED_SAVES && state->has_completed_saves &&
	    other->has_completed_saves)
		put_map(out, &state->completed_saves);
	if (field == FIELD_RETRY_TOKEN_IDS && state->has_retry && other->has_retry)
		put_id_map(out, &state->retry_token_ids, false);
}

static void put_load_part(struct writer *out, const struct view *view, enum record_field field)
{
	const struct step_state *state = &view->record->state;
	const struct step_state *other = &view->other->state;

	if (field == FIELD_FAILED_REQUESTS && state->has_failed_requests &&
	    other->has_failed_requests)
		put_set(out, &state->failed_requests);
	if (field == FIELD_FINISHING)
		put_set(out, &state->finishing);
	if (field == FIELD_FINISHED_RECV)
		put_set(out, &state->finished_recv);
	if (field == FIELD_LOAD_ERRORS)
		put_load_errors(out, view, &state->load_errors, &state->failed_blocks);
	if (field == FIELD_FAILED_BLOCKS && state->has_failed_blocks && other->has_failed_blocks)
		put_failed_blocks(out, &state->failed_blocks);
}

static const char *field_text(struct arena *arena, const struct view *view, enum record_field field)
{
	struct writer out = {.arena = arena};

	put(&out, "");
	if (field <= FIELD_RESULT)
		put_step_part(&out, view, field);
	else if (field <= FIELD_RETRY_TOKEN_IDS)
		put_ledger_part(&out, view, field);
	else
		put_load_part(&out, view, field);
	return out.at;
}

unsigned compare_records(struct arena *arena, const struct step_record *expected,
                         const struct step_record *observed, const struct compare_options *options,
                         struct difference *first)
{
	struct view left = {expected,          observed, options, true, expected->call_count,
	                    expected->op_count};
	struct view right = {observed,          expected, options, false, observed->call_count,
	                     observed->op_count};
	unsigned differing = 0;

	if (options->tail_only) {
		left.calls = expected->tail_call_count;
		left.ops = expected->tail_op_count;
		right.calls = observed->tail_call_count;
		right.ops = observed->tail_op_count;
	}
	for (enum record_field field = 0; field < FIELD_COUNT; field++) {
		const char *a, *b;

		if (!(options->fields & FIELD_BIT(field)))
			continue;
		a = field_text(arena, &left, field);
		b = field_text(arena, &right, field);
		if (strcmp(a, b) == 0)
			continue;
		if (differing == 0 && first != NULL)
			*first = (struct difference){field, a, b};
		differing |= FIELD_BIT(field);
	}
	return differing;
}

const char *record_field_name(enum record_field field)
{
	static const char *const names[] = {
		"calls",           "ops",           "kv_events",
		"error",           "result",        "saved_offset",
		"pressure",        "skipped",       "live_jobs",
		"completed_saves", "retry",         "failed_requests",
		"finishing",       "finished_recv", "load_errors",
		"failed_blocks",
	};

	return names[field];
}
