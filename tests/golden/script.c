/* SPDX-License-Identifier: Apache-2.0 */
/* The scripted store of the golden tests. */
#include "script.h"

struct script {
	struct arena *arena;
	script_during_fn during;
	void *context;
	script_invent_fn invent;
	void *invent_context;
	const struct trace_step *step;
	struct step_record *record;
	size_t used[FN_EVENT_SYNC]; /* answers of this step handed out, per function */
	struct texts present;       /* keys put or seen present in this scenario */
};

struct script *script_create(struct arena *arena, script_during_fn during, void *context)
{
	struct script *script = arena_take(arena, 1, sizeof(*script));

	script->arena = arena;
	script->during = during;
	script->context = context;
	return script;
}

void script_invent(struct script *script, script_invent_fn invent, void *context)
{
	script->invent = invent;
	script->invent_context = context;
}

void script_begin(struct script *script, const struct trace_step *step, struct step_record *record)
{
	script->step = step;
	script->record = record;
	for (size_t i = 0; i < FN_EVENT_SYNC; i++)
		script->used[i] = 0;
}

static struct store_call *add_call(struct script *script, enum store_fn fn)
{
	struct step_record *record = script->record;

	record->calls = arena_grow(script->arena, record->calls, record->call_count,
	                           &record->call_room, sizeof(*record->calls));
	record->calls[record->call_count] = (struct store_call){.fn = fn};
	return &record->calls[record->call_count++];
}

static struct texts copy_texts(struct arena *arena, const struct texts *from)
{
	struct texts copy = {0};

	for (size_t i = 0; i < from->count; i++)
		texts_push(arena, &copy, arena_text(arena, "%s", from->at[i]));
	return copy;
}

static struct ints *copy_lists(struct arena *arena, const struct ints *from, size_t count)
{
	struct ints *copy = arena_take(arena, count + 1, sizeof(*copy));

	for (size_t i = 0; i < count; i++)
		for (size_t k = 0; k < from[i].count; k++)
			ints_push(arena, &copy[i], from[i].at[k]);
	return copy;
}

static void record_call(struct script *script, enum store_fn fn, const struct script_batch *batch)
{
	struct store_call *call = add_call(script, fn);

	call->keys = copy_texts(script->arena, batch->keys);
	if (batch->addrs != NULL)
		call->addrs = copy_lists(script->arena, batch->addrs, batch->keys->count);
	if (batch->sizes != NULL)
		call->sizes = copy_lists(script->arena, batch->sizes, batch->keys->count);
	call->has_group_ids = batch->group_ids != NULL;
	if (batch->group_ids != NULL)
		call->group_ids = copy_texts(script->arena, batch->group_ids);
}

static const struct trace_answer *next_answer(struct script *script, enum store_fn fn)
{
	size_t skip = script->used[fn];

	for (size_t i = 0; i < script->step->answer_count; i++) {
		const struct trace_answer *answer = &script->step->answers[i];

		if (answer->fn == fn && skip-- == 0) {
			script->used[fn]++;
			return answer;
		}
	}
	return NULL;
}

static int64_t fallback_value(const struct script *script, enum store_fn fn,
                              const struct script_batch *batch, size_t key)
{
	int64_t bytes = 0;

	if (fn == FN_EXIST)
		return texts_has(&script->present, batch->keys->at[key]) ? 1 : 0;
	if (fn == FN_PUT)
		return 0;
	for (size_t i = 0; i < batch->sizes[key].count; i++)
		bytes += batch->sizes[key].at[i];
	return bytes;
}

static struct script_answer fallback(struct script *script, enum store_fn fn,
                                     const struct script_batch *batch)
{
	struct script_answer answer = {0};

	for (size_t i = 0; i < batch->keys->count; i++) {
		if (fn == FN_REPLICA_DESC)
			texts_push(script->arena, &answer.tiers, "");
		else
			ints_push(script->arena, &answer.values,
			          fallback_value(script, fn, batch, i));
	}
	return answer;
}

static void note_present(struct script *script, enum store_fn fn, const struct script_batch *batch,
                         const struct script_answer *answer)
{
	for (size_t i = 0; i < batch->keys->count && i < answer->values.count; i++) {
		int64_t value = answer->values.at[i];

		if ((fn == FN_EXIST && value == 1) || (fn == FN_PUT && value >= 0))
			texts_add(script->arena, &script->present,
			          arena_text(script->arena, "%s", batch->keys->at[i]));
	}
}

struct script_answer script_call(struct script *script, enum store_fn fn,
                                 const struct script_batch *batch)
{
	const struct trace_answer *scripted;
	struct script_answer answer;

	record_call(script, fn, batch);
	scripted = next_answer(script, fn);
	if (scripted == NULL && script->invent != NULL)
		scripted = script->invent(script->invent_context, script->step, fn, batch);
	if (scripted == NULL) {
		answer = fallback(script, fn, batch);
	} else {
		for (size_t i = 0; i < scripted->during_count; i++)
			script->during(script->context, &scripted->during[i]);
		answer = (struct script_answer){
			.raised = scripted->raises,
			.values = scripted->values,
			.tiers = scripted->tiers,
		};
	}
	note_present(script, fn, batch, &answer);
	return answer;
}

void script_event_sync(struct script *script)
{
	add_call(script, FN_EVENT_SYNC);
}

size_t script_call_count(const struct script *script)
{
	return script->record->call_count;
}
