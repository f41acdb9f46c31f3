/* SPDX-License-Identifier: Apache-2.0 */
/* Where log lines go: a callback of the caller; silent without one. */
#ifndef KVHOLD_LOG_H
#define KVHOLD_LOG_H

#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif

enum kvh_log_level { KVH_LOG_ERROR = 1, KVH_LOG_WARN = 2, KVH_LOG_INFO = 3, KVH_LOG_DEBUG = 4 };

/*
 * line: one line of UTF-8 without its end, borrowed. It carries job ids, counts and shortened
 * hashes, never token ids, payload or secrets. Called from any thread, never under a lock of ours.
 */
typedef void (*kvh_log_fn)(void *user, enum kvh_log_level level, const char *line);

/* fn NULL: silent. level 0: KVH_LOG_WARN. */
struct kvh_log {
	kvh_log_fn fn;
	void *user;
	enum kvh_log_level level;
};

#ifdef __cplusplus
}
#endif
#endif
