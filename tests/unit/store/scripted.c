/* SPDX-License-Identifier: Apache-2.0 */
/* The scripted backend. */
#include "scripted.h"

#include <stdlib.h>
#include <string.h>

static void enter(struct scripted *scripted)
{
	const struct kvh_env *env = kvh_env_posix();

	__atomic_fetch_add(&scripted->calls, 1, __ATOMIC_RELAXED);
	__atomic_fetch_add(&scripted->inside, 1, __ATOMIC_SEQ_CST);
	while (__atomic_load_n(&scripted->hold, __ATOMIC_SEQ_CST))
		env->ops->sleep_ns(env->ctx, 100000);
	__atomic_fetch_sub(&scripted->inside, 1, __ATOMIC_SEQ_CST);
}

static kvh_status answer(struct scripted *scripted, const struct kvh_batch *batch,
                         const struct kvh_call *call)
{
	enter(scripted);
	if (!scripted->many_threads) {
		scripted->last_count = batch->count;
		scripted->last_call = *call;
	}
	for (size_t i = 0; i < batch->count; i++)
		batch->results[i].value = scripted->value;
	return scripted->answer;
}

static void s_caps(void *self, struct kvh_store_caps *caps)
{
	*caps = ((struct scripted *)self)->caps;
}

static kvh_status s_register(void *self, kvh_region_id region, void *addr, size_t bytes,
                             enum kvh_memory_kind kind, struct kvh_error *error)
{
	(void)region, (void)addr, (void)bytes, (void)kind, (void)error;
	enter(self);
	return ((struct scripted *)self)->answer;
}

static kvh_status s_unregister(void *self, kvh_region_id region, kvh_deadline deadline_ns)
{
	(void)region, (void)deadline_ns;
	enter(self);
	return ((struct scripted *)self)->answer;
}

static kvh_status s_prefix(void *self, const struct kvh_prefix *prefix, uint32_t *prefix_id,
                           struct kvh_error *error)
{
	struct scripted *scripted = self;

	(void)prefix, (void)error;
	enter(self);
	*prefix_id = scripted->next_prefix_id++;
	return scripted->answer;
}

static kvh_status s_exists(void *self, const struct kvh_batch *batch, uint32_t flags,
                           const struct kvh_call *call)
{
	(void)flags;
	return answer(self, batch, call);
}

static kvh_status s_put(void *self, const struct kvh_batch *batch,
                        const struct kvh_put_options *options, const struct kvh_call *call)
{
	struct scripted *scripted = self;

	if (!scripted->many_threads)
		scripted->last_put = *options;
	return answer(self, batch, call);
}

static kvh_status s_batch(void *self, const struct kvh_batch *batch, const struct kvh_call *call)
{
	return answer(self, batch, call);
}

static kvh_status s_tokens(void *self, const struct kvh_token *tokens, size_t count,
                           struct kvh_result *results)
{
	struct scripted *scripted = self;

	(void)tokens;
	enter(self);
	for (size_t i = 0; i < count; i++)
		results[i].value = scripted->value;
	return scripted->answer;
}

static kvh_status s_clear(void *self, const struct kvh_call *call, uint64_t *removed)
{
	(void)call;
	enter(self);
	*removed = 3;
	return ((struct scripted *)self)->answer;
}

static kvh_status s_tiers(void *self, const struct kvh_key *keys, size_t count,
                          enum kvh_tier *tiers, const struct kvh_call *call)
{
	(void)keys, (void)call;
	enter(self);
	for (size_t i = 0; i < count; i++)
		tiers[i] = KVH_TIER_DISK;
	return ((struct scripted *)self)->answer;
}

static kvh_status s_take_evicted(void *self, struct kvh_evicted_key *keys, size_t capacity,
                                 size_t *count, bool *lost)
{
	(void)keys, (void)capacity;
	enter(self);
	*count = ((struct scripted *)self)->evicted_count;
	*lost = true;
	return ((struct scripted *)self)->answer;
}

static kvh_status s_quiesce(void *self, kvh_deadline deadline_ns)
{
	(void)deadline_ns;
	enter(self);
	return ((struct scripted *)self)->answer;
}

static kvh_status s_list(void *self, const struct kvh_list *list, uint64_t *cursor, size_t *count,
                         const struct kvh_call *call)
{
	struct scripted *scripted = self;

	(void)call;
	enter(self);
	list->objects[0] = scripted->listed;
	*count = scripted->listed_count;
	*cursor += 5;
	return scripted->answer;
}

static kvh_status s_prefix_at(void *self, uint32_t prefix_id, char *text, struct kvh_prefix *prefix)
{
	const struct scripted *scripted = self;

	enter(self);
	if (prefix_id != 7 || !scripted->told.text)
		return KVH_OBJECT_NOT_FOUND;
	*prefix = scripted->told;
	if (scripted->text_elsewhere)
		return KVH_OK;
	memcpy(text, prefix->text, prefix->text_bytes);
	prefix->text = text;
	return KVH_OK;
}

static kvh_status s_stats(void *self, struct kvh_store_stats *stats)
{
	(void)self;
	stats->objects = 5;
	stats->capacity_bytes = 1000;
	return KVH_OK;
}

static void s_close(void *self)
{
	((struct scripted *)self)->closed++;
}

const struct kvh_store_ops *scripted_ops(void)
{
	static const struct kvh_store_ops ops = {
		.struct_bytes = sizeof(ops),
		.name = "scripted",
		.caps = s_caps,
		.register_region = s_register,
		.unregister_region = s_unregister,
		.prefix = s_prefix,
		.exists = s_exists,
		.put = s_put,
		.get = s_batch,
		.remove = s_batch,
		.commit = s_tokens,
		.abort = s_tokens,
		.clear = s_clear,
		.tiers = s_tiers,
		.take_evicted = s_take_evicted,
		.quiesce = s_quiesce,
		.stats = s_stats,
		.close = s_close,
		.list = s_list,
		.prefix_at = s_prefix_at,
	};

	return &ops;
}

static void keep_line(void *user, enum kvh_log_level level, const char *line)
{
	struct scripted *scripted = user;

	(void)level;
	pthread_mutex_lock(&scripted->log_lock);
	strncpy(scripted->log, line, sizeof(scripted->log) - 1);
	pthread_mutex_unlock(&scripted->log_lock);
}

struct scripted *scripted_new(void)
{
	struct scripted *scripted = calloc(1, sizeof(*scripted));

	assert_non_null(scripted);
	assert_int_equal(pthread_mutex_init(&scripted->log_lock, NULL), 0);
	scripted->caps = (struct kvh_store_caps){
		.struct_bytes = sizeof(scripted->caps),
		.hold = true,
		.lifecycle = true,
		.tiers = true,
		.evicted = true,
		.list = true,
		.replicas_max = 2,
	};
	return scripted;
}

void scripted_open(struct scripted *scripted)
{
	const struct kvh_store_options options = {
		.struct_bytes = sizeof(options),
		.log = {.fn = keep_line, .user = scripted},
	};
	const struct kvh_prefix prefix = {
		.struct_bytes = sizeof(prefix),
		.text = "s@0@",
		.text_bytes = 4,
		.family_bytes = 2,
		.hash_bytes = 8,
	};

	assert_int_equal(
		kvh_store_open_ops(scripted_ops(), scripted, &options, &scripted->store, NULL),
		KVH_OK);
	assert_int_equal(kvh_store_register(scripted->store, scripted->memory,
	                                    SCRIPTED_MEMORY_BYTES, KVH_MEMORY_HOST,
	                                    &scripted->region, NULL),
	                 KVH_OK);
	assert_int_equal(kvh_store_prefix(scripted->store, &prefix, &scripted->prefix_id, NULL),
	                 KVH_OK);
	memcpy(scripted->hash, "12345678", 8);
	scripted->key = (struct kvh_key){scripted->hash, 8, scripted->prefix_id};
	scripted->segment = (struct kvh_segment){scripted->memory, 64};
	scripted->value_of_key =
		(struct kvh_value){.segments = &scripted->segment, .segment_count = 1};
	scripted->batch =
		(struct kvh_batch){1, &scripted->key, &scripted->value_of_key, &scripted->result};
	scripted->calls = 0;
}

int scripted_setup(void **state)
{
	struct scripted *scripted = scripted_new();

	scripted_open(scripted);
	*state = scripted;
	return 0;
}

int scripted_teardown(void **state)
{
	struct scripted *scripted = *state;

	if (scripted->store) {
		scripted->answer = KVH_OK;
		assert_int_equal(kvh_store_close(scripted->store, 0), KVH_OK);
		assert_int_equal(scripted->closed, 1);
	}
	free(scripted);
	return 0;
}
