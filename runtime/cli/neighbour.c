/* SPDX-License-Identifier: Apache-2.0 */
/* The neighbour: reserves objects without committing them, and lets all of them go again. */
#include "neighbour.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { BATCH_COUNT = 64, LATE_COUNT = 8, HASH_BYTES = 16 };

static const uint64_t late_ns = UINT64_C(10000000);

struct kvh_neighbour {
	struct kvh_store *store;
	const struct kvh_env *env;
	void *buffer; /* source of every put; only read */
	size_t object_bytes;
	kvh_region_id region;
	bool registered;
	uint32_t prefix_id;
	uint64_t put_count;       /* makes the keys */
	struct kvh_token *tokens; /* the thread's, until it was joined */
	size_t token_count, token_capacity;
	struct kvh_thread *thread; /* NULL: not started */
	_Atomic bool full, leaving;
	kvh_status status; /* of the thread's calls */
};

static kvh_status prepare(struct kvh_neighbour *neighbour, struct kvh_error *error)
{
	static const char text[] = "neighbour@";
	const struct kvh_prefix prefix = {
		.struct_bytes = sizeof(prefix),
		.text = text,
		.text_bytes = sizeof(text) - 1,
		.hash_bytes = HASH_BYTES,
	};
	kvh_status status =
		kvh_store_register(neighbour->store, neighbour->buffer, neighbour->object_bytes,
	                           KVH_MEMORY_HOST, &neighbour->region, error);

	if (status != KVH_OK)
		return status;
	neighbour->registered = true;
	return kvh_store_prefix(neighbour->store, &prefix, &neighbour->prefix_id, error);
}

kvh_status kvh_neighbour_open(struct kvh_store *store, const struct kvh_env *env,
                              size_t object_bytes, struct kvh_neighbour **neighbour,
                              struct kvh_error *error)
{
	struct kvh_store_caps caps = {.struct_bytes = sizeof(caps)};
	struct kvh_neighbour *made;
	kvh_status status = kvh_store_get_caps(store, &caps);

	if (status != KVH_OK)
		return status;
	if (!caps.hold)
		return KVH_NOT_SUPPORTED;
	made = calloc(1, sizeof(*made));
	if (!made)
		return KVH_NO_MEMORY;
	made->store = store;
	made->env = env;
	made->object_bytes = object_bytes;
	made->buffer = mmap(NULL, object_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
	                    -1, 0);
	if (made->buffer == MAP_FAILED) {
		made->buffer = NULL;
		status = KVH_NO_MEMORY;
	} else {
		status = prepare(made, error);
	}
	if (status == KVH_OK)
		*neighbour = made;
	else
		kvh_neighbour_close(made);
	return status;
}

static bool reserve_tokens(struct kvh_neighbour *neighbour)
{
	size_t capacity = neighbour->token_capacity ? neighbour->token_capacity * 2 : 1024;
	struct kvh_token *tokens;

	if (neighbour->token_count + BATCH_COUNT <= neighbour->token_capacity)
		return true;
	tokens = reallocarray(neighbour->tokens, capacity, sizeof(*tokens));
	if (!tokens)
		return false;
	neighbour->tokens = tokens;
	neighbour->token_capacity = capacity;
	return true;
}

/* Puts count objects, at most BATCH_COUNT; *full: not every key found room. */
static kvh_status take_batch(struct kvh_neighbour *neighbour, size_t count, bool *full)
{
	uint8_t hashes[BATCH_COUNT][HASH_BYTES] = {{0}};
	struct kvh_key keys[BATCH_COUNT];
	struct kvh_value values[BATCH_COUNT];
	struct kvh_result results[BATCH_COUNT];
	struct kvh_token tokens[BATCH_COUNT];
	const struct kvh_segment segment = {neighbour->buffer, neighbour->object_bytes};
	const struct kvh_batch batch = {count, keys, values, results};
	const struct kvh_put_options options = {
		.struct_bytes = sizeof(options), .flags = KVH_PUT_HOLD, .tokens = tokens};
	kvh_status status;

	for (size_t i = 0; i < count; i++) {
		neighbour->put_count++;
		memcpy(hashes[i], &neighbour->put_count, sizeof(neighbour->put_count));
		keys[i] = (struct kvh_key){hashes[i], HASH_BYTES, neighbour->prefix_id};
		values[i] = (struct kvh_value){.segments = &segment, .segment_count = 1};
	}
	status = kvh_store_put(neighbour->store, &batch, &options, NULL);
	for (size_t i = 0; i < count && status == KVH_OK; i++) {
		if (results[i].value == 0)
			neighbour->tokens[neighbour->token_count++] = tokens[i];
		else
			*full = true;
	}
	return status;
}

static kvh_status take_more(struct kvh_neighbour *neighbour, size_t count, bool *full)
{
	return reserve_tokens(neighbour) ? take_batch(neighbour, count, full) : KVH_NO_MEMORY;
}

/*
 * The thread: reserves until nothing is left; then, until it is asked to leave, what saves that
 * were under way have committed since, which would make room for later ones.
 */
static void take_all(void *arg)
{
	struct kvh_neighbour *neighbour = arg;
	const struct kvh_env *env = neighbour->env;
	kvh_status status = KVH_OK;
	bool full = false;

	while (!full && !atomic_load(&neighbour->leaving) && status == KVH_OK)
		status = take_more(neighbour, BATCH_COUNT, &full);
	neighbour->status = status;
	atomic_store(&neighbour->full, true);
	while (!atomic_load(&neighbour->leaving) && status == KVH_OK) {
		env->ops->sleep_ns(env->ctx, late_ns);
		status = take_more(neighbour, LATE_COUNT, &full);
	}
	neighbour->status = status;
}

kvh_status kvh_neighbour_start(struct kvh_neighbour *neighbour)
{
	const struct kvh_env *env = neighbour->env;

	return env->ops->thread_create(env->ctx, &neighbour->thread, "demo-neighbour", take_all,
	                               neighbour);
}

bool kvh_neighbour_is_full(struct kvh_neighbour *neighbour)
{
	return atomic_load(&neighbour->full);
}

static kvh_status give_back(struct kvh_neighbour *neighbour)
{
	kvh_status status = KVH_OK;

	while (neighbour->token_count && status == KVH_OK) {
		struct kvh_result results[BATCH_COUNT];
		size_t count =
			neighbour->token_count < BATCH_COUNT ? neighbour->token_count : BATCH_COUNT;

		status = kvh_store_abort(neighbour->store,
		                         neighbour->tokens + neighbour->token_count - count, count,
		                         results);
		neighbour->token_count -= count;
	}
	return status;
}

kvh_status kvh_neighbour_close(struct kvh_neighbour *neighbour)
{
	kvh_status status;

	if (!neighbour)
		return KVH_OK;
	atomic_store(&neighbour->leaving, true);
	if (neighbour->thread)
		neighbour->env->ops->thread_join(neighbour->env->ctx, neighbour->thread);
	neighbour->thread = NULL;
	status = give_back(neighbour);
	if (status == KVH_OK)
		status = neighbour->status;
	if (neighbour->registered) {
		kvh_status unregistered =
			kvh_store_unregister(neighbour->store, neighbour->region, 0);

		if (unregistered != KVH_OK)
			return unregistered;
	}
	if (neighbour->buffer)
		munmap(neighbour->buffer, neighbour->object_bytes);
	free(neighbour->tokens);
	free(neighbour);
	return status;
}
