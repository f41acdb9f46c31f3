/* SPDX-License-Identifier: Apache-2.0 */
/* Counting calls and their keys, and telling the counts. */
#include "metrics.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "store_internal.h"
#include "struct_bytes.h"

static const char *const op_names[KVH_OP_COUNT] = {
	[KVH_OP_EXISTS] = "exists",
	[KVH_OP_PUT] = "put",
	[KVH_OP_GET] = "get",
	[KVH_OP_REMOVE] = "remove",
	[KVH_OP_COMMIT] = "commit",
	[KVH_OP_ABORT] = "abort",
	[KVH_OP_CLEAR] = "clear",
	[KVH_OP_TIERS] = "tiers",
	[KVH_OP_TAKE_EVICTED] = "take_evicted",
	[KVH_OP_QUIESCE] = "quiesce",
	[KVH_OP_LIST] = "list",
};

const char *kvh_store_op_name(enum kvh_store_op op)
{
	return op_names[op];
}

static void add(_Atomic uint64_t *counter, uint64_t count)
{
	if (count)
		atomic_fetch_add_explicit(counter, count, memory_order_relaxed);
}

static uint64_t read_count(const _Atomic uint64_t *counter)
{
	return atomic_load_explicit(counter, memory_order_relaxed);
}

void kvh_metrics_call(struct kvh_store_metrics *metrics, enum kvh_store_op op, kvh_status status,
                      uint64_t ns)
{
	struct kvh_op_metrics *of_op = &metrics->ops[op];

	add(&of_op->calls, 1);
	add(&of_op->failures, status != KVH_OK);
	add(&of_op->ns, ns);
}

void kvh_metrics_batch(struct kvh_store_metrics *metrics, enum kvh_store_op op,
                       const struct kvh_batch_counts *counts)
{
	struct kvh_op_metrics *of_op = &metrics->ops[op];

	add(&of_op->keys, counts->keys);
	add(&of_op->good_keys, counts->good_keys);
	add(&of_op->bytes, counts->bytes);
	add(&of_op->no_space_keys, counts->no_space_keys);
	add(&of_op->unquiet_keys, counts->unquiet_keys);
}

static uint64_t failed_keys(const struct kvh_op_metrics *of_op)
{
	uint64_t good = read_count(&of_op->good_keys);
	uint64_t keys = read_count(&of_op->keys);

	/* The two are added one after the other. */
	return keys > good ? keys - good : 0;
}

static void add_own_stats(const struct kvh_store_metrics *metrics, struct kvh_store_stats *stats)
{
	const struct kvh_op_metrics *put = &metrics->ops[KVH_OP_PUT];
	const struct kvh_op_metrics *get = &metrics->ops[KVH_OP_GET];
	const struct kvh_op_metrics *exists = &metrics->ops[KVH_OP_EXISTS];

	stats->put_keys = read_count(&put->keys);
	stats->put_bytes = read_count(&put->bytes);
	stats->put_failed_keys = failed_keys(put);
	stats->no_space_keys = read_count(&put->no_space_keys);
	stats->get_keys = read_count(&get->keys);
	stats->get_bytes = read_count(&get->bytes);
	stats->get_failed_keys = failed_keys(get);
	stats->exists_keys = read_count(&exists->keys);
	stats->exists_hits = read_count(&exists->good_keys);
	stats->removed_keys = read_count(&metrics->ops[KVH_OP_REMOVE].good_keys) +
	                      read_count(&metrics->ops[KVH_OP_CLEAR].good_keys);
	stats->unquiet_keys = read_count(&put->unquiet_keys) + read_count(&get->unquiet_keys);
}

static kvh_status collect(struct kvh_store *store, struct kvh_store_stats *stats)
{
	kvh_status status;

	*stats = (struct kvh_store_stats){.struct_bytes = sizeof(*stats)};
	status = store->ops.stats(store->self, stats);
	/* What a backend can't say stays 0. */
	if (status && status != KVH_NOT_SUPPORTED)
		return status;
	add_own_stats(&store->metrics, stats);
	return KVH_OK;
}

kvh_status kvh_store_get_stats(struct kvh_store *store, struct kvh_store_stats *stats)
{
	struct kvh_store_stats own;
	unsigned phase;
	kvh_status status;

	if (!stats || !kvh_struct_bytes_ok(stats->struct_bytes))
		return KVH_INVALID_PARAMS;
	status = kvh_store_enter(store, &phase);
	if (status)
		return status;
	status = collect(store, &own);
	if (status == KVH_OK)
		kvh_struct_out(stats, &own, sizeof(own));
	kvh_store_leave(store, phase);
	return status;
}

kvh_status kvh_store_get_sessions(struct kvh_store *store, struct kvh_store_session *sessions,
                                  size_t entry_bytes, size_t capacity, size_t *count)
{
	unsigned phase;
	size_t found = 0;
	kvh_status status;

	if (!count || (capacity && !sessions) || entry_bytes != sizeof(*sessions))
		return KVH_INVALID_PARAMS;
	status = kvh_store_enter(store, &phase);
	if (status)
		return status;
	status = store->ops.sessions(store->self, sessions, capacity, &found);
	if (status == KVH_OK)
		*count = found;
	kvh_store_leave(store, phase);
	return status;
}

kvh_status kvh_store_get_caps(struct kvh_store *store, struct kvh_store_caps *caps)
{
	unsigned phase;
	kvh_status status;

	if (!caps || !kvh_struct_bytes_ok(caps->struct_bytes))
		return KVH_INVALID_PARAMS;
	status = kvh_store_enter(store, &phase);
	if (status)
		return status;
	kvh_struct_out(caps, &store->caps, sizeof(store->caps));
	kvh_store_leave(store, phase);
	return KVH_OK;
}

struct metric {
	const char *name;
	const char *type;
	const char *help;
	size_t at; /* of its uint64_t in struct kvh_store_stats */
};

#define AT(member) offsetof(struct kvh_store_stats, member)

static const struct metric metrics_of_stats[] = {
	{"kvhold_store_objects", "gauge", "Committed objects.", AT(objects)},
	{"kvhold_store_used_bytes", "gauge", "Bytes that objects take.", AT(used_bytes)},
	{"kvhold_store_capacity_bytes", "gauge", "Bytes that objects may take.",
         AT(capacity_bytes)},
	{"kvhold_store_pinned_objects", "gauge", "Objects in use by a reader.", AT(pinned_objects)},
	{"kvhold_store_reserved_objects", "gauge", "Objects being written.", AT(reserved_objects)},
	{"kvhold_store_put_keys_total", "counter", "Keys asked to be put.", AT(put_keys)},
	{"kvhold_store_put_failed_keys_total", "counter", "Keys whose put failed.",
         AT(put_failed_keys)},
	{"kvhold_store_put_bytes_total", "counter", "Bytes stored.", AT(put_bytes)},
	{"kvhold_store_no_space_keys_total", "counter", "Keys whose put found no space.",
         AT(no_space_keys)},
	{"kvhold_store_get_keys_total", "counter", "Keys asked to be got.", AT(get_keys)},
	{"kvhold_store_get_failed_keys_total", "counter", "Keys whose get failed.",
         AT(get_failed_keys)},
	{"kvhold_store_get_bytes_total", "counter", "Bytes loaded.", AT(get_bytes)},
	{"kvhold_store_exists_keys_total", "counter", "Keys asked for.", AT(exists_keys)},
	{"kvhold_store_exists_hits_total", "counter", "Keys found present.", AT(exists_hits)},
	{"kvhold_store_removed_keys_total", "counter", "Keys removed on request.",
         AT(removed_keys)},
	{"kvhold_store_evicted_keys_total", "counter", "Keys evicted for space.", AT(evicted_keys)},
	{"kvhold_store_evicted_bytes_total", "counter", "Bytes evicted for space.",
         AT(evicted_bytes)},
	{"kvhold_store_expired_keys_total", "counter", "Keys gone at their time.",
         AT(expired_keys)},
	{"kvhold_store_unquiet_keys_total", "counter",
         "Keys of calls that returned while bytes could still move.", AT(unquiet_keys)},
};

static void tell_stats(struct kvh_text *text, const char *label,
                       const struct kvh_store_stats *stats)
{
	for (size_t i = 0; i < sizeof(metrics_of_stats) / sizeof(metrics_of_stats[0]); i++) {
		const struct metric *metric = &metrics_of_stats[i];
		uint64_t value;

		memcpy(&value, (const unsigned char *)stats + metric->at, sizeof(value));
		kvh_text_metric(text, metric->name, metric->type, metric->help);
		kvh_text_sample(text, metric->name, label, value);
	}
}

static void tell_calls(struct kvh_text *text, const char *label,
                       const struct kvh_store_metrics *metrics)
{
	char labels[128];
	enum kvh_store_op op;

	kvh_text_metric(text, "kvhold_store_calls_total", "counter", "Calls by operation.");
	for (op = 0; op < KVH_OP_COUNT; op++) {
		snprintf(labels, sizeof(labels), "%s,op=\"%s\"", label, op_names[op]);
		kvh_text_sample(text, "kvhold_store_calls_total", labels,
		                read_count(&metrics->ops[op].calls));
	}
	kvh_text_metric(text, "kvhold_store_call_failures_total", "counter",
	                "Calls that failed or were refused as a whole.");
	for (op = 0; op < KVH_OP_COUNT; op++) {
		snprintf(labels, sizeof(labels), "%s,op=\"%s\"", label, op_names[op]);
		kvh_text_sample(text, "kvhold_store_call_failures_total", labels,
		                read_count(&metrics->ops[op].failures));
	}
	kvh_text_metric(text, "kvhold_store_call_seconds_total", "counter",
	                "Time spent in calls by operation.");
	for (op = 0; op < KVH_OP_COUNT; op++) {
		uint64_t ns = read_count(&metrics->ops[op].ns);

		kvh_text_addf(text,
		              "kvhold_store_call_seconds_total{%s,op=\"%s\"} %" PRIu64 ".%09" PRIu64
		              "\n",
		              label, op_names[op], ns / 1000000000, ns % 1000000000);
	}
}

kvh_status kvh_store_stats_text(struct kvh_store *store, char *text, size_t capacity,
                                size_t *needed_bytes)
{
	struct kvh_store_stats stats;
	struct kvh_text out;
	char label[96];
	unsigned phase;
	kvh_status status;

	if (!text && capacity)
		return KVH_INVALID_PARAMS;
	status = kvh_store_enter(store, &phase);
	if (status)
		return status;
	status = collect(store, &stats);
	if (status == KVH_OK) {
		/* The name is the backend's own word: letters, digits and dashes. */
		snprintf(label, sizeof(label), "store=\"%.64s\"", store->ops.name);
		kvh_text_init(&out, text, capacity);
		tell_stats(&out, label, &stats);
		tell_calls(&out, label, &store->metrics);
		status = kvh_text_end(&out, needed_bytes);
	}
	kvh_store_leave(store, phase);
	return status;
}
