/* SPDX-License-Identifier: Apache-2.0 */
/* Starts a peer, asks it line by line, believes no answer that can't be, and ends it. */
#include "bench_peer.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli.h"

enum {
	LINE_BYTES_MAX = 512,
	NAME_BYTES_MAX = 64,
	EXIT_SECONDS = 1, /* from its last word to its exit status */
	STEP_MS = 10
};

#define SECOND_NS UINT64_C(1000000000)

struct kvh_bench_peer {
	const struct kvh_env *env;
	uint64_t limit_ns; /* for each answer */
	pid_t pid;         /* and process group; 0: reaped */
	int fd;            /* its standard input and output */
	char name[NAME_BYTES_MAX];
};

static uint64_t now_ns(const struct kvh_bench_peer *peer)
{
	return peer->env->ops->now_ns(peer->env->ctx);
}

/* Prints why the peer can't go on; false, for the caller to return. */
static bool refuse(const char *format, ...) __attribute__((format(printf, 1, 2)));

static bool refuse(const char *format, ...)
{
	char words[2 * LINE_BYTES_MAX];
	va_list values;

	va_start(values, format);
	vsnprintf(words, sizeof(words), format, values);
	va_end(values);
	kvh_cli_complain("bench", "the peer %s", words);
	return false;
}

/* Bytes from outside as they can be shown: one line, no control characters. */
static const char *shown(char *line)
{
	for (char *at = line; *at; at++) {
		if (!isprint((unsigned char)*at))
			*at = '?';
	}
	return line;
}

/* ---- its process ---- */

/* In the child. The peer is ended when the bench dies, whatever of. */
static void become_peer(const char *command, int fd, pid_t bench_pid)
{
	if (setpgid(0, 0) || prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() != bench_pid ||
	    dup2(fd, STDIN_FILENO) < 0 || dup2(fd, STDOUT_FILENO) < 0)
		_exit(127);
	/* In the shell's place, so that it is the command that dies with the bench. */
	execl("/bin/sh", "sh", "-c", "eval \"exec $1\"", "sh", command, (char *)NULL);
	_exit(127);
}

static bool start(struct kvh_bench_peer *peer, const char *command)
{
	pid_t bench_pid = getpid();
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends))
		return refuse("can't be started: socketpair: %s", strerrordesc_np(errno));
	peer->pid = fork();
	if (peer->pid == 0)
		become_peer(command, ends[1], bench_pid);
	close(ends[1]);
	peer->fd = ends[0];
	if (peer->pid < 0) {
		peer->pid = 0;
		return refuse("can't be started: fork: %s", strerrordesc_np(errno));
	}
	/* Both sides do it, so that it is done whoever is first; the child may have ended already.
	 */
	(void)setpgid(peer->pid, peer->pid);
	return true;
}

/* Ends it and all that it started; its status. Its number is nobody else's until it is reaped. */
static int kill_peer(struct kvh_bench_peer *peer)
{
	int status = 0;

	if (peer->pid == 0)
		return status;
	kill(-peer->pid, SIGKILL);
	while (waitpid(peer->pid, &status, 0) < 0 && errno == EINTR)
		;
	peer->pid = 0;
	return status;
}

/* Whether it ended within that time; then its status is in *status. */
static bool reap(struct kvh_bench_peer *peer, uint64_t limit_ns, int *status)
{
	uint64_t deadline_ns = now_ns(peer) + limit_ns;

	while (peer->pid) {
		siginfo_t ended = {0};

		if (waitid(P_PID, (id_t)peer->pid, &ended, WEXITED | WNOHANG | WNOWAIT) == 0 &&
		    ended.si_pid == peer->pid) {
			*status = kill_peer(peer);
			return true;
		}
		if (now_ns(peer) >= deadline_ns)
			return false;
		(void)poll(NULL, 0, STEP_MS);
	}
	return false;
}

/* How a process ended, in words. */
static void describe_end(int status, char *words, size_t capacity)
{
	if (WIFSIGNALED(status))
		snprintf(words, capacity, "killed by signal %d", WTERMSIG(status));
	else
		snprintf(words, capacity, "exit status %d", WEXITSTATUS(status));
}

static bool refuse_death(struct kvh_bench_peer *peer)
{
	char words[64] = "though it still runs";
	int status;

	if (reap(peer, EXIT_SECONDS * SECOND_NS, &status))
		describe_end(status, words, sizeof(words));
	return refuse("ended its answers: %s", words);
}

/* ---- its lines ---- */

/* Waits for bytes until deadline_ns; how many came, 0: it ended, -1: too late. */
static ssize_t receive(struct kvh_bench_peer *peer, char *bytes, size_t capacity,
                       uint64_t deadline_ns)
{
	struct pollfd wanted = {.fd = peer->fd, .events = POLLIN};

	for (;;) {
		uint64_t now = now_ns(peer);
		uint64_t left_ms = now < deadline_ns ? (deadline_ns - now) / 1000000 + 1 : 0;
		ssize_t received;

		if (left_ms == 0)
			return -1;
		if (poll(&wanted, 1, left_ms < 1000 ? (int)left_ms : 1000) <= 0)
			continue;
		received = recv(peer->fd, bytes, capacity, MSG_DONTWAIT);
		if (received >= 0)
			return received;
		if (errno != EINTR && errno != EAGAIN)
			return 0;
	}
}

/* The next line without its end. It is all that the peer has said. */
static bool read_line(struct kvh_bench_peer *peer, char line[LINE_BYTES_MAX])
{
	uint64_t deadline_ns = now_ns(peer) + peer->limit_ns;
	size_t bytes = 0;
	char *end = NULL;

	while (!end) {
		ssize_t received;

		if (bytes == LINE_BYTES_MAX - 1)
			return refuse("says a line of more than %d bytes", LINE_BYTES_MAX - 1);
		received = receive(peer, line + bytes, LINE_BYTES_MAX - 1 - bytes, deadline_ns);
		if (received < 0)
			return refuse("does not answer within %.0f s (--peer-seconds)",
			              (double)peer->limit_ns * 1e-9);
		if (received == 0)
			return refuse_death(peer);
		end = memchr(line + bytes, '\n', (size_t)received);
		bytes += (size_t)received;
	}
	if (end + 1 != line + bytes)
		return refuse("says more than it was asked");
	*end = 0;
	return true;
}

/* False too when the peer has spoken unasked: that line would be taken for the answer. */
static bool send_line(struct kvh_bench_peer *peer, const char *line)
{
	size_t bytes = strlen(line);
	char unasked;

	if (recv(peer->fd, &unasked, 1, MSG_DONTWAIT | MSG_PEEK) > 0)
		return refuse("says more than it was asked");
	/* A few bytes into an empty socket: they are taken as a whole or the peer is gone. */
	if (send(peer->fd, line, bytes, MSG_NOSIGNAL) != (ssize_t)bytes)
		return refuse_death(peer);
	return true;
}

/* The rest of a line that begins with word and a space, or NULL. */
static char *after_word(char *line, const char *word)
{
	size_t bytes = strlen(word);

	return strncmp(line, word, bytes) == 0 && line[bytes] == ' ' ? line + bytes + 1 : NULL;
}

/* The next line after "word ", its rest in *rest. Anything else is refused in words. */
static bool read_answer(struct kvh_bench_peer *peer, char line[LINE_BYTES_MAX], const char *word,
                        char **rest)
{
	char *error;

	if (!read_line(peer, line))
		return false;
	*rest = after_word(line, word);
	if (*rest)
		return true;
	error = after_word(line, "error");
	if (error)
		return refuse("failed: %s", shown(error));
	return refuse("answers \"%s\", not \"%s ...\"", shown(line), word);
}

static bool take_seconds(char **at, double *seconds)
{
	char *end;

	if (!isdigit((unsigned char)**at))
		return false;
	*seconds = strtod(*at, &end);
	if (!isfinite(*seconds) || *end != ' ')
		return false;
	*at = end + 1;
	return true;
}

/* elapsed_s: from the question to the answer, which no call of the peer can have outlasted. */
static bool take_times(char *rest, uint64_t expected, double elapsed_s,
                       struct kvh_bench_peer_times *times)
{
	struct kvh_bench_peer_times taken;
	char kept[LINE_BYTES_MAX];
	uint64_t checked;

	snprintf(kept, sizeof(kept), "%s", rest);
	if (!take_seconds(&rest, &taken.seconds) || !take_seconds(&rest, &taken.cpu_seconds) ||
	    !kvh_cli_number(rest, 0, UINT64_MAX, &checked))
		return refuse("answers \"done %s\", not \"done SECONDS CPU_SECONDS CHECKED\"",
		              shown(kept));
	if (checked != expected)
		return refuse("has checked %llu, not %llu", (unsigned long long)checked,
		              (unsigned long long)expected);
	if (taken.seconds <= 0 || taken.seconds > elapsed_s)
		return refuse("says %g s, but its answer took %g s", taken.seconds, elapsed_s);
	*times = taken;
	return true;
}

/* ---- the interface ---- */

struct kvh_bench_peer *kvh_bench_peer_open(const struct kvh_env *env, const char *command,
                                           uint64_t limit_ns)
{
	struct kvh_bench_peer *peer = calloc(1, sizeof(*peer));
	char line[LINE_BYTES_MAX];
	char *name;

	if (!peer) {
		kvh_bench_ok("the peer", KVH_NO_MEMORY, NULL);
		return NULL;
	}
	*peer = (struct kvh_bench_peer){.env = env, .limit_ns = limit_ns, .fd = -1};
	if (start(peer, command) && read_answer(peer, line, "ready", &name)) {
		snprintf(peer->name, sizeof(peer->name), "%.*s", NAME_BYTES_MAX - 1, shown(name));
		return peer;
	}
	kill_peer(peer);
	kvh_bench_peer_close(peer);
	return NULL;
}

const char *kvh_bench_peer_name(const struct kvh_bench_peer *peer)
{
	return peer->name;
}

static bool end_well(struct kvh_bench_peer *peer)
{
	char words[64];
	int status;

	if (!reap(peer, peer->limit_ns, &status))
		return refuse("does not end within %.0f s (--peer-seconds)",
		              (double)peer->limit_ns * 1e-9);
	if (status == 0)
		return true;
	describe_end(status, words, sizeof(words));
	return refuse("did not end well: %s", words);
}

bool kvh_bench_peer_run(struct kvh_bench_peer *peer, const struct kvh_bench_peer_case *one,
                        struct kvh_bench_peer_times *times, uint64_t *spent_ns)
{
	static const char *const ops[] = {"put", "get", "exists"};
	uint64_t expected =
		one->object_count * (one->op == KVH_BENCH_EXISTS ? 1 : one->object_bytes);
	uint64_t start_ns = now_ns(peer);
	char line[LINE_BYTES_MAX];
	char *rest;
	bool ok;

	snprintf(line, sizeof(line), "run %s %zu %zu %zu\n", ops[one->op], one->object_bytes,
	         one->segment_count, one->object_count);
	ok = send_line(peer, line) && read_answer(peer, line, "done", &rest) &&
	     take_times(rest, expected, (double)(now_ns(peer) - start_ns) * 1e-9, times);
	if (!ok)
		kill_peer(peer);
	*spent_ns += now_ns(peer) - start_ns;
	return ok;
}

bool kvh_bench_peer_close(struct kvh_bench_peer *peer)
{
	bool ok = true;

	if (!peer)
		return true;
	/* A peer that failed was complained about and has no process. */
	if (peer->pid)
		ok = send_line(peer, "quit\n") && end_well(peer);
	kill_peer(peer);
	if (peer->fd >= 0)
		close(peer->fd);
	free(peer);
	return ok;
}
