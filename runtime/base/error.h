/* SPDX-License-Identifier: Apache-2.0 */
/* Filling a caller's kvh_error. */
#ifndef KVH_BASE_ERROR_H
#define KVH_BASE_ERROR_H

#include <kvhold/status.h>

/* Sets status and text; error may be NULL. */
void kvh_error_set(struct kvh_error *error, kvh_status status, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* The status, in sight of compilers: they know that a function which fails so does not return 0. */
static inline kvh_status kvh_failed(kvh_status status)
{
	return status;
}

/* Sets status and text and is the status, for "return kvh_fail(...)". */
#define kvh_fail(error, status, ...)                                                               \
	(kvh_error_set((error), (status), __VA_ARGS__), kvh_failed(status))

#endif
