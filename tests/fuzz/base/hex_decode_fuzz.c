/* SPDX-License-Identifier: Apache-2.0 */
/* Hex: what is decoded encodes to the same text, what is refused has a reason. */
#include "fuzz/fuzz.h"

#include <string.h>

#include "base/check.h"
#include "base/fault.h"
#include "base/text.h"

static bool has_reason(const uint8_t *text, size_t text_bytes)
{
	for (size_t at = 0; at < text_bytes; at++) {
		if (text[at] == 0 || !strchr("0123456789abcdef", text[at]))
			return true;
	}
	return text_bytes % 2 != 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	/* Of exact sizes, so that the sanitizer sees the first byte too many. */
	uint8_t *decoded = kvh_alloc(bytes / 2);
	char *encoded = kvh_alloc(bytes);

	KVH_CHECK(decoded && encoded);
	if (kvh_hex_decode((const char *)data, bytes, decoded)) {
		kvh_hex_encode(decoded, bytes / 2, encoded);
		KVH_CHECK(bytes % 2 == 0 && (bytes == 0 || memcmp(encoded, data, bytes) == 0));
	} else {
		KVH_CHECK(has_reason(data, bytes));
	}
	kvh_free(encoded);
	kvh_free(decoded);
	return 0;
}
