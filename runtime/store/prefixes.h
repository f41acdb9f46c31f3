/* SPDX-License-Identifier: Apache-2.0 */
/* The prefixes that a handle has interned: id -> text, identity, lengths. Read without a lock. */
#ifndef KVH_STORE_PREFIXES_H
#define KVH_STORE_PREFIXES_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <kvhold/store.h>

/* Immutable once it is in a table. One allocation. */
struct kvh_prefix_entry {
	uint32_t id;
	uint32_t hash_bytes;
	size_t text_bytes;
	size_t family_bytes;
	size_t identity_bytes;
	char bytes[]; /* text, then identity */
};

/* Zero is an empty one. Entries are only added: adders take the owner's lock, readers none. */
struct kvh_prefix_table {
	_Atomic(struct kvh_prefix_entry *) entries[KVH_PREFIXES_MAX];
};

/* What the header demands of a prefix. The struct was copied in by kvh_struct_in. */
kvh_status kvh_prefix_check(const struct kvh_prefix *prefix, struct kvh_error *error);

/* NULL: no prefix of that id. Any thread, no lock. */
static inline const struct kvh_prefix_entry *kvh_prefix_by_id(const struct kvh_prefix_table *table,
                                                              uint32_t prefix_id)
{
	if (prefix_id >= KVH_PREFIXES_MAX)
		return NULL;
	return atomic_load_explicit(&table->entries[prefix_id], memory_order_acquire);
}

/* The entry with this text and identity, or NULL. */
const struct kvh_prefix_entry *kvh_prefix_find(const struct kvh_prefix_table *table,
                                               const struct kvh_prefix *prefix);
/* The newest entry with this text, whatever its identity, or NULL. */
const struct kvh_prefix_entry *kvh_prefix_by_text(const struct kvh_prefix_table *table,
                                                  const char *text, size_t text_bytes);
/* Adds a checked prefix under a free id. KVH_NO_MEMORY. Owner's lock held. */
kvh_status kvh_prefix_add(struct kvh_prefix_table *table, const struct kvh_prefix *prefix,
                          uint32_t prefix_id);
void kvh_prefix_table_fini(struct kvh_prefix_table *table);

#endif
