/* SPDX-License-Identifier: Apache-2.0 */
/* Cutting one allocation into pieces. */
#include "base/arena.h"

#include <string.h>

#include "base/check.h"
#include "base/size.h"

/* What malloc aligns to, so that a piece can hold any type. */
#define PIECE_ALIGN_BYTES 16

bool kvh_arena_count(size_t *total, size_t count, size_t bytes)
{
	size_t piece_bytes;

	return kvh_size_mul(count, bytes, &piece_bytes) &&
	       kvh_size_align_up(piece_bytes, PIECE_ALIGN_BYTES, &piece_bytes) &&
	       kvh_size_add(*total, piece_bytes, total);
}

void *kvh_arena_take(struct kvh_arena *arena, size_t count, size_t bytes)
{
	size_t start_bytes = arena->used_bytes;
	bool counted = kvh_arena_count(&arena->used_bytes, count, bytes);

	KVH_CHECK(counted && arena->used_bytes <= arena->bytes);
	return arena->used_bytes == start_bytes ? NULL : arena->base + start_bytes;
}

void *kvh_arena_copy(struct kvh_arena *arena, const void *from, size_t count, size_t bytes)
{
	void *piece;

	if (!from)
		return NULL;
	piece = kvh_arena_take(arena, count, bytes);
	if (piece)
		memcpy(piece, from, count * bytes);
	return piece;
}
