/* SPDX-License-Identifier: Apache-2.0 */
/* The prefixes that a handle has interned. */
#include "prefixes.h"

#include <string.h>

#include "base/error.h"
#include "base/fault.h"
#include "base/size.h"

static bool is_letter_or_digit(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static kvh_status check_text(const struct kvh_prefix *prefix, struct kvh_error *error)
{
	if (!prefix->text || prefix->text_bytes == 0 ||
	    prefix->text_bytes > KVH_PREFIX_TEXT_BYTES_MAX)
		return kvh_fail(error, KVH_INVALID_PARAMS,
		                "prefix: text has %zu bytes; give 1 to %d", prefix->text_bytes,
		                KVH_PREFIX_TEXT_BYTES_MAX);
	for (size_t i = 0; i < prefix->text_bytes; i++) {
		if (prefix->text[i] <= ' ' || prefix->text[i] > '~')
			return kvh_fail(error, KVH_INVALID_PARAMS,
			                "prefix: byte %zu of text is 0x%02x; only printable ASCII "
			                "without blanks may stand there",
			                i, (unsigned char)prefix->text[i]);
	}
	/* Else the text form of a key could not be cut into prefix and hash again. */
	if (is_letter_or_digit(prefix->text[prefix->text_bytes - 1]))
		return kvh_fail(error, KVH_INVALID_PARAMS,
		                "prefix: text ends in '%c'; end it in a separator such as '@'",
		                prefix->text[prefix->text_bytes - 1]);
	return KVH_OK;
}

kvh_status kvh_prefix_check(const struct kvh_prefix *prefix, struct kvh_error *error)
{
	kvh_status status = check_text(prefix, error);

	if (status)
		return status;
	if (prefix->family_bytes > prefix->text_bytes)
		return kvh_fail(error, KVH_INVALID_PARAMS,
		                "prefix: family_bytes %zu is more than its text's %zu",
		                prefix->family_bytes, prefix->text_bytes);
	if (prefix->identity_bytes > KVH_IDENTITY_BYTES_MAX ||
	    (prefix->identity_bytes && !prefix->identity))
		return kvh_fail(error, KVH_INVALID_PARAMS,
		                "prefix: identity has %zu bytes; give at most %d, and not NULL",
		                prefix->identity_bytes, KVH_IDENTITY_BYTES_MAX);
	if (prefix->hash_bytes > KVH_KEY_HASH_BYTES_MAX)
		return kvh_fail(error, KVH_INVALID_PARAMS, "prefix: hash_bytes %u; give at most %d",
		                prefix->hash_bytes, KVH_KEY_HASH_BYTES_MAX);
	return KVH_OK;
}

static bool same_text(const struct kvh_prefix_entry *entry, const char *text, size_t text_bytes)
{
	return entry->text_bytes == text_bytes && memcmp(entry->bytes, text, text_bytes) == 0;
}

static bool same_identity(const struct kvh_prefix_entry *entry, const struct kvh_prefix *prefix)
{
	return entry->identity_bytes == prefix->identity_bytes &&
	       (prefix->identity_bytes == 0 ||
	        memcmp(entry->bytes + entry->text_bytes, prefix->identity,
	               prefix->identity_bytes) == 0);
}

const struct kvh_prefix_entry *kvh_prefix_find(const struct kvh_prefix_table *table,
                                               const struct kvh_prefix *prefix)
{
	for (uint32_t id = 0; id < KVH_PREFIXES_MAX; id++) {
		const struct kvh_prefix_entry *entry = kvh_prefix_by_id(table, id);

		if (entry && same_text(entry, prefix->text, prefix->text_bytes) &&
		    same_identity(entry, prefix))
			return entry;
	}
	return NULL;
}

const struct kvh_prefix_entry *kvh_prefix_by_text(const struct kvh_prefix_table *table,
                                                  const char *text, size_t text_bytes)
{
	for (uint32_t id = KVH_PREFIXES_MAX; id-- > 0;) {
		const struct kvh_prefix_entry *entry = kvh_prefix_by_id(table, id);

		if (entry && same_text(entry, text, text_bytes))
			return entry;
	}
	return NULL;
}

kvh_status kvh_prefix_add(struct kvh_prefix_table *table, const struct kvh_prefix *prefix,
                          uint32_t prefix_id)
{
	/* Bounded by kvh_prefix_check. */
	struct kvh_prefix_entry *entry =
		kvh_alloc(sizeof(*entry) + prefix->text_bytes + prefix->identity_bytes);

	if (!entry)
		return KVH_NO_MEMORY;
	entry->id = prefix_id;
	entry->hash_bytes = prefix->hash_bytes;
	entry->text_bytes = prefix->text_bytes;
	entry->family_bytes = prefix->family_bytes;
	entry->identity_bytes = prefix->identity_bytes;
	memcpy(entry->bytes, prefix->text, prefix->text_bytes);
	if (prefix->identity_bytes)
		memcpy(entry->bytes + prefix->text_bytes, prefix->identity, prefix->identity_bytes);
	/* Release, with the acquire of kvh_prefix_by_id. */
	atomic_store_explicit(&table->entries[prefix_id], entry, memory_order_release);
	return KVH_OK;
}

void kvh_prefix_table_fini(struct kvh_prefix_table *table)
{
	for (uint32_t id = 0; id < KVH_PREFIXES_MAX; id++)
		kvh_free(atomic_load_explicit(&table->entries[id], memory_order_relaxed));
}
