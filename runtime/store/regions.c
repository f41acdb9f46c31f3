/* SPDX-License-Identifier: Apache-2.0 */
/* Registering and unregistering memory. */
#include "regions.h"

#include <string.h>

#include "base/error.h"
#include "base/fault.h"
#include "base/size.h"
#include "store_internal.h"

/* The last region that begins at or below addr is at [result - 1]. */
static size_t regions_up_to(const struct kvh_region_table *table, uintptr_t addr)
{
	size_t low = 0;
	size_t high = table->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (table->regions[middle].begin <= addr)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

const struct kvh_region *kvh_region_find(const struct kvh_region_table *table, uintptr_t addr,
                                         size_t bytes)
{
	size_t after = regions_up_to(table, addr);

	if (after == 0 || !kvh_region_holds(&table->regions[after - 1], addr, bytes))
		return NULL;
	return &table->regions[after - 1];
}

static struct kvh_region_table *table_create(size_t count)
{
	struct kvh_region_table *table =
		kvh_alloc(sizeof(*table) + count * sizeof(table->regions[0]));

	if (table)
		*table = (struct kvh_region_table){.count = count};
	return table;
}

kvh_status kvh_regions_init(struct kvh_store *store)
{
	struct kvh_region_table *table = table_create(0);

	if (!table)
		return KVH_NO_MEMORY;
	atomic_store(&store->regions, table);
	return KVH_OK;
}

static void free_retired(struct kvh_store *store) KVH_NO_THREAD_SAFETY_ANALYSIS
{
	while (store->retired) {
		struct kvh_region_table *next = store->retired->next_retired;

		kvh_free(store->retired);
		store->retired = next;
	}
}

void kvh_regions_fini(struct kvh_store *store)
{
	struct kvh_region_table *table = atomic_load(&store->regions);

	free_retired(store);
	for (size_t i = 0; table && i < table->count; i++)
		kvh_free(table->regions[i].template_count);
	kvh_free(table);
}

static struct kvh_region_table *current(struct kvh_store *store)
{
	return atomic_load(&store->regions);
}

/* Swaps the table; the old one may still be read by calls that are inside. */
static void publish(struct kvh_store *store, struct kvh_region_table *table)
	KVH_REQUIRES(kvh_role_store)
{
	struct kvh_region_table *old = atomic_exchange(&store->regions, table);

	old->next_retired = store->retired;
	store->retired = old;
}

/* Only one region change runs at a time; the rest of the lock's data stays usable meanwhile. */
static bool change_begin(struct kvh_store *store)
{
	bool free_to_change;

	kvh_store_lock(store);
	free_to_change = !store->regions_changing;
	store->regions_changing = true; /* when it was so already, its owner clears it */
	kvh_store_unlock(store);
	return free_to_change;
}

static void change_end(struct kvh_store *store)
{
	kvh_store_lock(store);
	store->regions_changing = false;
	kvh_store_unlock(store);
}

static kvh_status check_range(struct kvh_store *store, const struct kvh_region *wanted,
                              struct kvh_error *error)
{
	const struct kvh_region_table *table = current(store);
	size_t after = regions_up_to(table, wanted->begin);

	if (table->count == KVH_REGIONS_MAX)
		return kvh_fail(error, KVH_BUSY,
		                "register: %d regions are registered, no more fit; unregister one",
		                KVH_REGIONS_MAX);
	if (after > 0 && table->regions[after - 1].end > wanted->begin)
		return kvh_fail(error, KVH_INVALID_PARAMS, "register: overlaps with region %u",
		                table->regions[after - 1].id);
	if (after < table->count && table->regions[after].begin < wanted->end)
		return kvh_fail(error, KVH_INVALID_PARAMS, "register: overlaps with region %u",
		                table->regions[after].id);
	return KVH_OK;
}

static struct kvh_region_table *with_region(const struct kvh_region_table *old,
                                            const struct kvh_region *region)
{
	size_t at = regions_up_to(old, region->begin);
	struct kvh_region_table *table = table_create(old->count + 1);

	if (!table)
		return NULL;
	memcpy(table->regions, old->regions, at * sizeof(*region));
	table->regions[at] = *region;
	memcpy(table->regions + at + 1, old->regions + at, (old->count - at) * sizeof(*region));
	return table;
}

static struct kvh_region_table *without_region(const struct kvh_region_table *old, size_t at)
{
	struct kvh_region_table *table = table_create(old->count - 1);

	if (!table)
		return NULL;
	memcpy(table->regions, old->regions, at * sizeof(old->regions[0]));
	memcpy(table->regions + at, old->regions + at + 1,
	       (table->count - at) * sizeof(old->regions[0]));
	return table;
}

/* A device need not be able to tell. */
static kvh_status classify(const struct kvh_device *device, const void *addr,
                           enum kvh_memory_kind *kind)
{
	const struct kvh_device_ops *ops = device->ops;

	if (ops->struct_bytes < offsetof(struct kvh_device_ops, classify) + sizeof(ops->classify) ||
	    !ops->classify)
		return KVH_NOT_SUPPORTED;
	return ops->classify(device->ctx, addr, kind);
}

static kvh_status find_kind(struct kvh_store *store, const void *addr, enum kvh_memory_kind *kind,
                            struct kvh_error *error)
{
	kvh_status status = KVH_OK;

	if (!*kind) {
		status = classify(&store->device, addr, kind);
		if (status)
			return kvh_fail(error, status,
			                "register: the device can't tell what memory this is (%s); "
			                "say its kind",
			                kvh_strstatus(status));
	}
	if (*kind < KVH_MEMORY_HOST || *kind > KVH_MEMORY_DEVICE)
		return kvh_fail(error, KVH_INVALID_PARAMS, "register: no memory kind %d",
		                (int)*kind);
	return KVH_OK;
}

/* regions_changing is ours. */
static kvh_status add_region(struct kvh_store *store, struct kvh_region *region,
                             struct kvh_error *error)
{
	size_t bytes = region->end - region->begin;
	/* The caller's address, back from the number it was compared as. */
	void *addr = (void *)region->begin; // NOLINT(performance-no-int-to-ptr)
	struct kvh_region_table *table;
	kvh_status status = check_range(store, region, error);

	if (status)
		return status;
	status = find_kind(store, addr, &region->kind, error);
	if (status)
		return status;
	kvh_store_lock(store);
	region->id = store->next_region_id++;
	kvh_store_unlock(store);
	region->template_count = kvh_calloc(1, sizeof(*region->template_count));
	table = with_region(current(store), region);
	if (table && region->template_count)
		status = store->ops.register_region(store->self, region->id, addr, bytes,
		                                    region->kind, error);
	else
		status = kvh_fail(error, KVH_NO_MEMORY, "register: no memory for the table");
	if (status) {
		kvh_free(region->template_count);
		kvh_free(table);
		return status;
	}
	kvh_store_lock(store);
	publish(store, table);
	if (kvh_gate_idle(&store->gate))
		free_retired(store);
	kvh_store_unlock(store);
	return KVH_OK;
}

kvh_status kvh_store_register(struct kvh_store *store, void *addr, size_t bytes,
                              enum kvh_memory_kind kind, kvh_region_id *region,
                              struct kvh_error *error)
{
	struct kvh_region made = {.begin = (uintptr_t)addr, .kind = kind};
	kvh_status status;
	int64_t fault;

	if (!store || !region || !addr || bytes == 0)
		return kvh_fail(error, KVH_INVALID_PARAMS,
		                "register: the store, addr, bytes and the place for the id must "
		                "be given");
	if (!kvh_size_add(made.begin, bytes, &made.end))
		return kvh_fail(error, KVH_INVALID_PARAMS,
		                "register: %zu bytes from there pass the end of memory", bytes);
	status = kvh_store_usable(store);
	if (status)
		return kvh_fail(error, status, "register: the store is closing, or was forked");
	fault = KVH_FAULT(STORE_REGISTER, "", 0);
	if (fault)
		return kvh_fail(error, (kvh_status)fault, "register: fault point");
	if (!change_begin(store))
		return kvh_fail(error, KVH_BUSY, "register: another thread changes the regions");
	status = add_region(store, &made, error);
	change_end(store);
	if (status == KVH_OK)
		*region = made.id;
	return status;
}

/* Its place in the current table, or count. */
static size_t region_index(const struct kvh_region_table *table, kvh_region_id id)
{
	size_t at = 0;

	while (at < table->count && table->regions[at].id != id)
		at++;
	return at;
}

/* Takes the region out of sight of new calls. *old: the table to go back to. */
static kvh_status hide_region(struct kvh_store *store, kvh_region_id id,
                              struct kvh_region_table **old)
{
	struct kvh_region_table *table = current(store);
	size_t at = region_index(table, id);
	struct kvh_region_table *smaller;
	kvh_status status = KVH_OK;

	if (at == table->count)
		return KVH_INVALID_PARAMS;
	smaller = without_region(table, at);
	if (!smaller)
		return KVH_NO_MEMORY;
	kvh_store_lock(store);
	if (*table->regions[at].template_count) {
		status = KVH_BUSY;
		kvh_free(smaller);
	} else {
		atomic_store(&store->regions, smaller);
	}
	kvh_store_unlock(store);
	*old = table;
	return status;
}

/* regions_changing is ours. */
static kvh_status remove_region(struct kvh_store *store, kvh_region_id id, kvh_deadline deadline_ns)
{
	struct kvh_region_table *old = NULL;
	kvh_status status = hide_region(store, id, &old);

	if (status)
		return status;
	status = kvh_gate_grace(&store->gate, deadline_ns);
	if (status == KVH_OK)
		status = store->ops.unregister_region(store->self, id, deadline_ns);
	kvh_store_lock(store);
	if (status) {
		publish(store, old);
	} else {
		/* Who could read the old tables has left. */
		kvh_free(old->regions[region_index(old, id)].template_count);
		old->next_retired = store->retired;
		store->retired = old;
		free_retired(store);
	}
	kvh_store_unlock(store);
	return status;
}

kvh_status kvh_store_unregister(struct kvh_store *store, kvh_region_id region,
                                kvh_deadline deadline_ns)
{
	kvh_status status = kvh_store_usable(store);
	int64_t fault;

	if (status)
		return status;
	fault = KVH_FAULT(STORE_UNREGISTER, "", 0);
	if (fault)
		return (kvh_status)fault;
	if (!change_begin(store))
		return KVH_BUSY;
	status = remove_region(store, region, deadline_ns);
	change_end(store);
	return status;
}
