/* SPDX-License-Identifier: Apache-2.0 */
/* Reading recorded cases of the reference: JSON lines under $KVH_TEST_DATA/golden. */
#ifndef TESTS_UNIT_LAYOUT_RECORDED_H
#define TESTS_UNIT_LAYOUT_RECORDED_H

#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "layout/coordinator.h"

/* Calls fn with each line of the file; a missing file or a line that is no JSON fails the test. */
void recorded_each_line(const char *name, void (*fn)(const json_t *line, void *user), void *user);

/* Members that must be there. */
uint64_t recorded_number(const json_t *object, const char *name);
bool recorded_bool(const json_t *object, const char *name);
const char *recorded_text(const json_t *object, const char *name);
const json_t *recorded_member(const json_t *object, const char *name);

/* The coordinator that a line's groups, block sizes and flags describe. The caller destroys it. */
struct kvh_coordinator *recorded_coordinator(const json_t *set_up);

#endif
