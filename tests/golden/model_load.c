/* SPDX-License-Identifier: Apache-2.0 */
/* The model's load job. */
#include "model_parts.h"

#include <string.h>

/* The group's tail boundary, 0 if none. */
static int64_t tail_tokens(const struct trace_job *job, int64_t group)
{
	for (size_t i = job->tail_keys.count; i-- > 0;)
		if (job->tail_keys.at[i].group == group)
			return job->tail_keys.at[i].tokens;
	return 0;
}

static int64_t first_token(const struct model *model, const struct trace_job *job)
{
	return floor_to(job->cached, model->config->block_size);
}

static void add_load_items(struct model *model, struct load_list *list, struct save_item item,
                           int64_t block)
{
	struct save_batch objects = {0};

	model_add_items(model, &objects, item, block);
	for (size_t i = 0; i < objects.count; i++) {
		list->at = arena_grow(model->arena, list->at, list->count, &list->room,
		                      sizeof(*list->at));
		list->at[list->count++] = (struct load_item){
			.key = objects.at[i].key,
			.addrs = objects.at[i].addrs,
			.sizes = objects.at[i].sizes,
			.target = {item.group, item.chunk, block},
		};
	}
}

static bool add_load_chunk(struct model *model, const struct trace_job *job, int64_t group,
                           const int64_t *chunk, struct load_list *list)
{
	int64_t hb = model->config->hash_block_size;
	int64_t index = chunk[0] / model->config->groups[group].block_size;
	int64_t tail = tail_tokens(job, group);
	int64_t hash = chunk[2];
	struct save_item item = {.group = group, .chunk = index, .start = chunk[0]};

	if (index >= (int64_t)job->blocks[group].count)
		return false;
	if (tail > 0 && chunk[1] == job->token_len)
		hash = tail / hb - 1; /* */
	if (hash < 0 || hash >= (int64_t)job->hash_count)
		return false;
	item.hash = job->hashes[hash];
	add_load_items(model, list, item, job->blocks[group].at[index]);
	return true;
}

static bool add_load_group(struct model *model, const struct trace_job *job, int64_t group,
                           const char *mask, struct load_list *list)
{
	struct pure_chunks chunks = {
		.block_size = model->config->groups[group].block_size,
		.hash_block_size = model->config->hash_block_size,
		.token_len = job->token_len,
		.first_token = first_token(model, job),
		.put_step = 1,
	};
	struct ints found = {0};

	model_process_tokens(model->arena, &chunks, &found);
	for (size_t i = 0; i + 2 < found.count; i += 3) {
		size_t index = (size_t)(found.at[i] / chunks.block_size);

		if (index >= strlen(mask) || mask[index] != '1')
			continue;
		if (!add_load_chunk(model, job, group, found.at + i, list))
			return false;
	}
	return true;
}

bool model_load_items(struct model *model, const struct trace_job *job, struct load_list *list)
{
	struct pure_masks masks;

	if (!model_hashes_cover(model, job, job->token_len))
		return false;
	model_load_mask(model->arena, &model->setup, job->hash_count, job->token_len, &masks);
	for (size_t g = 0; g < model->config->group_count; g++)
		if (model->config->groups[g].participates &&
		    !add_load_group(model, job, (int64_t)g, masks.by_group[g], list))
			return false;
	return true;
}

static void rotate(struct model *model, struct load_list *list)
{
	struct load_list turned = {0};
	struct ints order = {0};

	if (list->count == 0)
		return;
	model_rotate(model->arena, list->count, model->config->tp_rank, &order);
	turned.at = arena_take(model->arena, list->count, sizeof(*turned.at));
	turned.count = list->count;
	for (size_t i = 0; i < list->count; i++)
		turned.at[i] = list->at[order.at[i]];
	*list = turned;
}

/* One batch on its way; values of a get that answered. */
struct getting {
	const struct load_item *items;
	size_t count;
	struct texts keys;
	struct ints *addrs;
	struct ints *sizes;
	int64_t payload_bytes;
};

static int64_t sum(const struct ints *list)
{
	int64_t total = 0;

	for (size_t i = 0; i < list->count; i++)
		total += list->at[i];
	return total;
}

static void fill_getting(struct model *model, const struct load_item *items, size_t count,
                         struct getting *get)
{
	*get = (struct getting){.items = items, .count = count};
	get->addrs = arena_take(model->arena, count + 1, sizeof(*get->addrs));
	get->sizes = arena_take(model->arena, count + 1, sizeof(*get->sizes));
	for (size_t i = 0; i < count; i++) {
		texts_push(model->arena, &get->keys, items[i].key);
		get->addrs[i] = items[i].addrs;
		get->sizes[i] = items[i].sizes;
		get->payload_bytes += sum(&items[i].sizes);
	}
}

static void fail_items(struct model *model, const struct trace_job *job,
                       const struct load_item *items, size_t count)
{
	for (size_t i = 0; i < count; i++)
		model_fail_block(model, job->req, items[i].target);
}

/* R-34, D-4, D-5: true if the key's bytes came. */
static bool came(const struct model *model, const struct getting *get,
                 const struct script_answer *answer, size_t key)
{
	int64_t value = key < answer->values.count ? answer->values.at[key] : CODE_NO_ANSWER;

	if (value < 0)
		return false;
	return !model_on(model, 4) || value == sum(&get->sizes[key]);
}

/* Fetches one batch; false if some key failed. */
static bool get_batch(struct model *model, const struct trace_job *job, const struct getting *get)
{
	struct script_batch batch = {.keys = &get->keys};
	struct script_answer answer;
	int64_t keys = (int64_t)get->count;
	int64_t failed = 0;

	if (model->config->tier_log)
		script_call(model->script, FN_REPLICA_DESC, &batch); /* informs only */
	batch.addrs = get->addrs;
	batch.sizes = get->sizes;
	answer = script_call(model->script, FN_GET, &batch);
	/* The reference takes a list of another length as an error of the whole batch. */
	if (answer.raised || (answer.values.count != get->count && !model_on(model, 5))) {
		fail_items(model, job, get->items, get->count);
		model_record_op(model, (struct op_record){"load_get", "error", keys, keys,
		                                          get->payload_bytes});
		return false;
	}
	for (size_t i = 0; i < get->count; i++) {
		if (came(model, get, &answer, i))
			continue;
		failed++;
		model_fail_block(model, job->req, get->items[i].target);
	}
	model_record_op(model, (struct op_record){"load_get", failed > 0 ? "partial_failure" : "ok",
	                                          keys, failed, get->payload_bytes});
	return failed == 0;
}

/* where each batch of the list ends; no batch at all if a key is oversized. */
static struct ints batch_ends(struct model *model, const struct load_list *list)
{
	struct ints staging = {0};
	struct ints ends = {0};
	struct pure_split split;

	for (size_t i = 0; i < list->count; i++)
		ints_push(model->arena, &staging, model_staging_bytes(&list->at[i].sizes));
	if (!model->config->has_disk_budget ||
	    sum(&staging) <= model->config->usable_disk_budget_bytes) {
		ints_push(model->arena, &ends, (int64_t)list->count);
		return ends;
	}
	model_split(model->arena, &staging, model->config->usable_disk_budget_bytes,
	            model->config->disk_budget_bytes, &split);
	for (size_t b = 0; b < split.batch_count; b++)
		ints_push(model->arena, &ends, split.batches[b].at[split.batches[b].count - 1] + 1);
	return ends;
}

static void get_all(struct model *model, const struct trace_job *job, const struct load_list *list)
{
	struct ints ends = batch_ends(model, list);
	size_t first = 0;

	if (ends.count == 0)
		fail_items(model, job, list->at, list->count);
	for (size_t b = 0; b < ends.count; b++) {
		size_t end = (size_t)ends.at[b];
		struct getting get;

		fill_getting(model, list->at + first, end - first, &get);
		first = end;
		if (get_batch(model, job, &get))
			continue;
		/* Nothing behind a failed batch is fetched; D-3 reports it. */
		if (model_on(model, 3))
			fail_items(model, job, list->at + first, list->count - first);
		return;
	}
}

/* D-2: the list could not be built; all blocks that it might have held are not known good. */
static void fail_range(struct model *model, const struct trace_job *job)
{
	for (size_t g = 0; g < model->config->group_count; g++) {
		int64_t bs = model->config->groups[g].block_size;
		int64_t index = first_token(model, job) / bs;

		if (!model->config->groups[g].participates)
			continue;
		for (;
		     index < ceil_div(job->token_len, bs) && index < (int64_t)job->blocks[g].count;
		     index++) {
			int64_t block = job->blocks[g].at[index];

			if (block != MODEL_NULL_BLOCK)
				model_fail_block(model, job->req,
				                 (struct failed_block){(int64_t)g, index, block});
		}
	}
}

static void finish_load(struct model *model, const struct trace_job *job)
{
	texts_add(model->arena, &model->finished_recv, job->req);
}

bool model_run_load(struct model *model, const struct trace_job *job)
{
	struct load_list list = {0};

	if (!model_load_items(model, job, &list)) {
		if (!model_on(model, 2))
			return true;
		fail_range(model, job);
		finish_load(model, job);
		return false;
	}
	if (list.count == 0 && !model_on(model, 1))
		return true; /* a division by zero; the request never finishes */
	rotate(model, &list);
	if (list.count > 0)
		get_all(model, job, &list);
	finish_load(model, job);
	return false;
}

/*
 * Reading of R-38: a load that has not begun is terminal at once; it is reported in the same
 * step, with every block that it was to write.
 */
void model_cancel_load(struct model *model, const struct trace_job *job)
{
	struct load_list list = {0};

	if (model_load_items(model, job, &list))
		fail_items(model, job, list.at, list.count);
	else
		fail_range(model, job);
	finish_load(model, job);
}
