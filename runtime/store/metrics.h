/* SPDX-License-Identifier: Apache-2.0 */
/* What a store handle counts: a few relaxed additions per call, none per key. */
#ifndef KVH_STORE_METRICS_H
#define KVH_STORE_METRICS_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <kvhold/store.h>

enum kvh_store_op {
	KVH_OP_EXISTS,
	KVH_OP_PUT,
	KVH_OP_GET,
	KVH_OP_REMOVE,
	KVH_OP_COMMIT,
	KVH_OP_ABORT,
	KVH_OP_CLEAR,
	KVH_OP_TIERS,
	KVH_OP_TAKE_EVICTED,
	KVH_OP_QUIESCE,
	KVH_OP_LIST,
	KVH_OP_COUNT
};

/* All relaxed: each counts by itself. A line per operation, so that puts don't slow gets. */
struct kvh_op_metrics {
	alignas(64) _Atomic uint64_t calls;
	_Atomic uint64_t failures; /* of whole calls; refused arguments included */
	_Atomic uint64_t ns;
	_Atomic uint64_t keys;
	_Atomic uint64_t good_keys; /* exists: hits */
	_Atomic uint64_t bytes;     /* of good keys */
	_Atomic uint64_t no_space_keys;
	_Atomic uint64_t unquiet_keys;
};

struct kvh_store_metrics {
	struct kvh_op_metrics ops[KVH_OP_COUNT];
};

/* The outcome of one batch, counted before it is added. */
struct kvh_batch_counts {
	uint64_t keys;
	uint64_t good_keys;
	uint64_t bytes;
	uint64_t no_space_keys;
	uint64_t unquiet_keys;
};

const char *kvh_store_op_name(enum kvh_store_op op);
void kvh_metrics_call(struct kvh_store_metrics *metrics, enum kvh_store_op op, kvh_status status,
                      uint64_t ns);
void kvh_metrics_batch(struct kvh_store_metrics *metrics, enum kvh_store_op op,
                       const struct kvh_batch_counts *counts);

#endif
