/* SPDX-License-Identifier: Apache-2.0 */
/* The text of keys and lifecycle groups (R-1, R-3), and back. */
#ifndef KVH_LAYOUT_KEYS_H
#define KVH_LAYOUT_KEYS_H

#include <stddef.h>
#include <stdint.h>

#include <kvhold/store.h>

/* Borrowed texts, 0-terminated. */
struct kvh_key_parts {
	const char *cache_prefix; /* NULL or "": none; may hold '@' */
	const char *model;        /* its last path part counts, trailing slashes dropped */
	const char *name_space;   /* R-4; NULL or "" for rank-local */
	uint32_t tp_rank;         /* already divided by the replication factor, or the shard id */
	uint32_t pcp_rank;
	uint32_t dcp_rank;
	uint32_t pp_rank;
	uint32_t group;
};

/* A composed prefix text: ends in '@', 0-terminated. */
struct kvh_prefix_text {
	char text[KVH_PREFIX_TEXT_BYTES_MAX + 1];
	size_t text_bytes;
	size_t family_bytes; /* "[<cache_prefix>@]<model><namespace>" */
};

/*
 * R-1 up to and with the '@' before the hash; the one builder for put, exists and get. out is set
 * on success only. KVH_INVALID_PARAMS with words: empty model, a byte that is not printable ASCII
 * (a blank is not), or a text over KVH_PREFIX_TEXT_BYTES_MAX.
 */
kvh_status kvh_key_compose(const struct kvh_key_parts *parts, struct kvh_prefix_text *out,
                           struct kvh_error *error);

/*
 * R-3: "vllm-mooncake-store:" + family + "@" + hash in hex; out ends in 0 on success and is not
 * written otherwise. KVH_BUSY: too small.
 */
kvh_status kvh_group_id_text(const char *family, size_t family_bytes, const uint8_t *hash,
                             size_t hash_bytes, char *out, size_t capacity_bytes);

/* A key's text taken apart again. The spans point into the text. */
struct kvh_key_spans {
	const char *head; /* [cache_prefix@]model+namespace: the family */
	size_t head_bytes;
	uint32_t tp_rank, pcp_rank, dcp_rank, pp_rank, group;
	const char *hash_hex;
	size_t hash_hex_bytes;
};

/*
 * The inverse of compose + hash: whatever compose can build comes apart into what it was built of,
 * and nothing else is accepted. Fields are read from the right end, so a head may hold '@' and even
 * field names. The head is not taken apart: '@' is legal in each of its parts. out is set on
 * success only. KVH_INVALID_KEY: not such text, or not canonical (leading zeros, upper-case hex).
 */
kvh_status kvh_key_parse(const char *text, size_t text_bytes, struct kvh_key_spans *out);

#endif
