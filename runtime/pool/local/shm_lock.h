/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Locks between processes. Locks on bytes of the pool's file end with the process that has them
 * (open file description locks); the mutation lock is one word in the area, and its value names the
 * session that has it.
 */
#ifndef KVH_POOL_LOCAL_SHM_LOCK_H
#define KVH_POOL_LOCAL_SHM_LOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <kvhold/env.h>

#include "pool/core/sessions.h"

/* ---- bytes of the file ------------------------------------------------------------------ */

#define KVH_BYTE_GATE      ((UINT64_C(1) << 40) - 1) /* held by whoever opens or closes */
#define KVH_BYTE_OF_SERIAL (UINT64_C(1) << 40)       /* + serial: held as long as it lives */

/* False: another open file description has it (or the file's system knows no such locks). */
bool kvh_byte_lock(int fd, uint64_t byte);
void kvh_byte_unlock(int fd, uint64_t byte);
/* Whether another open file description has the byte. Never true of fd's own locks. */
bool kvh_byte_is_locked(int fd, uint64_t byte);
/* The same of all bytes from this one on. */
bool kvh_bytes_are_locked_from(int fd, uint64_t byte);

/* ---- processes -------------------------------------------------------------------------- */

/* This process. Zeroes where /proc is not there: then only the byte tells who lives. */
void kvh_process_owner(struct kvh_session_owner *owner);
/*
 * Whether the owner's process can be seen to be gone: a child that a fork left behind keeps the
 * byte of its dead parent.
 */
bool kvh_process_is_gone(const struct kvh_session_owner *own,
                         const struct kvh_session_owner *other);

/*
 * A file that children of a fork must not keep open. The handler is set at the first call. Files
 * are kept in a list of this process; kvh_fork_close closes and forgets.
 */
struct kvh_fork_file {
	int fd;
	struct kvh_fork_file *next;
};
/* As open(2); -1 and errno. No fork comes between the opening and the listing. */
int kvh_fork_open(struct kvh_fork_file *file, const char *path, int flags);
void kvh_fork_close(struct kvh_fork_file *file);

/* ---- the word --------------------------------------------------------------------------- */

/* Serials that the word can name. */
#define KVH_WORD_SERIALS_MAX ((UINT32_C(1) << 31) - 1)

/*
 * Waits about 20 ms for the word, or until the deadline. True: it is `own`'s. False: *holder has
 * had it at the end (0: nobody, try again).
 */
bool kvh_word_take(_Atomic uint32_t *word, uint32_t own, const struct kvh_env *env,
                   kvh_deadline deadline_ns, uint32_t *holder);
/* From a dead holder. False: another one was faster. */
bool kvh_word_steal(_Atomic uint32_t *word, uint32_t dead, uint32_t own);
void kvh_word_give(_Atomic uint32_t *word);

#endif
