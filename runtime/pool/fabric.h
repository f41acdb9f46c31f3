/* SPDX-License-Identifier: Apache-2.0 */
/* How payload bytes move between the engine's segments and an extent. */
#ifndef KVH_POOL_FABRIC_H
#define KVH_POOL_FABRIC_H

#include <kvhold/store.h>

/* One object's payload: an extent (contiguous, on 4 KiB) and where its bytes lie in the engine. */
struct kvh_piece {
	unsigned char *extent;
	const struct kvh_value *value;
};

/* next: the piece that is moved after this one, NULL if none; only a hint. Any thread. */
void kvh_fabric_memory_put(const struct kvh_piece *piece, const struct kvh_piece *next);
void kvh_fabric_memory_get(const struct kvh_piece *piece, const struct kvh_piece *next);
/* Orders the stores of this thread's copies before its later stores (S-3). */
void kvh_fabric_memory_fence(void);

#endif
