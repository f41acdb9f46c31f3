/* SPDX-License-Identifier: Apache-2.0 */
/* What the worker has done and knows, in the form of step records. */
#include <stdlib.h>
#include <string.h>

#include "worker_adapter.h"

#include "worker/inspect.h"

static const char *req_of(const struct adapter_queue *queue, uint64_t job_id)
{
	for (size_t i = 0; i < queue->count; i++)
		if (queue->at[i].job_id == job_id)
			return queue->at[i].req;
	abort(); /* a completion of a job that nobody handed in */
}

static const char *event_hash(struct arena *arena, const struct kvh_stored_event *event,
                              const uint8_t *hash, uint64_t integer)
{
	char *hex;

	if (event->integer_hashes)
		return arena_text(arena, "u64:%llu", (unsigned long long)integer);
	hex = arena_take(arena, 2 * (size_t)event->hash_bytes + 1, 1);
	for (uint32_t i = 0; i < event->hash_bytes; i++) {
		hex[2 * i] = "0123456789abcdef"[hash[i] >> 4];
		hex[2 * i + 1] = "0123456789abcdef"[hash[i] & 15];
	}
	return hex;
}

static void add_event(struct adapter *adapter, struct kvh_stored_event *event)
{
	struct step_record *seen = &adapter->seen;
	struct kv_event out = {
		.hash = event_hash(adapter->arena, event, event->hash, event->hash_integer),
		.has_token_ids = true,
		.block_size = event->block_tokens,
		.medium = event->medium,
		.group = event->group};

	if (event->has_parent)
		out.parent = event_hash(adapter->arena, event, event->parent_hash,
		                        event->parent_integer);
	for (size_t i = 0; i < event->token_id_count; i++)
		ints_push(adapter->arena, &out.token_ids, event->token_ids[i]);
	seen->events = arena_grow(adapter->arena, seen->events, seen->event_count,
	                          &seen->event_room, sizeof(*seen->events));
	seen->events[seen->event_count++] = out;
	adapter->undrained_events++;
	kvh_stored_event_free(event);
}

static void add_failed_block(struct adapter *adapter, const struct kvh_completion *c)
{
	const struct failed_block block = {
		.group = c->group, .index = c->block_index, .block = c->block_id};

	failed_list_add(adapter->arena, &adapter->failed_blocks, block);
	if (adapter->config->hma)
		texts_add(adapter->arena, &adapter->failed_requests,
		          req_of(&adapter->loads, c->job_id));
	else if (!ints_has(&adapter->load_errors, c->block_id))
		ints_push(adapter->arena, &adapter->load_errors, c->block_id);
}

static void add_saved(struct adapter *adapter, uint64_t job_id)
{
	const char *name = arena_text(adapter->arena, "%llu", (unsigned long long)job_id);

	named_list_add(adapter->arena, &adapter->completed_saves, name)->value++;
}

void adapter_collect(struct adapter *adapter)
{
	struct kvh_completion some[3]; /* few, so that a call often ends in the middle of a job */
	size_t count;

	do {
		if (kvh_worker_poll(adapter->worker, some, sizeof(some[0]), 3, &count))
			abort();
		for (size_t i = 0; i < count; i++) {
			switch (some[i].kind) {
			case KVH_SAVE_DONE:
				add_saved(adapter, some[i].job_id);
				break;
			case KVH_LOAD_DONE:
				texts_add(adapter->arena, &adapter->finished_recv,
				          req_of(&adapter->loads, some[i].job_id));
				break;
			case KVH_BLOCK_FAILED:
				add_failed_block(adapter, &some[i]);
				break;
			case KVH_EVENT:
				add_event(adapter, some[i].event);
				break;
			case KVH_EVICTED:
				abort(); /* the scripted store evicts nothing */
			}
		}
	} while (count == 3);
}

void adapter_drain(struct adapter *adapter, struct step_result *result)
{
	result->finished_recv = adapter->finished_recv;
	result->load_errors = adapter->load_errors;
	result->kv_event_count = adapter->undrained_events;
	result->has_failed_requests = true;
	result->failed_requests = adapter->failed_requests;
	result->has_completed_saves = true;
	result->completed_saves = adapter->completed_saves;
	result->has_failed_blocks = true;
	result->failed_blocks = adapter->failed_blocks;
	adapter->finished_recv = (struct texts){0};
	adapter->load_errors = (struct ints){0};
	adapter->undrained_events = 0;
	adapter->failed_requests = (struct texts){0};
	adapter->completed_saves = (struct named_list){0};
	adapter->failed_blocks = (struct failed_list){0};
}

struct state_view {
	struct arena *arena;
	struct step_state *state;
};

static void add_request(void *user, const struct kvh_inspect_request *request)
{
	struct state_view *view = user;
	struct step_state *state = view->state;
	const char *name =
		arena_text(view->arena, "%.*s", (int)request->id_bytes, (const char *)request->id);
	struct named_ints *entry;

	if (request->saved_tokens)
		named_list_add(view->arena, &state->saved_offset, name)->value =
			(int64_t)request->saved_tokens;
	if (request->skipped)
		texts_add(view->arena, &state->skipped, name);
	if (request->finishing)
		texts_add(view->arena, &state->finishing, name);
	entry = named_list_add(view->arena, &state->live_jobs, name);
	for (size_t i = 0; i < request->live_save_count; i++)
		ints_push(view->arena, &entry->ids, (int64_t)request->live_saves[i]);
	if (!request->kept_count)
		return;
	entry = named_list_add(view->arena, &state->retry_token_ids, name);
	entry->value = (int64_t)request->kept_start;
	for (size_t i = 0; i < request->kept_count; i++)
		ints_push(view->arena, &entry->ids, request->kept_ids[i]);
}

static void copy_outputs(struct adapter *adapter, struct step_state *state)
{
	for (size_t i = 0; i < adapter->failed_requests.count; i++)
		texts_push(adapter->arena, &state->failed_requests, adapter->failed_requests.at[i]);
	for (size_t i = 0; i < adapter->finished_recv.count; i++)
		texts_push(adapter->arena, &state->finished_recv, adapter->finished_recv.at[i]);
	for (size_t i = 0; i < adapter->load_errors.count; i++)
		ints_push(adapter->arena, &state->load_errors, adapter->load_errors.at[i]);
	for (size_t i = 0; i < adapter->completed_saves.count; i++)
		named_list_add(adapter->arena, &state->completed_saves,
		               adapter->completed_saves.at[i].name)
			->value = adapter->completed_saves.at[i].value;
	for (size_t i = 0; i < adapter->failed_blocks.count; i++)
		failed_list_add(adapter->arena, &state->failed_blocks,
		                adapter->failed_blocks.at[i]);
}

void adapter_state(struct adapter *adapter, struct step_state *state)
{
	struct state_view view = {.arena = adapter->arena, .state = state};

	state->pressure = kvh_inspect_pressure(adapter->worker);
	state->has_live_jobs = state->has_completed_saves = state->has_retry = true;
	state->has_failed_requests = state->has_failed_blocks = true;
	kvh_inspect_requests(adapter->worker, add_request, &view);
	copy_outputs(adapter, state);
}
