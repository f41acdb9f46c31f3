/* SPDX-License-Identifier: Apache-2.0 */
/*
 * "local:NAME" and "local:///PATH": a core in a mapped file, shared by processes, without a daemon.
 * What a process held comes back when others see that it ended: no clock ends a session (S-5).
 */
#include "pool/local/shm.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fault.h"
#include "pool/core/victims.h"
#include "pool/local/shm_file.h"
#include "pool/local/shm_lock.h"
#include "pool/local/shm_room.h"

#define OPEN_WAIT_NS  UINT64_C(10000000000)
#define CLOSE_WAIT_NS UINT64_C(1000000000)
#define GATE_NAP_NS   UINT64_C(1000000)

enum { CREATE_TRIES = 8 };

struct kvh_shared {
	struct kvh_fork_file file; /* fd -1: not open */
	struct kvh_session_owner owner;
	uint32_t serial; /* 0: no session */
	bool made;       /* the file, by this call */
};

/* ---- who lives -------------------------------------------------------------------------- */

static bool session_is_dead(const struct kvh_local *local, uint32_t session)
{
	const struct kvh_session_record *record = &local->core.area.fixed->sessions[session];
	struct kvh_session_owner owner = {
		.pid = atomic_load(&record->pid),
		.pid_namespace = atomic_load(&record->pid_namespace),
		.start_time = atomic_load(&record->start_time),
	};
	uint64_t serial = kvh_session_serial(&local->core.area, session);

	/* A damaged file may name a byte that can't be (S-15): nobody has it. */
	if (serial > KVH_WORD_SERIALS_MAX ||
	    !kvh_byte_is_locked(local->shared->file.fd, KVH_BYTE_OF_SERIAL + serial))
		return true;
	return kvh_process_is_gone(&local->shared->owner, &owner);
}

/* KVH_NONE: no record has it, its opener died before it wrote one. */
static uint32_t session_of(const struct kvh_local *local, uint64_t serial)
{
	for (uint32_t i = 0; i < KVH_SESSIONS_MAX; i++)
		if (kvh_session_serial(&local->core.area, i) == serial)
			return i;
	return KVH_NONE;
}

/* ---- the mutation lock ------------------------------------------------------------------ */

/* Whether the lock's holder, who is not this session, ended. */
static bool holder_is_dead(const struct kvh_local *local, uint32_t serial)
{
	uint32_t session = session_of(local, serial);

	if (session != KVH_NONE)
		return session_is_dead(local, session);
	return !kvh_byte_is_locked(local->shared->file.fd, KVH_BYTE_OF_SERIAL + serial);
}

/* Puts right what a dead holder left in the middle of a turn. */
static void take_over(struct kvh_local *local, uint32_t dead) KVH_REQUIRES(kvh_role_pool)
{
	uint64_t now_ns = kvh_now_ns(local->env);
	uint32_t session = session_of(local, dead);

	KVH_CRASH_POINT(POOL_TAKE_OVER);
	if (session != KVH_NONE)
		kvh_core_session_dies(&local->core, session, dead, now_ns);
	kvh_core_rebuild(&local->core, now_ns);
}

static bool shared_take(void *ctx, kvh_deadline deadline_ns) KVH_NO_THREAD_SAFETY_ANALYSIS
{
	struct kvh_local *local = ctx;
	_Atomic uint32_t *word = &local->core.area.super->lock;
	uint32_t own = local->shared->serial;
	uint32_t holder;

	while (!kvh_word_take(word, own, local->env, deadline_ns, &holder)) {
		if (holder && holder != own && holder_is_dead(local, holder) &&
		    kvh_word_steal(word, holder, own)) {
			take_over(local, holder);
			break;
		}
		if (kvh_deadline_passed(local->env, deadline_ns))
			return false;
	}
	KVH_CRASH_POINT(POOL_LOCKED);
	return true;
}

static void shared_give(void *ctx)
{
	struct kvh_local *local = ctx;

	KVH_CRASH_POINT(POOL_UNLOCK);
	kvh_word_give(&local->core.area.super->lock);
}

/* ---- burying ---------------------------------------------------------------------------- */

/* True: its record, or some of what it held, is free. */
static bool reap(struct kvh_local *local, uint32_t session, uint64_t serial,
                 kvh_deadline deadline_ns)
{
	enum kvh_reap_step step;
	bool freed = false;

	do {
		step = kvh_core_reap(&local->core, session, serial, kvh_now_ns(local->env),
		                     deadline_ns);
		freed |= step == KVH_REAP_DONE || step == KVH_REAP_AGAIN;
	} while (step == KVH_REAP_AGAIN);
	return freed;
}

static bool bury_one(struct kvh_local *local, uint32_t session, kvh_deadline deadline_ns)
{
	struct kvh_core *core = &local->core;
	uint64_t serial = kvh_session_serial(&core->area, session);
	bool was_live = kvh_session_is_live(&core->area, session);

	/* Asked also of one that isn't live: it may just be beginning. */
	if (!serial || session == core->session || !session_is_dead(local, session))
		return false;
	if (!kvh_core_take(core, deadline_ns))
		return false;
	kvh_core_session_dies(core, session, serial, kvh_now_ns(local->env));
	kvh_core_give(core);
	/* Its pins count no more, even if its reservations have to wait. */
	return reap(local, session, serial, deadline_ns) || was_live;
}

bool kvh_shared_bury(struct kvh_local *local, kvh_deadline deadline_ns)
{
	bool freed = false;

	for (uint32_t i = 0; i < KVH_SESSIONS_MAX; i++)
		freed |= bury_one(local, i, deadline_ns);
	return freed;
}

/* ---- opening ---------------------------------------------------------------------------- */

static kvh_status pass_gate(struct kvh_local *local, uint64_t wait_ns)
{
	kvh_deadline deadline_ns = kvh_deadline_after(local->env, wait_ns);

	while (!kvh_byte_lock(local->shared->file.fd, KVH_BYTE_GATE)) {
		if (kvh_deadline_passed(local->env, deadline_ns))
			return KVH_TIMEOUT;
		local->env->ops->sleep_ns(local->env->ctx, GATE_NAP_NS);
	}
	return KVH_OK;
}

static bool has_name(int fd, const char *path)
{
	struct stat named, opened;

	return fstat(fd, &opened) == 0 && lstat(path, &named) == 0 &&
	       opened.st_ino == named.st_ino && opened.st_dev == named.st_dev;
}

/* KVH_OBJECT_NOT_FOUND: there is no file of this name. */
static kvh_status open_file(struct kvh_local *local, const struct kvh_shared_options *options,
                            struct kvh_error *error)
{
	kvh_status status;
	int fd = kvh_fork_open(&local->shared->file, options->path,
	                       O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);

	if (fd < 0 && errno == ENOENT)
		return KVH_OBJECT_NOT_FOUND;
	if (fd < 0)
		return kvh_fail(error, KVH_INVALID_PARAMS, "local: %s can't be opened: %s%s",
		                options->path, strerror(errno),
		                errno == ELOOP ? " (symbolic links are not followed)" : "");
	status = kvh_shared_trust(options, fd, error);
	if (status)
		return status;
	if (pass_gate(local, OPEN_WAIT_NS))
		return kvh_fail(error, KVH_TIMEOUT,
		                "local: %s: another process has been opening or closing it for "
		                "10 s; is one stopped?",
		                options->path);
	/* Removed, or another file by now: the name decides. */
	if (has_name(fd, options->path))
		return KVH_OK;
	kvh_fork_close(&local->shared->file);
	local->shared->file.fd = -1;
	return KVH_OBJECT_NOT_FOUND;
}

static kvh_status open_or_create(struct kvh_local *local, const struct kvh_shared_options *options,
                                 struct kvh_error *error)
{
	kvh_status status = kvh_room_numa_check(options->numa, error);

	if (status)
		return status;
	for (int i = 0; i < CREATE_TRIES; i++) {
		status = open_file(local, options, error);
		if (status != KVH_OBJECT_NOT_FOUND)
			return status;
		if (!options->capacity_bytes)
			return kvh_fail(error, KVH_OBJECT_NOT_FOUND,
			                "local: there is no %s; give option size to make it, such "
			                "as size=8GiB",
			                options->path);
		status = kvh_shared_create(options, local->env, &local->shared->made, error);
		if (status)
			return status;
	}
	return kvh_fail(error, KVH_BUSY, "local: %s is removed as fast as it is made",
	                options->path);
}

/* An open that fails takes the file that it made back, unless somebody came to use it meanwhile. */
static void unmake(const struct kvh_local *local, const char *path)
{
	int fd = local->shared->file.fd;

	if (local->shared->made && fd >= 0 && kvh_byte_lock(fd, KVH_BYTE_GATE) &&
	    !kvh_bytes_are_locked_from(fd, KVH_BYTE_OF_SERIAL) && has_name(fd, path))
		unlink(path);
}

static kvh_status map_file(struct kvh_local *local, const struct kvh_shared_options *options,
                           size_t bytes, struct kvh_error *error)
{
	void *memory =
		mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, local->shared->file.fd, 0);

	if (memory == MAP_FAILED)
		return kvh_fail(error, KVH_NO_MEMORY, "local: %s can't be mapped: %s",
		                options->path, strerror(errno));
	local->memory = memory;
	local->memory_bytes = bytes;
	/* A child of a fork must not touch it; hints: no cached blocks in core dumps, huge pages.
	 */
	if (madvise(memory, bytes, MADV_DONTFORK) != 0)
		return kvh_fail(error, KVH_INTERNAL, "local: %s: madvise: %s", options->path,
		                strerror(errno));
	madvise(memory, bytes, MADV_DONTDUMP);
	madvise(memory, bytes, MADV_HUGEPAGE);
	if (options->prefault && madvise(memory, bytes, MADV_POPULATE_WRITE) != 0)
		return kvh_fail(error, KVH_NO_MEMORY, "local: %s: option prefault: %s",
		                options->path, strerror(errno));
	return KVH_OK;
}

/* lent: where the caller has mapped the file already; NULL: nowhere. */
static kvh_status find_memory(struct kvh_local *local, const struct kvh_shared_options *options,
                              void *lent, struct kvh_error *error)
{
	struct kvh_geometry geometry;
	struct stat file;
	kvh_status status = kvh_shared_geometry(options, local->shared->file.fd, &geometry, error);

	if (status)
		return status;
	if (fstat(local->shared->file.fd, &file) != 0)
		return kvh_fail(error, KVH_INTERNAL, "local: %s: %s", options->path,
		                strerror(errno));
	local->memory = lent;
	return lent ? KVH_OK : map_file(local, options, (size_t)file.st_size, error);
}

/* Whether all is as the last one to close it left it. */
static bool is_clean(const struct kvh_area *area)
{
	uint64_t mark = atomic_load(&area->super->clean_mark);

	return mark && atomic_load(&area->super->rebuild_counter) % 2 == 0 &&
	       mark == kvh_area_mark(area);
}

/* Nobody else has it open. */
static void settle_alone(struct kvh_local *local, bool clean) KVH_REQUIRES(kvh_role_pool)
{
	uint64_t now_ns = kvh_now_ns(local->env);

	kvh_core_bound(&local->core, now_ns);
	if (clean)
		kvh_victims_reset(&local->core.area);
	else
		kvh_core_rebuild(&local->core, now_ns);
}

/* Empties what another boot left: whatever was not written back then is lost. */
static void forget_other_boots(struct kvh_local *local)
{
	const struct kvh_env *env = local->env;
	struct kvh_area *area = &local->core.area;
	const struct kvh_life *life = kvh_area_life(area->super);
	uint64_t boot_id[2];

	kvh_boot_id(boot_id);
	if (memcmp(life->boot_id, boot_id, sizeof(boot_id)) == 0)
		return;
	kvh_area_empty(area, env->ops->random(env->ctx), boot_id);
	kvh_area_attach(area, local->memory);
}

static bool others_live(const struct kvh_local *local)
{
	for (uint32_t i = 0; i < KVH_SESSIONS_MAX; i++)
		if (kvh_session_serial(&local->core.area, i) && i != local->core.session &&
		    !session_is_dead(local, i))
			return true;
	return false;
}

/* The gate is held. */
static kvh_status begin_session(struct kvh_local *local, const char *path, struct kvh_error *error)
{
	struct kvh_core *core = &local->core;
	struct kvh_shared *shared = local->shared;
	bool alone = !others_live(local), clean = false;
	uint64_t serial;

	if (alone) {
		forget_other_boots(local);
		clean = is_clean(&core->area);
		atomic_store(&core->area.super->clean_mark, 0);
		/* Nobody is left who could have it. */
		atomic_store(&core->area.super->lock, 0);
		serial = atomic_load(&core->area.super->next_serial);
		if (serial == 0 || serial > KVH_WORD_SERIALS_MAX / 2)
			atomic_store(&core->area.super->next_serial, 1);
	}
	serial = kvh_session_draw(&core->area);
	if (serial == 0 || serial > KVH_WORD_SERIALS_MAX)
		return kvh_fail(error, KVH_BUSY,
		                "local: %s was opened too often since it was last closed by all",
		                path);
	if (!kvh_byte_lock(shared->file.fd, KVH_BYTE_OF_SERIAL + serial))
		return kvh_fail(error, KVH_NOT_SUPPORTED,
		                "local: %s: this file system has no open file description locks",
		                path);
	shared->serial = (uint32_t)serial;
	KVH_CRASH_POINT(POOL_SESSION_LOCKED);
	if (!kvh_core_take(core, kvh_deadline_after(local->env, OPEN_WAIT_NS)))
		return kvh_fail(error, KVH_TIMEOUT,
		                "local: %s: a process has held the pool's lock for 10 s; is one "
		                "stopped?",
		                path);
	if (alone)
		settle_alone(local, clean);
	core->session = kvh_session_begin(&core->area, serial, &shared->owner);
	kvh_core_give(core);
	return KVH_OK;
}

static kvh_status start_session(struct kvh_local *local, const char *path, struct kvh_error *error)
{
	kvh_status status = begin_session(local, path, error);

	if (status)
		return status;
	kvh_shared_bury(local, kvh_deadline_after(local->env, OPEN_WAIT_NS));
	if (local->core.session != KVH_NONE)
		return KVH_OK;
	/* All were taken: those of the dead are free now. */
	if (kvh_core_take(&local->core, kvh_deadline_after(local->env, OPEN_WAIT_NS))) {
		local->core.session = kvh_session_begin(&local->core.area, local->shared->serial,
		                                        &local->shared->owner);
		kvh_core_give(&local->core);
	}
	if (local->core.session == KVH_NONE)
		return kvh_fail(error, KVH_BUSY,
		                "local: %s: %d sessions have it open, no more fit; open one store "
		                "a process and share it",
		                path, KVH_SESSIONS_MAX);
	return KVH_OK;
}

/* ---- closing ---------------------------------------------------------------------------- */

/* Its own reservations and pins go; the last one leaves the clean mark. */
static void end_session(struct kvh_local *local)
{
	struct kvh_core *core = &local->core;
	uint32_t serial = local->shared->serial;
	kvh_deadline deadline_ns = kvh_deadline_after(local->env, CLOSE_WAIT_NS);

	/* Without the gate or the lock in time it ends as if it was killed: others bury it. */
	if (pass_gate(local, CLOSE_WAIT_NS) || !kvh_core_take(core, deadline_ns))
		return;
	kvh_core_session_dies(core, core->session, serial, kvh_now_ns(local->env));
	kvh_core_give(core);
	if (!reap(local, core->session, serial, deadline_ns) || others_live(local))
		return;
	core->session = KVH_NONE;
	kvh_shared_bury(local, deadline_ns);
	if (!kvh_core_take(core, deadline_ns))
		return;
	KVH_CRASH_POINT(POOL_MARK);
	atomic_store(&core->area.super->clean_mark, kvh_area_mark(&core->area));
	kvh_core_give(core);
}

static void shared_close(void *self)
{
	struct kvh_local *local = self;

	if (local->shared && local->shared->serial && local->core.session != KVH_NONE)
		end_session(local);
	kvh_core_close(&local->core);
	if (local->memory_bytes)
		munmap(local->memory, local->memory_bytes);
	/* With the file go its locks. */
	if (local->shared && local->shared->file.fd >= 0)
		kvh_fork_close(&local->shared->file);
	kvh_free(local->shared);
	kvh_free(local);
}

kvh_status kvh_shared_open_at(const struct kvh_shared_options *options,
                              const struct kvh_store_options *common, void *memory,
                              struct kvh_store_ops *ops, void **self, struct kvh_error *error)
{
	struct kvh_local *local = kvh_calloc(1, sizeof(*local));
	struct kvh_shared *shared = kvh_calloc(1, sizeof(*shared));
	struct kvh_core_lock lock = {.take = shared_take, .give = shared_give, .ctx = local};
	kvh_status status = KVH_NO_MEMORY;

	if (!local || !shared) {
		kvh_free(local);
		kvh_free(shared);
		return kvh_fail(error, KVH_NO_MEMORY, "local: no memory for the handle");
	}
	local->env = common->env;
	local->log = common->log;
	local->shared = shared;
	local->core.session = KVH_NONE;
	shared->file.fd = -1;
	kvh_process_owner(&shared->owner);
	status = open_or_create(local, options, error);
	if (status == KVH_OK)
		status = find_memory(local, options, memory, error);
	if (status)
		goto out;
	status = kvh_core_open(&local->core, local->memory, &lock);
	if (status) {
		kvh_fail(error, status, "local: no memory for the pool's bookkeeping");
		goto out;
	}
	local->core.session = KVH_NONE;
	local->core.touch_share = KVH_SHARED_TOUCH_SHARE;
	status = start_session(local, options->path, error);
	if (status == KVH_OK)
		kvh_byte_unlock(shared->file.fd, KVH_BYTE_GATE);
out:
	if (status) {
		unmake(local, options->path);
		shared_close(local);
		return status;
	}
	*ops = kvh_local_ops;
	ops->close = shared_close;
	*self = local;
	return KVH_OK;
}

kvh_status kvh_shared_open(const struct kvh_shared_options *options,
                           const struct kvh_store_options *common, struct kvh_store_ops *ops,
                           void **self, struct kvh_error *error)
{
	return kvh_shared_open_at(options, common, NULL, ops, self, error);
}
