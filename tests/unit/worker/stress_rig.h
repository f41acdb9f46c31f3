/* SPDX-License-Identifier: Apache-2.0 */
/* A worker over a store that checks every byte it is given, and that tests can hold, fail or let
 * move bytes late. */
#ifndef KVH_TESTS_WORKER_STRESS_RIG_H
#define KVH_TESTS_WORKER_STRESS_RIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <kvhold/worker.h>

enum {
	RIG_BLOCK_TOKENS = 16,
	RIG_BLOCK_WORDS = 16,
	RIG_BLOCK_BYTES = RIG_BLOCK_WORDS * 8,
	RIG_CHUNKS_MAX = 16, /* of one job */
	RIG_LATE_MAX = 4096
};

enum rig_call { RIG_EXISTS, RIG_PUT, RIG_GET, RIG_QUIESCE, RIG_UNREGISTER };

/* Zero-initialise. Hooks: NULL for a store without faults; called with no lock of the rig held. */
struct rig_options {
	const struct kvh_env *env; /* NULL: kvh_env_posix() */
	int64_t stop_ms_max;
	uint32_t load_threads;
	uint64_t max_queued_jobs, max_queued_bytes;
	int64_t load_timeout_ms; /* 0: never, unlike the worker's */
	bool events;
	int tier;                 /* what the store says of every key; 0: it has no tiers */
	bool unregister_confirms; /* late bytes have moved when unregister returns */
	size_t block_count;       /* 0: 64 */
	struct kvh_log log;
	void *user;
	/* Before the call does anything; may block. Not KVH_OK: the call's answer. */
	kvh_status (*begin)(void *user, enum rig_call call, const struct kvh_call *store_call);
	/*
	 * Before a key's bytes move; may block. Negative: the key's result; KVH_IN_DOUBT: it isn't
	 * quiet either, its bytes move when rig_land is called.
	 */
	int64_t (*key)(void *user, enum rig_call call, uint64_t word);
};

struct rig;

/* Fails the test when it can't open. */
struct rig *rig_open(const struct rig_options *options);
/* The worker must have been closed well; frees it, then the store. */
void rig_close(struct rig *rig);

struct kvh_worker *rig_worker(struct rig *rig);
uint64_t *rig_block(struct rig *rig, int32_t block_id);

/* What a block holds whose hash begins with word, under an identity. */
void rig_fill(uint64_t *block, uint64_t word, uint64_t identity);
bool rig_holds(const uint64_t *block, uint64_t word, uint64_t identity);

/* Puts an object into the store as if another worker had saved it. */
void rig_put_object(struct rig *rig, uint64_t word, uint64_t identity);
void rig_forget_objects(struct rig *rig);
size_t rig_object_count(struct rig *rig);
/* Times that the store was given, or read late, bytes that don't belong to their key (B01). */
uint64_t rig_foreign_count(struct rig *rig);

/* Moves the bytes of keys in doubt, oldest first; at most count. Returns how many. */
size_t rig_land(struct rig *rig, size_t count);
size_t rig_late_count(struct rig *rig);

/* One job of chunks 0 .. count - 1, whose hashes begin with word, word + 1, ... */
struct rig_job {
	uint64_t job_id;
	const char *request;
	uint64_t word;
	const int32_t *ids; /* by chunk */
	size_t count;
};
kvh_status rig_save(struct rig *rig, const struct rig_job *job, struct kvh_error *error);
kvh_status rig_load(struct rig *rig, const struct rig_job *job, struct kvh_error *error);
struct kvh_request_id rig_request(const char *text);
kvh_status rig_set_identity(struct rig *rig, uint64_t identity, struct kvh_error *error);

/* Polls one completion; false: there is none. */
bool rig_poll(struct rig *rig, struct kvh_completion *out);
struct kvh_worker_stats rig_stats(struct rig *rig);

/* Regions that the backend has. */
size_t rig_region_count(struct rig *rig);

/* The parts of rig_open, for tests of each. */
struct rig *rig_prepare(const struct rig_options *options);
kvh_status rig_open_worker(struct rig *rig, struct kvh_error *error);
kvh_status rig_register(struct rig *rig, struct kvh_error *error);

#endif
