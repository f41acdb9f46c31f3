/* SPDX-License-Identifier: Apache-2.0 */
/* The scheduler of the modelled engine: admission, lookup, chunked prefill, preemption, give-back.
 */
#include "engine.h"

#include "neighbour.h"
#include "pattern.h"

enum room { ROOM_READY, ROOM_LATER, ROOM_LOST };

static uint64_t min_u64(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static void give_up(struct kvh_engine *engine, uint32_t group, int32_t id)
{
	if (id == KVH_NULL_BLOCK || kvh_blocks_give_up(&engine->blocks[group], id))
		return;
	engine->defects++;
	kvh_engine_note(engine, "block %d of group %u was given up twice", id, group);
}

/* Gives up the blocks from index `from` on, of all groups. from: tokens, a multiple of the lcm. */
static void truncate_tables(struct kvh_engine *engine, struct kvh_engine_request *request,
                            uint64_t from_tokens)
{
	for (uint32_t g = 0; g < KVH_ENGINE_GROUPS; g++) {
		struct kvh_engine_table *table = &request->tables[g];
		uint32_t from = (uint32_t)(from_tokens / kvh_engine_groups[g].block_tokens);

		while (table->count > from)
			give_up(engine, g, table->ids[--table->count]);
		if (table->dropped_count > table->count)
			table->dropped_count = table->count;
	}
}

/* Blocks that computing up to `tokens` needs beyond those in the table. */
static uint32_t blocks_missing(const struct kvh_engine_request *request, uint32_t group,
                               uint64_t tokens)
{
	uint32_t block_tokens = kvh_engine_groups[group].block_tokens;
	uint64_t wanted = (tokens + block_tokens - 1) / block_tokens;

	return wanted > request->tables[group].count
	               ? (uint32_t)(wanted - request->tables[group].count)
	               : 0;
}

/* The sliding groups' blocks that no later token looks at; a save that reads them keeps its pin. */
static void drop_window(struct kvh_engine *engine, struct kvh_engine_request *request)
{
	for (uint32_t g = 0; g < KVH_ENGINE_GROUPS; g++) {
		const struct kvh_engine_group *group = &kvh_engine_groups[g];
		struct kvh_engine_table *table = &request->tables[g];
		uint64_t keep_from, first;

		if (group->kind != KVH_ATTENTION_SLIDING_WINDOW)
			continue;
		keep_from = request->computed_tokens -
		            min_u64(request->computed_tokens, group->window_tokens - 1);
		first = min_u64(keep_from / group->block_tokens, table->count);
		for (; table->dropped_count < first; table->dropped_count++) {
			give_up(engine, g, table->ids[table->dropped_count]);
			table->ids[table->dropped_count] = KVH_NULL_BLOCK;
		}
	}
}

static void remove_at(struct kvh_engine_request **list, size_t *count, size_t at)
{
	(*count)--;
	for (; at < *count; at++)
		list[at] = list[at + 1];
}

/*
 * The request loses its blocks now; those that a save still reads come back with its completion.
 * The ranks tell their workers before anything is written in this step. It waits in front, in the
 * trace's order.
 */
static void preempt(struct kvh_engine *engine, size_t at)
{
	struct kvh_engine_request *request = engine->running[at];
	size_t place = engine->preempted_count++;

	remove_at(engine->running, &engine->running_count, at);
	truncate_tables(engine, request, 0);
	request->state = KVH_REQUEST_WAITING;
	request->computed_tokens = 0;
	request->saved_tokens = 0;
	for (; place > 0 && engine->preempted[place - 1]->index > request->index; place--)
		engine->preempted[place] = engine->preempted[place - 1];
	engine->preempted[place] = request;
	engine->plan.preempted[engine->plan.preempted_count++] = request;
	engine->totals.preemptions++;
}

/* Whether each group has the blocks free; *later: pinned ones will make it so. */
static bool fits(const struct kvh_engine *engine, const struct kvh_engine_request *request,
                 uint64_t tokens, bool *later)
{
	bool now = true;

	*later = true;
	for (uint32_t g = 0; g < KVH_ENGINE_GROUPS; g++) {
		uint32_t missing = blocks_missing(request, g, tokens);
		const struct kvh_blocks *blocks = &engine->blocks[g];

		now = now && missing <= blocks->free_count;
		*later = *later && missing <= blocks->free_count + blocks->returning_count;
	}
	return now;
}

/* Index of the newest request whose blocks can be taken, from `from` on; running_count: none. */
static size_t newest_running(const struct kvh_engine *engine, size_t from)
{
	for (size_t i = engine->running_count; i > from; i--)
		if (engine->running[i - 1]->state == KVH_REQUEST_RUNNING)
			return i - 1;
	return engine->running_count;
}

/* Room for running[at] to compute up to `tokens`, at the cost of newer requests. */
static enum room make_room(struct kvh_engine *engine, size_t at, uint64_t tokens)
{
	struct kvh_engine_request *request = engine->running[at];
	bool later;

	while (!fits(engine, request, tokens, &later)) {
		size_t victim = newest_running(engine, at);
		bool loading = engine->running_count > victim + 1;

		if (later || (victim == at && loading)) {
			engine->totals.stalls++;
			return ROOM_LATER;
		}
		preempt(engine, victim);
		if (victim == at)
			return ROOM_LOST;
	}
	return ROOM_READY;
}

static void plan_fill(struct kvh_engine *engine, struct kvh_engine_request *request, uint32_t group,
                      uint32_t index, bool complete)
{
	struct kvh_engine_table *table = &request->tables[group];
	uint64_t content;

	if (!complete || !kvh_request_content(request, engine->config.seed, group, index, &content))
		content = kvh_pattern_mix(~engine->config.seed - request->index,
		                          ((uint64_t)index << 32) + engine->totals.steps);
	table->contents[index] = content;
	engine->plan.fills[engine->plan.fill_count++] = (struct kvh_engine_block_task){
		.request = request,
		.group = group,
		.block_index = index,
		.block_id = table->ids[index],
		.content = content,
	};
}

/* Takes the blocks and plans what is written for the tokens [computed, computed + count). */
static void plan_compute(struct kvh_engine *engine, struct kvh_engine_request *request,
                         uint64_t count)
{
	uint64_t end = request->computed_tokens + count;

	for (uint32_t g = 0; g < KVH_ENGINE_GROUPS; g++) {
		struct kvh_engine_table *table = &request->tables[g];
		uint32_t block_tokens = kvh_engine_groups[g].block_tokens;
		uint32_t had = table->count;

		for (uint32_t i = blocks_missing(request, g, end); i > 0; i--)
			table->ids[table->count++] = kvh_blocks_take(&engine->blocks[g]);
		for (uint32_t i = (uint32_t)(request->computed_tokens / block_tokens);
		     i < table->count; i++) {
			bool complete = (uint64_t)(i + 1) * block_tokens <= end;

			if (complete || i >= had)
				plan_fill(engine, request, g, i, complete);
		}
	}
	request->computed_tokens = end;
	if (request->known_tokens < end)
		request->known_tokens = end;
	engine->totals.computed_tokens += count;
}

static void plan_save(struct kvh_engine *engine, struct kvh_engine_request *request)
{
	uint64_t hashed = request->hash_count * KVH_ENGINE_HASH_TOKENS;
	uint64_t tokens = min_u64(request->computed_tokens, hashed);
	struct kvh_engine_job *job;

	tokens -= tokens % KVH_ENGINE_LCM_TOKENS;
	if (tokens <= request->saved_tokens)
		return;
	job = kvh_job_create(engine, request, tokens, false);
	if (!job) {
		engine->status = KVH_NO_MEMORY;
		return;
	}
	request->saved_tokens = tokens;
	engine->plan.saves[engine->plan.save_count++] = job;
	engine->totals.save_jobs++;
}

static uint64_t tokens_wanted(const struct kvh_engine *engine,
                              const struct kvh_engine_request *request)
{
	uint64_t count =
		min_u64(request->end_tokens - request->computed_tokens, KVH_ENGINE_DECODE_TOKENS);

	if (request->computed_tokens < request->known_tokens)
		count = min_u64(request->known_tokens - request->computed_tokens,
		                KVH_ENGINE_CHUNK_TOKENS);
	return min_u64(count, engine->budget_tokens);
}

static void plan_running(struct kvh_engine *engine)
{
	size_t at = 0;

	while (at < engine->running_count) {
		struct kvh_engine_request *request = engine->running[at];
		uint64_t count = tokens_wanted(engine, request);
		enum room room = ROOM_LATER;

		if (request->state == KVH_REQUEST_RUNNING && count) {
			drop_window(engine, request);
			room = make_room(engine, at, request->computed_tokens + count);
		}
		if (room == ROOM_READY) {
			plan_compute(engine, request, count);
			plan_save(engine, request);
			engine->budget_tokens -= (uint32_t)count;
		}
		if (room != ROOM_LOST)
			at++;
	}
}

/* The hit of the next request, agreed for all ranks by rank 0's worker. */
static uint64_t look_up(struct kvh_engine *engine, const struct kvh_engine_request *request)
{
	struct kvh_lookup lookup = {
		.struct_bytes = sizeof(lookup),
		.token_count = request->known_tokens,
		.hashes = request->hashes,
		.hash_count = request->hash_count,
	};
	struct kvh_lookup_result result = {.struct_bytes = sizeof(result)};
	struct kvh_error error = {0};
	kvh_status status;

	if (request->hash_count == 0)
		return 0;
	status = kvh_worker_lookup(engine->ranks[0].worker, &lookup, &result, &error);
	if (status == KVH_OK && result.hit_tokens % KVH_ENGINE_LCM_TOKENS == 0 &&
	    result.hit_tokens < request->known_tokens &&
	    result.hit_tokens <= request->hash_count * KVH_ENGINE_HASH_TOKENS)
		return result.hit_tokens;
	engine->totals.lookup_errors++;
	engine->defects++;
	kvh_engine_note(engine, "%s: lookup answered status %d, hit %llu of %llu tokens: %s",
	                request->name, status, (unsigned long long)result.hit_tokens,
	                (unsigned long long)request->known_tokens, error.text);
	return 0;
}

/* Blocks that a load of `hit` tokens and the first chunk behind it take. */
static bool admission_fits(const struct kvh_engine *engine,
                           const struct kvh_engine_request *request, uint64_t hit)
{
	uint64_t end = min_u64(request->known_tokens, hit + KVH_ENGINE_CHUNK_TOKENS);

	for (uint32_t g = 0; g < KVH_ENGINE_GROUPS; g++) {
		const struct kvh_engine_group *group = &kvh_engine_groups[g];
		uint64_t needed = (end + group->block_tokens - 1) / group->block_tokens;
		uint64_t hit_blocks = hit / group->block_tokens;

		if (group->kind == KVH_ATTENTION_SLIDING_WINDOW)
			needed -= hit_blocks - min_u64(hit_blocks, kvh_engine_window_blocks(group));
		if (needed > engine->blocks[g].free_count)
			return false;
	}
	return true;
}

/* Tables for a load: whole prefix of the full group, the window's end of the sliding one. */
static void take_load_blocks(struct kvh_engine *engine, struct kvh_engine_request *request,
                             uint64_t hit)
{
	for (uint32_t g = 0; g < KVH_ENGINE_GROUPS; g++) {
		const struct kvh_engine_group *group = &kvh_engine_groups[g];
		struct kvh_engine_table *table = &request->tables[g];

		table->count = (uint32_t)(hit / group->block_tokens);
		table->dropped_count = 0;
		if (group->kind == KVH_ATTENTION_SLIDING_WINDOW)
			table->dropped_count =
				table->count -
				(uint32_t)min_u64(table->count, kvh_engine_window_blocks(group));
		for (uint32_t i = 0; i < table->count; i++) {
			bool wanted = i >= table->dropped_count;

			table->ids[i] = wanted ? kvh_blocks_take(&engine->blocks[g]) : 0;
			kvh_request_content(request, engine->config.seed, g, i,
			                    &table->contents[i]);
		}
	}
}

static void plan_load(struct kvh_engine *engine, struct kvh_engine_request *request, uint64_t hit)
{
	struct kvh_engine_job *job;

	take_load_blocks(engine, request, hit);
	job = kvh_job_create(engine, request, hit, true);
	if (!job) {
		engine->status = KVH_NO_MEMORY;
		return;
	}
	request->state = KVH_REQUEST_LOADING;
	engine->plan.loads[engine->plan.load_count++] = job;
	engine->totals.load_jobs++;
}

static void count_lookup(struct kvh_engine_totals *totals, struct kvh_engine_request *request,
                         uint64_t hit)
{
	if (request->admitted_before) {
		totals->resume_lookup_tokens += request->known_tokens;
		totals->resume_hit_tokens += hit;
	} else {
		totals->lookup_tokens += request->known_tokens;
		totals->hit_tokens += hit;
		totals->requests_started++;
	}
	request->admitted_before = true;
}

bool kvh_schedule_holds_back(const struct kvh_engine *engine)
{
	return engine->neighbour && engine->neighbour_came &&
	       engine->next_request >= engine->request_count / 2 &&
	       !kvh_neighbour_is_full(engine->neighbour);
}

static struct kvh_engine_request *next_waiting(struct kvh_engine *engine)
{
	if (engine->preempted_count)
		return engine->preempted[0];
	if (engine->next_request == engine->request_count || engine->totals.stopped_early ||
	    kvh_schedule_holds_back(engine))
		return NULL;
	return &engine->requests[engine->next_request];
}

static void leave_waiting(struct kvh_engine *engine)
{
	if (engine->preempted_count)
		remove_at(engine->preempted, &engine->preempted_count, 0);
	else
		engine->next_request++;
}

/* Admits the next waiting request; false: none, or it does not fit now. */
static bool admit_one(struct kvh_engine *engine)
{
	struct kvh_engine_request *request = next_waiting(engine);
	uint64_t hit;

	if (!request)
		return false;
	if (!request->memory && !kvh_request_begin(request, engine->config.seed)) {
		engine->status = KVH_NO_MEMORY;
		return false;
	}
	if (!admission_fits(engine, request, 0))
		return false;
	hit = look_up(engine, request);
	if (!admission_fits(engine, request, hit))
		return false;
	leave_waiting(engine);
	count_lookup(&engine->totals, request, hit);
	engine->running[engine->running_count++] = request;
	request->state = KVH_REQUEST_RUNNING;
	if (hit) {
		plan_load(engine, request, hit);
		return true;
	}
	uint64_t count = tokens_wanted(engine, request);

	plan_compute(engine, request, count);
	plan_save(engine, request);
	engine->budget_tokens -= (uint32_t)count;
	return true;
}

/* Requests that are through: their blocks are compared once more, then the workers hear of it. */
static void plan_finished(struct kvh_engine *engine)
{
	struct kvh_engine_plan *plan = &engine->plan;

	for (size_t at = 0; at < engine->running_count;) {
		struct kvh_engine_request *request = engine->running[at];

		if (request->computed_tokens < request->end_tokens) {
			at++;
			continue;
		}
		remove_at(engine->running, &engine->running_count, at);
		request->state = KVH_REQUEST_FINISHED;
		plan->finished[plan->finished_count++] = request;
		for (uint32_t g = 0; g < KVH_ENGINE_GROUPS; g++)
			for (uint32_t i = request->tables[g].dropped_count;
			     i < request->tables[g].count; i++)
				plan->checks[plan->check_count++] = (struct kvh_engine_block_task){
					.request = request,
					.group = g,
					.block_index = i,
					.block_id = request->tables[g].ids[i],
					.content = request->tables[g].contents[i],
				};
	}
}

void kvh_schedule_step(struct kvh_engine *engine)
{
	struct kvh_engine_plan *plan = &engine->plan;

	plan->check_count = plan->fill_count = 0;
	plan->preempted_count = plan->finished_count = plan->load_count = plan->save_count = 0;
	engine->budget_tokens = KVH_ENGINE_STEP_TOKENS;
	plan_finished(engine);
	plan_running(engine);
	while (plan->preempted_count == 0 && engine->budget_tokens &&
	       engine->running_count + plan->finished_count < KVH_ENGINE_RUNNING_MAX &&
	       admit_one(engine) && engine->status == KVH_OK)
		continue;
	engine->totals.steps++;
}

/* What a load brought decides where the request goes on; the rest is computed. */
static void end_load(struct kvh_engine *engine, struct kvh_engine_job *job)
{
	struct kvh_engine_request *request = job->request;
	uint64_t usable = kvh_job_usable_tokens(job, engine->config.rank_count);

	if (usable < job->token_count) {
		engine->totals.failed_loads++;
		engine->totals.lost_tokens += job->token_count - usable;
		truncate_tables(engine, request, usable);
	}
	request->computed_tokens = usable;
	request->saved_tokens = usable;
	request->state = KVH_REQUEST_RUNNING;
}

/* A save that a rank refused is made good by the next one. */
static void end_save(struct kvh_engine *engine, struct kvh_engine_job *job)
{
	for (uint32_t r = 0; r < engine->config.rank_count; r++)
		if (job->parts[r].refused)
			job->request->saved_tokens = 0;
}

static void end_part(struct kvh_engine *engine, struct kvh_engine_job *job)
{
	if (--job->parts_left)
		return;
	if (job->is_load)
		end_load(engine, job);
	else
		end_save(engine, job);
	kvh_job_complete(engine, job);
}

void kvh_schedule_collect(struct kvh_engine *engine)
{
	struct kvh_engine_plan *plan = &engine->plan;

	for (uint32_t r = 0; r < engine->config.rank_count; r++) {
		struct kvh_engine_job *job = engine->ranks[r].done_first;

		engine->ranks[r].done_first = NULL;
		while (job) {
			struct kvh_engine_job *next = job->parts[r].next_done;

			end_part(engine, job);
			job = next;
		}
	}
	for (size_t i = 0; i < plan->finished_count; i++) {
		struct kvh_engine_request *request = plan->finished[i];

		engine->totals.requests_done++;
		engine->totals.prompt_tokens += request->trace->prompt_tokens;
		engine->totals.output_tokens += request->trace->output_tokens;
		truncate_tables(engine, request, 0);
		kvh_request_end(request);
	}
}

bool kvh_schedule_idle(const struct kvh_engine *engine)
{
	bool none_left =
		engine->next_request == engine->request_count || engine->totals.stopped_early;

	return none_left && engine->running_count == 0 && engine->preempted_count == 0 &&
	       engine->live_job_count == 0;
}
