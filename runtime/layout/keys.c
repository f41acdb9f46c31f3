/* SPDX-License-Identifier: Apache-2.0 */
/* Composes and parses the text of keys and lifecycle groups (R-1, R-3). */
#include "layout/keys.h"

#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"

static const char group_id_start[] = "vllm-mooncake-store:";

/* Printable ASCII without the blank: what every store and every log can carry. */
static bool is_plain(const char *text, size_t text_bytes)
{
	for (size_t index = 0; index < text_bytes; index++) {
		if (text[index] <= ' ' || text[index] > '~')
			return false;
	}
	return true;
}

static const char *or_empty(const char *text)
{
	return text ? text : "";
}

static const char *last_path_part(const char *path, size_t *part_bytes)
{
	size_t end = strlen(path);
	size_t start;

	while (end > 0 && path[end - 1] == '/')
		end--;
	start = end;
	while (start > 0 && path[start - 1] != '/')
		start--;
	*part_bytes = end - start;
	return path + start;
}

kvh_status kvh_key_compose(const struct kvh_key_parts *parts, struct kvh_prefix_text *out,
                           struct kvh_error *error)
{
	const char *cache_prefix = or_empty(parts->cache_prefix);
	struct kvh_prefix_text made = {0};
	struct kvh_text text;
	size_t model_bytes;
	const char *model = last_path_part(or_empty(parts->model), &model_bytes);

	if (!model_bytes)
		return kvh_fail(error, KVH_INVALID_PARAMS,
		                "model: empty; name the model whose blocks are kept");
	kvh_text_init(&text, made.text, sizeof(made.text));
	if (*cache_prefix) {
		kvh_text_add(&text, cache_prefix, strlen(cache_prefix));
		kvh_text_add(&text, "@", 1);
	}
	kvh_text_add(&text, model, model_bytes);
	kvh_text_add(&text, or_empty(parts->name_space), strlen(or_empty(parts->name_space)));
	made.family_bytes = text.needed_bytes;
	kvh_text_addf(&text, "@tp_rank:%" PRIu32 "@pcp%" PRIu32 "@dcp%" PRIu32, parts->tp_rank,
	              parts->pcp_rank, parts->dcp_rank);
	kvh_text_addf(&text, "@pp_rank:%" PRIu32 "@group:%" PRIu32 "@", parts->pp_rank,
	              parts->group);
	made.text_bytes = text.needed_bytes;
	if (kvh_text_end(&text, NULL) != KVH_OK)
		return kvh_fail(error, KVH_INVALID_PARAMS,
		                "key prefix: %zu bytes, at most %d; shorten model or cache_prefix",
		                made.text_bytes, KVH_PREFIX_TEXT_BYTES_MAX);
	if (!is_plain(made.text, made.text_bytes))
		return kvh_fail(error, KVH_INVALID_PARAMS,
		                "model or cache_prefix: only printable ASCII without blanks goes "
		                "into keys");
	*out = made;
	return KVH_OK;
}

kvh_status kvh_group_id_text(const char *family, size_t family_bytes, const uint8_t *hash,
                             size_t hash_bytes, char *out, size_t capacity_bytes)
{
	const size_t start_bytes = sizeof(group_id_start) - 1;
	const size_t fixed_bytes = start_bytes + sizeof("@"); /* with the final 0 */

	if (capacity_bytes < fixed_bytes || family_bytes > capacity_bytes - fixed_bytes ||
	    hash_bytes > (capacity_bytes - fixed_bytes - family_bytes) / 2)
		return KVH_BUSY;
	memcpy(out, group_id_start, start_bytes);
	out += start_bytes;
	if (family_bytes)
		memcpy(out, family, family_bytes);
	out += family_bytes;
	*out++ = '@';
	kvh_hex_encode(hash, hash_bytes, out);
	out[2 * hash_bytes] = 0;
	return KVH_OK;
}

/* ---- parsing -------------------------------------------------------------------------- */

/* What is left of a key's text, being eaten from its right end. */
struct remainder {
	const char *text;
	size_t bytes;
};

/* Takes "@" and what follows it off the end. */
static bool take_field(struct remainder *rest, const char **field, size_t *field_bytes)
{
	const char *at = rest->bytes ? memrchr(rest->text, '@', rest->bytes) : NULL;

	if (!at)
		return false;
	*field = at + 1;
	*field_bytes = rest->bytes - (size_t)(at + 1 - rest->text);
	rest->bytes = (size_t)(at - rest->text);
	return true;
}

/* Decimal as compose writes it: no sign, no leading zeros. */
static bool parse_number(const char *digits, size_t digit_count, uint32_t *out)
{
	uint64_t value = 0;

	if (digit_count < 1 || digit_count > 10 || (digits[0] == '0' && digit_count > 1))
		return false;
	for (size_t index = 0; index < digit_count; index++) {
		if (digits[index] < '0' || digits[index] > '9')
			return false;
		value = value * 10 + (uint64_t)(digits[index] - '0');
	}
	if (value > UINT32_MAX)
		return false;
	*out = (uint32_t)value;
	return true;
}

static bool take_number(struct remainder *rest, const char *label, uint32_t *out)
{
	size_t label_bytes = strlen(label);
	const char *field;
	size_t field_bytes;

	return take_field(rest, &field, &field_bytes) && field_bytes > label_bytes &&
	       memcmp(field, label, label_bytes) == 0 &&
	       parse_number(field + label_bytes, field_bytes - label_bytes, out);
}

static bool is_hash_hex(const char *text, size_t text_bytes)
{
	if (text_bytes < 2 || text_bytes % 2 || text_bytes / 2 > KVH_KEY_HASH_BYTES_MAX)
		return false;
	for (size_t index = 0; index < text_bytes; index++) {
		char digit = text[index];

		if (!(digit >= '0' && digit <= '9') && !(digit >= 'a' && digit <= 'f'))
			return false;
	}
	return true;
}

kvh_status kvh_key_parse(const char *text, size_t text_bytes, struct kvh_key_spans *out)
{
	struct remainder rest = {text, text_bytes};
	struct kvh_key_spans spans = {0};

	if (!take_field(&rest, &spans.hash_hex, &spans.hash_hex_bytes) ||
	    !is_hash_hex(spans.hash_hex, spans.hash_hex_bytes) ||
	    rest.bytes + 1 > KVH_PREFIX_TEXT_BYTES_MAX)
		return KVH_INVALID_KEY;
	if (!take_number(&rest, "group:", &spans.group) ||
	    !take_number(&rest, "pp_rank:", &spans.pp_rank) ||
	    !take_number(&rest, "dcp", &spans.dcp_rank) ||
	    !take_number(&rest, "pcp", &spans.pcp_rank) ||
	    !take_number(&rest, "tp_rank:", &spans.tp_rank))
		return KVH_INVALID_KEY;
	if (!rest.bytes || !is_plain(rest.text, rest.bytes))
		return KVH_INVALID_KEY;
	spans.head = rest.text;
	spans.head_bytes = rest.bytes;
	*out = spans;
	return KVH_OK;
}
