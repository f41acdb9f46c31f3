/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the coordinator: one table of functions per attention kind, and the coordinator's own
 * fields. */
#ifndef KVH_LAYOUT_ATTENTION_H
#define KVH_LAYOUT_ATTENTION_H

#include "base/size.h"
#include "layout/coordinator.h"

/* What a kind knows about one group or one spec (C-2). */
struct kvh_shape {
	const struct kvh_attention_ops *ops; /* NULL: the group opts out */
	uint32_t block_tokens;
	uint32_t window_tokens; /* 0 where the kind has none */
	bool eagle;             /* flagged, after C-2's default */
};

/* Groups with equal shape, matched as one. */
struct kvh_spec {
	struct kvh_shape shape;
	uint64_t groups; /* bit g: group g */
};

struct kvh_coordinator {
	uint32_t hash_tokens;
	uint32_t lcm_tokens;
	uint32_t align_tokens; /* A */
	bool partial_hits;
	bool drafting; /* C-36: eagle is on, or a group is flagged */
	bool has_retention;
	uint32_t retention_tokens;
	uint32_t group_count;
	uint32_t spec_count;
	struct kvh_shape groups[KVH_GROUPS_MAX];
	struct kvh_spec specs[KVH_GROUPS_MAX]; /* full attention first */
};

/* One question to one spec. max_tokens <= hash_count * hash_tokens. */
struct kvh_search {
	const struct kvh_coordinator *coordinator;
	const struct kvh_presence *presence; /* NULL: everything is present */
	uint64_t max_tokens;
	bool drop; /* an eagle block must be dropped */
};

/* Its answer. Needed are the chunks from first_chunk to ceil(tokens / block), no others. */
struct kvh_run {
	uint64_t tokens;
	uint64_t first_chunk;
};

/* Which chunks a store or lookup mask has (C-31). */
enum kvh_keep { KVH_KEEP_NONE, KVH_KEEP_ALL, KVH_KEEP_SOME };

struct kvh_keep_query {
	const struct kvh_coordinator *coordinator;
	bool lookup;
	uint64_t replay_tokens[2]; /* C-36 */
	uint32_t replay_count;
};

struct kvh_attention_ops {
	bool inner_boundaries; /* hits may end inside a block with partial hits (C-10, C-21) */
	bool drops;            /* an eagle block is dropped; not for states (C-12) */
	struct kvh_run (*search)(const struct kvh_spec *spec, const struct kvh_search *search);
	enum kvh_keep (*keep)(const struct kvh_shape *shape, const struct kvh_keep_query *query);
	/* After KVH_KEEP_SOME only: sets what is kept in the mask's zeroed bits. Else NULL. */
	void (*keep_some)(const struct kvh_shape *shape, const struct kvh_keep_query *query,
	                  struct kvh_mask *mask);
};

extern const struct kvh_attention_ops kvh_attention_full;
extern const struct kvh_attention_ops kvh_attention_sliding_window;
extern const struct kvh_attention_ops kvh_attention_mamba;
extern const struct kvh_attention_ops kvh_attention_chunked_local;

/* C-33, and every kind that keeps all it has. */
enum kvh_keep kvh_keep_all(const struct kvh_shape *shape, const struct kvh_keep_query *query);

/*
 * Makes room for bytes; old contents are not kept. Doubles at least, so that growing prompts seldom
 * allocate. False: no memory, nothing changed.
 */
bool kvh_bytes_reserve(uint8_t **memory, size_t *memory_bytes, size_t bytes);

/* Whether every group of the spec holds the hash that ends at end_tokens, a multiple of
 * hash_tokens. */
static inline bool kvh_spec_has(const struct kvh_spec *spec, const struct kvh_search *search,
                                uint64_t end_tokens)
{
	const struct kvh_presence *presence = search->presence;
	uint64_t hash_index = end_tokens / search->coordinator->hash_tokens - 1;

	if (!presence)
		return true;
	for (uint64_t left = spec->groups; left; left &= left - 1) {
		uint32_t group = (uint32_t)__builtin_ctzll(left);

		if (!presence->present(presence->user, group, hash_index))
			return false;
	}
	return true;
}

/* C-3: the same for a whole chunk. */
static inline bool kvh_spec_has_chunk(const struct kvh_spec *spec, const struct kvh_search *search,
                                      uint64_t chunk)
{
	return kvh_spec_has(spec, search, (chunk + 1) * spec->shape.block_tokens);
}

#endif
