/* SPDX-License-Identifier: Apache-2.0 */
/* The messages of the local lookup service, byte by byte. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "layout/lookup_wire.h"

/* proves: R-41 */
static void a_lookup_is_word_tokens_hash_length_hashes(void **state)
{
	const uint8_t hashes[] = {1, 2, 3, 4, 5, 6};
	const uint8_t wanted[] = {'l', 'o', 'o', 'k', 'u', 'p', 0, 1, 2, 3, 0, 3, 1, 2, 3, 4, 5, 6};
	const struct kvh_wire_request request = {.kind = KVH_WIRE_LOOKUP,
	                                         .token_count = 0x10203,
	                                         .hash_bytes = 3,
	                                         .hashes = hashes,
	                                         .hash_count = 2};
	struct kvh_wire_request back = {0};
	uint8_t out[64];
	size_t bytes;

	(void)state;
	assert_int_equal(kvh_wire_request_encode(&request, out, sizeof(out), &bytes), KVH_OK);
	assert_int_equal(bytes, sizeof(wanted));
	assert_memory_equal(out, wanted, bytes);
	assert_int_equal(kvh_wire_request_decode(out, bytes, &back, NULL), KVH_OK);
	assert_int_equal(back.kind, KVH_WIRE_LOOKUP);
	assert_int_equal(back.token_count, 0x10203);
	assert_int_equal(back.hash_bytes, 3);
	assert_int_equal(back.hash_count, 2);
	assert_memory_equal(back.hashes, hashes, sizeof(hashes));
}

/* proves: R-41 */
static void a_reset_is_its_word_alone(void **state)
{
	const struct kvh_wire_request request = {.kind = KVH_WIRE_RESET};
	struct kvh_wire_request back = {0};
	uint8_t out[8];
	size_t bytes;

	(void)state;
	assert_int_equal(kvh_wire_request_encode(&request, out, 4, &bytes), KVH_BUSY);
	assert_int_equal(kvh_wire_request_encode(&request, out, sizeof(out), &bytes), KVH_OK);
	assert_int_equal(bytes, 5);
	assert_memory_equal(out, "reset", 5);
	assert_int_equal(kvh_wire_request_decode(out, 5, &back, NULL), KVH_OK);
	assert_int_equal(back.kind, KVH_WIRE_RESET);
	out[5] = 0;
	assert_int_equal(kvh_wire_request_decode(out, 6, &back, NULL), KVH_INVALID_PARAMS);
}

/* proves: R-41 */
static void a_reply_is_the_hit_and_pairs(void **state)
{
	const uint8_t wanted[] = {0, 0, 1, 0, 0, 0, 0, 2, 0, 0, 1, 4, 0, 0, 0, 0, 0, 0, 1, 0};
	struct kvh_lookup_result result = {.hit_tokens = 256, .tail_key_count = 2};
	struct kvh_lookup_result back = {0};
	uint8_t out[64];
	size_t bytes;

	(void)state;
	result.tail_keys[0] = (struct kvh_tail_key){.group = 2, .tokens = 260};
	result.tail_keys[1] = (struct kvh_tail_key){.group = 0, .tokens = 256};
	assert_int_equal(kvh_wire_reply_encode(&result, out, sizeof(out), &bytes), KVH_OK);
	assert_int_equal(bytes, sizeof(wanted));
	assert_memory_equal(out, wanted, bytes);
	assert_int_equal(kvh_wire_reply_decode(out, bytes, &back, NULL), KVH_OK);
	assert_int_equal(back.hit_tokens, 256);
	assert_int_equal(back.tail_key_count, 2);
	assert_int_equal(back.tail_keys[0].group, 2);
	assert_int_equal(back.tail_keys[0].tokens, 260);
	assert_int_equal(back.tail_keys[1].tokens, 256);
}

static void assert_request_refused(const void *message, size_t bytes)
{
	struct kvh_wire_request request = {.token_count = 77};
	struct kvh_error error = {0};

	assert_int_equal(kvh_wire_request_decode(message, bytes, &request, &error),
	                 KVH_INVALID_PARAMS);
	assert_non_null(strstr(error.text, "lookup request"));
	assert_int_equal(request.token_count, 77);
}

/* proves: R-41 */
static void wrong_requests_are_refused_with_words(void **state)
{
	(void)state;
	assert_request_refused("", 0);
	assert_request_refused("look", 4);
	assert_request_refused("lookup", 6);
	assert_request_refused("lookup\0\0\0\1\0", 11);
	/* Hashes of 0 bytes, of a length that does not divide, of more than the limit. */
	assert_request_refused("lookup\0\0\0\1\0\0x", 13);
	assert_request_refused("lookup\0\0\0\1\0\2xyz", 15);
	assert_request_refused("lookup\0\0\0\1\0\41", 12);
	/* More tokens than a request can have: 2^30 + 1. */
	assert_request_refused("lookup\100\0\0\1\0\2xy", 14);
}

/* proves: R-41 */
static void wrong_replies_are_refused_with_words(void **state)
{
	const uint8_t short_one[] = {0, 0, 0};
	const uint8_t half_pair[] = {0, 0, 0, 1, 0, 0, 0, 0};
	const uint8_t large_hit[] = {0x40, 0, 0, 1};
	const uint8_t wrong_group[] = {0, 0, 0, 1, 0, 0, 0, KVH_GROUPS_MAX, 0, 0, 0, 1};
	const uint8_t many[4 + 8 * (KVH_GROUPS_MAX + 1)] = {0};
	struct kvh_lookup_result result = {.hit_tokens = 5};
	struct kvh_error error = {0};

	(void)state;
	assert_int_equal(kvh_wire_reply_decode(short_one, 3, &result, &error), KVH_INVALID_PARAMS);
	assert_int_equal(kvh_wire_reply_decode(half_pair, 8, &result, &error), KVH_INVALID_PARAMS);
	assert_int_equal(kvh_wire_reply_decode(large_hit, 4, &result, &error), KVH_INVALID_PARAMS);
	assert_int_equal(kvh_wire_reply_decode(wrong_group, 12, &result, &error),
	                 KVH_INVALID_PARAMS);
	assert_non_null(strstr(error.text, "tail key 0"));
	assert_int_equal(kvh_wire_reply_decode(many, sizeof(many), &result, &error),
	                 KVH_INVALID_PARAMS);
	assert_int_equal(result.hit_tokens, 5);
}

/* proves: R-41 */
static void what_decode_would_refuse_is_not_encoded(void **state)
{
	struct kvh_wire_request request = {.kind = KVH_WIRE_LOOKUP, .hash_count = 1};
	struct kvh_lookup_result result = {.hit_tokens = (uint64_t)KVH_TOKENS_MAX + 1};
	uint8_t out[64];
	size_t bytes;

	(void)state;
	assert_int_equal(kvh_wire_request_encode(&request, out, sizeof(out), &bytes),
	                 KVH_INVALID_PARAMS);
	request = (struct kvh_wire_request){.kind = 0};
	assert_int_equal(kvh_wire_request_encode(&request, out, sizeof(out), &bytes),
	                 KVH_INVALID_PARAMS);
	assert_int_equal(kvh_wire_reply_encode(&result, out, sizeof(out), &bytes),
	                 KVH_INVALID_PARAMS);
	result = (struct kvh_lookup_result){.tail_key_count = KVH_GROUPS_MAX + 1};
	assert_int_equal(kvh_wire_reply_encode(&result, out, sizeof(out), &bytes),
	                 KVH_INVALID_PARAMS);
	result = (struct kvh_lookup_result){.tail_key_count = 1};
	result.tail_keys[0].group = KVH_GROUPS_MAX;
	assert_int_equal(kvh_wire_reply_encode(&result, out, sizeof(out), &bytes),
	                 KVH_INVALID_PARAMS);
	result.tail_keys[0].group = 1;
	assert_int_equal(kvh_wire_reply_encode(&result, out, 11, &bytes), KVH_BUSY);
	assert_int_equal(bytes, 12);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_lookup_is_word_tokens_hash_length_hashes),
		cmocka_unit_test(a_reset_is_its_word_alone),
		cmocka_unit_test(a_reply_is_the_hit_and_pairs),
		cmocka_unit_test(wrong_requests_are_refused_with_words),
		cmocka_unit_test(wrong_replies_are_refused_with_words),
		cmocka_unit_test(what_decode_would_refuse_is_not_encoded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
