/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of `kvhold bench` share: rounds, figures, targets, and the limits to hold against.
 */
#ifndef KVH_CLI_BENCH_H
#define KVH_CLI_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <jansson.h>

#include <kvhold/kvhold.h>

enum {
	KVH_BENCH_ROUNDS_MAX = 101,
	KVH_BENCH_ROUNDS_MIN = 3, /* of a case out of its time, all beside a peer; 1 when half the
	                             run's is over */
	KVH_BENCH_BATCH_KEYS = 64,
	KVH_BENCH_HASH_BYTES = 32
};

#define KVH_BENCH_MIB         ((size_t)1 << 20)
#define KVH_BENCH_PREFIX_TEXT "bench@tp_rank:0@pcp0@dcp0@pp_rank:0@group:0@"

struct kvh_bench_peer; /* bench_peer.h */

/* One bench run. */
struct kvh_bench {
	const struct kvh_env *env;
	uint32_t rounds;     /* each case, after one round that does not count */
	uint64_t set_bytes;  /* bytes copied in each pass */
	uint64_t keys;       /* of the per-key figures */
	uint64_t space_keys; /* of the figure of bytes an object */
	uint64_t open_keys;  /* objects of a pool that is opened; a multiple of 64 */
	uint64_t started_ns;
	uint64_t limit_ns;           /* for the whole run */
	const char *store_url;       /* of copies and keys; NULL: a pool that fits each case */
	struct kvh_bench_peer *peer; /* NULL: none */
	uint64_t peer_ns;            /* spent in the peer, which no limit of time counts */
	FILE *out;                   /* where the words go */
	json_t *figures;
	uint32_t missed_count;
	uint32_t target_count;
};

/* One figure of each round. */
struct kvh_bench_series {
	double values[KVH_BENCH_ROUNDS_MAX];
	uint32_t count;
};

/* rule NULL: no target. */
struct kvh_bench_target {
	const char *rule;
	double bound;
	bool is_upper; /* at most bound; else at least */
};

struct kvh_bench_figure {
	const char *name;
	const char *unit;
	const struct kvh_bench_series *series;
	struct kvh_bench_target target; /* held against the median */
	const char *note;               /* NULL: none */
	json_t *more;                   /* given; NULL: none */
};

/* ---- bench_report.c ---- */

void kvh_bench_add(struct kvh_bench_series *series, double value);
double kvh_bench_median(const struct kvh_bench_series *series);
double kvh_bench_min(const struct kvh_bench_series *series);
double kvh_bench_max(const struct kvh_bench_series *series);
/* Prints one heading and the names of the columns. */
void kvh_bench_head(const struct kvh_bench *bench, const char *words);
/* Prints the figure's line and keeps it for the JSON file. */
void kvh_bench_report(struct kvh_bench *bench, const struct kvh_bench_figure *figure);
/* Says in the output and the file that something was not measured, and why. */
void kvh_bench_skip(struct kvh_bench *bench, const char *name, const char *why);
/* What the figures were taken on. New reference, or NULL. */
json_t *kvh_bench_machine(void);

/* ---- bench_tools.c ---- */

uint64_t kvh_bench_now(const struct kvh_bench *bench);
/* The same less what the peer took: what limits of time are held against. */
uint64_t kvh_bench_own_ns(const struct kvh_bench *bench);
/* Of all threads of this process, user and system. */
double kvh_bench_cpu_seconds(void);
/* Whether a case that began at case_ns (of kvh_bench_own_ns) and has done so many measured rounds
 * goes on. */
bool kvh_bench_goes_on(const struct kvh_bench *bench, uint32_t rounds_done, uint64_t case_ns,
                       uint64_t case_limit_ns);
/* Pages of 2 MiB where the system gives them, all present. NULL: no memory. */
unsigned char *kvh_bench_map(size_t bytes);
void kvh_bench_unmap(unsigned char *memory, size_t bytes);
/* 0 .. count - 1 in an order that looks random and is the same in each run. */
void kvh_bench_shuffle(uint32_t *order, size_t count);
/* Different for each index and series; index and series below 2^32. */
void kvh_bench_hash(uint8_t hash[KVH_BENCH_HASH_BYTES], uint64_t series, uint64_t index);
/* One thread's failure in words, then false; status KVH_OK: true. */
bool kvh_bench_ok(const char *what, kvh_status status, const struct kvh_error *error);

/* ---- bench_keys.c: objects under keys in a store ---- */

/* Keys, values and results of all objects of one case, cut into calls of 64 keys. */
struct kvh_bench_objects {
	struct kvh_store *store; /* lent */
	size_t count;
	uint8_t *hashes;
	struct kvh_key *keys;
	struct kvh_value *values;
	struct kvh_result *results;
};

/* How a heading calls it. */
const char *kvh_bench_store_name(const char *url);
/* url NULL: a pool in this process with room for so many objects. Words are printed on failure. */
bool kvh_bench_store_open(const char *url, size_t count, size_t object_bytes,
                          struct kvh_store **store);

enum kvh_bench_op { KVH_BENCH_PUT, KVH_BENCH_GET, KVH_BENCH_EXISTS };

/* Words are printed on failure. layout: lent. order[i]: the block of object i. */
bool kvh_bench_objects_init(struct kvh_bench_objects *objects, struct kvh_store *store,
                            const struct kvh_layout *layout, const uint32_t *order, size_t count);
void kvh_bench_objects_fini(struct kvh_bench_objects *objects);
/* Names the objects first, first + 1, ... of a series; init: series 0 from 0. */
void kvh_bench_objects_name(struct kvh_bench_objects *objects, uint64_t series, uint64_t first);
/* All objects once; every result must be expected. Words are printed on failure. */
bool kvh_bench_objects_run(struct kvh_bench_objects *objects, enum kvh_bench_op op,
                           int64_t expected);
/* Removes every object of the store. */
bool kvh_bench_objects_clear(struct kvh_bench_objects *objects);
/* Turns the keys' order over, values with them. */
void kvh_bench_objects_shuffle(struct kvh_bench_objects *objects, const uint32_t *order);

/* ---- bench_limit.c: the same copies by nothing but a loop ---- */

enum kvh_bench_kernel {
	KVH_BENCH_MEMCPY = 0,
	KVH_BENCH_STREAM = 1,       /* streaming stores */
	KVH_BENCH_STREAM_AHEAD = 2, /* the same, the next segment prefetched */
	KVH_BENCH_KERNELS = 3
};

/* Objects in a row on one side; on the other segment k of block b at k * stride + b * piece. */
struct kvh_bench_lists {
	unsigned char *engine;
	unsigned char *extents;
	size_t object_count;
	size_t extent_stride_bytes;
	size_t segment_count;
	size_t segment_bytes;
	const uint32_t *order; /* block of each object */
	size_t order_shift;    /* object i uses order[(i + shift) % count] */
};

/* False: this CPU lacks it; it then runs as memcpy. */
bool kvh_bench_kernel_runs(enum kvh_bench_kernel kernel);
void kvh_bench_limit_put(enum kvh_bench_kernel kernel, const struct kvh_bench_lists *lists);
void kvh_bench_limit_get(enum kvh_bench_kernel kernel, const struct kvh_bench_lists *lists);

/* ---- bench_lists.c: a store that needs lists ---- */

/*
 * Answers at once like null:, after it has written what a store without layouts would have to be
 * given: each key's text, one address and one length per segment, and the sum of the bytes. Words
 * are printed on failure.
 */
struct kvh_store *kvh_bench_lists_open(bool exists);

/* ---- sections; each prints its words and returns false when it could not be measured ---- */

bool kvh_bench_copies(struct kvh_bench *bench);  /* bench_copy.c: P1 to P4, P8 */
bool kvh_bench_per_key(struct kvh_bench *bench); /* bench_key_cost.c: P5 */
bool kvh_bench_space(struct kvh_bench *bench);   /* bench_key_cost.c: P7 */
bool kvh_bench_worker(struct kvh_bench *bench);  /* bench_worker.c: P6, P9 */
bool kvh_bench_open(struct kvh_bench *bench);    /* bench_open.c */

#endif
