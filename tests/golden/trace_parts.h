/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the scenario loader share. */
#ifndef GOLDEN_TRACE_PARTS_H
#define GOLDEN_TRACE_PARTS_H

#include "jread.h"
#include "trace.h"

void trace_read_config(struct jread *in, json_t *object, struct trace_config *config);
void trace_read_step(struct jread *in, json_t *object, const struct trace_config *config,
                     struct trace_step *step);
void trace_read_answer(struct jread *in, json_t *object, const struct trace_config *config,
                       struct trace_answer *answer);
void trace_read_expect(struct jread *in, json_t *object, struct trace_step *step);

#endif
