/* SPDX-License-Identifier: Apache-2.0 */
/* Encoding and decoding the messages of the local lookup service. */
#include "layout/lookup_wire.h"

#include <string.h>

#include "base/error.h"
#include "base/size.h"

static const char lookup_word[] = "lookup";
static const char reset_word[] = "reset";

enum {
	LOOKUP_WORD_BYTES = sizeof(lookup_word) - 1,
	RESET_WORD_BYTES = sizeof(reset_word) - 1,
	REQUEST_HEAD_BYTES = LOOKUP_WORD_BYTES + 4 + 2,
	REPLY_HEAD_BYTES = 4,
	TAIL_KEY_BYTES = 8
};

static uint8_t *write_u16(uint8_t *out, uint16_t value)
{
	out[0] = (uint8_t)(value >> 8);
	out[1] = (uint8_t)value;
	return out + 2;
}

static uint8_t *write_u32(uint8_t *out, uint32_t value)
{
	return write_u16(write_u16(out, (uint16_t)(value >> 16)), (uint16_t)value);
}

static uint16_t read_u16(const uint8_t *in)
{
	return (uint16_t)(in[0] << 8 | in[1]);
}

static uint32_t read_u32(const uint8_t *in)
{
	return (uint32_t)read_u16(in) << 16 | read_u16(in + 2);
}

static bool request_ok(const struct kvh_wire_request *request)
{
	if (request->kind == KVH_WIRE_RESET)
		return true;
	if (request->kind != KVH_WIRE_LOOKUP || request->token_count > KVH_TOKENS_MAX ||
	    request->hash_bytes > KVH_HASH_BYTES_MAX || request->hash_count > KVH_TOKENS_MAX)
		return false;
	return !request->hash_count || (request->hash_bytes && request->hashes);
}

kvh_status kvh_wire_request_encode(const struct kvh_wire_request *request, uint8_t *out,
                                   size_t capacity_bytes, size_t *needed_bytes)
{
	size_t hashes_bytes;

	if (!request_ok(request))
		return KVH_INVALID_PARAMS;
	if (request->kind == KVH_WIRE_RESET) {
		*needed_bytes = RESET_WORD_BYTES;
		if (capacity_bytes < RESET_WORD_BYTES)
			return KVH_BUSY;
		memcpy(out, reset_word, RESET_WORD_BYTES);
		return KVH_OK;
	}
	hashes_bytes = request->hash_count * request->hash_bytes;
	*needed_bytes = REQUEST_HEAD_BYTES + hashes_bytes;
	if (capacity_bytes < *needed_bytes)
		return KVH_BUSY;
	memcpy(out, lookup_word, LOOKUP_WORD_BYTES);
	out = write_u16(write_u32(out + LOOKUP_WORD_BYTES, request->token_count),
	                request->hash_bytes);
	if (hashes_bytes)
		memcpy(out, request->hashes, hashes_bytes);
	return KVH_OK;
}

static bool is_word(const uint8_t *message, size_t message_bytes, const char *word,
                    size_t word_bytes)
{
	return message_bytes >= word_bytes && memcmp(message, word, word_bytes) == 0;
}

static kvh_status decode_lookup(const uint8_t *message, size_t message_bytes,
                                struct kvh_wire_request *request, struct kvh_error *error)
{
	struct kvh_wire_request in = {.kind = KVH_WIRE_LOOKUP};
	size_t hashes_bytes;

	if (message_bytes < REQUEST_HEAD_BYTES)
		return kvh_fail(error, KVH_INVALID_PARAMS,
		                "lookup request: %zu bytes, its head alone takes %d", message_bytes,
		                REQUEST_HEAD_BYTES);
	hashes_bytes = message_bytes - REQUEST_HEAD_BYTES;
	in.token_count = read_u32(message + LOOKUP_WORD_BYTES);
	in.hash_bytes = read_u16(message + LOOKUP_WORD_BYTES + 4);
	if (hashes_bytes && (!in.hash_bytes || hashes_bytes % in.hash_bytes))
		return kvh_fail(error, KVH_INVALID_PARAMS,
		                "lookup request: %zu bytes of hashes are not hashes of %u bytes",
		                hashes_bytes, in.hash_bytes);
	in.hash_count = hashes_bytes ? hashes_bytes / in.hash_bytes : 0;
	in.hashes = hashes_bytes ? message + REQUEST_HEAD_BYTES : NULL;
	if (!request_ok(&in))
		return kvh_fail(error, KVH_INVALID_PARAMS,
		                "lookup request: %u tokens, hashes of %u bytes; at most %d and %d",
		                in.token_count, in.hash_bytes, KVH_TOKENS_MAX, KVH_HASH_BYTES_MAX);
	*request = in;
	return KVH_OK;
}

kvh_status kvh_wire_request_decode(const uint8_t *message, size_t message_bytes,
                                   struct kvh_wire_request *request, struct kvh_error *error)
{
	if (is_word(message, message_bytes, lookup_word, LOOKUP_WORD_BYTES))
		return decode_lookup(message, message_bytes, request, error);
	if (message_bytes != RESET_WORD_BYTES ||
	    !is_word(message, message_bytes, reset_word, RESET_WORD_BYTES))
		return kvh_fail(error, KVH_INVALID_PARAMS,
		                "lookup request: neither \"lookup\" nor \"reset\"");
	*request = (struct kvh_wire_request){.kind = KVH_WIRE_RESET};
	return KVH_OK;
}

kvh_status kvh_wire_reply_encode(const struct kvh_lookup_result *result, uint8_t *out,
                                 size_t capacity_bytes, size_t *needed_bytes)
{
	if (result->hit_tokens > KVH_TOKENS_MAX || result->tail_key_count > KVH_GROUPS_MAX)
		return KVH_INVALID_PARAMS;
	for (size_t i = 0; i < result->tail_key_count; i++) {
		if (result->tail_keys[i].group >= KVH_GROUPS_MAX ||
		    result->tail_keys[i].tokens > KVH_TOKENS_MAX)
			return KVH_INVALID_PARAMS;
	}
	*needed_bytes = REPLY_HEAD_BYTES + result->tail_key_count * TAIL_KEY_BYTES;
	if (capacity_bytes < *needed_bytes)
		return KVH_BUSY;
	out = write_u32(out, (uint32_t)result->hit_tokens);
	for (size_t i = 0; i < result->tail_key_count; i++)
		out = write_u32(write_u32(out, result->tail_keys[i].group),
		                (uint32_t)result->tail_keys[i].tokens);
	return KVH_OK;
}

kvh_status kvh_wire_reply_decode(const uint8_t *message, size_t message_bytes,
                                 struct kvh_lookup_result *result, struct kvh_error *error)
{
	size_t count;

	if (message_bytes < REPLY_HEAD_BYTES ||
	    (message_bytes - REPLY_HEAD_BYTES) % TAIL_KEY_BYTES ||
	    (message_bytes - REPLY_HEAD_BYTES) / TAIL_KEY_BYTES > KVH_GROUPS_MAX)
		return kvh_fail(error, KVH_INVALID_PARAMS,
		                "lookup reply: %zu bytes are not a hit and at most %d tail keys",
		                message_bytes, KVH_GROUPS_MAX);
	count = (message_bytes - REPLY_HEAD_BYTES) / TAIL_KEY_BYTES;
	if (read_u32(message) > KVH_TOKENS_MAX)
		return kvh_fail(error, KVH_INVALID_PARAMS, "lookup reply: hit of %u tokens",
		                read_u32(message));
	for (size_t i = 0; i < count; i++) {
		const uint8_t *entry = message + REPLY_HEAD_BYTES + i * TAIL_KEY_BYTES;

		if (read_u32(entry) >= KVH_GROUPS_MAX || read_u32(entry + 4) > KVH_TOKENS_MAX)
			return kvh_fail(error, KVH_INVALID_PARAMS,
			                "lookup reply: tail key %zu is group %u, %u tokens", i,
			                read_u32(entry), read_u32(entry + 4));
	}
	result->hit_tokens = read_u32(message);
	result->tail_key_count = count;
	for (size_t i = 0; i < count; i++) {
		const uint8_t *entry = message + REPLY_HEAD_BYTES + i * TAIL_KEY_BYTES;

		result->tail_keys[i] = (struct kvh_tail_key){.group = read_u32(entry),
		                                             .tokens = read_u32(entry + 4)};
	}
	return KVH_OK;
}
