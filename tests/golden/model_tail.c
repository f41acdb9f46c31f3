/* SPDX-License-Identifier: Apache-2.0 */
/* The model's partial tail and boundary puts. */
#include "model_parts.h"

/* Puts the batch; false if the job ends here. A failing exists ends the job quietly. */
static bool put_all(struct model *model, const struct trace_job *job,
                    const struct save_batch *batch, bool *error)
{
	struct save_outcome outcome;

	model_exists_and_put(model, job, batch, &outcome);
	*error = outcome.broken;
	return !outcome.failed;
}

/* The entry of a group; the last one where there are several. */
static const struct trace_boundary *entry_of(const struct trace_job *job, int64_t group)
{
	for (size_t i = job->tail.count; i-- > 0;)
		if (job->tail.at[i].group == group)
			return &job->tail.at[i];
	return NULL;
}

static const char *tail_hash(const struct model *model, const struct trace_job *job, int64_t end)
{
	int64_t index = end / model->config->hash_block_size - 1;

	/* The reference counts a negative index from the back (D-17). */
	if (index < 0)
		index += (int64_t)job->hash_count;
	return job->hashes[index];
}

static void add_tail_block(struct model *model, const struct trace_job *job, int64_t group,
                           int64_t index, struct save_batch *batch)
{
	int64_t bs = model->config->groups[group].block_size;
	int64_t boundary = job->tail.at[0].tokens;
	int64_t end = (index + 1) * bs < boundary ? (index + 1) * bs : boundary;
	const struct trace_boundary *entry = entry_of(job, group);
	struct save_item item = {.group = group, .chunk = index, .start = index * bs};
	int64_t block = MODEL_NULL_BLOCK;

	if (entry != NULL && end == boundary && boundary % bs != 0)
		block = entry->block;
	else if (index < (int64_t)job->blocks[group].count)
		block = job->blocks[group].at[index];
	if (block == MODEL_NULL_BLOCK)
		return;
	item.hash = tail_hash(model, job, end);
	model_add_items(model, batch, item, block);
}

static void add_tail_group(struct model *model, const struct trace_job *job, int64_t group,
                           struct save_batch *batch)
{
	const struct trace_group *spec = &model->config->groups[group];
	int64_t step = spec->put_step;
	int64_t last = ceil_div(job->tail.at[0].tokens, spec->block_size) - 1;
	int64_t index = model_need(model, job->req)->saved_offset / spec->block_size;

	if (index > last)
		index = last;
	for (; index <= last; index++)
		if (index % step == (model->config->tp_rank + group) % step)
			add_tail_block(model, job, group, index, batch);
}

bool model_save_tail(struct model *model, const struct trace_job *job, bool *error)
{
	const struct trace_boundaries *tail = &job->tail;
	struct save_batch batch = {0};
	int64_t boundary;

	if (!model->config->partial_hash_hits || tail->count == 0 || job->hash_count == 0)
		return true;
	boundary = tail->at[0].tokens;
	for (size_t i = 1; i < tail->count; i++) {
		if (tail->at[i].tokens != boundary) {
			*error = true;
			return false;
		}
	}
	if (boundary == 0 || boundary / model->config->hash_block_size > (int64_t)job->hash_count)
		return true;
	for (size_t g = 0; g < model->config->group_count; g++)
		if (model->config->groups[g].participates)
			add_tail_group(model, job, (int64_t)g, &batch);
	return put_all(model, job, &batch, error);
}

/* Adds one boundary put if it is this rank's and can be; false if it is off the hash grid. */
static bool add_boundary(struct model *model, const struct trace_job *job,
                         const struct trace_boundary *entry, struct save_batch *batch)
{
	const struct trace_group *group = &model->config->groups[entry->group];
	int64_t hb = model->config->hash_block_size;
	int64_t chunk = ceil_div(entry->tokens, group->block_size) - 1;
	struct save_item item = {.group = entry->group, .chunk = chunk};

	if (!group->participates || entry->tokens == 0 || entry->block == MODEL_NULL_BLOCK)
		return true;
	if (entry->tokens % hb != 0)
		return false;
	if (entry->tokens / hb > (int64_t)job->hash_count)
		return true;
	if (chunk % group->put_step != (model->config->tp_rank + entry->group) % group->put_step)
		return true;
	item.start = chunk * group->block_size;
	item.hash = job->hashes[entry->tokens / hb - 1];
	model_add_items(model, batch, item, entry->block);
	return true;
}

bool model_save_puts(struct model *model, const struct trace_job *job, bool *error)
{
	struct save_batch batch = {0};

	for (size_t i = 0; i < job->puts.count; i++) {
		const struct trace_boundary *entry = &job->puts.at[i];
		bool known = entry->group >= 0 && (size_t)entry->group < model->config->group_count;

		if (!known || !add_boundary(model, job, entry, &batch)) {
			*error = true;
			return false;
		}
	}
	return put_all(model, job, &batch, error);
}
