/* SPDX-License-Identifier: Apache-2.0 */
/* Log lines, formatted only when somebody listens. */
#ifndef KVH_BASE_LOGGING_H
#define KVH_BASE_LOGGING_H

#include <stdbool.h>
#include <stdint.h>

#include <kvhold/log.h>

static inline bool kvh_log_wants(const struct kvh_log *log, enum kvh_log_level level)
{
	enum kvh_log_level limit = log->level ? log->level : KVH_LOG_WARN;

	return log->fn && level <= limit;
}

/* Longer lines are cut. Call with no lock held. */
void kvh_log_line(const struct kvh_log *log, enum kvh_log_level level, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* First bytes of a hash in hex for a log line; out holds 17 bytes at least. */
const char *kvh_hash_short(const uint8_t *hash, uint32_t hash_bytes, char out[17]);

#endif
