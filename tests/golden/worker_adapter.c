/* SPDX-License-Identifier: Apache-2.0 */
/* The real worker as a system that replays scenarios. */
#include "worker_adapter.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker/inspect.h"

enum { BLOCKS = 1 << 20, LOAD_IDS_FROM = 1 << 30 };

/* The replayer can't go on without a worker; the scenario is at fault, or the worker. */
static void must(kvh_status status, const struct kvh_error *error, const struct trace *trace)
{
	if (!status)
		return;
	fprintf(stderr, "%s: can't set up the worker: %d %s\n", trace->name, status, error->text);
	exit(2);
}

static enum kvh_attention attention(enum group_kind kind)
{
	switch (kind) {
	case GROUP_FULL:
		return KVH_ATTENTION_FULL;
	case GROUP_SLIDING_WINDOW:
		return KVH_ATTENTION_SLIDING_WINDOW;
	case GROUP_MAMBA:
		return KVH_ATTENTION_MAMBA;
	case GROUP_CHUNKED_LOCAL:
		return KVH_ATTENTION_CHUNKED_LOCAL;
	}
	abort();
}

static void fill_groups(const struct trace_config *in, struct kvh_group *groups)
{
	for (size_t g = 0; g < in->group_count; g++) {
		const struct trace_group *from = &in->groups[g];

		groups[g] = (struct kvh_group){.kind = attention(from->kind),
		                               .block_tokens = (uint32_t)from->block_size,
		                               .window_tokens = (uint32_t)from->window,
		                               .eagle = from->eagle,
		                               .opts_out = !from->participates,
		                               .kv_heads = (uint32_t)from->kv_heads,
		                               .put_step = (uint32_t)from->put_step};
	}
}

static void fill_ranks(const struct trace_config *in, struct kvh_worker_config *config)
{
	config->tp_rank = (uint32_t)in->tp_rank;
	config->tp_size = config->tp_rank + 1;
	for (size_t g = 0; g < in->group_count; g++)
		if (config->tp_size < (uint32_t)in->groups[g].put_step)
			config->tp_size = (uint32_t)in->groups[g].put_step;
	config->pcp_rank = (uint32_t)in->pcp_rank;
	config->pcp_size = config->pcp_rank + 1;
	config->dcp_rank = (uint32_t)in->dcp_rank;
	config->dcp_size = config->dcp_rank + 1;
	config->pp_rank = (uint32_t)in->pp_rank;
	config->pp_size = config->pp_rank + 1;
	if (!in->groups[0].shard_count)
		return;
	config->format = strstr(in->store_namespace, "lbnhc") ? KVH_FORMAT_TP_SHARED_LBNHC
	                                                      : KVH_FORMAT_TP_SHARED_LBHNC;
	config->tp_size = (uint32_t)in->groups[0].local_tp;
	config->store_tp_size = (uint32_t)in->groups[0].store_tp;
}

static void record(void *user, const struct kvh_record *record)
{
	static const char *const names[] = {"save_exists", "save_put", "load_get"};
	static const char *const words[] = {"ok", "partial_failure", "error"};
	struct adapter *adapter = user;
	struct step_record *seen = &adapter->seen;

	if (!adapter->config->record_ops)
		return;
	seen->ops = arena_grow(adapter->arena, seen->ops, seen->op_count, &seen->op_room,
	                       sizeof(*seen->ops));
	seen->ops[seen->op_count++] =
		(struct op_record){.name = names[record->name],
	                           .status = words[record->status],
	                           .key_count = (int64_t)record->key_count,
	                           .failed_count = (int64_t)record->failed_count,
	                           .payload_bytes = (int64_t)record->bytes};
}

/* The recordings give the model as it stands in keys, with its slashes. */
static char *model_name(struct adapter *adapter)
{
	char *name = arena_text(adapter->arena, "%s", adapter->config->model_name);

	for (char *c = name; *c; c++)
		if (*c == '/')
			*c = '|';
	return name;
}

static void open_worker(struct adapter *adapter)
{
	const struct trace_config *in = adapter->config;
	struct kvh_group groups[TRACE_MAX_GROUPS];
	struct kvh_error error = {0};
	struct kvh_worker_config config = {.struct_bytes = sizeof(config),
	                                   .env = coenv_env(adapter->coenv),
	                                   .device = &adapter->device,
	                                   .identity_none = true,
	                                   .model = model_name(adapter),
	                                   .cache_prefix = in->cache_prefix,
	                                   .groups = groups,
	                                   .group_count = in->group_count,
	                                   .hash_tokens = (uint32_t)in->hash_block_size,
	                                   .hash_bytes = (uint32_t)in->hash_bytes,
	                                   .lcm_tokens = (uint32_t)in->lcm_block_size,
	                                   .partial_hits = in->partial_hash_hits,
	                                   .use_eagle = in->use_eagle,
	                                   .has_retention = in->has_retention,
	                                   .retention_tokens = (uint32_t)in->retention_interval,
	                                   .events = in->enable_kv_event,
	                                   .integer_hashes = in->int_event_hashes,
	                                   .lifecycle_groups = in->group_semantics,
	                                   .tier_log = in->tier_log,
	                                   .pressure_probe_ms = -1,
	                                   .load_timeout_ms = -1,
	                                   .record = record,
	                                   .record_user = adapter};

	fill_groups(in, groups);
	fill_ranks(in, &config);
	if (in->has_disk_budget) {
		/* 0 means "none" to the worker; one byte refuses every key just as well. */
		config.staging_bytes = in->disk_budget_bytes ? (uint64_t)in->disk_budget_bytes : 1;
		config.staging_usable_ratio = in->disk_usable_ratio;
	}
	must(kvh_worker_open(adapter->store, &config, &adapter->worker, &error), &error,
	     adapter->trace);
}

/* The region of which the recorded templates are the shards. */
static struct kvh_cache_region shared_region(const struct trace_group *group, uint32_t g, size_t i)
{
	const struct trace_shard *first = &group->shards[0];

	return (struct kvh_cache_region){.group = g,
	                                 .base = (void *)(uintptr_t)first->bases.at[i],
	                                 .stride_bytes = (size_t)first->strides.at[i],
	                                 .block_bytes =
	                                         (size_t)first->sizes.at[i] * group->shard_count};
}

static void register_caches(struct adapter *adapter)
{
	const struct trace_config *in = adapter->config;
	struct kvh_cache_region regions[64];
	uint64_t block_counts[TRACE_MAX_GROUPS];
	const struct kvh_memory memory = {
		.addr = (void *)1, .bytes = (size_t)1 << 46, .kind = KVH_MEMORY_HOST};
	struct kvh_caches caches = {.struct_bytes = sizeof(caches),
	                            .memory = &memory,
	                            .memory_count = 1,
	                            .regions = regions,
	                            .block_counts = block_counts};
	struct kvh_error error = {0};

	for (uint32_t g = 0; g < in->group_count; g++) {
		const struct trace_group *group = &in->groups[g];
		size_t lens = group->block_lens.count;

		block_counts[g] = BLOCKS;
		for (size_t i = 0; group->shard_count && i < group->shards[0].bases.count; i++)
			regions[caches.region_count++] = shared_region(group, g, i);
		for (size_t i = 0; !group->shard_count && i < group->base_addrs.count; i++)
			regions[caches.region_count++] = (struct kvh_cache_region){
				.group = g,
				.base = (void *)(uintptr_t)group->base_addrs.at[i],
				.stride_bytes = (size_t)group->block_lens.at[i % lens],
				.block_bytes = (size_t)group->block_lens.at[i % lens]};
	}
	must(kvh_worker_register_caches(adapter->worker, &caches, &error), &error, adapter->trace);
}

static void *create(const void *options, const struct trace *trace, struct script *script)
{
	struct adapter *adapter = arena_take(trace->arena, 1, sizeof(*adapter));
	const struct kvh_error none = {.text = "store"};

	(void)options;
	adapter->arena = trace->arena;
	adapter->trace = trace;
	adapter->config = &trace->config;
	adapter->script = script;
	adapter->coenv = coenv_open();
	adapter->device = (struct kvh_device){.ops = &adapter_device_ops, .ctx = adapter};
	adapter->next_load_id = LOAD_IDS_FROM;
	must(adapter_open_store(adapter), &none, trace);
	open_worker(adapter);
	register_caches(adapter);
	for (size_t i = 0; i < 2; i++)
		coenv_resume(adapter->coenv, i); /* up to its first question for a job */
	return adapter;
}

/* ---- operations ------------------------------------------------------------------------ */

static int32_t *ids_of(struct arena *arena, const struct ints *list)
{
	int32_t *ids = arena_take(arena, list->count + 1, sizeof(*ids));

	for (size_t i = 0; i < list->count; i++)
		ids[i] = (int32_t)list->at[i];
	return ids;
}

static struct kvh_block_table *tables_of(struct adapter *adapter, const struct trace_job *job)
{
	size_t count = adapter->config->group_count;
	struct kvh_block_table *tables = arena_take(adapter->arena, count, sizeof(*tables));

	for (size_t g = 0; g < count; g++)
		tables[g] = (struct kvh_block_table){.ids = ids_of(adapter->arena, &job->blocks[g]),
		                                     .count = job->blocks[g].count};
	return tables;
}

static unsigned nibble(char c)
{
	return (unsigned)(c <= '9' ? c - '0' : c - 'a' + 10);
}

static uint8_t *hashes_of(struct adapter *adapter, const struct trace_job *job)
{
	size_t bytes = (size_t)adapter->config->hash_bytes;
	uint8_t *hashes = arena_take(adapter->arena, job->hash_count * bytes + 1, 1);

	for (size_t i = 0; i < job->hash_count; i++)
		for (size_t b = 0; b < bytes; b++)
			hashes[i * bytes + b] = (uint8_t)(nibble(job->hashes[i][2 * b]) << 4 |
			                                  nibble(job->hashes[i][2 * b + 1]));
	return hashes;
}

static struct kvh_boundary *boundaries_of(struct arena *arena, const struct trace_boundaries *list)
{
	struct kvh_boundary *out = arena_take(arena, list->count + 1, sizeof(*out));

	for (size_t i = 0; i < list->count; i++)
		out[i] = (struct kvh_boundary){.group = (uint32_t)list->at[i].group,
		                               .block_id = (int32_t)list->at[i].block,
		                               .tokens = (uint64_t)list->at[i].tokens};
	return list->given ? out : NULL;
}

static struct kvh_request_id request_of(const char *name)
{
	return (struct kvh_request_id){.data = name, .bytes = strlen(name)};
}

static struct adapter_place *push(struct adapter *adapter, struct adapter_queue *queue,
                                  uint64_t job_id, const char *req)
{
	queue->at = arena_grow(adapter->arena, queue->at, queue->count, &queue->room,
	                       sizeof(*queue->at));
	queue->at[queue->count] = (struct adapter_place){.job_id = job_id, .req = req};
	return &queue->at[queue->count++];
}

static bool submit_save(struct adapter *adapter, const struct trace_job *in)
{
	int32_t *token_ids =
		arena_take(adapter->arena, (size_t)in->token_id_count + 1, sizeof(*token_ids));
	const struct kvh_save_job job = {.struct_bytes = sizeof(job),
	                                 .job_id = (uint64_t)in->job_id,
	                                 .request = request_of(in->req),
	                                 .token_count = (uint64_t)in->token_len,
	                                 .blocks = tables_of(adapter, in),
	                                 .hashes = hashes_of(adapter, in),
	                                 .hash_count = in->hash_count,
	                                 .has_prefill_end = in->has_prompt,
	                                 .prefill_end_tokens = (uint64_t)in->prompt,
	                                 .event = in->event ? (void *)(uintptr_t)in : NULL,
	                                 .token_ids = in->has_token_ids ? token_ids : NULL,
	                                 .token_id_count = (size_t)in->token_id_count,
	                                 .token_ids_start = (uint64_t)in->token_ids_start,
	                                 .tail = boundaries_of(adapter->arena, &in->tail),
	                                 .tail_count = in->tail.count,
	                                 .boundary_puts = boundaries_of(adapter->arena, &in->puts),
	                                 .boundary_put_count = in->puts.count};
	struct adapter_place *place = push(adapter, &adapter->saves, job.job_id, in->req);

	for (int64_t i = 0; i < in->token_id_count; i++)
		token_ids[i] = (int32_t)(in->first_token_id + i);
	place->empty = kvh_worker_save(adapter->worker, &job, NULL) != KVH_OK;
	/* Submitted as a job of an earlier life: stale from the start. */
	if (!place->empty && !in->registered)
		kvh_worker_preempt(adapter->worker, job.request);
	return place->empty;
}

static bool submit_load(struct adapter *adapter, const struct trace_job *in)
{
	struct kvh_tail_key *tails =
		arena_take(adapter->arena, in->tail_keys.count + 1, sizeof(*tails));
	const struct kvh_load_job job = {.struct_bytes = sizeof(job),
	                                 .job_id = adapter->next_load_id++,
	                                 .request = request_of(in->req),
	                                 .token_count = (uint64_t)in->token_len,
	                                 .cached_token_count = (uint64_t)in->cached,
	                                 .blocks = tables_of(adapter, in),
	                                 .hashes = hashes_of(adapter, in),
	                                 .hash_count = in->hash_count,
	                                 .tail_keys = tails,
	                                 .tail_key_count = in->tail_keys.count};
	struct adapter_place *place = push(adapter, &adapter->loads, job.job_id, in->req);

	for (size_t i = 0; i < in->tail_keys.count; i++)
		tails[i] = (struct kvh_tail_key){.group = (uint32_t)in->tail_keys.at[i].group,
		                                 .tokens = (uint64_t)in->tail_keys.at[i].tokens};
	place->empty = kvh_worker_load(adapter->worker, &job, NULL) != KVH_OK;
	return place->empty;
}

/* Runs the oldest place of a queue, if there is a job in it. */
static bool run(struct adapter *adapter, struct adapter_queue *queue, size_t thread)
{
	uint64_t job_id;

	if (queue->next >= queue->count || queue->at[queue->next].empty) {
		queue->next += queue->next < queue->count;
		return false;
	}
	job_id = queue->at[queue->next].job_id;
	queue->at[queue->next++].empty = true;
	coenv_resume(adapter->coenv, thread);
	return kvh_inspect_raised(adapter->worker, job_id);
}

/* a load that had not begun is cancelled with its request. */
static void empty_loads(struct adapter *adapter, const char *req)
{
	for (size_t i = adapter->loads.next; i < adapter->loads.count; i++)
		if (strcmp(adapter->loads.at[i].req, req) == 0)
			adapter->loads.at[i].empty = true;
}

static void forget(struct adapter *adapter, const char *req)
{
	empty_loads(adapter, req);
	kvh_worker_preempt(adapter->worker, request_of(req));
}

static void poll(struct adapter *adapter, const struct trace_op *op)
{
	struct kvh_request_id *finished =
		arena_take(adapter->arena, op->finished.count + 1, sizeof(*finished));

	for (size_t i = 0; i < op->preempted.count; i++)
		forget(adapter, op->preempted.at[i]);
	for (size_t i = 0; i < op->finished.count; i++) {
		empty_loads(adapter, op->finished.at[i]);
		finished[i] = request_of(op->finished.at[i]);
	}
	kvh_worker_finish(adapter->worker, finished, op->finished.count);
}

static bool step(void *system, const struct trace_op *op, struct step_result *result)
{
	struct adapter *adapter = system;
	bool error = false;

	result->is_drain = op->kind == OP_DRAIN;
	result->is_poll = op->kind == OP_POLL;
	switch (op->kind) {
	case OP_SUBMIT_SAVE:
		return submit_save(adapter, &op->job);
	case OP_SUBMIT_LOAD:
		return submit_load(adapter, &op->job);
	case OP_RUN_SAVE:
		error = run(adapter, &adapter->saves, 0);
		break;
	case OP_RUN_LOAD:
		error = run(adapter, &adapter->loads, 1);
		break;
	case OP_DELETE:
		forget(adapter, op->req);
		break;
	case OP_POLL:
		poll(adapter, op);
		break;
	case OP_DRAIN:
		adapter_drain(adapter, result);
		break;
	}
	return error;
}

static void observe(void *system, struct step_record *record)
{
	struct adapter *adapter = system;

	adapter_collect(adapter);
	record->ops = adapter->seen.ops;
	record->op_count = adapter->seen.op_count;
	record->events = adapter->seen.events;
	record->event_count = adapter->seen.event_count;
	adapter->seen = (struct step_record){0};
	adapter_state(adapter, &record->state);
}

static void destroy(void *system)
{
	struct adapter *adapter = system;

	kvh_worker_destroy(adapter->worker);
	kvh_store_close(adapter->store, 0);
	coenv_close(adapter->coenv);
}

const struct replay_ops *golden_worker_ops(void)
{
	static const struct replay_ops ops = {.name = "worker",
	                                      .create = create,
	                                      .step = step,
	                                      .observe = observe,
	                                      .destroy = destroy};

	return &ops;
}
