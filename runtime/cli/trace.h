/* SPDX-License-Identifier: Apache-2.0 */
/* Reads recorded request traces: one JSON object a line, block hashes of 512 tokens. */
#ifndef KVH_CLI_TRACE_H
#define KVH_CLI_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <kvhold/status.h>

enum {
	KVH_TRACE_BLOCK_TOKENS = 512, /* per hash id; the last one of a request may cover fewer */
	KVH_TRACE_TOKENS_MAX = 1 << 24,
	KVH_TRACE_REQUESTS_MAX = 1 << 20,
	KVH_TRACE_LINE_BYTES_MAX = 1 << 20,
	KVH_TRACE_FILE_BYTES_MAX = 1 << 28
};
/* Hash ids and timestamps: whole numbers that every JSON reader keeps exactly. */
#define KVH_TRACE_NUMBER_MAX ((INT64_C(1) << 53) - 1)

/* One request. hash_ids are chained: an id names the whole prompt up to its block's end. */
struct kvh_trace_request {
	uint64_t arrival_ms;
	uint32_t prompt_tokens;
	uint32_t output_tokens;
	size_t hash_first; /* index into kvh_trace.hash_ids */
	size_t hash_count; /* ceil(prompt_tokens / KVH_TRACE_BLOCK_TOKENS) */
};

struct kvh_trace {
	struct kvh_trace_request *requests;
	size_t request_count;
	size_t request_capacity;
	uint64_t *hash_ids;
	size_t hash_count;
	size_t hash_capacity;
};

/*
 * Reads at most request_limit requests (0: all). Strict: every line holds exactly timestamp,
 * input_length, output_length and hash_ids, within bounds, times not falling, and as many ids as
 * the prompt has blocks. KVH_INVALID_PARAMS names file, line and what is wrong; *trace is then
 * left alone. name: for the words only. The caller ends it with kvh_trace_fini.
 */
kvh_status kvh_trace_parse(const char *name, const char *text, size_t text_bytes,
                           size_t request_limit, struct kvh_trace *trace, struct kvh_error *error);
/* The same from a file. KVH_FILE_READ_FAIL: it can't be read. */
kvh_status kvh_trace_read(const char *path, size_t request_limit, struct kvh_trace *trace,
                          struct kvh_error *error);
void kvh_trace_fini(struct kvh_trace *trace);

/* What a trace would give a store that never runs out of space. */
struct kvh_trace_reuse {
	uint64_t prompt_tokens;
	uint64_t reused_tokens;    /* leading tokens of prompts that an earlier prompt began with */
	uint64_t distinct_blocks;  /* saved blocks of KVH_TRACE_BLOCK_TOKENS */
	uint64_t distinct_strides; /* saved pieces of stride_blocks such blocks */
};
/*
 * Counts whole strides only, as the worker's lcm floors do, and at least one token of each prompt
 * as not reused. stride_blocks: 1 or more. False: no memory.
 */
bool kvh_trace_measure(const struct kvh_trace *trace, size_t stride_blocks,
                       struct kvh_trace_reuse *reuse);

#endif
