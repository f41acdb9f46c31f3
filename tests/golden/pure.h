/* SPDX-License-Identifier: Apache-2.0 */
/* Pure functions that model and runtime both have, with plain inputs and outputs. */
#ifndef GOLDEN_PURE_H
#define GOLDEN_PURE_H

#include "trace.h"

struct pure_group {
	enum group_kind kind;
	int64_t block_size; /* tokens */
	int64_t window;     /* tokens */
	bool eagle;
	bool participates;
};

struct pure_setup {
	struct pure_group groups[TRACE_MAX_GROUPS];
	size_t group_count;
	int64_t lcm_block_size; /* tokens */
	int64_t hash_block_size;
	bool partial_hash_hits;
	bool use_eagle;
	bool has_retention;
	int64_t retention_interval; /* tokens */
};

struct pure_key {
	const char *cache_prefix;
	const char *model; /* as it stands in the key: R-1's last path part is already taken */
	const char *store_namespace;
	int64_t tp_rank;
	int64_t pcp_rank;
	int64_t dcp_rank;
	int64_t pp_rank;
	int64_t group;
	const char *hash; /* hex */
};

struct pure_chunks {
	int64_t block_size; /* tokens */
	int64_t hash_block_size;
	int64_t token_len;
	int64_t hash_count;
	int64_t first_token; /* mask_num */
	const char
		*chunk_mask; /* character i = chunk ceil(first_token / block_size) + i; or NULL */
	int64_t put_step;
	int64_t put_step_rank;
};

/* Per group '0' / '1' a chunk, NULL for all ones. */
struct pure_masks {
	const char *by_group[TRACE_MAX_GROUPS];
};

struct pure_store_mask {
	int64_t token_len;
	int64_t start;
	bool has_prompt;
	int64_t prompt;
};

/* present[g][h]: group g holds hash h. NULL: everything is held. */
struct pure_present {
	size_t hash_count;
	const bool *by_group[TRACE_MAX_GROUPS];
};

struct pure_hit {
	int64_t tokens;
	struct pure_masks needed;
};

struct pure_split {
	int64_t oversized;    /* index of the key, -1: none */
	struct ints *batches; /* key indices */
	size_t batch_count;
};

/* One lookup. `exists` answers 1 per key present; false means the store failed. */
struct pure_lookup {
	struct pure_setup setup;
	struct texts prefixes[TRACE_MAX_GROUPS]; /* per group: key prefixes in query order */
	struct texts hashes;                     /* hex */
	int64_t token_count;
	bool (*exists)(void *context, const struct texts *keys, struct ints *states);
	void *context;
};

struct pure_lookup_result {
	int64_t hit_tokens;
	struct ints tail_groups; /* parallel lists */
	struct ints tail_tokens;
};

struct pure_ops {
	const char *name;
	char *(*key)(struct arena *arena, const struct pure_key *key);
	char *(*group_id)(struct arena *arena, const struct pure_key *key);
	/* Appends start, end, hash index of each chunk. */
	void (*process_tokens)(struct arena *arena, const struct pure_chunks *in, struct ints *out);
	/* The masks return false for an invalid argument (C-31). */
	bool (*store_mask)(struct arena *arena, const struct pure_setup *setup,
	                   const struct pure_store_mask *in, struct pure_masks *out);
	bool (*load_mask)(struct arena *arena, const struct pure_setup *setup, size_t hash_count,
	                  int64_t token_len, struct pure_masks *out);
	bool (*lookup_mask)(struct arena *arena, const struct pure_setup *setup, int64_t token_len,
	                    struct pure_masks *out);
	void (*find_hit)(struct arena *arena, const struct pure_setup *setup,
	                 const struct pure_present *present, int64_t max_len, struct pure_hit *out);
	int64_t (*staging_bytes)(const struct ints *segment_bytes);
	int64_t (*usable_budget)(int64_t raw_bytes, double ratio);
	void (*split)(struct arena *arena, const struct ints *staging_bytes, int64_t usable_bytes,
	              int64_t raw_bytes, struct pure_split *out);
	/* Indices 0..count-1 in rotated order. */
	void (*rotate)(struct arena *arena, size_t count, int64_t rank, struct ints *out);
	/* May be NULL. */
	void (*lookup)(struct arena *arena, const struct pure_lookup *in,
	               struct pure_lookup_result *out);
};

const struct pure_ops *model_pure_ops(void);

#endif
