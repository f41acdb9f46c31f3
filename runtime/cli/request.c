/* SPDX-License-Identifier: Apache-2.0 */
/* A request of the modelled engine: its hashes, its block tables, what its blocks must hold. */
#include "engine.h"

#include <stdlib.h>
#include <string.h>

#include "pattern.h"

/* Tokens of a table's whole length, rounded up to blocks. */
static size_t table_blocks(const struct kvh_engine_request *request, uint32_t group)
{
	uint32_t block_tokens = kvh_engine_groups[group].block_tokens;

	return (request->end_tokens + block_tokens - 1) / block_tokens;
}

static void make_hashes(struct kvh_engine_request *request, uint64_t seed)
{
	uint64_t word;

	for (size_t i = 0; i < request->hash_count; i++) {
		uint64_t id = request->trace_hashes[i];

		for (size_t at = 0; at < KVH_ENGINE_HASH_BYTES; at += sizeof(word)) {
			word = kvh_pattern_mix(kvh_pattern_mix(seed, id), at);
			memcpy(request->hashes + i * KVH_ENGINE_HASH_BYTES + at, &word,
			       sizeof(word));
		}
	}
}

bool kvh_request_begin(struct kvh_engine_request *request, uint64_t seed)
{
	size_t blocks[KVH_ENGINE_GROUPS];
	size_t bytes;
	char *at;

	request->hash_count = request->trace->prompt_tokens / KVH_ENGINE_HASH_TOKENS;
	bytes = request->hash_count * KVH_ENGINE_HASH_BYTES;
	for (uint32_t g = 0; g < KVH_ENGINE_GROUPS; g++) {
		blocks[g] = table_blocks(request, g);
		bytes += blocks[g] * (sizeof(uint64_t) + sizeof(int32_t));
	}
	at = calloc(1, bytes);
	if (!at)
		return false;
	request->memory = at;
	for (uint32_t g = 0; g < KVH_ENGINE_GROUPS; g++) {
		request->tables[g] = (struct kvh_engine_table){.contents = (uint64_t *)at};
		at += blocks[g] * sizeof(uint64_t);
	}
	for (uint32_t g = 0; g < KVH_ENGINE_GROUPS; g++) {
		request->tables[g].ids = (int32_t *)at;
		at += blocks[g] * sizeof(int32_t);
	}
	request->hashes = (uint8_t *)at;
	make_hashes(request, seed);
	return true;
}

void kvh_request_end(struct kvh_engine_request *request)
{
	free(request->memory);
	request->memory = NULL;
	request->hashes = NULL;
	memset(request->tables, 0, sizeof(request->tables));
}

bool kvh_request_content(const struct kvh_engine_request *request, uint64_t seed, uint32_t group,
                         uint64_t block_index, uint64_t *content)
{
	uint64_t hashes_per_block = kvh_engine_groups[group].block_tokens / KVH_ENGINE_HASH_TOKENS;
	uint64_t last = (block_index + 1) * hashes_per_block - 1;

	if (last >= request->hash_count)
		return false;
	*content = kvh_pattern_mix(seed + group, request->trace_hashes[last]);
	return true;
}
