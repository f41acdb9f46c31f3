/* SPDX-License-Identifier: Apache-2.0 */
/* Replication factors and TP-shared shards: who writes which slice under which rank. */
#ifndef KVH_LAYOUT_SHARDS_H
#define KVH_LAYOUT_SHARDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <kvhold/worker.h>

enum { KVH_NAMESPACE_BYTES_MAX = 96 };

/* How a rank's blocks become store objects: derived once at open. */
struct kvh_sharding {
	enum kvh_store_format format; /* what was really chosen */
	uint32_t shards_per_rank;     /* 1 for rank-local */
	uint32_t store_tp_size;       /* ranks or shards in the namespace, tp dimension */
	char name_space[KVH_NAMESPACE_BYTES_MAX]; /* R-1's namespace, 0-terminated */
};

/*
 * TP ranks that hold the same bytes of this group; tp_size >= 1, dcp_size 0 = 1. Context
 * parallelism goes first: ranks then hold different tokens, also of an MLA group.
 */
uint32_t kvh_replication_factor(const struct kvh_group *group, uint32_t tp_size, uint32_t dcp_size);

/*
 * TP-shared where it is possible, else rank-local keys under a compatibility namespace, with
 * the reason in note (borrowed buffer, for one log line; empty when nothing was changed).
 *
 * The compatibility namespace is "@store_tp:<tp_size>@store_pp:<pp_size>@store_format:rank_local".
 * The word is none of the shared formats', so these keys meet neither shards nor plain rank-local
 * keys, whose namespace is empty; and ranks of another tp_size, whose slices differ, have other
 * keys.
 *
 * out is set on success only. KVH_INVALID_PARAMS with words: an unknown format, a size over
 * KVH_RANKS_MAX, a rank outside its size, a store_tp_size beside rank-local keys, or fewer KV heads
 * than TP ranks that do not divide them: which ranks hold equal bytes is not known then.
 */
kvh_status kvh_sharding_choose(const struct kvh_worker_config *config, struct kvh_sharding *out,
                               char *note, size_t note_bytes, struct kvh_error *error);

/* The tp_rank that the key of local shard s of this rank carries. */
uint32_t kvh_shard_key_rank(const struct kvh_sharding *sharding, uint32_t tp_rank, uint32_t factor,
                            uint32_t shard);

/*
 * How many segment templates one region becomes for one shard: token-major one a token, unless the
 * rank has one shard only, whose slices join; else one.
 */
size_t kvh_shard_template_count(const struct kvh_sharding *sharding, const struct kvh_group *group);

/*
 * The templates of shard s for one cache region (kvh_shard_template_count of them), in the order of
 * the object's bytes. Their bytes over all shards are the block's, each once. out is set on success
 * only. KVH_INVALID_PARAMS: the block does not divide evenly into tokens and heads.
 */
kvh_status kvh_shard_templates(const struct kvh_sharding *sharding, const struct kvh_group *group,
                               const struct kvh_cache_region *region, uint32_t shard,
                               struct kvh_segment_template *out, struct kvh_error *error);

/* The ranks in a key. */
struct kvh_key_ranks {
	uint32_t tp_rank, pcp_rank, dcp_rank, pp_rank;
};

/*
 * B10: every rank namespace that holds a slice of each of the group's chunks: what all ranks
 * together put, and what a lookup must find. Count, and number index in query order: tp
 * slowest, then pcp, then pp. A rank's dcp_rank is its tp_rank modulo dcp_size.
 */
size_t kvh_key_ranks_count(const struct kvh_sharding *sharding,
                           const struct kvh_worker_config *config, const struct kvh_group *group);
struct kvh_key_ranks kvh_key_ranks_at(const struct kvh_sharding *sharding,
                                      const struct kvh_worker_config *config,
                                      const struct kvh_group *group, size_t index);

#endif
