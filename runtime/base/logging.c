/* SPDX-License-Identifier: Apache-2.0 */
/* Log lines to the caller's function. */
#include "base/logging.h"

#include <stdarg.h>

#include "base/text.h"

#define LINE_BYTES       1024
#define SHORT_HASH_BYTES 8

void kvh_log_line(const struct kvh_log *log, enum kvh_log_level level, const char *format, ...)
{
	char line[LINE_BYTES];
	va_list args;

	if (!kvh_log_wants(log, level))
		return;
	va_start(args, format);
	kvh_text_line(line, sizeof(line), format, args);
	va_end(args);
	log->fn(log->user, level, line);
}

const char *kvh_hash_short(const uint8_t *hash, uint32_t hash_bytes, char out[17])
{
	size_t shown_bytes = hash_bytes < SHORT_HASH_BYTES ? hash_bytes : SHORT_HASH_BYTES;

	kvh_hex_encode(hash, shown_bytes, out);
	out[2 * shown_bytes] = 0;
	return out;
}
