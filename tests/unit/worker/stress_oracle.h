/* SPDX-License-Identifier: Apache-2.0 */
/* Follows every job and every block of a worker from outside, on many threads at once. */
#ifndef KVH_TESTS_WORKER_STRESS_ORACLE_H
#define KVH_TESTS_WORKER_STRESS_ORACLE_H

#include "unit/worker/stress_rig.h"

enum { ORACLE_SLOTS = 128, ORACLE_BLOCKS = 640, ORACLE_CHUNKS_MAX = 5, ORACLE_REQUESTS = 12 };

struct oracle;

/* What was seen, for tests to demand that everything happened. */
struct oracle_counts {
	uint64_t accepted, refused, closed, good_loads, failed_loads, good_blocks, failed_blocks;
	uint64_t cancelled, drained;
	uint64_t load_refused; /* with KVH_BUSY: never allowed */
};

struct oracle *oracle_open(struct rig *rig);
/* Every job must have completed and every block be back. */
void oracle_close(struct oracle *oracle);
struct oracle_counts oracle_counts(struct oracle *oracle);
/* For actors' threads, where a test can't fail: keeps the first thing that was wrong. */
void oracle_demand(struct oracle *oracle, bool condition, const char *fault);
/* The first thing that was wrong; NULL: nothing. */
const char *oracle_fault(struct oracle *oracle);

/* Hands in one job with fresh blocks; false: the worker is closing. */
bool oracle_submit(struct oracle *oracle, uint64_t *seed);
/* Polls a few completions. False: there were none. */
bool oracle_poll(struct oracle *oracle, uint64_t *seed);
/* Drains one request and takes the blocks of its jobs back at once. */
void oracle_drain(struct oracle *oracle, uint64_t *seed);
/* Takes another identity, while nobody hands in. */
void oracle_change_identity(struct oracle *oracle);
uint64_t oracle_some_job(struct oracle *oracle, uint64_t *seed);
const char *oracle_request(uint64_t number);

#endif
