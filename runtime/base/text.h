/* SPDX-License-Identifier: Apache-2.0 */
/* Growing text into a fixed buffer (metrics, keys), single lines (logs, errors), and hex. */
#ifndef KVH_BASE_TEXT_H
#define KVH_BASE_TEXT_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <kvhold/status.h>

/* Counts what the whole text takes, also past the end of the buffer. */
struct kvh_text {
	char *out;
	size_t capacity_bytes;
	size_t needed_bytes; /* without the final 0 */
};

/* out: borrowed until kvh_text_end; NULL only counts. */
void kvh_text_init(struct kvh_text *text, char *out, size_t capacity_bytes);
void kvh_text_add(struct kvh_text *text, const void *data, size_t bytes);
void kvh_text_addf(struct kvh_text *text, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/*
 * Ends the text with 0. *needed_bytes (NULL allowed) counts it, and is written either way.
 * KVH_BUSY: it did not fit and is cut.
 */
kvh_status kvh_text_end(struct kvh_text *text, size_t *needed_bytes);

/* Prometheus: "# HELP", "# TYPE" and one sample. labels: "" or "a=\"b\"". */
void kvh_text_metric(struct kvh_text *text, const char *name, const char *type, const char *help);
void kvh_text_sample(struct kvh_text *text, const char *name, const char *labels, uint64_t value);

/*
 * One line that always ends in 0: cut between UTF-8 characters when too long, control characters
 * shown as '?'. capacity_bytes: 1 at least.
 */
void kvh_text_line(char *out, size_t capacity_bytes, const char *format, va_list args)
	__attribute__((format(printf, 3, 0)));

/* out: 2 * bytes characters, no final 0. */
void kvh_hex_encode(const uint8_t *data, size_t bytes, char *out);
/* Lower-case only; text_bytes even. False: not such text, and out is left alone. */
bool kvh_hex_decode(const char *text, size_t text_bytes, uint8_t *out);

#endif
