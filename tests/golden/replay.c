/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a scenario through a system, one step at a time. */
#include "replay.h"

struct run {
	const struct replay_ops *ops;
	void *system;
};

static void run_during(void *context, const struct trace_op *op)
{
	struct run *run = context;
	struct step_result ignored = {0};

	run->ops->step(run->system, op, &ignored);
}

struct step_record *replay_run_inventing(const struct replay_ops *ops, const void *options,
                                         const struct trace *trace, script_invent_fn invent,
                                         void *context)
{
	struct run run = {.ops = ops};
	struct script *script = script_create(trace->arena, run_during, &run);
	struct step_record *records =
		arena_take(trace->arena, trace->step_count + 1, sizeof(*records));

	script_invent(script, invent, context);
	run.system = ops->create(options, trace, script);
	for (size_t i = 0; i < trace->step_count; i++) {
		script_begin(script, &trace->steps[i], &records[i]);
		if (ops->begin != NULL)
			ops->begin(run.system, &trace->steps[i]);
		records[i].error = ops->step(run.system, &trace->steps[i].op, &records[i].result);
		ops->observe(run.system, &records[i]);
	}
	ops->destroy(run.system);
	return records;
}

struct step_record *replay_run(const struct replay_ops *ops, const void *options,
                               const struct trace *trace)
{
	return replay_run_inventing(ops, options, trace, NULL, NULL);
}
