/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Another store measured beside kvhold: a child process that answers lines with lines.
 *
 *   the peer says                     when
 *   ready NAME                        once, as soon as it can measure
 *   done SECONDS CPU_SECONDS CHECKED  after a "run"
 *   error WORDS                       in place of either; nothing follows
 *
 *   the bench says
 *   run OP OBJECT_BYTES SEGMENTS COUNT
 *   quit                              it then ends, with exit status 0
 *
 * OP is put, get or exists, over COUNT objects of OBJECT_BYTES in SEGMENTS equal segments, 64 keys
 * a call. Each put begins with an empty store; a get compares every byte, an exists finds every
 * key. SECONDS is wall time and CPU_SECONDS that of all processes of the peer, both of the calls
 * alone; CHECKED is how many bytes (exists: keys) were answered as they must be.
 */
#ifndef KVH_CLI_BENCH_PEER_H
#define KVH_CLI_BENCH_PEER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bench.h"

struct kvh_bench_peer;

/* What one run of the peer measures. */
struct kvh_bench_peer_case {
	enum kvh_bench_op op;
	size_t object_bytes;
	size_t segment_count;
	size_t object_count;
};

struct kvh_bench_peer_times {
	double seconds;
	double cpu_seconds;
};

/*
 * Runs command, one simple command in the shell's words, and waits until it is ready, as for every
 * answer for limit_ns at most. The child dies with the bench. NULL: words were printed. One thread.
 */
struct kvh_bench_peer *kvh_bench_peer_open(const struct kvh_env *env, const char *command,
                                           uint64_t limit_ns);
/* Borrowed from the peer. */
const char *kvh_bench_peer_name(const struct kvh_bench_peer *peer);
/*
 * One case. False: words were printed, and the peer answers no more.
 * The time that it takes is added to *spent_ns.
 */
bool kvh_bench_peer_run(struct kvh_bench_peer *peer, const struct kvh_bench_peer_case *one,
                        struct kvh_bench_peer_times *times, uint64_t *spent_ns);
/* Asks it to end and ends it. False: it did not end well, words were printed. NULL: true. */
bool kvh_bench_peer_close(struct kvh_bench_peer *peer);

#endif
