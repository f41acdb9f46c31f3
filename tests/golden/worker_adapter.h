/* SPDX-License-Identifier: Apache-2.0 */
/* The real worker as a system that replays scenarios: what the adapter's files share. */
#ifndef GOLDEN_WORKER_ADAPTER_H
#define GOLDEN_WORKER_ADAPTER_H

#include <kvhold/kvhold.h>

#include "coenv.h"
#include "replay.h"

/* A place in a queue; empty when its job was refused, cancelled or has run. */
struct adapter_place {
	uint64_t job_id;
	const char *req;
	bool empty;
};

struct adapter_queue {
	struct adapter_place *at;
	size_t count;
	size_t room;
	size_t next;
};

struct adapter_prefix {
	const char *text;
	const char *family;
};

struct adapter {
	struct arena *arena;
	const struct trace *trace;
	const struct trace_config *config;
	struct script *script;
	struct coenv *coenv;
	struct kvh_device device;
	struct kvh_store *store;
	struct kvh_worker *worker;
	struct adapter_prefix *prefixes;
	size_t prefix_count;
	size_t prefix_room;
	struct adapter_queue saves;
	struct adapter_queue loads;
	uint64_t next_load_id;
	/* Taken from poll and not drained yet. */
	struct named_list completed_saves;
	struct texts failed_requests;
	struct texts finished_recv;
	struct ints load_errors;
	struct failed_list failed_blocks;
	int64_t undrained_events;
	struct step_record seen; /* ops and events since the last observe */
};

/* worker_store.c: the scripted store and device behind the runtime's interfaces. */
kvh_status adapter_open_store(struct adapter *adapter);
extern const struct kvh_device_ops adapter_device_ops;

/* worker_state.c */
void adapter_collect(struct adapter *adapter);
void adapter_drain(struct adapter *adapter, struct step_result *result);
void adapter_state(struct adapter *adapter, struct step_state *state);

#endif
