/* SPDX-License-Identifier: Apache-2.0 */
/* KVH_CHECK: stops the process on a bug of ours. Never for wrong input. Stays on in release. */
#ifndef KVH_BASE_CHECK_H
#define KVH_BASE_CHECK_H

_Noreturn void kvh_check_failed(const char *file, int line, const char *condition);

#define KVH_CHECK(condition)                                                                       \
	do {                                                                                       \
		if (__builtin_expect(!(condition), 0))                                             \
			kvh_check_failed(__FILE__, __LINE__, #condition);                          \
	} while (0)

#endif
