/* SPDX-License-Identifier: Apache-2.0 */
/* What the model refuses at hand-in: D-13, D-17, D-21. */
#include <string.h>

#include "model_parts.h"

bool model_hashes_cover(const struct model *model, const struct trace_job *job, int64_t tokens)
{
	int64_t hb = model->config->hash_block_size;

	return tokens % hb == 0 && tokens / hb <= (int64_t)job->hash_count;
}

/* `per_group` = chunks of the job in a group of that block size. */
static bool blocks_cover(const struct model *model, const struct trace_job *job, int64_t tokens)
{
	for (size_t g = 0; g < model->config->group_count; g++) {
		const struct trace_group *group = &model->config->groups[g];

		if (group->participates &&
		    (int64_t)job->blocks[g].count < ceil_div(tokens, group->block_size))
			return false;
	}
	return true;
}

static bool off_hash_grid(const struct model *model, const struct trace_boundaries *list)
{
	for (size_t i = 0; i < list->count; i++)
		if (list->at[i].tokens % model->config->hash_block_size != 0)
			return true;
	return false;
}

static bool group_unknown(const struct model *model, const struct trace_boundaries *list)
{
	for (size_t i = 0; i < list->count; i++)
		if (list->at[i].group < 0 ||
		    (size_t)list->at[i].group >= model->config->group_count)
			return true;
	return false;
}

/*
 * Reading of R-10: an id is live until its job was reported finished, so a job that a preemption
 * made stale keeps its id taken while it is queued or runs.
 */
static bool id_is_live(const struct model *model, int64_t job_id)
{
	if (model->running != NULL && model->running->job_id == job_id)
		return true;
	for (size_t i = model->saves.next; i < model->saves.count; i++)
		if (model->saves.at[i].job != NULL && model->saves.at[i].job->job_id == job_id)
			return true;
	return false;
}

/*
 * Reading of D-13 for saves: lists and hashes must reach the floored length; a boundary put must
 * be on the hash grid whatever else it is (NULL, beyond the hashes or of a group that takes no
 * part); both kinds of entries at once, an unknown group and a live job id are refused too.
 * A boundary put beyond the hashes stays a skip, unequal tail boundaries stay the error
 * that ends the job.
 * Reading of D-17: it holds for tail entries even where they would be ignored.
 */
bool model_refuses_save(struct model *model, const struct trace_job *job)
{
	int64_t tokens = floor_to(job->token_len, model->config->lcm_block_size);

	if (model_on(model, 17) && off_hash_grid(model, &job->tail))
		return true;
	if (!model_on(model, 13))
		return false;
	return !model_hashes_cover(model, job, tokens) || !blocks_cover(model, job, tokens) ||
	       off_hash_grid(model, &job->puts) || group_unknown(model, &job->puts) ||
	       group_unknown(model, &job->tail) || (job->tail.given && job->puts.given) ||
	       id_is_live(model, job->job_id);
}

/* D-21: some chunk that the load would write has no block of its own. */
static bool writes_null_block(struct model *model, const struct trace_job *job)
{
	struct load_list list = {0};

	if (!model_load_items(model, job, &list))
		return false; /* not well-formed: D-13's or D-2's business */
	for (size_t i = 0; i < list.count; i++)
		if (list.at[i].target.block == MODEL_NULL_BLOCK)
			return true;
	return false;
}

/* Reading of D-17: a tail key names the load's end or a later boundary in its last chunk (C-40). */
static bool tail_keys_bad(const struct model *model, const struct trace_job *job)
{
	if (group_unknown(model, &job->tail_keys))
		return true;
	for (size_t i = 0; i < job->tail_keys.count; i++) {
		const struct trace_boundary *key = &job->tail_keys.at[i];
		const struct trace_group *group = &model->config->groups[key->group];
		int64_t last_end = ceil_div(job->token_len, group->block_size) * group->block_size;

		if (!group->participates)
			continue;
		if (!model_hashes_cover(model, job, key->tokens) || key->tokens < 1 ||
		    key->tokens < job->token_len || key->tokens > last_end)
			return true;
	}
	return false;
}

/* No hit can end there: a chunk at the end is beyond its group's mask, and would be left out. */
static bool ends_past_mask(struct model *model, const struct trace_job *job)
{
	struct pure_masks masks;

	model_load_mask(model->arena, &model->setup, job->hash_count, job->token_len, &masks);
	for (size_t g = 0; g < model->config->group_count; g++) {
		const struct trace_group *group = &model->config->groups[g];
		const char *mask = masks.by_group[g];

		if (group->participates && mask &&
		    (int64_t)strlen(mask) < ceil_div(job->token_len, group->block_size))
			return true;
	}
	return false;
}

/* Two chunks in one block would overwrite each other. */
static bool writes_a_block_twice(struct model *model, const struct trace_job *job)
{
	struct load_list list = {0};

	if (!model_load_items(model, job, &list))
		return false;
	for (size_t i = 0; i < list.count; i++)
		for (size_t k = 0; k < i; k++)
			if (list.at[i].target.group == list.at[k].target.group &&
			    list.at[i].target.block == list.at[k].target.block &&
			    list.at[i].target.index != list.at[k].target.index)
				return true;
	return false;
}

/* Reading of D-13 for loads: the grid of token_len is that of hits (C-10 to C-13). */
bool model_refuses_load(struct model *model, const struct trace_job *job)
{
	if (model_on(model, 13) &&
	    (!model_hashes_cover(model, job, job->token_len) ||
	     !blocks_cover(model, job, job->token_len) || tail_keys_bad(model, job) ||
	     ends_past_mask(model, job) || writes_a_block_twice(model, job)))
		return true;
	return model_on(model, 21) && writes_null_block(model, job);
}
