/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of the lookup service: what decodes encodes to the same bytes. */
#include "fuzz/fuzz.h"

#include <string.h>

#include "base/check.h"
#include "layout/lookup_wire.h"

enum { MESSAGE_BYTES_MAX = 1 << 16 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	static uint8_t out[MESSAGE_BYTES_MAX];
	struct kvh_wire_request request;
	struct kvh_lookup_result result;
	struct kvh_error error = {0};
	size_t needed;

	if (bytes > sizeof(out))
		return 0;
	if (kvh_wire_request_decode(data, bytes, &request, &error) == KVH_OK) {
		KVH_CHECK(kvh_wire_request_encode(&request, out, sizeof(out), &needed) == KVH_OK);
		KVH_CHECK(needed == bytes && memcmp(out, data, bytes) == 0);
	} else {
		KVH_CHECK(error.text[0]);
	}
	error.text[0] = 0;
	if (kvh_wire_reply_decode(data, bytes, &result, &error) == KVH_OK) {
		KVH_CHECK(kvh_wire_reply_encode(&result, out, sizeof(out), &needed) == KVH_OK);
		KVH_CHECK(needed == bytes && memcmp(out, data, bytes) == 0);
	} else {
		KVH_CHECK(error.text[0]);
	}
	return 0;
}
