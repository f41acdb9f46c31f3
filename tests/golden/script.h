/* SPDX-License-Identifier: Apache-2.0 */
/* The scripted store: hands out a step's recorded answers and records what was asked. */
#ifndef GOLDEN_SCRIPT_H
#define GOLDEN_SCRIPT_H

#include "trace.h"

/*
 * Answers are handed out per function, in order, within one step; what a step leaves over is
 * dropped. Beyond the script the fallback of golden.md answers: exist = 1 for keys put (result
 * >= 0) or seen present earlier in the scenario, put = 0, get = the bytes asked, tier = none.
 * An answer is delivered at its own length, which may be below or above the number of keys: a
 * store with one slot per key cuts the surplus and leaves the missing slots at their preset.
 */
struct script;

struct script_answer {
	bool raised; /* the call failed as a whole; no values */
	struct ints values;
	struct texts tiers; /* replica_desc only */
};

/* One batch; borrowed during the call, copied into the record. */
struct script_batch {
	const struct texts *keys;
	const struct ints *addrs; /* per key; NULL for exist and replica_desc */
	const struct ints *sizes;
	const struct texts *group_ids; /* per key; NULL: never set */
};

/* Carries out one operation that another thread does meanwhile. */
typedef void (*script_during_fn)(void *context, const struct trace_op *op);

/*
 * Optional: makes an answer where the script has none, in place of the fallback; used to draw
 * random scenarios.
 */
typedef const struct trace_answer *(*script_invent_fn)(void *context, const struct trace_step *step,
                                                       enum store_fn fn,
                                                       const struct script_batch *batch);

void script_invent(struct script *script, script_invent_fn invent, void *context);

struct script *script_create(struct arena *arena, script_during_fn during, void *context);

/* Starts a step: its answers are handed out next, its calls are recorded into `record`. */
void script_begin(struct script *script, const struct trace_step *step, struct step_record *record);

struct script_answer script_call(struct script *script, enum store_fn fn,
                                 const struct script_batch *batch);
/* Calls recorded in this step so far. */
size_t script_call_count(const struct script *script);
/* Records the wait for the device event of a job. */
void script_event_sync(struct script *script);

#endif
