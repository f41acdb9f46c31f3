/* SPDX-License-Identifier: Apache-2.0 */
/* The modelled engine as a whole: opening, the loop of steps, samples, the hang guard, closing. */
#include "engine.h"

#include <stdio.h>
#include <stdlib.h>

#include "neighbour.h"

/*
 * The neighbour comes when so many percent of the requests are done. Once it holds all, it stays
 * until some more are done, or for so long: a slow store must not spend the whole run under it. It
 * doesn't leave before a save has met it, however slow the machine.
 */
enum { NEIGHBOUR_FROM_PERCENT = 2, NEIGHBOUR_STAY_PERCENT = 3, NEIGHBOUR_STAY_REQUESTS = 8 };
static const uint64_t neighbour_ns = UINT64_C(2000000000);

static const uint64_t hang_ns = UINT64_C(60000000000); /* no progress for so long is a failure */
static const uint64_t show_ns = UINT64_C(200000000);
static const uint64_t idle_ns = UINT64_C(50000);

static uint64_t now_ns(const struct kvh_engine *engine)
{
	return engine->env->ops->now_ns(engine->env->ctx);
}

/* ---- opening --------------------------------------------------------------------------- */

static kvh_status no_memory(struct kvh_error *error)
{
	snprintf(error->text, sizeof(error->text), "no memory for the modelled engine");
	return error->status = KVH_NO_MEMORY;
}

/* Every request must be able to run alone, else preemption would go in circles. */
static kvh_status set_up_requests(struct kvh_engine *engine, struct kvh_error *error)
{
	const struct kvh_trace *trace = engine->config.trace;
	const struct kvh_engine_group *full = &kvh_engine_groups[0];
	uint64_t tokens_max = (uint64_t)(full->block_count - 1) * full->block_tokens;

	engine->request_count = trace->request_count;
	engine->requests = calloc(engine->request_count, sizeof(*engine->requests));
	if (!engine->requests)
		return no_memory(error);
	engine->totals.requests_all = engine->request_count;
	for (size_t i = 0; i < engine->request_count; i++) {
		struct kvh_engine_request *request = &engine->requests[i];

		request->trace = &trace->requests[i];
		request->trace_hashes = trace->hash_ids + request->trace->hash_first;
		request->index = (uint32_t)i;
		request->known_tokens = request->trace->prompt_tokens;
		request->end_tokens =
			(uint64_t)request->trace->prompt_tokens + request->trace->output_tokens;
		snprintf(request->name, sizeof(request->name), "request-%u", request->index);
		if (request->end_tokens > tokens_max) {
			snprintf(error->text, sizeof(error->text),
			         "request %zu of the trace has %llu tokens; the demo's engine has "
			         "blocks for %llu",
			         i + 1, (unsigned long long)request->end_tokens,
			         (unsigned long long)tokens_max);
			return error->status = KVH_TOO_LARGE;
		}
	}
	return KVH_OK;
}

static kvh_status set_up_blocks(struct kvh_engine *engine, struct kvh_error *error)
{
	size_t task_count = 0;

	for (uint32_t g = 0; g < KVH_ENGINE_GROUPS; g++) {
		if (!kvh_blocks_init(&engine->blocks[g], kvh_engine_groups[g].block_count))
			return no_memory(error);
		task_count += kvh_engine_groups[g].block_count;
	}
	engine->plan.checks = calloc(task_count, sizeof(*engine->plan.checks));
	engine->plan.fills = calloc(task_count, sizeof(*engine->plan.fills));
	return engine->plan.checks && engine->plan.fills ? KVH_OK : no_memory(error);
}

static kvh_status open_neighbour(struct kvh_engine *engine, struct kvh_error *error)
{
	kvh_status status;

	if (!engine->config.neighbour)
		return KVH_OK;
	status = kvh_neighbour_open(engine->config.stores[0], engine->env,
	                            kvh_engine_block_bytes(&kvh_engine_groups[0]),
	                            &engine->neighbour, error);
	return status == KVH_NOT_SUPPORTED ? KVH_OK : status;
}

/* A rank's thread: carries out each step when it is announced. */
static void rank_main(void *arg)
{
	struct kvh_engine_rank *rank = arg;
	struct kvh_engine *engine = rank->engine;
	const struct kvh_env *env = engine->env;
	uint64_t seen = 0;
	bool stopping = false;

	while (!stopping) {
		env->ops->mutex_lock(env->ctx, engine->lock);
		while (engine->step == seen && !engine->stopping)
			env->ops->cond_wait(env->ctx, engine->changed, engine->lock, 0);
		stopping = engine->stopping;
		seen = engine->step;
		env->ops->mutex_unlock(env->ctx, engine->lock);
		if (stopping)
			break;
		kvh_rank_step(rank);
		env->ops->mutex_lock(env->ctx, engine->lock);
		if (--engine->ranks_busy == 0)
			env->ops->cond_broadcast(env->ctx, engine->changed);
		env->ops->mutex_unlock(env->ctx, engine->lock);
	}
}

static kvh_status open_ranks(struct kvh_engine *engine, struct kvh_error *error)
{
	const struct kvh_env *env = engine->env;
	kvh_status status = env->ops->mutex_create(env->ctx, &engine->lock);

	if (status == KVH_OK)
		status = env->ops->cond_create(env->ctx, &engine->changed);
	for (uint32_t r = 0; r < engine->config.rank_count && status == KVH_OK; r++) {
		struct kvh_engine_rank *rank = &engine->ranks[r];
		char name[24];

		rank->engine = engine;
		rank->index = r;
		status = kvh_rank_open(rank, error);
		snprintf(name, sizeof(name), "demo-rank-%u", r);
		if (status == KVH_OK)
			status = env->ops->thread_create(env->ctx, &rank->thread, name, rank_main,
			                                 rank);
	}
	return status;
}

kvh_status kvh_engine_create(const struct kvh_engine_config *config, struct kvh_engine **engine,
                             struct kvh_error *error)
{
	struct kvh_engine *made = calloc(1, sizeof(*made));
	kvh_status status;

	if (!made)
		return no_memory(error);
	made->config = *config;
	made->env = kvh_env_posix();
	status = set_up_requests(made, error);
	if (status == KVH_OK)
		status = set_up_blocks(made, error);
	if (status == KVH_OK)
		status = open_neighbour(made, error);
	if (status == KVH_OK)
		status = open_ranks(made, error);
	if (status == KVH_OK)
		*engine = made;
	else
		kvh_engine_destroy(made);
	/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): kept while bytes may still move */
	return status;
}

/* ---- the loop -------------------------------------------------------------------------- */

static void run_ranks(struct kvh_engine *engine)
{
	const struct kvh_env *env = engine->env;

	env->ops->mutex_lock(env->ctx, engine->lock);
	engine->step++;
	engine->ranks_busy = engine->config.rank_count;
	env->ops->cond_broadcast(env->ctx, engine->changed);
	while (engine->ranks_busy)
		env->ops->cond_wait(env->ctx, engine->changed, engine->lock, 0);
	env->ops->mutex_unlock(env->ctx, engine->lock);
}

static void take_sample(struct kvh_engine *engine)
{
	uint64_t due = engine->sample_count * engine->totals.requests_all / KVH_ENGINE_SAMPLES;
	struct kvh_store_stats stats = {.struct_bytes = sizeof(stats)};
	struct kvh_engine_sample *sample;

	if (engine->totals.requests_done < due || engine->sample_count > KVH_ENGINE_SAMPLES)
		return;
	if (kvh_store_get_stats(engine->config.stores[0], &stats) != KVH_OK)
		return;
	sample = &engine->samples[engine->sample_count++];
	*sample = (struct kvh_engine_sample){
		.at_ns = now_ns(engine) - engine->started_ns,
		.requests_done = engine->totals.requests_done,
		.lookup_tokens = engine->totals.lookup_tokens,
		.hit_tokens = engine->totals.hit_tokens,
		.used_bytes = stats.used_bytes,
		.capacity_bytes = stats.capacity_bytes,
		.evicted_keys = stats.evicted_keys,
	};
	for (uint32_t r = 0; r < engine->config.rank_count; r++) {
		sample->get_bytes += engine->ranks[r].get_bytes;
		sample->put_bytes += engine->ranks[r].put_bytes;
	}
}

static bool pressure_was_met(const struct kvh_engine *engine)
{
	for (uint32_t r = 0; r < engine->config.rank_count; r++) {
		struct kvh_worker_stats stats = {.struct_bytes = sizeof(stats)};

		if (kvh_worker_get_stats(engine->ranks[r].worker, &stats) == KVH_OK &&
		    stats.pressure_episodes)
			return true;
	}
	return false;
}

/* Whether it has held everything for long enough. */
static bool neighbour_may_leave(struct kvh_engine *engine)
{
	uint64_t stay = engine->totals.requests_all * NEIGHBOUR_STAY_PERCENT / 100;

	if (!kvh_neighbour_is_full(engine->neighbour))
		return false;
	if (engine->neighbour_full_ns == 0) {
		engine->neighbour_full_ns = now_ns(engine);
		engine->neighbour_full_requests = engine->totals.requests_done;
	}
	if (stay < NEIGHBOUR_STAY_REQUESTS)
		stay = NEIGHBOUR_STAY_REQUESTS;
	return (engine->totals.requests_done >= engine->neighbour_full_requests + stay ||
	        now_ns(engine) - engine->neighbour_full_ns > neighbour_ns) &&
	       pressure_was_met(engine);
}

static void move_neighbour(struct kvh_engine *engine)
{
	uint64_t percent = engine->totals.requests_done * 100 / engine->totals.requests_all;
	kvh_status status = KVH_OK;

	if (!engine->neighbour || percent < NEIGHBOUR_FROM_PERCENT)
		return;
	if (!engine->neighbour_came) {
		engine->neighbour_came = true;
		status = kvh_neighbour_start(engine->neighbour);
	} else if (neighbour_may_leave(engine)) {
		status = kvh_neighbour_close(engine->neighbour);
		engine->neighbour = NULL;
	}
	if (status != KVH_OK) {
		engine->status = status;
		kvh_engine_note(engine, "the neighbour's calls failed: %s", kvh_strstatus(status));
	}
}

static void show_progress(struct kvh_engine *engine, uint64_t now)
{
	if (!engine->config.progress || now - engine->shown_ns < show_ns)
		return;
	engine->shown_ns = now;
	fprintf(stderr, "\r%llu of %llu requests, %llu preemptions, %zu jobs under way ",
	        (unsigned long long)engine->totals.requests_done,
	        (unsigned long long)engine->totals.requests_all,
	        (unsigned long long)engine->totals.preemptions, engine->live_job_count);
}

static uint64_t taken_count(const struct kvh_engine *engine)
{
	uint64_t taken = 0;

	for (uint32_t r = 0; r < engine->config.rank_count; r++)
		taken += engine->ranks[r].taken_count;
	return taken;
}

static bool did_something(const struct kvh_engine *engine, uint64_t taken_before)
{
	const struct kvh_engine_plan *plan = &engine->plan;

	return taken_count(engine) != taken_before || plan->fill_count || plan->load_count ||
	       plan->finished_count;
}

/* What surrounds a step: limits, samples, the neighbour, waiting when there was nothing to do. */
static void after_step(struct kvh_engine *engine, bool busy)
{
	uint64_t now = now_ns(engine);

	if (busy || kvh_schedule_holds_back(engine))
		engine->progress_ns = now;
	else
		engine->env->ops->sleep_ns(engine->env->ctx, idle_ns);
	if (now - engine->progress_ns > hang_ns) {
		engine->status = KVH_TIMEOUT;
		engine->defects++;
		kvh_engine_note(engine, "nothing moved for 60 s: %zu jobs never completed",
		                engine->live_job_count);
	}
	if (engine->config.time_limit_ns &&
	    now - engine->started_ns > engine->config.time_limit_ns &&
	    engine->next_request < engine->request_count)
		engine->totals.stopped_early = true;
	take_sample(engine);
	move_neighbour(engine);
	show_progress(engine, now);
}

/* All blocks must be home when no job and no request is left. */
static void check_blocks_home(struct kvh_engine *engine)
{
	for (uint32_t g = 0; g < KVH_ENGINE_GROUPS; g++) {
		uint32_t free_count = engine->blocks[g].free_count;

		if (free_count == kvh_engine_groups[g].block_count - 1)
			continue;
		engine->defects++;
		kvh_engine_note(engine, "group %u: %u of %u blocks came home", g, free_count,
		                kvh_engine_groups[g].block_count - 1);
	}
}

/* A self-test that found nothing to spoil has tested nothing. */
static void check_self_test(struct kvh_engine *engine)
{
	if (!engine->config.corrupt_one || engine->ranks[0].corrupted)
		return;
	engine->defects++;
	kvh_engine_note(engine, "self-test: no block was loaded, so none was spoiled");
}

kvh_status kvh_engine_run(struct kvh_engine *engine, struct kvh_error *error)
{
	engine->started_ns = engine->progress_ns = now_ns(engine);
	while (engine->status == KVH_OK && !kvh_schedule_idle(engine)) {
		uint64_t taken = taken_count(engine);

		kvh_schedule_step(engine);
		if (engine->status != KVH_OK)
			break;
		run_ranks(engine);
		kvh_schedule_collect(engine);
		after_step(engine, did_something(engine, taken));
	}
	engine->totals.elapsed_ns = now_ns(engine) - engine->started_ns;
	if (engine->config.progress)
		fprintf(stderr, "\r%70s\r", "");
	check_self_test(engine);
	if (engine->status == KVH_OK)
		check_blocks_home(engine);
	else
		snprintf(error->text, sizeof(error->text), "%s",
		         engine->note[0] ? engine->note : kvh_strstatus(engine->status));
	return engine->status;
}

/* ---- closing --------------------------------------------------------------------------- */

static void stop_ranks(struct kvh_engine *engine)
{
	const struct kvh_env *env = engine->env;

	if (!engine->lock || !engine->changed)
		return;
	env->ops->mutex_lock(env->ctx, engine->lock);
	engine->stopping = true;
	env->ops->cond_broadcast(env->ctx, engine->changed);
	env->ops->mutex_unlock(env->ctx, engine->lock);
	for (uint32_t r = 0; r < engine->config.rank_count; r++)
		if (engine->ranks[r].thread) {
			env->ops->thread_join(env->ctx, engine->ranks[r].thread);
			engine->ranks[r].thread = NULL;
		}
}

static void free_engine(struct kvh_engine *engine)
{
	const struct kvh_env *env = engine->env;

	for (uint64_t id = 1; id <= engine->last_job_id; id++)
		free(engine->jobs[id]);
	for (size_t i = 0; engine->requests && i < engine->request_count; i++)
		kvh_request_end(&engine->requests[i]);
	for (uint32_t g = 0; g < KVH_ENGINE_GROUPS; g++)
		kvh_blocks_fini(&engine->blocks[g]);
	if (engine->changed)
		env->ops->cond_destroy(env->ctx, engine->changed);
	if (engine->lock)
		env->ops->mutex_destroy(env->ctx, engine->lock);
	free(engine->jobs);
	free(engine->requests);
	free(engine->plan.checks);
	free(engine->plan.fills);
	free(engine);
}

kvh_status kvh_engine_close(struct kvh_engine *engine)
{
	kvh_status status = KVH_OK, left;

	stop_ranks(engine);
	for (uint32_t r = 0; r < engine->config.rank_count; r++) {
		kvh_status closed = kvh_rank_close(&engine->ranks[r]);

		if (closed != KVH_OK)
			status = closed;
	}
	left = kvh_neighbour_close(engine->neighbour);
	engine->neighbour = NULL;
	return status != KVH_OK ? status : left;
}

kvh_status kvh_engine_destroy(struct kvh_engine *engine)
{
	kvh_status status = engine ? kvh_engine_close(engine) : KVH_OK;

	if (engine && status == KVH_OK)
		free_engine(engine);
	return status;
}
