/* SPDX-License-Identifier: Apache-2.0 */
/* Listing: check where it goes, hand to the backend, check what came. */
#include "store_internal.h"
#include "struct_bytes.h"

static kvh_status take_list(struct kvh_store *store, const struct kvh_list *given,
                            struct kvh_list *own)
{
	if (!kvh_struct_in(own, sizeof(*own), given))
		return kvh_refuse(store, KVH_INVALID_PARAMS,
		                  "list: struct_bytes %zu is not that of a known version",
		                  given->struct_bytes);
	if (own->flags & ~(uint32_t)KVH_LIST_VERIFY || own->reserved)
		return kvh_refuse(store, KVH_INVALID_PARAMS, "list: unknown flags 0x%x",
		                  own->flags);
	if (!own->objects || own->capacity == 0 || own->capacity > KVH_BATCH_KEYS_MAX)
		return kvh_refuse(store, KVH_INVALID_PARAMS,
		                  "list: give room for 1 to %d objects, not %zu",
		                  KVH_BATCH_KEYS_MAX, own->capacity);
	if (!own->hashes || own->hashes_bytes < KVH_KEY_HASH_BYTES_MAX)
		return kvh_refuse(store, KVH_INVALID_PARAMS,
		                  "list: give at least %d bytes for hashes, not %zu",
		                  KVH_KEY_HASH_BYTES_MAX, own->hashes_bytes);
	return KVH_OK;
}

/* Whoever walks the answer follows these pointers and counts. */
static bool is_inside(const struct kvh_list *list, size_t count)
{
	uintptr_t first = (uintptr_t)list->hashes;

	if (count > list->capacity)
		return false;
	for (size_t i = 0; i < count; i++) {
		const struct kvh_key *key = &list->objects[i].key;
		uintptr_t at = (uintptr_t)key->hash;

		if (key->hash_bytes == 0)
			continue;
		if (key->hash_bytes > KVH_KEY_HASH_BYTES_MAX || at < first ||
		    at - first > list->hashes_bytes - key->hash_bytes)
			return false;
	}
	return true;
}

static kvh_status list_into(struct kvh_store *store, const struct kvh_list *given, uint64_t *cursor,
                            size_t *count, const struct kvh_call *given_call)
{
	struct kvh_list list;
	struct kvh_call call;
	kvh_status status = take_list(store, given, &list);

	if (status)
		return status;
	status = kvh_call_take(store, given_call, &call);
	if (status)
		return status;
	if (!store->caps.list)
		return KVH_NOT_SUPPORTED;
	status = store->ops.list(store->self, &list, cursor, count, &call);
	if (status)
		return status;
	return is_inside(&list, *count) ? KVH_OK : KVH_INTERNAL;
}

kvh_status kvh_store_list(struct kvh_store *store, const struct kvh_list *list, uint64_t *cursor,
                          size_t *count, const struct kvh_call *call)
{
	struct kvh_inside inside;
	uint64_t next;
	size_t listed = 0;
	kvh_status status;

	if (!list || !cursor || !count)
		return KVH_INVALID_PARAMS;
	next = *cursor;
	status = kvh_call_begin(&inside, store, KVH_OP_LIST);
	if (status)
		return status;
	status = list_into(store, list, &next, &listed, call);
	if (status == KVH_OK) {
		*cursor = next;
		*count = listed;
	}
	return kvh_call_end(&inside, status);
}
