/* SPDX-License-Identifier: Apache-2.0 */
/* The model's way of one batch to the store: exists, event, put. */
#include "model_parts.h"

#include <string.h>

static struct pure_key key_of(const struct model *model, const struct save_item *item)
{
	const struct trace_config *config = model->config;

	return (struct pure_key){
		.cache_prefix = config->cache_prefix,
		.model = config->model_name, /* R-1's last path part is already taken */
		.store_namespace = config->store_namespace,
		.tp_rank = config->tp_rank,
		.pcp_rank = config->pcp_rank,
		.dcp_rank = config->dcp_rank,
		.pp_rank = config->pp_rank,
		.group = item->group,
		.hash = item->hash,
	};
}

static void add_item(struct model *model, struct save_batch *batch, const struct save_item *item)
{
	for (size_t i = 0; i < batch->count && model_on(model, 10); i++)
		if (strcmp(batch->at[i].key, item->key) == 0)
			return;
	batch->at =
		arena_grow(model->arena, batch->at, batch->count, &batch->room, sizeof(*batch->at));
	batch->at[batch->count++] = *item;
}

static void add_shards(struct model *model, struct save_batch *batch, struct save_item item,
                       int64_t block)
{
	const struct trace_group *group = &model->config->groups[item.group];
	struct pure_key key = key_of(model, &item);

	for (size_t s = 0; s < group->shard_count; s++) {
		const struct trace_shard *shard = &group->shards[s];

		/* the shard's id takes the place of the rank. */
		key.tp_rank =
			model->config->tp_rank * (group->store_tp / group->local_tp) + (int64_t)s;
		item.key = model_key(model->arena, &key);
		item.addrs = item.sizes = (struct ints){0};
		for (size_t i = 0; i < shard->bases.count; i++) {
			ints_push(model->arena, &item.addrs,
			          shard->bases.at[i] + block * shard->strides.at[i]);
			ints_push(model->arena, &item.sizes, shard->sizes.at[i]);
		}
		add_item(model, batch, &item);
	}
}

void model_add_items(struct model *model, struct save_batch *batch, struct save_item like,
                     int64_t block)
{
	const struct trace_group *group = &model->config->groups[like.group];
	struct pure_key key = key_of(model, &like);
	size_t lens = group->block_lens.count;

	like.group_id = model_group_id(model->arena, &key);
	if (group->shard_count > 0) {
		add_shards(model, batch, like, block);
		return;
	}
	like.key = arena_text(model->arena, "%s@%s", group->key_prefix, like.hash);
	for (size_t r = 0; r < group->base_addrs.count; r++) {
		int64_t bytes = group->block_lens.at[r % lens];

		ints_push(model->arena, &like.addrs, group->base_addrs.at[r] + block * bytes);
		ints_push(model->arena, &like.sizes, bytes);
	}
	add_item(model, batch, &like);
}

/* A batch as the store's parallel lists. */
struct wire {
	struct texts keys;
	struct texts group_ids;
	struct ints *addrs;
	struct ints *sizes;
	int64_t payload_bytes;
};

static struct wire to_wire(struct model *model, const struct save_batch *batch)
{
	struct wire wire = {0};

	wire.addrs = arena_take(model->arena, batch->count + 1, sizeof(*wire.addrs));
	wire.sizes = arena_take(model->arena, batch->count + 1, sizeof(*wire.sizes));
	for (size_t i = 0; i < batch->count; i++) {
		texts_push(model->arena, &wire.keys, batch->at[i].key);
		texts_push(model->arena, &wire.group_ids, batch->at[i].group_id);
		wire.addrs[i] = batch->at[i].addrs;
		wire.sizes[i] = batch->at[i].sizes;
		for (size_t s = 0; s < wire.sizes[i].count; s++)
			wire.payload_bytes += wire.sizes[i].at[s];
	}
	return wire;
}

/* R-17, D-18. */
static void check_exists(struct model *model, const struct save_batch *batch,
                         struct save_outcome *out)
{
	struct wire wire = to_wire(model, batch);
	struct script_batch ask = {.keys = &wire.keys};
	struct script_answer answer = script_call(model->script, FN_EXIST, &ask);
	int64_t count = (int64_t)batch->count;
	int64_t unanswered = model_on(model, 18) ? 0 : STATE_PRESENT;

	if (answer.raised) {
		out->exists_raised = out->failed = true;
		model_record_op(model, (struct op_record){"save_exists", "error", count, count, 0});
		return;
	}
	model_record_op(model, (struct op_record){"save_exists", "ok", count, 0, 0});
	for (size_t i = 0; i < batch->count; i++) {
		int64_t state = i < answer.values.count ? answer.values.at[i] : unanswered;

		if (state != STATE_PRESENT)
			add_item(model, &out->missing, &batch->at[i]);
	}
	/* The reference stumbles over a surplus answer other than "present". */
	for (size_t i = batch->count; i < answer.values.count && !model_on(model, 18); i++)
		if (answer.values.at[i] != STATE_PRESENT)
			out->broken = out->failed = true;
}

/*
 * D-11. Reading: one exists over the -705 keys right after the put; it leaves no operation
 * record of its own, and the put is recorded after it, with the keys it confirmed as stored.
 */
static void confirm_existing(struct model *model, struct save_batch *missing)
{
	struct script_batch ask = {0};
	struct script_answer answer;
	struct texts keys = {0};
	size_t next = 0;

	for (size_t i = 0; i < missing->count; i++)
		if (missing->at[i].result == CODE_ALREADY_EXISTS)
			texts_push(model->arena, &keys, missing->at[i].key);
	if (keys.count == 0 || !model_on(model, 11))
		return;
	ask.keys = &keys;
	answer = script_call(model->script, FN_EXIST, &ask);
	for (size_t i = 0; i < missing->count; i++) {
		if (missing->at[i].result != CODE_ALREADY_EXISTS)
			continue;
		missing->at[i].confirmed = !answer.raised && next < answer.values.count &&
		                           answer.values.at[next] == STATE_PRESENT;
		next++;
	}
}

static bool item_failed(const struct save_item *item)
{
	return item->result < 0 && !item->confirmed;
}

/* D-22: no later put of this chunk can do better. */
static bool never_storable(int64_t result)
{
	return result == CODE_INVALID_KEY || result == CODE_INVALID_PARAMS ||
	       result == CODE_NOT_SUPPORTED;
}

struct put_count {
	int64_t failed;
	int64_t unstorable;
	bool no_handle;
};

static void count_result(struct model *model, int64_t result, struct put_count *count)
{
	count->failed++;
	if (model_on(model, 22) && never_storable(result))
		count->unstorable++;
	if (result == CODE_NO_AVAILABLE_HANDLE)
		count->no_handle = true;
}

/* */
static void settle_pressure(struct model *model, const struct trace_job *job,
                            const struct put_count *count)
{
	if (count->no_handle) {
		model->pressure = true;
		if (model_is_live(model, job))
			model_need(model, job->req)->skipped = true;
	}
	if (count->failed > 0)
		return;
	model->pressure = false;
	for (size_t i = 0; i < model->request_count; i++)
		model->requests[i].skipped = false;
}

/* R-19, D-5: one slot a key, preset to "no answer"; the reference takes what is there. */
static void take_results(struct model *model, const struct script_answer *answer,
                         struct save_batch *missing, struct put_count *count)
{
	for (size_t i = 0; i < missing->count; i++) {
		int64_t unanswered = model_on(model, 5) ? CODE_NO_ANSWER : 0;

		missing->at[i].result =
			i < answer->values.count ? answer->values.at[i] : unanswered;
	}
	confirm_existing(model, missing);
	for (size_t i = 0; i < missing->count; i++)
		if (item_failed(&missing->at[i]))
			count_result(model, missing->at[i].result, count);
	for (size_t i = missing->count; i < answer->values.count && !model_on(model, 5); i++)
		if (answer->values.at[i] < 0)
			count_result(model, answer->values.at[i], count);
}

static void put_missing(struct model *model, const struct trace_job *job, struct save_outcome *out)
{
	bool with_ids = model->config->group_semantics && model->config->supports_group_ids;
	int64_t keys = (int64_t)out->missing.count;
	struct wire wire = to_wire(model, &out->missing);
	struct script_batch batch = {.keys = &wire.keys, .addrs = wire.addrs, .sizes = wire.sizes};
	struct put_count count = {0};
	struct script_answer answer;

	batch.group_ids = with_ids ? &wire.group_ids : NULL;
	answer = script_call(model->script, FN_PUT, &batch);
	if (answer.raised) {
		out->failed = true;
		model_record_op(model, (struct op_record){"save_put", "error", keys, keys,
		                                          wire.payload_bytes});
		return;
	}
	take_results(model, &answer, &out->missing, &count);
	model_record_op(model,
	                (struct op_record){"save_put", count.failed > 0 ? "partial_failure" : "ok",
	                                   keys, count.failed, wire.payload_bytes});
	settle_pressure(model, job, &count);
	out->has_put = true;
	out->failed = count.failed > 0;
	out->only_unstorable = out->failed && count.unstorable == count.failed;
}

void model_exists_and_put(struct model *model, const struct trace_job *job,
                          const struct save_batch *batch, struct save_outcome *out)
{
	*out = (struct save_outcome){0};
	if (batch->count == 0)
		return;
	check_exists(model, batch, out);
	if (out->failed || out->missing.count == 0)
		return;
	if (job->event) {
		script_event_sync(model->script); /* */
		if (job->event_fails && model_on(model, 15)) {
			/* Reading of D-15: the step counts as ended by an error. */
			out->failed = out->broken = true;
			return;
		}
	}
	put_missing(model, job, out);
}
