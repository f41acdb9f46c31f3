/* SPDX-License-Identifier: Apache-2.0 */
/* Keys: what is parsed composes to the same text, what is refused has a reason. */
#include "fuzz/fuzz.h"

#include <regex.h>
#include <string.h>

#include "base/check.h"
#include "layout/keys.h"

/* R-1 as a pattern; lengths and the size of numbers are checked apart from it. */
static const char pattern[] = "^[!-~]+@tp_rank:(0|[1-9][0-9]{0,9})@pcp(0|[1-9][0-9]{0,9})"
			      "@dcp(0|[1-9][0-9]{0,9})@pp_rank:(0|[1-9][0-9]{0,9})"
			      "@group:(0|[1-9][0-9]{0,9})@([0-9a-f]{2})+$";

enum { NUMBERS = 5, KEY_BYTES_MAX = KVH_PREFIX_TEXT_BYTES_MAX + 2 * KVH_KEY_HASH_BYTES_MAX };

static bool numbers_fit(const char *text, const regmatch_t *matches)
{
	for (size_t index = 1; index <= NUMBERS; index++) {
		uint64_t value = 0;

		for (regoff_t at = matches[index].rm_so; at < matches[index].rm_eo; at++)
			value = value * 10 + (uint64_t)(text[at] - '0');
		if (value > UINT32_MAX)
			return false;
	}
	return true;
}

/* Whether the text is a key, by the pattern. */
static bool is_key(const char *text, size_t text_bytes)
{
	static regex_t regex;
	static bool compiled;
	regmatch_t matches[NUMBERS + 2];
	size_t prefix_bytes;

	if (!compiled)
		KVH_CHECK(regcomp(&regex, pattern, REG_EXTENDED) == 0);
	compiled = true;
	if (strlen(text) != text_bytes || regexec(&regex, text, NUMBERS + 2, matches, 0) != 0 ||
	    !numbers_fit(text, matches))
		return false;
	prefix_bytes = (size_t)(strrchr(text, '@') + 1 - text);
	return prefix_bytes <= KVH_PREFIX_TEXT_BYTES_MAX &&
	       text_bytes - prefix_bytes <= 2 * KVH_KEY_HASH_BYTES_MAX;
}

/* The head goes in as the model; compose would cut a path, so heads with one are left out. */
static void check_composes(const char *text, const struct kvh_key_spans *spans)
{
	char head[KVH_PREFIX_TEXT_BYTES_MAX + 1] = {0};
	struct kvh_key_parts parts = {.model = head,
	                              .tp_rank = spans->tp_rank,
	                              .pcp_rank = spans->pcp_rank,
	                              .dcp_rank = spans->dcp_rank,
	                              .pp_rank = spans->pp_rank,
	                              .group = spans->group};
	struct kvh_prefix_text prefix;

	memcpy(head, spans->head, spans->head_bytes);
	if (strchr(head, '/'))
		return;
	KVH_CHECK(kvh_key_compose(&parts, &prefix, NULL) == KVH_OK);
	KVH_CHECK(prefix.family_bytes == spans->head_bytes);
	KVH_CHECK(text + prefix.text_bytes == spans->hash_hex);
	KVH_CHECK(memcmp(prefix.text, text, prefix.text_bytes) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	static char text[KEY_BYTES_MAX + 2];
	struct kvh_key_spans spans;
	kvh_status status = kvh_key_parse((const char *)data, bytes, &spans);

	KVH_CHECK(status == KVH_OK || status == KVH_INVALID_KEY);
	if (bytes > KEY_BYTES_MAX) {
		KVH_CHECK(status == KVH_INVALID_KEY);
		return 0;
	}
	if (bytes)
		memcpy(text, data, bytes);
	text[bytes] = 0;
	KVH_CHECK((status == KVH_OK) == is_key(text, bytes));
	if (status == KVH_OK)
		check_composes((const char *)data, &spans);
	return 0;
}
