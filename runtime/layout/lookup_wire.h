/* SPDX-License-Identifier: Apache-2.0 */
/* The bytes of the local lookup service. Codec only: no socket, no allocation. */
#ifndef KVH_LAYOUT_LOOKUP_WIRE_H
#define KVH_LAYOUT_LOOKUP_WIRE_H

#include <stddef.h>
#include <stdint.h>

#include <kvhold/worker.h>

/*
 * Request: "lookup", u32 token count, u16 bytes of a hash, the hashes; or "reset".
 * Reply to a lookup: u32 hit tokens, then u32 group and u32 boundary tokens for each tail key.
 * All numbers big-endian. One message is the whole buffer: framing is the transport's.
 */
enum kvh_wire_request_kind { KVH_WIRE_LOOKUP = 1, KVH_WIRE_RESET = 2 };

struct kvh_wire_request {
	enum kvh_wire_request_kind kind;
	uint32_t token_count;
	uint16_t hash_bytes;   /* 1 .. KVH_HASH_BYTES_MAX; 0 only without hashes */
	const uint8_t *hashes; /* packed; after decode inside the message */
	size_t hash_count;
};

/*
 * Both encoders write at most capacity_bytes; *needed_bytes is what the message takes. KVH_BUSY: it
 * did not fit, nothing was written. KVH_INVALID_PARAMS: a field that decode would refuse.
 */
kvh_status kvh_wire_request_encode(const struct kvh_wire_request *request, uint8_t *out,
                                   size_t capacity_bytes, size_t *needed_bytes);
kvh_status kvh_wire_reply_encode(const struct kvh_lookup_result *result, uint8_t *out,
                                 size_t capacity_bytes, size_t *needed_bytes);

/*
 * KVH_INVALID_PARAMS with words: not such a message, or a number beyond the limits of worker.h. The
 * output is set on success only.
 */
kvh_status kvh_wire_request_decode(const uint8_t *message, size_t message_bytes,
                                   struct kvh_wire_request *request, struct kvh_error *error);
/* Sets hit_tokens, tail_keys and tail_key_count. */
kvh_status kvh_wire_reply_decode(const uint8_t *message, size_t message_bytes,
                                 struct kvh_lookup_result *result, struct kvh_error *error);

#endif
