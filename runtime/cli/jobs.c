/* SPDX-License-Identifier: Apache-2.0 */
/* Save and load jobs of the modelled engine: their block lists, pins, and what a load was worth. */
#include "engine.h"

#include <stdlib.h>
#include <string.h>

static uint64_t min_u64(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* Counts of the job's table entries per group, and the bytes of one allocation for all of it. */
static size_t measure(uint64_t token_count, bool is_load, uint32_t rank_count,
                      size_t counts[KVH_ENGINE_GROUPS])
{
	size_t bytes = sizeof(struct kvh_engine_job);

	for (uint32_t g = 0; g < KVH_ENGINE_GROUPS; g++) {
		counts[g] = token_count / kvh_engine_groups[g].block_tokens;
		bytes += counts[g] * sizeof(int32_t);
		if (is_load)
			bytes += counts[g] * (sizeof(uint64_t) + rank_count);
	}
	return bytes;
}

static void lay_out(struct kvh_engine_job *job, const size_t counts[KVH_ENGINE_GROUPS],
                    uint32_t rank_count)
{
	char *at = (char *)(job + 1);

	for (uint32_t g = 0; job->is_load && g < KVH_ENGINE_GROUPS; g++) {
		job->contents[g] = (uint64_t *)at;
		at += counts[g] * sizeof(uint64_t);
	}
	for (uint32_t g = 0; g < KVH_ENGINE_GROUPS; g++) {
		int32_t *ids = (int32_t *)at;

		at += counts[g] * sizeof(int32_t);
		memcpy(ids, job->request->tables[g].ids, counts[g] * sizeof(int32_t));
		job->tables[g] = (struct kvh_block_table){.ids = ids, .count = counts[g]};
	}
	for (uint32_t g = 0; job->is_load && g < KVH_ENGINE_GROUPS; g++) {
		memcpy(job->contents[g], job->request->tables[g].contents,
		       counts[g] * sizeof(uint64_t));
		for (uint32_t r = 0; r < rank_count; r++) {
			job->parts[r].failed[g] = (uint8_t *)at;
			at += counts[g];
		}
	}
}

static bool enter(struct kvh_engine *engine, struct kvh_engine_job *job)
{
	uint64_t id = engine->last_job_id + 1;

	if (id >= engine->job_capacity) {
		size_t capacity = engine->job_capacity ? engine->job_capacity * 2 : 1024;
		struct kvh_engine_job **jobs =
			reallocarray(engine->jobs, capacity, sizeof(struct kvh_engine_job *));

		if (!jobs)
			return false;
		engine->jobs = jobs;
		engine->job_capacity = capacity;
	}
	job->id = id;
	engine->jobs[id] = job;
	engine->last_job_id = id;
	engine->live_job_count++;
	return true;
}

/* Pins or unpins every block of the job. */
static void move_pins(struct kvh_engine *engine, const struct kvh_engine_job *job,
                      bool (*move)(struct kvh_blocks *, int32_t))
{
	for (uint32_t g = 0; g < KVH_ENGINE_GROUPS; g++)
		for (size_t i = 0; i < job->tables[g].count; i++) {
			int32_t id = job->tables[g].ids[i];

			if (id != KVH_NULL_BLOCK && !move(&engine->blocks[g], id)) {
				engine->defects++;
				kvh_engine_note(engine, "job %llu: block %d of group %u is not its",
				                (unsigned long long)job->id, id, g);
			}
		}
}

struct kvh_engine_job *kvh_job_create(struct kvh_engine *engine, struct kvh_engine_request *request,
                                      uint64_t token_count, bool is_load)
{
	uint32_t rank_count = engine->config.rank_count;
	size_t counts[KVH_ENGINE_GROUPS];
	struct kvh_engine_job *job = calloc(1, measure(token_count, is_load, rank_count, counts));

	if (!job)
		return NULL;
	job->is_load = is_load;
	job->request = request;
	job->token_count = token_count;
	job->parts_left = rank_count;
	lay_out(job, counts, rank_count);
	if (!enter(engine, job)) {
		free(job);
		return NULL;
	}
	move_pins(engine, job, kvh_blocks_pin);
	job->submitted_ns = engine->env->ops->now_ns(engine->env->ctx);
	return job;
}

void kvh_job_complete(struct kvh_engine *engine, struct kvh_engine_job *job)
{
	move_pins(engine, job, kvh_blocks_unpin);
	engine->jobs[job->id] = NULL;
	engine->live_job_count--;
	free(job);
}

struct kvh_engine_job *kvh_job_find(const struct kvh_engine *engine, uint64_t job_id)
{
	if (job_id == 0 || job_id > engine->last_job_id)
		return NULL;
	return engine->jobs[job_id];
}

static bool block_good(const struct kvh_engine_job *job, uint32_t rank_count, uint32_t group,
                       size_t index)
{
	if (job->tables[group].ids[index] == KVH_NULL_BLOCK)
		return false;
	for (uint32_t r = 0; r < rank_count; r++)
		if (job->parts[r].refused || job->parts[r].failed[group][index])
			return false;
	return true;
}

/* Whether all that the group needs in front of token position at was loaded. */
static bool group_ready(const struct kvh_engine_job *job, uint32_t rank_count, uint32_t g,
                        uint64_t at)
{
	const struct kvh_engine_group *group = &kvh_engine_groups[g];
	uint64_t end = at / group->block_tokens;
	uint64_t first = 0;

	if (group->kind == KVH_ATTENTION_SLIDING_WINDOW)
		first = end - min_u64(end, kvh_engine_window_blocks(group));
	for (uint64_t i = first; i < end; i++)
		if (!block_good(job, rank_count, g, i))
			return false;
	return true;
}

uint64_t kvh_job_usable_tokens(const struct kvh_engine_job *job, uint32_t rank_count)
{
	uint64_t at = job->token_count;

	for (; at > 0; at -= KVH_ENGINE_LCM_TOKENS) {
		bool ready = true;

		for (uint32_t g = 0; g < KVH_ENGINE_GROUPS && ready; g++)
			ready = group_ready(job, rank_count, g, at);
		if (ready)
			return at;
	}
	return 0;
}
