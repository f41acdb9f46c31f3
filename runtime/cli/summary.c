/* SPDX-License-Identifier: Apache-2.0 */
/* The demo's figures as a table for people and as JSON for programs. */
#include "demo.h"

#include <stdio.h>
#include <string.h>

const char *kvh_demo_trace_name(const struct kvh_demo_result *result)
{
	const char *slash = strrchr(result->trace_path, '/');

	return slash ? slash + 1 : result->trace_path;
}

static double seconds(uint64_t ns)
{
	return (double)ns / 1e9;
}

static double megabytes(uint64_t bytes)
{
	return (double)bytes / 1e6;
}

static double gigabytes(uint64_t bytes)
{
	return (double)bytes / 1e9;
}

static unsigned long long whole(uint64_t number)
{
	return number;
}

static void print_requests(const struct kvh_demo_result *result)
{
	const struct kvh_engine_totals *totals = &result->engine->totals;

	printf("  requests            %llu of %llu finished in %.1f s%s\n",
	       whole(totals->requests_done), whole(totals->requests_all),
	       seconds(totals->elapsed_ns),
	       totals->stopped_early ? " (stopped by --time-limit)" : "");
	printf("  tokens              %llu prompt, %llu generated, %llu computed\n",
	       whole(totals->prompt_tokens), whole(totals->output_tokens),
	       whole(totals->computed_tokens));
	printf("  lookup hit rate     %.1f %% of prompt tokens (an endless store: %.1f %%)\n",
	       100 * kvh_demo_share(totals->hit_tokens, totals->lookup_tokens),
	       100 * kvh_demo_share(result->reuse.reused_tokens, result->reuse.prompt_tokens));
	printf("  preemptions         %llu; %.1f %% of their tokens were loaded on return\n",
	       whole(totals->preemptions),
	       100 * kvh_demo_share(totals->resume_hit_tokens, totals->resume_lookup_tokens));
}

static void print_bytes(const struct kvh_demo_result *result)
{
	printf("  loaded              %.2f GB in %llu jobs, %.2f GB/s while a get runs\n",
	       gigabytes(result->counts.loaded_bytes), whole(result->engine->totals.load_jobs),
	       kvh_demo_rate(result->get_bytes, result->get_ns));
	printf("  saved               %.2f GB in %llu jobs, %.2f GB/s while a put runs\n",
	       gigabytes(result->put_bytes), whole(result->engine->totals.save_jobs),
	       kvh_demo_rate(result->put_bytes, result->put_ns));
	printf("  store               %.0f of %.0f MB used, %.0f MB would be needed; %llu blocks "
	       "evicted\n",
	       megabytes(result->store.used_bytes), megabytes(result->store.capacity_bytes),
	       megabytes(result->working_set_bytes), whole(result->store.evicted_keys));
	printf("  pressure            %llu episodes, %llu saves skipped, %llu puts (the "
	       "neighbour's too) found no "
	       "space\n",
	       whole(result->worker.pressure_episodes),
	       whole(result->worker.save_jobs_pressure_skipped),
	       whole(result->store.no_space_keys));
	printf("  worst wait          %.1f ms for a load, %.1f ms for a save\n",
	       seconds(result->counts.load_wait_ns_max) * 1e3,
	       seconds(result->counts.save_wait_ns_max) * 1e3);
}

static void print_checks(const struct kvh_demo_result *result)
{
	printf("  compared            %.2f GB after loads, %.2f GB before blocks were given back\n",
	       gigabytes(result->counts.loaded_bytes), gigabytes(result->counts.checked_bytes));
	printf("  wrong blocks        %llu\n", whole(result->counts.mismatched_blocks));
	printf("  broken promises     %llu (completions, block lists, blocks that never came "
	       "back)\n",
	       whole(result->failures - result->counts.mismatched_blocks -
	             result->restart.mismatched_blocks));
	printf("  failed blocks       %llu reported by loads, computed again (%llu tokens)\n",
	       whole(result->counts.failed_blocks), whole(result->engine->totals.lost_tokens));
}

static void print_restart(const struct kvh_demo_result *result)
{
	const struct kvh_demo_restart *restart = &result->restart;

	if (!restart->done)
		return;
	printf("  restart             the pool was open again in %.1f ms; of the last %llu "
	       "requests, asked\n                      once more, %.1f %% of the prompt was "
	       "there; %.2f GB loaded, %llu wrong blocks\n",
	       seconds(restart->open_ns) * 1e3, whole(restart->request_count),
	       100 * kvh_demo_share(restart->hit_tokens, restart->lookup_tokens),
	       gigabytes(restart->loaded_bytes), whole(restart->mismatched_blocks));
}

void kvh_demo_print(const struct kvh_demo_result *result)
{
	printf("kvhold demo: %s\n", kvh_demo_trace_name(result));
	printf("%u ranks, 2 groups (full attention, sliding window), store %s, seed %llu\n",
	       result->engine->config.rank_count, result->store_url,
	       whole(result->engine->config.seed));
	printf("host memory stands in for GPU memory; a block is %zu KiB a rank\n\n",
	       kvh_engine_block_bytes(&kvh_engine_groups[0]) / 1024);
	print_requests(result);
	print_bytes(result);
	print_checks(result);
	print_restart(result);
	if (result->opened->why_private[0])
		printf("\nno shared pool, so nothing to start again on: %s\n",
		       result->opened->why_private);
	if (result->failures)
		printf("\nFAILED: %llu failure%s\n", whole(result->failures),
		       result->failures == 1 ? "" : "s");
	else
		printf("\nok: %s\n", result->counts.loaded_bytes
		                             ? "every loaded byte was right"
		                             : "nothing was wrong, but no block was loaded");
}

/* ---- JSON ------------------------------------------------------------------------------ */

static json_t *requests_json(const struct kvh_demo_result *result)
{
	const struct kvh_engine_totals *t = &result->engine->totals;

	return json_pack("{s:I, s:I, s:b, s:I, s:I, s:I, s:I, s:I, s:f}", "all",
	                 (json_int_t)t->requests_all, "finished", (json_int_t)t->requests_done,
	                 "stopped_early", t->stopped_early, "prompt_tokens",
	                 (json_int_t)t->prompt_tokens, "output_tokens",
	                 (json_int_t)t->output_tokens, "computed_tokens",
	                 (json_int_t)t->computed_tokens, "preemptions", (json_int_t)t->preemptions,
	                 "steps", (json_int_t)t->steps, "elapsed_seconds", seconds(t->elapsed_ns));
}

static json_t *lookup_json(const struct kvh_demo_result *result)
{
	const struct kvh_engine_totals *t = &result->engine->totals;

	return json_pack(
		"{s:I, s:I, s:f, s:f, s:I, s:I, s:I}", "tokens", (json_int_t)t->lookup_tokens,
		"hit_tokens", (json_int_t)t->hit_tokens, "hit_rate",
		kvh_demo_share(t->hit_tokens, t->lookup_tokens), "endless_store_hit_rate",
		kvh_demo_share(result->reuse.reused_tokens, result->reuse.prompt_tokens),
		"resumed_tokens", (json_int_t)t->resume_lookup_tokens, "resumed_hit_tokens",
		(json_int_t)t->resume_hit_tokens, "lost_tokens", (json_int_t)t->lost_tokens);
}

static json_t *transfer_json(uint64_t jobs, uint64_t bytes, uint64_t ns, uint64_t wait_ns)
{
	return json_pack("{s:I, s:I, s:f, s:f}", "jobs", (json_int_t)jobs, "bytes",
	                 (json_int_t)bytes, "gb_per_second", kvh_demo_rate(bytes, ns),
	                 "wait_seconds_max", seconds(wait_ns));
}

static json_t *store_json(const struct kvh_demo_result *result)
{
	return json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "url", result->store_url,
	                 "used_bytes", (json_int_t)result->store.used_bytes, "capacity_bytes",
	                 (json_int_t)result->store.capacity_bytes, "working_set_bytes",
	                 (json_int_t)result->working_set_bytes, "evicted_keys",
	                 (json_int_t)result->store.evicted_keys, "no_space_keys",
	                 (json_int_t)result->store.no_space_keys, "pressure_episodes",
	                 (json_int_t)result->worker.pressure_episodes, "pressure_skipped_saves",
	                 (json_int_t)result->worker.save_jobs_pressure_skipped);
}

static json_t *checks_json(const struct kvh_demo_result *result)
{
	return json_pack("{s:I, s:I, s:I, s:I, s:I}", "loaded_bytes_compared",
	                 (json_int_t)result->counts.loaded_bytes, "resident_bytes_compared",
	                 (json_int_t)result->counts.checked_bytes, "wrong_blocks",
	                 (json_int_t)result->counts.mismatched_blocks, "broken_promises",
	                 (json_int_t)(result->failures - result->counts.mismatched_blocks -
	                              result->restart.mismatched_blocks),
	                 "failed_blocks", (json_int_t)result->counts.failed_blocks);
}

/* null: there was none. */
static json_t *restart_json(const struct kvh_demo_restart *restart)
{
	if (!restart->done)
		return json_null();
	return json_pack(
		"{s:I, s:f, s:I, s:I, s:I, s:I}", "requests", (json_int_t)restart->request_count,
		"open_seconds", seconds(restart->open_ns), "lookup_tokens",
		(json_int_t)restart->lookup_tokens, "hit_tokens", (json_int_t)restart->hit_tokens,
		"loaded_bytes_compared", (json_int_t)restart->loaded_bytes, "wrong_blocks",
		(json_int_t)restart->mismatched_blocks);
}

json_t *kvh_demo_json(const struct kvh_demo_result *result)
{
	const struct kvh_engine_totals *t = &result->engine->totals;

	return json_pack("{s:s, s:s, s:I, s:i, s:b, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "version",
	                 kvh_version_text(), "trace", kvh_demo_trace_name(result), "seed",
	                 (json_int_t)result->engine->config.seed, "ranks",
	                 (int)result->engine->config.rank_count, "ok", result->failures == 0,
	                 "requests", requests_json(result), "lookup", lookup_json(result), "load",
	                 transfer_json(t->load_jobs, result->get_bytes, result->get_ns,
	                               result->counts.load_wait_ns_max),
	                 "save",
	                 transfer_json(t->save_jobs, result->put_bytes, result->put_ns,
	                               result->counts.save_wait_ns_max),
	                 "store", store_json(result), "checks", checks_json(result), "restart",
	                 restart_json(&result->restart));
}
