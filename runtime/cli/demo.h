/* SPDX-License-Identifier: Apache-2.0 */
/* The outcome of `kvhold demo` and the three ways to show it. */
#ifndef KVH_CLI_DEMO_H
#define KVH_CLI_DEMO_H

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#include "engine.h"
#include "trace.h"

/* All of it is borrowed; valid while the engine is. */
struct kvh_demo_result {
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
