/* SPDX-License-Identifier: Apache-2.0 */
/* Reads recorded request traces strictly: a damaged line is named, never guessed at. */
#include "trace.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

/* Where a line is, for the words of an error. */
struct place {
	const char *name;
	size_t line;
	struct kvh_error *error;
};

__attribute__((format(printf, 3, 4))) static kvh_status
fail_at(const struct place *place, kvh_status status, const char *format, ...)
{
	va_list words;
	int used;

	if (!place->error)
		return status;
	place->error->status = status;
	used = place->line ? snprintf(place->error->text, sizeof(place->error->text),
	                              "%s:%zu: ", place->name, place->line)
	                   : snprintf(place->error->text, sizeof(place->error->text),
	                              "%s: ", place->name);
	if (used < 0 || (size_t)used >= sizeof(place->error->text))
		return status;
	va_start(words, format);
	vsnprintf(place->error->text + used, sizeof(place->error->text) - (size_t)used, format,
	          words);
	va_end(words);
	return status;
}

/* Doubles *items when count has reached *capacity. */
static bool grow(void **items, size_t *capacity, size_t count, size_t item_bytes)
{
	size_t wanted = *capacity ? *capacity * 2 : 256;
	void *moved;

	if (count < *capacity)
		return true;
	moved = reallocarray(*items, wanted, item_bytes);
	if (!moved)
		return false;
	*items = moved;
	*capacity = wanted;
	return true;
}

static kvh_status take_number(const struct place *place, const json_t *object, const char *field,
                              int64_t max, uint64_t *number)
{
	const json_t *value = json_object_get(object, field);

	if (!value)
		return fail_at(place, KVH_INVALID_PARAMS, "'%s' is missing", field);
	if (!json_is_integer(value))
		return fail_at(place, KVH_INVALID_PARAMS, "'%s' is not a whole number", field);
	if (json_integer_value(value) < 0 || json_integer_value(value) > max)
		return fail_at(place, KVH_INVALID_PARAMS,
		               "'%s' is %" JSON_INTEGER_FORMAT "; it must lie within 0 and %lld",
		               field, json_integer_value(value), (long long)max);
	*number = (uint64_t)json_integer_value(value);
	return KVH_OK;
}

static kvh_status take_hash(const struct place *place, const json_t *value, size_t index,
                            struct kvh_trace *trace)
{
	if (!json_is_integer(value) || json_integer_value(value) < 0 ||
	    json_integer_value(value) > KVH_TRACE_NUMBER_MAX)
		return fail_at(place, KVH_INVALID_PARAMS,
		               "hash_ids[%zu] is not a whole number within 0 and %lld", index,
		               (long long)KVH_TRACE_NUMBER_MAX);
	if (!grow((void **)&trace->hash_ids, &trace->hash_capacity, trace->hash_count,
	          sizeof(*trace->hash_ids)))
		return fail_at(place, KVH_NO_MEMORY, "no memory for its hashes");
	trace->hash_ids[trace->hash_count++] = (uint64_t)json_integer_value(value);
	return KVH_OK;
}

static kvh_status take_hashes(const struct place *place, const json_t *object,
                              struct kvh_trace *trace, struct kvh_trace_request *request)
{
	const json_t *list = json_object_get(object, "hash_ids");
	size_t expected =
		(request->prompt_tokens + KVH_TRACE_BLOCK_TOKENS - 1) / KVH_TRACE_BLOCK_TOKENS;
	kvh_status status = KVH_OK;

	if (!json_is_array(list))
		return fail_at(place, KVH_INVALID_PARAMS, "'hash_ids' is missing or not a list");
	if (json_array_size(list) != expected)
		return fail_at(
			place, KVH_INVALID_PARAMS,
			"%zu hash_ids, but an input_length of %u has %zu blocks of %d tokens",
			json_array_size(list), request->prompt_tokens, expected,
			KVH_TRACE_BLOCK_TOKENS);
	request->hash_first = trace->hash_count;
	request->hash_count = expected;
	for (size_t i = 0; i < expected && status == KVH_OK; i++)
		status = take_hash(place, json_array_get(list, i), i, trace);
	return status;
}

static kvh_status check_fields(const struct place *place, json_t *object)
{
	static const char *const fields[] = {"timestamp", "input_length", "output_length",
	                                     "hash_ids"};
	const char *field;
	json_t *value;

	if (!json_is_object(object))
		return fail_at(place, KVH_INVALID_PARAMS, "not a JSON object");
	json_object_foreach (object, field, value) {
		bool known = false;

		for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
			known = known || strcmp(field, fields[i]) == 0;
		if (!known)
			return fail_at(place, KVH_INVALID_PARAMS, "unknown field '%.40s'", field);
	}
	return KVH_OK;
}

static kvh_status take_request(const struct place *place, json_t *object, struct kvh_trace *trace)
{
	struct kvh_trace_request request = {0};
	uint64_t prompt = 0, output = 0;
	kvh_status status = check_fields(place, object);

	if (status == KVH_OK)
		status = take_number(place, object, "timestamp", KVH_TRACE_NUMBER_MAX,
		                     &request.arrival_ms);
	if (status == KVH_OK)
		status = take_number(place, object, "input_length", KVH_TRACE_TOKENS_MAX, &prompt);
	if (status == KVH_OK)
		status = take_number(place, object, "output_length", KVH_TRACE_TOKENS_MAX, &output);
	if (status != KVH_OK)
		return status;
	if (prompt == 0)
		return fail_at(place, KVH_INVALID_PARAMS, "'input_length' is 0");
	if (trace->request_count &&
	    trace->requests[trace->request_count - 1].arrival_ms > request.arrival_ms)
		return fail_at(place, KVH_INVALID_PARAMS, "'timestamp' is below the line before");
	request.prompt_tokens = (uint32_t)prompt;
	request.output_tokens = (uint32_t)output;
	status = take_hashes(place, object, trace, &request);
	if (status != KVH_OK)
		return status;
	if (!grow((void **)&trace->requests, &trace->request_capacity, trace->request_count,
	          sizeof(*trace->requests)))
		return fail_at(place, KVH_NO_MEMORY, "no memory for the request");
	trace->requests[trace->request_count++] = request;
	return KVH_OK;
}

static kvh_status take_line(const struct place *place, const char *line, size_t line_bytes,
                            struct kvh_trace *trace)
{
	json_error_t words;
	kvh_status status;
	json_t *object;

	if (line_bytes > KVH_TRACE_LINE_BYTES_MAX)
		return fail_at(place, KVH_INVALID_PARAMS, "the line is longer than %d bytes",
		               KVH_TRACE_LINE_BYTES_MAX);
	if (trace->request_count == KVH_TRACE_REQUESTS_MAX)
		return fail_at(place, KVH_INVALID_PARAMS, "more than %d requests",
		               KVH_TRACE_REQUESTS_MAX);
	object = json_loadb(line, line_bytes, JSON_REJECT_DUPLICATES, &words);
	if (!object)
		return fail_at(place, KVH_INVALID_PARAMS, "not JSON: %s (column %d)", words.text,
		               words.column);
	status = take_request(place, object, trace);
	json_decref(object);
	return status;
}

kvh_status kvh_trace_parse(const char *name, const char *text, size_t text_bytes,
                           size_t request_limit, struct kvh_trace *trace, struct kvh_error *error)
{
	struct place place = {.name = name, .line = 1, .error = error};
	struct kvh_trace read = {0};
	kvh_status status = KVH_OK;

	for (size_t at = 0; at < text_bytes && status == KVH_OK; place.line++) {
		const char *end = memchr(text + at, '\n', text_bytes - at);
		size_t line_bytes = end ? (size_t)(end - (text + at)) : text_bytes - at;

		if (request_limit && read.request_count == request_limit)
			break;
		status = take_line(&place, text + at, line_bytes, &read);
		at += line_bytes + (end != NULL);
	}
	if (status == KVH_OK && read.request_count == 0) {
		place.line = 0;
		status = fail_at(&place, KVH_INVALID_PARAMS, "holds no request");
	}
	if (status == KVH_OK)
		*trace = read;
	else
		kvh_trace_fini(&read);
	return status;
}

/* The whole file in one allocation, the caller frees it. */
static kvh_status read_all(const struct place *place, FILE *file, char **text, size_t *text_bytes)
{
	size_t capacity = 1 << 16, used = 0;
	char *bytes = malloc(capacity), *moved;

	while (bytes) {
		used += fread(bytes + used, 1, capacity - used, file);
		if (used < capacity)
			break;
		capacity *= 2;
		if (capacity > KVH_TRACE_FILE_BYTES_MAX) {
			free(bytes);
			return fail_at(place, KVH_INVALID_PARAMS,
			               "the file is larger than %d bytes",
			               KVH_TRACE_FILE_BYTES_MAX / 2);
		}
		moved = realloc(bytes, capacity);
		if (!moved)
			free(bytes);
		bytes = moved;
	}
	if (!bytes)
		return fail_at(place, KVH_NO_MEMORY, "no memory to read it");
	if (ferror(file)) {
		free(bytes);
		return fail_at(place, KVH_FILE_READ_FAIL, "can't be read: %m");
	}
	*text = bytes;
	*text_bytes = used;
	return KVH_OK;
}

kvh_status kvh_trace_read(const char *path, size_t request_limit, struct kvh_trace *trace,
                          struct kvh_error *error)
{
	const struct place place = {.name = path, .error = error};
	FILE *file = fopen(path, "r");
	size_t text_bytes = 0;
	char *text = NULL;
	kvh_status status;

	if (!file)
		return fail_at(&place, KVH_FILE_READ_FAIL, "can't be opened: %m");
	status = read_all(&place, file, &text, &text_bytes);
	fclose(file);
	if (status != KVH_OK)
		return status;
	status = kvh_trace_parse(path, text, text_bytes, request_limit, trace, error);
	free(text);
	return status;
}

void kvh_trace_fini(struct kvh_trace *trace)
{
	free(trace->requests);
	free(trace->hash_ids);
	*trace = (struct kvh_trace){0};
}
