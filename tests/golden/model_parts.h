/* SPDX-License-Identifier: Apache-2.0 */
/* The model's state and what its files share. */
#ifndef GOLDEN_MODEL_PARTS_H
#define GOLDEN_MODEL_PARTS_H

#include "model.h"
#include "model_pure.h"

enum {
	STATE_PRESENT = 1,
	CODE_NO_AVAILABLE_HANDLE = -200,
	CODE_INVALID_KEY = -400,
	CODE_INVALID_PARAMS = -600,
	CODE_ALREADY_EXISTS = -705,
	CODE_NOT_SUPPORTED = -1012,
	CODE_NO_ANSWER = -2000, /* preset of a slot; the number is never compared */
};

#define MODEL_NULL_BLOCK 0

/* A chunk of a request that can never be stored (D-22). */
struct model_chunk {
	int64_t group;
	int64_t index;
};

struct model_request {
	const char *name;
	struct ints live;     /* save job ids */
	int64_t saved_offset; /* tokens */
	bool skipped;
	bool has_retry;
	int64_t retry_start; /* position of the first retry id */
	struct ints retry_ids;
	bool finishing;
	struct model_chunk *unstorable;
	size_t unstorable_count;
	size_t unstorable_room;
};

/* One place of a queue; `job` is NULL if it was refused or cancelled. */
struct model_place {
	const struct trace_job *job;
};

struct model_queue {
	struct model_place *at;
	size_t count;
	size_t room;
	size_t next; /* the oldest place not yet taken */
};

struct model {
	struct arena *arena;
	const struct trace *trace;
	const struct trace_config *config;
	struct pure_setup setup;
	struct script *script;
	struct model_options options;
	const struct trace_step *step; /* the one that runs, for fed masks */
	struct model_request *requests;
	size_t request_count;
	size_t request_room;
	bool pressure;
	struct model_queue saves;
	struct model_queue loads;
	const struct trace_job *running; /* the save job that runs now, else NULL */
	struct named_list completed_saves;
	struct texts failed_requests;
	struct texts finished_recv;
	struct ints load_errors;
	struct failed_list failed_blocks;
	int64_t undrained_events;
	struct step_record seen; /* ops, events and tail_* since the last observe */
};

/* One object of a save: a chunk's (or boundary's) key, value and fate. */
struct save_item {
	int64_t group;
	int64_t chunk; /* absolute index */
	int64_t start; /* tokens */
	const char *hash;
	const char *key;
	const char *group_id;
	struct ints addrs;
	struct ints sizes;
	int64_t result; /* of the put */
	bool confirmed; /* a -705 that exists confirmed: stored, no event (D-11) */
};

struct save_batch {
	struct save_item *at;
	size_t count;
	size_t room;
};

/* One key of a load. */
struct load_item {
	const char *key;
	struct ints addrs;
	struct ints sizes;
	struct failed_block target; /* where it is written */
};

struct load_list {
	struct load_item *at;
	size_t count;
	size_t room;
};

/* What one exists + put over a batch came to. */
struct save_outcome {
	bool exists_raised;
	bool broken;          /* the handler ends by an error of its own */
	bool failed;          /* exists, put or event failed, or some key did */
	bool only_unstorable; /* failed, but by nothing else than D-22's codes */
	bool has_put;         /* `missing` went through a put that answered */
	struct save_batch missing;
};

bool model_on(const struct model *model, int number);
struct model_request *model_find(struct model *model, const char *name);
struct model_request *model_need(struct model *model, const char *name);
bool model_is_live(struct model *model, const struct trace_job *job);
void model_record_op(struct model *model, struct op_record record);
/* the block is not known good. */
void model_fail_block(struct model *model, const char *req, struct failed_block block);

/* Hand-in checks: true if the job is refused (D-13, D-17, D-21). */
bool model_refuses_save(struct model *model, const struct trace_job *job);
bool model_refuses_load(struct model *model, const struct trace_job *job);
/* The hashes cover `tokens`, which is on the hash grid. */
bool model_hashes_cover(const struct model *model, const struct trace_job *job, int64_t tokens);

/* Keys and segments of one block, one item a shard. */
void model_add_items(struct model *model, struct save_batch *batch, struct save_item like,
                     int64_t block);

bool model_run_save(struct model *model, const struct trace_job *job);
void model_exists_and_put(struct model *model, const struct trace_job *job,
                          const struct save_batch *batch, struct save_outcome *out);
/* Return false if the job ends here; *error as of the handler. */
bool model_save_tail(struct model *model, const struct trace_job *job, bool *error);
bool model_save_puts(struct model *model, const struct trace_job *job, bool *error);

/* The keys of a load in order, not rotated; false where the reference raises. */
bool model_load_items(struct model *model, const struct trace_job *job, struct load_list *list);
bool model_run_load(struct model *model, const struct trace_job *job);
/* ends a load that has not begun. */
void model_cancel_load(struct model *model, const struct trace_job *job);

#endif
