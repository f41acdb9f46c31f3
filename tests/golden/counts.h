/* SPDX-License-Identifier: Apache-2.0 */
/* Counts of a replay: per file, per deviation, and their comparison with expected.txt. */
#ifndef GOLDEN_COUNTS_H
#define GOLDEN_COUNTS_H

#include <stdio.h>

#include "model.h"

struct counts {
	int64_t cases;
	int64_t equal;
	int64_t deviating;
	int64_t different;
	int64_t information; /* replayed, not judged */
	int64_t information_equal;
	int64_t under[MODEL_SWITCHES + 1];
	int64_t under_none; /* deviating, but no switch alone removes a difference */
};

void counts_add(struct counts *total, const struct counts *part);
/* One line for the file, then one per deviation that occurs. */
void counts_print(FILE *out, const char *name, const struct counts *counts);
/* Per switch the count over all files, those with 0 included. */
void counts_print_switches(FILE *out, const struct counts *counts);
/* True if the file at `path` holds exactly `text`; otherwise prints the first unequal line. */
bool counts_match(const char *path, const char *text);

#endif
