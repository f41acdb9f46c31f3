/* SPDX-License-Identifier: Apache-2.0 */
/* What the unit tests of the base share: cmocka, seeded random numbers, expected ends. */
#ifndef KVH_TESTS_UNIT_BASE_UNIT_H
#define KVH_TESTS_UNIT_BASE_UNIT_H

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* SplitMix64: the same numbers on every machine for a seed. */
static inline uint64_t draw(uint64_t *seed)
{
	uint64_t z = *seed += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

/* Runs fn in a child process and returns how that ended (waitpid's status). */
static inline int end_of_child(void (*fn)(void))
{
	struct rlimit no_core = {0};
	int status = 0;
	pid_t child;

	fflush(NULL);
	child = fork();
	if (child == 0) {
		setrlimit(RLIMIT_CORE, &no_core);
		fn();
		_exit(0);
	}
	assert_true(child > 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	return status;
}

/* A KVH_CHECK that fails: the process must end by SIGABRT. */
static inline void assert_stops(void (*fn)(void))
{
	int status = end_of_child(fn);

	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGABRT);
}

#endif
