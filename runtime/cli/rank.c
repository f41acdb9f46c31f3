/* SPDX-License-Identifier: Apache-2.0 */
/* One rank of the modelled engine: its memory, its worker, and what it does in a step. */
#include "engine.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "pattern.h"

enum { POLL_COUNT = 64 };

/* How long closing may take before the run counts as hung. */
static const uint64_t close_ns = UINT64_C(20000000000);

static uint64_t now_ns(const struct kvh_engine_rank *rank)
{
	return rank->engine->env->ops->now_ns(rank->engine->env->ctx);
}

__attribute__((format(printf, 2, 3))) static void note(struct kvh_engine_rank *rank,
                                                       const char *format, ...)
{
	va_list words;

	if (rank->note_count == KVH_ENGINE_NOTES_MAX)
		return;
	va_start(words, format);
	vsnprintf(rank->notes[rank->note_count++], KVH_ENGINE_NOTE_BYTES, format, words);
	va_end(words);
}

/* ---- memory ---------------------------------------------------------------------------- */

static unsigned char *piece(const struct kvh_engine_rank *rank, uint32_t g, uint32_t region,
                            int32_t block_id)
{
	const struct kvh_engine_group *group = &kvh_engine_groups[g];

	return rank->group_base[g] +
	       ((size_t)region * group->block_count + (size_t)block_id) * group->region_bytes;
}

static uint64_t piece_content(const struct kvh_engine_rank *rank, uint32_t region, uint64_t content)
{
	return kvh_pattern_mix(content, ((uint64_t)rank->index << 32) + region);
}

static void fill_block(struct kvh_engine_rank *rank, const struct kvh_engine_block_task *task)
{
	const struct kvh_engine_group *group = &kvh_engine_groups[task->group];

	for (uint32_t i = 0; i < group->region_count; i++)
		kvh_pattern_fill(piece(rank, task->group, i, task->block_id), group->region_bytes,
		                 piece_content(rank, i, task->content));
}

/* Compares every byte of the block; the first difference is noted. */
static bool check_block(struct kvh_engine_rank *rank, const struct kvh_engine_block_task *task,
                        const char *when)
{
	const struct kvh_engine_group *group = &kvh_engine_groups[task->group];

	for (uint32_t i = 0; i < group->region_count; i++) {
		size_t at = kvh_pattern_check(piece(rank, task->group, i, task->block_id),
		                              group->region_bytes,
		                              piece_content(rank, i, task->content));

		if (at == group->region_bytes)
			continue;
		rank->counts.mismatched_blocks++;
		note(rank,
		     "WRONG BYTES %s: %s, rank %u, group %u, block index %u (id %d), region %u, "
		     "in the %d bytes from %zu",
		     when, task->request->name, rank->index, task->group, task->block_index,
		     task->block_id, i, KVH_PATTERN_LINE_BYTES, at);
		return false;
	}
	return true;
}

/* ---- opening --------------------------------------------------------------------------- */

/* Of the keys that did not fail; the blocks of all groups have the same size. */
static uint64_t moved_bytes(const struct kvh_record *record)
{
	return record->bytes / record->key_count * (record->key_count - record->failed_count);
}

static void on_record(void *user, const struct kvh_record *record)
{
	struct kvh_engine_rank *rank = user;

	if (record->name == KVH_RECORD_LOAD_GET) {
		atomic_fetch_add_explicit(&rank->get_bytes, moved_bytes(record),
		                          memory_order_relaxed);
		atomic_fetch_add_explicit(&rank->get_ns, record->duration_ns, memory_order_relaxed);
	} else if (record->name == KVH_RECORD_SAVE_PUT) {
		atomic_fetch_add_explicit(&rank->put_bytes, moved_bytes(record),
		                          memory_order_relaxed);
		atomic_fetch_add_explicit(&rank->put_ns, record->duration_ns, memory_order_relaxed);
	}
}

static kvh_status map_memory(struct kvh_engine_rank *rank, struct kvh_error *error)
{
	size_t offsets[KVH_ENGINE_GROUPS];
	void *memory;

	rank->memory_bytes = 0;
	for (uint32_t g = 0; g < KVH_ENGINE_GROUPS; g++) {
		offsets[g] = rank->memory_bytes;
		rank->memory_bytes += kvh_engine_block_bytes(&kvh_engine_groups[g]) *
		                      kvh_engine_groups[g].block_count;
	}
	memory = mmap(NULL, rank->memory_bytes, PROT_READ | PROT_WRITE,
	              MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (memory == MAP_FAILED) {
		snprintf(error->text, sizeof(error->text), "no %zu bytes of memory for rank %u",
		         rank->memory_bytes, rank->index);
		return error->status = KVH_NO_MEMORY;
	}
	rank->memory = memory;
	for (uint32_t g = 0; g < KVH_ENGINE_GROUPS; g++)
		rank->group_base[g] = rank->memory + offsets[g];
	return KVH_OK;
}

static kvh_status register_caches(struct kvh_engine_rank *rank, struct kvh_error *error)
{
	struct kvh_cache_region regions[KVH_ENGINE_GROUPS * KVH_ENGINE_REGIONS_MAX];
	const struct kvh_memory memory = {
		.addr = rank->memory, .bytes = rank->memory_bytes, .kind = KVH_MEMORY_HOST};
	uint64_t block_counts[KVH_ENGINE_GROUPS];
	size_t count = 0;

	for (uint32_t g = 0; g < KVH_ENGINE_GROUPS; g++) {
		const struct kvh_engine_group *group = &kvh_engine_groups[g];

		block_counts[g] = group->block_count;
		for (uint32_t i = 0; i < group->region_count; i++)
			regions[count++] = (struct kvh_cache_region){
				.group = g,
				.base = piece(rank, g, i, 0),
				.stride_bytes = group->region_bytes,
				.block_bytes = group->region_bytes,
			};
	}
	const struct kvh_caches caches = {
		.struct_bytes = sizeof(caches),
		.memory = &memory,
		.memory_count = 1,
		.regions = regions,
		.region_count = count,
		.block_counts = block_counts,
	};

	return kvh_worker_register_caches(rank->worker, &caches, error);
}

static kvh_status open_worker(struct kvh_engine_rank *rank, struct kvh_error *error)
{
	struct kvh_group groups[KVH_ENGINE_GROUPS] = {0};
	char identity[64];
	const struct kvh_worker_config config = {
		.struct_bytes = sizeof(config),
		.env = rank->engine->env,
		.identity = identity,
		.identity_bytes =
			(size_t)snprintf(identity, sizeof(identity), "kvhold demo, seed %llu",
	                                 (unsigned long long)rank->engine->config.seed),
		.model = "kvhold/demo",
		.tp_rank = rank->index,
		.tp_size = rank->engine->config.rank_count,
		.groups = groups,
		.group_count = KVH_ENGINE_GROUPS,
		.hash_tokens = KVH_ENGINE_HASH_TOKENS,
		.hash_bytes = KVH_ENGINE_HASH_BYTES,
		.record = on_record,
		.record_user = rank,
	};

	for (uint32_t g = 0; g < KVH_ENGINE_GROUPS; g++) {
		groups[g].kind = kvh_engine_groups[g].kind;
		groups[g].block_tokens = kvh_engine_groups[g].block_tokens;
		groups[g].window_tokens = kvh_engine_groups[g].window_tokens;
	}
	return kvh_worker_open(rank->engine->config.stores[rank->index], &config, &rank->worker,
	                       error);
}

kvh_status kvh_rank_open(struct kvh_engine_rank *rank, struct kvh_error *error)
{
	kvh_status status = map_memory(rank, error);

	if (status == KVH_OK)
		status = open_worker(rank, error);
	if (status == KVH_OK)
		status = register_caches(rank, error);
	return status;
}

kvh_status kvh_rank_close(struct kvh_engine_rank *rank)
{
	size_t left;

	if (rank->worker) {
		kvh_status status = kvh_worker_close(rank->worker, now_ns(rank) + close_ns, &left);

		if (status != KVH_OK)
			return status;
		kvh_worker_destroy(rank->worker);
		rank->worker = NULL;
	}
	if (rank->memory)
		munmap(rank->memory, rank->memory_bytes);
	rank->memory = NULL;
	return KVH_OK;
}

/* ---- jobs ------------------------------------------------------------------------------ */

static struct kvh_request_id request_id(const struct kvh_engine_request *request)
{
	return (struct kvh_request_id){.data = request->name, .bytes = strlen(request->name)};
}

static void part_done(struct kvh_engine_rank *rank, struct kvh_engine_job *job, kvh_status status)
{
	struct kvh_engine_part *part = &job->parts[rank->index];

	part->done = true;
	part->status = status;
	part->next_done = rank->done_first;
	rank->done_first = job;
}

/* A job that was not taken has no completion: it ends here. Only a full queue is a fair reason. */
static void part_refused(struct kvh_engine_rank *rank, struct kvh_engine_job *job,
                         kvh_status status, const struct kvh_error *error)
{
	job->parts[rank->index].refused = true;
	if (status == KVH_BUSY && !job->is_load) {
		rank->counts.refused_saves++;
	} else {
		rank->counts.defects++;
		note(rank, "rank %u: %s of %s was refused: %s: %s", rank->index,
		     job->is_load ? "load" : "save", job->request->name, kvh_strstatus(status),
		     error->text);
	}
	part_done(rank, job, status);
}

static void submit_load(struct kvh_engine_rank *rank, struct kvh_engine_job *job)
{
	struct kvh_error error = {0};
	const struct kvh_load_job load = {
		.struct_bytes = sizeof(load),
		.job_id = job->id,
		.request = request_id(job->request),
		.token_count = job->token_count,
		.blocks = job->tables,
		.hashes = job->request->hashes,
		.hash_count = job->request->hash_count,
	};
	kvh_status status = kvh_worker_load(rank->worker, &load, &error);

	if (status != KVH_OK)
		part_refused(rank, job, status, &error);
}

static void submit_save(struct kvh_engine_rank *rank, struct kvh_engine_job *job)
{
	struct kvh_error error = {0};
	const struct kvh_save_job save = {
		.struct_bytes = sizeof(save),
		.job_id = job->id,
		.request = request_id(job->request),
		.token_count = job->token_count,
		.blocks = job->tables,
		.hashes = job->request->hashes,
		.hash_count = job->request->hash_count,
		.has_prompt = true,
		.prompt_tokens = job->request->trace->prompt_tokens,
	};
	kvh_status status = kvh_worker_save(rank->worker, &save, &error);

	if (status != KVH_OK)
		part_refused(rank, job, status, &error);
}

/* ---- completions ----------------------------------------------------------------------- */

/* The self-test: one bit that the comparison has to find. */
static void corrupt_once(struct kvh_engine_rank *rank, const struct kvh_engine_block_task *task)
{
	const struct kvh_engine_group *group = &kvh_engine_groups[task->group];

	if (!rank->engine->config.corrupt_one || rank->index != 0 || rank->corrupted)
		return;
	rank->corrupted = true;
	piece(rank, task->group, group->region_count - 1,
	      task->block_id)[group->region_bytes - 1] ^= 0x10;
}

/* Every byte of every block that the load did not report as failed. */
static void check_load(struct kvh_engine_rank *rank, const struct kvh_engine_job *job)
{
	const struct kvh_engine_part *part = &job->parts[rank->index];

	for (uint32_t g = 0; g < KVH_ENGINE_GROUPS; g++)
		for (uint32_t i = 0; i < job->tables[g].count; i++) {
			const struct kvh_engine_block_task task = {
				.request = job->request,
				.group = g,
				.block_index = i,
				.block_id = job->tables[g].ids[i],
				.content = job->contents[g][i],
			};

			if (task.block_id == KVH_NULL_BLOCK || part->failed[g][i])
				continue;
			corrupt_once(rank, &task);
			check_block(rank, &task, "after a load");
			rank->counts.loaded_bytes += kvh_engine_block_bytes(&kvh_engine_groups[g]);
		}
}

static void take_failed(struct kvh_engine_rank *rank, struct kvh_engine_job *job,
                        const struct kvh_completion *entry)
{
	struct kvh_engine_part *part = &job->parts[rank->index];

	if (!job->is_load || entry->group >= KVH_ENGINE_GROUPS ||
	    entry->block_index >= job->tables[entry->group].count ||
	    entry->block_id != job->tables[entry->group].ids[entry->block_index]) {
		rank->counts.defects++;
		note(rank, "rank %u: job %llu reported a block that is not its: group %u, index %u",
		     rank->index, (unsigned long long)entry->job_id, entry->group,
		     entry->block_index);
		return;
	}
	part->failed[entry->group][entry->block_index] = 1;
	part->failed_count++;
	rank->counts.failed_blocks++;
}

static void take_done(struct kvh_engine_rank *rank, struct kvh_engine_job *job,
                      const struct kvh_completion *entry)
{
	uint64_t waited = now_ns(rank) - job->submitted_ns;
	uint64_t *waited_max =
		job->is_load ? &rank->counts.load_wait_ns_max : &rank->counts.save_wait_ns_max;

	if (waited > *waited_max)
		*waited_max = waited;
	if (job->is_load)
		check_load(rank, job);
	part_done(rank, job, entry->status);
}

static void take_completion(struct kvh_engine_rank *rank, const struct kvh_completion *entry)
{
	struct kvh_engine_job *job = kvh_job_find(rank->engine, entry->job_id);
	bool is_done = entry->kind == KVH_SAVE_DONE || entry->kind == KVH_LOAD_DONE;

	if (entry->kind == KVH_EVENT)
		kvh_stored_event_free(entry->event);
	if (!is_done && entry->kind != KVH_BLOCK_FAILED)
		return;
	rank->taken_count++;
	if (!job || job->parts[rank->index].done ||
	    (is_done && job->is_load != (entry->kind == KVH_LOAD_DONE))) {
		rank->counts.defects++;
		note(rank, "rank %u: job %llu completed twice, or was never handed in", rank->index,
		     (unsigned long long)entry->job_id);
		return;
	}
	if (is_done)
		take_done(rank, job, entry);
	else
		take_failed(rank, job, entry);
}

static void take_completions(struct kvh_engine_rank *rank)
{
	struct kvh_completion entries[POLL_COUNT];
	size_t count = POLL_COUNT;

	while (count == POLL_COUNT) {
		kvh_status status = kvh_worker_poll(rank->worker, entries, sizeof(entries[0]),
		                                    POLL_COUNT, &count);

		if (status != KVH_OK) {
			rank->counts.defects++;
			note(rank, "rank %u: poll failed: %s", rank->index, kvh_strstatus(status));
			return;
		}
		for (size_t i = 0; i < count; i++)
			take_completion(rank, &entries[i]);
	}
}

/* ---- the step -------------------------------------------------------------------------- */

/* Called in every step, also with none: the worker forgets drained requests then. */
static void tell_finished(struct kvh_engine_rank *rank, const struct kvh_engine_plan *plan)
{
	struct kvh_request_id ids[KVH_ENGINE_RUNNING_MAX];

	for (size_t i = 0; i < plan->finished_count; i++)
		ids[i] = request_id(plan->finished[i]);
	kvh_worker_finish(rank->worker, ids, plan->finished_count);
}

void kvh_rank_step(struct kvh_engine_rank *rank)
{
	const struct kvh_engine_plan *plan = &rank->engine->plan;

	for (size_t i = 0; i < plan->preempted_count; i++)
		kvh_worker_preempt(rank->worker, request_id(plan->preempted[i]));
	for (size_t i = 0; i < plan->check_count; i++) {
		const struct kvh_engine_block_task *task = &plan->checks[i];

		check_block(rank, task, "in a finished request's block");
		rank->counts.checked_bytes +=
			kvh_engine_block_bytes(&kvh_engine_groups[task->group]);
	}
	tell_finished(rank, plan);
	for (size_t i = 0; i < plan->load_count; i++)
		submit_load(rank, plan->loads[i]);
	for (size_t i = 0; i < plan->fill_count; i++)
		fill_block(rank, &plan->fills[i]);
	for (size_t i = 0; i < plan->save_count; i++)
		submit_save(rank, plan->saves[i]);
	take_completions(rank);
}
