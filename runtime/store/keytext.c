/* SPDX-License-Identifier: Apache-2.0 */
/* Keys as text and back: prefix text and the hash in lower-case hex. */
#include "base/text.h"
#include "store_internal.h"

static void add_hex(struct kvh_text *out, const uint8_t *data, size_t bytes)
{
	char hex[128];
	size_t done = 0;

	while (done < bytes) {
		size_t part = bytes - done < sizeof(hex) / 2 ? bytes - done : sizeof(hex) / 2;

		kvh_hex_encode(data + done, part, hex);
		kvh_text_add(out, hex, 2 * part);
		done += part;
	}
}

static kvh_status add_key(struct kvh_store *store, const struct kvh_key *key, struct kvh_text *out)
{
	const struct kvh_prefix_entry *entry = NULL;
	kvh_status status = kvh_prefix_learn(store, key->prefix_id, &entry);

	if (status && status != KVH_OBJECT_NOT_FOUND)
		return status;
	status = kvh_check_key(store, "key_text", key, entry);
	if (status)
		return status;
	kvh_text_add(out, entry->bytes, entry->text_bytes);
	add_hex(out, key->hash, key->hash_bytes);
	return KVH_OK;
}

static kvh_status add_prefix(struct kvh_store *store, uint32_t prefix_id, struct kvh_text *out)
{
	const struct kvh_prefix_entry *entry = NULL;
	kvh_status status = kvh_prefix_learn(store, prefix_id, &entry);

	if (status)
		return status;
	kvh_text_add(out, entry->bytes, entry->text_bytes);
	return KVH_OK;
}

kvh_status kvh_store_key_text(struct kvh_store *store, const struct kvh_key *key, char *text,
                              size_t capacity, size_t *needed_bytes)
{
	struct kvh_text out;
	unsigned phase;
	kvh_status status;

	if (!key || (!text && capacity))
		return KVH_INVALID_PARAMS;
	status = kvh_store_enter(store, &phase);
	if (status)
		return status;
	kvh_text_init(&out, text, capacity);
	status = add_key(store, key, &out);
	if (status == KVH_OK)
		status = kvh_text_end(&out, needed_bytes);
	kvh_store_leave(store, phase);
	return status;
}

kvh_status kvh_store_prefix_text(struct kvh_store *store, uint32_t prefix_id, char *text,
                                 size_t capacity, size_t *needed_bytes)
{
	struct kvh_text out;
	unsigned phase;
	kvh_status status;

	if (!text && capacity)
		return KVH_INVALID_PARAMS;
	status = kvh_store_enter(store, &phase);
	if (status)
		return status;
	kvh_text_init(&out, text, capacity);
	status = add_prefix(store, prefix_id, &out);
	if (status == KVH_OK)
		status = kvh_text_end(&out, needed_bytes);
	kvh_store_leave(store, phase);
	return status;
}

/* Bytes of text before its last run of lower-case hex digits; no prefix text ends in one. */
static size_t prefix_part(const char *text, size_t text_bytes)
{
	size_t at = text_bytes;

	while (at > 0 && ((text[at - 1] >= '0' && text[at - 1] <= '9') ||
	                  (text[at - 1] >= 'a' && text[at - 1] <= 'f')))
		at--;
	return at;
}

static kvh_status key_parse(struct kvh_store *store, const char *text, size_t text_bytes,
                            uint8_t *hash, size_t capacity, struct kvh_key *key)
{
	size_t at = prefix_part(text, text_bytes);
	size_t hex_bytes = text_bytes - at;
	const struct kvh_prefix_entry *entry = kvh_prefix_by_text(&store->prefixes, text, at);

	if (!entry)
		return KVH_OBJECT_NOT_FOUND;
	if (hex_bytes == 0 || hex_bytes % 2 || hex_bytes / 2 > KVH_KEY_HASH_BYTES_MAX ||
	    (entry->hash_bytes && hex_bytes / 2 != entry->hash_bytes))
		return KVH_INVALID_KEY;
	if (hex_bytes / 2 > capacity)
		return KVH_BUSY;
	if (!kvh_hex_decode(text + at, hex_bytes, hash))
		return KVH_INVALID_KEY;
	*key = (struct kvh_key){
		.hash = hash, .hash_bytes = (uint32_t)(hex_bytes / 2), .prefix_id = entry->id};
	return KVH_OK;
}

kvh_status kvh_store_key_parse(struct kvh_store *store, const char *text, size_t text_bytes,
                               uint8_t *hash, size_t capacity, struct kvh_key *key)
{
	unsigned phase;
	kvh_status status;

	if (!text || !hash || !key)
		return KVH_INVALID_PARAMS;
	status = kvh_store_enter(store, &phase);
	if (status)
		return status;
	status = key_parse(store, text, text_bytes, hash, capacity, key);
	kvh_store_leave(store, phase);
	return status;
}
