/* SPDX-License-Identifier: Apache-2.0 */
/* The memory fabric's bounded form: a value moves in steps, so that a caller can stop in between.
 */
#ifndef KVH_POOL_FABRIC_MEMORY_H
#define KVH_POOL_FABRIC_MEMORY_H

#include "pool/fabric.h"
#include "pool/fabric/copy.h"

/* How far a piece has moved. Zero-initialise: at its start. */
struct kvh_piece_cursor {
	size_t segment_index;
	size_t segment_done_bytes; /* of that segment */
	size_t extent_done_bytes;  /* of the piece */
};

/*
 * Moves up to bytes_max more bytes (at least 1) and advances the cursor. True: the whole piece has
 * moved. The extent holds at least the value's bytes. Any thread; a cursor is one thread's.
 */
bool kvh_fabric_memory_put_some(const struct kvh_piece *piece, struct kvh_piece_cursor *cursor,
                                size_t bytes_max, const struct kvh_piece *next);
bool kvh_fabric_memory_get_some(const struct kvh_piece *piece, struct kvh_piece_cursor *cursor,
                                size_t bytes_max, const struct kvh_piece *next);

/*
 * Fetches where a value of short segments begins, at both ends: many of them are waited for at once
 * instead of one after the other. Long ones are fetched as they are copied.
 */
void kvh_fabric_memory_prefetch(const struct kvh_piece *piece);

enum kvh_fabric_direction { KVH_FABRIC_PUT = 0, KVH_FABRIC_GET = 1 };

/* What the calls above are made of; tests name the kernel. */
bool kvh_fabric_memory_move(enum kvh_copy_kernel kernel, enum kvh_fabric_direction direction,
                            const struct kvh_piece *piece, struct kvh_piece_cursor *cursor,
                            size_t bytes_max, const struct kvh_piece *next);

#endif
