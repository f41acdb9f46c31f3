/* SPDX-License-Identifier: Apache-2.0 */
/* Members of a crowd: random calls, every result judged. */
#include "crowd.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HOLD_NS UINT64_C(1000000)

enum { FEED = 64, INTERNED = 512 };

/* Kinds of keys. Those of the two family kinds that stand next to each other share their hash. */
enum { KIND_QUOTA = 2, KIND_FAMILY = 3, KIND_ANY = 5, KIND_SHORT = 6, KIND_LONG = 7 };

static const struct {
	const char *text;
	uint32_t hash_bytes;
	uint32_t family_bytes;
	uint64_t quota_bytes;
} kinds[CROWD_KINDS] = {
	{"crowd@a@", 32, 0, 0}, {"crowd@b@", 32, 0, 0},    {"crowd@q@", 32, 0, CROWD_QUOTA_BYTES},
	{"m@g:0@", 32, 2, 0},   {"m@g:1@", 32, 2, 0},      {"crowd@any@", 0, 0, 0},
	{"crowd@s@", 20, 0, 0}, {"crowd@long@", 48, 0, 0},
};

bool crowd_fail(struct crowd_board *board, const char *format, ...)
{
	char words[sizeof(board->words)];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(words, sizeof(words), format, arguments);
	va_end(arguments);
	if (!atomic_exchange(&board->failed, true)) {
		memcpy(board->words, words, sizeof(words));
		fprintf(stderr, "crowd: %s\n", words);
	}
	return false;
}

/* ---- keys and bytes --------------------------------------------------------------------- */

size_t crowd_value_bytes(uint64_t number)
{
	static const uint32_t bytes[] = {
		700, 4096, 6000, 16384, 16385, 40000, CROWD_VALUE_BYTES_MAX};
	uint64_t seed = number;

	return bytes[crowd_draw(&seed) % (sizeof(bytes) / sizeof(bytes[0]))];
}

uint32_t crowd_hash(uint64_t number, uint8_t hash[CROWD_HASH_BYTES_MAX])
{
	uint64_t kind = number % CROWD_KINDS, seed = number, word = number;
	uint32_t bytes = kinds[kind].hash_bytes;

	if (kind == KIND_FAMILY + 1)
		word = seed = number - 1;
	/* 9 to 56: raw and as a digest. */
	if (kind == KIND_ANY)
		bytes = 9 + number / CROWD_KINDS % 48;
	memcpy(hash, &word, sizeof(word));
	for (size_t i = sizeof(word); i < CROWD_HASH_BYTES_MAX; i++)
		hash[i] = (uint8_t)crowd_draw(&seed);
	return bytes;
}

void crowd_fill(uint64_t number, unsigned char *to, size_t bytes)
{
	uint64_t word, seed = number * 31 + 7;

	for (size_t i = 0; i < bytes; i += sizeof(word)) {
		word = crowd_draw(&seed);
		memcpy(to + i, &word, bytes - i < sizeof(word) ? bytes - i : sizeof(word));
	}
}

bool crowd_is(uint64_t number, const unsigned char *at, size_t bytes)
{
	uint64_t word, seed = number * 31 + 7;

	for (size_t i = 0; i < bytes; i += sizeof(word)) {
		word = crowd_draw(&seed);
		if (memcmp(at + i, &word, bytes - i < sizeof(word) ? bytes - i : sizeof(word)) != 0)
			return false;
	}
	return true;
}

/* Whether a key of the feed is one that the crowd puts, whole. */
static bool fed_is_whole(const struct crowd_handle *handle, const struct kvh_evicted_key *key)
{
	uint8_t hash[CROWD_HASH_BYTES_MAX];
	uint64_t number, kind = 0;
	uint32_t bytes;

	while (kind < CROWD_KINDS && handle->prefixes[kind] != key->prefix_id)
		kind++;
	if (kind == CROWD_KINDS)
		return false;
	/* Of a long one only a digest is left. */
	if (key->hash_bytes > sizeof(key->hash))
		return kind == KIND_ANY || kind == KIND_LONG;
	memcpy(&number, key->hash, sizeof(number));
	if (kind == KIND_FAMILY + 1)
		number++;
	if (number >= CROWD_KEYS || number % CROWD_KINDS != kind)
		return false;
	bytes = crowd_hash(number, hash);
	return bytes == key->hash_bytes && memcmp(hash, key->hash, bytes) == 0;
}

/* ---- one call --------------------------------------------------------------------------- */

static void draw_batch(struct crowd_member *member, bool family)
{
	uint64_t *seed = &member->seed;
	unsigned char *at = member->memory;

	/* Mostly few: a call's deadline is for all of its keys. */
	member->count = 1 + crowd_draw(seed) % (crowd_draw(seed) % 4 ? 8 : CROWD_BATCH);
	for (size_t i = 0; i < member->count; i++) {
		/* Half of the uses go to an eighth of the keys, so that there are hits. */
		uint64_t range = crowd_draw(seed) % 2 ? CROWD_KEYS : CROWD_KEYS / 8;
		uint64_t number = crowd_draw(seed) % range;
		size_t bytes, first;

		if (family)
			number += KIND_FAMILY + crowd_draw(seed) % 2 - number % CROWD_KINDS;
		bytes = crowd_value_bytes(number);
		first = bytes > 1 && number % 3 ? bytes / 3 : bytes;
		member->numbers[i] = number;
		member->keys[i] = (struct kvh_key){
			.hash = member->hashes[i],
			.hash_bytes = crowd_hash(number, member->hashes[i]),
			.prefix_id = member->handle->prefixes[number % CROWD_KINDS]};
		member->segments[i][0] = (struct kvh_segment){.addr = at, .bytes = first};
		member->segments[i][1] =
			(struct kvh_segment){.addr = at + first, .bytes = bytes - first};
		member->values[i] = (struct kvh_value){.segments = member->segments[i],
		                                       .segment_count = 1 + (first < bytes)};
		at += bytes;
	}
}

static struct kvh_batch batch_of(struct crowd_member *member, bool with_values)
{
	return (struct kvh_batch){.count = member->count,
	                          .keys = member->keys,
	                          .values = with_values ? member->values : NULL,
	                          .results = member->results};
}

/* Every call has a deadline: somebody who is stopped may have what it needs. */
static struct kvh_call draw_call(struct crowd_member *member)
{
	const struct crowd_handle *handle = member->handle;
	uint64_t ns = crowd_draw(&member->seed) % 16 ? handle->call_ns : handle->call_ns / 256;

	return (struct kvh_call){.struct_bytes = sizeof(struct kvh_call),
	                         .deadline_ns = handle->env->ops->now_ns(handle->env->ctx) + ns};
}

/* Whether a call as a whole went through; false may also be late. */
static bool went(struct crowd_member *member, const char *call, kvh_status status)
{
	if (status == KVH_TIMEOUT)
		crowd_count(member->handle->board, CROWD_LATE, 1);
	else if (status)
		crowd_fail(member->handle->board, "%s as a whole: %d", call, status);
	return status == KVH_OK;
}

/* Counts a key's result by its status; one that is not listed is a failure. */
struct expected {
	int64_t value;
	enum crowd_event event;
};

static void judge(struct crowd_member *member, const char *call, size_t index,
                  const struct expected *expected, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (member->results[index].value != expected[i].value)
			continue;
		crowd_count(member->handle->board, expected[i].event, 1);
		return;
	}
	crowd_fail(member->handle->board, "%s of key %llu: %lld", call,
	           (unsigned long long)member->numbers[index],
	           (long long)member->results[index].value);
}

#define JUDGE(member, call, index, expected)                                                       \
	judge(member, call, index, expected, sizeof(expected) / sizeof((expected)[0]))

/* The same key twice in a batch is one reservation, with one token. */
static bool is_first(const struct crowd_member *member, size_t index)
{
	for (size_t i = 0; i < index; i++)
		if (member->numbers[i] == member->numbers[index])
			return false;
	return true;
}

/* No clock takes a living one's reservation away (S-5): each of these must succeed. */
static void settle(struct crowd_member *member)
{
	struct crowd_board *board = member->handle->board;
	struct kvh_store *store = member->handle->store;
	const struct kvh_env *env = member->handle->env;

	if (crowd_draw(&member->seed) % 8 == 0)
		env->ops->sleep_ns(env->ctx, HOLD_NS);
	for (size_t i = 0; i < member->count; i++) {
		bool commit = crowd_draw(&member->seed) % 2;
		struct kvh_result result = {0};
		kvh_status status;

		if (member->results[i].value != KVH_OK || !is_first(member, i))
			continue;
		crowd_count(board, CROWD_HELD, 1);
		status = commit ? kvh_store_commit(store, &member->tokens[i], 1, &result)
		                : kvh_store_abort(store, &member->tokens[i], 1, &result);
		if (status || result.value)
			crowd_fail(board, "%s of key %llu: %d, %lld", commit ? "commit" : "abort",
			           (unsigned long long)member->numbers[i], status,
			           (long long)result.value);
		crowd_count(board, commit ? CROWD_COMMITTED : CROWD_ABORTED, 1);
	}
}

static void put(struct crowd_member *member)
{
	static const struct expected expected[] = {{KVH_OK, CROWD_STORED},
	                                           {KVH_OBJECT_ALREADY_EXISTS, CROWD_PRESENT},
	                                           {KVH_REPLICA_IS_NOT_READY, CROWD_BUSY},
	                                           {KVH_NO_AVAILABLE_HANDLE, CROWD_FULL},
	                                           {KVH_TIMEOUT, CROWD_LATE}};
	uint64_t what = crowd_draw(&member->seed);
	bool hold = what % 8 == 0, family = what % 8 == 1;
	struct kvh_put_options options = {.struct_bytes = sizeof(options),
	                                  .tokens = hold ? member->tokens : NULL};
	struct kvh_batch batch;
	struct kvh_call call;

	draw_batch(member, family);
	for (size_t i = 0; i < member->count; i++)
		crowd_fill(member->numbers[i], member->segments[i][0].addr,
		           crowd_value_bytes(member->numbers[i]));
	options.flags = (hold ? KVH_PUT_HOLD : 0) | (family ? KVH_PUT_LIFECYCLE_GROUP : 0);
	options.priority = what >> 8 & 3;
	if (what >> 16 & 1)
		options.priority = 0;
	if ((what >> 24) % 16 == 0)
		options.keep_seconds = 1 + (what >> 32) % 40;
	else if ((what >> 24) % 16 == 1)
		options.expire_seconds = 1 + (what >> 32) % 40;
	batch = batch_of(member, true);
	call = draw_call(member);
	if (!went(member, "put", kvh_store_put(member->handle->store, &batch, &options, &call)))
		return;
	for (size_t i = 0; i < member->count; i++)
		JUDGE(member, "put", i, expected);
	if (hold)
		settle(member);
}

static void get(struct crowd_member *member)
{
	struct crowd_board *board = member->handle->board;
	struct kvh_batch batch;
	struct kvh_call call;

	draw_batch(member, false);
	batch = batch_of(member, true);
	call = draw_call(member);
	if (!went(member, "get", kvh_store_get(member->handle->store, &batch, &call)))
		return;
	for (size_t i = 0; i < member->count; i++) {
		uint64_t number = member->numbers[i];
		size_t bytes = crowd_value_bytes(number);
		const struct expected expected[] = {{(int64_t)bytes, CROWD_HIT},
		                                    {KVH_OBJECT_NOT_FOUND, CROWD_MISSED},
		                                    {KVH_TIMEOUT, CROWD_LATE}};

		JUDGE(member, "get", i, expected);
		if (member->results[i].value == (int64_t)bytes &&
		    !crowd_is(number, member->segments[i][0].addr, bytes))
			crowd_fail(board, "get of key %llu: wrong bytes",
			           (unsigned long long)number);
	}
}

static void ask(struct crowd_member *member)
{
	static const struct expected expected[] = {
		{1, CROWD_SEEN}, {0, CROWD_UNSEEN}, {KVH_TIMEOUT, CROWD_LATE}};
	uint32_t flags = crowd_draw(&member->seed) % 2 ? KVH_EXISTS_DEDUP : KVH_EXISTS_LOOKUP;
	struct kvh_batch batch;
	struct kvh_call call;

	draw_batch(member, false);
	batch = batch_of(member, false);
	call = draw_call(member);
	if (!went(member, "exists", kvh_store_exists(member->handle->store, &batch, flags, &call)))
		return;
	for (size_t i = 0; i < member->count; i++)
		JUDGE(member, "exists", i, expected);
}

static void take_away(struct crowd_member *member)
{
	static const struct expected expected[] = {{KVH_OK, CROWD_REMOVED},
	                                           {KVH_OBJECT_NOT_FOUND, CROWD_MISSED},
	                                           {KVH_REPLICA_IS_NOT_READY, CROWD_BUSY},
	                                           {KVH_OBJECT_HAS_LEASE, CROWD_BUSY},
	                                           {KVH_TIMEOUT, CROWD_LATE}};
	struct kvh_batch batch;
	struct kvh_call call;

	draw_batch(member, false);
	batch = batch_of(member, false);
	call = draw_call(member);
	if (!went(member, "remove", kvh_store_remove(member->handle->store, &batch, &call)))
		return;
	for (size_t i = 0; i < member->count; i++)
		JUDGE(member, "remove", i, expected);
}

static void clear(struct crowd_member *member)
{
	struct kvh_call call = draw_call(member);
	kvh_status status = kvh_store_clear(member->handle->store, &call, NULL);

	/* A stopped reader's object stays. */
	if (status == KVH_OBJECT_HAS_LEASE)
		crowd_count(member->handle->board, CROWD_LATE, 1);
	else if (went(member, "clear", status))
		crowd_count(member->handle->board, CROWD_CLEARED, 1);
}

static void take_feed(struct crowd_member *member)
{
	struct kvh_evicted_key keys[FEED];
	size_t count = 0;
	bool lost = false;

	if (!went(member, "take_evicted",
	          kvh_store_take_evicted(member->handle->store, keys, FEED, &count, &lost)))
		return;
	for (size_t i = 0; i < count; i++)
		if (!fed_is_whole(member->handle, &keys[i]))
			crowd_fail(member->handle->board, "a key of the feed is none of ours");
	crowd_count(member->handle->board, CROWD_FED, count);
}

/* Prefixes that nobody uses: known, or new to all. */
static void intern(struct crowd_member *member)
{
	struct crowd_board *board = member->handle->board;
	struct kvh_prefix prefix = {.struct_bytes = sizeof(prefix), .hash_bytes = 32};
	struct kvh_error error = {0};
	char text[32];
	uint32_t id;

	snprintf(text, sizeof(text), "crowd@x%u@",
	         (unsigned)(crowd_draw(&member->seed) % INTERNED));
	prefix.text = text;
	prefix.text_bytes = strlen(text);
	if (went(member, "prefix", kvh_store_prefix(member->handle->store, &prefix, &id, &error)))
		crowd_count(board, CROWD_INTERNED, 1);
}

/* ---- members ---------------------------------------------------------------------------- */

static bool goes_on(const struct crowd_member *member, uint64_t round)
{
	const struct crowd_handle *handle = member->handle;

	return (handle->board->blind || !atomic_load(&handle->board->failed)) &&
	       !atomic_load(&handle->board->stop) && (!member->rounds || round < member->rounds) &&
	       (!member->until_ns || handle->env->ops->now_ns(handle->env->ctx) < member->until_ns);
}

static void run_member(void *arg)
{
	struct crowd_member *member = arg;

	for (uint64_t round = 0; goes_on(member, round); round++) {
		uint64_t what = crowd_draw(&member->seed) % 512;

		if (what == 0)
			clear(member);
		else if (what < 12)
			intern(member);
		else if (what < 40)
			take_feed(member);
		else if (what < 80)
			take_away(member);
		else if (what < 140)
			ask(member);
		else if (what < 320)
			get(member);
		else
			put(member);
		crowd_count(member->handle->board, CROWD_ROUNDS, 1);
	}
}

bool crowd_join(struct crowd_handle *handle, unsigned members)
{
	struct kvh_error error = {0};
	kvh_region_id region;
	kvh_status status;

	for (unsigned i = 0; i < CROWD_KINDS; i++) {
		struct kvh_prefix prefix = {.struct_bytes = sizeof(prefix),
		                            .text = kinds[i].text,
		                            .text_bytes = strlen(kinds[i].text),
		                            .family_bytes = kinds[i].family_bytes,
		                            .hash_bytes = kinds[i].hash_bytes,
		                            .quota_bytes = kinds[i].quota_bytes};

		/* With 10 s for the lock it may be late, too. */
		do
			status = kvh_store_prefix(handle->store, &prefix, &handle->prefixes[i],
			                          &error);
		while (status == KVH_TIMEOUT);
		if (status)
			return crowd_fail(handle->board, "prefix: %d: %s", status, error.text);
	}
	handle->memory_bytes = (size_t)members * CROWD_MEMBER_BYTES;
	handle->memory = malloc(handle->memory_bytes);
	if (!handle->memory)
		return crowd_fail(handle->board, "no memory");
	status = kvh_store_register(handle->store, handle->memory, handle->memory_bytes,
	                            KVH_MEMORY_HOST, &region, &error);
	return status == KVH_OK ||
	       crowd_fail(handle->board, "register: %d: %s", status, error.text);
}

bool crowd_leave(struct crowd_handle *handle)
{
	kvh_status status = kvh_store_close(handle->store, 0);

	free(handle->memory);
	handle->memory = NULL;
	return status == KVH_OK || crowd_fail(handle->board, "close: %d", status);
}

bool crowd_run(struct crowd_handle *handle, unsigned members, uint64_t seed, uint64_t rounds,
               uint64_t until_ns)
{
	struct crowd_member *list = calloc(members, sizeof(*list));
	const struct kvh_env *env = handle->env;
	unsigned started = 0;

	if (!list)
		return crowd_fail(handle->board, "no memory");
	for (; started < members; started++) {
		struct crowd_member *member = &list[started];

		member->handle = handle;
		member->seed = seed + started;
		member->rounds = rounds;
		member->until_ns = until_ns;
		member->memory = handle->memory + (size_t)started * CROWD_MEMBER_BYTES;
		if (env->ops->thread_create(env->ctx, &member->thread, "crowd", run_member,
		                            member)) {
			crowd_fail(handle->board, "no thread");
			break;
		}
	}
	for (unsigned i = 0; i < started; i++)
		env->ops->thread_join(env->ctx, list[i].thread);
	free(list);
	return !atomic_load(&handle->board->failed);
}
