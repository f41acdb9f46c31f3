/* SPDX-License-Identifier: Apache-2.0 */
/* The queue: what its parts share, and who guards what. */
#ifndef KVH_STORE_QUEUE_INTERNAL_H
#define KVH_STORE_QUEUE_INTERNAL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <kvhold/queue.h>

#include "base/lock.h"
#include "base/map.h"
#include "gate.h"

/*
 * A job's states, and what moves it on:
 *
 *   QUEUED   -> RUNNING   a thread takes it
 *   QUEUED   -> DONE      cancelled, timed out, or the queue closes
 *   RUNNING  -> DONE      its call returned and every key was quiet
 *   RUNNING  -> IN_DOUBT  its call returned with an unquiet key (D-23)
 *   IN_DOUBT -> DONE      the store says that no byte moves
 *   DONE     -> freed     its completion is taken
 */
struct queue_job {
	struct kvh_map_entry entry; /* in the table of jobs, by id */
	uint64_t id;
	/* Constant after hand-in. */
	uint64_t user;
	enum kvh_queue_op op;
	uint32_t exists_flags;
	struct kvh_batch batch; /* keys and values are in this allocation */
	struct kvh_put_options put;
	kvh_deadline deadline_ns;
	void *event;
	uint64_t value_bytes;
	uint64_t submitted_ns;

	struct kvh_cancel cancel;
	/* Of the thread that runs it; of the lock when it is DONE. */
	uint64_t good_keys;
	uint64_t bytes;
	/* All below is guarded by kvh_role_queue. */
	kvh_status status;
	enum kvh_queue_job_state state;
	uint64_t started_ns;
	size_t waiter_count;        /* who will take the completion, so that poll must not */
	bool is_listed;             /* DONE, and poll may take it */
	struct queue_job *previous; /* in the list of its state */
	struct queue_job *next;
};

struct queue_list {
	struct queue_job *head;
	struct queue_job *tail;
	size_t count;
};

enum queue_line_id { QUEUE_READS, QUEUE_WRITES, QUEUE_LINES };

struct queue_line {
	struct queue_list queued;
	/* From hand-in until the completion is taken. */
	uint64_t job_count;
	uint64_t key_count;
};

/* Where the eventfd stands; whoever moves it looks again whether it is as it should be. */
enum queue_fd_state { QUEUE_FD_LOW, QUEUE_FD_HIGH, QUEUE_FD_MOVING };

struct kvh_queue {
	/* Immutable after open. */
	struct kvh_store *store;
	const struct kvh_env *env;
	struct kvh_device device; /* with device_ops: whole, whatever the store's lacks */
	struct kvh_device_ops device_ops;
	struct kvh_log log;
	uint64_t process_id;
	uint64_t max_jobs, max_keys;
	size_t write_threads; /* that may run writes at a time */
	struct kvh_thread **threads;
	size_t thread_count;

	struct kvh_mutex *mutex;
	struct kvh_cond *ready;   /* for threads: a job, or a reason to look at the clock anew */
	struct kvh_cond *changed; /* for waiters: jobs ended */
	struct kvh_cond *left;    /* of the gate */
	struct kvh_gate gate;     /* every public call is inside; shut by close */

	/* Written under the lock, read without it by a poll that finds nothing. */
	_Atomic size_t done_count;         /* of done */
	_Atomic uint64_t next_deadline_ns; /* no queued job has an earlier one; 0: none has one */

	_Atomic int fd; /* -1: nobody asked for it */
	_Atomic int fd_state;
	_Atomic uint64_t fd_writes;

	struct kvh_map jobs KVH_GUARDED_BY(kvh_role_queue);
	struct queue_line lines[QUEUE_LINES] KVH_GUARDED_BY(kvh_role_queue);
	struct queue_list done KVH_GUARDED_BY(kvh_role_queue);  /* for poll, oldest first */
	struct queue_list doubt KVH_GUARDED_BY(kvh_role_queue); /* not being asked about now */
	size_t doubt_count KVH_GUARDED_BY(kvh_role_queue);      /* those asked about included */
	uint64_t next_question_ns KVH_GUARDED_BY(kvh_role_queue);
	uint64_t last_id KVH_GUARDED_BY(kvh_role_queue);
	size_t live_count KVH_GUARDED_BY(kvh_role_queue); /* not DONE */
	size_t running_count KVH_GUARDED_BY(kvh_role_queue);
	size_t running_writes KVH_GUARDED_BY(kvh_role_queue);
	size_t reads_ahead KVH_GUARDED_BY(kvh_role_queue); /* taken while a write could have been */
	size_t sleeper_count KVH_GUARDED_BY(kvh_role_queue);
	size_t signalled_count KVH_GUARDED_BY(kvh_role_queue); /* of them, with a wake-up coming */
	size_t any_waiter_count KVH_GUARDED_BY(kvh_role_queue);
	size_t drainer_count KVH_GUARDED_BY(kvh_role_queue);
	bool closing KVH_GUARDED_BY(kvh_role_queue);
	bool stop KVH_GUARDED_BY(kvh_role_queue);
	struct kvh_queue_stats stats KVH_GUARDED_BY(kvh_role_queue);
};

static inline enum queue_line_id kvh_queue_line_of(enum kvh_queue_op op)
{
	return op == KVH_QUEUE_PUT || op == KVH_QUEUE_REMOVE ? QUEUE_WRITES : QUEUE_READS;
}

/* queue.c */
void kvh_queue_lock(struct kvh_queue *queue) KVH_ACQUIRE(kvh_role_queue);
void kvh_queue_unlock(struct kvh_queue *queue) KVH_RELEASE(kvh_role_queue);
/* As kvh_store_enter and kvh_store_leave. */
kvh_status kvh_queue_begin(struct kvh_queue *queue, unsigned *phase);
void kvh_queue_end(struct kvh_queue *queue, unsigned phase);

/* queue_jobs.c: lines, limits, and how a job reaches its end */

/* Takes room for a job in its line. KVH_CLOSED, KVH_BUSY. */
kvh_status kvh_queue_reserve(struct kvh_queue *queue, enum kvh_queue_op op, size_t key_count)
	KVH_REQUIRES(kvh_role_queue);
void kvh_queue_release(struct kvh_queue *queue, enum kvh_queue_op op, size_t key_count)
	KVH_REQUIRES(kvh_role_queue);
/* Queues a job that has its room; wakes a thread where one sleeps that could take it. */
void kvh_queue_add(struct kvh_queue *queue, struct queue_job *job) KVH_REQUIRES(kvh_role_queue);
/* The next job to run, which is RUNNING now; NULL: none that this thread may take. */
struct queue_job *kvh_queue_pick(struct kvh_queue *queue) KVH_REQUIRES(kvh_role_queue);
/* The job is terminal. kvh_queue_show must follow when the lock is given back. */
void kvh_queue_finish(struct kvh_queue *queue, struct queue_job *job, kvh_status status)
	KVH_REQUIRES(kvh_role_queue);
/* Ends a queued job, or all, that will not run. */
void kvh_queue_drop(struct kvh_queue *queue, struct queue_job *job, kvh_status status)
	KVH_REQUIRES(kvh_role_queue);
void kvh_queue_drop_all(struct kvh_queue *queue, kvh_status status) KVH_REQUIRES(kvh_role_queue);
/* Ends queued jobs whose deadline has passed. */
void kvh_queue_expire(struct kvh_queue *queue) KVH_REQUIRES(kvh_role_queue);
struct queue_job *kvh_queue_find(struct kvh_queue *queue, uint64_t id) KVH_REQUIRES(kvh_role_queue);
/* Fills the completion of a DONE job and forgets the job; the caller frees it, best unlocked. */
void kvh_queue_take(struct kvh_queue *queue, struct queue_job *job,
                    struct kvh_queue_completion *completion) KVH_REQUIRES(kvh_role_queue);
/* The call of a running job has returned; it leaves its thread. */
void kvh_queue_doubt(struct kvh_queue *queue, struct queue_job *job, kvh_status status)
	KVH_REQUIRES(kvh_role_queue);
/* Takes all that are in doubt and nobody asks about; they still count as in doubt. */
struct queue_job *kvh_queue_take_doubt(struct kvh_queue *queue) KVH_REQUIRES(kvh_role_queue);
/* Puts one back, or (is_quiet) ends it. */
void kvh_queue_settle(struct kvh_queue *queue, struct queue_job *job, bool is_quiet)
	KVH_REQUIRES(kvh_role_queue);

/* queue_take.c */

/* Brings the eventfd, if there is one, in line with what poll has to give. No lock held. */
void kvh_queue_show(struct kvh_queue *queue) KVH_EXCLUDES(kvh_role_queue);
/*
 * Sleeps until jobs may have ended, or to the deadline. False: it has passed. Gives the lock back
 * meanwhile.
 */
bool kvh_queue_sleep(struct kvh_queue *queue, kvh_deadline deadline_ns)
	KVH_REQUIRES(kvh_role_queue);

/*
 * queue_submit.c: makes a job of the caller's description and queues it. With a waiter from the
 * start poll never sees it.
 */
kvh_status kvh_queue_hand_in(struct kvh_queue *queue, const struct kvh_queue_job *given,
                             bool has_waiter, uint64_t *id, struct kvh_error *error);

/* queue_threads.c */
kvh_status kvh_queue_start(struct kvh_queue *queue, size_t count, const char *name);
void kvh_queue_stop(struct kvh_queue *queue);

#endif
