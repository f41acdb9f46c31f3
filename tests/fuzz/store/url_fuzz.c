/* SPDX-License-Identifier: Apache-2.0 */
/* Store URLs: what is taken has only plain parts, and comes back the same when written again. */
#include "fuzz/fuzz.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <kvhold/store.h>

#include "base/check.h"
#include "base/fault.h"
#include "open/url.h"

static bool is_plain(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

/* Everything that is not a letter or a digit as %XX; NULL: does not fit. */
static char *add_encoded(char *to, const char *end, const char *text)
{
	for (; to && *text; text++) {
		if (end - to < 4)
			return NULL;
		if (is_plain(*text))
			*to++ = *text;
		else
			to += sprintf(to, "%%%02X", (unsigned char)*text);
	}
	return to;
}

static bool write_url(const struct kvh_url *url, char *text, size_t capacity)
{
	const char *end = text + capacity;
	char *to = text + snprintf(text, capacity, "%s:", url->scheme);

	to = add_encoded(to, end, url->rest);
	for (size_t i = 0; to && i < url->option_count; i++) {
		if ((size_t)(end - to) < strlen(url->options[i].name) + 3)
			return false;
		to += sprintf(to, "%c%s=", i ? '&' : '?', url->options[i].name);
		to = add_encoded(to, end, url->options[i].value);
	}
	if (to)
		*to = 0;
	return to != NULL;
}

static void check_text(const char *text)
{
	/* A decoded byte may be above ASCII, never a control character. */
	for (; *text; text++)
		KVH_CHECK((unsigned char)*text >= ' ' && *text != 0x7f);
}

static void check_same(const struct kvh_url *a, const struct kvh_url *b)
{
	KVH_CHECK(strcmp(a->scheme, b->scheme) == 0 && strcmp(a->rest, b->rest) == 0);
	KVH_CHECK(a->option_count == b->option_count);
	for (size_t i = 0; i < a->option_count; i++) {
		KVH_CHECK(strcmp(a->options[i].name, b->options[i].name) == 0);
		KVH_CHECK(strcmp(a->options[i].value, b->options[i].value) == 0);
	}
}

static void check_parsed(const struct kvh_url *url)
{
	static struct kvh_url again;
	char text[KVH_URL_BYTES_MAX];

	KVH_CHECK(url->scheme[0] && url->option_count <= KVH_URL_OPTIONS_MAX);
	check_text(url->rest);
	for (size_t i = 0; i < url->option_count; i++) {
		check_text(url->options[i].value);
		KVH_CHECK(url->options[i].name[0] && url->options[i].value[0]);
	}
	if (!write_url(url, text, sizeof(text)))
		return;
	KVH_CHECK(kvh_url_parse(text, &again, NULL) == KVH_OK);
	check_same(url, &again);
}

/* Reading options answers with words or values, whatever they are. */
static void check_read(const struct kvh_url *url)
{
	uint64_t size = 0;
	bool flag = false;
	const struct kvh_url_known known[] = {
		{"size", KVH_URL_SIZE, &size, 4096, UINT64_MAX},
		{"verify", KVH_URL_FLAG, &flag, 0, 0},
	};
	struct kvh_error error = {0};

	if (kvh_url_read(url, known, 2, &error) == KVH_OK)
		KVH_CHECK(size == 0 || size >= 4096);
	else
		KVH_CHECK(error.status == KVH_INVALID_PARAMS && error.text[0]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	static struct kvh_url url;
	char *text = kvh_alloc(bytes + 1);
	struct kvh_error error = {0};

	KVH_CHECK(text);
	if (bytes)
		memcpy(text, data, bytes);
	text[bytes] = 0;
	if (kvh_url_parse(text, &url, &error) == KVH_OK) {
		check_parsed(&url);
		check_read(&url);
	} else {
		KVH_CHECK(error.status == KVH_INVALID_PARAMS && error.text[0]);
	}
	kvh_free(text);
	return 0;
}
