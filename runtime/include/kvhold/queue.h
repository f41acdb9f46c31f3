/* SPDX-License-Identifier: Apache-2.0 */
/* The queue: asynchronous jobs over any store, and three ways to learn of their ends. */
#ifndef KVHOLD_QUEUE_H
#define KVHOLD_QUEUE_H

#include <stddef.h>
#include <stdint.h>

#include "store.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * A job is one call of the store over a batch of keys, made by a thread of the queue. It is
 * *terminal* when no byte of its values will be read or written any more and its results are final:
 * after its store call, and, where a key was not quiet (D-23), after the store has said that its
 * bytes have come to rest. Everything that is lent to a job is the caller's again then.
 *
 * Exactly one completion tells of each job's end. It comes by
 *   poll    kvh_queue_poll, at once;
 *   wait    kvh_queue_wait (one job, or any) and kvh_queue_run (hand in and wait), blocking;
 *   fd      kvh_queue_fd, readable while kvh_queue_poll has something to give.
 * All three may be used side by side; a job that somebody waits for is handed to the waiter.
 *
 * Reads (get, exists, exists_prefix) and writes (put, remove) wait in lines of their own, each in
 * order of hand-in. A free thread takes a read before a write, but a write at the latest after
 * KVH_QUEUE_READS_AHEAD reads; and of several threads one is always left to reads. So loads don't
 * wait for saves, and saves end all the same. With more than one thread, jobs of one line run side
 * by side: hand in what depends on another job after its completion.
 */
struct kvh_queue;

enum {
	KVH_QUEUE_THREADS_MAX = 64,
	KVH_QUEUE_READS_AHEAD = 64,
	KVH_QUEUE_PREFIX_KEYS = 64 /* keys of one store call of exists_prefix */
};

/* Zero-initialise, set struct_bytes and what differs from the defaults. All pointers: borrowed. */
struct kvh_queue_options {
	size_t struct_bytes;
	const struct kvh_env *env; /* lent; NULL: the store's, and its clock must be the store's */
	struct kvh_log log;
	/*
	 * Limits of the reads, and the same again of the writes. They count jobs from hand-in until
	 * their completion is taken, so that a caller who never polls is stopped too.
	 */
	uint64_t max_jobs;       /* 0: 4096 */
	uint64_t max_keys;       /* 0: 2^20; a job alone in its line may have more */
	const char *thread_name; /* at most 15 bytes are kept; NULL: "kvh-queue" */
	uint32_t threads;        /* 1 .. KVH_QUEUE_THREADS_MAX; 0: 2 */
	uint32_t reserved;       /* 0 */
};

/*
 * Opens a queue over a store, which is lent until kvh_queue_close, and starts its threads. Wrong
 * options are refused with words. *queue is set on success only. One thread.
 */
KVH_API kvh_status kvh_queue_open(struct kvh_store *store, const struct kvh_queue_options *options,
                                  struct kvh_queue **queue, struct kvh_error *error);

/*
 * Refuses new jobs (KVH_CLOSED), ends those that no thread has taken with KVH_CANCELLED, and waits
 * for the others to be terminal and for calls of other threads to return, to the deadline. KVH_OK:
 * everything is freed, with the completions that nobody took; all that was lent is the caller's.
 * KVH_TIMEOUT: nothing is freed; the jobs that run were asked to stop, *left_jobs (NULL allowed)
 * are not terminal; poll still works; close again. Who wants queued jobs run drains first.
 * KVH_FORKED: nothing happens. NULL: KVH_OK. One thread; no other call may begin once it returned
 * KVH_OK.
 */
KVH_API kvh_status kvh_queue_close(struct kvh_queue *queue, kvh_deadline deadline_ns,
                                   size_t *left_jobs);

/* ---- jobs ----------------------------------------------------------------------------- */

enum kvh_queue_op {
	KVH_QUEUE_GET = 1,
	KVH_QUEUE_PUT = 2,
	KVH_QUEUE_EXISTS = 3,
	/*
	 * How many leading keys are present. Asks for KVH_QUEUE_PREFIX_KEYS at a time and stops at
	 * the first that is not; results behind that chunk stay KVH_NO_ANSWER.
	 */
	KVH_QUEUE_EXISTS_PREFIX = 4,
	KVH_QUEUE_REMOVE = 5
};

/* Zero-initialise, set struct_bytes, op, batch, and what differs from the defaults. */
struct kvh_queue_job {
	size_t struct_bytes;
	enum kvh_queue_op op;
	uint32_t exists_flags; /* KVH_EXISTS_*, of the two exists; else 0 */
	uint64_t user;         /* comes back in the completion */
	/*
	 * keys, values and their segment lists: borrowed; the queue copies them. Layouts and the
	 * memory that values name: lent until the job is terminal. results: lent until then, preset
	 * to {KVH_NO_ANSWER, quiet} by the hand-in; NULL: only the completion's counts are wanted.
	 */
	struct kvh_batch batch;
	const struct kvh_put_options *put; /* KVH_QUEUE_PUT; borrowed, its tokens lent; or NULL */
	/*
	 * To end by. A job that is still queued then ends without its store call, at the latest
	 * when a thread is free or somebody polls, waits or drains.
	 */
	kvh_deadline deadline_ns;
	void *event; /* of the store's device: waited for before the store is called; NULL: none */
};

/*
 * Queues a job. KVH_OK: *job_id (never 0, never given twice by this queue) names it, and exactly
 * one completion will follow. Anything else: nothing was queued, nothing is lent:
 * KVH_INVALID_PARAMS and KVH_NOT_SUPPORTED with words (what the store would refuse is refused
 * here), KVH_BUSY (the line of reads or of writes is full; reads never for writes), KVH_CLOSED,
 * KVH_NO_MEMORY. One allocation. Any thread, returns at once.
 */
KVH_API kvh_status kvh_queue_submit(struct kvh_queue *queue, const struct kvh_queue_job *job,
                                    uint64_t *job_id, struct kvh_error *error);

struct kvh_queue_completion {
	uint64_t job_id;
	uint64_t user;
	enum kvh_queue_op op;
	/*
	 * KVH_OK: every key has its own result. KVH_CANCELLED, KVH_TIMEOUT: it was stopped, perhaps
	 * before it began; what was done until then stands in the results. Else what the store's
	 * call or the wait for the event said. exists_prefix: also the error of the key at which it
	 * stopped.
	 */
	kvh_status status;
	uint64_t key_count;
	/*
	 * Keys that came out as asked: present, put, read, removed; exists_prefix: the present ones
	 * that lead.
	 */
	uint64_t good_keys;
	uint64_t bytes; /* get, put: of the values of good keys */
};

/* ---- completions ---------------------------------------------------------------------- */

/*
 * Takes up to capacity completions, in the order in which the jobs ended; *count says how many.
 * entry_bytes: sizeof(struct kvh_queue_completion). What does not fit stays for the next call. Any
 * thread, returns at once, allocates nothing, takes no lock when nothing is there.
 */
KVH_API kvh_status kvh_queue_poll(struct kvh_queue *queue, struct kvh_queue_completion *completions,
                                  size_t entry_bytes, size_t capacity, size_t *count);

/*
 * Waits until the job is terminal and takes its completion; job_id 0: the oldest completion that
 * poll would give, of any job. KVH_TIMEOUT: not by the deadline, the job goes on unchanged.
 * KVH_OBJECT_NOT_FOUND: no such job, or its completion was taken. KVH_CLOSED (job_id 0): the queue
 * closes and nothing will come any more. Any thread.
 */
KVH_API kvh_status kvh_queue_wait(struct kvh_queue *queue, uint64_t job_id,
                                  kvh_deadline deadline_ns, struct kvh_queue_completion *completion,
                                  size_t entry_bytes);

/*
 * Hands a job in and waits for it alone: a blocking batch call. KVH_OK: it was queued and is
 * terminal, completion->status says how it ended. Anything else: as kvh_queue_submit. Has no
 * deadline of its own, since what is lent must not be left behind: job->deadline_ns bounds when the
 * store is told to stop. Any thread.
 */
KVH_API kvh_status kvh_queue_run(struct kvh_queue *queue, const struct kvh_queue_job *job,
                                 struct kvh_queue_completion *completion, size_t entry_bytes,
                                 struct kvh_error *error);

/*
 * An eventfd that is readable while poll has something to give, and perhaps for a moment longer;
 * for poll(2), epoll and event loops, level-triggered, or edge-triggered if poll is then called
 * until it gives nothing. poll and wait make it unreadable again when they take the last
 * completion: that is its drain. Never read, write or close it. Written at most once each time that
 * completions begin to wait; costs nothing until this call was made. The queue's until close.
 * KVH_NOT_SUPPORTED: the environment is not kvh_env_posix(). KVH_BUSY: no file descriptor is free.
 * Any thread.
 */
KVH_API kvh_status kvh_queue_fd(struct kvh_queue *queue, int *fd);

/* ---- stopping ------------------------------------------------------------------------- */

/*
 * Asks one job to stop. KVH_CANCEL_NOT_STARTED: it is terminal, the store never saw it;
 * KVH_CANCEL_STOPPING: the store is asked to stop between pieces, or bytes of the job still move.
 * The completion comes in either case. Any thread, returns at once.
 */
KVH_API kvh_status kvh_queue_cancel(struct kvh_queue *queue, uint64_t job_id,
                                    enum kvh_cancel_outcome *outcome);

/*
 * Waits until these jobs (job_ids NULL and count 0: all of the queue) are terminal, to the
 * deadline; ids that are not known count as terminal. KVH_TIMEOUT: *left_jobs (NULL allowed) are
 * not. Completions still come by poll. cancel and then drain is a cancel that blocks. Any thread.
 */
KVH_API kvh_status kvh_queue_drain(struct kvh_queue *queue, const uint64_t *job_ids, size_t count,
                                   kvh_deadline deadline_ns, size_t *left_jobs);

/* ---- looking -------------------------------------------------------------------------- */

enum kvh_queue_job_state {
	KVH_QUEUE_JOB_QUEUED = 1,
	KVH_QUEUE_JOB_RUNNING = 2,
	KVH_QUEUE_JOB_IN_DOUBT = 3, /* its call returned, bytes may still move (D-23) */
	KVH_QUEUE_JOB_DONE = 4      /* terminal; its completion waits */
};

struct kvh_queue_job_info {
	size_t struct_bytes;
	enum kvh_queue_job_state state;
	enum kvh_queue_op op;
	uint64_t user;
	uint64_t submitted_ns; /* by the queue's clock */
	uint64_t started_ns;   /* a thread took it; 0: none yet */
};
/* KVH_OBJECT_NOT_FOUND: no such job, or its completion was taken. Any thread, returns at once. */
KVH_API kvh_status kvh_queue_get_job(struct kvh_queue *queue, uint64_t job_id,
                                     struct kvh_queue_job_info *info);

struct kvh_queue_stats {
	size_t struct_bytes;
	uint64_t submitted_jobs, submitted_keys;
	uint64_t refused_jobs; /* KVH_BUSY */
	/* Terminal jobs by their status; their sum is all of them. */
	uint64_t ok_jobs, cancelled_jobs, timed_out_jobs, failed_jobs;
	uint64_t in_doubt_jobs; /* that ever were */
	uint64_t wakeups;       /* of threads, for a job */
	uint64_t fd_writes;
	/* Now. */
	uint64_t queued_reads, queued_writes, running_jobs, doubtful_jobs, waiting_completions;
};
/* Any thread, returns at once. */
KVH_API kvh_status kvh_queue_get_stats(struct kvh_queue *queue, struct kvh_queue_stats *stats);

#ifdef __cplusplus
}
#endif
#endif
