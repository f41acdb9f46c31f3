/* SPDX-License-Identifier: Apache-2.0 */
/* Locks between processes: fcntl, futex, fork. */
#include "pool/local/shm_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"
#include "base/lock.h"

/* ---- bytes of the file ------------------------------------------------------------------ */

static struct flock byte_of(short type, uint64_t byte)
{
	return (struct flock){
		.l_type = type, .l_whence = SEEK_SET, .l_start = (off_t)byte, .l_len = 1};
}

static bool is_locked(int fd, struct flock *lock)
{
	/* What can't be asked is taken for locked: nobody is called dead by mistake. */
	return fcntl(fd, F_OFD_GETLK, lock) != 0 || lock->l_type != F_UNLCK;
}

bool kvh_byte_lock(int fd, uint64_t byte)
{
	struct flock lock = byte_of(F_WRLCK, byte);

	return fcntl(fd, F_OFD_SETLK, &lock) == 0;
}

void kvh_byte_unlock(int fd, uint64_t byte)
{
	struct flock lock = byte_of(F_UNLCK, byte);

	(void)fcntl(fd, F_OFD_SETLK, &lock);
}

bool kvh_byte_is_locked(int fd, uint64_t byte)
{
	struct flock lock = byte_of(F_WRLCK, byte);

	return is_locked(fd, &lock);
}

bool kvh_bytes_are_locked_from(int fd, uint64_t byte)
{
	struct flock lock = byte_of(F_WRLCK, byte);

	lock.l_len = 0;
	return is_locked(fd, &lock);
}

/* ---- processes -------------------------------------------------------------------------- */

/* Field 22 of /proc/PID/stat, in clock ticks since the boot. 0: unknown. */
static uint64_t start_time_of(uint64_t pid)
{
	enum { FIELD = 22, AFTER_NAME = 2 };
	char path[64], text[1024];
	const char *at;
	ssize_t bytes;
	int fd;

	snprintf(path, sizeof(path), "/proc/%llu/stat", (unsigned long long)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	bytes = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (bytes <= 0)
		return 0;
	text[bytes] = 0;
	/* The name, in parentheses, may hold anything. */
	at = strrchr(text, ')');
	for (int field = AFTER_NAME; at && field < FIELD; field++) {
		at = strchr(at + 1, ' ');
	}
	return at ? strtoull(at + 1, NULL, 10) : 0;
}

void kvh_process_owner(struct kvh_session_owner *owner)
{
	struct stat namespace;

	owner->pid = (uint64_t)getpid();
	owner->start_time = start_time_of(owner->pid);
	owner->pid_namespace =
		stat("/proc/self/ns/pid", &namespace) == 0 ? (uint64_t) namespace.st_ino : 0;
}

bool kvh_process_is_gone(const struct kvh_session_owner *own, const struct kvh_session_owner *other)
{
	uint64_t start_time;

	if (!own->pid_namespace || other->pid_namespace != own->pid_namespace || !other->pid)
		return false;
	if (kill((pid_t)other->pid, 0) != 0 && errno == ESRCH)
		return true;
	start_time = start_time_of(other->pid);
	return start_time && other->start_time && start_time != other->start_time;
}

/* Hidden state of the process: a fork copies every descriptor, and asks nobody else. */
static pthread_mutex_t fork_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct kvh_fork_file *fork_files;
static bool fork_handled;

static void before_fork(void)
{
	pthread_mutex_lock(&fork_mutex);
}

static void after_fork_in_parent(void)
{
	pthread_mutex_unlock(&fork_mutex);
}

static void after_fork_in_child(void)
{
	for (struct kvh_fork_file *file = fork_files; file; file = file->next)
		close(file->fd);
	fork_files = NULL;
	pthread_mutex_unlock(&fork_mutex);
}

int kvh_fork_open(struct kvh_fork_file *file, const char *path, int flags)
{
	int number = 0;

	pthread_mutex_lock(&fork_mutex);
	if (!fork_handled)
		number = pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
	fork_handled = number == 0;
	file->fd = -1;
	if (number == 0) {
		file->fd = open(path, flags);
		number = errno;
	}
	if (file->fd >= 0) {
		file->next = fork_files;
		fork_files = file;
	}
	pthread_mutex_unlock(&fork_mutex);
	errno = number;
	return file->fd;
}

void kvh_fork_close(struct kvh_fork_file *file)
{
	struct kvh_fork_file **at = &fork_files;

	pthread_mutex_lock(&fork_mutex);
	while (*at && *at != file)
		at = &(*at)->next;
	if (*at) {
		*at = file->next;
		close(file->fd);
	}
	pthread_mutex_unlock(&fork_mutex);
}

/* ---- the word --------------------------------------------------------------------------- */

#define WAITERS UINT32_C(0x80000000)
#define WAIT_NS UINT64_C(20000000)

enum { SPINS = 200 }; /* about 10 us: a turn of another one takes less */

static void wait_for_word(_Atomic uint32_t *word, uint32_t value, uint64_t ns)
{
	struct timespec timeout = {.tv_sec = (time_t)(ns / 1000000000),
	                           .tv_nsec = (long)(ns % 1000000000)};

	/* Woken, changed before, interrupted, timed out: the caller looks again in any case. */
	(void)syscall(SYS_futex, word, FUTEX_WAIT, value, &timeout, NULL, 0);
}

static bool spin_for_word(_Atomic uint32_t *word, uint32_t own)
{
	for (int i = 0; i < SPINS; i++) {
		uint32_t free_word = 0;

		if (atomic_load_explicit(word, memory_order_relaxed) == 0 &&
		    atomic_compare_exchange_weak_explicit(
			    word, &free_word, own, memory_order_acquire, memory_order_relaxed))
			return true;
#ifdef __x86_64__
		__builtin_ia32_pause();
#endif
	}
	return false;
}

bool kvh_word_take(_Atomic uint32_t *word, uint32_t own, const struct kvh_env *env,
                   kvh_deadline deadline_ns, uint32_t *holder)
{
	uint64_t now_ns, end_ns;

	if (spin_for_word(word, own))
		return true;
	now_ns = kvh_now_ns(env);
	end_ns = now_ns + WAIT_NS;
	if (deadline_ns && deadline_ns < end_ns)
		end_ns = deadline_ns;
	for (;;) {
		uint32_t value = atomic_load(word);

		/* Others may sleep behind this one: whoever waited says so for them. */
		if (value == 0 && atomic_compare_exchange_strong(word, &value, own | WAITERS))
			return true;
		*holder = value & ~WAITERS;
		if (now_ns >= end_ns)
			return false;
		if ((value & WAITERS) ||
		    atomic_compare_exchange_strong(word, &value, value | WAITERS))
			wait_for_word(word, value | WAITERS, end_ns - now_ns);
		now_ns = kvh_now_ns(env);
	}
}

bool kvh_word_steal(_Atomic uint32_t *word, uint32_t dead, uint32_t own)
{
	uint32_t value = atomic_load(word);

	while ((value & ~WAITERS) == dead)
		if (atomic_compare_exchange_strong(word, &value, own | WAITERS))
			return true;
	return false;
}

void kvh_word_give(_Atomic uint32_t *word)
{
	if (atomic_exchange_explicit(word, 0, memory_order_release) & WAITERS)
		(void)syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0);
}
