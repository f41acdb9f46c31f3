/* SPDX-License-Identifier: Apache-2.0 */
/* A client of a shared pool that is meant to die: numbered objects and a journal that outlives it.
 */
#ifndef KVH_TESTS_CRASH_CLIENT_H
#define KVH_TESTS_CRASH_CLIENT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <cmocka.h>

#include <kvhold/kvhold.h>

enum {
	HASH_BYTES = 32,
	TURN_KEYS = 16,
	SMALL_FROM = 384, /* keys from here on are small: many of them fit */
	KEYS_MAX = 896,
	VALUE_BYTES_MAX = 256 << 10,
	PREFIXES = 4
};

/* What a key's last writer got to know. Written before and after its call. */
enum key_state {
	KEY_NEVER = 0,
	KEY_PUTTING, /* may be there */
	KEY_STORED,  /* is there, unless it was evicted */
	KEY_REMOVING /* may be there; from REMOVED on it is not */,
	KEY_REMOVED
};

/* In memory that all forks share. */
struct journal {
	uint8_t state[KEYS_MAX];
};
struct journal *journal_make(void);
void journal_free(struct journal *journal);

struct client {
	struct kvh_store *store;
	struct journal *journal;
	unsigned char *memory; /* registered: a value a key of a turn */
	uint32_t prefixes[PREFIXES];
};

/* "local://PATH?size=..." of this test process. */
void pool_url(char url[160], uint64_t capacity_bytes);
void pool_remove(void);
const char *pool_path(void);

/* Without cmocka's asserts, for children: exit code of the process if something fails. */
void client_open(struct client *client, const char *url, struct journal *journal);
void client_close(struct client *client);

/* Fixed by the number: 100 bytes to 200 KiB, prefixes in turn. */
size_t bytes_of(uint64_t number);

/* Keys first, first + 1, ... of one turn. Each says in the journal what it does. */
void client_put(struct client *client, uint64_t first, size_t count, uint32_t flags);
/* Puts and keeps uncommitted; then half is committed, half aborted. */
void client_hold(struct client *client, uint64_t first, size_t count);
/* Whether the object is there; its bytes are compared (the process ends if they are wrong). */
bool client_get(struct client *client, uint64_t number);
void client_exists(struct client *client, uint64_t first, size_t count);
void client_remove(struct client *client, uint64_t number);
void client_clear(struct client *client);
void client_take_evicted(struct client *client);

/*
 * All that a pool must still be after any deaths: objects are right or missing (stored ones there
 * if kept is true), nothing is reserved or pinned, the space in use is that of the objects, all of
 * the pool can be filled, and all keys can be put and read again.
 */
void client_check(struct client *client, uint64_t key_count, uint64_t capacity_bytes, bool kept);

/* Ends the process with words; a test's parent sees the exit code. */
_Noreturn void client_fail(const char *what, uint64_t number, int64_t got);

/* Forks, runs, and says how the child ended. It dies with this process. */
struct ended {
	bool killed; /* by SIGKILL */
	int code;    /* else */
};
struct ended run_child(void (*run)(void *arg), void *arg);

#endif
