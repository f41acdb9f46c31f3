/* SPDX-License-Identifier: Apache-2.0 */
/* What operators see: counters, their text, and log lines that give nothing away. */
#include "rig.h"

#include <ctype.h>
#include <stdlib.h>

/* A worker that has seen a little of everything. */
static void run_everything(struct rig *rig)
{
	int32_t ids[64];
	struct kvh_save_job job;
	struct rig_event bad = {.status = KVH_INTERNAL};
	enum kvh_cancel_outcome outcome;

	for (int i = 0; i < 64; i++)
		ids[i] = 987654000 + i;
	FAKE_ANSWER(&rig->world->fake, FAKE_PUT, FAKE_DO_IT, KVH_INVALID_KEY);
	job = rig_save_job(rig, 11, "r", 64);
	job.token_ids = ids;
	job.token_id_count = 64;
	assert_int_equal(rig_submit_save(rig, &job), KVH_OK);
	rig_run_save(rig);
	rig->chain = 1;
	FAKE_ANSWER(&rig->world->fake, FAKE_PUT, KVH_NO_AVAILABLE_HANDLE);
	rig_save_and_run(rig, 12, "s", 32);
	rig_save_and_run(rig, 13, "s", 32);
	job = rig_save_job(rig, 14, "t", 32);
	job.event = &bad;
	assert_int_equal(rig_submit_save(rig, &job), KVH_OK);
	rig_run_save(rig);
	rig_save_and_run(rig, 15, "u", 32);
	job = rig_save_job(rig, 16, "u", 64);
	job.hash_count = 0;
	assert_int_equal(rig_submit_save(rig, &job), KVH_INVALID_PARAMS);
	rig->chain = 2;
	rig_load_and_run(rig, 17, "v", 32, 0);
	fake_answer_status(&rig->world->fake, FAKE_GET, KVH_RPC_FAIL);
	rig_load_and_run(rig, 18, "v", 32, 0);
	rig_load(rig, 19, "v", 32, 0);
	assert_int_equal(kvh_worker_cancel(rig->worker, 19, &outcome), KVH_OK);
	rig_load(rig, 20, "v", 32, 0);
	rig_advance_ns(rig, 30 * SECONDS);
	fake_answer_status(&rig->world->fake, FAKE_EXISTS, KVH_RPC_TIMEOUT);
	rig_lookup(rig, 64, NULL);
	fake_answer_status(&rig->world->fake, FAKE_EXISTS, KVH_RPC_TIMEOUT);
	rig_save_and_run(rig, 21, "w", 32);
	rig_done(rig);
}

/* name, then "{...}" or nothing, then a number. Returns the length of the name. */
static size_t check_sample(const char *line)
{
	size_t name = strspn(line, "abcdefghijklmnopqrstuvwxyz_0123456789");
	const char *rest = line + name;
	char *end;

	assert_true(name > 0 && !isdigit((unsigned char)line[0]));
	if (*rest == '{') {
		const char *close = strchr(rest, '}');

		assert_non_null(close);
		assert_int_equal(close[-1], '"');
		rest = close + 1;
	}
	assert_int_equal(*rest, ' ');
	strtoull(rest + 1, &end, 10);
	assert_true(end > rest + 1 && *end == 0);
	return name;
}

/*
 * Prometheus text exposition: HELP and TYPE once a name, before its samples, which stand together;
 * no sample twice. Returns the number of samples.
 */
static size_t check_exposition(char *text)
{
	char *lines[256], *save = NULL;
	size_t count = 0, samples = 0;
	char name[128] = "";
	char type[16] = "";

	assert_int_equal(text[strlen(text) - 1], '\n');
	for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		assert_true(count < COUNT_OF(lines));
		lines[count++] = line;
	}
	for (size_t i = 0; i < count; i++) {
		for (size_t j = 0; j < i; j++) {
			size_t bytes = strcspn(lines[i], " ");

			if (lines[i][0] != '#')
				assert_false(strncmp(lines[i], lines[j], bytes + 1) == 0);
			else
				assert_string_not_equal(lines[i], lines[j]);
		}
		if (strncmp(lines[i], "# HELP ", 7) == 0) {
			assert_non_null(strchr(lines[i] + 7, ' '));
		} else if (sscanf(lines[i], "# TYPE %127s %15s", name, type) == 2) {
			assert_true(strcmp(type, "counter") == 0 || strcmp(type, "gauge") == 0);
			/* Counters end in _total, gauges do not. */
			assert_int_equal(strcmp(type, "counter") == 0,
			                 strlen(name) > 6 &&
			                         strcmp(name + strlen(name) - 6, "_total") == 0);
			for (size_t j = 0; j < i; j++)
				assert_string_not_equal(lines[j], lines[i]);
		} else {
			size_t bytes = check_sample(lines[i]);

			assert_int_equal(bytes, strlen(name));
			assert_memory_equal(lines[i], name, bytes);
			samples++;
		}
	}
	return samples;
}

static uint64_t metric(struct rig *rig, const char *sample)
{
	static char text[1 << 15];
	char start[128];
	const char *found;

	snprintf(start, sizeof(start), "\nkvhold_worker_%s ", sample);
	assert_int_equal(kvh_worker_stats_text(rig->worker, text, sizeof(text), NULL), KVH_OK);
	found = strstr(text, start);
	if (!found)
		fail_msg("no %s", start);
	return strtoull(found + strlen(start), NULL, 10);
}

static void metrics_are_valid_exposition_text(void **state)
{
	char text[1 << 15], again[1 << 15];
	size_t bytes = 0, needed = 0;
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig.config.events = true;
	rig_open(&rig);
	run_everything(&rig);
	assert_int_equal(kvh_worker_stats_text(rig.worker, text, sizeof(text), &bytes), KVH_OK);
	assert_int_equal(bytes, strlen(text) + 1);
	/* Just too small, and just large enough. */
	assert_int_equal(kvh_worker_stats_text(rig.worker, again, bytes - 1, &needed), KVH_BUSY);
	assert_int_equal(needed, bytes);
	assert_int_equal(kvh_worker_stats_text(rig.worker, again, bytes, &needed), KVH_OK);
	assert_string_equal(again, text);
	assert_int_equal(kvh_worker_stats_text(rig.worker, NULL, 0, &needed), KVH_BUSY);
	assert_int_equal(needed, bytes);
	/* One sample for each counter of the struct, but struct_bytes. */
	assert_int_equal(check_exposition(text), (sizeof(struct kvh_worker_stats) - 8) / 8);
	rig_close(&rig);
}

/* proves: B42 */
static void b42_what_was_not_saved_is_counted_by_reason(void **state)
{
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig_open(&rig);
	run_everything(&rig);
	for (uint64_t i = 0; i < 50; i++)
		rig_save_and_run(&rig, 100 + i, "u", 32);
	rig_done(&rig);
	assert_int_equal(metric(&rig, "save_jobs_without_effect_total{reason=\"not_due\"}"), 50);
	assert_int_equal(metric(&rig, "save_jobs_without_effect_total{reason=\"pressure\"}"), 1);
	assert_int_equal(metric(&rig, "save_jobs_without_effect_total{reason=\"refused\"}"), 1);
	/* 11 (a key), 12 (no space), 14 (event), 21 (exists). */
	assert_int_equal(metric(&rig, "save_jobs_without_effect_total{reason=\"failed\"}"), 4);
	assert_int_equal(metric(&rig, "save_chunks_left_out_total{reason=\"unstorable\"}"), 1);
	rig_close(&rig);
}

/* proves: B42 */
static void b42_lookups_count_tokens_and_failed_loads_are_apart(void **state)
{
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig_open(&rig);
	for (unsigned i = 0; i < 4; i++)
		rig_plant(&rig, 0, i, 1);
	assert_int_equal(metric(&rig, "lookup_query_tokens_total"), 0);
	/* A request that skips the lookup adds nothing to it. */
	rig_save_and_run(&rig, 1, "skips", 64);
	rig_load_and_run(&rig, 2, "skips", 64, 0);
	assert_int_equal(metric(&rig, "lookups_total"), 0);
	assert_int_equal(metric(&rig, "lookup_query_tokens_total"), 0);
	assert_int_equal(rig_lookup(&rig, 400, NULL), 64);
	assert_int_equal(metric(&rig, "lookup_query_tokens_total"), 400);
	assert_int_equal(metric(&rig, "lookup_hit_tokens_total"), 64);
	/* The load of that hit fails: the hit stays one, the failure is counted apart. */
	fake_remove(&rig.world->fake, rig_object(&rig, 0, 3));
	rig_load_and_run(&rig, 3, "r", 64, 0);
	assert_int_equal(metric(&rig, "lookup_hit_tokens_total"), 64);
	assert_int_equal(metric(&rig, "load_jobs_failed_total{reason=\"error\"}"), 1);
	assert_int_equal(metric(&rig, "load_keys_failed_total"), 1);
	assert_int_equal(metric(&rig, "load_keys_gone_total"), 1);
	assert_int_equal(metric(&rig, "load_bytes_total"), 7 * 1024);
	rig_close(&rig);
}

/* proves: B42 */
static void b42_what_the_engine_had_is_neither_query_nor_hit(void **state)
{
	struct kvh_lookup_result found = {.struct_bytes = sizeof(found)};
	struct kvh_lookup lookup = {
		.struct_bytes = sizeof(lookup), .token_count = 1000, .cached_token_count = 600};
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig_open(&rig);
	for (unsigned i = 0; i < 50; i++)
		rig_plant(&rig, 0, i, 1); /* 800 tokens: 600 local, 200 from the store */
	rig_save_job(&rig, 1, "r", 1000);
	lookup.hashes = rig.hashes;
	lookup.hash_count = 62;
	assert_int_equal(kvh_worker_lookup(rig.worker, &lookup, &found, NULL), KVH_OK);
	assert_int_equal(found.hit_tokens, 800);
	assert_int_equal(metric(&rig, "lookup_query_tokens_total"), 400);
	assert_int_equal(metric(&rig, "lookup_hit_tokens_total"), 200);
	/* The engine has more than the store: no hit of the store's, and nothing runs below 0. */
	lookup.cached_token_count = 900;
	assert_int_equal(kvh_worker_lookup(rig.worker, &lookup, &found, NULL), KVH_OK);
	lookup.cached_token_count = UINT64_MAX;
	assert_int_equal(kvh_worker_lookup(rig.worker, &lookup, &found, NULL), KVH_OK);
	assert_int_equal(metric(&rig, "lookup_query_tokens_total"), 500);
	assert_int_equal(metric(&rig, "lookup_hit_tokens_total"), 200);
	rig_close(&rig);
}

static void to_hex(const uint8_t *bytes, size_t count, char *out)
{
	for (size_t i = 0; i < count; i++)
		snprintf(out + 2 * i, 3, "%02x", bytes[i]);
}

static void log_lines_name_jobs_and_give_no_content_away(void **state)
{
	char hex[2 * KVH_HASH_BYTES_MAX + 1];
	uint8_t hash[KVH_HASH_BYTES_MAX];
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig.config.events = true;
	rig_open(&rig);
	run_everything(&rig);
	assert_true(rig.world->line_bytes > 0);
	/* No token id: all begin so. */
	assert_null(strstr(rig.world->lines, "9876540"));
	for (unsigned chain = 0; chain < 3; chain++) {
		for (unsigned i = 0; i < 4; i++) {
			fake_hash(chain, i, hash, sizeof(hash));
			to_hex(hash, sizeof(hash), hex);
			hex[2 * 16] = 0; /* not even half of a hash */
			assert_null(strstr(rig.world->lines, hex));
		}
	}
	/* The failures, each with its job and its cause. */
	assert_non_null(strstr(rig.world->lines, "save job 11: 1 of 4 keys not stored"));
	assert_non_null(strstr(rig.world->lines, "save job 12: 1 of 2 keys not stored"));
	assert_non_null(strstr(rig.world->lines, "-200"));
	assert_non_null(strstr(rig.world->lines, "save job 14: nothing is put"));
	assert_non_null(strstr(rig.world->lines, "load job 17: 2 of 2 keys failed"));
	assert_non_null(strstr(rig.world->lines, "load job 18: 2 of 2 keys failed"));
	assert_non_null(strstr(rig.world->lines, "lookup"));
	assert_non_null(strstr(rig.world->lines, "save job 21: ended before its put with -901"));
	rig_close(&rig);
}

/* proves: R-20 */
static void the_state_of_pressure_and_queues_is_shown(void **state)
{
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig_open(&rig);
	FAKE_ANSWER(&rig.world->fake, FAKE_PUT, KVH_NO_AVAILABLE_HANDLE);
	rig_save_and_run(&rig, 1, "r", 16);
	rig_save(&rig, 2, "s", 32);
	rig_load(&rig, 3, "s", 32, 0);
	assert_int_equal(metric(&rig, "pressure"), 1);
	assert_int_equal(metric(&rig, "skipped_requests"), 1);
	assert_int_equal(metric(&rig, "queued_saves"), 1);
	assert_int_equal(metric(&rig, "queued_loads"), 1);
	assert_int_equal(metric(&rig, "queued_save_bytes"), 2048);
	assert_int_equal(metric(&rig, "live_requests"), 2);
	assert_int_equal(metric(&rig, "completions_waiting"), 1);
	rig_hold_next(&rig, FAKE_GET);
	rig_run_load(&rig);
	assert_int_equal(metric(&rig, "running_jobs"), 1);
	rig_run_load(&rig);
	rig_run_save(&rig);
	assert_int_equal(metric(&rig, "running_jobs"), 0);
	assert_int_equal(metric(&rig, "pressure"), 0);
	assert_int_equal(metric(&rig, "pressure_episodes_total"), 1);
	rig_close(&rig);
}

static void a_thread_that_sleeps_is_woken_once_for_a_job(void **state)
{
	uint64_t wakeups;
	struct rig rig;

	(void)state;
	rig_init(&rig);
	rig_open(&rig);
	/* Awake, before its first look at the queue: no wake-up. */
	rig_save(&rig, 1, "r", 16);
	assert_int_equal(rig_stats(&rig).wakeups, 0);
	rig_run_save(&rig);
	rig_run_save(&rig); /* finds nothing and sleeps */
	rig_save(&rig, 2, "r", 32);
	assert_int_equal(rig_stats(&rig).wakeups, 1);
	rig_save(&rig, 3, "r", 48); /* the one that is on its way will take both */
	assert_int_equal(rig_stats(&rig).wakeups, 1);
	rig_run_save(&rig);
	rig_run_save(&rig);
	wakeups = rig_stats(&rig).wakeups;
	rig_load(&rig, 4, "r", 16, 0); /* the load thread has not slept */
	assert_int_equal(rig_stats(&rig).wakeups, wakeups);
	rig_run_load(&rig);
	assert_string_equal(rig_done(&rig), "saved 1 0\nsaved 2 0\nsaved 3 0\nloaded 4 0\n");
	rig_close(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(metrics_are_valid_exposition_text),
		cmocka_unit_test(b42_what_was_not_saved_is_counted_by_reason),
		cmocka_unit_test(b42_lookups_count_tokens_and_failed_loads_are_apart),
		cmocka_unit_test(b42_what_the_engine_had_is_neither_query_nor_hit),
		cmocka_unit_test(log_lines_name_jobs_and_give_no_content_away),
		cmocka_unit_test(the_state_of_pressure_and_queues_is_shown),
		cmocka_unit_test(a_thread_that_sleeps_is_woken_once_for_a_job),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
