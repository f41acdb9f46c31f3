/* SPDX-License-Identifier: Apache-2.0 */
/* The judge of golden.md: (a) model = recording, (b) worker = model, (c) what deviates. */
#include "judge.h"

#include <string.h>

static enum judge_mode mode_of(const struct trace *trace)
{
	static const char *const agreeing[] = {"load_basic", "load_disk",  "load_errors",
	                                       "tier_log",   "stripe",     "dedup",
	                                       "pressure",   "save_errors"};

	if (!trace->is_seed)
		return JUDGE_ALL;
	if (strcmp(trace->family, "partial_tail") == 0)
		return JUDGE_TAIL;
	for (size_t i = 0; i < sizeof(agreeing) / sizeof(agreeing[0]); i++)
		if (strcmp(trace->family, agreeing[i]) == 0)
			return JUDGE_ALL;
	return JUDGE_INFORMATION;
}

static const char *difference_text(const struct trace *trace, const char *between, size_t step,
                                   const struct difference *found)
{
	return arena_text(trace->arena,
	                  "%s: scenario %s step %zu field %s\n  wanted %s\n  got    %s", between,
	                  trace->name, step, record_field_name(found->field), found->expected,
	                  found->observed);
}

/*
 * The recording does not say which of its calls were the tail's. The store mask is evaluated
 * after the tail, so a step without one did nothing else; in the others the tail's calls are the
 * first ones, as many as the model made.
 */
static void mark_tail(struct trace_step *step, const struct step_record *model)
{
	struct step_record *expect = &step->expect;
	bool all_tail = step->mask_count == 0;

	expect->tail_call_count = expect->call_count;
	expect->tail_op_count = expect->op_count;
	if (!all_tail && model->tail_call_count < expect->call_count)
		expect->tail_call_count = model->tail_call_count;
	if (!all_tail && model->tail_op_count < expect->op_count)
		expect->tail_op_count = model->tail_op_count;
	expect->tail_error = all_tail && expect->error;
}

static bool equals_recording(const struct trace *trace, enum judge_mode mode, const char **text)
{
	struct model_options options = {.fed_masks = mode == JUDGE_TAIL};
	struct compare_options compare = {.fields = FIELDS_ALL, .expect_is_seed = trace->is_seed};
	struct step_record *records = replay_run(model_replay_ops(), &options, trace);
	struct difference found;

	if (mode == JUDGE_TAIL) {
		compare.tail_only = true;
		compare.fields = FIELD_BIT(FIELD_CALLS) | FIELD_BIT(FIELD_OPS) |
		                 FIELD_BIT(FIELD_ERROR) | FIELD_BIT(FIELD_PRESSURE);
	}
	for (size_t i = 0; i < trace->step_count; i++) {
		mark_tail(&trace->steps[i], &records[i]);
		if (compare_records(trace->arena, &trace->steps[i].expect, &records[i], &compare,
		                    &found) == 0)
			continue;
		*text = difference_text(trace, "model and recording", i, &found);
		return false;
	}
	return true;
}

static struct step_record *run_model(const struct trace *trace, bool on, int flipped)
{
	struct model_options options = {0};

	for (int n = 1; n <= MODEL_SWITCHES; n++)
		options.on[n] = on != (n == flipped);
	return replay_run(model_replay_ops(), &options, trace);
}

/* Per step the bits of the differing fields; true if there is any. */
static bool differing(const struct trace *trace, const struct step_record *a,
                      const struct step_record *b, unsigned *bits)
{
	struct compare_options compare = {.fields = FIELDS_ALL};
	bool any = false;

	for (size_t i = 0; i < trace->step_count; i++) {
		bits[i] = compare_records(trace->arena, &a[i], &b[i], &compare, NULL);
		any = any || bits[i] != 0;
	}
	return any;
}

static bool removes_one(const struct trace *trace, const unsigned *before, const unsigned *after)
{
	for (size_t i = 0; i < trace->step_count; i++)
		if ((before[i] & ~after[i]) != 0)
			return true;
	return false;
}

/*
 * (c) The differences between the two models are pairs (step, field). A scenario deviates under
 * D-n if the switch of D-n alone removes at least one of them: either by being turned off in the
 * model with all switches on (compared with the model with all off), or by being turned on in
 * the model with all switches off (compared with the model with all on).
 */
static void find_deviations(const struct trace *trace, const struct step_record *on,
                            struct verdict *verdict)
{
	struct step_record *off = run_model(trace, false, 0);
	unsigned *before = arena_take(trace->arena, trace->step_count + 1, sizeof(*before));
	unsigned *after = arena_take(trace->arena, trace->step_count + 1, sizeof(*after));

	verdict->deviating = differing(trace, off, on, before);
	for (int n = 1; n <= MODEL_SWITCHES && verdict->deviating; n++) {
		differing(trace, off, run_model(trace, true, n), after);
		verdict->under[n] = removes_one(trace, before, after);
		differing(trace, run_model(trace, false, n), on, after);
		verdict->under[n] = verdict->under[n] || removes_one(trace, before, after);
	}
}

static bool equals_worker(const struct trace *trace, const struct replay_ops *worker,
                          const struct step_record *on, const char **text)
{
	struct step_record *records = replay_run(worker, NULL, trace);
	struct compare_options compare = {.fields = FIELDS_ALL};
	struct difference found;

	for (size_t i = 0; i < trace->step_count; i++) {
		if (compare_records(trace->arena, &on[i], &records[i], &compare, &found) == 0)
			continue;
		*text = difference_text(trace, "model and worker", i, &found);
		return false;
	}
	return true;
}

void judge_scenario(const struct trace *trace, const struct replay_ops *worker,
                    struct verdict *verdict)
{
	struct step_record *on;

	*verdict = (struct verdict){.mode = mode_of(trace), .worker_equal = true};
	verdict->recorded_equal = equals_recording(trace, verdict->mode, &verdict->text);
	if (verdict->mode == JUDGE_INFORMATION)
		return;
	on = run_model(trace, true, 0);
	verdict->worker_ran = worker != NULL;
	if (worker != NULL && verdict->recorded_equal)
		verdict->worker_equal = equals_worker(trace, worker, on, &verdict->text);
	find_deviations(trace, on, verdict);
}
