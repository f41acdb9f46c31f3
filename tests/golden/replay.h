/* SPDX-License-Identifier: Apache-2.0 */
/* The interface of a system that replays scenarios, and the driver that runs one. */
#ifndef GOLDEN_REPLAY_H
#define GOLDEN_REPLAY_H

#include "pure.h"
#include "script.h"

/* A system under test: the model, or the worker behind an adapter. */
struct replay_ops {
	const char *name;
	/* Builds the system from trace->config; its store is `script`. Both outlive it. */
	void *(*create)(const void *options, const struct trace *trace, struct script *script);
	/* Optional: told of each step before it runs (the model takes fed masks from it). */
	void (*begin)(void *system, const struct trace_step *step);
	/*
	 * Carries out one operation. A store call inside may call this again, for `during` ops.
	 * run_save and run_load take the oldest place of their queue; a refused or cancelled job
	 * leaves an empty place, and running an empty place does nothing.
	 * Returns true if the operation ended by an error (a refusal is one).
	 */
	bool (*step)(void *system, const struct trace_op *op, struct step_result *result);
	/* Adds ops and events since the last call, tail_* counts and the state to `record`. */
	void (*observe)(void *system, struct step_record *record);
	void (*destroy)(void *system);
};

/* Runs a whole scenario; one record per step, in the trace's arena. */
struct step_record *replay_run(const struct replay_ops *ops, const void *options,
                               const struct trace *trace);

/* The same with an inventor of answers (script.h). */
struct step_record *replay_run_inventing(const struct replay_ops *ops, const void *options,
                                         const struct trace *trace, script_invent_fn invent,
                                         void *context);

/* Hooks into the runtime, provided by a file that CMake selects; NULL when there is none. */
const struct replay_ops *golden_worker_ops(void);
const struct pure_ops *golden_runtime_pure_ops(void);

#endif
