/* SPDX-License-Identifier: Apache-2.0 */
/* Which chunks of which group matter (docs/spec/coordinator.md). Pure: no I/O, no lock, no state.
 */
#ifndef KVH_LAYOUT_COORDINATOR_H
#define KVH_LAYOUT_COORDINATOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <kvhold/worker.h>

struct kvh_coordinator_config {
	const struct kvh_group *groups; /* borrowed; opted-out groups keep their index (R-15b) */
	size_t group_count;
	uint32_t hash_tokens;
	uint32_t lcm_tokens; /* 0: least common multiple over the groups that take part */
	bool partial_hits;
	bool use_eagle;
	bool has_retention;
	uint32_t retention_tokens;
};

/* Immutable after create; any thread may use it. All fields are the coordinator's own. */
struct kvh_coordinator;

/*
 * *out is set on success only; destroy it. KVH_INVALID_PARAMS: each set-up error of C-1 has its own
 * words, which name the group and the numbers. KVH_NO_MEMORY. Fields of a group that opts out are
 * not looked at.
 */
kvh_status kvh_coordinator_create(const struct kvh_coordinator_config *config,
                                  struct kvh_coordinator **out, struct kvh_error *error);
void kvh_coordinator_destroy(struct kvh_coordinator *coordinator);

uint32_t kvh_coordinator_lcm_tokens(const struct kvh_coordinator *coordinator);
/* A: lcm, or hash_tokens with partial hits. */
uint32_t kvh_coordinator_align_tokens(const struct kvh_coordinator *coordinator);

/*
 * A mask over the chunks first_chunk .. first_chunk + count - 1 of one group; no other chunk is
 * needed. all: every one of these is (bits are not used, and may be NULL). bits: one byte a chunk,
 * 0 or 1, in memory of the kvh_masks' owner.
 *
 * Hit and load masks are always one run of needed chunks (all is set): chunks before first_chunk
 * are part of the hit and not needed. Only store and lookup masks of sliding windows have bits.
 */
struct kvh_mask {
	uint64_t first_chunk;
	uint64_t count;
	bool all;
	uint8_t *bits;
};

static inline bool kvh_mask_has(const struct kvh_mask *mask, uint64_t chunk)
{
	if (chunk < mask->first_chunk || chunk - mask->first_chunk >= mask->count)
		return false;
	return mask->all || mask->bits[chunk - mask->first_chunk];
}

/*
 * One mask per group of the coordinator (further ones are not written), in one allocation at most;
 * zero-initialise before first use; reusable: memory is only allocated to grow. One thread at a
 * time.
 */
struct kvh_masks {
	struct kvh_mask group[KVH_GROUPS_MAX];
	uint8_t *memory; /* owned */
	size_t memory_bytes;
};
void kvh_masks_fini(struct kvh_masks *masks);

/*
 * C-31..C-36: chunks ceil(start / bs) .. token_count / bs - 1 of each group. replay_tokens: the
 * prompt or prefill end of C-36, counted only if has_replay. Groups that opt out, and mamba groups
 * in the store mask: count 0. masks is set on success only. KVH_INVALID_PARAMS: token_count is not
 * a multiple of A, or over KVH_TOKENS_MAX. KVH_NO_MEMORY.
 */
kvh_status kvh_store_mask(const struct kvh_coordinator *coordinator, uint64_t token_count,
                          uint64_t start_token, bool has_replay, uint64_t replay_tokens,
                          struct kvh_masks *masks);
kvh_status kvh_lookup_mask(const struct kvh_coordinator *coordinator, uint64_t token_count,
                           struct kvh_masks *masks);
/*
 * C-30. hash_count: hashes there are; token_count may be anything. The masks are runs (see
 * kvh_mask). Allocates nothing, takes no time per chunk; always KVH_OK.
 */
kvh_status kvh_load_mask(const struct kvh_coordinator *coordinator, size_t hash_count,
                         uint64_t token_count, struct kvh_masks *masks);

/*
 * What the store holds: whether group has the object named by hash index (0-based, one per
 * hash_tokens). Asked many times, always below hash_count; must be quick and steady.
 */
struct kvh_presence {
	bool (*present)(void *user, uint32_t group, uint64_t hash_index);
	void *user;
};

/*
 * C-10..C-23: the longest hit of at most max_tokens; no hit reaches beyond the hashes. masks (NULL:
 * not wanted): per group the run of chunks that the hit needs. Always KVH_OK. For C-40 see
 * kvh_tail_boundary.
 */
kvh_status kvh_coordinator_hit(const struct kvh_coordinator *coordinator,
                               const struct kvh_presence *presence, size_t hash_count,
                               uint64_t max_tokens, uint64_t *hit_tokens, struct kvh_masks *masks);

/*
 * C-40: the boundary (tokens) whose hash keys the group's tail block when a load ends at
 * hit_tokens: the hit itself where the group holds that hash; else, with partial hits, the first
 * later hash boundary up to the end of the same chunk that it holds. True means *boundary_tokens is
 * set, also when it is the hit itself: lookup.jsonl lists an entry for every such group. False:
 * hit_tokens is 0, or the group opts out or holds none of these hashes.
 */
bool kvh_tail_boundary(const struct kvh_coordinator *coordinator,
                       const struct kvh_presence *presence, size_t hash_count, uint32_t group,
                       uint64_t hit_tokens, uint64_t *boundary_tokens);

#endif
