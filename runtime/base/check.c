/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a process that found a bug of ours. */
#include "base/check.h"

#include <stdio.h>
#include <stdlib.h>

_Noreturn void kvh_check_failed(const char *file, int line, const char *condition)
{
	fprintf(stderr, "kvhold: bug at %s:%d: %s does not hold, stopping. Please report this.\n",
	        file, line, condition);
	abort();
}
