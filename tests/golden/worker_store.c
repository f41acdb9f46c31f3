/* SPDX-License-Identifier: Apache-2.0 */
/* The scripted store and the scripted device event, behind the runtime's interfaces. */
#include <string.h>

#include "worker_adapter.h"

#include "layout/keys.h"

static void caps(void *self, struct kvh_store_caps *out)
{
	const struct adapter *adapter = self;

	out->lifecycle = adapter->config->supports_group_ids;
	out->tiers = true;
	out->stop_ms_max = 0;
}

static kvh_status register_region(void *self, kvh_region_id region, void *addr, size_t bytes,
                                  enum kvh_memory_kind kind, struct kvh_error *error)
{
	(void)self, (void)region, (void)addr, (void)bytes, (void)kind, (void)error;
	return KVH_OK;
}

static kvh_status unregister_region(void *self, kvh_region_id region, kvh_deadline deadline_ns)
{
	(void)self, (void)region, (void)deadline_ns;
	return KVH_OK;
}

/* A slash can't stand in a model's last path part, but it does in some recordings. */
static char *with_slashes(struct arena *arena, const char *text, size_t bytes)
{
	char *copy = arena_text(arena, "%.*s", (int)bytes, text);

	for (char *c = copy; *c; c++)
		if (*c == '|')
			*c = '/';
	return copy;
}

static kvh_status prefix(void *self, const struct kvh_prefix *in, uint32_t *id,
                         struct kvh_error *error)
{
	struct adapter *adapter = self;
	const char *text = with_slashes(adapter->arena, in->text, in->text_bytes);

	(void)error;
	for (size_t i = 0; i < adapter->prefix_count; i++) {
		if (strcmp(adapter->prefixes[i].text, text) == 0) {
			*id = (uint32_t)i;
			return KVH_OK;
		}
	}
	adapter->prefixes = arena_grow(adapter->arena, adapter->prefixes, adapter->prefix_count,
	                               &adapter->prefix_room, sizeof(*adapter->prefixes));
	adapter->prefixes[adapter->prefix_count] = (struct adapter_prefix){
		.text = text, .family = with_slashes(adapter->arena, in->text, in->family_bytes)};
	*id = (uint32_t)adapter->prefix_count++;
	return KVH_OK;
}

static const char *hex_of(struct arena *arena, const struct kvh_key *key)
{
	char *hex = arena_take(arena, 2 * (size_t)key->hash_bytes + 1, 1);

	for (uint32_t i = 0; i < key->hash_bytes; i++) {
		hex[2 * i] = "0123456789abcdef"[key->hash[i] >> 4];
		hex[2 * i + 1] = "0123456789abcdef"[key->hash[i] & 15];
	}
	return hex;
}

struct wire {
	struct texts keys;
	struct texts group_ids;
	struct ints *addrs;
	struct ints *sizes;
};

static void add_segments(struct arena *arena, const struct kvh_value *value, struct ints *addrs,
                         struct ints *sizes)
{
	const struct kvh_layout_view *view = kvh_layout_get_view(value->layout);

	for (size_t i = 0; i < view->template_count; i++) {
		const struct kvh_segment_template *t = &view->templates[i];

		ints_push(arena, addrs,
		          (int64_t)((uintptr_t)t->base + value->block_id * t->stride_bytes));
		ints_push(arena, sizes, (int64_t)t->bytes);
	}
}

static struct wire to_wire(struct adapter *adapter, const struct kvh_batch *batch, bool values)
{
	struct arena *arena = adapter->arena;
	struct wire wire = {0};

	if (values) {
		wire.addrs = arena_take(arena, batch->count, sizeof(*wire.addrs));
		wire.sizes = arena_take(arena, batch->count, sizeof(*wire.sizes));
	}
	for (size_t i = 0; i < batch->count; i++) {
		const struct adapter_prefix *of = &adapter->prefixes[batch->keys[i].prefix_id];
		const char *hex = hex_of(arena, &batch->keys[i]);
		char id[512];

		texts_push(arena, &wire.keys, arena_text(arena, "%s%s", of->text, hex));
		if (kvh_group_id_text(of->family, strlen(of->family), batch->keys[i].hash,
		                      batch->keys[i].hash_bytes, id, sizeof(id)) == KVH_OK)
			texts_push(arena, &wire.group_ids, arena_text(arena, "%s", id));
		if (values)
			add_segments(arena, &batch->values[i], &wire.addrs[i], &wire.sizes[i]);
	}
	return wire;
}

/* An adapter over one slot per key: a surplus is cut, a missing slot keeps its preset (D-5). */
static kvh_status deliver(const struct script_answer *answer, const struct kvh_batch *batch)
{
	if (answer->raised)
		return KVH_RPC_FAIL;
	for (size_t i = 0; i < batch->count && i < answer->values.count; i++)
		batch->results[i].value = answer->values.at[i];
	return KVH_OK;
}

static kvh_status exists(void *self, const struct kvh_batch *batch, uint32_t flags,
                         const struct kvh_call *call)
{
	struct adapter *adapter = self;
	struct wire wire = to_wire(adapter, batch, false);
	struct script_batch ask = {.keys = &wire.keys};
	struct script_answer answer = script_call(adapter->script, FN_EXIST, &ask);

	(void)flags, (void)call;
	return deliver(&answer, batch);
}

static kvh_status put(void *self, const struct kvh_batch *batch,
                      const struct kvh_put_options *options, const struct kvh_call *call)
{
	struct adapter *adapter = self;
	struct wire wire = to_wire(adapter, batch, true);
	bool grouped = options->flags & KVH_PUT_LIFECYCLE_GROUP;
	struct script_batch ask = {.keys = &wire.keys,
	                           .addrs = wire.addrs,
	                           .sizes = wire.sizes,
	                           .group_ids = grouped ? &wire.group_ids : NULL};
	struct script_answer answer = script_call(adapter->script, FN_PUT, &ask);

	(void)call;
	return deliver(&answer, batch);
}

static kvh_status get(void *self, const struct kvh_batch *batch, const struct kvh_call *call)
{
	struct adapter *adapter = self;
	struct wire wire = to_wire(adapter, batch, true);
	struct script_batch ask = {.keys = &wire.keys, .addrs = wire.addrs, .sizes = wire.sizes};
	struct script_answer answer = script_call(adapter->script, FN_GET, &ask);

	(void)call;
	return deliver(&answer, batch);
}

static kvh_status tiers(void *self, const struct kvh_key *keys, size_t count, enum kvh_tier *out,
                        const struct kvh_call *call)
{
	struct adapter *adapter = self;
	const struct kvh_batch batch = {.count = count, .keys = keys};
	struct wire wire = to_wire(adapter, &batch, false);
	struct script_batch ask = {.keys = &wire.keys};
	struct script_answer answer = script_call(adapter->script, FN_REPLICA_DESC, &ask);

	(void)call;
	if (answer.raised)
		return KVH_RPC_FAIL;
	for (size_t i = 0; i < count && i < answer.tiers.count; i++) {
		if (strcmp(answer.tiers.at[i], "memory") == 0)
			out[i] = KVH_TIER_MEMORY;
		else if (strcmp(answer.tiers.at[i], "disk") == 0)
			out[i] = KVH_TIER_DISK;
	}
	return KVH_OK;
}

static void close_store(void *self)
{
	(void)self;
}

kvh_status adapter_open_store(struct adapter *adapter)
{
	const struct kvh_store_ops ops = {.struct_bytes = sizeof(ops),
	                                  .name = "script",
	                                  .caps = caps,
	                                  .register_region = register_region,
	                                  .unregister_region = unregister_region,
	                                  .prefix = prefix,
	                                  .exists = exists,
	                                  .put = put,
	                                  .get = get,
	                                  .tiers = tiers,
	                                  .close = close_store};
	const struct kvh_store_options options = {.struct_bytes = sizeof(options),
	                                          .env = coenv_env(adapter->coenv)};

	return kvh_store_open_ops(&ops, adapter, &options, &adapter->store, NULL);
}

static kvh_status event_wait(void *ctx, void *event, kvh_deadline deadline_ns)
{
	struct adapter *adapter = ctx;
	const struct trace_job *job = event;

	(void)deadline_ns;
	script_event_sync(adapter->script);
	return job->event_fails ? KVH_INTERNAL : KVH_OK;
}

static kvh_status classify(void *ctx, const void *addr, enum kvh_memory_kind *kind)
{
	(void)ctx, (void)addr;
	*kind = KVH_MEMORY_HOST;
	return KVH_OK;
}

const struct kvh_device_ops adapter_device_ops = {
	.struct_bytes = sizeof(adapter_device_ops), .classify = classify, .event_wait = event_wait};
