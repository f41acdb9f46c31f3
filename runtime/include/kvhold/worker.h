/* SPDX-License-Identifier: Apache-2.0 */
/* The request worker: one per rank; saves, looks up and loads the blocks of an engine's requests.
 */
#ifndef KVHOLD_WORKER_H
#define KVHOLD_WORKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store.h"

#ifdef __cplusplus
extern "C" {
#endif

struct kvh_worker;

enum {
	KVH_NULL_BLOCK = 0, /* block id that holds no data (R-16, D-21) */
	KVH_GROUPS_MAX = 64,
	KVH_REQUEST_BYTES_MAX = 256,
	KVH_HASH_BYTES_MAX = 32, /* of one block hash */
	KVH_RANKS_MAX = 4096,
	KVH_LOAD_THREADS_MAX = 64,
	KVH_TOKENS_MAX = 1 << 30, /* of one request */
	KVH_BLOCK_TOKENS_MAX = 1 << 20
};

/* ---- configuration -------------------------------------------------------------------- */

enum kvh_attention {
	KVH_ATTENTION_FULL = 1,
	KVH_ATTENTION_SLIDING_WINDOW = 2,
	KVH_ATTENTION_MAMBA = 3,
	KVH_ATTENTION_CHUNKED_LOCAL = 4
};

/* Layers that share one cache geometry. */
struct kvh_group {
	enum kvh_attention kind;
	uint32_t block_tokens;
	uint32_t window_tokens; /* sliding window: the window; chunked local: the chunk; else 0 */
	bool eagle;             /* flagged for EAGLE-style drafting (C-2, C-21) */
	bool opts_out;          /* takes no part in prefix caching (R-15b) */
	bool mla;               /* pure MLA: every TP rank holds the same bytes */
	uint32_t kv_heads;      /* of the model; 0: as many as TP ranks */
	uint32_t put_step;      /* ranks that share the puts of equal bytes; 0: R-2's factor */
};

enum kvh_store_format {
	KVH_FORMAT_RANK_LOCAL = 0,
	KVH_FORMAT_TP_SHARED_LBHNC = 1, /* head-major blocks */
	KVH_FORMAT_TP_SHARED_LBNHC = 2  /* token-major blocks */
};

/* One store call that a save or load made. */
enum kvh_record_name { KVH_RECORD_SAVE_EXISTS, KVH_RECORD_SAVE_PUT, KVH_RECORD_LOAD_GET };
enum kvh_record_status { KVH_RECORD_OK, KVH_RECORD_PARTIAL_FAILURE, KVH_RECORD_ERROR };
struct kvh_record {
	enum kvh_record_name name;
	enum kvh_record_status status;
	size_t key_count;
	size_t failed_count;
	uint64_t bytes; /* payload of the whole batch; 0 for exists */
	uint64_t duration_ns;
	uint64_t job_id;
};
/* Called on a thread of the worker, no lock held. record: borrowed. */
typedef void (*kvh_record_fn)(void *user, const struct kvh_record *record);

/* Zero-initialise, set struct_bytes and what differs from the defaults. All pointers: borrowed. */
struct kvh_worker_config {
	size_t struct_bytes;
	const struct kvh_env *env;       /* lent; NULL: kvh_env_posix() */
	const struct kvh_device *device; /* lent; NULL: kvh_device_host() */
	struct kvh_log log;

	/*
	 * All that must be equal for blocks to be interchangeable beside the key's own text: model
	 * path, revision, weights epoch, KV dtype, layout, block bytes, hash scheme. Refused when
	 * empty, unless identity_none says that the caller takes the risk.
	 */
	const void *identity;
	size_t identity_bytes;
	bool identity_none;

	/* Keys. model: its last path part is used. */
	const char *model;
	const char *cache_prefix;  /* NULL or "": none */
	uint32_t tp_rank, tp_size; /* sizes: 0 = 1 */
	uint32_t pcp_rank, pcp_size;
	uint32_t dcp_rank, dcp_size;
	uint32_t pp_rank, pp_size;

	/* Layout of objects; store_tp_size 0: tp_size. */
	enum kvh_store_format format;
	uint32_t store_tp_size;

	const struct kvh_group *groups;
	size_t group_count;
	uint32_t hash_tokens; /* tokens per block hash; divides every block_tokens */
	uint32_t hash_bytes;  /* of one block hash; 0: 32 */
	uint32_t lcm_tokens;  /* 0: least common multiple over the groups that take part */
	bool partial_hits;    /* hits at hash boundaries inside a block */
	bool use_eagle;
	bool has_retention;        /* retention_tokens is set; false: dense (C-34) */
	uint32_t retention_tokens; /* 0: replay boundary only */

	bool events;                 /* report stored blocks */
	bool integer_hashes;         /* event hashes as the last 8 bytes */
	bool lifecycle_groups;       /* R-3, where the store can */
	bool tier_log;               /* */
	uint64_t staging_bytes;      /* owner's staging budget, 0: no disk offload */
	double staging_usable_ratio; /* 0: 0.9 */

	uint32_t save_threads;     /* 0 = 1; more: KVH_NOT_SUPPORTED (D-9) */
	uint32_t load_threads;     /* 0 = 1 */
	uint64_t max_queued_jobs;  /* saves beyond are refused with KVH_BUSY; 0: 4096 */
	uint64_t max_queued_bytes; /* the same over the bytes of their blocks; 0: no limit */
	int64_t pressure_probe_ms; /* D-7; 0: 1000; < 0: never */
	int64_t load_timeout_ms;   /* D-14; 0: 30000; < 0: never */

	kvh_record_fn record; /* NULL: counters only */
	void *record_user;
};

/*
 * Opens the worker of one rank on a store, which is lent until close. A set-up that can't work is
 * refused with words (C-1, R-4, identity, ranges). Starts no thread: register_caches does.
 * *worker is set on success only. One thread.
 */
KVH_API kvh_status kvh_worker_open(struct kvh_store *store, const struct kvh_worker_config *config,
                                   struct kvh_worker **worker, struct kvh_error *error);

/*
 * Refuses new jobs (KVH_CLOSED), runs what is queued to the deadline, cancels the rest, and waits
 * until no byte of any block can move (D-8); then stops the threads. Completions stay: poll them,
 * then call kvh_worker_destroy. deadline 0: cancel nothing, wait as long as it takes; 1: cancel all
 * at once. KVH_TIMEOUT: bytes may still move for *left_jobs jobs; close again. One thread.
 */
KVH_API kvh_status kvh_worker_close(struct kvh_worker *worker, kvh_deadline deadline_ns,
                                    size_t *left_jobs);
/*
 * Frees a worker and the completions that nobody took; one that was not closed is closed first,
 * with all its jobs cancelled. NULL: nothing happens. One thread, and no other call runs.
 */
KVH_API void kvh_worker_destroy(struct kvh_worker *worker);

/* ---- memory --------------------------------------------------------------------------- */

/* Memory that the caches lie in; registered with the store as one region. */
struct kvh_memory {
	void *addr;
	size_t bytes;
	enum kvh_memory_kind kind; /* 0: the device is asked */
};

/*
 * One cache region: one piece of each block of a group, block b at base + b * stride_bytes. The
 * order of a group's regions is the order of the segments of its objects.
 */
struct kvh_cache_region {
	uint32_t group;
	void *base;
	size_t stride_bytes;
	size_t block_bytes;
};

struct kvh_caches {
	size_t struct_bytes;
	const struct kvh_memory *memory;
	size_t memory_count;
	const struct kvh_cache_region *regions;
	size_t region_count;
	const uint64_t
		*block_counts; /* per group: blocks 0 .. count - 1 exist; group_count entries */
};

/* All or nothing; once. Before it, save and load are refused; lookup works. One thread. */
KVH_API kvh_status kvh_worker_register_caches(struct kvh_worker *worker,
                                              const struct kvh_caches *caches,
                                              struct kvh_error *error);

/*
 * Another identity from now on (new weights): every request is forgotten as by preempt, its loads
 * are cancelled, and no object of the old identity is found any more. Any thread, may wait for the
 * store.
 */
KVH_API kvh_status kvh_worker_set_epoch(struct kvh_worker *worker, const void *identity,
                                        size_t identity_bytes, struct kvh_error *error);

/* ---- jobs ----------------------------------------------------------------------------- */

struct kvh_request_id {
	const void *data; /* borrowed; 1 .. KVH_REQUEST_BYTES_MAX bytes */
	size_t bytes;
};

/*
 * Block ids of one group, by block index from the request's start. A load that would write a block
 * twice is refused; a save is not, so no block but the NULL block may stand there twice.
 */
struct kvh_block_table {
	const int32_t *ids;
	size_t count;
};

/* (group, block, tokens): the prefix of so many tokens ends in this block. */
struct kvh_boundary {
	uint32_t group;
	int32_t block_id;
	uint64_t tokens;
};

/* (group, tokens): the chunk that ends at the load's end is keyed by the hash at this boundary. */
struct kvh_tail_key {
	uint32_t group;
	uint64_t tokens;
};

/* All pointers are borrowed for the call; the blocks are lent until the job's completion. */
struct kvh_save_job {
	size_t struct_bytes;
	uint64_t job_id; /* the caller's, new in the worker's life; a live one is refused */
	uint64_t user;   /* comes back in completions */
	struct kvh_request_id request;
	uint64_t token_count;                 /* save up to here; floored to lcm */
	const struct kvh_block_table *blocks; /* one per group */
	const uint8_t *hashes; /* packed, hash_bytes each, from the request's start */
	size_t hash_count;
	bool has_prompt; /* prompt_tokens is set */
	bool has_prefill_end;
	uint64_t prompt_tokens;
	uint64_t prefill_end_tokens; /* goes before prompt_tokens in store_mask */
	void *event;                 /* waited for before the blocks are read; NULL: none */
	const int32_t *token_ids;    /* for events; NULL: none */
	size_t token_id_count;
	uint64_t token_ids_start; /* position of token_ids[0] */
	/* At most one of the two lists; NULL: none. An empty tail list is not the same as none. */
	const struct kvh_boundary *tail; /* */
	size_t tail_count;
	const struct kvh_boundary *boundary_puts; /* */
	size_t boundary_put_count;
};

/*
 * Queues a save. KVH_OK: a KVH_SAVE_DONE with this job id will follow, exactly once. Anything else:
 * nothing was queued and no completion follows: KVH_INVALID_PARAMS with words (D-13),
 * KVH_BUSY (queue full), KVH_CLOSED, KVH_NO_MEMORY. Any thread, returns at once.
 */
KVH_API kvh_status kvh_worker_save(struct kvh_worker *worker, const struct kvh_save_job *job,
                                   struct kvh_error *error);

struct kvh_load_job {
	size_t struct_bytes;
	uint64_t job_id; /* one id space with saves */
	uint64_t user;
	struct kvh_request_id request;
	uint64_t token_count;        /* to have afterwards */
	uint64_t cached_token_count; /* the engine has these already */
	const struct kvh_block_table *blocks;
	const uint8_t *hashes;
	size_t hash_count;
	const struct kvh_tail_key *tail_keys;
	size_t tail_key_count;
	void *event; /* waited for before blocks are written; NULL: none */
};

/* As kvh_worker_save; never refused for saves that wait. A KVH_LOAD_DONE will follow. */
KVH_API kvh_status kvh_worker_load(struct kvh_worker *worker, const struct kvh_load_job *job,
                                   struct kvh_error *error);

/* ---- lookup --------------------------------------------------------------------------- */

struct kvh_lookup {
	size_t struct_bytes;
	uint64_t token_count;
	const uint8_t *hashes; /* borrowed */
	size_t hash_count;
	kvh_deadline deadline_ns;
	const struct kvh_cancel *cancel;
	uint64_t cached_token_count; /* the engine has these; left out of the hit rate (B42) */
};

struct kvh_lookup_result {
	size_t struct_bytes;
	uint64_t hit_tokens;
	/* One per group that takes part and has a hit; hand them to the load as they are. */
	struct kvh_tail_key tail_keys[KVH_GROUPS_MAX];
	size_t tail_key_count;
};

/*
 * The longest prefix that every rank could load, less than token_count: at least the last token is
 * left to compute. Repeatable, leaves no trace in the store. A store error is hit 0 and is
 * counted; the call then returns KVH_OK. Any thread; blocks on the store to the deadline.
 */
KVH_API kvh_status kvh_worker_lookup(struct kvh_worker *worker, const struct kvh_lookup *lookup,
                                     struct kvh_lookup_result *result, struct kvh_error *error);

/* ---- requests' lives ------------------------------------------------------------------ */

/*
 * The request lost its blocks: its saves become stale (they end without effect), its offset, skip
 * mark and kept token ids are dropped, its loads are cancelled. Its blocks are the
 * engine's again only when the completions have come or a drain has said so. Unknown: KVH_OK.
 * Any thread, returns at once.
 */
KVH_API kvh_status kvh_worker_preempt(struct kvh_worker *worker, struct kvh_request_id request);

/*
 * These requests ended. Each is forgotten when its saves have drained, at this call or a later one:
 * call it once an engine step, with count 0 when nothing ended. Its loads are cancelled at once.
 * Any thread, returns at once.
 */
KVH_API kvh_status kvh_worker_finish(struct kvh_worker *worker,
                                     const struct kvh_request_id *requests, size_t count);

/* Asks one job to stop. Any thread, returns at once. */
KVH_API kvh_status kvh_worker_cancel(struct kvh_worker *worker, uint64_t job_id,
                                     enum kvh_cancel_outcome *outcome);

/*
 * Waits until every job of the request (NULL: of the worker) is terminal. KVH_TIMEOUT: *left_jobs
 * are not. Completions still come by poll. Not from a callback of the worker.
 */
KVH_API kvh_status kvh_worker_drain(struct kvh_worker *worker, const struct kvh_request_id *request,
                                    kvh_deadline deadline_ns, size_t *left_jobs);

/* ---- completions ---------------------------------------------------------------------- */

enum kvh_completion_kind {
	KVH_SAVE_DONE = 1, /* the job's blocks are read no more */
	KVH_LOAD_DONE = 2, /* the job's blocks are written no more; after its KVH_BLOCK_FAILEDs */
	KVH_BLOCK_FAILED = 3, /* this block was to be written and is not known good */
	KVH_EVENT = 4,        /* event: given, free with kvh_stored_event_free */
	/*
	 * evicted: a key of this worker's prefixes left the store. With events on, where the store
	 * tells; its feed is the handle's, so give such a worker a handle of its own. Status
	 * KVH_NO_ANSWER: keys are missing before this one (or, with no hash, altogether): look
	 * again at everything.
	 */
	KVH_EVICTED = 5
};

/* A block that this rank put. One allocation. */
struct kvh_stored_event {
	uint32_t group;
	uint32_t block_tokens;
	uint32_t hash_bytes;
	bool has_parent;
	bool integer_hashes; /* then hash_integer and parent_integer count */
	bool has_token_ids;
	uint8_t hash[KVH_HASH_BYTES_MAX];
	uint8_t parent_hash[KVH_HASH_BYTES_MAX];
	uint64_t hash_integer;
	uint64_t parent_integer;
	size_t token_id_count;
	const int32_t *token_ids; /* inside the same allocation */
	const char *medium;       /* static: "cpu" */
};
KVH_API void kvh_stored_event_free(struct kvh_stored_event *event);

struct kvh_completion {
	enum kvh_completion_kind kind;
	kvh_status status; /* DONE: how the job ended; BLOCK_FAILED: why */
	uint64_t job_id;
	uint64_t user;
	uint32_t group;
	uint32_t block_index; /* from the request's start */
	int32_t block_id;
	uint32_t reserved;
	struct kvh_stored_event *event;
	struct kvh_evicted_key evicted;
};

/*
 * Takes up to capacity completions, in the order in which they came; *count says how many.
 * entry_bytes: sizeof(struct kvh_completion). What does not fit stays for the next call. All
 * KVH_BLOCK_FAILED of a load come before its KVH_LOAD_DONE. Any thread, returns at once, allocates
 * nothing.
 */
KVH_API kvh_status kvh_worker_poll(struct kvh_worker *worker, struct kvh_completion *completions,
                                   size_t entry_bytes, size_t capacity, size_t *count);

/* ---- statistics ----------------------------------------------------------------------- */

struct kvh_worker_stats {
	size_t struct_bytes;
	uint64_t save_jobs, save_jobs_stale, save_jobs_pressure_skipped, save_jobs_failed;
	uint64_t save_jobs_not_due; /* token_count at or below the saved offset */
	uint64_t save_jobs_refused; /* KVH_BUSY or KVH_INVALID_PARAMS at hand-in */
	uint64_t save_keys_present, save_keys_put, save_keys_failed, save_keys_duplicate;
	uint64_t save_bytes;
	uint64_t save_chunks_null, save_chunks_unstorable;
	uint64_t load_jobs, load_jobs_failed, load_jobs_cancelled, load_jobs_timed_out;
	uint64_t load_jobs_oversized;
	uint64_t load_keys, load_keys_failed, load_keys_gone, load_keys_lease_expired;
	uint64_t load_bytes;
	uint64_t load_memory_keys, load_disk_keys, load_unknown_keys; /* tier_log */
	uint64_t load_memory_bytes, load_disk_bytes, load_unknown_bytes;
	uint64_t lookups, lookup_errors, lookup_query_tokens, lookup_hit_tokens;
	uint64_t pressure_episodes, pressure_probes;
	uint64_t in_doubt_jobs;
	uint64_t events_reported, events_dropped;
	uint64_t wakeups; /* of worker threads */
	/* Now. */
	uint64_t queued_saves, queued_loads, queued_save_bytes, running_jobs;
	uint64_t live_requests, skipped_requests, completions_waiting;
	bool pressure;
};
KVH_API kvh_status kvh_worker_get_stats(struct kvh_worker *worker, struct kvh_worker_stats *stats);

/*
 * As kvh_store_stats_text. No label tells workers apart: where several of one process go into one
 * page, the caller adds it.
 */
KVH_API kvh_status kvh_worker_stats_text(struct kvh_worker *worker, char *text, size_t capacity,
                                         size_t *needed_bytes);

#ifdef __cplusplus
}
#endif
#endif
