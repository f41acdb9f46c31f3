/* SPDX-License-Identifier: Apache-2.0 */
/* Which blocks of one group are free, owned by a request, or still pinned by jobs. */
#ifndef KVH_CLI_BLOCKS_H
#define KVH_CLI_BLOCKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * A block is free, or owned by one request, or pinned by jobs that may still read or write it, or
 * both. It is free again only when neither is left: an owner that gives a block up while a save
 * reads it does not hand it to anybody. The block freed last is taken first, so that a read or
 * write after the give-back meets new contents soon. Block 0 is KVH_NULL_BLOCK and never handed
 * out. Not thread-safe: the scheduler's own.
 */
struct kvh_blocks {
	int32_t *free_ids; /* stack */
	uint16_t *pins;
	bool *owned;
	uint32_t block_count; /* block 0 counts */
	uint32_t free_count;
	uint32_t returning_count; /* given up by the owner, still pinned */
};

/* block_count: 2 or more. False: no memory. */
bool kvh_blocks_init(struct kvh_blocks *blocks, uint32_t block_count);
void kvh_blocks_fini(struct kvh_blocks *blocks);

/* An owned block, or 0 when none is free. */
int32_t kvh_blocks_take(struct kvh_blocks *blocks);
/*
 * Each returns false, and changes nothing, when the caller's bookkeeping is wrong: a block that is
 * not owned, not pinned, free, or no block at all.
 */
bool kvh_blocks_give_up(struct kvh_blocks *blocks, int32_t id);
bool kvh_blocks_pin(struct kvh_blocks *blocks, int32_t id);
bool kvh_blocks_unpin(struct kvh_blocks *blocks, int32_t id);

#endif
