/* SPDX-License-Identifier: Apache-2.0 */
/* A worker on a fake store, moved step by step: what the worker's unit tests stand on. */
#ifndef KVH_TESTS_UNIT_WORKER_RIG_H
#define KVH_TESTS_UNIT_WORKER_RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <kvhold/worker.h>

#include "fake_store.h"
#include "golden/coenv.h"
#include "worker/inspect.h"

enum {
	RIG_GROUPS_MAX = 4,
	RIG_IDS_MAX = 128,
	RIG_HASHES_MAX = 128,
	RIG_REGIONS_MAX = 4,
	RIG_TEXT_BYTES = 1 << 16,
	RIG_BLOCK = 100 /* block of chunk 0 */
};

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))
#define MS              1000000ull
#define SECONDS         1000000000ull

/* What several workers may share. */
struct world {
	struct coenv *coenv;
	struct fake_store fake;
	struct kvh_store *store;
	size_t thread_count;
	char lines[RIG_TEXT_BYTES]; /* of the log */
	size_t line_bytes;
	char records[RIG_TEXT_BYTES];
	size_t record_bytes;
	struct kvh_device device;
};

struct rig;

/* An event of the engine's: says "not yet" so many times, then its status. */
struct rig_event {
	struct world *world;
	unsigned timeouts;
	kvh_status status;
	unsigned waits;
	struct rig *rig; /* its job cancel_job is cancelled at this wait, if it is not 0 */
	unsigned cancel_at;
	uint64_t cancel_job;
};

struct rig {
	struct world *world;
	bool owns_world;
	struct kvh_worker *worker;
	size_t first_thread;

	/* Set between rig_init and rig_open. */
	struct kvh_worker_config config;
	struct kvh_group groups[RIG_GROUPS_MAX];
	size_t block_bytes[RIG_GROUPS_MAX];  /* of one region */
	size_t stride_bytes[RIG_GROUPS_MAX]; /* 0: block_bytes */
	size_t region_count[RIG_GROUPS_MAX]; /* 0: 1 */
	uint64_t block_count;

	uint8_t *memory[RIG_GROUPS_MAX];
	size_t memory_bytes[RIG_GROUPS_MAX];

	/* What the next job gets: chunk i in block RIG_BLOCK + i. Tests change it. */
	unsigned chain;
	int32_t ids[RIG_GROUPS_MAX][RIG_IDS_MAX];
	struct kvh_block_table tables[RIG_GROUPS_MAX];
	uint8_t hashes[RIG_HASHES_MAX * KVH_HASH_BYTES_MAX];

	struct kvh_stored_event event; /* the last one polled; no token ids */
	struct kvh_completion last;
	struct kvh_error error;
	enum fake_fn held_fn;
};

struct world *world_open(void);
/* With a store that can do these things. */
struct world *world_open_with(const struct kvh_store_caps *caps);
void world_close(struct world *world);

/* One full-attention group, 16 tokens and 1024 bytes a block, 256 blocks, hashes of 16 tokens. */
void rig_init(struct rig *rig);
void rig_init_in(struct rig *rig, struct world *world);
void rig_add_group(struct rig *rig, enum kvh_attention kind, uint32_t block_tokens,
                   uint32_t window_tokens);
/* Opens the worker, registers its caches, brings its threads to where they ask for a job. */
void rig_open(struct rig *rig);
void rig_open_worker(struct rig *rig);
kvh_status rig_register(struct rig *rig);
void rig_close(struct rig *rig);

uint8_t *rig_block(struct rig *rig, uint32_t group, uint32_t region, int32_t block);
/* Every byte of the block in all regions. */
void rig_fill(struct rig *rig, uint32_t group, int32_t block, uint8_t byte);
bool rig_block_is(struct rig *rig, uint32_t group, int32_t block, uint8_t byte);
/* Block RIG_BLOCK + i of every group gets bytes 1 + i. */
void rig_fill_all(struct rig *rig, unsigned count);

void rig_reset_ids(struct rig *rig);
struct kvh_request_id rig_id(const char *request);
struct kvh_save_job rig_save_job(struct rig *rig, uint64_t job_id, const char *request,
                                 uint64_t tokens);
struct kvh_load_job rig_load_job(struct rig *rig, uint64_t job_id, const char *request,
                                 uint64_t tokens, uint64_t cached);
/* Hand in; the test fails when refused. */
void rig_save(struct rig *rig, uint64_t job_id, const char *request, uint64_t tokens);
void rig_load(struct rig *rig, uint64_t job_id, const char *request, uint64_t tokens,
              uint64_t cached);
kvh_status rig_submit_save(struct rig *rig, const struct kvh_save_job *job);
kvh_status rig_submit_load(struct rig *rig, const struct kvh_load_job *job);
/* Runs the oldest queued save or load to its end. */
void rig_run_save(struct rig *rig);
void rig_run_load(struct rig *rig);
/*
 * The next call of fn stops at its start, with no byte moved: the run that comes to it returns, and
 * the next run of that thread goes on from there.
 */
void rig_hold_next(struct rig *rig, enum fake_fn fn);
void rig_save_and_run(struct rig *rig, uint64_t job_id, const char *request, uint64_t tokens);
void rig_load_and_run(struct rig *rig, uint64_t job_id, const char *request, uint64_t tokens,
                      uint64_t cached);
void rig_preempt(struct rig *rig, const char *request);
/* request NULL: an engine step in which nothing ended. */
void rig_finish(struct rig *rig, const char *request);
void rig_advance_ns(struct rig *rig, uint64_t ns);

/*
 * All completions there are, one a line. Valid until the next call.
 *   saved JOB STATUS / loaded JOB STATUS
 *   failed JOB g<group> i<block index> b<block id> STATUS
 *   event JOB g<group> h<hash number> p<parent's or -> t<first token id>+<count, or ->
 *   evicted h<hash number or -> STATUS
 */
const char *rig_done(struct rig *rig);
/* The store's calls since the last time (fake_take_log). */
const char *rig_calls(struct rig *rig);
/* The records since the last time: "put partial_failure 4 keys 1 failed 4096 bytes\n". */
const char *rig_records(struct rig *rig);

uint64_t rig_saved_tokens(struct rig *rig, const char *request);
bool rig_skipped(struct rig *rig, const char *request);
size_t rig_live_saves(struct rig *rig, const char *request);
/* Token ids kept for later: "start+count", or "-". */
const char *rig_kept(struct rig *rig, const char *request);
struct kvh_worker_stats rig_stats(struct rig *rig);

/* The object of this rank for hash number index of the rig's chain; NULL: not stored. */
struct fake_object *rig_object(struct rig *rig, uint32_t group, unsigned index);
/* Whether it is stored and all its bytes are this one. */
bool rig_stored(struct rig *rig, uint32_t group, unsigned index, uint8_t byte);
/* Puts an object there as another writer would, every byte the same. */
void rig_plant(struct rig *rig, uint32_t group, unsigned index, uint8_t byte);
/* Opens, and plants objects 0 .. count - 1 of every group, object i full of bytes 1 + i. */
static inline void rig_open_with_objects(struct rig *rig, unsigned count)
{
	rig_open(rig);
	for (uint32_t g = 0; g < rig->config.group_count; g++) {
		for (unsigned i = 0; i < count; i++)
			rig_plant(rig, g, i, (uint8_t)(i + 1));
	}
}
uint64_t rig_lookup(struct rig *rig, uint64_t tokens, struct kvh_lookup_result *result);

/* The call was refused as wrong, in words that hold this one. */
#define assert_refused(rig, call, word)                                                            \
	do {                                                                                       \
		memset(&(rig)->error, 0, sizeof((rig)->error));                                    \
		assert_int_equal((call), KVH_INVALID_PARAMS);                                      \
		assert_int_equal((rig)->error.status, KVH_INVALID_PARAMS);                         \
		if (!strstr((rig)->error.text, (word)))                                            \
			fail_msg("'%s' does not name %s", (rig)->error.text, (word));              \
	} while (0)

#endif
