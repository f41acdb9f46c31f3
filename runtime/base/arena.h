/* SPDX-License-Identifier: Apache-2.0 */
/* One allocation cut into pieces: what a job keeps, in one malloc. */
#ifndef KVH_BASE_ARENA_H
#define KVH_BASE_ARENA_H

#include <stdbool.h>
#include <stddef.h>

/* First count all pieces with kvh_arena_count, then allocate, then take them in the same order. */
struct kvh_arena {
	unsigned char *base;
	size_t bytes;
	size_t used_bytes;
};

/* Adds count * bytes (aligned to 16) to *total. False: too large, and *total is left alone. */
bool kvh_arena_count(size_t *total, size_t count, size_t bytes);
/* NULL for count 0 or 0 bytes. The piece is not initialised. The pieces must fit (checked). */
void *kvh_arena_take(struct kvh_arena *arena, size_t count, size_t bytes);
/* As take, and copies from. NULL when from is NULL or count is 0. */
void *kvh_arena_copy(struct kvh_arena *arena, const void *from, size_t count, size_t bytes);

#endif
