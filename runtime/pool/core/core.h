/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The core of the pool: who owns which bytes. Every call is a turn of at most KVH_TURN_KEYS_MAX
 * keys (S-8); none moves payload, does I/O or reads a clock. Any thread.
 */
#ifndef KVH_POOL_CORE_CORE_H
#define KVH_POOL_CORE_CORE_H

#include "base/lock.h"
#include "pool/core/keys.h"
#include "pool/core/slots.h"

/* The one mutation lock. take: false past the deadline. */
struct kvh_core_lock {
	bool (*take)(void *ctx, kvh_deadline deadline_ns);
	void (*give)(void *ctx);
	void *ctx;
};

/* touch_share of pools that processes share: readers seldom write to the same lines. */
enum { KVH_SHARED_TOUCH_SHARE = 64 };

/* A handle on an area, in one process: nothing in it is shared. */
struct kvh_core {
	struct kvh_area area;
	struct kvh_core_lock lock;
	uint32_t session;           /* this handle's, set by whoever opens it */
	_Atomic uint32_t abandoned; /* reservations of this handle that kvh_core_collect frees */
	uint64_t hash_mask;         /* all ones; tests make tags collide */
	/* A use younger than this part of the objects is not renewed; 0: exact LRU. */
	uint32_t touch_share;
	uint32_t victims_max;       /* of one list */
	struct kvh_ranked *scratch; /* 2 * victims_max, of the thread that set filling */
	_Atomic bool filling;
};

/*
 * On an area that was made or checked before; the caller then rebuilds it and opens a session.
 * lock: copied. KVH_NO_MEMORY.
 */
kvh_status kvh_core_open(struct kvh_core *core, void *memory, const struct kvh_core_lock *lock);
void kvh_core_close(struct kvh_core *core);

static inline bool kvh_core_take(struct kvh_core *core, kvh_deadline deadline_ns)
	KVH_ANNOTATE(try_acquire_capability(true, kvh_role_pool)) KVH_NO_THREAD_SAFETY_ANALYSIS
{
	return core->lock.take(core->lock.ctx, deadline_ns);
}

static inline void kvh_core_give(struct kvh_core *core)
	KVH_RELEASE(kvh_role_pool) KVH_NO_THREAD_SAFETY_ANALYSIS
{
	core->lock.give(core->lock.ctx);
}

/* A slot in one of its lives. */
struct kvh_core_ref {
	uint32_t slot; /* KVH_NONE: nothing */
	uint64_t ctl;
};

/* ---- without the lock ------------------------------------------------------------------ */

/* Computes stored keys and prefetches where they are looked for. */
void kvh_core_prepare(const struct kvh_core *core, const struct kvh_key *keys, size_t count,
                      struct kvh_stored_key *stored);

/*
 * The VALID object of a key (S-1), not expired. Keys with text: the skip-th one with this digest,
 * not compared yet. slot KVH_NONE: there is none.
 */
struct kvh_core_ref kvh_core_find(const struct kvh_core *core, const struct kvh_stored_key *key,
                                  uint32_t skip, uint64_t now_unit);

/* The same for many keys: the first one with each digest. */
void kvh_core_find_all(const struct kvh_core *core, const struct kvh_stored_key *keys, size_t count,
                       uint64_t now_unit, struct kvh_core_ref *refs);

/*
 * Finds and pins up to 64 keys in one own pin block: pinned objects don't change until unpin. Keys
 * without one: slot KVH_NONE. False: all pin blocks are in use, try again.
 */
struct kvh_pins {
	uint32_t block;
	struct kvh_core_ref refs[KVH_TURN_KEYS_MAX];
};
bool kvh_core_pin(struct kvh_core *core, const struct kvh_stored_key *keys, size_t count,
                  uint64_t now_unit, struct kvh_pins *pins);
void kvh_core_unpin(struct kvh_core *core, struct kvh_pins *pins);
/* Whether a pinned object is still the one that was pinned. False is a bug of ours, counted. */
bool kvh_core_pin_holds(struct kvh_core *core, const struct kvh_core_ref *ref);

/* Whether each key is present; keys with text are pinned and compared. */
bool kvh_core_has(struct kvh_core *core, const struct kvh_stored_key *key, uint64_t now_unit,
                  struct kvh_core_ref *ref);

/* Makes the objects the youngest, in this order; slots KVH_NONE are left out. */
void kvh_core_touch(struct kvh_core *core, const struct kvh_core_ref *refs, size_t count,
                    uint64_t now_unit);

/*
 * RESERVED -> VALID for each ref that is still its reservation (S-11); statuses: KVH_OK or
 * KVH_OBJECT_NOT_FOUND. All bytes of them must be placed and ordered before (S-3).
 */
void kvh_core_commit(struct kvh_core *core, const struct kvh_core_ref *refs, size_t count,
                     uint64_t now_unit, kvh_status *statuses);

/* What a held reservation is called outside, and back; false: it was none of this session's. */
void kvh_core_token(const struct kvh_core *core, const struct kvh_core_ref *ref,
                    struct kvh_token *token);
bool kvh_core_token_ref(const struct kvh_core *core, const struct kvh_token *token,
                        struct kvh_core_ref *ref);

/* ---- reserving ------------------------------------------------------------------------- */

struct kvh_reserve_key {
	const struct kvh_stored_key *key;
	uint64_t length_bytes;
	struct kvh_core_ref
		ref;       /* KVH_OK: the reservation; KVH_OBJECT_ALREADY_EXISTS: the object */
	kvh_status status; /* KVH_BUSY: reserved by a living session (S-10) */
};

enum { KVH_BLOCKED_SPANS = 4096 };

/* One reserve of up to 64 keys, over as many holds of the lock as it takes. */
struct kvh_reserve {
	/* Given; all below zero before the first turn. */
	struct kvh_reserve_key *keys;
	size_t count;
	uint32_t flags;      /* KVH_SLOT_PRIORITY_MASK, _EXPIRES, _GROUP */
	uint64_t until_unit; /* 0: none */

	size_t next;           /* key */
	uint32_t full_units;   /* this many were not to be had; 0: unknown */
	uint32_t victims_left; /* of this turn */
	/* Of the key's search for room. */
	uint32_t cursor;      /* in the victims' list */
	uint32_t switches;    /* which list that was */
	bool searching;       /* cursor is set */
	bool want_scan;       /* the list is over */
	bool list_fresh;      /* filled by this search, when left_keys had left the store */
	bool sweeping;        /* nothing is left to evict in order: slot by slot */
	uint64_t seen_filler; /* whose scan this waits for, and since when */
	uint64_t seen_since_ns;
	uint64_t left_keys;
	uint64_t from_rank;  /* where the list began */
	uint64_t bound_rank; /* where the next list would begin */
	uint32_t sweep_slot;
	uint32_t look_plus_1;  /* span to look through before it is drained */
	uint32_t drain_plus_1; /* span whose objects all go, up to this level */
	uint64_t drain_level;
	/*
	 * Level + 1 up to which a span is not worth another look, by region % KVH_BLOCKED_SPANS:
	 * what has to stay for one level's sake may go for the next one's (S-14).
	 */
	uint8_t blocked[KVH_BLOCKED_SPANS];
};

enum kvh_reserve_step {
	KVH_RESERVE_DONE,  /* every key has its status */
	KVH_RESERVE_AGAIN, /* call again */
	KVH_RESERVE_WAIT,  /* call again after a while: another one scans for victims */
	KVH_RESERVE_LOCKED /* the lock was not to be had by the deadline */
};

/* One turn: at most 64 keys and 64 victims under the lock, or a scan without it. */
enum kvh_reserve_step kvh_core_reserve(struct kvh_core *core, struct kvh_reserve *reserve,
                                       uint64_t now_ns, kvh_deadline deadline_ns);

/* RESERVED -> FREE; statuses as commit. False: no lock by the deadline, nothing was done. */
bool kvh_core_abort(struct kvh_core *core, const struct kvh_core_ref *refs, size_t count,
                    kvh_deadline deadline_ns, kvh_status *statuses);

/*
 * Without the lock: these reservations of this session are for whoever holds it next. No byte of
 * their extents may move any more.
 */
void kvh_core_abandon(struct kvh_core *core, const struct kvh_core_ref *refs, size_t count,
                      kvh_status *statuses);
/* Frees what this handle abandoned, up to 64 a turn; nothing to do costs one load. */
void kvh_core_collect(struct kvh_core *core, kvh_deadline deadline_ns);

/* ---- removing -------------------------------------------------------------------------- */

/*
 * KVH_OK, KVH_OBJECT_NOT_FOUND, KVH_REPLICA_IS_NOT_READY (being written), KVH_OBJECT_HAS_LEASE
 * (pinned now). False: no lock by the deadline.
 */
bool kvh_core_remove(struct kvh_core *core, const struct kvh_stored_key *keys, size_t count,
                     uint64_t now_unit, kvh_deadline deadline_ns, kvh_status *statuses);

/*
 * Removes the VALID objects among up to 64 slots from *slot on and moves *slot past what is done:
 * it stays at a pinned object. Adds to *removed. False: no lock by the deadline.
 */
bool kvh_core_clear(struct kvh_core *core, uint32_t *slot, kvh_deadline deadline_ns,
                    uint64_t *removed);

/* ---- the rest -------------------------------------------------------------------------- */

/* How many keys were taken; *lost is set when some were missed. No lock. */
size_t kvh_core_take_evicted(struct kvh_core *core, struct kvh_evicted_key *keys, size_t capacity,
                             bool *lost);

/* Status and words as kvh_store_prefix; KVH_TIMEOUT: no lock. */
kvh_status kvh_core_prefix(struct kvh_core *core, const struct kvh_prefix *prefix,
                           kvh_deadline deadline_ns, uint32_t *id, struct kvh_error *error);

void kvh_core_stats(const struct kvh_core *core, struct kvh_store_stats *stats);

/* False: nobody has this session. */
bool kvh_core_session(const struct kvh_core *core, uint32_t index,
                      struct kvh_store_session *session);

/* Derived data from truth (S-7, S-15, S-23). Lock held; repeatable at any point. */
void kvh_core_rebuild(struct kvh_core *core, uint64_t now_ns) KVH_REQUIRES(kvh_role_pool);

/*
 * An area from a file that nobody has open: all its sessions are dead, and what neither a rebuild
 * nor the mark of a clean close vouches for is put in bounds (S-15). Then it is rebuilt, unless it
 * was closed well. Lock held.
 */
void kvh_core_bound(struct kvh_core *core, uint64_t now_ns) KVH_REQUIRES(kvh_role_pool);

/*
 * From now on the session of this serial is dead: its pins don't count and it gets reaped. Lock
 * held. Nothing happens if the record is another session's by now.
 */
void kvh_core_session_dies(struct kvh_core *core, uint32_t session, uint64_t serial,
                           uint64_t now_ns) KVH_REQUIRES(kvh_role_pool);

enum kvh_reap_step {
	KVH_REAP_DONE,  /* all is back, the record is free (S-6) */
	KVH_REAP_AGAIN, /* up to 64 reservations were freed: call again */
	KVH_REAP_LATER, /* a device may still write into its DMA reservations, for 10 s (S-4) */
	KVH_REAP_LOCKED /* the lock was not to be had by the deadline */
};

/* Gives back what the dead session of this serial held. */
enum kvh_reap_step kvh_core_reap(struct kvh_core *core, uint32_t session, uint64_t serial,
                                 uint64_t now_ns, kvh_deadline deadline_ns);

/* The payload of a slot. */
static inline unsigned char *kvh_core_extent(const struct kvh_core *core, uint32_t slot)
{
	return kvh_area_extent(
		&core->area,
		atomic_load_explicit(&core->area.slots[slot].extent_unit, memory_order_relaxed));
}

static inline uint32_t kvh_core_length(const struct kvh_core *core, uint32_t slot)
{
	return atomic_load_explicit(&core->area.slots[slot].length_bytes, memory_order_relaxed);
}

#endif
