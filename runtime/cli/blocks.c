/* SPDX-License-Identifier: Apache-2.0 */
/* The block bookkeeping of the modelled engine: no block is handed out while a job may touch it. */
#include "blocks.h"

#include <stdlib.h>

bool kvh_blocks_init(struct kvh_blocks *blocks, uint32_t block_count)
{
	*blocks = (struct kvh_blocks){
		.free_ids = calloc(block_count, sizeof(*blocks->free_ids)),
		.pins = calloc(block_count, sizeof(*blocks->pins)),
		.owned = calloc(block_count, sizeof(*blocks->owned)),
		.block_count = block_count,
	};
	if (!blocks->free_ids || !blocks->pins || !blocks->owned) {
		kvh_blocks_fini(blocks);
		return false;
	}
	for (uint32_t id = block_count - 1; id > 0; id--)
		blocks->free_ids[blocks->free_count++] = (int32_t)id;
	return true;
}

void kvh_blocks_fini(struct kvh_blocks *blocks)
{
	free(blocks->free_ids);
	free(blocks->pins);
	free(blocks->owned);
	*blocks = (struct kvh_blocks){0};
}

static bool names_block(const struct kvh_blocks *blocks, int32_t id)
{
	return id > 0 && (uint32_t)id < blocks->block_count;
}

int32_t kvh_blocks_take(struct kvh_blocks *blocks)
{
	int32_t id;

	if (blocks->free_count == 0)
		return 0;
	id = blocks->free_ids[--blocks->free_count];
	blocks->owned[id] = true;
	return id;
}

bool kvh_blocks_give_up(struct kvh_blocks *blocks, int32_t id)
{
	if (!names_block(blocks, id) || !blocks->owned[id])
		return false;
	blocks->owned[id] = false;
	if (blocks->pins[id])
		blocks->returning_count++;
	else
		blocks->free_ids[blocks->free_count++] = id;
	return true;
}

bool kvh_blocks_pin(struct kvh_blocks *blocks, int32_t id)
{
	if (!names_block(blocks, id) || !blocks->owned[id] || blocks->pins[id] == UINT16_MAX)
		return false;
	blocks->pins[id]++;
	return true;
}

bool kvh_blocks_unpin(struct kvh_blocks *blocks, int32_t id)
{
	if (!names_block(blocks, id) || blocks->pins[id] == 0)
		return false;
	if (--blocks->pins[id] == 0 && !blocks->owned[id]) {
		blocks->returning_count--;
		blocks->free_ids[blocks->free_count++] = id;
	}
	return true;
}
