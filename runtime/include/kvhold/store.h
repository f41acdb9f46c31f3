/* SPDX-License-Identifier: Apache-2.0 */
/* The store: objects under keys, in batches. One interface over every backend. */
#ifndef KVHOLD_STORE_H
#define KVHOLD_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "device.h"
#include "env.h"
#include "log.h"
#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif

struct kvh_store;
struct kvh_layout;

/* Limits of one handle and one call. */
enum {
	KVH_PREFIX_TEXT_BYTES_MAX = 384, /* prefix text, its trailing separator included */
	KVH_PREFIXES_MAX = 4096,         /* prefix ids are below this */
	KVH_IDENTITY_BYTES_MAX = 4096,
	KVH_KEY_HASH_BYTES_MAX = 1024,
	KVH_SEGMENTS_MAX = 16384, /* segments of one value */
	KVH_BATCH_KEYS_MAX = 1 << 20,
	KVH_REGIONS_MAX = 1024
};

/* ---- opening -------------------------------------------------------------------------- */

struct kvh_store_options {
	size_t struct_bytes;
	const struct kvh_env *env;       /* lent; NULL: kvh_env_posix() */
	const struct kvh_device *device; /* lent; NULL: kvh_device_host() */
	struct kvh_log log;
};

/*
 * Opens the store that a URL names.
 *
 *   null:                      answers at once, keeps nothing
 *   null:?exists=1             for measuring: has every key, and a get says that it wrote the value
 *                              although it writes nothing; never for data
 *   local:?size=8GiB           a pool in this process, 4 KiB to 4 TiB; memory is taken as it fills
 *   local:?size=8GiB&verify=1  keeps a checksum of each object and compares it at each get
 *                              (KVH_CHECKSUM_MISMATCH)
 *   local:NAME?size=8GiB       a pool that processes share: the file /dev/shm/kvhold.NAME, made
 *                              with all its space where there is none; NAME is 1 to 200 of A-Z
 *                              a-z 0-9 . _ -. It stays until somebody removes it; its objects are
 *                              there for the next one to open it, until the machine starts anew
 *   local:///PATH?size=8GiB    the same in the file /PATH, on tmpfs, hugetlbfs, ext4, xfs or btrfs
 *
 * Options of the last two: size and verify count when the file is made and must not differ later
 * (left out: as the file has it; without size none is made). mode=0600 is its owner's alone;
 * mode=0660&group=NAME (or its number) is for the members of that group, too. numa=N or
 * numa=interleave: where its memory lies, when it is made. prefault=1: maps every page now.
 * KVH_OBJECT_NOT_FOUND: there is no file and no size. KVH_NO_MEMORY: not so much space or memory;
 * nothing is left behind. KVH_INVALID_PARAMS: no pool, a damaged one, another owner, group or mode
 * than said, other options than it was made with. KVH_NOT_SUPPORTED: of another version or kind of
 * machine, or a file system that can't hold one. KVH_TIMEOUT: another process has been opening it
 * for 10 s and may be stopped. KVH_BUSY: 256 sessions have it open.
 *
 * An option that the backend does not know, or a value out of range, is refused with words that
 * name it. options: borrowed, NULL = all defaults. *store is set on success only; the caller
 * closes it. error: borrowed, NULL allowed. One thread.
 */
KVH_API kvh_status kvh_store_open(const char *url, const struct kvh_store_options *options,
                                  struct kvh_store **store, struct kvh_error *error);

/*
 * Refuses new calls (KVH_CLOSED), waits for those that run and until no byte moves any more, to the
 * deadline, and frees the handle; its regions are unregistered by that. KVH_TIMEOUT or KVH_BUSY
 * (layouts of it still exist): nothing is freed, close again later. KVH_FORKED: nothing happens.
 * NULL: KVH_OK. One thread; no other call may begin after close was called.
 */
KVH_API kvh_status kvh_store_close(struct kvh_store *store, kvh_deadline deadline_ns);

/* ---- memory --------------------------------------------------------------------------- */

/* A range of the engine's memory that values may lie in. No id comes twice in a handle's life. */
typedef uint32_t kvh_region_id;

/*
 * Registers [addr, addr + bytes). kind 0: the device is asked. The memory must stay mapped until
 * kvh_store_unregister has returned KVH_OK. KVH_INVALID_PARAMS: NULL, 0 bytes, an end that
 * overflows, or an overlap with a registered region. One thread.
 */
KVH_API kvh_status kvh_store_register(struct kvh_store *store, void *addr, size_t bytes,
                                      enum kvh_memory_kind kind, kvh_region_id *region,
                                      struct kvh_error *error);

/*
 * Waits until no call uses the region and no byte of it can move any more, to the deadline; then
 * the memory is the caller's alone. KVH_BUSY: a layout still names it. KVH_TIMEOUT: still
 * registered. One thread.
 */
KVH_API kvh_status kvh_store_unregister(struct kvh_store *store, kvh_region_id region,
                                        kvh_deadline deadline_ns);

/* Segment i of block b lies at base + b * stride_bytes, bytes long. */
struct kvh_segment_template {
	void *base;
	size_t stride_bytes;
	size_t bytes;
};

/*
 * How a block id becomes a list of segments, said once. templates: borrowed. Every segment of
 * blocks 0 .. block_count - 1 must lie inside one registered region, and be at least 1 byte long;
 * all regions of one layout are of one memory kind. The caller destroys it. One thread.
 */
KVH_API kvh_status kvh_layout_create(struct kvh_store *store,
                                     const struct kvh_segment_template *templates,
                                     size_t template_count, uint64_t block_count,
                                     struct kvh_layout **layout, struct kvh_error *error);
/* No call may use it any more. NULL: nothing happens. */
KVH_API void kvh_layout_destroy(struct kvh_layout *layout);
/* Bytes of one value: the sum of its templates. */
KVH_API size_t kvh_layout_value_bytes(const struct kvh_layout *layout);

/* ---- keys and values ------------------------------------------------------------------ */

/*
 * The part of a key that many keys share. Two prefixes are the same if text and identity are; then
 * they get the same id. The text form of a key is text + hash in lower-case hex, so text ends in
 * its own separator ("m@tp_rank:0@pcp0@dcp0@pp_rank:0@group:0@").
 */
struct kvh_prefix {
	size_t struct_bytes;
	const char *text; /* borrowed; printable ASCII, no blanks, no letter or digit at its end */
	size_t text_bytes;
	/*
	 * Leading bytes of text that name the lifecycle family (R-3): keys of one family with the
	 * same hash are one lifecycle group. 0: no family.
	 */
	size_t family_bytes;
	/*
	 * What else must be equal for bytes to be interchangeable: model revision, weights epoch,
	 * dtype, layout. Borrowed; 0 bytes: none.
	 */
	const void *identity;
	size_t identity_bytes;
	uint32_t hash_bytes;  /* of every key with this prefix; 0: any from 1 on */
	uint64_t quota_bytes; /* objects of this prefix use at most these; 0: leave as it is */
};

/*
 * Interns the prefix. KVH_BUSY: the store's table is full. KVH_INVALID_PARAMS: also when it is
 * known with another hash_bytes or family_bytes. Any thread, may wait for the store.
 */
KVH_API kvh_status kvh_store_prefix(struct kvh_store *store, const struct kvh_prefix *prefix,
                                    uint32_t *prefix_id, struct kvh_error *error);

struct kvh_key {
	const uint8_t *hash; /* borrowed for the call */
	uint32_t hash_bytes;
	uint32_t prefix_id;
};

struct kvh_segment {
	void *addr; /* only read by put */
	size_t bytes;
};

/* Either layout and block_id, or (layout NULL) an explicit list inside registered regions. */
struct kvh_value {
	const struct kvh_layout *layout;
	uint64_t block_id;
	const struct kvh_segment *segments;
	size_t segment_count;
};

enum {
	/* No byte of this key's value is read or written any more (D-23). */
	KVH_RESULT_QUIET = 1u << 0
};

/*
 * One key's outcome. The store presets {KVH_NO_ANSWER, quiet} before the backend runs; the
 * backend takes the quiet bit away before it lets bytes move and gives it back when they can't.
 */
struct kvh_result {
	int64_t value; /* exists: 1 or 0; put: 0; get: bytes; or a negative status */
	uint32_t flags;
	uint32_t reserved;
};

/* All arrays are borrowed for the call and have count entries; values NULL where not named. */
struct kvh_batch {
	size_t count;
	const struct kvh_key *keys;
	const struct kvh_value *values;
	struct kvh_result *results;
};

/* ---- calls ---------------------------------------------------------------------------- */

/* Ask to stop: any thread sets it, calls look at it between pieces. Zero-initialise. */
struct kvh_cancel {
	uint32_t requested;
};
KVH_API void kvh_cancel_request(struct kvh_cancel *cancel);
KVH_API bool kvh_cancel_requested(const struct kvh_cancel *cancel);

/* What asking a job of a worker or queue to stop came to. */
enum kvh_cancel_outcome {
	KVH_CANCEL_NOT_STARTED = 1, /* terminal now; its completion waits in poll */
	KVH_CANCEL_STOPPING = 2,    /* asked; its completion will come */
	KVH_CANCEL_ALREADY_DONE = 3 /* completed before, or never known */
};

/* NULL for the defaults: no cancel, no deadline. */
struct kvh_call {
	size_t struct_bytes;
	const struct kvh_cancel *cancel; /* lent for the call */
	kvh_deadline deadline_ns;
};

enum {
	KVH_EXISTS_LOOKUP = 0,     /* neither touches nor leases */
	KVH_EXISTS_DEDUP = 1u << 0 /* before a put: touches what is present */
};

/* A reserved, not yet committed object. Opaque; worthless in another handle. */
struct kvh_token {
	uint64_t word[3];
};

enum {
	KVH_PUT_HOLD = 1u << 0,           /* reserve and fill, do not commit; tokens are set */
	KVH_PUT_LIFECYCLE_GROUP = 1u << 1 /* the prefix's family and the hash form a group (R-3) */
};

struct kvh_put_options {
	size_t struct_bytes;
	uint32_t flags;
	uint32_t replicas; /* 0 = 1 */
	uint32_t priority; /* 0 .. 3, evicted lowest first */
	uint32_t reserved;
	uint64_t keep_seconds;      /* evicted only when nothing else is left; 0: none */
	uint64_t expire_seconds;    /* gone after this; 0: never; not together with keep_seconds */
	const char *preferred_node; /* borrowed; NULL: the store chooses */
	struct kvh_token *tokens;   /* KVH_PUT_HOLD: count entries; else NULL */
};

/*
 * Every call below: any thread; blocks to the call's deadline; returns KVH_OK when each key has its
 * own result, or a negative status when the batch as a whole was refused or failed (results then
 * hold what was known, KVH_NO_ANSWER where nothing was). The same key twice in a put is one object:
 * the second gets the first one's result. A batch of 0 keys is refused with KVH_INVALID_PARAMS, as
 * is every wrong argument, before anything is done.
 */
KVH_API kvh_status kvh_store_exists(struct kvh_store *store, const struct kvh_batch *batch,
                                    uint32_t flags, const struct kvh_call *call);
KVH_API kvh_status kvh_store_put(struct kvh_store *store, const struct kvh_batch *batch,
                                 const struct kvh_put_options *options,
                                 const struct kvh_call *call);
/* A value of another length than the object's fails with KVH_INVALID_PARAMS, nothing is read. */
KVH_API kvh_status kvh_store_get(struct kvh_store *store, const struct kvh_batch *batch,
                                 const struct kvh_call *call);
KVH_API kvh_status kvh_store_remove(struct kvh_store *store, const struct kvh_batch *batch,
                                    const struct kvh_call *call);

/* Results: 0, or negative (KVH_OBJECT_NOT_FOUND: the reservation is gone; nothing changed). */
KVH_API kvh_status kvh_store_commit(struct kvh_store *store, const struct kvh_token *tokens,
                                    size_t count, struct kvh_result *results);
KVH_API kvh_status kvh_store_abort(struct kvh_store *store, const struct kvh_token *tokens,
                                   size_t count, struct kvh_result *results);

/* Removes every committed object. removed: NULL allowed. */
KVH_API kvh_status kvh_store_clear(struct kvh_store *store, const struct kvh_call *call,
                                   uint64_t *removed);

enum kvh_tier {
	KVH_TIER_UNKNOWN = 0, /* no copy known */
	KVH_TIER_MEMORY = 1,
	KVH_TIER_DISK = 2
};

/* tiers: count entries. Says where a get would read from now (R-37). */
KVH_API kvh_status kvh_store_tiers(struct kvh_store *store, const struct kvh_key *keys,
                                   size_t count, enum kvh_tier *tiers, const struct kvh_call *call);

/* A key that left the store. hash holds at most 32 bytes; longer ones by their 128-bit digest. */
struct kvh_evicted_key {
	uint32_t prefix_id;
	uint32_t hash_bytes;
	uint8_t hash[32];
};

/*
 * Takes the next evicted keys of this handle's own feed, oldest first. *lost = true: the feed ran
 * over and keys are missing; look again at everything. Any thread.
 */
KVH_API kvh_status kvh_store_take_evicted(struct kvh_store *store, struct kvh_evicted_key *keys,
                                          size_t capacity, size_t *count, bool *lost);

enum {
	KVH_LIST_VERIFY = 1u << 0 /* compare payloads with the checksums that the store keeps */
};

enum {
	KVH_LISTED_LIFECYCLE_GROUP = 1u << 0, /* it was put with KVH_PUT_LIFECYCLE_GROUP */
	/*
	 * Its own record is damaged: no get finds it, and key and bytes may be wrong. Told with
	 * KVH_LIST_VERIFY only; key.hash_bytes 0: not even the key can be told.
	 */
	KVH_LISTED_BAD_RECORD = 1u << 1
};

/* A committed object. */
struct kvh_listed {
	/*
	 * hash lies in the list's hashes. A prefix that this handle has not interned still has its
	 * text (kvh_store_key_text); the other calls refuse it, as its identity was never compared.
	 */
	struct kvh_key key;
	uint64_t bytes;
	uint64_t uses_since;     /* of any object since its own last use; the most goes first */
	uint64_t keep_seconds;   /* left; 0: none */
	uint64_t expire_seconds; /* left; 0: never */
	uint32_t priority;
	uint32_t flags;
	/*
	 * KVH_OK: its record and, with KVH_LIST_VERIFY, its payload are right. KVH_NOT_SUPPORTED:
	 * asked to verify, but the store keeps no checksums and only the record was checked.
	 * KVH_CHECKSUM_MISMATCH: damaged.
	 */
	kvh_status status;
	uint32_t reserved;
};

/* Where a list goes. All borrowed for the call. */
struct kvh_list {
	size_t struct_bytes;
	uint32_t flags; /* KVH_LIST_* */
	uint32_t reserved;
	struct kvh_listed *objects; /* capacity entries */
	size_t capacity;            /* at most KVH_BATCH_KEYS_MAX */
	uint8_t *hashes;            /* hashes_bytes for the keys' hashes */
	size_t hashes_bytes;        /* KVH_KEY_HASH_BYTES_MAX at least */
};

/*
 * Lists committed objects from *cursor on (0: from the start), in the store's own order, and moves
 * *cursor behind them; it comes back as 0 when there are no more. *count may be 0 before that. What
 * is put or removed between two calls may be listed or not; nothing is listed twice, unless it was
 * removed and put again. Being listed is no use of an object. No lock is held while payloads are
 * compared; an object can't be evicted or removed during its own comparison. Any thread. A deadline
 * or cancel that strikes on the way ends the call with KVH_OK and what was listed until then.
 * KVH_NOT_SUPPORTED: caps.list is false.
 */
KVH_API kvh_status kvh_store_list(struct kvh_store *store, const struct kvh_list *list,
                                  uint64_t *cursor, size_t *count, const struct kvh_call *call);

/*
 * Waits until no byte moves for any call that returned before this one began (what D-23 calls
 * confirmed), to the deadline. KVH_TIMEOUT: some may still move.
 */
KVH_API kvh_status kvh_store_quiesce(struct kvh_store *store, kvh_deadline deadline_ns);

struct kvh_store_caps {
	size_t struct_bytes;
	bool hold;      /* KVH_PUT_HOLD works */
	bool lifecycle; /* KVH_PUT_LIFECYCLE_GROUP works */
	bool tiers;     /* kvh_store_tiers works */
	bool evicted;   /* kvh_store_take_evicted works */
	bool list;      /* kvh_store_list works */
	/* After cancel or a deadline no byte moves once these have passed; < 0: unbounded. */
	int64_t stop_ms_max;
	uint64_t capacity_bytes;
	uint64_t replicas_max; /* copies of one object; more are refused; 0 = 1 */
};
KVH_API kvh_status kvh_store_get_caps(struct kvh_store *store, struct kvh_store_caps *caps);

struct kvh_store_stats {
	size_t struct_bytes;
	uint64_t objects;
	uint64_t used_bytes;
	uint64_t capacity_bytes;
	uint64_t put_keys, put_bytes, put_failed_keys;
	uint64_t get_keys, get_bytes, get_failed_keys;
	uint64_t exists_keys, exists_hits;
	uint64_t removed_keys, evicted_keys, evicted_bytes, expired_keys;
	uint64_t no_space_keys; /* puts answered KVH_NO_AVAILABLE_HANDLE */
	uint64_t unquiet_keys;
	uint64_t pinned_objects, reserved_objects;
};
KVH_API kvh_status kvh_store_get_stats(struct kvh_store *store, struct kvh_store_stats *stats);

/* Who has the store open: a handle of some process, until that process ends or closes it. */
struct kvh_store_session {
	uint64_t serial; /* names it; none comes twice in the store's life */
	uint64_t pid;    /* 0: not known */
	uint64_t pid_namespace;
	uint32_t pinned_objects;   /* being read */
	uint32_t reserved_objects; /* being written, or held */
	bool is_own;               /* this handle's */
	bool is_dead;              /* its process ended; what it held comes back */
};

/*
 * sessions: capacity entries of entry_bytes = sizeof(struct kvh_store_session); filled up to
 * capacity. *count: how many there are, perhaps more. A stopped process is seen here by what it
 * pins and reserves. KVH_NOT_SUPPORTED: the store knows of none. Any thread.
 */
KVH_API kvh_status kvh_store_get_sessions(struct kvh_store *store,
                                          struct kvh_store_session *sessions, size_t entry_bytes,
                                          size_t capacity, size_t *count);

/*
 * Metrics as Prometheus text exposition, base units. Writes at most capacity bytes with the final
 * 0; *needed_bytes is what the whole text takes. KVH_BUSY: it did not fit. Any thread.
 */
KVH_API kvh_status kvh_store_stats_text(struct kvh_store *store, char *text, size_t capacity,
                                        size_t *needed_bytes);

/*
 * The text form of a key, for people and text stores; its inverse finds a known prefix. Prefixes
 * that only others of the store have interned will do, so that listed and evicted keys have a text
 * (of evicted ones those of up to 32 bytes).
 */
KVH_API kvh_status kvh_store_key_text(struct kvh_store *store, const struct kvh_key *key,
                                      char *text, size_t capacity, size_t *needed_bytes);
/* The part of it that all keys of a prefix share. KVH_OBJECT_NOT_FOUND: nobody interned that id. */
KVH_API kvh_status kvh_store_prefix_text(struct kvh_store *store, uint32_t prefix_id, char *text,
                                         size_t capacity, size_t *needed_bytes);
/*
 * hash: capacity bytes for the key's bytes; key->hash points there. Text without its final 0. Where
 * several identities share the prefix text, the one with the highest id is found.
 * KVH_OBJECT_NOT_FOUND: no such prefix was interned. KVH_INVALID_KEY: the hash is not one of its.
 * KVH_BUSY: capacity is too small.
 */
KVH_API kvh_status kvh_store_key_parse(struct kvh_store *store, const char *text, size_t text_bytes,
                                       uint8_t *hash, size_t capacity, struct kvh_key *key);

#ifdef __cplusplus
}
#endif
#endif
