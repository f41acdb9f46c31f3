/* SPDX-License-Identifier: Apache-2.0 */
/* Checks the pure functions of one implementation against a recorded line. */
#ifndef GOLDEN_PURE_CHECK_H
#define GOLDEN_PURE_CHECK_H

#include "jread.h"
#include "pure.h"

enum pure_line { PURE_NONE, PURE_COORDINATOR, PURE_LOOKUP, PURE_VECTOR };

/* What one line came to. The first difference, if any, is described in `text`. */
struct pure_outcome {
	int64_t case_count;
	int64_t different_count;
	const char *fn;   /* of a vector, else NULL */
	const char *text; /* NULL: nothing differs */
};

/* Recognises the line by its content. */
enum pure_line pure_line_kind(json_t *line);
void pure_check_line(struct arena *arena, const struct pure_ops *ops, json_t *line,
                     struct pure_outcome *out);

/* Shared by the two files of the checker. */
void pure_read_setup(struct jread *in, json_t *line, struct pure_setup *setup);
void pure_differs(struct arena *arena, struct pure_outcome *out, const char *what,
                  const char *recorded, const char *computed);
void pure_check_masks(struct arena *arena, json_t *recorded, const struct pure_masks *masks,
                      const char *what, struct pure_outcome *out);
void pure_check_vector(struct arena *arena, const struct pure_ops *ops, json_t *line,
                       struct pure_outcome *out);

#endif
