/* SPDX-License-Identifier: Apache-2.0 */
/* The worker's state as tests and checkers see it. Testing library only. */
#ifndef KVH_WORKER_INSPECT_H
#define KVH_WORKER_INSPECT_H

#include <kvhold/worker.h>

#ifdef KVH_FAULTS

/* One request of the ledger; pointers are borrowed for the callback. */
struct kvh_inspect_request {
	const void *id;
	size_t id_bytes;
	uint64_t saved_tokens;
	bool skipped;
	bool finishing;
	const uint64_t *live_saves; /* job ids, no order */
	size_t live_save_count;
	size_t live_load_count;
	uint64_t kept_start; /* token ids kept for a later save */
	const int32_t *kept_ids;
	size_t kept_count; /* 0: none */
	size_t unstorable_count;
};

/* Called under the worker's lock: must not call the worker. */
typedef void (*kvh_inspect_request_fn)(void *user, const struct kvh_inspect_request *request);
void kvh_inspect_requests(struct kvh_worker *worker, kvh_inspect_request_fn fn, void *user);

bool kvh_inspect_pressure(struct kvh_worker *worker);
/* Whether a save that waits for poll was ended by an error (golden.md) and not by failed keys. */
bool kvh_inspect_raised(struct kvh_worker *worker, uint64_t job_id);

#endif
#endif
