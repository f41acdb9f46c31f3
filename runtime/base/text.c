/* SPDX-License-Identifier: Apache-2.0 */
/* Growing text into a fixed buffer, single lines, and hex. */
#include "base/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/size.h"

void kvh_text_init(struct kvh_text *text, char *out, size_t capacity_bytes)
{
	*text = (struct kvh_text){.out = out, .capacity_bytes = out ? capacity_bytes : 0};
}

static size_t room_bytes(const struct kvh_text *text)
{
	return text->needed_bytes < text->capacity_bytes ? text->capacity_bytes - text->needed_bytes
	                                                 : 0;
}

/* Saturates: a count that no longer grows still says "does not fit". */
static void count_bytes(struct kvh_text *text, size_t bytes)
{
	if (!kvh_size_add(text->needed_bytes, bytes, &text->needed_bytes))
		text->needed_bytes = SIZE_MAX;
}

void kvh_text_add(struct kvh_text *text, const void *data, size_t bytes)
{
	size_t room = room_bytes(text);
	size_t fit_bytes = bytes < room ? bytes : room;

	if (fit_bytes)
		memcpy(text->out + text->needed_bytes, data, fit_bytes);
	count_bytes(text, bytes);
}

void kvh_text_addf(struct kvh_text *text, const char *format, ...)
{
	size_t room = room_bytes(text);
	va_list args;
	int bytes;

	va_start(args, format);
	bytes = vsnprintf(room ? text->out + text->needed_bytes : NULL, room, format, args);
	va_end(args);
	KVH_CHECK(bytes >= 0);
	count_bytes(text, (size_t)bytes);
}

kvh_status kvh_text_end(struct kvh_text *text, size_t *needed_bytes)
{
	bool fits = text->needed_bytes < text->capacity_bytes;

	if (text->capacity_bytes)
		text->out[fits ? text->needed_bytes : text->capacity_bytes - 1] = 0;
	count_bytes(text, 1);
	if (needed_bytes)
		*needed_bytes = text->needed_bytes;
	return fits ? KVH_OK : KVH_BUSY;
}

void kvh_text_metric(struct kvh_text *text, const char *name, const char *type, const char *help)
{
	kvh_text_addf(text, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

void kvh_text_sample(struct kvh_text *text, const char *name, const char *labels, uint64_t value)
{
	if (labels[0])
		kvh_text_addf(text, "%s{%s} %" PRIu64 "\n", name, labels, value);
	else
		kvh_text_addf(text, "%s %" PRIu64 "\n", name, value);
}

/* The bytes to keep of text that was cut at text_bytes, so that no UTF-8 character is halved. */
static size_t whole_characters(const char *text, size_t text_bytes)
{
	size_t start = text_bytes;
	size_t character_bytes;
	unsigned char first;

	while (start > 0 && text_bytes - start < 3 &&
	       ((unsigned char)text[start - 1] & 0xc0) == 0x80)
		start--;
	if (start == 0)
		return text_bytes;
	first = (unsigned char)text[start - 1];
	character_bytes = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : first >= 0xc0 ? 2 : 1;
	return text_bytes - (start - 1) < character_bytes ? start - 1 : text_bytes;
}

void kvh_text_line(char *out, size_t capacity_bytes, const char *format, va_list args)
{
	int bytes = vsnprintf(out, capacity_bytes, format, args);

	KVH_CHECK(bytes >= 0);
	if ((size_t)bytes >= capacity_bytes)
		out[whole_characters(out, capacity_bytes - 1)] = 0;
	/* Names and paths from outside must not start a line of their own. */
	for (char *at = out; *at; at++) {
		if ((unsigned char)*at < ' ' || *at == 0x7f)
			*at = '?';
	}
}

void kvh_hex_encode(const uint8_t *data, size_t bytes, char *out)
{
	static const char digits[] = "0123456789abcdef";

	for (size_t index = 0; index < bytes; index++) {
		out[2 * index] = digits[data[index] >> 4];
		out[2 * index + 1] = digits[data[index] & 0xf];
	}
}

#define NO_HEX 16u

static unsigned hex_value(char digit)
{
	if (digit >= '0' && digit <= '9')
		return (unsigned)(digit - '0');
	if (digit >= 'a' && digit <= 'f')
		return (unsigned)(digit - 'a') + 10;
	return NO_HEX;
}

static bool is_hex(const char *text, size_t text_bytes)
{
	for (size_t index = 0; index < text_bytes; index++) {
		if (hex_value(text[index]) == NO_HEX)
			return false;
	}
	return text_bytes % 2 == 0;
}

bool kvh_hex_decode(const char *text, size_t text_bytes, uint8_t *out)
{
	/* Checked first, so that out is written on success only. */
	if (!is_hex(text, text_bytes))
		return false;
	for (size_t index = 0; index < text_bytes / 2; index++) {
		unsigned high = hex_value(text[2 * index]);
		unsigned low = hex_value(text[2 * index + 1]);

		out[index] = (uint8_t)(high << 4 | low);
	}
	return true;
}
