/* SPDX-License-Identifier: Apache-2.0 */
/* An environment whose threads are coroutines that run only when told; time stands still. */
#ifndef GOLDEN_COENV_H
#define GOLDEN_COENV_H

#include <kvhold/env.h>

/* Threads of one coenv, in order of creation. */
struct coenv;

struct coenv *coenv_open(void);
/* Every thread must have ended. */
void coenv_close(struct coenv *coenv);
/* Lent until coenv_close. */
const struct kvh_env *coenv_env(const struct coenv *coenv);
/* Resumes thread number index until it waits, or is between two jobs. */
void coenv_resume(struct coenv *coenv, size_t index);
/* Moves the clock. */
void coenv_advance_ns(struct coenv *coenv, uint64_t ns);

#endif
