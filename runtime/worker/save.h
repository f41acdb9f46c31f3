/* SPDX-License-Identifier: Apache-2.0 */
/* One save while it runs: shared by the normal save, the tail and the boundary puts. */
#ifndef KVH_WORKER_SAVE_H
#define KVH_WORKER_SAVE_H

#include "worker/internal.h"

struct save_run {
	struct kvh_worker *worker;
	struct worker_thread *thread;
	struct worker_job *job;
	struct worker_batch *batch;
	bool probe;                 /* runs under pressure, to see whether it is over (D-7) */
	bool ran;                   /* neither stale nor skipped */
	bool told;                  /* a log line has said why it failed */
	size_t null_count;          /* chunks left out for want of a source */
	bool unquiet;               /* a key's bytes may still be read (D-23) */
	uint64_t start_tokens;      /* S when the normal save began */
	uint64_t stop_tokens;       /* E of R-14, as far as sources stop it (D-12, D-22) */
	bool exists_failed;         /* as a whole */
	bool only_permanent;        /* the put failed, but no key that a retry could store (D-22) */
	size_t put_count;           /* first put_count results of the batch are of a put */
	struct kept_tokens *tokens; /* the job's token ids behind kept ones, if they join; owned */
};

/* Adds one object for every shard: the key named by hash_index, the bytes of block_id. */
void kvh_save_add(struct save_run *run, uint32_t group, uint64_t chunk, uint64_t hash_index,
                  int32_t block_id);

/*
 * Checks which objects of the batch are missing, waits for the job's event and puts them (R-17 to
 * R-20, D-10, D-11, D-15). KVH_OK: all are in the store. The batch then holds the missing ones.
 */
kvh_status kvh_save_store(struct save_run *run);

/* tail.c. KVH_OK: nothing to do, or all of it done. */
kvh_status kvh_save_tail(struct save_run *run);
kvh_status kvh_save_boundaries(struct save_run *run);

/* events.c: R-23. */
void kvh_events_begin(struct save_run *run) KVH_REQUIRES(kvh_role_worker);
/* One event for each chunk of the batch that was put whole. */
void kvh_events_stored(struct save_run *run);
/* Keeps or drops token ids at the end of a live job. */
void kvh_events_end(struct save_run *run, bool failed) KVH_REQUIRES(kvh_role_worker);

#endif
