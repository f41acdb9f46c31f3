/* SPDX-License-Identifier: Apache-2.0 */
/* The reference model: requests.md and coordinator.md, single-threaded, one switch per D-n. */
#ifndef GOLDEN_MODEL_H
#define GOLDEN_MODEL_H

#include "replay.h"

/*
 * Switches 1..23 are D-1..D-23 of requests.md. Switch 24 stands for R-38 (preempting or finishing
 * a request cancels its queued loads), which is ours as well but has no D number.
 *
 * Without effect here, as the scripted world cannot show them or the reference classes (0.32)
 * already do it: D-6, D-9, D-19, D-20 (as newer), D-7 (probe 0 = never), D-8 and D-14 (time stands
 * still), D-23 (every scripted answer is quiet).
 */
#define MODEL_SWITCHES     24
#define MODEL_CANCEL_LOADS 24

struct model_options {
	bool on[MODEL_SWITCHES + 1]; /* by number; [0] unused */
	bool fed_masks;              /* store masks come from the trace's recorded evaluations */
};

const struct replay_ops *model_replay_ops(void);
/* "D-12", "R-38". */
const char *model_switch_name(int number);

#endif
