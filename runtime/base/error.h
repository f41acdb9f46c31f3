/* SPDX-License-Identifier: Apache-2.0 */
/* Filling a caller's kvh_error. */
#ifndef KVH_BASE_ERROR_H
#define KVH_BASE_ERROR_H

#include <kvhold/status.h>

/* Sets status and text (error may be NULL) and returns status, for "return kvh_fail(...)". */
kvh_status kvh_fail(struct kvh_error *error, kvh_status status, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

#endif
