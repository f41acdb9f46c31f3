/* SPDX-License-Identifier: Apache-2.0 */
/* Parsing store URLs. */
#include "url.h"

#include <string.h>

#include "base/error.h"
#include "base/size.h"

static bool is_lower(char c)
{
	return c >= 'a' && c <= 'z';
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* Also bounds the length: nothing of a longer text is looked at. */
static kvh_status copy_text(const char *text, struct kvh_url *url, struct kvh_error *error)
{
	size_t bytes = 0;

	if (!text)
		return kvh_fail(error, KVH_INVALID_PARAMS,
		                "url: is NULL; try \"local:?size=1GiB\"");
	while (bytes <= KVH_URL_BYTES_MAX && text[bytes]) {
		/* The place is named, not the text: it may be part of a secret. */
		if (text[bytes] <= ' ' || text[bytes] > '~' || text[bytes] == '#')
			return kvh_fail(
				error, KVH_INVALID_PARAMS,
				"url: byte %zu is 0x%02x; write blanks, '#' and what is not "
				"ASCII as %%XX",
				bytes, (unsigned char)text[bytes]);
		bytes++;
	}
	if (bytes > KVH_URL_BYTES_MAX)
		return kvh_fail(error, KVH_INVALID_PARAMS, "url: is longer than %d bytes",
		                KVH_URL_BYTES_MAX);
	memcpy(url->text, text, bytes);
	url->text[bytes] = 0;
	return KVH_OK;
}

static int hex_digit(char c)
{
	if (is_digit(c))
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

/* In place: a decoded text is never longer. */
static kvh_status decode(char *text, struct kvh_error *error)
{
	char *to = text;

	for (const char *from = text; *from;) {
		int high, low;

		if (*from != '%') {
			*to++ = *from++;
			continue;
		}
		high = hex_digit(from[1]);
		low = high < 0 ? -1 : hex_digit(from[2]);
		if (low < 0)
			return kvh_fail(
				error, KVH_INVALID_PARAMS,
				"url: a %% without two hex digits; write %%25 for a percent "
				"sign");
		if (high < 2 || (high == 7 && low == 15))
			return kvh_fail(error, KVH_INVALID_PARAMS,
			                "url: %%%c%c is a control character", from[1], from[2]);
		*to++ = (char)(high << 4 | low);
		from += 3;
	}
	*to = 0;
	return KVH_OK;
}

static kvh_status cut_scheme(struct kvh_url *url, char **rest, struct kvh_error *error)
{
	char *at = url->text;

	while (is_lower(*at) || (at > url->text && (is_digit(*at) || *at == '-')))
		at++;
	if (at == url->text || *at != ':')
		return kvh_fail(error, KVH_INVALID_PARAMS,
		                "url: does not begin with a scheme such as local: or null:");
	*at = 0;
	url->scheme = url->text;
	*rest = at + 1;
	return KVH_OK;
}

static kvh_status refuse_secret(struct kvh_error *error, const char *where)
{
	return kvh_fail(
		error, KVH_INVALID_PARAMS,
		"url: %s holds a password; URLs end up in logs and process lists: put it in "
		"a file that only its owner can read and give password_file=PATH",
		where);
}

/* user:password@ before the path of an address. A name alone (user@) tells no secret. */
static bool has_password(const char *text)
{
	const char *address = strstr(text, "//");
	const char *end, *at, *colon;

	address = address ? address + 2 : text;
	end = strchr(address, '/');
	at = strrchr(address, '@');
	colon = strchr(address, ':');
	if (!at || !colon || colon > at)
		return false;
	/* A slash in front of the '@' may still be one of the password's own characters. */
	return !end || end > colon;
}

static bool is_secret_name(const char *name)
{
	static const char *const secrets[] = {"password", "passwd", "pass",   "pwd",
	                                      "secret",   "token",  "apikey", "api_key"};

	for (size_t i = 0; i < sizeof(secrets) / sizeof(secrets[0]); i++) {
		if (strcmp(name, secrets[i]) == 0)
			return true;
	}
	return false;
}

static bool is_option_name(const char *name)
{
	if (!is_lower(*name))
		return false;
	while (is_lower(*name) || is_digit(*name) || *name == '_')
		name++;
	return *name == 0;
}

static bool has_option(const struct kvh_url *url, const char *name)
{
	for (size_t i = 0; i < url->option_count; i++) {
		if (strcmp(url->options[i].name, name) == 0)
			return true;
	}
	return false;
}

static kvh_status take_option(struct kvh_url *url, char *text, struct kvh_error *error)
{
	char *equals = strchr(text, '=');
	kvh_status status;

	if (equals)
		*equals = 0;
	if (!is_option_name(text))
		return kvh_fail(error, KVH_INVALID_PARAMS,
		                "url: option %zu has no name of letters a-z, digits and _; write "
		                "?name=value&name=value",
		                url->option_count + 1);
	if (is_secret_name(text))
		return refuse_secret(error, text);
	if (!equals || !equals[1])
		return kvh_fail(error, KVH_INVALID_PARAMS, "url: option %s has no value", text);
	if (has_option(url, text))
		return kvh_fail(error, KVH_INVALID_PARAMS, "url: option %s is given twice", text);
	if (url->option_count == KVH_URL_OPTIONS_MAX)
		return kvh_fail(error, KVH_INVALID_PARAMS, "url: more than %d options",
		                KVH_URL_OPTIONS_MAX);
	status = decode(equals + 1, error);
	if (status)
		return status;
	if (has_password(equals + 1))
		return refuse_secret(error, text);
	url->options[url->option_count++] =
		(struct kvh_url_option){.name = text, .value = equals + 1};
	return KVH_OK;
}

static kvh_status take_options(struct kvh_url *url, char *text, struct kvh_error *error)
{
	while (text) {
		char *ampersand = strchr(text, '&');
		kvh_status status;

		if (ampersand)
			*ampersand++ = 0;
		status = take_option(url, text, error);
		if (status)
			return status;
		text = ampersand;
	}
	return KVH_OK;
}

kvh_status kvh_url_parse(const char *text, struct kvh_url *url, struct kvh_error *error)
{
	char *rest, *query;
	kvh_status status;

	url->option_count = 0;
	status = copy_text(text, url, error);
	if (status)
		return status;
	rest = url->text;
	status = cut_scheme(url, &rest, error);
	if (status)
		return status;
	query = strchr(rest, '?');
	if (query)
		*query++ = 0;
	status = decode(rest, error);
	if (status)
		return status;
	if (has_password(rest))
		return refuse_secret(error, "the address");
	url->rest = rest;
	return take_options(url, query, error);
}

bool kvh_url_has(const struct kvh_url *url, const char *name)
{
	for (size_t i = 0; i < url->option_count; i++)
		if (strcmp(url->options[i].name, name) == 0)
			return true;
	return false;
}

/* ---- options ---------------------------------------------------------------------------- */

enum { NAME_BYTES_MAX = 32 };

/* Letters to insert, drop or change; both words are at most NAME_BYTES_MAX long. */
static size_t edit_distance(const char *a, const char *b)
{
	size_t row[NAME_BYTES_MAX + 1];
	size_t b_bytes = strlen(b);

	for (size_t j = 0; j <= b_bytes; j++)
		row[j] = j;
	for (size_t i = 0; a[i]; i++) {
		size_t corner = row[0];

		row[0] = i + 1;
		for (size_t j = 0; j < b_bytes; j++) {
			size_t change = corner + (a[i] != b[j]);
			size_t one = (row[j] < row[j + 1] ? row[j] : row[j + 1]) + 1;

			corner = row[j + 1];
			row[j + 1] = change < one ? change : one;
		}
	}
	return row[b_bytes];
}

const char *kvh_nearest_word(const char *word, const char *const *words, size_t count)
{
	const char *nearest = NULL;
	size_t nearest_distance = SIZE_MAX;

	if (strlen(word) > NAME_BYTES_MAX)
		return NULL;
	for (size_t i = 0; i < count; i++) {
		size_t distance;

		if (strlen(words[i]) > NAME_BYTES_MAX)
			continue;
		distance = edit_distance(word, words[i]);
		if (distance < nearest_distance && distance <= (strlen(words[i]) + 2) / 3) {
			nearest = words[i];
			nearest_distance = distance;
		}
	}
	return nearest;
}

static kvh_status refuse_unknown(const struct kvh_url *url, const char *name,
                                 const struct kvh_url_known *known, size_t known_count,
                                 struct kvh_error *error)
{
	const char *words[KVH_URL_OPTIONS_MAX] = {NULL};
	const char *nearest;
	char list[256] = "";
	size_t count = known_count < KVH_URL_OPTIONS_MAX ? known_count : KVH_URL_OPTIONS_MAX;
	size_t used_bytes = 0;

	for (size_t i = 0; i < count; i++) {
		size_t bytes = strlen(known[i].name);

		words[i] = known[i].name;
		if (used_bytes + bytes + 2 >= sizeof(list))
			continue;
		list[used_bytes++] = ' ';
		memcpy(list + used_bytes, known[i].name, bytes + 1);
		used_bytes += bytes;
	}
	nearest = kvh_nearest_word(name, words, count);
	if (nearest)
		return kvh_fail(error, KVH_INVALID_PARAMS,
		                "url: %s: has no option %s; did you mean %s?", url->scheme, name,
		                nearest);
	return kvh_fail(error, KVH_INVALID_PARAMS, "url: %s: has no option %s; it has:%s",
	                url->scheme, name, used_bytes ? list : " none");
}

static kvh_status read_size(const struct kvh_url_option *option, const struct kvh_url_known *known,
                            struct kvh_error *error)
{
	uint64_t bytes;

	if (!kvh_size_parse(option->value, strlen(option->value), &bytes))
		return kvh_fail(error, KVH_INVALID_PARAMS,
		                "url: option %s is no size; write a whole number and a unit, such "
		                "as 8GiB",
		                option->name);
	if (bytes < known->min || bytes > known->max)
		return kvh_fail(error, KVH_INVALID_PARAMS,
		                "url: option %s is %llu bytes; give %llu to %llu", option->name,
		                (unsigned long long)bytes, (unsigned long long)known->min,
		                (unsigned long long)known->max);
	*(uint64_t *)known->value = bytes;
	return KVH_OK;
}

static kvh_status read_flag(const struct kvh_url_option *option, const struct kvh_url_known *known,
                            struct kvh_error *error)
{
	if ((option->value[0] != '0' && option->value[0] != '1') || option->value[1])
		return kvh_fail(error, KVH_INVALID_PARAMS, "url: option %s is neither 0 nor 1",
		                option->name);
	*(bool *)known->value = option->value[0] == '1';
	return KVH_OK;
}

static kvh_status read_option(const struct kvh_url *url, const struct kvh_url_option *option,
                              const struct kvh_url_known *known, size_t known_count,
                              struct kvh_error *error)
{
	for (size_t i = 0; i < known_count; i++) {
		if (strcmp(known[i].name, option->name) != 0)
			continue;
		switch (known[i].kind) {
		case KVH_URL_SIZE:
			return read_size(option, &known[i], error);
		case KVH_URL_FLAG:
			return read_flag(option, &known[i], error);
		case KVH_URL_TEXT:
		default:
			*(const char **)known[i].value = option->value;
			return KVH_OK;
		}
	}
	return refuse_unknown(url, option->name, known, known_count, error);
}

kvh_status kvh_url_read(const struct kvh_url *url, const struct kvh_url_known *known,
                        size_t known_count, struct kvh_error *error)
{
	for (size_t i = 0; i < url->option_count; i++) {
		kvh_status status = read_option(url, &url->options[i], known, known_count, error);

		if (status)
			return status;
	}
	return KVH_OK;
}
