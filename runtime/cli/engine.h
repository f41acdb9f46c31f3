/* SPDX-License-Identifier: Apache-2.0 */
/* A small serving engine in this process: one scheduler, ranks that "compute", load and save. */
#ifndef KVH_CLI_ENGINE_H
#define KVH_CLI_ENGINE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <kvhold/kvhold.h>

#include "blocks.h"
#include "trace.h"

/*
 * The model. The scheduler decides once for all ranks, as engines do: every rank has the same block
 * tables and its own memory (host memory, standing in for a GPU's). Computing a block means
 * writing bytes that follow from (seed, hash, rank, group, region); so every loaded byte can be
 * compared with what it must be. A block that is not complete, or that no hash of the trace names,
 * holds other bytes, so that saving it too early is seen.
 *
 * A step: the scheduler fills the plan, the ranks carry it out side by side, the scheduler takes
 * what they report. Between steps only the scheduler runs; within one only the ranks do. The plan,
 * jobs and requests are therefore plain data: the barrier's lock orders every access.
 */
enum {
	KVH_ENGINE_RANKS_MAX = 8,
	KVH_ENGINE_GROUPS = 2,
	KVH_ENGINE_REGIONS_MAX = 4,
	KVH_ENGINE_HASH_TOKENS = KVH_TRACE_BLOCK_TOKENS,
	KVH_ENGINE_HASH_BYTES = 32,
	KVH_ENGINE_LCM_TOKENS = 1024,   /* of both groups' block_tokens */
	KVH_ENGINE_RUNNING_MAX = 16,    /* requests */
	KVH_ENGINE_STEP_TOKENS = 8192,  /* computed in one step */
	KVH_ENGINE_CHUNK_TOKENS = 4096, /* of one request's prompt in one step */
	KVH_ENGINE_DECODE_TOKENS = 32,  /* one step stands for so many decode iterations */
	KVH_ENGINE_SAMPLES = 60,        /* beside the one at the start */
	KVH_ENGINE_NOTES_MAX = 8,
	KVH_ENGINE_NOTE_BYTES = 256
};

/* Layers that share a cache geometry; a block is region_count pieces of region_bytes. */
struct kvh_engine_group {
	enum kvh_attention kind;
	uint32_t block_tokens;
	uint32_t window_tokens;
	uint32_t region_count;
	uint32_t region_bytes;
	uint32_t block_count; /* of a rank; block 0 is never used */
};
extern const struct kvh_engine_group kvh_engine_groups[KVH_ENGINE_GROUPS];

enum kvh_engine_state {
	KVH_REQUEST_WAITING = 0,
	KVH_REQUEST_LOADING,
	KVH_REQUEST_RUNNING,
	KVH_REQUEST_FINISHED
};

/* One group's blocks of a request, by block index. id 0: outside the window, given up. */
struct kvh_engine_table {
	int32_t *ids;
	uint64_t *contents; /* what was last written; kvh_pattern_mix of rank and region makes it */
	uint32_t count;
	uint32_t dropped_count; /* leading entries that are 0 */
};

struct kvh_engine_request {
	const struct kvh_trace_request *trace;
	const uint64_t *trace_hashes; /* ids of its prompt blocks, the last may be a partial one */
	uint32_t index;
	enum kvh_engine_state state;
	bool admitted_before;
	char name[24];
	void *memory;    /* tables and hashes; NULL unless loading, running or preempted */
	uint8_t *hashes; /* of the full prompt blocks, packed */
	size_t hash_count;
	struct kvh_engine_table tables[KVH_ENGINE_GROUPS];
	uint64_t computed_tokens; /* have KV */
	uint64_t known_tokens;    /* prompt and what was generated so far */
	uint64_t end_tokens;
	uint64_t saved_tokens; /* handed to a save */
};

/* One rank's share of a job. Written by that rank only, until it is done. */
struct kvh_engine_part {
	struct kvh_engine_job *next_done;
	bool done;
	bool refused; /* never queued */
	kvh_status status;
	uint64_t failed_count;
	uint8_t *failed[KVH_ENGINE_GROUPS]; /* loads: per block index */
};

struct kvh_engine_job {
	uint64_t id;
	bool is_load;
	struct kvh_engine_request *request;
	uint64_t token_count;
	uint64_t submitted_ns;
	struct kvh_block_table tables[KVH_ENGINE_GROUPS]; /* own copies */
	uint64_t *contents[KVH_ENGINE_GROUPS];            /* loads: what must arrive */
	struct kvh_engine_part parts[KVH_ENGINE_RANKS_MAX];
	uint32_t parts_left;
};

/* Work on one block in a step: write it, or compare it before it is given up. */
struct kvh_engine_block_task {
	const struct kvh_engine_request *request;
	uint32_t group;
	uint32_t block_index;
	int32_t block_id;
	uint64_t content;
};

struct kvh_engine_plan {
	struct kvh_engine_block_task *checks, *fills; /* as many as there are blocks */
	size_t check_count, fill_count;
	struct kvh_engine_request *preempted[KVH_ENGINE_RUNNING_MAX];
	struct kvh_engine_request *finished[KVH_ENGINE_RUNNING_MAX];
	struct kvh_engine_job *loads[KVH_ENGINE_RUNNING_MAX], *saves[KVH_ENGINE_RUNNING_MAX];
	size_t preempted_count, finished_count, load_count, save_count;
};

/* What one rank counts; read between steps. */
struct kvh_engine_rank_counts {
	uint64_t loaded_bytes, checked_bytes; /* compared after loads; compared before give-back */
	uint64_t mismatched_blocks;
	uint64_t failed_blocks;
	uint64_t refused_saves;
	uint64_t defects; /* the worker broke its contract, or refused a good job */
	uint64_t load_wait_ns_max, save_wait_ns_max;
};

struct kvh_engine_rank {
	struct kvh_engine *engine;
	uint32_t index;
	struct kvh_worker *worker;
	struct kvh_thread *thread;
	unsigned char *memory;
	size_t memory_bytes;
	unsigned char *group_base[KVH_ENGINE_GROUPS];
	struct kvh_engine_job *done_first; /* this step's completions */
	uint64_t taken_count;
	bool corrupted; /* the self-test's one wrong bit was set */
	struct kvh_engine_rank_counts counts;
	char notes[KVH_ENGINE_NOTES_MAX][KVH_ENGINE_NOTE_BYTES];
	size_t note_count;
	/* Added to by the worker's threads as its store calls end. */
	_Atomic uint64_t get_bytes, get_ns, put_bytes, put_ns;
};

struct kvh_engine_totals {
	uint64_t requests_done, requests_started, requests_all;
	uint64_t prompt_tokens, output_tokens; /* of finished requests */
	uint64_t computed_tokens;
	uint64_t lookup_tokens, hit_tokens;               /* first admissions */
	uint64_t resume_lookup_tokens, resume_hit_tokens; /* after a preemption */
	uint64_t lookup_errors;
	uint64_t lost_tokens; /* promised by a lookup, not usable after the load */
	uint64_t load_jobs, save_jobs, failed_loads;
	uint64_t preemptions, stalls;
	uint64_t steps;
	uint64_t elapsed_ns;
	bool stopped_early;
};

/* The run at one moment. */
struct kvh_engine_sample {
	uint64_t at_ns; /* since the run began */
	uint64_t requests_done;
	uint64_t lookup_tokens, hit_tokens;
	uint64_t used_bytes, capacity_bytes, evicted_keys;
	uint64_t get_bytes, put_bytes;
};

struct kvh_engine_config {
	const struct kvh_trace *trace;                  /* lent */
	struct kvh_store *stores[KVH_ENGINE_RANKS_MAX]; /* a rank's; lent; may be the same */
	uint32_t rank_count;
	uint64_t seed;
	uint64_t time_limit_ns; /* no request is started after it; 0: none */
	bool neighbour;         /* see neighbour.h */
	bool corrupt_one;       /* self-test: one bit of the first loaded block is flipped */
	bool progress;          /* a line on stderr */
};

struct kvh_engine {
	struct kvh_engine_config config;
	const struct kvh_env *env;
	struct kvh_engine_rank ranks[KVH_ENGINE_RANKS_MAX];
	struct kvh_blocks blocks[KVH_ENGINE_GROUPS];
	struct kvh_neighbour *neighbour; /* NULL: none, or gone again */
	bool neighbour_came;
	uint64_t neighbour_full_ns, neighbour_full_requests; /* when it held all */

	struct kvh_engine_request *requests;
	size_t request_count, next_request;
	struct kvh_engine_request *running[KVH_ENGINE_RUNNING_MAX]; /* oldest first */
	struct kvh_engine_request *preempted[KVH_ENGINE_RUNNING_MAX];
	size_t running_count, preempted_count;

	struct kvh_engine_job **jobs; /* by job id; NULL: completed */
	size_t job_capacity;
	uint64_t last_job_id;
	size_t live_job_count;

	struct kvh_engine_plan plan;
	uint32_t budget_tokens; /* left in this step */
	struct kvh_engine_totals totals;
	uint64_t defects; /* of the scheduler's own bookkeeping, or of the run as a whole */
	char note[KVH_ENGINE_NOTE_BYTES];
	kvh_status status; /* what ended the run early */
	struct kvh_engine_sample samples[KVH_ENGINE_SAMPLES + 1];
	size_t sample_count;
	uint64_t started_ns, progress_ns, shown_ns;

	/* The barrier. lock guards the three fields below it. */
	struct kvh_mutex *lock;
	struct kvh_cond *changed;
	uint64_t step;
	uint32_t ranks_busy;
	bool stopping;
};

/* ---- engine.c ---- */

/* Opens a worker a rank. *engine is set on success only; the caller ends it with destroy. */
kvh_status kvh_engine_create(const struct kvh_engine_config *config, struct kvh_engine **engine,
                             struct kvh_error *error);
/* Replays the trace. Negative: the run could not go on; what it counted stays readable. */
kvh_status kvh_engine_run(struct kvh_engine *engine, struct kvh_error *error);
/*
 * Closes the workers; what the engine counted stays readable. KVH_TIMEOUT: bytes may still move,
 * close again.
 */
kvh_status kvh_engine_close(struct kvh_engine *engine);
/* Closes, then frees, unless closing failed. NULL: KVH_OK. */
kvh_status kvh_engine_destroy(struct kvh_engine *engine);
void kvh_engine_note(struct kvh_engine *engine, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* ---- schedule.c: between steps ---- */

void kvh_schedule_step(struct kvh_engine *engine);
void kvh_schedule_collect(struct kvh_engine *engine);
/* Nothing is left to start, run, load, save or finish. */
bool kvh_schedule_idle(const struct kvh_engine *engine);
/*
 * Whether new requests wait: half of them are held back until the neighbour holds all, so that some
 * are sure to meet it.
 */
bool kvh_schedule_holds_back(const struct kvh_engine *engine);

/* ---- request.c ---- */

/* Makes room for its tables and hashes. trace, trace_hashes and end_tokens are set. False: no
 * memory. */
bool kvh_request_begin(struct kvh_engine_request *request, uint64_t seed);
void kvh_request_end(struct kvh_engine_request *request);
/* What a complete block of this prompt holds; false: no hash of the trace names it. */
bool kvh_request_content(const struct kvh_engine_request *request, uint64_t seed, uint32_t group,
                         uint64_t block_index, uint64_t *content);

/* ---- jobs.c ---- */

/* Copies the tables up to token_count and pins their blocks. NULL: no memory or a defect. */
struct kvh_engine_job *kvh_job_create(struct kvh_engine *engine, struct kvh_engine_request *request,
                                      uint64_t token_count, bool is_load);
/* Unpins the blocks and forgets the job. */
void kvh_job_complete(struct kvh_engine *engine, struct kvh_engine_job *job);
struct kvh_engine_job *kvh_job_find(const struct kvh_engine *engine, uint64_t job_id);
/* Most tokens, a multiple of the lcm, that the job's good blocks allow to go on from. */
uint64_t kvh_job_usable_tokens(const struct kvh_engine_job *job, uint32_t rank_count);

/* ---- rank.c: within a step ---- */

kvh_status kvh_rank_open(struct kvh_engine_rank *rank, struct kvh_error *error);
/* KVH_TIMEOUT: bytes may still move; nothing was freed. */
kvh_status kvh_rank_close(struct kvh_engine_rank *rank);
void kvh_rank_step(struct kvh_engine_rank *rank);

/* How many blocks of the window a sliding group needs before a position. */
static inline uint32_t kvh_engine_window_blocks(const struct kvh_engine_group *group)
{
	return (group->window_tokens - 1 + group->block_tokens - 1) / group->block_tokens;
}

static inline size_t kvh_engine_block_bytes(const struct kvh_engine_group *group)
{
	return (size_t)group->region_count * group->region_bytes;
}

#endif
