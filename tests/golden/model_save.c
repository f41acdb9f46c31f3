/* SPDX-License-Identifier: Apache-2.0 */
/* The model's save job. */
#include "model_parts.h"

#include <stdlib.h>
#include <string.h>

/* Token ids of a job with its request's retry ids in front. */
struct token_run {
	bool given;
	int64_t start;
	struct ints ids;
};

static struct token_run merge_retry(struct model *model, const struct trace_job *job)
{
	const struct model_request *request = model_need(model, job->req);
	struct token_run run = {.given = job->has_token_ids, .start = job->token_ids_start};

	if (!job->has_token_ids)
		return run;
	if (request->has_retry &&
	    request->retry_start + (int64_t)request->retry_ids.count == job->token_ids_start) {
		run.start = request->retry_start;
		for (size_t i = 0; i < request->retry_ids.count; i++)
			ints_push(model->arena, &run.ids, request->retry_ids.at[i]);
	}
	for (int64_t i = 0; i < job->token_id_count; i++)
		ints_push(model->arena, &run.ids, job->first_token_id + i);
	return run;
}

/*
 * R-23, for a live job with a floored length above 0. Reading of "from E on": with D-12, ids
 * before `keep_from` are dropped, whatever kept the job from completing; none left, none kept.
 */
static void settle_retry(struct model *model, const struct trace_job *job,
                         const struct token_run *run, bool complete, int64_t keep_from)
{
	struct model_request *request = model_need(model, job->req);
	int64_t end = run->start + (int64_t)run->ids.count;
	int64_t first = run->start;

	if (complete) {
		request->has_retry = false;
		return;
	}
	if (!run->given)
		return;
	if (model_on(model, 12) && first < keep_from)
		first = keep_from;
	request->retry_ids = (struct ints){0};
	request->retry_start = first;
	for (int64_t position = first; position < end; position++)
		ints_push(model->arena, &request->retry_ids, run->ids.at[position - run->start]);
	request->has_retry = request->retry_ids.count > 0;
}

/* Last 8 bytes of the hash, big-endian, or the hex as it is. */
static const char *event_hash(struct model *model, const char *hash)
{
	size_t length = strlen(hash);

	if (!model->config->int_event_hashes)
		return hash;
	if (length > 16)
		hash += length - 16;
	return arena_text(model->arena, "u64:%llu", strtoull(hash, NULL, 16));
}

static void add_event(struct model *model, const struct trace_job *job,
                      const struct save_item *item, const struct token_run *run)
{
	struct step_record *seen = &model->seen;
	int64_t block_size = model->config->groups[item->group].block_size;
	int64_t end = item->start + block_size;
	struct kv_event event = {
		.hash = event_hash(model, item->hash),
		.has_token_ids = true,
		.block_size = block_size,
		.medium = "cpu",
		.group = item->group,
	};

	if (item->start > 0)
		event.parent = event_hash(
			model, job->hashes[item->start / model->config->hash_block_size - 1]);
	if (run->given && item->start >= run->start && end <= run->start + (int64_t)run->ids.count)
		for (int64_t i = item->start; i < end; i++)
			ints_push(model->arena, &event.token_ids, run->ids.at[i - run->start]);
	seen->events = arena_grow(model->arena, seen->events, seen->event_count, &seen->event_room,
	                          sizeof(*seen->events));
	seen->events[seen->event_count++] = event;
	model->undrained_events++;
}

/* One event per block all of whose missing shards this put stored itself. */
static void add_events(struct model *model, const struct trace_job *job,
                       const struct save_batch *missing, const struct token_run *run)
{
	for (size_t i = 0; i < missing->count;) {
		const struct save_item *item = &missing->at[i];
		bool stored = true;

		for (; i < missing->count && missing->at[i].group == item->group &&
		       missing->at[i].chunk == item->chunk;
		     i++)
			stored = stored && missing->at[i].result >= 0;
		if (stored)
			add_event(model, job, item, run);
	}
}

static bool is_unstorable(struct model *model, const struct trace_job *job, int64_t group,
                          int64_t index)
{
	const struct model_request *request = model_need(model, job->req);

	for (size_t i = 0; i < request->unstorable_count; i++)
		if (request->unstorable[i].group == group && request->unstorable[i].index == index)
			return true;
	return false;
}

static void mark_unstorable(struct model *model, const struct trace_job *job,
                            const struct save_item *item)
{
	struct model_request *request = model_need(model, job->req);

	request->unstorable =
		arena_grow(model->arena, request->unstorable, request->unstorable_count,
	                   &request->unstorable_room, sizeof(*request->unstorable));
	request->unstorable[request->unstorable_count++] =
		(struct model_chunk){item->group, item->chunk};
}

/* A save job on its way. */
struct saving {
	const struct trace_job *job;
	int64_t from; /* S, tokens */
	int64_t to;   /* T, tokens */
	int64_t stop; /* lowest lcm floor of a chunk that stops the offset, else `to` */
	struct token_run run;
	struct save_batch batch;
};

static void stop_at(const struct model *model, struct saving *saving, int64_t start)
{
	int64_t floor = floor_to(start, model->config->lcm_block_size);

	if (floor < saving->stop)
		saving->stop = floor;
}

/* R-16, D-12, D-22; a list too short leaves the chunk out (only with D-13 off). */
static void select_chunk(struct model *model, struct saving *saving, int64_t group, int64_t start,
                         int64_t hash)
{
	const struct trace_job *job = saving->job;
	int64_t index = start / model->config->groups[group].block_size;
	bool full = model->config->groups[group].kind == GROUP_FULL;
	struct save_item item = {.group = group, .chunk = index, .start = start};
	int64_t block;

	if (index >= (int64_t)job->blocks[group].count)
		return;
	block = job->blocks[group].at[index];
	if (block == MODEL_NULL_BLOCK) {
		if (full && model_on(model, 12))
			stop_at(model, saving, start);
		return;
	}
	/* Reading of D-22: never asked for or put again, and it stops the offset in any kind
	 * of group, because the store never confirmed a chunk that has data. */
	if (is_unstorable(model, job, group, index)) {
		stop_at(model, saving, start);
		return;
	}
	item.hash = job->hashes[hash];
	model_add_items(model, &saving->batch, item, block);
}

static bool store_masks(struct model *model, const struct saving *saving, struct pure_masks *masks)
{
	struct pure_store_mask in = {
		.token_len = saving->to,
		.start = saving->from,
		.has_prompt = saving->job->has_prompt,
		.prompt = saving->job->prompt,
	};

	for (size_t i = 0; model->options.fed_masks && i < model->step->mask_count; i++) {
		const struct trace_mask *fed = &model->step->masks[i];

		if (!fed->is_store || fed->token_len != saving->to || fed->start != saving->from)
			continue;
		for (size_t g = 0; g < fed->group_count; g++)
			masks->by_group[g] = fed->by_group[g];
		return true;
	}
	return model_store_mask(model->arena, &model->setup, &in, masks);
}

static void select_chunks(struct model *model, struct saving *saving)
{
	struct pure_masks masks;

	if (!store_masks(model, saving, &masks))
		return;
	for (size_t g = 0; g < model->config->group_count; g++) {
		const struct trace_group *group = &model->config->groups[g];
		struct pure_chunks chunks = {
			.block_size = group->block_size,
			.hash_block_size = model->config->hash_block_size,
			.token_len = saving->to,
			.first_token = saving->from,
			.chunk_mask = masks.by_group[g],
			.put_step = group->put_step,
			.put_step_rank = (model->config->tp_rank + (int64_t)g) % group->put_step,
		};
		struct ints found = {0};

		if (!group->participates)
			continue;
		model_process_tokens(model->arena, &chunks, &found);
		for (size_t i = 0; i + 2 < found.count; i += 3)
			select_chunk(model, saving, (int64_t)g, found.at[i], found.at[i + 2]);
	}
}

static void note_unstorable(struct model *model, struct saving *saving,
                            const struct save_batch *missing)
{
	for (size_t i = 0; i < missing->count && model_on(model, 22); i++) {
		int64_t result = missing->at[i].result;

		if (result != CODE_INVALID_KEY && result != CODE_INVALID_PARAMS &&
		    result != CODE_NOT_SUPPORTED)
			continue;
		if (model_is_live(model, saving->job))
			mark_unstorable(model, saving->job, &missing->at[i]);
		stop_at(model, saving, missing->at[i].start);
	}
}

/* moves the offset of a live job to E, unless D-16 forbids. */
static void settle_offset(struct model *model, const struct saving *saving, int64_t reached)
{
	struct model_request *request = model_need(model, saving->job->req);

	if (reached >= request->saved_offset || !model_on(model, 16))
		request->saved_offset = reached;
}

/*
 * The normal save. Reading of D-22 in the job that meets the code: keys that can never be stored
 * do not hold E at S as other failures do; they stop it like a NULL source at once.
 */
static bool save_chunks(struct model *model, struct saving *saving, bool *complete)
{
	struct save_outcome outcome;

	/* The reference takes a job without any hash for one with nothing to do. */
	bool hashless = saving->job->hash_count == 0;

	*complete = false;
	saving->stop = saving->from;
	if (!hashless && !model_hashes_cover(model, saving->job, saving->to))
		return true;
	saving->stop = saving->to;
	if (!hashless)
		select_chunks(model, saving);
	model_exists_and_put(model, saving->job, &saving->batch, &outcome);
	if (outcome.has_put) {
		note_unstorable(model, saving, &outcome.missing);
		if (model->config->enable_kv_event)
			add_events(model, saving->job, &outcome.missing, &saving->run);
	}
	if (outcome.failed && !outcome.only_unstorable) {
		saving->stop = saving->from;
		return outcome.exists_raised || outcome.broken;
	}
	if (model_is_live(model, saving->job))
		settle_offset(model, saving, saving->stop);
	*complete = saving->stop == saving->to;
	return false;
}

/* Tail and boundary puts; false if the job ends there. */
static bool save_boundaries(struct model *model, const struct trace_job *job, bool *error)
{
	bool goes_on = model_save_tail(model, job, error) && model_save_puts(model, job, error);

	model->seen.tail_call_count = script_call_count(model->script);
	model->seen.tail_op_count = model->seen.op_count;
	model->seen.tail_error = *error;
	return goes_on;
}

static bool save_live(struct model *model, const struct trace_job *job)
{
	const struct model_request *request = model_need(model, job->req);
	struct saving saving = {.job = job};
	bool skip = model->pressure && request->skipped;
	bool complete = false;
	bool error = false;

	saving.to = floor_to(job->token_len, model->config->lcm_block_size);
	saving.run = merge_retry(model, job);
	if (!skip && save_boundaries(model, job, &error) && saving.to > 0) {
		/* S is read after the boundary puts: a `during` delete shows in it. */
		saving.from = model_need(model, job->req)->saved_offset;
		error = save_chunks(model, &saving, &complete);
	} else {
		saving.stop = model_need(model, job->req)->saved_offset;
	}
	if (saving.to > 0 && model->config->enable_kv_event && model_is_live(model, job))
		settle_retry(model, job, &saving.run, complete, saving.stop);
	return error;
}

bool model_run_save(struct model *model, const struct trace_job *job)
{
	struct named_ints *completed;
	bool error = false;

	model->running = job;
	if (model_is_live(model, job))
		error = save_live(model, job);
	model->running = NULL;
	/* R-12; looked up anew, as a `during` delete may have replaced the ledger entry. */
	if (model_is_live(model, job))
		ints_remove(&model_need(model, job->req)->live, job->job_id);
	completed = named_list_add(model->arena, &model->completed_saves,
	                           arena_text(model->arena, "%lld", (long long)job->job_id));
	completed->value++;
	return error;
}
