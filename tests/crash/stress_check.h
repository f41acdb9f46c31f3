/* SPDX-License-Identifier: Apache-2.0 */
/* The judgement over a shared pool that a crowd has left. */
#ifndef KVH_TESTS_CRASH_STRESS_CHECK_H
#define KVH_TESTS_CRASH_STRESS_CHECK_H

#include "crowd.h"

/*
 * Nobody has the pool open. Opens it and demands that every object has its bytes, that nothing is
 * reserved, pinned or lost, that a clean close is trusted, and that all of its room can be filled.
 * False: the board says what is wrong. *rebuilds: how many there have been.
 */
bool stress_check(struct crowd_board *board, const char *path, uint64_t *rebuilds);

#endif
