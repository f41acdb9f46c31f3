/* SPDX-License-Identifier: Apache-2.0 */
/* Growing text into a fixed buffer (metrics, keys), and hex. */
#ifndef KVH_BASE_TEXT_H
#define KVH_BASE_TEXT_H

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

void kvh_text_init(struct kvh_text *text, char *out, size_t capacity_bytes);
void kvh_text_add(struct kvh_text *text, const void *data, size_t bytes);
void kvh_text_addf(struct kvh_text *text, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* Ends the text with 0. *needed_bytes (NULL allowed) counts it. KVH_BUSY: it did not fit. */
kvh_status kvh_text_end(struct kvh_text *text, size_t *needed_bytes);

/* Prometheus: "# HELP", "# TYPE" and one sample. labels: "" or "a=\"b\"". */
void kvh_text_metric(struct kvh_text *text, const char *name, const char *type, const char *help);
void kvh_text_sample(struct kvh_text *text, const char *name, const char *labels, uint64_t value);

/* out: 2 * bytes characters, no final 0. */
void kvh_hex_encode(const uint8_t *data, size_t bytes, char *out);
/* Lower-case only; text_bytes even. */
bool kvh_hex_decode(const char *text, size_t text_bytes, uint8_t *out);

#endif
