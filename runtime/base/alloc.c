/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that a fault point can refuse. */
#include <stdlib.h>

#include "base/fault.h"

void *kvh_alloc(size_t bytes)
{
	if (KVH_FAULT(BASE_ALLOC, "", 0))
		return NULL;
	/* malloc(0) may answer NULL, which our callers read as a failure. */
	return malloc(bytes ? bytes : 1);
}

void *kvh_calloc(size_t count, size_t bytes)
{
	if (KVH_FAULT(BASE_ALLOC, "", 0))
		return NULL;
	return count && bytes ? calloc(count, bytes) : calloc(1, 1);
}

void kvh_free(void *memory)
{
	free(memory);
}
