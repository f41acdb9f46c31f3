/* SPDX-License-Identifier: Apache-2.0 */
/* Counting the worker's store calls, and its metrics as text. */
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "worker/internal.h"

void kvh_worker_record(struct kvh_worker *worker, const struct kvh_record *record)
{
	if (worker->record)
		worker->record(worker->record_user, record);
}

kvh_status kvh_worker_get_stats(struct kvh_worker *worker, struct kvh_worker_stats *stats)
{
	kvh_status status = kvh_worker_usable(worker);
	size_t struct_bytes;

	if (status)
		return status;
	if (!stats || stats->struct_bytes < sizeof(*stats))
		return KVH_INVALID_PARAMS;
	struct_bytes = stats->struct_bytes;
	kvh_worker_lock(worker);
	*stats = worker->stats;
	stats->queued_saves = worker->saves.count;
	stats->queued_loads = worker->loads.count;
	stats->queued_save_bytes = worker->queued_save_bytes;
	stats->live_requests = worker->requests.count;
	stats->skipped_requests = worker->pressure.skipped_count;
	stats->completions_waiting = worker->done.count + worker->evicted_count;
	stats->pressure = worker->pressure.active;
	kvh_worker_unlock(worker);
	stats->struct_bytes = struct_bytes;
	return KVH_OK;
}

/* One row a metric; rows of one name stand together and differ in their label. */
struct metric_row {
	const char *name;
	const char *label;
	const char *help;
	size_t field;
};

#define ROW(name, label, field, help)                                                              \
	{                                                                                          \
		"kvhold_worker_" name, label, help, offsetof(struct kvh_worker_stats, field)       \
	}

static const struct metric_row counters[] = {
	ROW("save_jobs_total", "", save_jobs, "Save jobs accepted."),
	ROW("save_jobs_without_effect_total", "reason=\"stale\"", save_jobs_stale,
            "Save jobs that did not save what they were to, by reason."),
	ROW("save_jobs_without_effect_total", "reason=\"pressure\"", save_jobs_pressure_skipped,
            ""),
	ROW("save_jobs_without_effect_total", "reason=\"not_due\"", save_jobs_not_due, ""),
	ROW("save_jobs_without_effect_total", "reason=\"refused\"", save_jobs_refused, ""),
	ROW("save_jobs_without_effect_total", "reason=\"failed\"", save_jobs_failed, ""),
	ROW("save_keys_total", "outcome=\"present\"", save_keys_present,
            "Keys of save jobs, by outcome."),
	ROW("save_keys_total", "outcome=\"put\"", save_keys_put, ""),
	ROW("save_keys_total", "outcome=\"failed\"", save_keys_failed, ""),
	ROW("save_keys_total", "outcome=\"stored_by_other\"", save_keys_duplicate, ""),
	ROW("save_bytes_total", "", save_bytes, "Bytes of batches that were stored whole."),
	ROW("save_chunks_left_out_total", "reason=\"null\"", save_chunks_null,
            "Chunks that were not saved, by reason."),
	ROW("save_chunks_left_out_total", "reason=\"unstorable\"", save_chunks_unstorable, ""),
	ROW("load_jobs_total", "", load_jobs, "Load jobs accepted."),
	ROW("load_jobs_failed_total", "reason=\"error\"", load_jobs_failed,
            "Load jobs with blocks that are not known good, by reason."),
	ROW("load_jobs_failed_total", "reason=\"cancelled\"", load_jobs_cancelled, ""),
	ROW("load_jobs_failed_total", "reason=\"timeout\"", load_jobs_timed_out, ""),
	ROW("load_jobs_oversized_total", "", load_jobs_oversized,
            "Load jobs refused by the staging budget."),
	ROW("load_keys_total", "", load_keys, "Keys asked for by loads."),
	ROW("load_keys_failed_total", "", load_keys_failed, "Keys that loads did not get."),
	ROW("load_keys_gone_total", "", load_keys_gone,
            "Those of them that were in the store no more."),
	ROW("load_keys_lease_expired_total", "", load_keys_lease_expired,
            "Those of them whose lease expired under the get."),
	ROW("load_bytes_total", "", load_bytes, "Bytes loaded and known good."),
	ROW("load_tier_keys_total", "tier=\"memory\"", load_memory_keys,
            "Keys of loads by the tier they were read from (tier_log)."),
	ROW("load_tier_keys_total", "tier=\"disk\"", load_disk_keys, ""),
	ROW("load_tier_keys_total", "tier=\"unknown\"", load_unknown_keys, ""),
	ROW("load_tier_bytes_total", "tier=\"memory\"", load_memory_bytes,
            "Bytes of loads by the tier they were read from (tier_log)."),
	ROW("load_tier_bytes_total", "tier=\"disk\"", load_disk_bytes, ""),
	ROW("load_tier_bytes_total", "tier=\"unknown\"", load_unknown_bytes, ""),
	ROW("lookups_total", "", lookups, "Lookups answered."),
	ROW("lookup_errors_total", "", lookup_errors, "Lookups answered 0 after a store error."),
	ROW("lookup_query_tokens_total", "", lookup_query_tokens, "Tokens asked for by lookups."),
	ROW("lookup_hit_tokens_total", "", lookup_hit_tokens, "Tokens that lookups found."),
	ROW("pressure_episodes_total", "", pressure_episodes,
            "Times that NO_AVAILABLE_HANDLE pressure began."),
	ROW("pressure_probes_total", "", pressure_probes,
            "Saves let through to test the pressure."),
	ROW("jobs_in_doubt_total", "", in_doubt_jobs,
            "Jobs whose bytes could still move when their call had returned."),
	ROW("events_total", "outcome=\"reported\"", events_reported, "Stored-block events."),
	ROW("events_total", "outcome=\"dropped\"", events_dropped, ""),
	ROW("wakeups_total", "", wakeups, "Wake-ups of worker threads."),
};

static const struct metric_row gauges[] = {
	ROW("queued_saves", "", queued_saves, "Saves that wait for their thread."),
	ROW("queued_loads", "", queued_loads, "Loads that wait for a thread."),
	ROW("queued_save_bytes", "", queued_save_bytes, "Bytes of the blocks of queued saves."),
	ROW("running_jobs", "", running_jobs, "Jobs on a thread."),
	ROW("live_requests", "", live_requests, "Requests in the ledger."),
	ROW("skipped_requests", "", skipped_requests, "Requests that pressure holds back."),
	ROW("completions_waiting", "", completions_waiting, "Ended jobs that nobody has polled."),
};

static void add_rows(struct kvh_text *text, const struct kvh_worker_stats *stats,
                     const struct metric_row *rows, size_t count, const char *type)
{
	for (size_t i = 0; i < count; i++) {
		uint64_t value;

		memcpy(&value, (const char *)stats + rows[i].field, sizeof(value));
		if (!i || strcmp(rows[i].name, rows[i - 1].name) != 0)
			kvh_text_metric(text, rows[i].name, type, rows[i].help);
		kvh_text_sample(text, rows[i].name, rows[i].label, value);
	}
}

kvh_status kvh_worker_stats_text(struct kvh_worker *worker, char *out, size_t capacity,
                                 size_t *needed_bytes)
{
	struct kvh_worker_stats stats = {.struct_bytes = sizeof(stats)};
	struct kvh_text text;
	kvh_status status;

	if (capacity && !out)
		return KVH_INVALID_PARAMS;
	status = kvh_worker_get_stats(worker, &stats);
	if (status)
		return status;
	kvh_text_init(&text, out, capacity);
	add_rows(&text, &stats, counters, sizeof(counters) / sizeof(counters[0]), "counter");
	add_rows(&text, &stats, gauges, sizeof(gauges) / sizeof(gauges[0]), "gauge");
	kvh_text_metric(&text, "kvhold_worker_pressure", "gauge",
	                "1 while NO_AVAILABLE_HANDLE pressure is on.");
	kvh_text_sample(&text, "kvhold_worker_pressure", "", stats.pressure);
	return kvh_text_end(&text, needed_bytes);
}
