/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prefix records. The identity is kept and compared byte by byte when it fits behind the text
 * (together 448 bytes, which text and identity of real models do). A longer one is kept as two
 * XXH3-128 of different input, 256 bits, and its length: two identities that differ by accident
 * are taken for one with 2^-256 likelihood. An attacker is not in the model: whoever can open the
 * pool can write into it.
 */
#include "pool/core/prefixes.h"

#include <string.h>

#include "base/fault.h"
#include "base/hash.h"

#define LOAD(word)         atomic_load_explicit(&(word), memory_order_relaxed)
#define STORE(word, value) atomic_store_explicit(&(word), (value), memory_order_relaxed)

_Static_assert(KVH_PREFIX_TEXT_BYTES_MAX + 4 * sizeof(uint64_t) <= KVH_PREFIX_BODY_BYTES,
               "the digests fit behind the longest text");

static uint64_t record_checksum(const struct kvh_prefix_record *record)
{
	return kvh_hash64(&record->text_bytes,
	                  sizeof(*record) - offsetof(struct kvh_prefix_record, text_bytes));
}

static bool identity_fits(uint64_t text_bytes, uint64_t identity_bytes)
{
	return text_bytes + identity_bytes <= KVH_PREFIX_BODY_BYTES;
}

static void identity_digest(const struct kvh_prefix *prefix, struct kvh_hash128 digest[2])
{
	unsigned char salted[1 + KVH_IDENTITY_BYTES_MAX];

	salted[0] = 's';
	memcpy(salted + 1, prefix->identity, prefix->identity_bytes);
	digest[0] = kvh_hash128(prefix->identity, prefix->identity_bytes);
	digest[1] = kvh_hash128(salted, 1 + prefix->identity_bytes);
}

/* All but quota and checksum. */
static void make_record(const struct kvh_prefix *prefix, struct kvh_prefix_record *record)
{
	struct kvh_hash128 digest[2];

	memset(record, 0, sizeof(*record));
	record->text_bytes = (uint32_t)prefix->text_bytes;
	record->family_bytes = (uint32_t)prefix->family_bytes;
	record->identity_bytes = (uint32_t)prefix->identity_bytes;
	record->hash_bytes = prefix->hash_bytes;
	memcpy(record->body, prefix->text, prefix->text_bytes);
	if (!prefix->identity_bytes)
		return;
	if (identity_fits(prefix->text_bytes, prefix->identity_bytes)) {
		memcpy(record->body + prefix->text_bytes, prefix->identity, prefix->identity_bytes);
		return;
	}
	identity_digest(prefix, digest);
	memcpy(record->body + prefix->text_bytes, digest, sizeof(digest));
}

uint32_t kvh_prefix_record_find(const struct kvh_area *area, const struct kvh_prefix *prefix,
                                uint32_t from)
{
	uint32_t count = kvh_prefixes_count(area);
	struct kvh_prefix_record wanted;

	make_record(prefix, &wanted);
	for (uint32_t id = from; id < count; id++) {
		const struct kvh_prefix_record *record = &area->fixed->prefixes[id];

		if (record->text_bytes == wanted.text_bytes &&
		    record->identity_bytes == wanted.identity_bytes &&
		    memcmp(record->body, wanted.body, sizeof(wanted.body)) == 0)
			return id;
	}
	return KVH_NONE;
}

bool kvh_prefix_agrees(const struct kvh_area *area, uint32_t id, const struct kvh_prefix *prefix)
{
	const struct kvh_prefix_record *record = &area->fixed->prefixes[id];

	return record->hash_bytes == prefix->hash_bytes &&
	       record->family_bytes == prefix->family_bytes;
}

static bool same_family(const struct kvh_prefix_record *a, const struct kvh_prefix_record *b)
{
	return a->family_bytes == b->family_bytes && memcmp(a->body, b->body, a->family_bytes) == 0;
}

static void join_family(struct kvh_area *area, uint32_t id)
{
	const struct kvh_prefix_record *records = area->fixed->prefixes;
	struct kvh_prefix_state *states = area->fixed->prefix_states;
	uint32_t at = 0;

	STORE(states[id].family_next, KVH_NONE);
	STORE(states[id].family_first, records[id].family_bytes ? id : KVH_NONE);
	if (!records[id].family_bytes)
		return;
	while (at < id &&
	       (LOAD(states[at].family_first) != at || !same_family(&records[at], &records[id])))
		at++;
	if (at == id)
		return;
	STORE(states[id].family_first, at);
	while (LOAD(states[at].family_next) != KVH_NONE)
		at = LOAD(states[at].family_next);
	STORE(states[at].family_next, id);
}

uint32_t kvh_prefix_record_append(struct kvh_area *area, const struct kvh_prefix *prefix)
{
	uint32_t id = LOAD(area->super->prefix_count);

	if (id == KVH_PREFIXES_MAX)
		return KVH_NONE;
	make_record(prefix, &area->fixed->prefixes[id]);
	area->fixed->prefixes[id].checksum = record_checksum(&area->fixed->prefixes[id]);
	STORE(area->fixed->prefix_states[id].used_bytes, 0);
	join_family(area, id);
	KVH_CRASH_POINT(POOL_PREFIX);
	atomic_store_explicit(&area->super->prefix_count, id + 1, memory_order_release);
	return id;
}

uint32_t kvh_prefix_family_first(const struct kvh_area *area, uint32_t id)
{
	return LOAD(area->fixed->prefix_states[id].family_first);
}

uint32_t kvh_prefix_family_next(const struct kvh_area *area, uint32_t id)
{
	return LOAD(area->fixed->prefix_states[id].family_next);
}

bool kvh_quota_could_hold(const struct kvh_area *area, uint32_t id, uint64_t bytes)
{
	uint64_t quota_bytes = LOAD(area->fixed->prefixes[id].quota_bytes);

	return quota_bytes == 0 || bytes <= quota_bytes;
}

bool kvh_quota_has_room(const struct kvh_area *area, uint32_t id, uint64_t bytes)
{
	return kvh_quota_could_hold(area, id,
	                            LOAD(area->fixed->prefix_states[id].used_bytes) + bytes);
}

static bool record_is_good(const struct kvh_prefix_record *record)
{
	return record->text_bytes >= 1 && record->text_bytes <= KVH_PREFIX_TEXT_BYTES_MAX &&
	       record->family_bytes <= record->text_bytes &&
	       record->identity_bytes <= KVH_IDENTITY_BYTES_MAX &&
	       record->hash_bytes <= KVH_KEY_HASH_BYTES_MAX &&
	       record->checksum == record_checksum(record);
}

bool kvh_prefix_record_read(const struct kvh_area *area, uint32_t id, char *text,
                            struct kvh_prefix *prefix)
{
	struct kvh_prefix_record copy;

	if (id >= kvh_prefixes_count(area))
		return false;
	/* What is checked is what is told, whatever happens to the area meanwhile. */
	memset(&copy, 0, sizeof(copy));
	memcpy(&copy.checksum, &area->fixed->prefixes[id].checksum,
	       sizeof(copy) - offsetof(struct kvh_prefix_record, checksum));
	if (!record_is_good(&copy))
		return false;
	memcpy(text, copy.body, copy.text_bytes);
	*prefix = (struct kvh_prefix){.struct_bytes = sizeof(*prefix),
	                              .text = text,
	                              .text_bytes = copy.text_bytes,
	                              .family_bytes = copy.family_bytes,
	                              .hash_bytes = copy.hash_bytes};
	return true;
}

void kvh_prefixes_reset(struct kvh_area *area)
{
	uint32_t count = kvh_prefixes_count(area);

	for (uint32_t id = 0; id < count; id++) {
		if (!record_is_good(&area->fixed->prefixes[id])) {
			count = id;
			break;
		}
		STORE(area->fixed->prefix_states[id].used_bytes, 0);
		join_family(area, id);
	}
	STORE(area->super->prefix_count, count);
}
