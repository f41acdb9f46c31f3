/* SPDX-License-Identifier: Apache-2.0 */
/* The suite is tested: each mutant of the reference store fails the one test that is meant for it.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <spawn.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "mutants.h"

static const char *suite_path;

/* Exit status of the suite with these arguments; its output goes nowhere. */
static int run_suite(const char *mutant_name, const char *test_name)
{
	char *const argv[] = {(char *)(uintptr_t)suite_path,
	                      (char *)(uintptr_t) "--test",
	                      (char *)(uintptr_t)test_name,
	                      (char *)(uintptr_t)(mutant_name ? "--mutant" : NULL),
	                      (char *)(uintptr_t)mutant_name,
	                      NULL};
	/* The children's failures are wanted: they must not land in this run's results. */
	char *const no_environment[] = {NULL};
	posix_spawn_file_actions_t actions;
	int status = -1;
	pid_t child;

	assert_int_equal(posix_spawn_file_actions_init(&actions), 0);
	posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
	posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
	assert_int_equal(posix_spawn(&child, suite_path, &actions, NULL, argv, no_environment), 0);
	posix_spawn_file_actions_destroy(&actions);
	assert_int_equal(waitpid(child, &status, 0), child);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* proves: S-1, S-3, S-10, S-11, S-12, S-13, S-14 */
static void each_mutant_fails_its_test(void **state)
{
	(void)state;
	for (size_t i = 0; i < MUTANT_CASE_COUNT; i++) {
		int failed = run_suite(mutant_cases[i].name, mutant_cases[i].caught_by);

		/* One test ran and failed: a crash or a missing test is no catch. */
		if (failed != 1)
			fail_msg("mutant %s: %s gave %d, not 1", mutant_cases[i].name,
			         mutant_cases[i].caught_by, failed);
	}
}

/* proves: S-1 */
static void every_mutant_has_a_case(void **state)
{
	(void)state;
	for (int mutant = MUTANT_NONE + 1; mutant < MUTANT_COUNT; mutant++) {
		bool found = false;

		for (size_t i = 0; i < MUTANT_CASE_COUNT; i++)
			found |= (int)mutant_cases[i].mutant == mutant;
		assert_true(found);
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_mutant_fails_its_test),
		cmocka_unit_test(every_mutant_has_a_case),
	};

	if (argc != 2) {
		fprintf(stderr, "usage: mutants_test PATH-OF-THE-SUITE\n");
		return 2;
	}
	suite_path = argv[1];
	return cmocka_run_group_tests(tests, NULL, NULL);
}
