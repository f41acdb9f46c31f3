/* SPDX-License-Identifier: Apache-2.0 */
/* A naive store under one lock. It scans for everything: read it as the definition, not as code. */
#include "reference.h"

#include <stdlib.h>
#include <string.h>

#include "reference_room.h"

static void lock(struct reference *ref)
{
	ref->env->ops->mutex_lock(ref->env->ctx, ref->lock);
}

static void unlock(struct reference *ref)
{
	ref->env->ops->mutex_unlock(ref->env->ctx, ref->lock);
}

static struct object *find_valid(struct reference *ref, const struct kvh_key *key)
{
	struct object *object = reference_find(ref, key);

	return object && object->state == VALID ? object : NULL;
}

/* ---- values ------------------------------------------------------------------------------- */

/* Segment i of a value; false: there is none. */
static bool segment_at(const struct reference *ref, const struct kvh_value *value, size_t i,
                       struct kvh_segment *segment)
{
	const struct kvh_layout_view *view;
	uint64_t block = ref->mutant == MUTANT_IGNORES_BLOCK_ID ? 0 : value->block_id;

	if (!value->layout) {
		if (i == value->segment_count)
			return false;
		*segment = value->segments[i];
		return true;
	}
	view = kvh_layout_get_view(value->layout);
	if (i == view->template_count)
		return false;
	segment->addr = (char *)view->templates[i].base + block * view->templates[i].stride_bytes;
	segment->bytes = view->templates[i].bytes;
	return true;
}

static size_t value_bytes(const struct reference *ref, const struct kvh_value *value)
{
	struct kvh_segment segment;
	size_t bytes = 0;

	for (size_t i = 0; segment_at(ref, value, i, &segment); i++)
		bytes += segment.bytes;
	return bytes;
}

static void copy_in(const struct reference *ref, struct object *object,
                    const struct kvh_value *value)
{
	struct kvh_segment segment;
	size_t at = 0;

	for (size_t i = 0; segment_at(ref, value, i, &segment); i++) {
		memcpy(object->data + at, segment.addr, segment.bytes);
		at += segment.bytes;
	}
	if (ref->mutant == MUTANT_DROPS_LAST_BYTE)
		object->data[object->bytes - 1] = 0;
}

static void copy_out(const struct reference *ref, const struct object *object,
                     const struct kvh_value *value)
{
	struct kvh_segment segment;
	size_t at = 0;

	for (size_t i = 0; segment_at(ref, value, i, &segment) && at < object->bytes; i++) {
		size_t left = object->bytes - at;
		size_t bytes = segment.bytes < left ? segment.bytes : left;

		memcpy(segment.addr, object->data + at, bytes);
		if (ref->mutant == MUTANT_COPIES_STRIDE && value->layout)
			memset((char *)segment.addr + bytes, 0, 16);
		at += bytes;
	}
}

/* ---- put ---------------------------------------------------------------------------------- */

static struct object *create(struct reference *ref, const struct kvh_key *key, size_t bytes,
                             const struct kvh_put_options *options)
{
	struct object *object = calloc(1, sizeof(*object) + 4 + KVH_KEY_HASH_BYTES_MAX);
	uint64_t now_ns = kvh_now_ns(ref->env);

	object->entry.key = object->key;
	object->entry.key_bytes = reference_make_key(ref, key, object->key);
	object->state = HELD;
	object->grouped = (options->flags & KVH_PUT_LIFECYCLE_GROUP) != 0;
	object->prefix_id = key->prefix_id;
	object->hash_bytes = key->hash_bytes;
	object->priority = options->priority;
	object->expire_ns = options->expire_seconds * 1000000000;
	if (options->keep_seconds)
		object->keep_until_ns = now_ns + options->keep_seconds * 1000000000;
	if (options->expire_seconds)
		object->expire_at_ns = now_ns + object->expire_ns;
	object->use = ++ref->counter;
	object->serial = object->use;
	object->bytes = bytes;
	object->data = malloc(bytes);
	object->next = ref->objects;
	ref->objects = object;
	ref->used_bytes += reference_rounded(bytes);
	kvh_map_put(&ref->map, &object->entry);
	return object;
}

static int64_t present_answer(struct reference *ref, struct object *object,
                              const struct kvh_value *value)
{
	if (object->state == HELD && ref->mutant != MUTANT_HELD_AS_EXISTING)
		return KVH_REPLICA_IS_NOT_READY;
	if (ref->mutant == MUTANT_OVERWRITES && value_bytes(ref, value) == object->bytes)
		copy_in(ref, object, value);
	return ref->mutant == MUTANT_EXISTS_AS_STORED ? 0 : KVH_OBJECT_ALREADY_EXISTS;
}

static int64_t put_one(struct reference *ref, const struct kvh_batch *batch, size_t i,
                       const struct kvh_put_options *options)
{
	const struct kvh_value *value = &batch->values[i];
	size_t bytes = value_bytes(ref, value);
	struct object *object = reference_find(ref, &batch->keys[i]);
	kvh_status status;

	if (object)
		return present_answer(ref, object, value);
	status = reference_make_room(ref, batch->keys[i].prefix_id, reference_rounded(bytes));
	if (status)
		return status;
	object = create(ref, &batch->keys[i], bytes, options);
	if (ref->mutant == MUTANT_PUBLISHES_BEFORE_COPY) {
		object->state = VALID;
		unlock(ref);
		ref->env->ops->sleep_ns(ref->env->ctx, 1000000);
		lock(ref);
		object = reference_find(ref, &batch->keys[i]);
		if (!object)
			return 0;
	}
	copy_in(ref, object, value);
	if (options->flags & KVH_PUT_HOLD)
		options->tokens[i] = (struct kvh_token){{object->serial, (uintptr_t)ref, 1}};
	else
		object->state = VALID;
	return 0;
}

/* The place of the same key before place i, or i. */
static size_t twin_of(const struct kvh_batch *batch, size_t i)
{
	for (size_t j = 0; j < i; j++) {
		const struct kvh_key *a = &batch->keys[j];
		const struct kvh_key *b = &batch->keys[i];

		if (a->prefix_id == b->prefix_id && a->hash_bytes == b->hash_bytes &&
		    memcmp(a->hash, b->hash, a->hash_bytes) == 0)
			return j;
	}
	return i;
}

static kvh_status ref_put(void *self, const struct kvh_batch *batch,
                          const struct kvh_put_options *options, const struct kvh_call *call)
{
	struct reference *ref = self;

	(void)call;
	lock(ref);
	for (size_t i = 0; i < batch->count; i++) {
		size_t twin = ref->mutant == MUTANT_TWIN_TOLD_EXISTS ? i : twin_of(batch, i);

		if (ref->mutant == MUTANT_STOPS_AT_64 && i == 64)
			break;
		batch->results[i].value =
			twin < i ? batch->results[twin].value : put_one(ref, batch, i, options);
		if (ref->mutant == MUTANT_FORGETS_QUIET)
			batch->results[i].flags = 0;
	}
	unlock(ref);
	return KVH_OK;
}

/* ---- the other calls ---------------------------------------------------------------------- */

static void touch(struct reference *ref, struct object *object)
{
	object->use = ++ref->counter;
	if (ref->mutant == MUTANT_READ_PROLONGS && object->expire_at_ns)
		object->expire_at_ns = kvh_now_ns(ref->env) + object->expire_ns;
}

static kvh_status ref_exists(void *self, const struct kvh_batch *batch, uint32_t flags,
                             const struct kvh_call *call)
{
	struct reference *ref = self;
	bool touches = flags & KVH_EXISTS_DEDUP ? ref->mutant != MUTANT_DEDUP_DOES_NOT_TOUCH
	                                        : ref->mutant == MUTANT_LOOKUP_TOUCHES;

	(void)call;
	lock(ref);
	for (size_t i = 0; i < batch->count; i++) {
		struct object *object = ref->mutant == MUTANT_HELD_EXISTS
		                                ? reference_find(ref, &batch->keys[i])
		                                : find_valid(ref, &batch->keys[i]);

		batch->results[i].value = object != NULL;
		if (object && touches)
			touch(ref, object);
	}
	unlock(ref);
	return KVH_OK;
}

static int64_t get_one(struct reference *ref, const struct kvh_batch *batch, size_t i)
{
	struct object *object = ref->mutant == MUTANT_HELD_IS_READ
	                                ? reference_find(ref, &batch->keys[i])
	                                : find_valid(ref, &batch->keys[i]);
	const struct kvh_value *value = &batch->values[i];
	struct kvh_segment segment;

	if (!object) {
		if (ref->mutant == MUTANT_MISSING_WRITES && segment_at(ref, value, 0, &segment))
			memset(segment.addr, 0, segment.bytes);
		return ref->mutant == MUTANT_MISSING_AS_GOT ? (int64_t)value_bytes(ref, value)
		                                            : KVH_OBJECT_NOT_FOUND;
	}
	if (value_bytes(ref, value) != object->bytes && ref->mutant != MUTANT_TAKES_ANY_LENGTH)
		return KVH_INVALID_PARAMS;
	copy_out(ref, object, value);
	if (ref->mutant != MUTANT_GET_DOES_NOT_TOUCH)
		touch(ref, object);
	return (int64_t)object->bytes;
}

static kvh_status ref_get(void *self, const struct kvh_batch *batch, const struct kvh_call *call)
{
	struct reference *ref = self;
	size_t place = 0;

	(void)call;
	lock(ref);
	for (size_t i = 0; i < batch->count; i++) {
		int64_t value = get_one(ref, batch, i);

		if (ref->mutant != MUTANT_PACKS_RESULTS)
			batch->results[i].value = value;
		else if (value >= 0)
			batch->results[place++].value = value;
	}
	unlock(ref);
	return KVH_OK;
}

static kvh_status ref_remove(void *self, const struct kvh_batch *batch, const struct kvh_call *call)
{
	struct reference *ref = self;

	(void)call;
	lock(ref);
	for (size_t i = 0; i < batch->count; i++) {
		struct object *object = reference_find(ref, &batch->keys[i]);

		batch->results[i].value = !object                 ? KVH_OBJECT_NOT_FOUND
		                          : object->state == HELD ? KVH_REPLICA_IS_NOT_READY
		                                                  : 0;
		if (batch->results[i].value == 0 && ref->mutant != MUTANT_REMOVE_LIES)
			reference_drop(ref, object);
	}
	unlock(ref);
	return KVH_OK;
}

static struct object *find_token(struct reference *ref, const struct kvh_token *token)
{
	for (struct object *object = ref->objects; object; object = object->next) {
		if (ref->mutant == MUTANT_TOKEN_BY_NAME && object->state == HELD && token->word[0])
			return object;
		if (object->serial == token->word[0] && token->word[1] == (uintptr_t)ref)
			return object;
	}
	return NULL;
}

static int64_t settle_one(struct reference *ref, const struct kvh_token *token, bool commit)
{
	struct object *object = find_token(ref, token);

	if (!object)
		return KVH_OBJECT_NOT_FOUND;
	if (object->state != HELD)
		return commit && ref->mutant == MUTANT_COMMITS_TWICE ? 0 : KVH_OBJECT_NOT_FOUND;
	if (commit || ref->mutant == MUTANT_ABORT_COMMITS)
		object->state = VALID;
	else
		reference_drop(ref, object);
	return 0;
}

static kvh_status settle(struct reference *ref, const struct kvh_token *tokens, size_t count,
                         struct kvh_result *results, bool commit)
{
	lock(ref);
	for (size_t i = 0; i < count; i++)
		results[i].value = settle_one(ref, &tokens[i], commit);
	unlock(ref);
	return KVH_OK;
}

static kvh_status ref_commit(void *self, const struct kvh_token *tokens, size_t count,
                             struct kvh_result *results)
{
	return settle(self, tokens, count, results, true);
}

static kvh_status ref_abort(void *self, const struct kvh_token *tokens, size_t count,
                            struct kvh_result *results)
{
	return settle(self, tokens, count, results, false);
}

static kvh_status ref_clear(void *self, const struct kvh_call *call, uint64_t *removed)
{
	struct reference *ref = self;
	bool keep_one = ref->mutant == MUTANT_CLEAR_KEEPS_ONE;
	struct object *object;

	(void)call;
	lock(ref);
	object = ref->objects;
	while (object) {
		struct object *next = object->next;

		if ((object->state == VALID && !keep_one) ||
		    (object->state == HELD && ref->mutant == MUTANT_CLEAR_TAKES_HELD)) {
			*removed += object->state == VALID;
			reference_drop(ref, object);
		}
		keep_one = false;
		object = next;
	}
	unlock(ref);
	return KVH_OK;
}

static kvh_status ref_tiers(void *self, const struct kvh_key *keys, size_t count,
                            enum kvh_tier *tiers, const struct kvh_call *call)
{
	struct reference *ref = self;

	(void)call;
	lock(ref);
	for (size_t i = 0; i < count; i++) {
		if (ref->mutant == MUTANT_TIERS_LIE || find_valid(ref, &keys[i]))
			tiers[i] = KVH_TIER_MEMORY;
	}
	unlock(ref);
	return KVH_OK;
}

static kvh_status ref_take_evicted(void *self, struct kvh_evicted_key *keys, size_t capacity,
                                   size_t *count, bool *lost)
{
	struct reference *ref = self;

	lock(ref);
	if (ref->ring_in - ref->ring_out > RING) {
		*lost = ref->mutant != MUTANT_FEED_OVERRUN_SILENT;
		ref->ring_out = ref->ring_in - RING;
	}
	while (*count < capacity && ref->ring_out < ref->ring_in)
		keys[(*count)++] = ref->ring[ref->ring_out++ % RING];
	unlock(ref);
	return KVH_OK;
}

static kvh_status ref_quiesce(void *self, kvh_deadline deadline_ns)
{
	(void)self, (void)deadline_ns;
	return KVH_OK;
}

static kvh_status ref_stats(void *self, struct kvh_store_stats *stats)
{
	struct reference *ref = self;

	lock(ref);
	for (const struct object *object = ref->objects; object; object = object->next) {
		stats->objects += object->state == VALID;
		stats->reserved_objects += object->state == HELD;
	}
	stats->used_bytes = ref->used_bytes;
	stats->capacity_bytes = ref->capacity_bytes;
	stats->evicted_keys = ref->evicted_keys;
	stats->evicted_bytes = ref->evicted_bytes;
	stats->expired_keys = ref->expired_keys;
	if (ref->mutant == MUTANT_COUNTS_NOTHING)
		stats->objects = stats->used_bytes = 0;
	unlock(ref);
	return KVH_OK;
}

static kvh_status ref_register(void *self, kvh_region_id region, void *addr, size_t bytes,
                               enum kvh_memory_kind kind, struct kvh_error *error)
{
	(void)self, (void)region, (void)addr, (void)bytes, (void)kind, (void)error;
	return KVH_OK;
}

static kvh_status ref_unregister(void *self, kvh_region_id region, kvh_deadline deadline_ns)
{
	(void)self, (void)region, (void)deadline_ns;
	return KVH_OK;
}

static kvh_status intern(struct reference *ref, const struct kvh_prefix *prefix,
                         uint32_t *prefix_id)
{
	const struct kvh_prefix_entry *entry = kvh_prefix_find(&ref->prefixes, prefix);

	if (!entry && ref->mutant == MUTANT_IGNORES_IDENTITY)
		entry = kvh_prefix_by_text(&ref->prefixes, prefix->text, prefix->text_bytes);
	*prefix_id = entry ? entry->id : ref->prefix_count;
	if (prefix->quota_bytes)
		ref->quotas[*prefix_id] = prefix->quota_bytes;
	return entry ? KVH_OK : kvh_prefix_add(&ref->prefixes, prefix, ref->prefix_count++);
}

static kvh_status ref_prefix(void *self, const struct kvh_prefix *prefix, uint32_t *prefix_id,
                             struct kvh_error *error)
{
	struct reference *ref = self;
	kvh_status status;

	(void)error;
	lock(ref);
	status = intern(ref, prefix, prefix_id);
	unlock(ref);
	return status;
}

static void ref_caps(void *self, struct kvh_store_caps *caps)
{
	const struct reference *ref = self;

	*caps = (struct kvh_store_caps){
		.struct_bytes = sizeof(*caps),
		.hold = true,
		.lifecycle = true,
		.tiers = true,
		.evicted = true,
		.list = true,
		.capacity_bytes = ref->capacity_bytes,
		.replicas_max = 1,
	};
}

static void ref_close(void *self)
{
	struct reference *ref = self;

	while (ref->objects)
		reference_drop(ref, ref->objects);
	kvh_prefix_table_fini(&ref->prefixes);
	kvh_map_fini(&ref->map);
	ref->env->ops->mutex_destroy(ref->env->ctx, ref->lock);
	free(ref);
}

static const struct kvh_store_ops reference_ops = {
	.struct_bytes = sizeof(reference_ops),
	.name = "reference",
	.caps = ref_caps,
	.register_region = ref_register,
	.unregister_region = ref_unregister,
	.prefix = ref_prefix,
	.exists = ref_exists,
	.put = ref_put,
	.get = ref_get,
	.remove = ref_remove,
	.commit = ref_commit,
	.abort = ref_abort,
	.clear = ref_clear,
	.tiers = ref_tiers,
	.take_evicted = ref_take_evicted,
	.quiesce = ref_quiesce,
	.stats = ref_stats,
	.close = ref_close,
	.list = reference_list,
};

kvh_status reference_open(uint64_t capacity_bytes, enum mutant mutant,
                          const struct kvh_store_options *options, struct kvh_store **store,
                          struct kvh_error *error)
{
	struct kvh_store_ops ops = reference_ops;
	struct reference *ref = calloc(1, sizeof(*ref));
	kvh_status status;

	if (!ref)
		return KVH_NO_MEMORY;
	ref->env = options->env;
	ref->mutant = mutant;
	ref->capacity_bytes = capacity_bytes;
	status = ref->env->ops->mutex_create(ref->env->ctx, &ref->lock);
	if (status == KVH_OK)
		status = kvh_map_init(&ref->map);
	if (status) {
		free(ref);
		return status;
	}
	if (mutant == MUTANT_CLAIMS_HOLD)
		ops.abort = ops.commit = NULL;
	return kvh_store_open_ops(&ops, ref, options, store, error);
}
