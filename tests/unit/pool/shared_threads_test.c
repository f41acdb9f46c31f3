/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Eight handles of four threads each on one mapping of a small shared pool (shared_crowd.c). Where
 * mutants are given (shared_mutants.py), ThreadSanitizer has to find the race that each has.
 */
#include <setjmp.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { RACE_STATUS = 66, TRIES = 12 };

static const char *crowd_path;
static char **mutants; /* paths; NULL at the end */

struct crowd_outcome {
	int status;      /* exit status; -1: a signal ended it */
	char words[512]; /* the first that it wrote */
};

/* How much it does. */
struct crowd_run {
	unsigned seed, lives, rounds;
	bool blind;
};

static void crowd_arguments(const char *program, const struct crowd_run *run, char **argv,
                            char texts[5][256])
{
	snprintf(texts[0], sizeof(texts[0]), "%s", program);
	snprintf(texts[1], sizeof(texts[1]), "%u", run->seed);
	snprintf(texts[2], sizeof(texts[2]), "%u", run->lives);
	snprintf(texts[3], sizeof(texts[3]), "%u", run->rounds);
	snprintf(texts[4], sizeof(texts[4]), "blind");
	for (unsigned i = 0; i < 5; i++)
		argv[i] = texts[i];
	argv[run->blind ? 5 : 4] = NULL;
}

/* environment: NULL is this process's. */
static struct crowd_outcome run_crowd(const char *program, const struct crowd_run *run,
                                      char **environment)
{
	struct crowd_outcome outcome = {.status = -1};
	char texts[5][256], path[64], *argv[6];
	posix_spawn_file_actions_t actions;
	size_t bytes = 0;
	int pipes[2], status;
	ssize_t got;
	pid_t child;

	crowd_arguments(program, run, argv, texts);
	assert_int_equal(pipe(pipes), 0);
	assert_int_equal(posix_spawn_file_actions_init(&actions), 0);
	posix_spawn_file_actions_adddup2(&actions, pipes[1], 1);
	posix_spawn_file_actions_adddup2(&actions, pipes[1], 2);
	posix_spawn_file_actions_addclose(&actions, pipes[0]);
	posix_spawn_file_actions_addclose(&actions, pipes[1]);
	assert_int_equal(posix_spawn(&child, program, &actions, NULL, argv,
	                             environment ? environment : environ),
	                 0);
	posix_spawn_file_actions_destroy(&actions);
	close(pipes[1]);
	do {
		char rest[4096];
		bool fits = bytes < sizeof(outcome.words) - 1;

		got = fits ? read(pipes[0], outcome.words + bytes,
		                  sizeof(outcome.words) - 1 - bytes)
		           : read(pipes[0], rest, sizeof(rest));
		bytes += fits && got > 0 ? (size_t)got : 0;
	} while (got > 0);
	close(pipes[0]);
	assert_int_equal(waitpid(child, &status, 0), child);
	snprintf(path, sizeof(path), "/dev/shm/kvhold.crowd-%ld", (long)child);
	unlink(path);
	if (WIFEXITED(status))
		outcome.status = WEXITSTATUS(status);
	return outcome;
}

static void expect_right(const struct crowd_run *run)
{
	struct crowd_outcome outcome = run_crowd(crowd_path, run, NULL);

	if (outcome.status != 0)
		fail_msg("exit status %d: %s", outcome.status, outcome.words);
}

/* proves: S-1, S-3, S-4, S-10, S-11, S-13 */
static void handles_on_one_mapping_read_right_bytes_or_nothing(void **state)
{
	(void)state;
	expect_right(&(struct crowd_run){.seed = 1, .lives = 2, .rounds = 100});
}

/* proves: S-6, S-7, S-23 */
static void handles_that_come_and_go_lose_nothing(void **state)
{
	(void)state;
	expect_right(&(struct crowd_run){.seed = 2, .lives = 30, .rounds = 2});
	expect_right(&(struct crowd_run){.seed = 3, .lives = 100, .rounds = 0});
}

/* Its races must not land in this run's results, nor one that is known hide another. */
static char *environment[] = {
	(char[]){"TSAN_OPTIONS=halt_on_error=1:exitcode=66:report_signal_unsafe=0"}, NULL};

/* Some races are of those who use the pool, others of those who open and close it. */
static struct crowd_run run_of(unsigned try)
{
	if (try % 2 == 0)
		return (struct crowd_run){.seed = try, .lives = 1, .rounds = 100, .blind = true};
	return (struct crowd_run){.seed = try, .lives = 200, .rounds = 0, .blind = true};
}

static bool has_race(const struct crowd_outcome *outcome)
{
	return outcome->status == RACE_STATUS && strstr(outcome->words, "data race");
}

static void each_mutant_has_a_race_that_is_found(void **state)
{
	(void)state;
	for (char **mutant = mutants; *mutant; mutant++) {
		struct crowd_outcome outcome = {0};

		/* It may also break in another way first, or end in luck: then once more. */
		for (unsigned try = 0; try < TRIES && !has_race(&outcome); try++) {
			struct crowd_run run = run_of(try);

			outcome = run_crowd(*mutant, &run, environment);
		}
		if (!has_race(&outcome))
			fail_msg("%s: exit status %d: %s", *mutant, outcome.status, outcome.words);
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(handles_on_one_mapping_read_right_bytes_or_nothing),
		cmocka_unit_test(handles_that_come_and_go_lose_nothing),
	};
	const struct CMUnitTest mutant_tests[] = {
		cmocka_unit_test(each_mutant_has_a_race_that_is_found),
	};
	int failed;

	if (argc < 2) {
		fprintf(stderr, "usage: shared_threads_test SHARED_CROWD [MUTANT...]\n");
		return 2;
	}
	crowd_path = argv[1];
	mutants = argv + 2;
	failed = cmocka_run_group_tests_name("shared_threads", tests, NULL, NULL);
	if (*mutants)
		failed += cmocka_run_group_tests_name("shared_mutants", mutant_tests, NULL, NULL);
	else
		fprintf(stderr, "mutants are for ThreadSanitizer: none was built\n");
	return failed;
}
