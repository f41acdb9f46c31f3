/* SPDX-License-Identifier: Apache-2.0 */
/* Reading JSON fields with one error, kept as text, in place of a check at each field. */
#ifndef GOLDEN_JREAD_H
#define GOLDEN_JREAD_H

#include <jansson.h>

#include "mem.h"

/* The first error sticks; readers then return zero, false or "". */
struct jread {
	struct arena *arena;
	const char *error;
};

void jread_fail(struct jread *in, const char *field, const char *what);
int64_t jread_int(struct jread *in, json_t *object, const char *field);
int64_t jread_int_or(struct jread *in, json_t *object, const char *field, int64_t otherwise);
bool jread_bool_or(struct jread *in, json_t *object, const char *field, bool otherwise);
const char *jread_text(struct jread *in, json_t *object, const char *field);
const char *jread_text_or(struct jread *in, json_t *object, const char *field,
                          const char *otherwise);
/* The array of that name; NULL if it is absent or null, an error if it is something else. */
json_t *jread_array(struct jread *in, json_t *object, const char *field);
struct ints jread_int_list(struct jread *in, json_t *array, const char *field);
struct texts jread_text_list(struct jread *in, json_t *array, const char *field);
bool jread_present(json_t *object, const char *field);

#endif
