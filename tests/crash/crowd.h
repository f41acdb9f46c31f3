/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A crowd on a shared pool that is far smaller than what it puts: every kind of call, every kind of
 * key. An object's bytes follow from its key alone, whoever puts it; so each byte that a get hands
 * out can be judged.
 */
#ifndef KVH_TESTS_CRASH_CROWD_H
#define KVH_TESTS_CRASH_CROWD_H

#include <stdatomic.h>
#include <stdbool.h>

#include <kvhold/kvhold.h>

enum {
	CROWD_KEYS = 1200, /* numbers of keys: 0 .. CROWD_KEYS - 1 */
	CROWD_KINDS = 8,   /* of prefixes; a key's is its number % CROWD_KINDS */
	CROWD_BATCH = 32,
	CROWD_VALUE_BYTES_MAX = 96 << 10,
	CROWD_MEMBER_BYTES = CROWD_BATCH * CROWD_VALUE_BYTES_MAX,
	CROWD_HASH_BYTES_MAX = 64,
	CROWD_QUOTA_BYTES = 512 << 10
};

/* What happened, by key unless it says otherwise. */
#define CROWD_EVENTS(event)                                                                        \
	event(ROUNDS, "rounds") event(STORED, "stored") event(PRESENT, "present")                  \
		event(BUSY, "busy") event(FULL, "full") event(HELD, "held") event(                 \
			COMMITTED, "committed") event(ABORTED, "aborted") event(HIT, "hit")        \
			event(MISSED, "missed") event(SEEN, "seen") event(UNSEEN, "unseen")        \
				event(REMOVED, "removed") event(CLEARED, "cleared")                \
					event(INTERNED, "interned") event(FED, "fed")              \
						event(OPENED, "opened") event(CLOSED, "closed")    \
							event(LATE, "late")

enum crowd_event {
#define CROWD_EVENT(id, name) CROWD_##id,
	CROWD_EVENTS(CROWD_EVENT)
#undef CROWD_EVENT
		CROWD_EVENT_COUNT
};

/* May lie in memory that processes share. Zeroes: nothing happened. */
struct crowd_board {
	_Atomic uint64_t counts[CROWD_EVENT_COUNT];
	_Atomic bool stop;   /* asks all to end */
	_Atomic bool failed; /* then nobody goes on */
	bool blind;          /* all go on: for a run that another judge ends */
	char words[256]; /* what failed first; whole once it is seen by waiting for the process */
};

/* A store and what its members share. */
struct crowd_handle {
	struct kvh_store *store;
	const struct kvh_env *env;
	struct crowd_board *board;
	uint64_t call_ns; /* most calls' deadline */
	unsigned char *memory;
	size_t memory_bytes;
	uint32_t prefixes[CROWD_KINDS];
};

/* One thread of it. */
struct crowd_member {
	struct crowd_handle *handle;
	struct kvh_thread *thread;
	uint64_t seed;
	uint64_t rounds;       /* 0: until the board says stop or the time is over */
	uint64_t until_ns;     /* 0: no end */
	unsigned char *memory; /* CROWD_MEMBER_BYTES of the handle's */
	size_t count;
	uint64_t numbers[CROWD_BATCH];
	struct kvh_key keys[CROWD_BATCH];
	struct kvh_value values[CROWD_BATCH];
	struct kvh_segment segments[CROWD_BATCH][2];
	struct kvh_result results[CROWD_BATCH];
	struct kvh_token tokens[CROWD_BATCH];
	uint8_t hashes[CROWD_BATCH][CROWD_HASH_BYTES_MAX];
};

/* SplitMix64: the same numbers on every machine for a seed. */
static inline uint64_t crowd_draw(uint64_t *seed)
{
	uint64_t z = *seed += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

size_t crowd_value_bytes(uint64_t number);
/* Its hash; returns how long it is. */
uint32_t crowd_hash(uint64_t number, uint8_t hash[CROWD_HASH_BYTES_MAX]);
void crowd_fill(uint64_t number, unsigned char *to, size_t bytes);
bool crowd_is(uint64_t number, const unsigned char *at, size_t bytes);

/* The first failure is kept and printed. Returns false. */
bool crowd_fail(struct crowd_board *board, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static inline void crowd_count(struct crowd_board *board, enum crowd_event event, uint64_t count)
{
	atomic_fetch_add_explicit(&board->counts[event], count, memory_order_relaxed);
}

/* Interns the prefixes and registers memory for so many members. handle: store, env, board set. */
bool crowd_join(struct crowd_handle *handle, unsigned members);
/* Closes the store and frees the memory. */
bool crowd_leave(struct crowd_handle *handle);

/* Starts and joins so many members; they stop at the first failure. until_ns, rounds: as members'.
 */
bool crowd_run(struct crowd_handle *handle, unsigned members, uint64_t seed, uint64_t rounds,
               uint64_t until_ns);

#endif
