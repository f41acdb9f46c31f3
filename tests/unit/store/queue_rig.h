/* SPDX-License-Identifier: Apache-2.0 */
/* A queue over a store that answers as it is told, with threads that run by themselves or by hand.
 */
#ifndef KVH_TESTS_UNIT_STORE_QUEUE_RIG_H
#define KVH_TESTS_UNIT_STORE_QUEUE_RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <kvhold/kvhold.h>

#include "base/lock.h"
#include "golden/coenv.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

enum { RIG_KEYS_MAX = 1024, RIG_VALUE_BYTES = 64, RIG_LOG_BYTES = 1 << 16 };

enum rig_op { RIG_EXISTS, RIG_PUT, RIG_GET, RIG_REMOVE, RIG_QUIESCE, RIG_OPS };

struct rig;

/* The outcome of one key; KVH_IN_DOUBT is also not quiet. */
typedef int64_t (*rig_key_fn)(struct rig *rig, enum rig_op op, uint64_t number);

struct rig {
	struct coenv *coenv; /* NULL: real threads */
	const struct kvh_env *env;
	struct kvh_store_caps caps;
	struct kvh_device device; /* ops NULL: the host */
	struct kvh_store *store;
	struct kvh_queue *queue;
	uint32_t prefix_id;
	kvh_region_id region;
	unsigned char memory[RIG_KEYS_MAX][RIG_VALUE_BYTES]; /* registered; value of key n */
	uint64_t hash[RIG_KEYS_MAX];
	struct kvh_segment segments[RIG_KEYS_MAX];

	/* What the store does. Atomic where it is changed under running threads. */
	uint32_t hold;     /* atomic; bit of an op: its calls wait */
	uint32_t inside;   /* atomic; calls that wait */
	uint32_t calls;    /* atomic; all but quiesce */
	uint32_t quiesces; /* atomic */
	rig_key_fn key;    /* NULL: exists 1 for numbers below present, all else as wished */
	uint64_t present;
	kvh_status status[RIG_OPS]; /* of the call; its keys are answered all the same */
	kvh_status quiesce_status;  /* atomic */
	struct kvh_put_options last_put;
	struct kvh_call last_call;
	char node[16];
	bool is_deaf; /* held calls don't look at cancel and deadline */

	struct kvh_mutex *mutex; /* guards log, and holds calls */
	struct kvh_cond *released;
	char log[RIG_LOG_BYTES];
	size_t log_bytes;
	uint32_t doubt_lines; /* atomic; of the queue's log */
};

/* is_stepped: threads are coroutines that rig_turn moves, and time stands still. */
struct rig *rig_new(bool is_stepped);
/* Opens the store of a new rig, and a queue over it. */
void rig_open(struct rig *rig, const struct kvh_queue_options *options);
void rig_open_store(struct rig *rig);
struct kvh_queue_options rig_options(struct rig *rig, uint32_t threads);
/* Closes what is open and frees the rig. Lets go of held calls, and answers questions with OK. */
void rig_free(struct rig *rig);

/* Stepped: runs a thread until it waits in a held call, sleeps, or is between two jobs. */
void rig_step(struct rig *rig, size_t thread);
/* Steps until the thread has run what it could. */
void rig_turn(struct rig *rig, size_t thread);
void rig_advance_ms(struct rig *rig, uint64_t ms);
/* Holds the calls of these ops (bits) from now on. */
void rig_hold(struct rig *rig, uint32_t ops);
/* Real threads: sleeps until so many calls are held. */
void rig_wait_inside(struct rig *rig, uint32_t count);

/* Keys first .. first + count - 1, with values where the op has some. The lists live until the next
 * one of this thread. */
struct kvh_queue_job rig_job(struct rig *rig, enum kvh_queue_op op, uint64_t first, size_t count);
/* Hands it in; the test fails when refused. */
uint64_t rig_submit(struct rig *rig, const struct kvh_queue_job *job);
uint64_t rig_put(struct rig *rig, uint64_t first, size_t count);
uint64_t rig_get(struct rig *rig, uint64_t first, size_t count);

/* Polls one; false: none. */
bool rig_poll(struct rig *rig, struct kvh_queue_completion *completion);
/* The one completion that waits is of this job with this status. */
void rig_assert_ended(struct rig *rig, uint64_t job_id, kvh_status status);
void rig_assert_nothing(struct rig *rig);
enum kvh_cancel_outcome rig_cancel(struct rig *rig, uint64_t job_id);
enum kvh_queue_job_state rig_state(struct rig *rig, uint64_t job_id);
struct kvh_queue_stats rig_stats(struct rig *rig);
/* The store's calls since the last time: "put 1 2\nget 7\n". */
const char *rig_calls(struct rig *rig);

#endif
