/* SPDX-License-Identifier: Apache-2.0 */
/* A worker on a fake store, moved step by step. */
#include "rig.h"

#include <stdlib.h>

static void on_line(void *user, enum kvh_log_level level, const char *line)
{
	struct world *world = user;
	size_t room = sizeof(world->lines) - world->line_bytes;
	int bytes = snprintf(world->lines + world->line_bytes, room, "%d %s\n", (int)level, line);

	if (bytes > 0 && (size_t)bytes < room)
		world->line_bytes += (size_t)bytes;
}

static void on_record(void *user, const struct kvh_record *record)
{
	static const char *const names[] = {"exists", "put", "get"};
	static const char *const states[] = {"ok", "partial_failure", "error"};
	struct world *world = user;
	size_t room = sizeof(world->records) - world->record_bytes;
	int bytes = snprintf(world->records + world->record_bytes, room,
	                     "%s %s %zu keys %zu failed %llu bytes\n", names[record->name],
	                     states[record->status], record->key_count, record->failed_count,
	                     (unsigned long long)record->bytes);

	if (bytes > 0 && (size_t)bytes < room)
		world->record_bytes += (size_t)bytes;
}

static kvh_status classify(void *ctx, const void *addr, enum kvh_memory_kind *kind)
{
	(void)ctx, (void)addr;
	*kind = KVH_MEMORY_HOST;
	return KVH_OK;
}

static kvh_status event_wait(void *ctx, void *opaque, kvh_deadline deadline_ns)
{
	struct world *world = ctx;
	struct rig_event *event = opaque;
	uint64_t now_ns = coenv_env(world->coenv)->ops->now_ns(world->coenv);

	if (++event->waits == event->cancel_at)
		kvh_worker_cancel(event->rig->worker, event->cancel_job,
		                  &(enum kvh_cancel_outcome){0});
	fake_log(&world->fake, "event\n");
	if (event->timeouts) {
		event->timeouts--;
		if (deadline_ns > now_ns)
			coenv_advance_ns(world->coenv, deadline_ns - now_ns);
		return KVH_TIMEOUT;
	}
	return event->status;
}

static const struct kvh_device_ops device_ops = {
	.struct_bytes = sizeof(device_ops), .classify = classify, .event_wait = event_wait};

struct world *world_open(void)
{
	return world_open_with(NULL);
}

struct world *world_open_with(const struct kvh_store_caps *caps)
{
	struct world *world = calloc(1, sizeof(*world));
	struct kvh_store_options options = {.struct_bytes = sizeof(options)};

	assert_non_null(world);
	world->coenv = coenv_open();
	options.env = coenv_env(world->coenv);
	world->device = (struct kvh_device){.ops = &device_ops, .ctx = world};
	fake_init(&world->fake);
	if (caps)
		world->fake.caps = *caps;
	assert_int_equal(
		kvh_store_open_ops(fake_ops(), &world->fake, &options, &world->store, NULL),
		KVH_OK);
	return world;
}

void world_close(struct world *world)
{
	assert_int_equal(kvh_store_close(world->store, 0), KVH_OK);
	assert_true(world->fake.closed);
	fake_fini(&world->fake);
	coenv_close(world->coenv);
	free(world);
}

void rig_add_group(struct rig *rig, enum kvh_attention kind, uint32_t block_tokens,
                   uint32_t window_tokens)
{
	size_t g = rig->config.group_count++;

	rig->groups[g] = (struct kvh_group){
		.kind = kind, .block_tokens = block_tokens, .window_tokens = window_tokens};
	rig->block_bytes[g] = 64 * (size_t)block_tokens;
}

void rig_init_in(struct rig *rig, struct world *world)
{
	memset(rig, 0, sizeof(*rig));
	rig->world = world;
	rig->block_count = 256;
	rig->config = (struct kvh_worker_config){
		.struct_bytes = sizeof(rig->config),
		.env = coenv_env(world->coenv),
		.device = &world->device,
		.log = {.fn = on_line, .user = world, .level = KVH_LOG_DEBUG},
		.identity = "id",
		.identity_bytes = 2,
		.model = "org/m/",
		.groups = rig->groups,
		.hash_tokens = 16,
		.record = on_record,
		.record_user = world};
	rig_add_group(rig, KVH_ATTENTION_FULL, 16, 0);
	rig_reset_ids(rig);
}

void rig_init(struct rig *rig)
{
	rig_init_in(rig, world_open());
	rig->owns_world = true;
}

void rig_reset_ids(struct rig *rig)
{
	for (size_t g = 0; g < RIG_GROUPS_MAX; g++) {
		for (int32_t i = 0; i < RIG_IDS_MAX; i++)
			rig->ids[g][i] = RIG_BLOCK + i;
	}
}

static size_t stride_of(const struct rig *rig, size_t g)
{
	return rig->stride_bytes[g] ? rig->stride_bytes[g] : rig->block_bytes[g];
}

static size_t regions_of(const struct rig *rig, size_t g)
{
	return rig->region_count[g] ? rig->region_count[g] : 1;
}

void rig_open_worker(struct rig *rig)
{
	kvh_status status =
		kvh_worker_open(rig->world->store, &rig->config, &rig->worker, &rig->error);

	if (status)
		fail_msg("open: %d %s", status, rig->error.text);
}

kvh_status rig_register(struct rig *rig)
{
	struct kvh_memory memory[RIG_GROUPS_MAX] = {{0}};
	struct kvh_cache_region regions[RIG_GROUPS_MAX * RIG_REGIONS_MAX] = {{0}};
	uint64_t block_counts[RIG_GROUPS_MAX];
	const struct kvh_caches caches = {.struct_bytes = sizeof(caches),
	                                  .memory = memory,
	                                  .memory_count = rig->config.group_count,
	                                  .regions = regions,
	                                  .region_count = 0,
	                                  .block_counts = block_counts};
	struct kvh_caches given = caches;

	for (uint32_t g = 0; g < rig->config.group_count; g++) {
		size_t one = stride_of(rig, g) * rig->block_count;

		rig->memory_bytes[g] = one * regions_of(rig, g);
		free(rig->memory[g]);
		rig->memory[g] = calloc(1, rig->memory_bytes[g]);
		assert_non_null(rig->memory[g]);
		memory[g] =
			(struct kvh_memory){.addr = rig->memory[g], .bytes = rig->memory_bytes[g]};
		block_counts[g] = rig->block_count;
		for (size_t r = 0; r < regions_of(rig, g); r++)
			regions[given.region_count++] =
				(struct kvh_cache_region){.group = g,
			                                  .base = rig->memory[g] + r * one,
			                                  .stride_bytes = stride_of(rig, g),
			                                  .block_bytes = rig->block_bytes[g]};
	}
	return kvh_worker_register_caches(rig->worker, &given, &rig->error);
}

void rig_open(struct rig *rig)
{
	uint32_t loads = rig->config.load_threads ? rig->config.load_threads : 1;
	kvh_status status;

	rig_open_worker(rig);
	status = rig_register(rig);
	if (status)
		fail_msg("register: %d %s", status, rig->error.text);
	rig->first_thread = rig->world->thread_count;
	rig->world->thread_count += loads + 1;
	for (uint32_t i = 0; i <= loads; i++)
		coenv_resume(rig->world->coenv, rig->first_thread + i);
}

void rig_close(struct rig *rig)
{
	kvh_worker_destroy(rig->worker);
	for (size_t g = 0; g < RIG_GROUPS_MAX; g++)
		free(rig->memory[g]);
	if (rig->owns_world)
		world_close(rig->world);
}

uint8_t *rig_block(struct rig *rig, uint32_t group, uint32_t region, int32_t block)
{
	return rig->memory[group] +
	       (region * rig->block_count + (uint64_t)block) * stride_of(rig, group);
}

void rig_fill(struct rig *rig, uint32_t group, int32_t block, uint8_t byte)
{
	for (uint32_t r = 0; r < regions_of(rig, group); r++)
		memset(rig_block(rig, group, r, block), byte, rig->block_bytes[group]);
}

static bool all_bytes(const uint8_t *bytes, size_t count, uint8_t byte)
{
	for (size_t i = 0; i < count; i++) {
		if (bytes[i] != byte)
			return false;
	}
	return true;
}

bool rig_block_is(struct rig *rig, uint32_t group, int32_t block, uint8_t byte)
{
	bool is = true;

	for (uint32_t r = 0; r < regions_of(rig, group); r++)
		is = is &&
		     all_bytes(rig_block(rig, group, r, block), rig->block_bytes[group], byte);
	return is;
}

void rig_fill_all(struct rig *rig, unsigned count)
{
	for (uint32_t g = 0; g < rig->config.group_count; g++) {
		for (unsigned i = 0; i < count; i++)
			rig_fill(rig, g, (int32_t)(RIG_BLOCK + i), (uint8_t)(i + 1));
	}
}

struct kvh_request_id rig_id(const char *request)
{
	return (struct kvh_request_id){.data = request, .bytes = strlen(request)};
}

static uint32_t hash_bytes_of(const struct rig *rig)
{
	return rig->config.hash_bytes ? rig->config.hash_bytes : KVH_HASH_BYTES_MAX;
}

/* Tables that just suffice, and hashes to the end of the hash grid. */
static void make_tables(struct rig *rig, uint64_t tokens)
{
	uint32_t hash_bytes = hash_bytes_of(rig);

	for (size_t g = 0; g < rig->config.group_count; g++) {
		uint32_t block_tokens = rig->groups[g].block_tokens;
		uint64_t chunks = block_tokens ? (tokens + block_tokens - 1) / block_tokens : 0;

		assert_true(chunks <= RIG_IDS_MAX);
		rig->tables[g] = (struct kvh_block_table){.ids = rig->ids[g], .count = chunks};
	}
	for (unsigned i = 0; i < RIG_HASHES_MAX; i++)
		fake_hash(rig->chain, i, rig->hashes + i * hash_bytes, hash_bytes);
	assert_true(tokens / rig->config.hash_tokens <= RIG_HASHES_MAX);
}

struct kvh_save_job rig_save_job(struct rig *rig, uint64_t job_id, const char *request,
                                 uint64_t tokens)
{
	make_tables(rig, tokens);
	return (struct kvh_save_job){.struct_bytes = sizeof(struct kvh_save_job),
	                             .job_id = job_id,
	                             .user = job_id + 1000,
	                             .request = rig_id(request),
	                             .token_count = tokens,
	                             .blocks = rig->tables,
	                             .hashes = rig->hashes,
	                             .hash_count = tokens / rig->config.hash_tokens};
}

struct kvh_load_job rig_load_job(struct rig *rig, uint64_t job_id, const char *request,
                                 uint64_t tokens, uint64_t cached)
{
	make_tables(rig, tokens);
	return (struct kvh_load_job){.struct_bytes = sizeof(struct kvh_load_job),
	                             .job_id = job_id,
	                             .user = job_id + 1000,
	                             .request = rig_id(request),
	                             .token_count = tokens,
	                             .cached_token_count = cached,
	                             .blocks = rig->tables,
	                             .hashes = rig->hashes,
	                             .hash_count = tokens / rig->config.hash_tokens};
}

kvh_status rig_submit_save(struct rig *rig, const struct kvh_save_job *job)
{
	return kvh_worker_save(rig->worker, job, &rig->error);
}

kvh_status rig_submit_load(struct rig *rig, const struct kvh_load_job *job)
{
	return kvh_worker_load(rig->worker, job, &rig->error);
}

void rig_save(struct rig *rig, uint64_t job_id, const char *request, uint64_t tokens)
{
	struct kvh_save_job job = rig_save_job(rig, job_id, request, tokens);

	if (rig_submit_save(rig, &job))
		fail_msg("save %llu: %s", (unsigned long long)job_id, rig->error.text);
}

void rig_load(struct rig *rig, uint64_t job_id, const char *request, uint64_t tokens,
              uint64_t cached)
{
	struct kvh_load_job job = rig_load_job(rig, job_id, request, tokens, cached);

	if (rig_submit_load(rig, &job))
		fail_msg("load %llu: %s", (unsigned long long)job_id, rig->error.text);
}

void rig_run_save(struct rig *rig)
{
	coenv_resume(rig->world->coenv, rig->first_thread);
}

void rig_run_load(struct rig *rig)
{
	coenv_resume(rig->world->coenv, rig->first_thread + 1);
}

static void hold(void *user, enum fake_fn fn)
{
	struct rig *rig = user;
	const struct kvh_env *env = coenv_env(rig->world->coenv);

	if (fn != rig->held_fn)
		return;
	rig->world->fake.hook = NULL;
	env->ops->between_jobs(env->ctx); /* back to the test */
}

void rig_hold_next(struct rig *rig, enum fake_fn fn)
{
	rig->held_fn = fn;
	rig->world->fake.hook = hold;
	rig->world->fake.hook_user = rig;
}

void rig_save_and_run(struct rig *rig, uint64_t job_id, const char *request, uint64_t tokens)
{
	rig_save(rig, job_id, request, tokens);
	rig_run_save(rig);
}

void rig_load_and_run(struct rig *rig, uint64_t job_id, const char *request, uint64_t tokens,
                      uint64_t cached)
{
	rig_load(rig, job_id, request, tokens, cached);
	rig_run_load(rig);
}

void rig_preempt(struct rig *rig, const char *request)
{
	assert_int_equal(kvh_worker_preempt(rig->worker, rig_id(request)), KVH_OK);
}

void rig_finish(struct rig *rig, const char *request)
{
	struct kvh_request_id id = rig_id(request ? request : "");

	assert_int_equal(kvh_worker_finish(rig->worker, &id, request != NULL), KVH_OK);
}

void rig_advance_ns(struct rig *rig, uint64_t ns)
{
	coenv_advance_ns(rig->world->coenv, ns);
}

static int event_text(struct rig *rig, const struct kvh_completion *c, char *out, size_t room)
{
	const struct kvh_stored_event *event = c->event;
	char parent[16] = "-", ids[32] = "-";
	int bytes;

	if (event->has_parent)
		snprintf(parent, sizeof(parent), "%u", fake_hash_index(event->parent_hash));
	if (event->has_token_ids)
		snprintf(ids, sizeof(ids), "%d+%zu",
		         event->token_id_count ? event->token_ids[0] : 0, event->token_id_count);
	bytes = snprintf(out, room, "event %llu g%u h%u p%s t%s\n", (unsigned long long)c->job_id,
	                 event->group, fake_hash_index(event->hash), parent, ids);
	rig->event = *event;
	rig->event.token_ids = NULL;
	kvh_stored_event_free(c->event);
	return bytes;
}

static int completion_text(struct rig *rig, const struct kvh_completion *c, char *out, size_t room)
{
	unsigned long long id = c->job_id;

	switch (c->kind) {
	case KVH_SAVE_DONE:
		return snprintf(out, room, "saved %llu %d\n", id, c->status);
	case KVH_LOAD_DONE:
		return snprintf(out, room, "loaded %llu %d\n", id, c->status);
	case KVH_BLOCK_FAILED:
		return snprintf(out, room, "failed %llu g%u i%u b%d %d\n", id, c->group,
		                c->block_index, c->block_id, c->status);
	case KVH_EVENT:
		return event_text(rig, c, out, room);
	case KVH_EVICTED:
		return c->evicted.hash_bytes ? snprintf(out, room, "evicted h%u %d\n",
		                                        fake_hash_index(c->evicted.hash), c->status)
		                             : snprintf(out, room, "evicted h- %d\n", c->status);
	}
	return snprintf(out, room, "kind %d?\n", (int)c->kind);
}

const char *rig_done(struct rig *rig)
{
	static char text[RIG_TEXT_BYTES];
	struct kvh_completion completions[3];
	size_t used = 0, count;

	text[0] = 0;
	do {
		assert_int_equal(kvh_worker_poll(rig->worker, completions, sizeof(completions[0]),
		                                 COUNT_OF(completions), &count),
		                 KVH_OK);
		for (size_t i = 0; i < count; i++) {
			const struct kvh_completion *c = &completions[i];

			if (c->kind != KVH_EVICTED && c->user != c->job_id + 1000)
				fail_msg("job %llu comes back with another user word",
				         (unsigned long long)c->job_id);
			rig->last = *c;
			used += (size_t)completion_text(rig, c, text + used, sizeof(text) - used);
		}
	} while (count);
	return text;
}

const char *rig_calls(struct rig *rig)
{
	return fake_take_log(&rig->world->fake);
}

const char *rig_records(struct rig *rig)
{
	static char taken[RIG_TEXT_BYTES];
	struct world *world = rig->world;

	memcpy(taken, world->records, world->record_bytes);
	taken[world->record_bytes] = 0;
	world->record_bytes = 0;
	return taken;
}

/* What one request looks like inside. */
struct wanted {
	const char *id;
	struct kvh_inspect_request found;
	bool is_there;
};

static void look(void *user, const struct kvh_inspect_request *request)
{
	struct wanted *wanted = user;

	if (request->id_bytes != strlen(wanted->id) ||
	    memcmp(request->id, wanted->id, request->id_bytes) != 0)
		return;
	wanted->found = *request;
	wanted->is_there = true;
}

static struct wanted inspect(struct rig *rig, const char *request)
{
	struct wanted wanted = {.id = request};

	kvh_inspect_requests(rig->worker, look, &wanted);
	return wanted;
}

uint64_t rig_saved_tokens(struct rig *rig, const char *request)
{
	return inspect(rig, request).found.saved_tokens;
}

bool rig_skipped(struct rig *rig, const char *request)
{
	return inspect(rig, request).found.skipped;
}

size_t rig_live_saves(struct rig *rig, const char *request)
{
	return inspect(rig, request).found.live_save_count;
}

const char *rig_kept(struct rig *rig, const char *request)
{
	static char text[64];
	struct wanted wanted = inspect(rig, request);

	if (!wanted.found.kept_count)
		return "-";
	snprintf(text, sizeof(text), "%llu+%zu", (unsigned long long)wanted.found.kept_start,
	         wanted.found.kept_count);
	return text;
}

struct kvh_worker_stats rig_stats(struct rig *rig)
{
	struct kvh_worker_stats stats = {.struct_bytes = sizeof(stats)};

	assert_int_equal(kvh_worker_get_stats(rig->worker, &stats), KVH_OK);
	return stats;
}

static uint32_t own_prefix(struct rig *rig, uint32_t group)
{
	char text[128];
	int id;

	snprintf(text, sizeof(text), "m@tp_rank:%u@pcp0@dcp0@pp_rank:0@group:%u@",
	         rig->config.tp_rank, group);
	id = fake_prefix_id(&rig->world->fake, text, NULL);
	assert_true(id >= 0);
	return (uint32_t)id;
}

struct fake_object *rig_object(struct rig *rig, uint32_t group, unsigned index)
{
	uint32_t hash_bytes = hash_bytes_of(rig);
	uint8_t hash[KVH_HASH_BYTES_MAX];

	fake_hash(rig->chain, index, hash, hash_bytes);
	return fake_find(&rig->world->fake, own_prefix(rig, group), hash, hash_bytes);
}

bool rig_stored(struct rig *rig, uint32_t group, unsigned index, uint8_t byte)
{
	const struct fake_object *object = rig_object(rig, group, index);

	return object && object->byte_count == rig->block_bytes[group] * regions_of(rig, group) &&
	       all_bytes(object->bytes, object->byte_count, byte);
}

void rig_plant(struct rig *rig, uint32_t group, unsigned index, uint8_t byte)
{
	uint32_t hash_bytes = hash_bytes_of(rig);
	size_t byte_count = rig->block_bytes[group] * regions_of(rig, group);
	uint8_t hash[KVH_HASH_BYTES_MAX];
	uint8_t *bytes = malloc(byte_count);

	assert_non_null(bytes);
	memset(bytes, byte, byte_count);
	fake_hash(rig->chain, index, hash, hash_bytes);
	fake_store_bytes(&rig->world->fake, own_prefix(rig, group), hash, hash_bytes, bytes,
	                 byte_count);
	free(bytes);
}

uint64_t rig_lookup(struct rig *rig, uint64_t tokens, struct kvh_lookup_result *result)
{
	struct kvh_lookup_result own = {.struct_bytes = sizeof(own)};
	struct kvh_lookup lookup;

	make_tables(rig, tokens);
	lookup = (struct kvh_lookup){.struct_bytes = sizeof(lookup),
	                             .token_count = tokens,
	                             .hashes = rig->hashes,
	                             .hash_count = tokens / rig->config.hash_tokens};
	assert_int_equal(kvh_worker_lookup(rig->worker, &lookup, &own, &rig->error), KVH_OK);
	if (result)
		*result = own;
	return own.hit_tokens;
}
