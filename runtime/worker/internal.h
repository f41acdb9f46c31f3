/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the worker share: jobs, requests, queues, and who guards what. */
#ifndef KVH_WORKER_INTERNAL_H
#define KVH_WORKER_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <kvhold/worker.h>

#include "base/check.h"
#include "base/lock.h"
#include "base/map.h"
#include "layout/coordinator.h"
#include "layout/keys.h"
#include "layout/shards.h"
#include "worker/batch.h"

/*
 * A job's states, and what moves it on:
 *
 *   QUEUED  -> RUNNING   its thread takes it
 *   QUEUED  -> DONE      cancelled, timed out (loads), or the worker closes
 *   RUNNING -> DONE      it ended and every key was quiet
 *   RUNNING -> DOUBT     it ended with an unquiet key (D-23)
 *   DOUBT   -> DONE      the store confirms, or its region is unregistered
 *   DONE    -> freed     poll has handed out its completions
 */
enum job_state { JOB_QUEUED, JOB_RUNNING, JOB_DOUBT, JOB_DONE };

struct worker_request;

/* The prefix ids of one identity. Counted by the jobs that use them; freed with the last. */
struct worker_epoch {
	size_t user_count; /* guarded by kvh_role_worker */
	uint32_t *own;     /* [group][shard] of this rank */
	uint32_t *lookup;  /* [group][namespace] of all ranks */
};

/* A block that a load writes, and where its objects are named. */
struct load_chunk {
	uint32_t group;
	uint32_t block_index;
	int32_t block_id;
	bool failed; /* not known good; true from the start */
	uint32_t good_shards;
	kvh_status status;
	uint64_t hash_index;
};

/* What only saves have. */
struct save_part {
	uint64_t floored_tokens; /* T of R-14 */
	bool has_replay;
	uint64_t replay_tokens;
	uint64_t source_bytes; /* for back-pressure */
	const int32_t *token_ids;
	size_t token_id_count;
	uint64_t token_ids_start;
	bool has_token_ids;
	const struct kvh_boundary *tail;
	size_t tail_count;
	const struct kvh_boundary *boundary_puts;
	size_t boundary_put_count;
	struct worker_event *events; /* in order; completions before SAVE_DONE */
	struct worker_event **events_end;
	bool raised; /* ended by an error, not by failed keys (golden.md: error) */
};

/* What only loads have. */
struct load_part {
	struct load_chunk *chunks;
	size_t chunk_count;
	size_t failed_next; /* next chunk that poll looks at */
	kvh_deadline deadline_ns;
};

/* One job; all that it keeps is in its one allocation. */
struct worker_job {
	struct kvh_map_entry entry; /* in the job table, by job_id */
	uint64_t job_id;
	uint64_t user;
	bool is_load;
	enum job_state state;           /* guarded by kvh_role_worker */
	struct worker_job *next;        /* in a queue; guarded by kvh_role_worker */
	struct worker_request *request; /* NULL: stale, or its request is gone; guarded */
	struct worker_job *peer_next;   /* live jobs of the request; guarded */
	struct worker_job **peer_link;
	struct worker_epoch *epoch;
	struct kvh_cancel cancel;
	kvh_status status; /* how it ended */
	const uint8_t *request_id;
	size_t request_id_bytes;
	uint64_t first_token; /* a save keeps no blocks before it: they were saved */
	struct kvh_block_table *blocks;
	uint64_t first_hash; /* the first one kept */
	const uint8_t *hashes;
	size_t hash_count; /* of the caller, those before first_hash included */
	void *event;
	union {
		struct save_part save;
		struct load_part load;
	};
};

/* A kept stored-block event on its way to poll. */
struct worker_event {
	struct worker_event *next;
	struct kvh_stored_event *event;
};

/* Token ids of a save that did not complete. */
struct kept_tokens {
	uint64_t start;
	size_t count;
	int32_t ids[];
};

struct unstorable_chunk {
	uint32_t group;
	uint64_t chunk;
};

/* The ledger's entry of one request: one life. All guarded by kvh_role_worker. */
struct worker_request {
	struct kvh_map_entry entry; /* key: the request id, behind this struct */
	bool has_saves;             /* a save was accepted in this life */
	bool finishing;             /* ended with saves outstanding */
	bool skipped;               /* in the skip set of R-20 */
	uint64_t saved_tokens;      /* S of R-14 */
	struct worker_job *saves;
	struct worker_job *loads;
	struct kept_tokens *kept;
	struct unstorable_chunk *unstorable; /* D-22; sorted by group and chunk */
	size_t unstorable_count;
	uint8_t id[];
};

struct job_queue {
	struct worker_job *head;
	struct worker_job **tail;
	size_t count;
};

/* Threads that wait for a job, and how many of them have a wake-up on its way. */
struct sleepers {
	size_t count;
	size_t signalled;
};

/* One group as the worker uses it; immutable after register_caches. */
struct worker_group {
	struct kvh_group config;
	bool participates;
	uint32_t factor;             /* */
	uint32_t put_step;           /* */
	struct kvh_layout **layouts; /* one per shard; NULL before register_caches */
	size_t value_bytes;          /* of one shard's object */
	uint64_t block_count;
};

/* R-20, D-7. Guarded by kvh_role_worker. */
struct pressure {
	bool active;
	uint64_t probe_wait_ns;
	uint64_t probe_at_ns;
	size_t skipped_count;
};

/* A worker's thread and what it reuses from job to job. */
struct worker_thread {
	struct kvh_worker *worker;
	struct kvh_thread *thread;
	bool is_load;
	struct worker_batch batch;
	struct worker_batch recheck; /* keys to ask for once more (D-11) */
	struct kvh_masks masks;
};

struct kvh_worker {
	/* Immutable after open. */
	const struct kvh_env *env;
	struct kvh_device device; /* with device_ops: whole, whatever the caller's lacks */
	struct kvh_device_ops device_ops;
	struct kvh_log log;
	struct kvh_store *store;
	struct kvh_store_caps caps;
	struct kvh_coordinator *coordinator;
	struct kvh_sharding sharding;
	char *model;
	char *cache_prefix;
	struct kvh_worker_config ranks; /* ranks and sizes only; sizes are at least 1 */
	uint32_t tp_rank;
	uint32_t hash_tokens, hash_bytes, lcm_tokens;
	bool partial_hits, events, integer_hashes, lifecycle_groups, tier_log;
	uint64_t staging_raw_bytes, staging_usable_bytes; /* 0: no budget */
	uint64_t max_queued_jobs, max_queued_bytes;
	uint32_t load_threads;
	uint64_t pressure_probe_ns; /* 0: never */
	uint64_t load_timeout_ns;   /* 0: never */
	kvh_record_fn record;
	void *record_user;
	uint64_t process_id;
	size_t group_count;
	struct worker_group groups[KVH_GROUPS_MAX];
	size_t group_first_own[KVH_GROUPS_MAX];    /* index into epoch->own */
	size_t group_first_lookup[KVH_GROUPS_MAX]; /* index into epoch->lookup */
	uint32_t group_namespaces[KVH_GROUPS_MAX];
	size_t own_count, lookup_count;

	/* Set once by register_caches. */
	bool registered KVH_GUARDED_BY(kvh_role_worker);
	kvh_region_id *regions;
	size_t region_count;
	struct worker_thread *threads;
	size_t thread_count;

	struct kvh_mutex *mutex;
	struct kvh_cond *save_ready, *load_ready, *changed;

	/* All below is guarded by kvh_role_worker. */
	struct kvh_map requests KVH_GUARDED_BY(kvh_role_worker);
	struct kvh_map jobs KVH_GUARDED_BY(kvh_role_worker);
	struct job_queue saves KVH_GUARDED_BY(kvh_role_worker);
	struct job_queue loads KVH_GUARDED_BY(kvh_role_worker);
	struct job_queue done KVH_GUARDED_BY(kvh_role_worker);
	struct worker_job *doubt KVH_GUARDED_BY(kvh_role_worker);
	size_t doubt_count KVH_GUARDED_BY(kvh_role_worker);
	uint64_t next_question_ns KVH_GUARDED_BY(kvh_role_worker); /* by a thread with jobs to do */
	uint64_t queued_save_bytes KVH_GUARDED_BY(kvh_role_worker);
	size_t live_jobs; /* not DONE */
	struct sleepers sleeping_saves KVH_GUARDED_BY(kvh_role_worker);
	struct sleepers sleeping_loads KVH_GUARDED_BY(kvh_role_worker);
	size_t finishing_count KVH_GUARDED_BY(kvh_role_worker);
	size_t change_waiters KVH_GUARDED_BY(kvh_role_worker);
	uint64_t next_load_deadline_ns; /* of queued loads; 0: none */
	bool closing KVH_GUARDED_BY(kvh_role_worker);
	bool stop KVH_GUARDED_BY(kvh_role_worker);
	struct worker_epoch *epoch KVH_GUARDED_BY(kvh_role_worker);
	struct pressure pressure KVH_GUARDED_BY(kvh_role_worker);
	struct kvh_worker_stats stats KVH_GUARDED_BY(kvh_role_worker);
	struct kvh_completion *evicted; /* ring of KVH_EVICTED completions */
	size_t evicted_first KVH_GUARDED_BY(kvh_role_worker);
	size_t evicted_count KVH_GUARDED_BY(kvh_role_worker);
};

enum { KVH_EVICTED_RING = 4096 };

/* worker.c */
void kvh_worker_lock(struct kvh_worker *worker) KVH_ACQUIRE(kvh_role_worker);
void kvh_worker_unlock(struct kvh_worker *worker) KVH_RELEASE(kvh_role_worker);
/* KVH_OK, or KVH_INVALID_PARAMS (NULL) or KVH_FORKED. */
kvh_status kvh_worker_usable(const struct kvh_worker *worker);
/* As kvh_worker_usable; KVH_CLOSED from close on, when the store may be gone. */
kvh_status kvh_worker_serving(struct kvh_worker *worker);

/* epoch.c */
kvh_status kvh_epoch_create(struct kvh_worker *worker, const void *identity, size_t identity_bytes,
                            struct worker_epoch **out, struct kvh_error *error);
void kvh_epoch_destroy(struct worker_epoch *epoch);
void kvh_epoch_release(struct kvh_worker *worker, struct worker_epoch *epoch)
	KVH_REQUIRES(kvh_role_worker);

/* config.c */
kvh_status kvh_worker_check_identity(const void *identity, size_t identity_bytes, bool none,
                                     struct kvh_error *error);
/* Checks the whole configuration and fills the immutable part of the worker from it. */
kvh_status kvh_worker_configure(struct kvh_worker *worker, const struct kvh_worker_config *config,
                                struct kvh_error *error);

/* caches.c */
void kvh_caches_release(struct kvh_worker *worker);
/* Gives the memory back; a store that can't yet keeps its region, and we its id. */
kvh_status kvh_caches_unregister(struct kvh_worker *worker, kvh_deadline deadline_ns);

/* ledger.c */
struct worker_request *kvh_ledger_find(struct kvh_worker *worker, const void *id, size_t bytes)
	KVH_REQUIRES(kvh_role_worker);
/* Finds or makes the entry; NULL: no memory. */
struct worker_request *kvh_ledger_enter(struct kvh_worker *worker, const void *id, size_t bytes)
	KVH_REQUIRES(kvh_role_worker);
void kvh_ledger_link(struct worker_request *request, struct worker_job *job)
	KVH_REQUIRES(kvh_role_worker);
/* Takes the job out of its request; drops an entry that nothing needs any more. */
void kvh_ledger_unlink(struct kvh_worker *worker, struct worker_job *job)
	KVH_REQUIRES(kvh_role_worker);
/* forgets the request; its saves become stale, its loads are cancelled. */
void kvh_ledger_drop(struct kvh_worker *worker, struct worker_request *request)
	KVH_REQUIRES(kvh_role_worker);
void kvh_ledger_drop_all(struct kvh_worker *worker) KVH_REQUIRES(kvh_role_worker);
void kvh_ledger_cancel_loads(struct kvh_worker *worker, struct worker_request *request)
	KVH_REQUIRES(kvh_role_worker);
bool kvh_ledger_is_unstorable(const struct worker_request *request, uint32_t group, uint64_t chunk)
	KVH_REQUIRES(kvh_role_worker);
/* True when it was not marked before. */
bool kvh_ledger_mark_unstorable(struct worker_request *request, uint32_t group, uint64_t chunk)
	KVH_REQUIRES(kvh_role_worker);

/* queue.c */
void kvh_queue_init(struct job_queue *queue);
void kvh_queue_push(struct job_queue *queue, struct worker_job *job);
struct worker_job *kvh_queue_pop(struct job_queue *queue);
void kvh_queue_remove(struct job_queue *queue, struct worker_job *job);
/* Enters a job that was accepted; wakes a thread that sleeps. */
void kvh_jobs_enter(struct kvh_worker *worker, struct worker_job *job)
	KVH_REQUIRES(kvh_role_worker);
/* The job is terminal: out of the ledger, to poll. */
void kvh_jobs_finish(struct kvh_worker *worker, struct worker_job *job, kvh_status status)
	KVH_REQUIRES(kvh_role_worker);
/* Wakes every thread that sleeps. */
void kvh_jobs_wake_all(struct kvh_worker *worker) KVH_REQUIRES(kvh_role_worker);
/* Logs that the job will be in doubt; no lock held. */
void kvh_jobs_log_doubt(struct kvh_worker *worker, const struct worker_job *job);
/* The job ended with unquiet keys (D-23). */
void kvh_jobs_doubt(struct kvh_worker *worker, struct worker_job *job, kvh_status status)
	KVH_REQUIRES(kvh_role_worker);
/* Ends a queued job that will not run. */
void kvh_jobs_drop_queued(struct kvh_worker *worker, struct worker_job *job, kvh_status status)
	KVH_REQUIRES(kvh_role_worker);
/* Every job in doubt is confirmed: no byte can move. */
void kvh_jobs_confirm(struct kvh_worker *worker) KVH_REQUIRES(kvh_role_worker);
void kvh_jobs_expire_loads(struct kvh_worker *worker) KVH_REQUIRES(kvh_role_worker);
void kvh_job_free(struct kvh_worker *worker, struct worker_job *job) KVH_REQUIRES(kvh_role_worker);

/* threads.c */
kvh_status kvh_threads_start(struct kvh_worker *worker, uint32_t load_threads);
void kvh_threads_stop(struct kvh_worker *worker);

/* save.c, load.c: one job, on its thread, no lock held. */
void kvh_save_run(struct worker_thread *thread, struct worker_job *job);
void kvh_load_run(struct worker_thread *thread, struct worker_job *job);

static inline const uint8_t *kvh_job_hash(const struct kvh_worker *worker,
                                          const struct worker_job *job, uint64_t index)
{
	KVH_CHECK(index >= job->first_hash);
	return job->hashes + (index - job->first_hash) * worker->hash_bytes;
}

static inline uint32_t kvh_worker_shards(const struct kvh_worker *worker)
{
	return worker->sharding.shards_per_rank;
}

/* submit_save.c: bytes of all blocks of tokens from .. to. */
uint64_t kvh_save_source_bytes(const struct kvh_worker *worker, uint64_t from_tokens,
                               uint64_t to_tokens);

/* pressure.c */
/* whether the job's request is to be skipped now; a probe that is due says no (D-7). */
bool kvh_pressure_skips(struct kvh_worker *worker, const struct worker_job *job, bool *probe)
	KVH_REQUIRES(kvh_role_worker);
void kvh_pressure_raise(struct kvh_worker *worker, struct worker_request *request, bool probe)
	KVH_REQUIRES(kvh_role_worker);
/* True when there was pressure. */
bool kvh_pressure_clear(struct kvh_worker *worker) KVH_REQUIRES(kvh_role_worker);

/* evicted.c: moves evicted keys of this worker's prefixes from the store to poll. */
void kvh_evicted_collect(struct kvh_worker *worker);

/* Waits for the engine's event, in slices so that a cancel is seen. */
kvh_status kvh_job_wait_event(struct kvh_worker *worker, struct worker_job *job,
                              kvh_deadline deadline_ns);

/* records.c: counts the call and tells the caller's record function. */
void kvh_worker_record(struct kvh_worker *worker, const struct kvh_record *record);

/* Whether a result is of a kind that no retry can change (D-22). */
static inline bool kvh_result_is_permanent(int64_t value)
{
	return value == KVH_INVALID_KEY || value == KVH_INVALID_PARAMS ||
	       value == KVH_NOT_SUPPORTED || value == KVH_TOO_LARGE;
}

#endif
