/* SPDX-License-Identifier: Apache-2.0 */
/* The trace reader: what it takes, and that every damage is refused with file and line. */
#include "unit/base/unit.h"

#include <stdlib.h>
#include <string.h>

#include "cli/trace.h"

#define GOOD_1                                                                                     \
	"{\"timestamp\": 0, \"input_length\": 513, \"output_length\": 7, \"hash_ids\": [3, 4]}\n"
#define GOOD_2                                                                                     \
	"{\"timestamp\": 5, \"input_length\": 512, \"output_length\": 0, \"hash_ids\": [3]}\n"

static kvh_status parse(const char *text, struct kvh_trace *trace, struct kvh_error *error)
{
	return kvh_trace_parse("t.jsonl", text, strlen(text), 0, trace, error);
}

static void requests_keep_their_order_and_hashes(void **context)
{
	struct kvh_trace trace;

	(void)context;
	assert_int_equal(parse(GOOD_1 GOOD_2, &trace, NULL), KVH_OK);
	assert_int_equal(trace.request_count, 2);
	assert_int_equal(trace.requests[0].prompt_tokens, 513);
	assert_int_equal(trace.requests[0].output_tokens, 7);
	assert_int_equal(trace.requests[0].hash_count, 2);
	assert_int_equal(trace.hash_ids[trace.requests[0].hash_first + 1], 4);
	assert_int_equal(trace.requests[1].arrival_ms, 5);
	assert_int_equal(trace.requests[1].hash_count, 1);
	assert_int_equal(trace.hash_ids[trace.requests[1].hash_first], 3);
	kvh_trace_fini(&trace);
}

static void the_last_line_needs_no_end(void **context)
{
	struct kvh_trace trace;

	(void)context;
	assert_int_equal(kvh_trace_parse("t", GOOD_1, sizeof(GOOD_1) - 2, 0, &trace, NULL), KVH_OK);
	assert_int_equal(trace.request_count, 1);
	kvh_trace_fini(&trace);
}

static void a_limit_stops_before_what_lies_behind(void **context)
{
	static const char text[] = GOOD_1 "damaged";
	struct kvh_trace trace;

	(void)context;
	assert_int_equal(kvh_trace_parse("t", text, sizeof(text) - 1, 1, &trace, NULL), KVH_OK);
	assert_int_equal(trace.request_count, 1);
	kvh_trace_fini(&trace);
}

/* Each is the second line of a file; words: what the error must say. */
static const struct {
	const char *line, *words;
} damages[] = {
	{"", "not JSON"},
	{"{", "not JSON"},
	{"[1]", "not a JSON object"},
	{"{\"timestamp\": 0, \"input_length\": 1, \"output_length\": 1}", "'hash_ids' is missing"},
	{"{\"timestamp\": 0, \"input_length\": 1, \"hash_ids\": [1]}",
         "'output_length' is missing"},
	{"{\"timestamp\": 0, \"timestamp\": 0, \"input_length\": 1, \"output_length\": 1, "
         "\"hash_ids\": [1]}",
         "duplicate"},
	{"{\"timestamp\": 0, \"input_length\": 1, \"output_length\": 1, \"hash_ids\": [1], \"x\": "
         "1}",
         "unknown field 'x'"},
	{"{\"timestamp\": -1, \"input_length\": 1, \"output_length\": 1, \"hash_ids\": [1]}",
         "'timestamp' is -1"},
	{"{\"timestamp\": 0.5, \"input_length\": 1, \"output_length\": 1, \"hash_ids\": [1]}",
         "'timestamp' is not a whole number"},
	{"{\"timestamp\": 0, \"input_length\": 0, \"output_length\": 1, \"hash_ids\": []}",
         "'input_length' is 0"},
	{"{\"timestamp\": 0, \"input_length\": 16777217, \"output_length\": 1, \"hash_ids\": [1]}",
         "'input_length' is 16777217"},
	{"{\"timestamp\": 0, \"input_length\": 99999999999999999999, \"output_length\": 1, "
         "\"hash_ids\": [1]}",
         "not JSON"},
	{"{\"timestamp\": 0, \"input_length\": 513, \"output_length\": 1, \"hash_ids\": [1]}",
         "1 hash_ids, but an input_length of 513 has 2 blocks"},
	{"{\"timestamp\": 0, \"input_length\": 512, \"output_length\": 1, \"hash_ids\": [1, 2]}",
         "2 hash_ids, but an input_length of 512 has 1 blocks"},
	{"{\"timestamp\": 0, \"input_length\": 1, \"output_length\": 1, \"hash_ids\": [\"1\"]}",
         "hash_ids[0] is not a whole number"},
	{"{\"timestamp\": 0, \"input_length\": 1, \"output_length\": 1, "
         "\"hash_ids\": [9007199254740992]}",
         "hash_ids[0] is not a whole number"},
	{"{\"timestamp\": 0, \"input_length\": 1, \"output_length\": 1, \"hash_ids\": 1}",
         "'hash_ids' is missing or not a list"},
};

static void every_damage_is_refused_with_its_line(void **context)
{
	(void)context;
	for (size_t i = 0; i < COUNT_OF(damages); i++) {
		struct kvh_trace trace = {.request_count = 99};
		struct kvh_error error;
		char text[1024];

		snprintf(text, sizeof(text), "%s%s\n", GOOD_1, damages[i].line);
		assert_int_equal(parse(text, &trace, &error), KVH_INVALID_PARAMS);
		assert_int_equal(error.status, KVH_INVALID_PARAMS);
		assert_ptr_equal(strstr(error.text, "t.jsonl:2: "), error.text);
		if (!strstr(error.text, damages[i].words))
			fail_msg("'%s' lacks '%s'", error.text, damages[i].words);
		assert_int_equal(trace.request_count, 99);
	}
}

static void times_must_not_fall(void **context)
{
	struct kvh_trace trace;
	struct kvh_error error;

	(void)context;
	assert_int_equal(parse(GOOD_2 GOOD_1, &trace, &error), KVH_INVALID_PARAMS);
	assert_non_null(strstr(error.text, "t.jsonl:2: 'timestamp' is below the line before"));
}

static void an_empty_file_is_refused(void **context)
{
	struct kvh_trace trace;
	struct kvh_error error;

	(void)context;
	assert_int_equal(parse("", &trace, &error), KVH_INVALID_PARAMS);
	assert_string_equal(error.text, "t.jsonl: holds no request");
}

static void a_line_without_end_is_refused(void **context)
{
	size_t bytes = KVH_TRACE_LINE_BYTES_MAX + 1;
	char *text = malloc(bytes);
	struct kvh_trace trace;
	struct kvh_error error;

	(void)context;
	assert_non_null(text);
	memset(text, ' ', bytes);
	assert_int_equal(kvh_trace_parse("t", text, bytes, 0, &trace, &error), KVH_INVALID_PARAMS);
	assert_non_null(strstr(error.text, "longer than"));
	free(text);
}

/* Cut anywhere, or with any one byte changed: an answer, and nothing read out of bounds. */
static void cut_and_changed_text_never_crashes(void **context)
{
	static const char good[] = GOOD_1 GOOD_2;

	(void)context;
	for (size_t at = 0; at < sizeof(good); at++)
		for (int change = -1; change < 256; change += 15) {
			size_t bytes = change < 0 ? at : sizeof(good) - 1;
			char *text = malloc(bytes + 1);
			struct kvh_trace trace;

			assert_non_null(text);
			memcpy(text, good, bytes);
			if (change >= 0 && at < bytes)
				text[at] = (char)change;
			if (kvh_trace_parse("t", text, bytes, 0, &trace, NULL) == KVH_OK)
				kvh_trace_fini(&trace);
			free(text);
		}
}

static void a_missing_file_is_named(void **context)
{
	struct kvh_trace trace;
	struct kvh_error error;

	(void)context;
	assert_int_equal(kvh_trace_read("/nowhere/t.jsonl", 0, &trace, &error), KVH_FILE_READ_FAIL);
	assert_ptr_equal(strstr(error.text, "/nowhere/t.jsonl: "), error.text);
}

static void the_slice_that_ships_is_whole(void **context)
{
	const char *folder = getenv("KVH_TEST_DATA");
	struct kvh_trace trace;
	struct kvh_error error;
	char path[4096];

	(void)context;
	assert_non_null(folder);
	snprintf(path, sizeof(path), "%s/demo/conversation_slice.jsonl", folder);
	if (kvh_trace_read(path, 0, &trace, &error) != KVH_OK)
		fail_msg("%s", error.text);
	assert_int_equal(trace.request_count, 1500);
	kvh_trace_fini(&trace);
}

/* Four blocks, then the same three and another, then the same request again. */
static void reuse_counts_whole_strides_and_computes_the_last_token(void **context)
{
	static const char text[] = "{\"timestamp\":0,\"input_length\":2048,\"output_length\":1,"
				   "\"hash_ids\":[1,2,3,4]}\n"
				   "{\"timestamp\":0,\"input_length\":2049,\"output_length\":1,"
				   "\"hash_ids\":[1,2,3,5,9]}\n"
				   "{\"timestamp\":0,\"input_length\":2048,\"output_length\":1,"
				   "\"hash_ids\":[1,2,3,4]}\n";
	struct kvh_trace_reuse reuse;
	struct kvh_trace trace;

	(void)context;
	assert_int_equal(parse(text, &trace, NULL), KVH_OK);
	assert_true(kvh_trace_measure(&trace, 2, &reuse));
	assert_int_equal(reuse.prompt_tokens, 2048 + 2049 + 2048);
	/* 1 and 2 of the second; 1 and 2 of the third, whose last token must be computed. */
	assert_int_equal(reuse.reused_tokens, 1024 + 1024);
	assert_int_equal(reuse.distinct_blocks, 5);
	assert_int_equal(reuse.distinct_strides, 3); /* up to 2, 4 and 5 */
	kvh_trace_fini(&trace);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(requests_keep_their_order_and_hashes),
		cmocka_unit_test(the_last_line_needs_no_end),
		cmocka_unit_test(a_limit_stops_before_what_lies_behind),
		cmocka_unit_test(every_damage_is_refused_with_its_line),
		cmocka_unit_test(times_must_not_fall),
		cmocka_unit_test(an_empty_file_is_refused),
		cmocka_unit_test(a_line_without_end_is_refused),
		cmocka_unit_test(cut_and_changed_text_never_crashes),
		cmocka_unit_test(a_missing_file_is_named),
		cmocka_unit_test(the_slice_that_ships_is_whole),
		cmocka_unit_test(reuse_counts_whole_strides_and_computes_the_last_token),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
