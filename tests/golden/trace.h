/* SPDX-License-Identifier: Apache-2.0 */
/* One transfer scenario as plain structs, and its loader and writer (JSON, one line). */
#ifndef GOLDEN_TRACE_H
#define GOLDEN_TRACE_H

#include <jansson.h>

#include "record.h"

#define TRACE_MAX_GROUPS    16
#define TRACE_MAX_TOKEN_IDS (1 << 20)

enum group_kind { GROUP_FULL, GROUP_SLIDING_WINDOW, GROUP_MAMBA, GROUP_CHUNKED_LOCAL };

enum op_kind {
	OP_SUBMIT_SAVE,
	OP_RUN_SAVE,
	OP_SUBMIT_LOAD,
	OP_RUN_LOAD,
	OP_DELETE,
	OP_POLL,
	OP_DRAIN
};

/* Segments of one shard: segment i of block b is at bases[i] + b * strides[i]. */
struct trace_shard {
	struct ints bases;
	struct ints strides;
	struct ints sizes;
};

struct trace_group {
	enum group_kind kind;
	int64_t block_size; /* tokens */
	int64_t window;     /* tokens; sliding_window and chunked_local */
	bool eagle;
	int64_t put_step;
	struct ints base_addrs; /* bytes */
	struct ints block_lens; /* bytes */
	bool participates;
	const char *key_prefix;
	int64_t local_tp; /* the next four: TP-shared layout only, else 0 */
	int64_t store_tp;
	int64_t kv_heads;
	struct trace_shard *shards;
	size_t shard_count;
};

struct trace_config {
	int64_t block_size; /* tokens, as the next two */
	int64_t lcm_block_size;
	int64_t hash_block_size;
	bool partial_hash_hits;
	bool use_eagle;
	bool has_retention;
	int64_t retention_interval; /* tokens */
	int64_t tp_rank;
	int64_t pcp_rank;
	int64_t dcp_rank;
	int64_t pp_rank;
	const char *model_name;
	const char *cache_prefix;
	const char *store_namespace;
	struct trace_group groups[TRACE_MAX_GROUPS];
	size_t group_count;
	int64_t hash_bytes;
	struct trace_chain *chains;
	size_t chain_count;
	bool enable_kv_event;
	bool int_event_hashes;
	bool group_semantics;
	bool supports_group_ids;
	bool record_ops;
	bool tier_log;
	bool has_disk_budget;
	int64_t disk_budget_bytes;
	double disk_usable_ratio;
	int64_t usable_disk_budget_bytes;
	bool hma;
};

struct trace_chain {
	const char *name;
	struct texts hashes;
};

/* A partial-tail entry, a boundary put, or (block unused) a tail key of a load. */
struct trace_boundary {
	int64_t group;
	int64_t block;
	int64_t tokens;
};

struct trace_boundaries {
	bool given;
	struct trace_boundary *at;
	size_t count;
};

struct trace_job {
	const char *req;
	int64_t token_len;
	struct ints blocks[TRACE_MAX_GROUPS];
	size_t group_count; /* lists given in blocks */
	const char *chain;
	const char *const *hashes; /* borrowed from the chain */
	size_t hash_count;
	/* save only */
	int64_t job_id; /* the older source has none: numbered in order of submission, from 1 */
	bool has_job_id;
	bool registered;
	bool has_prompt;
	int64_t prompt;
	bool has_token_ids;
	int64_t token_ids_start; /* position of the first one */
	int64_t first_token_id;  /* token ids count up from here */
	int64_t token_id_count;
	bool event;
	bool event_fails; /* hand-made scenarios only (D-15) */
	struct trace_boundaries tail;
	struct trace_boundaries puts;
	/* load only */
	int64_t cached; /* tokens the engine has */
	struct trace_boundaries tail_keys;
};

struct trace_op {
	enum op_kind kind;
	struct trace_job job;
	const char *req; /* delete */
	struct texts finished;
	struct texts preempted;
};

struct trace_answer {
	enum store_fn fn;
	bool raises;
	const char *message;
	struct ints values;
	struct texts tiers;
	struct trace_op *during;
	size_t during_count;
};

struct trace_mask {
	bool is_store;
	int64_t token_len;
	int64_t start;
	const char *by_group[TRACE_MAX_GROUPS]; /* "0101", NULL = all */
	size_t group_count;
};

struct trace_step {
	struct trace_op op;
	struct trace_answer *answers;
	size_t answer_count;
	struct trace_mask *masks;
	size_t mask_count;
	struct step_record expect;
};

struct trace {
	struct arena *arena;
	bool is_seed;
	const char *name;
	const char *family;
	struct trace_config config;
	struct trace_step *steps;
	size_t step_count;
};

/* Fills `trace` from a parsed line, everything in `arena`. Returns NULL, or what is wrong with
 * the line (text in `arena`). Nothing of `line` is borrowed. */
const char *trace_load(struct arena *arena, json_t *line, struct trace *trace);

/* The scenario kind of a group's name; false if unknown. */
bool trace_group_kind(const char *name, enum group_kind *kind);

/* Records back to JSON, for --record. New references. */
json_t *trace_expect_json(const struct step_record *record);

#endif
