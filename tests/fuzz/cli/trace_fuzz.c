/* SPDX-License-Identifier: Apache-2.0 */
/* The trace reader: whatever it takes keeps its promises, whatever it refuses is named. */
#include "fuzz/fuzz.h"

#include <string.h>

#include "base/check.h"
#include "cli/trace.h"

static void check_trace(const struct kvh_trace *trace)
{
	uint64_t before_ms = 0;
	size_t hashes = 0;

	KVH_CHECK(trace->request_count > 0);
	for (size_t i = 0; i < trace->request_count; i++) {
		const struct kvh_trace_request *request = &trace->requests[i];

		KVH_CHECK(request->arrival_ms >= before_ms);
		before_ms = request->arrival_ms;
		KVH_CHECK(request->prompt_tokens > 0);
		KVH_CHECK(request->prompt_tokens <= KVH_TRACE_TOKENS_MAX);
		KVH_CHECK(request->output_tokens <= KVH_TRACE_TOKENS_MAX);
		KVH_CHECK(request->hash_first == hashes);
		KVH_CHECK(request->hash_count * KVH_TRACE_BLOCK_TOKENS >= request->prompt_tokens);
		KVH_CHECK((request->hash_count - 1) * KVH_TRACE_BLOCK_TOKENS <
		          request->prompt_tokens);
		hashes += request->hash_count;
	}
	KVH_CHECK(trace->hash_count == hashes);
	for (size_t i = 0; i < hashes; i++)
		KVH_CHECK(trace->hash_ids[i] <= (uint64_t)KVH_TRACE_NUMBER_MAX);
}

static void check_reuse(const struct kvh_trace *trace)
{
	struct kvh_trace_reuse reuse;

	KVH_CHECK(kvh_trace_measure(trace, 2, &reuse));
	KVH_CHECK(reuse.reused_tokens < reuse.prompt_tokens);
	KVH_CHECK(reuse.distinct_blocks <= trace->hash_count);
	KVH_CHECK(reuse.distinct_strides <= reuse.distinct_blocks);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct kvh_trace trace = {0};
	struct kvh_error error = {0};

	if (kvh_trace_parse("fuzz", (const char *)data, bytes, 0, &trace, &error) != KVH_OK) {
		KVH_CHECK(error.status == KVH_INVALID_PARAMS);
		KVH_CHECK(strncmp(error.text, "fuzz:", 5) == 0);
		KVH_CHECK(trace.requests == NULL);
		return 0;
	}
	check_trace(&trace);
	check_reuse(&trace);
	kvh_trace_fini(&trace);
	return 0;
}
