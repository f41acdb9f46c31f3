/* SPDX-License-Identifier: Apache-2.0 */
/* What one step did: the form shared by recordings, the model and the worker's replayer. */
#ifndef GOLDEN_RECORD_H
#define GOLDEN_RECORD_H

#include "mem.h"

enum store_fn { FN_EXIST, FN_PUT, FN_GET, FN_REPLICA_DESC, FN_EVENT_SYNC };

/* One call to the store (or a wait for the job's device event). */
struct store_call {
	enum store_fn fn;
	struct texts keys;
	struct ints *addrs; /* per key: one address per segment; NULL unless put or get */
	struct ints *sizes; /* per key: bytes per segment */
	bool has_group_ids;
	struct texts group_ids;
};

struct op_record {
	const char *name;   /* save_exists, save_put, load_get */
	const char *status; /* ok, partial_failure, error */
	int64_t key_count;
	int64_t failed_count;
	int64_t payload_bytes;
};

struct kv_event {
	const char *hash;   /* hex, or "u64:<decimal>" */
	const char *parent; /* NULL: none */
	bool has_token_ids;
	struct ints token_ids;
	int64_t block_size;
	const char *medium;
	int64_t group;
};

/* A block that a load was to write and that is not known good. */
struct failed_block {
	int64_t group;
	int64_t index;
	int64_t block;
};

struct named_ints {
	const char *name;
	int64_t value; /* saved offset, or first token position */
	struct ints ids;
};

struct named_list {
	struct named_ints *at;
	size_t count;
	size_t room;
};

struct failed_list {
	struct failed_block *at;
	size_t count;
	size_t room;
};

struct step_state {
	struct named_list saved_offset; /* value = tokens */
	bool pressure;
	struct texts skipped;
	bool has_live_jobs; /* false in recordings of the older source, as the next two */
	struct named_list live_jobs;
	bool has_completed_saves;
	struct named_list completed_saves; /* name = job id as text, value = times */
	bool has_retry;
	struct named_list retry_token_ids; /* value = start */
	bool has_failed_requests;
	struct texts failed_requests;
	struct texts finishing;
	struct texts finished_recv;
	struct ints load_errors;
	bool has_failed_blocks; /* never in recordings */
	struct failed_list failed_blocks;
};

/* Return value of `drain` (the lists) or `poll` (finished_sending). */
struct step_result {
	bool is_drain;
	bool is_poll;
	struct texts finished_sending;
	struct texts finished_recv;
	struct ints load_errors;
	int64_t kv_event_count;
	bool has_failed_requests;
	struct texts failed_requests;
	bool has_completed_saves;
	struct named_list completed_saves;
	bool has_failed_blocks;
	struct failed_list failed_blocks;
};

struct step_record {
	struct store_call *calls;
	size_t call_count;
	size_t call_room;
	struct op_record *ops;
	size_t op_count;
	size_t op_room;
	struct kv_event *events;
	size_t event_count;
	size_t event_room;
	bool error;
	/* How many of the calls and ops came before the normal save, and its error. */
	size_t tail_call_count;
	size_t tail_op_count;
	bool tail_error;
	struct step_result result;
	struct step_state state;
};

const char *store_fn_name(enum store_fn fn);
struct named_ints *named_list_find(const struct named_list *list, const char *name);
struct named_ints *named_list_add(struct arena *arena, struct named_list *list, const char *name);
void failed_list_add(struct arena *arena, struct failed_list *list, struct failed_block block);

#endif
