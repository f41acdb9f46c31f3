/* SPDX-License-Identifier: Apache-2.0 */
/* Chunks of a group: which tokens, which hash, which rank puts them. Pure functions. */
#ifndef KVH_LAYOUT_CHUNKS_H
#define KVH_LAYOUT_CHUNKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/size.h"

struct kvh_chunk {
	uint64_t index;
	uint64_t start_token;
	uint64_t end_token;
	/*
	 * Of the hash that names it: end_token / hash_tokens - 1. UINT64_MAX when the chunk ends
	 * before the first hash does (D-17): compare with the count of hashes before use.
	 */
	uint64_t hash_index;
};

/* Chunks that token_count tokens touch, the last one perhaps in part. */
static inline uint64_t kvh_chunk_count(uint64_t token_count, uint32_t block_tokens)
{
	return kvh_div_up(token_count, block_tokens);
}

/*
 * Chunk index of a group with this block size, clipped at token_count. index must be below
 * kvh_chunk_count(token_count, block_tokens) and token_count at most 2^63: nothing wraps then.
 */
static inline struct kvh_chunk kvh_chunk_at(uint64_t index, uint32_t block_tokens,
                                            uint32_t hash_tokens, uint64_t token_count)
{
	struct kvh_chunk chunk = {.index = index, .start_token = index * block_tokens};
	uint64_t end_token = chunk.start_token + block_tokens;

	chunk.end_token = end_token < token_count ? end_token : token_count;
	chunk.hash_index = chunk.end_token / hash_tokens - 1;
	return chunk;
}

/* whether this rank puts chunk index of the group. put_step >= 1. */
static inline bool kvh_chunk_is_mine(uint64_t index, uint32_t put_step, uint32_t tp_rank,
                                     uint32_t group)
{
	return index % put_step == ((uint64_t)tp_rank + group) % put_step;
}

/* the first chunk from index on that this rank puts; its others are put_step apart. */
static inline uint64_t kvh_chunk_first_mine(uint64_t index, uint32_t put_step, uint32_t tp_rank,
                                            uint32_t group)
{
	uint64_t mine = ((uint64_t)tp_rank + group) % put_step;

	return index + (mine + put_step - index % put_step) % put_step;
}

#endif
