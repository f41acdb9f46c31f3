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
#include "pool/local/shm_room.h"

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
	bool verify = false, prefault = false;
	const char *texts[3] = {NULL, NULL, NULL};
	const struct kvh_url_known known[] = {
		{"size", KVH_URL_SIZE, &size, 4096, UINT64_MAX},
		{"verify", KVH_URL_FLAG, &verify, 0, 0},
		{"mode", KVH_URL_TEXT, &texts[0], 0, 0},
		{"group", KVH_URL_TEXT, &texts[1], 0, 0},
		{"numa", KVH_URL_TEXT, &texts[2], 0, 0},
		{"prefault", KVH_URL_FLAG, &prefault, 0, 0},
	};
	struct kvh_error error = {0};

	if (kvh_url_read(url, known, sizeof(known) / sizeof(known[0]), &error) == KVH_OK) {
		KVH_CHECK(size == 0 || size >= 4096);
		for (size_t i = 0; i < 3; i++)
			KVH_CHECK(!texts[i] == !kvh_url_has(url, known[2 + i].name));
		KVH_CHECK(!prefault || kvh_url_has(url, "prefault"));
		if (kvh_room_numa_check(texts[2], &error) != KVH_OK)
			KVH_CHECK(texts[2] && error.text[0]);
	} else {
		KVH_CHECK(error.status == KVH_INVALID_PARAMS && error.text[0]);
	}
}

/* A name stays in its folder, a path is absolute and a file's. */
static void check_path(const struct kvh_url *url)
{
	static const char folder[] = "/dev/shm/kvhold.";
	static char path[KVH_SHARED_PATH_BYTES];
	struct kvh_error error = {0};

	if (kvh_shared_path(url->rest, path, &error) != KVH_OK) {
		KVH_CHECK(error.status == KVH_INVALID_PARAMS && error.text[0]);
		return;
	}
	if (url->rest[0] == '/') {
		KVH_CHECK(strcmp(path, url->rest + 2) == 0 && path[0] == '/' && path[1] != '/');
		KVH_CHECK(path[strlen(path) - 1] != '/');
		return;
	}
	KVH_CHECK(strncmp(path, folder, sizeof(folder) - 1) == 0);
	KVH_CHECK(strcmp(path + sizeof(folder) - 1, url->rest) == 0 && url->rest[0]);
	KVH_CHECK(!strpbrk(url->rest, "/ %?") && strlen(url->rest) <= 200);
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
		check_path(&url);
	} else {
		KVH_CHECK(error.status == KVH_INVALID_PARAMS && error.text[0]);
	}
	kvh_free(text);
	return 0;
}
