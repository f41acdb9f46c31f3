/* SPDX-License-Identifier: Apache-2.0 */
/* Store URLs: scheme:rest?name=value&name=value, parsed strictly. */
#ifndef KVH_OPEN_URL_H
#define KVH_OPEN_URL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <kvhold/status.h>

enum {
	KVH_URL_BYTES_MAX = 4096, /* final 0 not counted */
	KVH_URL_OPTIONS_MAX = 32
};

/* Decoded; points into the URL's own text and ends in 0. */
struct kvh_url_option {
	const char *name;
	const char *value;
};

struct kvh_url {
	const char *scheme;
	const char *rest; /* between the scheme's colon and the question mark, decoded; may be "" */
	size_t option_count;
	struct kvh_url_option options[KVH_URL_OPTIONS_MAX];
	char text[KVH_URL_BYTES_MAX + 1];
};

/*
 * Copies and parses text. Refused with words: what is not a URL of this form, options that are
 * empty or given twice, and secrets, which belong in files and never come back in an error's text.
 * *url is undefined on failure.
 */
kvh_status kvh_url_parse(const char *text, struct kvh_url *url, struct kvh_error *error);

enum kvh_url_option_kind {
	KVH_URL_SIZE, /* uint64_t: "8GiB" */
	KVH_URL_FLAG, /* bool: 0 or 1 */
	KVH_URL_TEXT  /* const char *: points into the URL */
};

/* An option that a backend knows. value is written when the URL has it, and left alone otherwise.
 */
struct kvh_url_known {
	const char *name;
	enum kvh_url_option_kind kind;
	void *value;
	uint64_t min; /* KVH_URL_SIZE: the range, both ends included */
	uint64_t max;
};

/* Reads all options. An unknown one is refused with the nearest known one beside it. */
kvh_status kvh_url_read(const struct kvh_url *url, const struct kvh_url_known *known,
                        size_t known_count, struct kvh_error *error);

bool kvh_url_has(const struct kvh_url *url, const char *name);

/* The nearest of count words within a third of its letters, or NULL. */
const char *kvh_nearest_word(const char *word, const char *const *words, size_t count);

#endif
