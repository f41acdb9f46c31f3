/* SPDX-License-Identifier: Apache-2.0 */
#include "client.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { UNIT_BYTES = 4096, FILL_BYTES = 64 << 10, SLOTS_MIN = 4096, FAILED = 3, OPENED = 4 };

_Noreturn void client_fail(const char *what, uint64_t number, int64_t got)
{
	fprintf(stderr, "%s: %llu, got %lld\n", what, (unsigned long long)number, (long long)got);
	_exit(FAILED);
}

static void expect(bool holds, const char *what, uint64_t number, int64_t got)
{
	if (!holds)
		client_fail(what, number, got);
}

/* ---- numbers ---------------------------------------------------------------------------- */

static uint64_t draw(uint64_t *seed)
{
	uint64_t z = *seed += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

size_t bytes_of(uint64_t number)
{
	static const size_t sizes[] = {100, 4096, 5000, 12288, 100, 40000, 4096, 65536};

	if (number >= SMALL_FROM)
		return sizes[0];
	return number % 64 == 63 ? 200 << 10 : sizes[number % 8];
}

static void fill(uint64_t number, unsigned char *to)
{
	uint64_t seed = number * 31 + 7;

	for (size_t i = 0; i < bytes_of(number); i += 8) {
		uint64_t word = draw(&seed);
		size_t left = bytes_of(number) - i;

		memcpy(to + i, &word, left < 8 ? left : 8);
	}
}

static bool is_filled(uint64_t number, const unsigned char *at)
{
	static unsigned char right[VALUE_BYTES_MAX];

	fill(number, right);
	return memcmp(right, at, bytes_of(number)) == 0;
}

/* ---- processes -------------------------------------------------------------------------- */

struct journal *journal_make(void)
{
	struct journal *journal = mmap(NULL, sizeof(*journal), PROT_READ | PROT_WRITE,
	                               MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	assert_true(journal != MAP_FAILED);
	return journal;
}

void journal_free(struct journal *journal)
{
	munmap(journal, sizeof(*journal));
}

const char *pool_path(void)
{
	static char path[64];

	if (!path[0])
		snprintf(path, sizeof(path), "/dev/shm/kvhold.crash-%ld", (long)getpid());
	return path;
}

void pool_url(char url[160], uint64_t capacity_bytes)
{
	snprintf(url, 160, "local://%s?size=%llu", pool_path(), (unsigned long long)capacity_bytes);
}

void pool_remove(void)
{
	unlink(pool_path());
}

struct ended run_child(void (*run)(void *arg), void *arg)
{
	struct ended ended = {.killed = false};
	pid_t parent = getpid(), child;
	int status;

	fflush(NULL);
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent)
			_exit(FAILED);
		run(arg);
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	ended.killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
	ended.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
	return ended;
}

/* ---- the client ------------------------------------------------------------------------- */

static uint32_t intern(struct client *client, const char *text)
{
	struct kvh_prefix prefix = {.struct_bytes = sizeof(prefix),
	                            .text = text,
	                            .text_bytes = strlen(text),
	                            .family_bytes = 2,
	                            .hash_bytes = HASH_BYTES};
	struct kvh_error error = {0};
	uint32_t id = 0;
	kvh_status status = kvh_store_prefix(client->store, &prefix, &id, &error);

	expect(status == KVH_OK, error.text, 0, status);
	return id;
}

void client_open(struct client *client, const char *url, struct journal *journal)
{
	static const char *const texts[PREFIXES] = {"m@0@", "m@1@", "n@0@", "o@"};
	struct kvh_error error = {0};
	kvh_region_id region;
	kvh_status status = kvh_store_open(url, NULL, &client->store, &error);

	if (status) {
		fprintf(stderr, "%s\n", error.text);
		_exit(OPENED);
	}
	client->journal = journal;
	client->memory = malloc((size_t)TURN_KEYS * VALUE_BYTES_MAX);
	expect(client->memory != NULL, "memory", 0, 0);
	status = kvh_store_register(client->store, client->memory,
	                            (size_t)TURN_KEYS * VALUE_BYTES_MAX, KVH_MEMORY_HOST, &region,
	                            &error);
	expect(status == KVH_OK, error.text, 0, status);
	for (int i = 0; i < PREFIXES; i++)
		client->prefixes[i] = intern(client, texts[i]);
}

void client_close(struct client *client)
{
	kvh_status status = kvh_store_close(client->store, 0);

	expect(status == KVH_OK, "close", 0, status);
	free(client->memory);
}

/* One turn's arrays. */
struct turn {
	struct kvh_batch batch;
	struct kvh_key keys[TURN_KEYS];
	struct kvh_value values[TURN_KEYS];
	struct kvh_segment segments[TURN_KEYS];
	struct kvh_result results[TURN_KEYS];
	uint8_t hashes[TURN_KEYS][HASH_BYTES];
};

static void make_turn(struct turn *turn, struct client *client, uint64_t first, size_t count)
{
	memset(turn, 0, sizeof(*turn));
	for (size_t i = 0; i < count; i++) {
		uint64_t number = first + i, seed = number;

		for (size_t k = 0; k < HASH_BYTES; k++)
			turn->hashes[i][k] = (uint8_t)draw(&seed);
		turn->keys[i] = (struct kvh_key){.hash = turn->hashes[i],
		                                 .hash_bytes = HASH_BYTES,
		                                 .prefix_id = client->prefixes[number % PREFIXES]};
		turn->segments[i] = (struct kvh_segment){
			.addr = client->memory + i * VALUE_BYTES_MAX, .bytes = bytes_of(number)};
		turn->values[i] =
			(struct kvh_value){.segments = &turn->segments[i], .segment_count = 1};
	}
	turn->batch = (struct kvh_batch){.count = count,
	                                 .keys = turn->keys,
	                                 .values = turn->values,
	                                 .results = turn->results};
}

static bool is_stored(int64_t result)
{
	return result == KVH_OK || result == KVH_OBJECT_ALREADY_EXISTS;
}

static void begin_put(struct turn *turn, struct client *client, uint64_t first, size_t count)
{
	make_turn(turn, client, first, count);
	for (size_t i = 0; i < count; i++) {
		fill(first + i, turn->segments[i].addr);
		if (client->journal->state[first + i] != KEY_STORED)
			client->journal->state[first + i] = KEY_PUTTING;
	}
}

void client_put(struct client *client, uint64_t first, size_t count, uint32_t flags)
{
	struct kvh_put_options options = {.struct_bytes = sizeof(options), .flags = flags};
	struct turn turn;
	kvh_status status;

	begin_put(&turn, client, first, count);
	status = kvh_store_put(client->store, &turn.batch, &options, NULL);
	expect(status == KVH_OK, "put", first, status);
	for (size_t i = 0; i < count; i++) {
		int64_t result = turn.results[i].value;

		expect(is_stored(result) || result == KVH_NO_AVAILABLE_HANDLE, "put of key",
		       first + i, result);
		if (is_stored(result))
			client->journal->state[first + i] = KEY_STORED;
	}
}

void client_hold(struct client *client, uint64_t first, size_t count)
{
	struct kvh_token tokens[TURN_KEYS];
	struct kvh_put_options options = {
		.struct_bytes = sizeof(options), .flags = KVH_PUT_HOLD, .tokens = tokens};
	struct kvh_result results[TURN_KEYS];
	struct turn turn;
	kvh_status status;

	begin_put(&turn, client, first, count);
	status = kvh_store_put(client->store, &turn.batch, &options, NULL);
	expect(status == KVH_OK, "put with hold", first, status);
	for (size_t i = 0; i < count; i++) {
		if (turn.results[i].value != KVH_OK)
			continue;
		status = i % 2 ? kvh_store_abort(client->store, &tokens[i], 1, results)
		               : kvh_store_commit(client->store, &tokens[i], 1, results);
		expect(status == KVH_OK && results[0].value == KVH_OK, "commit or abort", first + i,
		       results[0].value);
		client->journal->state[first + i] = i % 2 ? KEY_REMOVED : KEY_STORED;
	}
}

bool client_get(struct client *client, uint64_t number)
{
	struct turn turn;
	kvh_status status;

	make_turn(&turn, client, number, 1);
	memset(client->memory, 0xee, bytes_of(number));
	status = kvh_store_get(client->store, &turn.batch, NULL);
	expect(status == KVH_OK, "get", number, status);
	if (turn.results[0].value == KVH_OBJECT_NOT_FOUND)
		return false;
	expect(turn.results[0].value == (int64_t)bytes_of(number), "get of key", number,
	       turn.results[0].value);
	expect(is_filled(number, client->memory), "wrong bytes of key", number, 0);
	return true;
}

void client_exists(struct client *client, uint64_t first, size_t count)
{
	struct turn turn;
	kvh_status status;

	make_turn(&turn, client, first, count);
	turn.batch.values = NULL;
	status = kvh_store_exists(client->store, &turn.batch, KVH_EXISTS_DEDUP, NULL);
	expect(status == KVH_OK, "exists", first, status);
}

void client_remove(struct client *client, uint64_t number)
{
	struct turn turn;
	kvh_status status;

	make_turn(&turn, client, number, 1);
	client->journal->state[number] = KEY_REMOVING;
	status = kvh_store_remove(client->store, &turn.batch, NULL);
	expect(status == KVH_OK && (turn.results[0].value == KVH_OK ||
	                            turn.results[0].value == KVH_OBJECT_NOT_FOUND),
	       "remove", number, turn.results[0].value);
	client->journal->state[number] = KEY_REMOVED;
}

void client_clear(struct client *client)
{
	kvh_status status;

	for (size_t i = 0; i < KEYS_MAX; i++)
		if (client->journal->state[i] != KEY_NEVER)
			client->journal->state[i] = KEY_REMOVING;
	status = kvh_store_clear(client->store, NULL, NULL);
	expect(status == KVH_OK, "clear", 0, status);
	for (size_t i = 0; i < KEYS_MAX; i++)
		if (client->journal->state[i] != KEY_NEVER)
			client->journal->state[i] = KEY_REMOVED;
}

void client_take_evicted(struct client *client)
{
	struct kvh_evicted_key keys[64];
	size_t count;
	bool lost;
	kvh_status status = kvh_store_take_evicted(client->store, keys, 64, &count, &lost);

	expect(status == KVH_OK && count <= 64, "take_evicted", count, status);
}

/* ---- what must hold --------------------------------------------------------------------- */

static struct kvh_store_stats stats_of(struct client *client)
{
	struct kvh_store_stats stats = {.struct_bytes = sizeof(stats)};
	kvh_status status = kvh_store_get_stats(client->store, &stats);

	expect(status == KVH_OK, "stats", 0, status);
	return stats;
}

/* The space of all objects that are there; each is read. */
static uint64_t read_all(struct client *client, uint64_t key_count, bool kept)
{
	uint64_t used_bytes = 0;

	for (uint64_t i = 0; i < key_count; i++) {
		uint8_t state = client->journal->state[i];
		bool there = client_get(client, i);

		expect(there || !kept || state != KEY_STORED, "stored key is missing", i, 0);
		expect(!there || (state != KEY_NEVER && state != KEY_REMOVED),
		       "a key that nobody put is there", i, state);
		if (there)
			used_bytes += (bytes_of(i) + UNIT_BYTES - 1) / UNIT_BYTES * UNIT_BYTES;
	}
	return used_bytes;
}

/* Reserves until nothing is left; returns how many objects of this size the pool holds. */
static uint64_t fill_up(struct client *client, size_t bytes, uint64_t max)
{
	struct kvh_token *tokens = calloc(max + TURN_KEYS, sizeof(*tokens));
	struct kvh_result *results = calloc(max + TURN_KEYS, sizeof(*results));
	struct kvh_put_options options = {.struct_bytes = sizeof(options), .flags = KVH_PUT_HOLD};
	struct turn turn;
	uint64_t count = 0, added = TURN_KEYS;
	kvh_status status;

	expect(tokens && results, "memory", 0, 0);
	while (added == TURN_KEYS && count <= max) {
		added = 0;
		make_turn(&turn, client, KEYS_MAX + count, TURN_KEYS);
		for (size_t i = 0; i < TURN_KEYS; i++)
			turn.segments[i].bytes = bytes;
		options.tokens = &tokens[count];
		status = kvh_store_put(client->store, &turn.batch, &options, NULL);
		expect(status == KVH_OK, "put to fill", count, status);
		while (added < TURN_KEYS && turn.results[added].value == KVH_OK)
			added++;
		expect(added == TURN_KEYS || turn.results[added].value == KVH_NO_AVAILABLE_HANDLE,
		       "key to fill", count, turn.results[added % TURN_KEYS].value);
		count += added;
	}
	status = kvh_store_abort(client->store, tokens, count, results);
	expect(status == KVH_OK, "abort of what filled", count, status);
	free(tokens);
	free(results);
	return count;
}

static void check_space(struct client *client, uint64_t capacity_bytes)
{
	uint64_t large = capacity_bytes / FILL_BYTES, small = capacity_bytes / UNIT_BYTES;
	uint64_t filled = fill_up(client, FILL_BYTES, large);

	expect(filled == large, "large objects that fill the pool", large, (int64_t)filled);
	/* A pool has a slot for each of this few units. */
	if (small > SLOTS_MIN)
		return;
	filled = fill_up(client, UNIT_BYTES, small);
	expect(filled == small, "small objects that fill the pool", small, (int64_t)filled);
}

void client_check(struct client *client, uint64_t key_count, uint64_t capacity_bytes, bool kept)
{
	uint64_t used_bytes = read_all(client, key_count, kept);
	struct kvh_store_stats stats = stats_of(client);

	expect(stats.reserved_objects == 0, "reserved objects", 0, (int64_t)stats.reserved_objects);
	expect(stats.pinned_objects == 0, "pinned objects", 0, (int64_t)stats.pinned_objects);
	expect(stats.used_bytes == used_bytes, "used bytes", used_bytes, (int64_t)stats.used_bytes);
	client_clear(client);
	stats = stats_of(client);
	expect(stats.used_bytes == 0 && stats.objects == 0, "bytes after clear", stats.objects,
	       (int64_t)stats.used_bytes);
	check_space(client, capacity_bytes);
	/* And it still works. */
	for (uint64_t i = 0; i < key_count; i += TURN_KEYS)
		client_put(client, i, TURN_KEYS, 0);
	for (uint64_t i = 0; i < key_count; i++)
		client_get(client, i);
}
