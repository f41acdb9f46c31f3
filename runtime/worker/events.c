/* SPDX-License-Identifier: Apache-2.0 */
/* Stored-block events, and token ids kept for a later save. */
#include <string.h>

#include "base/fault.h"
#include "layout/chunks.h"
#include "worker/save.h"

static struct kept_tokens *make_tokens(uint64_t start, size_t count)
{
	struct kept_tokens *tokens = kvh_alloc(sizeof(*tokens) + count * sizeof(int32_t));

	if (tokens) {
		tokens->start = start;
		tokens->count = count;
	}
	return tokens;
}

/* Puts kept ids in front of the job's when they are exactly contiguous. */
void kvh_events_begin(struct save_run *run)
{
	const struct save_part *save = &run->job->save;
	const struct kept_tokens *kept = run->job->request->kept;
	bool joins = kept && kept->start + kept->count == save->token_ids_start;
	size_t before = joins ? kept->count : 0;
	struct kept_tokens *tokens;

	if (!save->has_token_ids)
		return;
	tokens = make_tokens(joins ? kept->start : save->token_ids_start,
	                     before + save->token_id_count);
	if (!tokens)
		return; /* events without token ids, as if none were given */
	if (before)
		memcpy(tokens->ids, kept->ids, before * sizeof(int32_t));
	if (save->token_id_count)
		memcpy(tokens->ids + before, save->token_ids,
		       save->token_id_count * sizeof(int32_t));
	run->tokens = tokens;
}

/* Blocks before the saved offset are stored; only ids from there on will be asked for again. */
void kvh_events_end(struct save_run *run, bool failed)
{
	struct worker_request *request = run->job->request;
	struct kept_tokens *tokens = run->tokens;
	uint64_t skip = 0;

	if (!failed && run->stop_tokens >= run->job->save.floored_tokens) {
		kvh_free(request->kept);
		request->kept = NULL;
		return;
	}
	if (!tokens)
		return;
	if (request->saved_tokens > tokens->start)
		skip = request->saved_tokens - tokens->start;
	kvh_free(request->kept);
	request->kept = NULL;
	if (skip >= tokens->count)
		return;
	tokens->count -= skip;
	tokens->start += skip;
	memmove(tokens->ids, tokens->ids + skip, tokens->count * sizeof(int32_t));
	request->kept = tokens;
	run->tokens = NULL;
}

static uint64_t last_8_bytes(const uint8_t *hash, uint32_t hash_bytes)
{
	uint32_t first = hash_bytes > sizeof(uint64_t) ? hash_bytes - sizeof(uint64_t) : 0;
	uint64_t value = 0;

	for (uint32_t i = first; i < hash_bytes; i++)
		value = value << 8 | hash[i];
	return value;
}

static void set_hashes(const struct save_run *run, const struct kvh_chunk *chunk,
                       const uint8_t *hash, struct kvh_stored_event *event)
{
	const struct kvh_worker *worker = run->worker;

	event->hash_bytes = worker->hash_bytes;
	event->integer_hashes = worker->integer_hashes;
	memcpy(event->hash, hash, worker->hash_bytes);
	event->hash_integer = last_8_bytes(hash, worker->hash_bytes);
	if (chunk->start_token >= worker->hash_tokens) {
		const uint8_t *parent = kvh_job_hash(worker, run->job,
		                                     chunk->start_token / worker->hash_tokens - 1);

		event->has_parent = true;
		memcpy(event->parent_hash, parent, worker->hash_bytes);
		event->parent_integer = last_8_bytes(parent, worker->hash_bytes);
	}
}

/* Of the chunk of the batch's entry index. */
static struct kvh_stored_event *make_event(const struct save_run *run, size_t index)
{
	const struct kvh_worker *worker = run->worker;
	const struct batch_item *item = &run->batch->items[index];
	uint32_t block_tokens = worker->groups[item->group].config.block_tokens;
	const struct kvh_chunk chunk = kvh_chunk_at(item->chunk, block_tokens, worker->hash_tokens,
	                                            run->job->save.floored_tokens);
	const struct kept_tokens *tokens = run->tokens;
	bool covered = tokens && tokens->start <= chunk.start_token &&
	               chunk.end_token <= tokens->start + tokens->count;
	size_t id_count = covered ? chunk.end_token - chunk.start_token : 0;
	struct kvh_stored_event *event = kvh_calloc(1, sizeof(*event) + id_count * sizeof(int32_t));
	int32_t *ids;

	if (!event)
		return NULL;
	event->group = item->group;
	event->block_tokens = block_tokens;
	event->medium = "cpu";
	event->has_token_ids = covered;
	event->token_id_count = id_count;
	ids = (int32_t *)(event + 1);
	event->token_ids = ids;
	if (covered)
		memcpy(ids, tokens->ids + (chunk.start_token - tokens->start),
		       id_count * sizeof(int32_t));
	set_hashes(run, &chunk, run->batch->keys[index].hash, event);
	return event;
}

static bool append(struct save_run *run, struct kvh_stored_event *event)
{
	struct save_part *save = &run->job->save;
	struct worker_event *node = event ? kvh_alloc(sizeof(*node)) : NULL;

	if (!node) {
		kvh_free(event);
		return false;
	}
	node->next = NULL;
	node->event = event;
	*save->events_end = node;
	save->events_end = &node->next;
	return true;
}

/* Items of one chunk stand side by side: its shards. */
void kvh_events_stored(struct save_run *run)
{
	const struct worker_batch *batch = run->batch;
	size_t reported = 0, lost = 0;
	size_t i = 0;

	while (i < run->put_count) {
		const size_t first = i;
		const struct batch_item *item = &batch->items[first];
		bool whole = true;

		for (; i < run->put_count && batch->items[i].group == item->group &&
		       batch->items[i].chunk == item->chunk;
		     i++)
			whole = whole && batch->results[i].value >= 0 && !batch->items[i].by_other;
		if (!whole)
			continue;
		if (append(run, make_event(run, first)))
			reported++;
		else
			lost++;
	}
	kvh_worker_lock(run->worker);
	run->worker->stats.events_reported += reported;
	run->worker->stats.events_dropped += lost;
	kvh_worker_unlock(run->worker);
}

void kvh_stored_event_free(struct kvh_stored_event *event)
{
	kvh_free(event);
}
