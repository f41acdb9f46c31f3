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
	enum kvh_store_format format;    /* what was really chosen */
	uint32_t shards_per_rank;        /* 1 for rank-local */
	uint32_t store_tp_size;          /* ranks or shards in the namespace, tp dimension */
	char name_space[KVH_NAMESPACE_BYTES_MAX]; /* R-1's namespace, 0-terminated */
};

/* TP ranks that hold the same bytes of this group. tp_size >= 1. */
uint32_t kvh_replication_factor(const struct kvh_group *group, uint32_t tp_size,
				uint32_t dcp_size);

/*
 * TP-shared where it is possible, else rank-local keys under a compatibility namespace, with the
 * reason in note (borrowed buffer, for one log line; empty when nothing was changed).
 */
kvh_status kvh_sharding_choose(const struct kvh_worker_config *config, struct kvh_sharding *out,
			       char *note, size_t note_bytes, struct kvh_error *error);

/* The tp_rank that the key of local shard s of this rank carries. */
uint32_t kvh_shard_key_rank(const struct kvh_sharding *sharding, uint32_t tp_rank,
			    uint32_t factor, uint32_t shard);

/* How many segment templates one region becomes for one shard. */
size_t kvh_shard_template_count(const struct kvh_sharding *sharding, const struct kvh_group *group);

/*
 * The templates of shard s for one cache region (kvh_shard_template_count of them): head-major one,
 * token-major one a token, rank-local one. KVH_INVALID_PARAMS: the block does not divide evenly.
 */
kvh_status kvh_shard_templates(const struct kvh_sharding *sharding, const struct kvh_group *group,
			       const struct kvh_cache_region *region, uint32_t shard,
			       struct kvh_segment_template *out, struct kvh_error *error);

#endif
