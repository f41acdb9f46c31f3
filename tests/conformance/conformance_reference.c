/* SPDX-License-Identifier: Apache-2.0 */
/* The conformance suite over the reference store. --mutant NAME: over a wrong one. */
#include <stdio.h>
#include <string.h>

#include "conformance.h"
#include "mutants.h"

static enum mutant mutant = MUTANT_NONE;

static kvh_status open_reference(uint64_t capacity_bytes, const struct kvh_store_options *options,
                                 struct kvh_store **store, struct kvh_error *error)
{
	return reference_open(capacity_bytes, mutant, options, store, error);
}

static bool choose_mutant(const char *name)
{
	for (size_t i = 0; i < MUTANT_CASE_COUNT; i++) {
		if (strcmp(mutant_cases[i].name, name) == 0) {
			mutant = mutant_cases[i].mutant;
			return true;
		}
	}
	fprintf(stderr, "no mutant %s\n", name);
	return false;
}

int main(int argc, char **argv)
{
	const struct conf_subject subject = {.name = "conformance", .open = open_reference};

	for (int i = 1; i + 1 < argc; i++) {
		if (strcmp(argv[i], "--mutant") == 0 && !choose_mutant(argv[i + 1]))
			return 125;
	}
	return conf_main(&subject, argc, argv);
}
