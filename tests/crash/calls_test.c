/* SPDX-License-Identifier: Apache-2.0 */
/* kill -9 of a client in the middle of each public call: what it held comes back. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "client.h"

enum { KEYS = SMALL_FROM, CAPACITY = 2 << 20, QUICK_ROUNDS = 2, ALL_ROUNDS = 40 };

static unsigned rounds;

/* One call, over and over; i counts up. */
typedef void (*call_fn)(struct client *client, uint64_t i);

static void call_open(struct client *client, uint64_t i)
{
	struct client second;
	char url[160];

	(void)i;
	pool_url(url, CAPACITY);
	client_open(&second, url, client->journal);
	client_close(&second);
}

static void call_register(struct client *client, uint64_t i)
{
	static unsigned char memory[4096];
	struct kvh_error error;
	kvh_region_id region;

	(void)i;
	if (kvh_store_register(client->store, memory, sizeof(memory), KVH_MEMORY_HOST, &region,
	                       &error) ||
	    kvh_store_unregister(client->store, region, 0))
		client_fail("register", 0, 0);
}

static void call_prefix(struct client *client, uint64_t i)
{
	char text[16];
	struct kvh_prefix prefix = {
		.struct_bytes = sizeof(prefix), .text = text, .hash_bytes = HASH_BYTES};
	uint32_t id;

	/* New ones while the rounds last, then known ones. */
	snprintf(text, sizeof(text), "p%u@", (unsigned)(i % 64));
	prefix.text_bytes = strlen(text);
	if (kvh_store_prefix(client->store, &prefix, &id, NULL))
		client_fail("prefix", i, 0);
}

static void call_put(struct client *client, uint64_t i)
{
	client_put(client, i * TURN_KEYS % KEYS, TURN_KEYS, 0);
}

static void call_put_group(struct client *client, uint64_t i)
{
	client_put(client, i * TURN_KEYS % KEYS, TURN_KEYS, KVH_PUT_LIFECYCLE_GROUP);
}

static void call_hold(struct client *client, uint64_t i)
{
	client_hold(client, i * TURN_KEYS % KEYS, TURN_KEYS);
	for (uint64_t k = 0; k < TURN_KEYS; k += 2)
		client_remove(client, i * TURN_KEYS % KEYS + k);
}

static void call_get(struct client *client, uint64_t i)
{
	client_get(client, i % KEYS);
}

static void call_exists(struct client *client, uint64_t i)
{
	client_exists(client, i * TURN_KEYS % KEYS, TURN_KEYS);
}

static void call_remove(struct client *client, uint64_t i)
{
	client_put(client, i * TURN_KEYS % KEYS, TURN_KEYS, 0);
	for (uint64_t k = 0; k < TURN_KEYS; k++)
		client_remove(client, i * TURN_KEYS % KEYS + k);
}

static void call_clear(struct client *client, uint64_t i)
{
	call_put(client, i);
	client_clear(client);
}

static void call_take_evicted(struct client *client, uint64_t i)
{
	if (i % 8 == 0)
		call_put(client, i / 8);
	client_take_evicted(client);
}

static void call_list(struct client *client, uint64_t i)
{
	struct kvh_listed objects[TURN_KEYS];
	uint8_t hashes[KVH_KEY_HASH_BYTES_MAX];
	char text[KVH_PREFIX_TEXT_BYTES_MAX + 2 * HASH_BYTES + 1];
	const struct kvh_list list = {.struct_bytes = sizeof(list),
	                              .flags = KVH_LIST_VERIFY,
	                              .objects = objects,
	                              .capacity = TURN_KEYS,
	                              .hashes = hashes,
	                              .hashes_bytes = sizeof(hashes)};
	uint64_t cursor = 0;
	size_t count;

	if (i % 8 == 0)
		call_put(client, i / 8);
	do {
		if (kvh_store_list(client->store, &list, &cursor, &count, NULL))
			client_fail("list", cursor, 0);
		for (size_t k = 0; k < count; k++)
			if ((objects[k].status && objects[k].status != KVH_NOT_SUPPORTED) ||
			    kvh_store_key_text(client->store, &objects[k].key, text, sizeof(text),
			                       NULL))
				client_fail("listed", cursor, objects[k].status);
	} while (cursor);
}

static void call_others(struct client *client, uint64_t i)
{
	struct kvh_store_stats stats = {.struct_bytes = sizeof(stats)};
	struct kvh_store_caps caps = {.struct_bytes = sizeof(caps)};

	(void)i;
	if (kvh_store_get_stats(client->store, &stats) ||
	    kvh_store_get_caps(client->store, &caps) || kvh_store_quiesce(client->store, 0))
		client_fail("stats, caps, quiesce", 0, 0);
}

/* ---- killing ---------------------------------------------------------------------------- */

struct work {
	call_fn call;
	uint64_t from;
	struct journal *journal;
};

/* Says that it works, then works until it is killed. */
static _Noreturn void work(const struct work *work, int said)
{
	struct client client;
	char url[160];

	pool_url(url, CAPACITY);
	client_open(&client, url, work->journal);
	if (write(said, "w", 1) != 1)
		_exit(1);
	for (uint64_t i = work->from;; i++)
		work->call(&client, i);
}

static void kill_at_work(const struct work *what, uint64_t after_ns)
{
	struct timespec pause_time = {.tv_nsec = (long)after_ns};
	int ends[2], status;
	char word;
	pid_t child;

	assert_int_equal(pipe(ends), 0);
	fflush(NULL);
	pool_path();
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(ends[0]);
		work(what, ends[1]);
	}
	close(ends[1]);
	assert_int_equal(read(ends[0], &word, 1), 1);
	nanosleep(&pause_time, NULL);
	kill(child, SIGKILL);
	assert_int_equal(waitpid(child, &status, 0), child);
	close(ends[0]);
	if (!WIFSIGNALED(status))
		fail_msg("the client ended by itself with code %d", WEXITSTATUS(status));
}

static void check(void *arg)
{
	struct client client;
	char url[160];

	pool_url(url, CAPACITY);
	client_open(&client, url, arg);
	client_check(&client, KEYS_MAX, CAPACITY, false);
	client_close(&client);
}

static void kill_at(call_fn call)
{
	struct work work = {.call = call, .journal = journal_make()};
	struct client neighbour;
	struct ended ended;
	char url[160];

	pool_remove();
	pool_url(url, CAPACITY);
	client_open(&neighbour, url, work.journal);
	for (unsigned i = 0; i < rounds; i++) {
		work.from = i * 7;
		kill_at_work(&work, UINT64_C(1) << 10 << i % 12);
		client_put(&neighbour, i * TURN_KEYS % KEYS, TURN_KEYS, 0);
	}
	ended = run_child(check, work.journal);
	if (ended.killed || ended.code)
		fail_msg("the check ended with code %d", ended.code);
	client_close(&neighbour);
	pool_remove();
	journal_free(work.journal);
}

#define KILL_TEST(name)                                                                            \
	static void killed_in_##name(void **state)                                                 \
	{                                                                                          \
		(void)state;                                                                       \
		kill_at(call_##name);                                                              \
	}

KILL_TEST(open)
KILL_TEST(register)
KILL_TEST(prefix)
KILL_TEST(put)
KILL_TEST(put_group)
KILL_TEST(hold)
KILL_TEST(get)
KILL_TEST(exists)
KILL_TEST(remove)
KILL_TEST(clear)
KILL_TEST(take_evicted)
KILL_TEST(list)
KILL_TEST(others)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(killed_in_open),         cmocka_unit_test(killed_in_register),
		cmocka_unit_test(killed_in_prefix),       cmocka_unit_test(killed_in_put),
		cmocka_unit_test(killed_in_put_group),    cmocka_unit_test(killed_in_hold),
		cmocka_unit_test(killed_in_get),          cmocka_unit_test(killed_in_exists),
		cmocka_unit_test(killed_in_remove),       cmocka_unit_test(killed_in_clear),
		cmocka_unit_test(killed_in_take_evicted), cmocka_unit_test(killed_in_others),
		cmocka_unit_test(killed_in_list),
	};
	bool all = argc > 1 && strcmp(argv[1], "--all") == 0;

	rounds = all ? ALL_ROUNDS : QUICK_ROUNDS;
	return cmocka_run_group_tests_name(all ? "crash_calls_all" : "crash_calls", tests, NULL,
	                                   NULL);
}
