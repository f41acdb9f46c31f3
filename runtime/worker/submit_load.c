/* SPDX-License-Identifier: Apache-2.0 */
/* Handing in a load: its chunks are chosen here, so that a bad one is refused (R-30, R-31, D-21).
 */
#include "base/error.h"
#include "base/fault.h"
#include "base/size.h"
#include "layout/chunks.h"
#include "worker/submit.h"

/* A load on its way in. */
struct load_plan {
	struct kvh_worker *worker;
	const struct kvh_load_job *job;
	uint64_t start_tokens;
	struct kvh_masks masks;
};

static kvh_status check_tail_keys(struct kvh_worker *worker, const struct kvh_load_job *job,
                                  struct kvh_error *error)
{
	if (job->tail_key_count && !job->tail_keys)
		return kvh_fail(error, KVH_INVALID_PARAMS,
		                "tail_keys: NULL, but tail_key_count is %zu", job->tail_key_count);
	if (job->tail_key_count > KVH_GROUPS_MAX)
		return kvh_fail(error, KVH_INVALID_PARAMS, "tail_keys: %zu, at most %d",
		                job->tail_key_count, KVH_GROUPS_MAX);
	for (size_t i = 0; i < job->tail_key_count; i++) {
		const struct kvh_tail_key *key = &job->tail_keys[i];
		uint64_t chunk_end;

		if (key->group >= worker->group_count)
			return kvh_fail(error, KVH_INVALID_PARAMS,
			                "tail_keys[%zu].group: %u of %zu", i, key->group,
			                worker->group_count);
		if (!worker->groups[key->group].participates)
			continue;
		chunk_end = kvh_div_up(job->token_count,
		                       worker->groups[key->group].config.block_tokens) *
		            worker->groups[key->group].config.block_tokens;
		/* D-17: another place would name other tokens than the block holds. */
		if (key->tokens % worker->hash_tokens || key->tokens < job->token_count ||
		    key->tokens > chunk_end ||
		    key->tokens / worker->hash_tokens > job->hash_count || !key->tokens)
			return kvh_fail(error, KVH_INVALID_PARAMS,
			                "tail_keys[%zu].tokens: %llu is not a hash boundary from "
			                "%llu to %llu that a hash names",
			                i, (unsigned long long)key->tokens,
			                (unsigned long long)job->token_count,
			                (unsigned long long)chunk_end);
	}
	return KVH_OK;
}

/*
 * A hit ends at a multiple of the alignment, in some groups of the block: what lies behind would be
 * neither loaded nor reported, and the engine would believe in it (D-13).
 */
static kvh_status check_end(const struct load_plan *plan, struct kvh_error *error)
{
	const struct kvh_worker *worker = plan->worker;

	for (uint32_t g = 0; g < worker->group_count; g++) {
		const struct kvh_mask *mask = &plan->masks.group[g];
		uint32_t block_tokens = worker->groups[g].config.block_tokens;

		if (worker->groups[g].participates &&
		    mask->first_chunk + mask->count <
		            kvh_div_up(plan->job->token_count, block_tokens))
			return kvh_fail(
				error, KVH_INVALID_PARAMS,
				"token_count: no hit can end at %llu (group %u has blocks of %u "
				"tokens, hits end at multiples of %u)",
				(unsigned long long)plan->job->token_count, g, block_tokens,
				kvh_coordinator_align_tokens(worker->coordinator));
	}
	return KVH_OK;
}

static uint64_t first_chunk(const struct load_plan *plan, uint32_t group)
{
	return kvh_div_up(plan->start_tokens, plan->worker->groups[group].config.block_tokens);
}

static size_t count_chunks(const struct load_plan *plan)
{
	size_t count = 0;

	for (uint32_t g = 0; g < plan->worker->group_count; g++) {
		const struct kvh_mask *mask = &plan->masks.group[g];
		uint64_t end = mask->first_chunk + mask->count;

		if (!plan->worker->groups[g].participates)
			continue;
		for (uint64_t c = first_chunk(plan, g); c < end; c++)
			count += kvh_mask_has(mask, c);
	}
	return count;
}

/* a chunk that ends where the load ends is keyed by the tail boundary's hash, if there is
 * one. */
static uint64_t hash_index(const struct load_plan *plan, uint32_t group,
                           const struct kvh_chunk *chunk)
{
	const struct kvh_load_job *job = plan->job;

	for (size_t i = 0; i < job->tail_key_count && chunk->end_token == job->token_count; i++) {
		if (job->tail_keys[i].group == group)
			return job->tail_keys[i].tokens / plan->worker->hash_tokens - 1;
	}
	return chunk->hash_index;
}

static kvh_status fill_group(const struct load_plan *plan, uint32_t group, struct load_chunk **out,
                             struct kvh_error *error)
{
	struct kvh_worker *worker = plan->worker;
	const struct kvh_mask *mask = &plan->masks.group[group];
	const int32_t *ids = plan->job->blocks[group].ids;
	uint64_t end = mask->first_chunk + mask->count;

	for (uint64_t c = first_chunk(plan, group); c < end; c++) {
		struct kvh_chunk chunk;
		kvh_status status;

		if (!kvh_mask_has(mask, c))
			continue;
		chunk = kvh_chunk_at(c, worker->groups[group].config.block_tokens,
		                     worker->hash_tokens, plan->job->token_count);
		status = kvh_submit_check_block(worker, "blocks", group, ids[c], error);
		if (status)
			return status;
		if (ids[c] == KVH_NULL_BLOCK)
			return kvh_fail(error, KVH_INVALID_PARAMS,
			                "blocks[%u].ids[%llu]: the null block can't be loaded into",
			                group, (unsigned long long)c);
		*(*out)++ = (struct load_chunk){.group = group,
		                                .block_index = (uint32_t)c,
		                                .block_id = ids[c],
		                                .failed = true,
		                                .status = KVH_NO_ANSWER,
		                                .hash_index = hash_index(plan, group, &chunk)};
	}
	return KVH_OK;
}

/* Whether some block stands twice among the chunks of one group; table: 2^n >= 2 * count, zeroed.
 */
static const struct load_chunk *find_twin(const struct load_chunk *chunks, size_t count,
                                          uint32_t *table, size_t mask)
{
	for (size_t i = 0; i < count; i++) {
		size_t at = (uint64_t)chunks[i].block_id * 0x9e3779b97f4a7c15u >> 32 & mask;

		for (; table[at]; at = (at + 1) & mask) {
			const struct load_chunk *other = &chunks[table[at] - 1];

			if (other->block_id == chunks[i].block_id &&
			    other->group == chunks[i].group)
				return &chunks[i];
		}
		table[at] = (uint32_t)i + 1;
	}
	return NULL;
}

/* Two chunks in one block would overwrite each other, and the engine would believe in both. */
static kvh_status check_distinct(const struct load_part *load, struct kvh_error *error)
{
	const struct load_chunk *twin;
	size_t places = 4;
	uint32_t *table;

	while (places < 2 * load->chunk_count)
		places *= 2;
	table = kvh_calloc(places, sizeof(*table));
	if (!table)
		return kvh_fail(error, KVH_NO_MEMORY, "no memory to check the load's blocks");
	twin = find_twin(load->chunks, load->chunk_count, table, places - 1);
	kvh_free(table);
	if (!twin)
		return KVH_OK;
	return kvh_fail(error, KVH_INVALID_PARAMS,
	                "blocks[%u].ids[%u]: block %d stands in the table twice", twin->group,
	                twin->block_index, twin->block_id);
}

static kvh_status build(struct load_plan *plan, const struct job_input *in, struct worker_job **out,
                        struct kvh_error *error)
{
	struct kvh_worker *worker = plan->worker;
	size_t count = count_chunks(plan);
	size_t bytes = 0;
	struct load_chunk *next;
	struct kvh_arena arena;
	struct worker_job *job = NULL;
	kvh_status status = KVH_OK;

	if (kvh_submit_count(worker, in, &bytes) && kvh_arena_count(&bytes, count, sizeof(*next)))
		job = kvh_submit_build(worker, in, bytes, &arena);
	if (!job)
		return kvh_fail(error, KVH_NO_MEMORY, "no memory for the job");
	job->is_load = true;
	job->load.chunks = kvh_arena_take(&arena, count, sizeof(*next));
	job->load.chunk_count = count;
	if (worker->load_timeout_ns)
		job->load.deadline_ns = kvh_deadline_after(worker->env, worker->load_timeout_ns);
	next = job->load.chunks;
	for (uint32_t g = 0; g < worker->group_count && !status; g++) {
		if (worker->groups[g].participates)
			status = fill_group(plan, g, &next, error);
	}
	if (!status)
		status = check_distinct(&job->load, error);
	if (status)
		kvh_free(job);
	else
		*out = job;
	return status;
}

static kvh_status submit(struct load_plan *plan, struct kvh_error *error)
{
	struct kvh_worker *worker = plan->worker;
	const struct kvh_load_job *job = plan->job;
	const struct job_input in = {.job_id = job->job_id,
	                             .user = job->user,
	                             .request = job->request,
	                             .token_count = job->token_count,
	                             .needed_tokens = job->token_count,
	                             .blocks = job->blocks,
	                             .hashes = job->hashes,
	                             .hash_count = job->hash_count,
	                             .event = job->event};
	struct worker_job *built = NULL;
	kvh_status status = kvh_submit_check(worker, &in, error);

	if (!status && job->token_count % worker->hash_tokens)
		status = kvh_fail(error, KVH_INVALID_PARAMS,
		                  "token_count: %llu is not a multiple of hash_tokens %u",
		                  (unsigned long long)job->token_count, worker->hash_tokens);
	if (!status)
		status = kvh_submit_check_tables(worker, &in, error);
	if (!status)
		status = check_tail_keys(worker, job, error);
	if (!status &&
	    kvh_load_mask(worker->coordinator, job->hash_count, job->token_count, &plan->masks))
		status = kvh_fail(error, KVH_NO_MEMORY, "no memory for the load's masks");
	if (!status)
		status = check_end(plan, error);
	if (!status)
		status = build(plan, &in, &built, error);
	if (status)
		return status;
	status = kvh_submit_enter(worker, built, error);
	if (status)
		kvh_free(built);
	return status;
}

kvh_status kvh_worker_load(struct kvh_worker *worker, const struct kvh_load_job *job,
                           struct kvh_error *error)
{
	struct load_plan plan = {.worker = worker, .job = job};
	kvh_status status = kvh_submit_ready(worker, error);

	if (status)
		return status;
	if (!job || job->struct_bytes < sizeof(*job))
		return kvh_fail(error, KVH_INVALID_PARAMS, "load: job with its struct_bytes");
	plan.start_tokens = kvh_round_down(job->cached_token_count, worker->lcm_tokens);
	status = submit(&plan, error);
	kvh_masks_fini(&plan.masks);
	return status;
}
