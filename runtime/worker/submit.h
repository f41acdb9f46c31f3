/* SPDX-License-Identifier: Apache-2.0 */
/* What handing in a save and handing in a load have in common. */
#ifndef KVH_WORKER_SUBMIT_H
#define KVH_WORKER_SUBMIT_H

#include "base/arena.h"
#include "worker/internal.h"

/* The part that saves and loads share, borrowed from the caller's struct. */
struct job_input {
	uint64_t job_id;
	uint64_t user;
	struct kvh_request_id request;
	uint64_t token_count;
	uint64_t needed_tokens; /* whose blocks and hashes must be there */
	uint64_t first_token;   /* the job keeps no blocks before it; a multiple of lcm_tokens */
	const struct kvh_block_table *blocks;
	bool keeps_blocks; /* the job keeps the tables (a load keeps its chunks instead) */
	const uint8_t *hashes;
	size_t hash_count;
	void *event;
};

/* Whether jobs can be handed in at all. */
kvh_status kvh_submit_ready(struct kvh_worker *worker, struct kvh_error *error);
kvh_status kvh_submit_check(struct kvh_worker *worker, const struct job_input *in,
                            struct kvh_error *error);
kvh_status kvh_submit_check_tables(struct kvh_worker *worker, const struct job_input *in,
                                   struct kvh_error *error);
kvh_status kvh_submit_check_block(struct kvh_worker *worker, const char *what, size_t group,
                                  int64_t block_id, struct kvh_error *error);
bool kvh_submit_count(const struct kvh_worker *worker, const struct job_input *in, size_t *bytes);
/* The allocation: the job is its first piece. NULL: no memory. */
struct worker_job *kvh_submit_build(const struct kvh_worker *worker, const struct job_input *in,
                                    size_t bytes, struct kvh_arena *arena);
/*
 * Enters a built job, or says why not (then the caller frees it). KVH_SUBMIT_AGAIN: the request's
 * life has ended meanwhile, and what the job did not keep is to be saved again.
 */
enum { KVH_SUBMIT_AGAIN = 1 };
kvh_status kvh_submit_enter(struct kvh_worker *worker, struct worker_job *job,
                            struct kvh_error *error);
/* Counts a refused save. */
void kvh_submit_refused(struct kvh_worker *worker);

#endif
