/* SPDX-License-Identifier: Apache-2.0 */
/* Loads a transfer scenario: the line itself and its config. */
#include "trace_parts.h"

#include <string.h>

bool trace_group_kind(const char *name, enum group_kind *kind)
{
	static const char *const names[] = {"full", "sliding_window", "mamba", "chunked_local"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (strcmp(names[i], name) == 0) {
			*kind = (enum group_kind)i;
			return true;
		}
	}
	return false;
}

static void read_shards(struct jread *in, json_t *object, struct trace_group *group)
{
	json_t *templates = jread_array(in, object, "templates");
	json_t *value;
	size_t i;

	group->local_tp = jread_int(in, object, "local_tp");
	group->store_tp = jread_int(in, object, "store_tp");
	group->kv_heads = jread_int(in, object, "num_kv_heads");
	if (group->local_tp < 1 || group->store_tp % group->local_tp != 0)
		jread_fail(in, "shards", "store_tp is not a multiple of local_tp");
	group->shard_count = json_array_size(templates);
	group->shards = arena_take(in->arena, group->shard_count + 1, sizeof(*group->shards));
	for (i = 0; i < json_array_size(templates); i++) {
		value = json_array_get(templates, i);
		struct trace_shard *shard = &group->shards[i];

		shard->bases = jread_int_list(in, jread_array(in, value, "bases"), "bases");
		shard->strides = jread_int_list(in, jread_array(in, value, "strides"), "strides");
		shard->sizes = jread_int_list(in, jread_array(in, value, "sizes"), "sizes");
		if (shard->strides.count != shard->bases.count ||
		    shard->sizes.count != shard->bases.count)
			jread_fail(in, "templates", "lists of unequal length");
	}
}

static void read_group(struct jread *in, json_t *object, struct trace_group *group)
{
	if (!trace_group_kind(jread_text(in, object, "kind"), &group->kind))
		jread_fail(in, "kind", "unknown kind of group");
	group->block_size = jread_int(in, object, "block_size");
	group->window = jread_int_or(in, object, "window", 0);
	group->eagle = jread_bool_or(in, object, "eagle", false);
	group->put_step = jread_int(in, object, "put_step");
	group->participates = jread_bool_or(in, object, "participates", true);
	group->key_prefix = jread_text(in, object, "key_prefix");
	group->base_addrs = jread_int_list(in, jread_array(in, object, "base_addrs"), "base_addrs");
	group->block_lens = jread_int_list(in, jread_array(in, object, "block_lens"), "block_lens");
	if (jread_present(object, "shards"))
		read_shards(in, json_object_get(object, "shards"), group);
	else if (group->block_lens.count == 0)
		jread_fail(in, "block_lens", "is empty");
	if (group->block_size < 1 || group->put_step < 1)
		jread_fail(in, "groups", "block_size and put_step must be positive");
}

static void read_groups(struct jread *in, json_t *object, struct trace_config *config)
{
	json_t *groups = jread_array(in, object, "groups");
	size_t i;

	if (json_array_size(groups) == 0 || json_array_size(groups) > TRACE_MAX_GROUPS) {
		jread_fail(in, "groups", "1 to 16 groups are needed");
		return;
	}
	config->group_count = json_array_size(groups);
	for (i = 0; i < json_array_size(groups); i++)
		read_group(in, json_array_get(groups, i), &config->groups[i]);
}

/* C-1, as far as a wrong setup would mislead the model. */
static void check_sizes(struct jread *in, const struct trace_config *config)
{
	if (config->tp_rank < 0)
		jread_fail(in, "tp_rank", "is below 0");
	if (config->lcm_block_size % config->hash_block_size != 0)
		jread_fail(in, "lcm_block_size", "is not a multiple of hash_block_size");
	for (size_t g = 0; g < config->group_count; g++) {
		const struct trace_group *group = &config->groups[g];

		if (!group->participates)
			continue;
		if (group->block_size % config->hash_block_size != 0 ||
		    config->lcm_block_size % group->block_size != 0)
			jread_fail(in, "block_size", "is off the grid of hashes or of the lcm");
		if (group->kind == GROUP_CHUNKED_LOCAL && group->window < 1)
			jread_fail(in, "window", "must be positive");
	}
}

static void read_chains(struct jread *in, json_t *object, struct trace_config *config)
{
	json_t *chains = json_object_get(object, "chains");
	const char *name;
	json_t *value;

	config->chains =
		arena_take(in->arena, json_object_size(chains) + 1, sizeof(*config->chains));
	json_object_foreach (chains, name, value) {
		struct trace_chain *chain = &config->chains[config->chain_count++];

		chain->name = arena_text(in->arena, "%s", name);
		chain->hashes = jread_text_list(in, value, "chains");
	}
}

static void read_switches(struct jread *in, json_t *object, struct trace_config *config)
{
	config->enable_kv_event = jread_bool_or(in, object, "enable_kv_event", false);
	config->int_event_hashes = jread_bool_or(in, object, "int_event_hashes", false);
	config->group_semantics = jread_bool_or(in, object, "group_semantics", false);
	config->supports_group_ids = jread_bool_or(in, object, "supports_group_ids", false);
	config->record_ops = jread_bool_or(in, object, "record_ops", false);
	config->tier_log = jread_bool_or(in, object, "tier_log", false);
	config->partial_hash_hits = jread_bool_or(in, object, "partial_hash_hits", false);
	config->use_eagle = jread_bool_or(in, object, "use_eagle", false);
	/* The older source has no such field; D-20: its block sets are compared by exact pairs. */
	config->hma = jread_bool_or(in, object, "hma", config->group_count > 1);
}

void trace_read_config(struct jread *in, json_t *object, struct trace_config *config)
{
	config->block_size = jread_int(in, object, "block_size");
	config->lcm_block_size = jread_int(in, object, "lcm_block_size");
	config->hash_block_size = jread_int(in, object, "hash_block_size");
	config->has_retention = jread_present(object, "retention_interval");
	config->retention_interval = jread_int_or(in, object, "retention_interval", 0);
	config->tp_rank = jread_int(in, object, "tp_rank");
	config->pcp_rank = jread_int(in, object, "pcp_rank");
	config->dcp_rank = jread_int(in, object, "dcp_rank");
	config->pp_rank = jread_int(in, object, "pp_rank");
	config->model_name = jread_text(in, object, "model_name");
	config->cache_prefix = jread_text(in, object, "cache_prefix");
	config->store_namespace = jread_text_or(in, object, "store_namespace", "");
	config->hash_bytes = jread_int(in, object, "hash_bytes");
	config->has_disk_budget = jread_present(object, "disk_budget");
	config->disk_budget_bytes = jread_int_or(in, object, "disk_budget", 0);
	config->disk_usable_ratio = json_number_value(json_object_get(object, "disk_usable_ratio"));
	config->usable_disk_budget_bytes = jread_int_or(in, object, "usable_disk_budget", 0);
	if (config->block_size < 1 || config->lcm_block_size < 1 || config->hash_block_size < 1)
		jread_fail(in, "config", "block sizes must be positive");
	read_groups(in, object, config);
	if (in->error == NULL)
		check_sizes(in, config);
	read_chains(in, object, config);
	read_switches(in, object, config);
}

/* The older source numbers nothing: jobs get ids in order of submission, `during` included. */
static void number_jobs(struct trace_op *op, int64_t *next)
{
	if (op->kind == OP_SUBMIT_SAVE && !op->job.has_job_id)
		op->job.job_id = (*next)++;
}

static void number_all_jobs(struct trace *trace)
{
	int64_t next = 1;

	for (size_t i = 0; i < trace->step_count; i++) {
		struct trace_step *step = &trace->steps[i];

		number_jobs(&step->op, &next);
		for (size_t a = 0; a < step->answer_count; a++)
			for (size_t d = 0; d < step->answers[a].during_count; d++)
				number_jobs(&step->answers[a].during[d], &next);
	}
}

const char *trace_load(struct arena *arena, json_t *line, struct trace *trace)
{
	struct jread in = {.arena = arena};
	json_t *steps = jread_array(&in, line, "steps");
	json_t *value;
	size_t i;

	*trace = (struct trace){.arena = arena};
	if (jread_int(&in, line, "format") != 1)
		jread_fail(&in, "format", "only 1 is known");
	trace->name = jread_text(&in, line, "name");
	trace->family = jread_text(&in, line, "family");
	trace->is_seed = strcmp(jread_text(&in, line, "variant"), "seed") == 0;
	trace_read_config(&in, json_object_get(line, "config"), &trace->config);
	trace->step_count = json_array_size(steps);
	trace->steps = arena_take(arena, trace->step_count + 1, sizeof(*trace->steps));
	for (i = 0; i < json_array_size(steps); i++) {
		value = json_array_get(steps, i);
		trace_read_step(&in, value, &trace->config, &trace->steps[i]);
		trace_read_expect(&in, json_object_get(value, "expect"), &trace->steps[i]);
		if (in.error != NULL)
			return arena_text(arena, "step %zu: %s", i, in.error);
	}
	number_all_jobs(trace);
	return in.error;
}
