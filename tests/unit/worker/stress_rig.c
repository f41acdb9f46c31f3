/* SPDX-License-Identifier: Apache-2.0 */
/* The checking store and its worker. */
#include "unit/worker/stress_rig.h"

#include <stdlib.h>
#include <string.h>

#include <kvhold/store_ops.h>

#include "base/lock.h"
#include "base/map.h"
#include "unit/base/unit.h"

enum { HASH_BYTES = 32, PREFIXES_MAX = 256, CACHE_ALIGN = 64 };

struct object_key {
	uint32_t prefix_id;
	uint32_t reserved;
	uint64_t word;
};

struct object {
	struct kvh_map_entry entry;
	struct object_key key;
	uint64_t words[RIG_BLOCK_WORDS];
};

/* Bytes that move on their own after their call returned. */
struct late {
	bool is_write; /* into the block; else out of it */
	uint64_t *block;
	uint64_t word;
	uint64_t identity;
};

struct rig {
	struct rig_options options;
	const struct kvh_env *env;
	struct kvh_store *store;
	struct kvh_worker *worker;
	uint64_t *cache;
	size_t block_count;
	struct kvh_mutex *mutex; /* guards what follows */
	struct kvh_map objects;
	struct late late[RIG_LATE_MAX];
	size_t late_count;
	uint64_t foreign_count;
	size_t region_count; /* of one thread */
	uint64_t identities[PREFIXES_MAX];
	struct {
		char text[KVH_PREFIX_TEXT_BYTES_MAX];
		size_t text_bytes;
	} prefixes[PREFIXES_MAX];
	uint32_t prefix_count;
};

static void lock(struct rig *rig)
{
	rig->env->ops->mutex_lock(rig->env->ctx, rig->mutex);
}

static void unlock(struct rig *rig)
{
	rig->env->ops->mutex_unlock(rig->env->ctx, rig->mutex);
}

static uint64_t content(uint64_t word, uint64_t identity, size_t i)
{
	uint64_t seed = word * 1000003 + identity * 7919 + i;

	return draw(&seed);
}

void rig_fill(uint64_t *block, uint64_t word, uint64_t identity)
{
	for (size_t i = 0; i < RIG_BLOCK_WORDS; i++)
		block[i] = content(word, identity, i);
}

bool rig_holds(const uint64_t *block, uint64_t word, uint64_t identity)
{
	for (size_t i = 0; i < RIG_BLOCK_WORDS; i++) {
		if (block[i] != content(word, identity, i))
			return false;
	}
	return true;
}

/* ---- the store ---- */

static void store_caps(void *self, struct kvh_store_caps *caps)
{
	const struct rig *rig = self;

	caps->stop_ms_max = rig->options.stop_ms_max;
	caps->tiers = rig->options.tier != 0;
}

static kvh_status begin(struct rig *rig, enum rig_call call, const struct kvh_call *store_call)
{
	return rig->options.begin ? rig->options.begin(rig->options.user, call, store_call)
	                          : KVH_OK;
}

static int64_t ask_key(struct rig *rig, enum rig_call call, uint64_t word)
{
	return rig->options.key ? rig->options.key(rig->options.user, call, word) : 0;
}

static kvh_status store_register(void *self, kvh_region_id region, void *addr, size_t bytes,
                                 enum kvh_memory_kind kind, struct kvh_error *error)
{
	struct rig *rig = self;

	(void)region;
	(void)addr;
	(void)bytes;
	(void)kind;
	(void)error;
	rig->region_count++;
	return KVH_OK;
}

static kvh_status store_unregister(void *self, kvh_region_id region, kvh_deadline deadline_ns)
{
	struct rig *rig = self;
	kvh_status status = begin(rig, RIG_UNREGISTER, NULL);

	(void)region;
	(void)deadline_ns;
	if (status)
		return status;
	if (rig->options.unregister_confirms)
		rig_land(rig, RIG_LATE_MAX);
	if (rig_late_count(rig))
		return KVH_TIMEOUT;
	rig->region_count--;
	return KVH_OK;
}

static kvh_status store_prefix(void *self, const struct kvh_prefix *prefix, uint32_t *prefix_id,
                               struct kvh_error *error)
{
	struct rig *rig = self;
	uint64_t identity = 0;
	uint32_t id = 0;

	(void)error;
	memcpy(&identity, prefix->identity, sizeof(identity));
	lock(rig);
	while (id < rig->prefix_count &&
	       (rig->identities[id] != identity ||
	        rig->prefixes[id].text_bytes != prefix->text_bytes ||
	        memcmp(rig->prefixes[id].text, prefix->text, prefix->text_bytes) != 0))
		id++;
	if (id == rig->prefix_count && id < PREFIXES_MAX) {
		rig->identities[id] = identity;
		memcpy(rig->prefixes[id].text, prefix->text, prefix->text_bytes);
		rig->prefixes[id].text_bytes = prefix->text_bytes;
		rig->prefix_count++;
	}
	unlock(rig);
	*prefix_id = id;
	return id < PREFIXES_MAX ? KVH_OK : KVH_BUSY;
}

static struct object_key key_of(const struct kvh_key *key)
{
	struct object_key out = {.prefix_id = key->prefix_id};

	memcpy(&out.word, key->hash, sizeof(out.word));
	return out;
}

static struct object *find(struct rig *rig, const struct object_key *key)
{
	return (struct object *)kvh_map_get(&rig->objects, key, sizeof(*key));
}

static uint64_t *block_of(const struct kvh_value *value)
{
	const struct kvh_segment_template *one = kvh_layout_get_view(value->layout)->templates;

	return (uint64_t *)((char *)one->base + value->block_id * one->stride_bytes);
}

static kvh_status store_exists(void *self, const struct kvh_batch *batch, uint32_t flags,
                               const struct kvh_call *call)
{
	struct rig *rig = self;
	kvh_status status = begin(rig, RIG_EXISTS, call);

	(void)flags;
	for (size_t i = 0; !status && i < batch->count; i++) {
		struct object_key key = key_of(&batch->keys[i]);

		lock(rig);
		batch->results[i].value = find(rig, &key) != NULL;
		unlock(rig);
	}
	return status;
}

static void keep(struct rig *rig, const struct object_key *key, const uint64_t *words)
{
	struct object *object = calloc(1, sizeof(*object));

	assert_non_null(object);
	object->key = *key;
	object->entry.key = &object->key;
	object->entry.key_bytes = sizeof(object->key);
	memcpy(object->words, words, sizeof(object->words));
	lock(rig);
	if (find(rig, key))
		free(object);
	else
		kvh_map_put(&rig->objects, &object->entry);
	unlock(rig);
}

static void add_late(struct rig *rig, const struct late *late)
{
	lock(rig);
	assert_true(rig->late_count < RIG_LATE_MAX);
	rig->late[rig->late_count++] = *late;
	unlock(rig);
}

static void put_key(struct rig *rig, const struct kvh_batch *batch, size_t i)
{
	struct object_key key = key_of(&batch->keys[i]);
	uint64_t *block = block_of(&batch->values[i]);
	uint64_t identity = rig->identities[key.prefix_id];
	int64_t fate = ask_key(rig, RIG_PUT, key.word);
	uint64_t words[RIG_BLOCK_WORDS];

	batch->results[i].value = fate;
	if (fate == KVH_IN_DOUBT) {
		const struct late late = {.block = block, .word = key.word, .identity = identity};

		batch->results[i].flags &= ~(uint32_t)KVH_RESULT_QUIET;
		add_late(rig, &late);
	}
	if (fate)
		return;
	memcpy(words, block, sizeof(words));
	if (!rig_holds(words, key.word, identity)) {
		lock(rig);
		rig->foreign_count++;
		unlock(rig);
	}
	keep(rig, &key, words);
}

static void get_key(struct rig *rig, const struct kvh_batch *batch, size_t i)
{
	struct object_key key = key_of(&batch->keys[i]);
	uint64_t *block = block_of(&batch->values[i]);
	int64_t fate = ask_key(rig, RIG_GET, key.word);
	const struct object *object;
	uint64_t words[RIG_BLOCK_WORDS];

	batch->results[i].value = fate;
	if (fate == KVH_IN_DOUBT) {
		const struct late late = {.is_write = true, .block = block, .word = key.word};

		batch->results[i].flags &= ~(uint32_t)KVH_RESULT_QUIET;
		add_late(rig, &late);
	}
	if (fate)
		return;
	lock(rig);
	object = find(rig, &key);
	if (object)
		memcpy(words, object->words, sizeof(words));
	unlock(rig);
	batch->results[i].value = object ? RIG_BLOCK_BYTES : KVH_OBJECT_NOT_FOUND;
	if (object)
		memcpy(block, words, sizeof(words));
}

static kvh_status move_all(struct rig *rig, enum rig_call what, const struct kvh_batch *batch,
                           const struct kvh_call *call)
{
	kvh_status status = begin(rig, what, call);

	for (size_t i = 0; !status && i < batch->count; i++) {
		if (call->cancel && kvh_cancel_requested(call->cancel))
			return KVH_CANCELLED;
		if (kvh_deadline_passed(rig->env, call->deadline_ns))
			return KVH_TIMEOUT;
		if (what == RIG_PUT)
			put_key(rig, batch, i);
		else
			get_key(rig, batch, i);
	}
	return status;
}

static kvh_status store_put(void *self, const struct kvh_batch *batch,
                            const struct kvh_put_options *options, const struct kvh_call *call)
{
	(void)options;
	return move_all(self, RIG_PUT, batch, call);
}

static kvh_status store_get(void *self, const struct kvh_batch *batch, const struct kvh_call *call)
{
	return move_all(self, RIG_GET, batch, call);
}

static kvh_status store_tiers(void *self, const struct kvh_key *keys, size_t count,
                              enum kvh_tier *tiers, const struct kvh_call *call)
{
	const struct rig *rig = self;

	(void)keys;
	(void)call;
	for (size_t i = 0; i < count; i++)
		tiers[i] = (enum kvh_tier)rig->options.tier;
	return KVH_OK;
}

static kvh_status store_quiesce(void *self, kvh_deadline deadline_ns)
{
	struct rig *rig = self;
	size_t late_count = rig_late_count(rig); /* before: what comes later isn't asked about */
	kvh_status status = begin(rig, RIG_QUIESCE, NULL);

	(void)deadline_ns;
	if (status)
		return status;
	return late_count ? KVH_TIMEOUT : KVH_OK;
}

static const struct kvh_store_ops store_ops = {.struct_bytes = sizeof(store_ops),
                                               .name = "rig",
                                               .caps = store_caps,
                                               .register_region = store_register,
                                               .unregister_region = store_unregister,
                                               .prefix = store_prefix,
                                               .exists = store_exists,
                                               .put = store_put,
                                               .get = store_get,
                                               .tiers = store_tiers,
                                               .quiesce = store_quiesce};

/* ---- bytes that move late ---- */

size_t rig_late_count(struct rig *rig)
{
	size_t count;

	lock(rig);
	count = rig->late_count;
	unlock(rig);
	return count;
}

/* The lock is held while they move: a count of 0 says that all have. */
size_t rig_land(struct rig *rig, size_t count)
{
	size_t landed = 0;

	lock(rig);
	for (; landed < count && landed < rig->late_count; landed++) {
		const struct late *late = &rig->late[landed];

		if (late->is_write)
			memset(late->block, 0xdd, RIG_BLOCK_BYTES);
		else if (!rig_holds(late->block, late->word, late->identity))
			rig->foreign_count++;
	}
	rig->late_count -= landed;
	memmove(rig->late, rig->late + landed, rig->late_count * sizeof(rig->late[0]));
	unlock(rig);
	return landed;
}

/* ---- objects ---- */

uint64_t rig_foreign_count(struct rig *rig)
{
	uint64_t count;

	lock(rig);
	count = rig->foreign_count;
	unlock(rig);
	return count;
}

void rig_put_object(struct rig *rig, uint64_t word, uint64_t identity)
{
	uint64_t words[RIG_BLOCK_WORDS];

	rig_fill(words, word, identity);
	for (uint32_t id = 0; id < rig->prefix_count; id++) {
		const struct object_key key = {.prefix_id = id, .word = word};

		if (rig->identities[id] == identity)
			keep(rig, &key, words);
	}
}

void rig_forget_objects(struct rig *rig)
{
	struct kvh_map_entry *entry;

	lock(rig);
	while ((entry = kvh_map_next(&rig->objects, NULL))) {
		kvh_map_remove(&rig->objects, entry);
		free(entry);
	}
	unlock(rig);
}

size_t rig_object_count(struct rig *rig)
{
	size_t count;

	lock(rig);
	count = rig->objects.count;
	unlock(rig);
	return count;
}

/* ---- the worker ---- */

struct rig *rig_prepare(const struct rig_options *options)
{
	struct rig *rig = calloc(1, sizeof(*rig));
	struct kvh_store_options store_options = {.struct_bytes = sizeof(store_options)};

	assert_non_null(rig);
	rig->options = *options;
	rig->env = options->env ? options->env : kvh_env_posix();
	rig->block_count = options->block_count ? options->block_count : 64;
	rig->cache = aligned_alloc(CACHE_ALIGN, rig->block_count * RIG_BLOCK_BYTES);
	assert_non_null(rig->cache);
	memset(rig->cache, 0, rig->block_count * RIG_BLOCK_BYTES);
	assert_int_equal(kvh_map_init(&rig->objects), KVH_OK);
	assert_int_equal(rig->env->ops->mutex_create(rig->env->ctx, &rig->mutex), KVH_OK);
	store_options.env = rig->env;
	assert_int_equal(kvh_store_open_ops(&store_ops, rig, &store_options, &rig->store, NULL),
	                 KVH_OK);
	return rig;
}

kvh_status rig_open_worker(struct rig *rig, struct kvh_error *error)
{
	static const struct kvh_group group = {.kind = KVH_ATTENTION_FULL,
	                                       .block_tokens = RIG_BLOCK_TOKENS};
	const struct rig_options *options = &rig->options;
	const uint64_t identity = 0;
	const struct kvh_worker_config config = {
		.struct_bytes = sizeof(config),
		.env = rig->env,
		.log = options->log,
		.identity = &identity,
		.identity_bytes = sizeof(identity),
		.model = "m",
		.groups = &group,
		.group_count = 1,
		.hash_tokens = RIG_BLOCK_TOKENS,
		.hash_bytes = HASH_BYTES,
		.events = options->events,
		.tier_log = options->tier != 0,
		.load_threads = options->load_threads,
		.max_queued_jobs = options->max_queued_jobs,
		.max_queued_bytes = options->max_queued_bytes,
		.load_timeout_ms = options->load_timeout_ms ? options->load_timeout_ms : -1};

	return kvh_worker_open(rig->store, &config, &rig->worker, error);
}

kvh_status rig_register(struct rig *rig, struct kvh_error *error)
{
	const uint64_t block_count = rig->block_count;
	const struct kvh_memory memory = {.addr = rig->cache,
	                                  .bytes = block_count * RIG_BLOCK_BYTES,
	                                  .kind = KVH_MEMORY_HOST};
	const struct kvh_cache_region region = {.base = rig->cache,
	                                        .stride_bytes = RIG_BLOCK_BYTES,
	                                        .block_bytes = RIG_BLOCK_BYTES};
	const struct kvh_caches caches = {.struct_bytes = sizeof(caches),
	                                  .memory = &memory,
	                                  .memory_count = 1,
	                                  .regions = &region,
	                                  .region_count = 1,
	                                  .block_counts = &block_count};

	return kvh_worker_register_caches(rig->worker, &caches, error);
}

struct rig *rig_open(const struct rig_options *options)
{
	struct rig *rig = rig_prepare(options);

	assert_int_equal(rig_open_worker(rig, NULL), KVH_OK);
	assert_int_equal(rig_register(rig, NULL), KVH_OK);
	return rig;
}

void rig_close(struct rig *rig)
{
	kvh_worker_destroy(rig->worker);
	assert_int_equal(kvh_store_close(rig->store, 0), KVH_OK);
	rig_forget_objects(rig);
	kvh_map_fini(&rig->objects);
	rig->env->ops->mutex_destroy(rig->env->ctx, rig->mutex);
	free(rig->cache);
	free(rig);
}

struct kvh_worker *rig_worker(struct rig *rig)
{
	return rig->worker;
}

size_t rig_region_count(struct rig *rig)
{
	return rig->region_count;
}

uint64_t *rig_block(struct rig *rig, int32_t block_id)
{
	return rig->cache + (size_t)block_id * RIG_BLOCK_WORDS;
}

static void make_hashes(const struct rig_job *job, uint8_t hashes[RIG_CHUNKS_MAX][HASH_BYTES])
{
	assert_true(job->count <= RIG_CHUNKS_MAX);
	memset(hashes, 0x5a, sizeof(hashes[0]) * RIG_CHUNKS_MAX);
	for (size_t i = 0; i < job->count; i++) {
		uint64_t word = job->word + i;

		memcpy(hashes[i], &word, sizeof(word));
	}
}

struct kvh_request_id rig_request(const char *text)
{
	return (struct kvh_request_id){.data = text, .bytes = strlen(text)};
}

kvh_status rig_save(struct rig *rig, const struct rig_job *job, struct kvh_error *error)
{
	uint8_t hashes[RIG_CHUNKS_MAX][HASH_BYTES];
	const struct kvh_block_table table = {.ids = job->ids, .count = job->count};
	const struct kvh_save_job save = {.struct_bytes = sizeof(save),
	                                  .job_id = job->job_id,
	                                  .user = job->job_id + 1,
	                                  .request = rig_request(job->request),
	                                  .token_count = job->count * RIG_BLOCK_TOKENS,
	                                  .blocks = &table,
	                                  .hashes = hashes[0],
	                                  .hash_count = job->count};

	make_hashes(job, hashes);
	return kvh_worker_save(rig->worker, &save, error);
}

kvh_status rig_load(struct rig *rig, const struct rig_job *job, struct kvh_error *error)
{
	uint8_t hashes[RIG_CHUNKS_MAX][HASH_BYTES];
	const struct kvh_block_table table = {.ids = job->ids, .count = job->count};
	const struct kvh_load_job load = {.struct_bytes = sizeof(load),
	                                  .job_id = job->job_id,
	                                  .user = job->job_id + 1,
	                                  .request = rig_request(job->request),
	                                  .token_count = job->count * RIG_BLOCK_TOKENS,
	                                  .blocks = &table,
	                                  .hashes = hashes[0],
	                                  .hash_count = job->count};

	make_hashes(job, hashes);
	return kvh_worker_load(rig->worker, &load, error);
}

kvh_status rig_set_identity(struct rig *rig, uint64_t identity, struct kvh_error *error)
{
	return kvh_worker_set_epoch(rig->worker, &identity, sizeof(identity), error);
}

bool rig_poll(struct rig *rig, struct kvh_completion *out)
{
	size_t count = 0;

	assert_int_equal(kvh_worker_poll(rig->worker, out, sizeof(*out), 1, &count), KVH_OK);
	return count == 1;
}

struct kvh_worker_stats rig_stats(struct rig *rig)
{
	struct kvh_worker_stats stats = {.struct_bytes = sizeof(stats)};

	assert_int_equal(kvh_worker_get_stats(rig->worker, &stats), KVH_OK);
	return stats;
}
