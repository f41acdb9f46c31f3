/* SPDX-License-Identifier: Apache-2.0 */
/* Counts of a replay. */
#include "counts.h"

#include <stdlib.h>
#include <string.h>

void counts_add(struct counts *total, const struct counts *part)
{
	total->cases += part->cases;
	total->equal += part->equal;
	total->deviating += part->deviating;
	total->different += part->different;
	total->information += part->information;
	total->information_equal += part->information_equal;
	total->under_none += part->under_none;
	for (int n = 1; n <= MODEL_SWITCHES; n++)
		total->under[n] += part->under[n];
}

void counts_print(FILE *out, const char *name, const struct counts *counts)
{
	if (counts->information > 0)
		fprintf(out, "%s information %lld agree %lld\n", name,
		        (long long)counts->information, (long long)counts->information_equal);
	if (counts->cases == 0)
		return;
	fprintf(out, "%s cases %lld equal %lld deviating %lld different %lld\n", name,
	        (long long)counts->cases, (long long)counts->equal, (long long)counts->deviating,
	        (long long)counts->different);
	for (int n = 1; n <= MODEL_SWITCHES; n++)
		if (counts->under[n] > 0)
			fprintf(out, "  %s %lld\n", model_switch_name(n),
			        (long long)counts->under[n]);
	if (counts->under_none > 0)
		fprintf(out, "  no single switch %lld\n", (long long)counts->under_none);
}

void counts_print_switches(FILE *out, const struct counts *counts)
{
	for (int n = 1; n <= MODEL_SWITCHES; n++)
		fprintf(out, "total %s %lld\n", model_switch_name(n), (long long)counts->under[n]);
}

static bool same_lines(FILE *file, const char *text)
{
	char *line = NULL;
	size_t room = 0;
	bool same = true;

	while (same && getline(&line, &room, file) > 0) {
		size_t length = strlen(line);

		same = strncmp(line, text, length) == 0;
		if (!same)
			fprintf(stderr, "counts differ: expected %s  computed %.*s\n", line,
			        (int)strcspn(text, "\n"), text);
		else
			text += length;
	}
	if (same && *text != '\0') {
		fprintf(stderr, "counts differ: not expected: %.*s\n", (int)strcspn(text, "\n"),
		        text);
		same = false;
	}
	free(line);
	return same;
}

bool counts_match(const char *path, const char *text)
{
	FILE *file = fopen(path, "r");
	bool same;

	if (file == NULL) {
		perror(path);
		return false;
	}
	same = same_lines(file, text);
	fclose(file);
	return same;
}
