/* SPDX-License-Identifier: Apache-2.0 */
/* A small store for tests of hits: one bit a hash and group, and coordinators made in a line. */
#ifndef TESTS_UNIT_LAYOUT_PRESENCE_H
#define TESTS_UNIT_LAYOUT_PRESENCE_H

#include "layout/coordinator.h"
#include "unit/base/unit.h"

enum { FLAGS_MAX = 4, BITS_MAX = 64 };

/* bits[g] bit h: group g holds hash h. */
struct bit_store {
	uint64_t bits[FLAGS_MAX];
	size_t hash_count; /* asking at or beyond it fails the test */
};

static inline bool bit_present(void *user, uint32_t group, uint64_t hash_index)
{
	const struct bit_store *store = user;

	assert_true(group < FLAGS_MAX && hash_index < store->hash_count);
	return store->bits[group] >> hash_index & 1;
}

static inline struct kvh_coordinator *coordinator_of(const struct kvh_coordinator_config *config)
{
	struct kvh_coordinator *coordinator = NULL;
	struct kvh_error error = {0};

	if (kvh_coordinator_create(config, &coordinator, &error) != KVH_OK)
		fail_msg("%s", error.text);
	return coordinator;
}

static inline uint64_t hit_of(const struct kvh_coordinator *coordinator, struct bit_store *store,
                              uint64_t max_tokens, struct kvh_masks *masks)
{
	const struct kvh_presence presence = {bit_present, store};
	uint64_t hit_tokens = UINT64_MAX;

	assert_int_equal(kvh_coordinator_hit(coordinator, &presence, store->hash_count, max_tokens,
	                                     &hit_tokens, masks),
	                 KVH_OK);
	return hit_tokens;
}

static inline struct kvh_group full_of(uint32_t block_tokens)
{
	return (struct kvh_group){.kind = KVH_ATTENTION_FULL, .block_tokens = block_tokens};
}

static inline struct kvh_group window_of(uint32_t block_tokens, uint32_t window_tokens)
{
	return (struct kvh_group){.kind = KVH_ATTENTION_SLIDING_WINDOW,
	                          .block_tokens = block_tokens,
	                          .window_tokens = window_tokens};
}

static inline struct kvh_group mamba_of(uint32_t block_tokens)
{
	return (struct kvh_group){.kind = KVH_ATTENTION_MAMBA, .block_tokens = block_tokens};
}

static inline struct kvh_group local_of(uint32_t block_tokens, uint32_t chunk_tokens)
{
	return (struct kvh_group){.kind = KVH_ATTENTION_CHUNKED_LOCAL,
	                          .block_tokens = block_tokens,
	                          .window_tokens = chunk_tokens};
}

#endif
