/* SPDX-License-Identifier: Apache-2.0 */
/* Interning prefixes: the backend gives the id, the handle remembers what it means. */
#include "base/error.h"
#include "base/fault.h"
#include "store_internal.h"
#include "struct_bytes.h"

/* Remembers what the backend interned. A backend that mixes up prefixes is refused (S-12). */
static kvh_status remember(struct kvh_store *store, const struct kvh_prefix *prefix,
                           uint32_t prefix_id, struct kvh_error *error)
{
	const struct kvh_prefix_entry *entry;
	kvh_status status = KVH_OK;

	if (prefix_id >= KVH_PREFIXES_MAX)
		return kvh_fail(error, KVH_INTERNAL, "prefix: store %s answered id %u, over %d",
		                store->ops.name, prefix_id, KVH_PREFIXES_MAX - 1);
	kvh_store_lock(store);
	entry = kvh_prefix_by_id(&store->prefixes, prefix_id);
	if (!entry)
		status = kvh_prefix_add(&store->prefixes, prefix, prefix_id);
	else if (entry != kvh_prefix_find(&store->prefixes, prefix))
		status = KVH_INTERNAL;
	kvh_store_unlock(store);
	if (status)
		return kvh_fail(error, status, "prefix: id %u of store %s can't be kept: %s",
		                prefix_id, store->ops.name, kvh_strstatus(status));
	return KVH_OK;
}

/* What the backend tells may come from a damaged area: it has to be a prefix (S-15). */
static kvh_status ask(struct kvh_store *store, uint32_t prefix_id)
{
	struct kvh_prefix prefix = {.struct_bytes = sizeof(prefix)};
	char text[KVH_PREFIX_TEXT_BYTES_MAX];
	kvh_status status = store->ops.prefix_at(store->self, prefix_id, text, &prefix);

	if (status)
		return status;
	if (prefix.text != text || prefix.identity_bytes || kvh_prefix_check(&prefix, NULL))
		return KVH_OBJECT_NOT_FOUND;
	kvh_store_lock(store);
	if (!kvh_prefix_by_id(&store->learned, prefix_id))
		status = kvh_prefix_add(&store->learned, &prefix, prefix_id);
	kvh_store_unlock(store);
	return status;
}

kvh_status kvh_prefix_learn(struct kvh_store *store, uint32_t prefix_id,
                            const struct kvh_prefix_entry **entry)
{
	kvh_status status = KVH_OK;

	if (prefix_id >= KVH_PREFIXES_MAX)
		return KVH_OBJECT_NOT_FOUND;
	*entry = kvh_prefix_by_id(&store->prefixes, prefix_id);
	if (!*entry && !kvh_prefix_by_id(&store->learned, prefix_id))
		status = ask(store, prefix_id);
	if (!*entry)
		*entry = kvh_prefix_by_id(&store->learned, prefix_id);
	return status;
}

/* Lengths are part of what an id means to this handle, so they can't change afterwards. */
static kvh_status check_known(struct kvh_store *store, const struct kvh_prefix *prefix,
                              struct kvh_error *error)
{
	const struct kvh_prefix_entry *entry = kvh_prefix_find(&store->prefixes, prefix);

	if (!entry || (entry->hash_bytes == prefix->hash_bytes &&
	               entry->family_bytes == prefix->family_bytes))
		return KVH_OK;
	return kvh_fail(error, KVH_INVALID_PARAMS,
	                "prefix: known as %u with hash_bytes %u and family_bytes %zu; both must "
	                "stay",
	                entry->id, entry->hash_bytes, entry->family_bytes);
}

static kvh_status intern(struct kvh_store *store, const struct kvh_prefix *prefix,
                         uint32_t *prefix_id, struct kvh_error *error)
{
	uint32_t id = KVH_PREFIXES_MAX;
	kvh_status status = kvh_prefix_check(prefix, error);

	if (status)
		return status;
	status = check_known(store, prefix, error);
	if (status)
		return status;
	status = store->ops.prefix(store->self, prefix, &id, error);
	if (status)
		return status;
	status = remember(store, prefix, id, error);
	if (status)
		return status;
	/* Two threads may have interned it at once, with other lengths. */
	status = check_known(store, prefix, error);
	if (status == KVH_OK)
		*prefix_id = id;
	return status;
}

kvh_status kvh_store_prefix(struct kvh_store *store, const struct kvh_prefix *prefix,
                            uint32_t *prefix_id, struct kvh_error *error)
{
	struct kvh_prefix own;
	unsigned phase;
	kvh_status status;
	int64_t fault;

	if (!store || !prefix || !prefix_id)
		return kvh_fail(error, KVH_INVALID_PARAMS,
		                "prefix: the store, the prefix and the place for its id must be "
		                "given");
	if (!kvh_struct_in(&own, sizeof(own), prefix))
		return kvh_fail(error, KVH_INVALID_PARAMS,
		                "prefix: struct_bytes %zu is not that of a known version",
		                prefix->struct_bytes);
	status = kvh_store_enter(store, &phase);
	if (status)
		return kvh_fail(error, status, "prefix: the store is closing, or was forked");
	fault = KVH_FAULT(STORE_PREFIX, "", 0);
	status = fault ? kvh_fail(error, (kvh_status)fault, "prefix: fault point")
	               : intern(store, &own, prefix_id, error);
	kvh_store_leave(store, phase);
	return status;
}
