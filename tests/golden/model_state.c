/* SPDX-License-Identifier: Apache-2.0 */
/* The model's ledger, queues, poll and drain, and its side of the replay interface. */
#include "model_parts.h"

#include <string.h>

bool model_on(const struct model *model, int number)
{
	return model->options.on[number];
}

const char *model_switch_name(int number)
{
	static const char *const names[MODEL_SWITCHES + 1] = {
		"D-0",  "D-1",  "D-2",  "D-3",  "D-4",  "D-5",  "D-6",  "D-7",  "D-8",
		"D-9",  "D-10", "D-11", "D-12", "D-13", "D-14", "D-15", "D-16", "D-17",
		"D-18", "D-19", "D-20", "D-21", "D-22", "D-23", "R-38"};

	return names[number];
}

struct model_request *model_find(struct model *model, const char *name)
{
	for (size_t i = 0; i < model->request_count; i++)
		if (strcmp(model->requests[i].name, name) == 0)
			return &model->requests[i];
	return NULL;
}

struct model_request *model_need(struct model *model, const char *name)
{
	struct model_request *request = model_find(model, name);

	if (request != NULL)
		return request;
	model->requests = arena_grow(model->arena, model->requests, model->request_count,
	                             &model->request_room, sizeof(*model->requests));
	request = &model->requests[model->request_count++];
	*request = (struct model_request){.name = name};
	return request;
}

bool model_is_live(struct model *model, const struct trace_job *job)
{
	struct model_request *request = model_find(model, job->req);

	return request != NULL && ints_has(&request->live, job->job_id);
}

void model_record_op(struct model *model, struct op_record record)
{
	struct step_record *seen = &model->seen;

	if (!model->config->record_ops)
		return;
	seen->ops = arena_grow(model->arena, seen->ops, seen->op_count, &seen->op_room,
	                       sizeof(*seen->ops));
	seen->ops[seen->op_count++] = record;
}

void model_fail_block(struct model *model, const char *req, struct failed_block block)
{
	failed_list_add(model->arena, &model->failed_blocks, block);
	if (model->config->hma)
		texts_add(model->arena, &model->failed_requests, req);
	else if (!ints_has(&model->load_errors, block.block))
		ints_push(model->arena, &model->load_errors, block.block);
}

static void queue_push(struct model *model, struct model_queue *queue, const struct trace_job *job)
{
	queue->at =
		arena_grow(model->arena, queue->at, queue->count, &queue->room, sizeof(*queue->at));
	queue->at[queue->count++] = (struct model_place){.job = job};
}

/* The oldest place's job; NULL for an empty place or an empty queue. */
static const struct trace_job *queue_take(struct model_queue *queue)
{
	return queue->next < queue->count ? queue->at[queue->next++].job : NULL;
}

/* A refused job leaves an empty place, and its request's life does not begin. */
static bool submit_save(struct model *model, const struct trace_job *job)
{
	struct model_request *request;

	if (model_refuses_save(model, job)) {
		queue_push(model, &model->saves, NULL);
		return true;
	}
	if (job->registered) {
		request = model_need(model, job->req);
		ints_remove(&request->live, job->job_id);
		ints_push(model->arena, &request->live, job->job_id);
	}
	queue_push(model, &model->saves, job);
	return false;
}

static bool submit_load(struct model *model, const struct trace_job *job)
{
	bool refused = model_refuses_load(model, job);

	queue_push(model, &model->loads, refused ? NULL : job);
	return refused;
}

static void cancel_loads(struct model *model, const char *name)
{
	if (!model_on(model, MODEL_CANCEL_LOADS))
		return;
	for (size_t i = model->loads.next; i < model->loads.count; i++) {
		struct model_place *place = &model->loads.at[i];

		if (place->job == NULL || strcmp(place->job->req, name) != 0)
			continue;
		model_cancel_load(model, place->job);
		place->job = NULL;
	}
}

/* R-24; unstorable marks end with the life (D-22). `finishing` is poll's and stays. */
static void delete_request(struct model *model, const char *name)
{
	struct model_request *request = model_find(model, name);
	bool finishing;

	if (request == NULL)
		return;
	finishing = request->finishing;
	*request = (struct model_request){.name = request->name, .finishing = finishing};
}

static void reap_finished(struct model *model, struct model_request *request)
{
	request->finishing = request->live.count > 0;
	if (!request->finishing)
		delete_request(model, request->name);
}

static void poll(struct model *model, const struct trace_op *op)
{
	for (size_t i = 0; i < op->preempted.count; i++) {
		cancel_loads(model, op->preempted.at[i]);
		delete_request(model, op->preempted.at[i]);
	}
	for (size_t i = 0; i < op->finished.count; i++) {
		cancel_loads(model, op->finished.at[i]);
		model_need(model, op->finished.at[i])->finishing = true;
	}
	for (size_t i = 0; i < model->request_count; i++)
		if (model->requests[i].finishing)
			reap_finished(model, &model->requests[i]);
}

static void drain(struct model *model, struct step_result *result)
{
	result->finished_recv = model->finished_recv;
	result->load_errors = model->load_errors;
	result->kv_event_count = model->undrained_events;
	result->has_failed_requests = true;
	result->failed_requests = model->failed_requests;
	result->has_completed_saves = true;
	result->completed_saves = model->completed_saves;
	result->has_failed_blocks = true;
	result->failed_blocks = model->failed_blocks;
	model->finished_recv = (struct texts){0};
	model->load_errors = (struct ints){0};
	model->undrained_events = 0;
	model->failed_requests = (struct texts){0};
	model->completed_saves = (struct named_list){0};
	model->failed_blocks = (struct failed_list){0};
}

static void fill_setup(const struct trace_config *config, struct pure_setup *setup)
{
	setup->group_count = config->group_count;
	for (size_t g = 0; g < config->group_count; g++)
		setup->groups[g] = (struct pure_group){
			.kind = config->groups[g].kind,
			.block_size = config->groups[g].block_size,
			.window = config->groups[g].window,
			.eagle = config->groups[g].eagle,
			.participates = config->groups[g].participates,
		};
	setup->lcm_block_size = config->lcm_block_size;
	setup->hash_block_size = config->hash_block_size;
	setup->partial_hash_hits = config->partial_hash_hits;
	setup->use_eagle = config->use_eagle;
	setup->has_retention = config->has_retention;
	setup->retention_interval = config->retention_interval;
}

static void *create(const void *options, const struct trace *trace, struct script *script)
{
	struct model *model = arena_take(trace->arena, 1, sizeof(*model));

	model->arena = trace->arena;
	model->trace = trace;
	model->config = &trace->config;
	model->script = script;
	model->options = *(const struct model_options *)options;
	fill_setup(&trace->config, &model->setup);
	return model;
}

static void begin(void *system, const struct trace_step *step)
{
	struct model *model = system;

	model->step = step;
}

static bool step(void *system, const struct trace_op *op, struct step_result *result)
{
	struct model *model = system;
	const struct trace_job *job;

	result->is_drain = op->kind == OP_DRAIN;
	result->is_poll = op->kind == OP_POLL;
	switch (op->kind) {
	case OP_SUBMIT_SAVE:
		return submit_save(model, &op->job);
	case OP_SUBMIT_LOAD:
		return submit_load(model, &op->job);
	case OP_RUN_SAVE:
		job = queue_take(&model->saves);
		return job != NULL && model_run_save(model, job);
	case OP_RUN_LOAD:
		job = queue_take(&model->loads);
		return job != NULL && model_run_load(model, job);
	case OP_DELETE:
		cancel_loads(model, op->req);
		delete_request(model, op->req);
		break;
	case OP_POLL:
		poll(model, op);
		break;
	case OP_DRAIN:
		drain(model, result);
		break;
	}
	return false;
}

static void copy_names(struct arena *arena, const struct texts *from, struct texts *to)
{
	for (size_t i = 0; i < from->count; i++)
		texts_push(arena, to, from->at[i]);
}

static void copy_ids(struct arena *arena, const struct ints *from, struct ints *to)
{
	for (size_t i = 0; i < from->count; i++)
		ints_push(arena, to, from->at[i]);
}

static void observe_request(struct arena *arena, const struct model_request *request,
                            struct step_state *state)
{
	struct named_ints *entry;

	if (request->saved_offset != 0)
		named_list_add(arena, &state->saved_offset, request->name)->value =
			request->saved_offset;
	if (request->skipped)
		texts_add(arena, &state->skipped, request->name);
	if (request->finishing)
		texts_add(arena, &state->finishing, request->name);
	entry = named_list_add(arena, &state->live_jobs, request->name);
	copy_ids(arena, &request->live, &entry->ids);
	if (request->has_retry) {
		entry = named_list_add(arena, &state->retry_token_ids, request->name);
		entry->value = request->retry_start;
		copy_ids(arena, &request->retry_ids, &entry->ids);
	}
}

static void observe_outputs(struct model *model, struct step_state *state)
{
	copy_names(model->arena, &model->failed_requests, &state->failed_requests);
	copy_names(model->arena, &model->finished_recv, &state->finished_recv);
	copy_ids(model->arena, &model->load_errors, &state->load_errors);
	for (size_t i = 0; i < model->completed_saves.count; i++)
		named_list_add(model->arena, &state->completed_saves,
		               model->completed_saves.at[i].name)
			->value = model->completed_saves.at[i].value;
	for (size_t i = 0; i < model->failed_blocks.count; i++)
		failed_list_add(model->arena, &state->failed_blocks, model->failed_blocks.at[i]);
}

static void observe(void *system, struct step_record *record)
{
	struct model *model = system;
	struct step_state *state = &record->state;

	record->ops = model->seen.ops;
	record->op_count = model->seen.op_count;
	record->events = model->seen.events;
	record->event_count = model->seen.event_count;
	record->tail_call_count = model->seen.tail_call_count;
	record->tail_op_count = model->seen.tail_op_count;
	record->tail_error = model->seen.tail_error;
	model->seen = (struct step_record){0};
	state->pressure = model->pressure;
	state->has_live_jobs = state->has_completed_saves = state->has_retry = true;
	state->has_failed_requests = state->has_failed_blocks = true;
	for (size_t i = 0; i < model->request_count; i++)
		observe_request(model->arena, &model->requests[i], state);
	observe_outputs(model, state);
}

static void destroy(void *system)
{
	(void)system; /* the trace's arena owns it */
}

const struct replay_ops *model_replay_ops(void)
{
	static const struct replay_ops ops = {
		.name = "model",
		.create = create,
		.begin = begin,
		.step = step,
		.observe = observe,
		.destroy = destroy,
	};

	return &ops;
}
