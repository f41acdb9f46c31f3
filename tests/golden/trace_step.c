/* SPDX-License-Identifier: Apache-2.0 */
/* Loads one step of a scenario: the operation, its arguments and the store's answers. */
#include "trace_parts.h"

#include <string.h>

static struct trace_boundaries read_boundaries(struct jread *in, json_t *object, const char *field,
                                               size_t width)
{
	json_t *array = jread_array(in, object, field);
	struct trace_boundaries list = {.given = array != NULL};
	json_t *value;
	size_t i;

	list.count = json_array_size(array);
	list.at = arena_take(in->arena, list.count + 1, sizeof(*list.at));
	for (i = 0; i < json_array_size(array); i++) {
		value = json_array_get(array, i);
		struct ints numbers = jread_int_list(in, value, field);

		if (numbers.count != width) {
			jread_fail(in, field, "an entry has the wrong length");
			continue;
		}
		list.at[i].group = numbers.at[0];
		list.at[i].block = width == 3 ? numbers.at[1] : 0;
		list.at[i].tokens = numbers.at[width - 1];
		if (list.at[i].tokens < 0)
			jread_fail(in, field, "tokens below 0");
	}
	return list;
}

static void read_hashes(struct jread *in, json_t *object, const struct trace_config *config,
                        struct trace_job *job)
{
	json_t *pair = jread_array(in, object, "hashes");
	const char *chain = json_string_value(json_array_get(pair, 0));
	json_int_t count = json_integer_value(json_array_get(pair, 1));

	for (size_t i = 0; chain != NULL && i < config->chain_count; i++) {
		const struct trace_chain *known = &config->chains[i];

		if (strcmp(known->name, chain) != 0)
			continue;
		if (count < 0 || (size_t)count > known->hashes.count)
			break;
		job->chain = known->name;
		job->hashes = known->hashes.at;
		job->hash_count = (size_t)count;
		return;
	}
	jread_fail(in, "hashes", "no such chain, or too short");
}

static void read_blocks(struct jread *in, json_t *object, struct trace_job *job)
{
	json_t *blocks = jread_array(in, object, "blocks");
	size_t g;

	if (json_array_size(blocks) > TRACE_MAX_GROUPS) {
		jread_fail(in, "blocks", "too many groups");
		return;
	}
	job->group_count = json_array_size(blocks);
	for (g = 0; g < json_array_size(blocks); g++)
		job->blocks[g] = jread_int_list(in, json_array_get(blocks, g), "blocks");
}

static void read_token_ids(struct jread *in, json_t *object, struct trace_job *job)
{
	struct ints pair = jread_int_list(in, jread_array(in, object, "token_ids"), "token_ids");

	job->has_token_ids = jread_present(object, "token_ids");
	if (!job->has_token_ids)
		return;
	if (pair.count != 2) {
		jread_fail(in, "token_ids", "first and count are needed");
		return;
	}
	if (pair.at[1] < 0 || pair.at[1] > TRACE_MAX_TOKEN_IDS) {
		jread_fail(in, "token_ids", "the count is out of range");
		return;
	}
	job->first_token_id = pair.at[0];
	job->token_id_count = pair.at[1];
	job->token_ids_start = jread_int_or(in, object, "token_ids_start", 0);
}

static void read_save(struct jread *in, json_t *object, struct trace_job *job)
{
	job->token_len = jread_int(in, object, "token_len_chunk");
	job->has_job_id = jread_present(object, "job_id");
	job->job_id = jread_int_or(in, object, "job_id", 0);
	job->registered = jread_bool_or(in, object, "register", true);
	job->has_prompt = jread_present(object, "prompt");
	job->prompt = jread_int_or(in, object, "prompt", 0);
	job->event = jread_bool_or(in, object, "event", false);
	job->event_fails = jread_bool_or(in, object, "event_fails", false);
	job->tail = read_boundaries(in, object, "tail", 3);
	job->puts = read_boundaries(in, object, "puts", 3);
	read_token_ids(in, object, job);
}

static void read_job(struct jread *in, json_t *object, const struct trace_config *config,
                     struct trace_op *op)
{
	struct trace_job *job = &op->job;

	job->req = jread_text(in, object, "req");
	read_blocks(in, object, job);
	read_hashes(in, object, config, job);
	if (jread_int_or(in, object, "token_len", 0) < 0 ||
	    jread_int_or(in, object, "token_len_chunk", 0) < 0 ||
	    jread_int_or(in, object, "cached", 0) < 0)
		jread_fail(in, "args", "tokens below 0");
	if (job->group_count != config->group_count)
		jread_fail(in, "blocks", "one list per group is needed");
	if (op->kind == OP_SUBMIT_SAVE) {
		read_save(in, object, job);
		return;
	}
	job->token_len = jread_int(in, object, "token_len");
	job->cached = jread_int(in, object, "cached");
	job->tail_keys = read_boundaries(in, object, "tail_keys", 2);
}

static void read_op(struct jread *in, json_t *object, const struct trace_config *config,
                    struct trace_op *op)
{
	static const char *const names[] = {"submit_save", "run_save", "submit_load", "run_load",
	                                    "delete",      "poll",     "drain"};
	const char *name = jread_text(in, object, "op");
	json_t *args = json_object_get(object, "args");

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (strcmp(names[i], name) != 0)
			continue;
		op->kind = (enum op_kind)i;
		if (op->kind == OP_SUBMIT_SAVE || op->kind == OP_SUBMIT_LOAD)
			read_job(in, args, config, op);
		if (op->kind == OP_DELETE)
			op->req = jread_text(in, args, "req");
		if (op->kind == OP_POLL) {
			op->finished =
				jread_text_list(in, jread_array(in, args, "finished"), "finished");
			op->preempted = jread_text_list(in, jread_array(in, args, "preempted"),
			                                "preempted");
		}
		return;
	}
	jread_fail(in, "op", "unknown operation");
}

static void read_during(struct jread *in, json_t *object, const struct trace_config *config,
                        struct trace_answer *answer)
{
	json_t *during = jread_array(in, object, "during");
	size_t i;

	answer->during_count = json_array_size(during);
	answer->during = arena_take(in->arena, answer->during_count + 1, sizeof(*answer->during));
	for (i = 0; i < json_array_size(during); i++)
		read_op(in, json_array_get(during, i), config, &answer->during[i]);
}

void trace_read_answer(struct jread *in, json_t *object, const struct trace_config *config,
                       struct trace_answer *answer)
{
	const char *fn = jread_text(in, object, "fn");
	json_t *ret = jread_array(in, object, "ret");

	answer->fn = FN_EVENT_SYNC;
	for (enum store_fn i = FN_EXIST; i <= FN_REPLICA_DESC; i++)
		if (strcmp(store_fn_name(i), fn) == 0)
			answer->fn = i;
	if (answer->fn == FN_EVENT_SYNC)
		jread_fail(in, "fn", "unknown store function");
	answer->raises = ret == NULL;
	answer->message = jread_text_or(in, object, "raise", NULL);
	if (answer->fn == FN_REPLICA_DESC)
		answer->tiers = jread_text_list(in, ret, "ret");
	else
		answer->values = jread_int_list(in, ret, "ret");
	read_during(in, object, config, answer);
}

static void read_mask(struct jread *in, json_t *object, struct trace_mask *mask)
{
	json_t *ret = jread_array(in, object, "ret");
	size_t g;

	mask->is_store = strcmp(jread_text(in, object, "fn"), "store_mask") == 0;
	mask->token_len = jread_int(in, object, "token_len");
	mask->start = jread_int_or(in, object, "start", 0);
	mask->group_count = json_array_size(ret);
	if (mask->group_count > TRACE_MAX_GROUPS) {
		jread_fail(in, "masks", "too many groups");
		return;
	}
	for (g = 0; g < json_array_size(ret); g++)
		if (json_is_string(json_array_get(ret, g)))
			mask->by_group[g] = arena_text(in->arena, "%s",
			                               json_string_value(json_array_get(ret, g)));
}

void trace_read_step(struct jread *in, json_t *object, const struct trace_config *config,
                     struct trace_step *step)
{
	json_t *script = jread_array(in, object, "store_script");
	json_t *masks = jread_array(in, json_object_get(object, "expect"), "masks");
	size_t i;

	read_op(in, object, config, &step->op);
	step->answer_count = json_array_size(script);
	step->answers = arena_take(in->arena, step->answer_count + 1, sizeof(*step->answers));
	for (i = 0; i < json_array_size(script); i++)
		trace_read_answer(in, json_array_get(script, i), config, &step->answers[i]);
	step->mask_count = json_array_size(masks);
	step->masks = arena_take(in->arena, step->mask_count + 1, sizeof(*step->masks));
	for (i = 0; i < json_array_size(masks); i++)
		read_mask(in, json_array_get(masks, i), &step->masks[i]);
}
