/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of batch arguments: all of them pass before the backend sees the first. */
#include <stdarg.h>
#include <stdio.h>

#include "base/logging.h"
#include "base/size.h"
#include "store_internal.h"
#include "struct_bytes.h"

/* Logged at each power of two, so that an engine in a loop can't flood the log (T15). */
kvh_status kvh_refuse(struct kvh_store *store, kvh_status status, const char *format, ...)
{
	uint64_t count =
		atomic_fetch_add_explicit(&store->refused_count, 1, memory_order_relaxed) + 1;
	char line[256];
	va_list args;

	if ((count & (count - 1)) != 0 || !kvh_log_wants(&store->log, KVH_LOG_WARN))
		return status;
	va_start(args, format);
	vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	kvh_log_line(&store->log, KVH_LOG_WARN, "store %s: call refused (%llu so far): %s",
	             store->ops.name, (unsigned long long)count, line);
	return status;
}

static kvh_status refuse_key(struct kvh_store *store, const char *call_name, size_t index,
                             const struct kvh_key *key, const struct kvh_prefix_entry *entry)
{
	if (!entry)
		return kvh_refuse(store, KVH_INVALID_PARAMS,
		                  "%s: key %zu: no prefix %u was interned", call_name, index,
		                  key->prefix_id);
	if (!key->hash)
		return kvh_refuse(store, KVH_INVALID_PARAMS, "%s: key %zu: hash is NULL", call_name,
		                  index);
	return kvh_refuse(store, KVH_INVALID_PARAMS,
	                  "%s: key %zu: hash of %u bytes; prefix %u wants %u (0: 1 to %d)",
	                  call_name, index, key->hash_bytes, key->prefix_id, entry->hash_bytes,
	                  KVH_KEY_HASH_BYTES_MAX);
}

kvh_status kvh_check_key(struct kvh_store *store, const char *call_name, const struct kvh_key *key,
                         const struct kvh_prefix_entry *entry)
{
	bool fits = entry && key->hash_bytes >= 1 && key->hash_bytes <= KVH_KEY_HASH_BYTES_MAX &&
	            (!entry->hash_bytes || key->hash_bytes == entry->hash_bytes);

	return fits && key->hash ? KVH_OK : refuse_key(store, call_name, 0, key, entry);
}

kvh_status kvh_check_keys(struct kvh_store *store, const char *call_name,
                          const struct kvh_key *keys, size_t count)
{
	/* Neighbours mostly share their prefix: it is looked up when it changes. */
	uint32_t prefix_id = KVH_PREFIXES_MAX;
	uint32_t bytes_min = 0;
	uint32_t bytes_max = 0;
	const struct kvh_prefix_entry *entry = NULL;

	for (size_t i = 0; i < count; i++) {
		const struct kvh_key *key = &keys[i];

		if (key->prefix_id != prefix_id) {
			entry = kvh_prefix_by_id(&store->prefixes, key->prefix_id);
			if (!entry)
				return refuse_key(store, call_name, i, key, NULL);
			prefix_id = key->prefix_id;
			bytes_min = entry->hash_bytes ? entry->hash_bytes : 1;
			bytes_max = entry->hash_bytes ? entry->hash_bytes : KVH_KEY_HASH_BYTES_MAX;
		}
		if (!key->hash || key->hash_bytes < bytes_min || key->hash_bytes > bytes_max)
			return refuse_key(store, call_name, i, key, entry);
	}
	return KVH_OK;
}

/* Where the check of a batch's values stands. */
struct value_check {
	struct kvh_store *store;
	const char *call_name;
	const struct kvh_region_table *regions;
	const struct kvh_region *region; /* the last one hit, or NULL */
	const struct kvh_layout *layout; /* the last one that was right, or NULL */
};

static kvh_status refuse_segment(const struct value_check *check, size_t index, size_t segment,
                                 const char *why)
{
	return kvh_refuse(check->store, KVH_INVALID_PARAMS, "%s: value %zu: segment %zu %s",
	                  check->call_name, index, segment, why);
}

/* Whether the segment lies in a registered region, which then is the last one hit. */
static bool segment_registered(struct value_check *check, const struct kvh_segment *segment)
{
	uintptr_t addr = (uintptr_t)segment->addr;

	if (check->region && kvh_region_holds(check->region, addr, segment->bytes))
		return true;
	check->region = kvh_region_find(check->regions, addr, segment->bytes);
	return check->region != NULL;
}

static kvh_status check_segments(struct value_check *check, size_t index,
                                 const struct kvh_value *value, size_t *bytes)
{
	enum kvh_memory_kind kind = 0;
	size_t sum = 0;

	if (!value->segments || value->segment_count == 0 ||
	    value->segment_count > KVH_SEGMENTS_MAX)
		return kvh_refuse(check->store, KVH_INVALID_PARAMS,
		                  "%s: value %zu: neither a layout nor a list of 1 to %d segments",
		                  check->call_name, index, KVH_SEGMENTS_MAX);
	for (size_t i = 0; i < value->segment_count; i++) {
		const struct kvh_segment *segment = &value->segments[i];

		if (segment->bytes == 0)
			return refuse_segment(check, index, i, "has 0 bytes");
		if (!segment_registered(check, segment))
			return refuse_segment(check, index, i,
			                      "does not lie in one registered region");
		if (i > 0 && check->region->kind != kind)
			return refuse_segment(check, index, i,
			                      "lies in another kind of memory than the first");
		kind = check->region->kind;
		if (!kvh_size_add(sum, segment->bytes, &sum))
			return refuse_segment(check, index, i, "makes the value's bytes overflow");
	}
	*bytes = sum;
	return KVH_OK;
}

static kvh_status check_block(struct value_check *check, size_t index,
                              const struct kvh_value *value, size_t *bytes)
{
	const struct kvh_layout *layout = value->layout;

	if (layout != check->layout) {
		if (layout->store != check->store)
			return kvh_refuse(check->store, KVH_INVALID_PARAMS,
			                  "%s: value %zu: a layout of another store",
			                  check->call_name, index);
		check->layout = layout;
	}
	if (value->segments || value->segment_count)
		return kvh_refuse(check->store, KVH_INVALID_PARAMS,
		                  "%s: value %zu: both a layout and a list of segments",
		                  check->call_name, index);
	if (value->block_id >= layout->view.block_count)
		return kvh_refuse(check->store, KVH_INVALID_PARAMS,
		                  "%s: value %zu: block %llu of a layout with %llu blocks",
		                  check->call_name, index, (unsigned long long)value->block_id,
		                  (unsigned long long)layout->view.block_count);
	*bytes = layout->view.value_bytes;
	return KVH_OK;
}

kvh_status kvh_check_values(struct kvh_store *store, const char *call_name,
                            const struct kvh_value *values, size_t count, uint64_t *bytes)
{
	struct value_check check = {
		.store = store,
		.call_name = call_name,
		.regions = atomic_load_explicit(&store->regions, memory_order_seq_cst),
	};
	size_t total = 0;

	for (size_t i = 0; i < count; i++) {
		size_t value_bytes = 0;
		kvh_status status = values[i].layout
		                            ? check_block(&check, i, &values[i], &value_bytes)
		                            : check_segments(&check, i, &values[i], &value_bytes);

		if (status)
			return status;
		if (!kvh_size_add(total, value_bytes, &total))
			return kvh_refuse(store, KVH_INVALID_PARAMS,
			                  "%s: value %zu: the bytes of the batch overflow",
			                  call_name, i);
	}
	*bytes = total;
	return KVH_OK;
}

size_t kvh_value_bytes(const struct kvh_value *value)
{
	size_t bytes = 0;

	if (value->layout)
		return value->layout->view.value_bytes;
	for (size_t i = 0; i < value->segment_count; i++)
		bytes += value->segments[i].bytes;
	return bytes;
}

static kvh_status check_families(struct kvh_store *store, const struct kvh_batch *batch)
{
	for (size_t i = 0; i < batch->count; i++) {
		if (kvh_prefix_by_id(&store->prefixes, batch->keys[i].prefix_id)->family_bytes == 0)
			return kvh_refuse(store, KVH_INVALID_PARAMS,
			                  "put: key %zu: a lifecycle group is asked for but its "
			                  "prefix %u has no family",
			                  i, batch->keys[i].prefix_id);
	}
	return KVH_OK;
}

/* Whether the name ends within what a host name may have, and is plain text. */
static bool node_name_ok(const char *name)
{
	size_t bytes = 0;

	while (bytes <= 255 && name[bytes] > ' ' && name[bytes] <= '~')
		bytes++;
	return bytes > 0 && bytes <= 255 && name[bytes] == 0;
}

static kvh_status check_option_values(struct kvh_store *store,
                                      const struct kvh_put_options *options)
{
	if (options->flags & ~(uint32_t)(KVH_PUT_HOLD | KVH_PUT_LIFECYCLE_GROUP))
		return kvh_refuse(store, KVH_INVALID_PARAMS, "put: unknown flags 0x%x",
		                  options->flags);
	if (options->priority > 3 || options->reserved)
		return kvh_refuse(store, KVH_INVALID_PARAMS,
		                  "put: priority %u (0 to 3) or reserved %u (0)", options->priority,
		                  options->reserved);
	if (options->keep_seconds && options->expire_seconds)
		return kvh_refuse(store, KVH_INVALID_PARAMS,
		                  "put: keep_seconds and expire_seconds exclude each other");
	if (!(options->flags & KVH_PUT_HOLD) != !options->tokens)
		return kvh_refuse(store, KVH_INVALID_PARAMS,
		                  "put: tokens go with KVH_PUT_HOLD, and only with it");
	if (options->preferred_node && !node_name_ok(options->preferred_node))
		return kvh_refuse(store, KVH_INVALID_PARAMS,
		                  "put: preferred_node is no name of 1 to 255 characters");
	return KVH_OK;
}

static kvh_status check_caps(struct kvh_store *store, const struct kvh_put_options *options)
{
	if ((options->flags & KVH_PUT_HOLD) && !store->caps.hold)
		return kvh_refuse(store, KVH_NOT_SUPPORTED, "put: this store can't hold");
	if ((options->flags & KVH_PUT_LIFECYCLE_GROUP) && !store->caps.lifecycle)
		return kvh_refuse(store, KVH_NOT_SUPPORTED,
		                  "put: this store knows no lifecycle groups");
	if (options->replicas > store->caps.replicas_max)
		return kvh_refuse(store, KVH_NOT_SUPPORTED,
		                  "put: %u copies; this store makes at most %llu",
		                  options->replicas, (unsigned long long)store->caps.replicas_max);
	return KVH_OK;
}

kvh_status kvh_check_put_options(struct kvh_store *store, const struct kvh_put_options *given,
                                 const struct kvh_batch *batch, struct kvh_put_options *own)
{
	kvh_status status;

	*own = (struct kvh_put_options){.struct_bytes = sizeof(*own)};
	if (given && !kvh_struct_in(own, sizeof(*own), given))
		return kvh_refuse(store, KVH_INVALID_PARAMS,
		                  "put: struct_bytes %zu of the options is not that of a known "
		                  "version",
		                  given->struct_bytes);
	if (own->replicas == 0)
		own->replicas = 1;
	status = check_option_values(store, own);
	if (status)
		return status;
	status = check_caps(store, own);
	if (status)
		return status;
	return own->flags & KVH_PUT_LIFECYCLE_GROUP ? check_families(store, batch) : KVH_OK;
}
