/* SPDX-License-Identifier: Apache-2.0 */
/* The outcome of `kvhold demo` and the three ways to show it. */
#ifndef KVH_CLI_DEMO_H
#define KVH_CLI_DEMO_H

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#include "engine.h"
#include "trace.h"

/* The store of one run, and how it was come by. */
struct kvh_demo_store {
	const char *url; /* as it was opened */
	bool shared;     /* by a handle for each rank, and by the next start */
	char why_private[KVH_ERROR_TEXT_BYTES]; /* why it is not what it is by default; or "" */
	char own_url[128];                      /* of a file that is this run's only; or "" */
	uint32_t rank_count, handle_count;
	struct kvh_store *handles[KVH_ENGINE_RANKS_MAX];
};

/*
 * url NULL: a shared pool of this run's own, in private memory if there is no room for it. On
 * failure nothing is open.
 */
kvh_status kvh_demo_store_open(struct kvh_demo_store *store, const char *url, uint32_t rank_count,
                               struct kvh_error *error);
/* After a close, as the next start of the engine would. */
kvh_status kvh_demo_store_reopen(struct kvh_demo_store *store, struct kvh_error *error);
/* KVH_OK: all handles are closed. */
kvh_status kvh_demo_store_close(struct kvh_demo_store *store);
/* Removes the file that was this run's only. */
void kvh_demo_store_remove(struct kvh_demo_store *store);
struct kvh_store *kvh_demo_store_of(const struct kvh_demo_store *store, uint32_t rank);

/* The engine started again on the same pool, and was given the last requests once more. */
struct kvh_demo_restart {
	bool done;
	uint64_t request_count;
	uint64_t open_ns; /* of all handles */
	uint64_t lookup_tokens, hit_tokens;
	uint64_t loaded_bytes, mismatched_blocks, defects;
};

/* All of it is borrowed; valid while the engine is. */
struct kvh_demo_result {
	const struct kvh_demo_store *opened;
	struct kvh_demo_restart restart;
	const char *trace_path;
	const char *store_url;
	const struct kvh_engine *engine;
	struct kvh_trace_reuse reuse;
	uint64_t working_set_bytes;           /* what an endless store would hold at the end */
	struct kvh_engine_rank_counts counts; /* sums over the ranks; waits: the longest */
	struct kvh_worker_stats worker;       /* sums over the ranks */
	struct kvh_store_stats store;
	uint64_t get_bytes, get_ns, put_bytes, put_ns;
	uint64_t failures; /* wrong blocks and broken contracts */
};

/* Bytes a nanosecond are GB (10^9) a second; 0 when nothing was measured. */
double kvh_demo_rate(uint64_t bytes, uint64_t ns);
double kvh_demo_share(uint64_t part, uint64_t whole);

/* The last part of its path. */
const char *kvh_demo_trace_name(const struct kvh_demo_result *result);

void kvh_demo_print(const struct kvh_demo_result *result);
/* Given to the caller; NULL: no memory. */
json_t *kvh_demo_json(const struct kvh_demo_result *result);
/* One self-contained page. False: errno says why. */
bool kvh_demo_write_report(const struct kvh_demo_result *result, const char *path);

#endif
