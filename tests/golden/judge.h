/* SPDX-License-Identifier: Apache-2.0 */
/* Judges one scenario: recording, model without and with the deviations, worker. */
#ifndef GOLDEN_JUDGE_H
#define GOLDEN_JUDGE_H

#include "compare.h"
#include "model.h"

enum judge_mode {
	JUDGE_ALL,         /* every field of every step */
	JUDGE_TAIL,        /* seed/partial_tail: the tail's own part, store masks fed */
	JUDGE_INFORMATION, /* other families of the older source: reported, never different */
};

struct verdict {
	enum judge_mode mode;
	bool recorded_equal; /* (a) */
	bool worker_ran;
	bool worker_equal; /* (b) */
	bool deviating;    /* (c) */
	bool under[MODEL_SWITCHES + 1];
	const char *text; /* the first difference of (a) or (b), NULL if none */
};

void judge_scenario(const struct trace *trace, const struct replay_ops *worker,
                    struct verdict *verdict);

#endif
