/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The area: one flat range of memory that holds everything a pool knows. Offsets only, so that any
 * process may map it anywhere. Shared words are C11 atomics; what the mutation lock guards says so.
 *
 * Truth: superblock, prefixes, slots, shapes, checksums, ring. Derived, rebuilt at any time from
 * the truth (S-7): index, region states, bitmaps, links, victims, prefix states, tallies.
 */
#ifndef KVH_POOL_CORE_AREA_H
#define KVH_POOL_CORE_AREA_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <kvhold/store.h>

enum {
	KVH_UNIT_BYTES = 4096,  /* payloads start and end on these: O_DIRECT, DMA, streaming */
	KVH_TURN_KEYS_MAX = 64, /* keys or victims of one turn (S-8) */
	KVH_EXACT_CLASSES = 16, /* sizes that are kept exact */
	KVH_CLASSES = KVH_EXACT_CLASSES + 8 * 32,
	KVH_SESSIONS_MAX = 256,
	KVH_PIN_BLOCKS = 31,     /* of a session: as many gets at a time */
	KVH_VICTIMS_MAX = 65536, /* of one of the two lists */
	KVH_RING_KEYS = 4096,
	KVH_BUCKET_ENTRIES = 7,
	KVH_PREFIX_BODY_BYTES = 448,
	KVH_STORED_WORDS = 4 /* a stored key is 32 bytes */
};

#define KVH_NONE UINT32_MAX /* no slot, region, prefix */

/* Fixed when the area is made; checked before it is believed (S-15). */
struct kvh_geometry {
	uint64_t area_bytes;
	uint64_t payload_offset_bytes;
	uint64_t bitmap_offset_bytes;
	uint64_t sums_offset_bytes; /* 0: no checksums */
	uint64_t slots_offset_bytes;
	uint64_t links_offset_bytes;
	uint64_t buckets_offset_bytes;
	uint64_t shapes_offset_bytes;
	uint64_t regions_offset_bytes;
	uint32_t unit_count;
	uint32_t slot_count;
	uint32_t bucket_count;
	uint32_t region_count;
	uint32_t region_units;        /* the last region may be shorter */
	uint32_t region_bitmap_words; /* of one region */
};

/* From one emptying of the area to the next: a file outlives the boot that filled it. */
struct kvh_life {
	uint64_t number; /* counts up */
	uint64_t epoch;  /* random; names this life in tokens and hints */
	uint64_t boot_id[2];
	uint64_t checksum; /* of all above */
};

struct kvh_super {
	/* Written once. */
	uint64_t magic;
	uint32_t version;
	uint32_t stamp; /* hash of struct sizes, page and endianness */
	struct kvh_geometry geometry;
	uint64_t checksum; /* of all above */
	/* The newer whole one counts: a crash while the other is written changes nothing. */
	struct kvh_life lives[2];

	/* Serial of the session that has the lock, and a bit for those who wait (S-9). */
	_Alignas(64) _Atomic uint32_t lock;
	_Alignas(64) _Atomic uint64_t use_counter;     /* orders uses: the LRU's clock */
	_Alignas(64) _Atomic uint64_t rebuild_counter; /* odd while a rebuild runs */
	_Alignas(64) _Atomic uint64_t live_sessions[KVH_SESSIONS_MAX / 64];
	_Atomic uint64_t next_serial;
	/* The times of slots are 16-bit counts of 16 s, read from here (core/times.h). */
	_Alignas(64) _Atomic uint64_t time_base;
	/* Append-only, guarded by the lock; 0: free. */
	_Alignas(64) _Atomic uint32_t class_units[KVH_EXACT_CLASSES];
	_Atomic uint32_t prefix_count; /* released after its record */
	_Atomic uint32_t slots_ever;   /* slots from here on were never used */
	/* Evicted keys ever put into the ring. */
	_Alignas(64) _Atomic uint64_t ring_head;
	/* Of what lay here when the last session closed; 0: somebody has it open or died with it.
	 */
	_Alignas(64) _Atomic uint64_t clean_mark;
};

/* Counts; all derived or for people. Written under the lock, read by anybody. */
struct kvh_tally {
	_Atomic uint32_t free_slot; /* head of the free slots, chained by links.next */
	_Atomic uint32_t used_slots;
	_Atomic uint64_t used_units; /* of extents that slots own */
	_Atomic uint32_t run_max;    /* no longer run of free regions exists */
	_Atomic uint64_t evicted_keys;
	_Atomic uint64_t evicted_bytes;
	_Atomic uint64_t expired_keys;
	_Atomic uint64_t dropped_slots; /* bad metadata found by a rebuild */
	_Atomic uint64_t broken_pins;   /* a pinned object changed: a bug (S-4) */
};

/* Of a size class: where a span with room may be found. Derived. */
struct kvh_class_state {
	_Atomic uint32_t open_spans;  /* spans with a free extent */
	_Atomic uint32_t hint_region; /* none below it is open */
};

struct kvh_prefix_record {
	_Atomic uint64_t quota_bytes;
	uint64_t checksum; /* of what follows */
	uint32_t text_bytes;
	uint32_t family_bytes;
	uint32_t identity_bytes;
	uint32_t hash_bytes;
	unsigned char reserved[32];
	unsigned char body[KVH_PREFIX_BODY_BYTES]; /* text, then identity or its digests */
};

/* Derived. */
struct kvh_prefix_state {
	_Atomic uint64_t used_bytes;
	_Atomic uint32_t family_first; /* lowest prefix of the family, KVH_NONE without one */
	_Atomic uint32_t family_next;
};

struct kvh_pin_block {
	_Atomic uint32_t slot_plus_1[KVH_TURN_KEYS_MAX];
};

struct kvh_session_record {
	_Atomic uint64_t serial;
	_Atomic uint64_t pid;
	_Atomic uint64_t pid_namespace;
	_Atomic uint64_t start_time;
	_Atomic uint64_t dead_ns;   /* 0: lives; else when its death was first seen */
	_Atomic uint64_t ring_tail; /* its next key of the ring */
	_Atomic uint32_t reserved_slots;
	_Atomic uint32_t blocks_used; /* a bit a pin block */
	unsigned char reserved[200];
	struct kvh_pin_block blocks[KVH_PIN_BLOCKS];
};

/* Two lists: one is used while the other is filled. A victim: slot << 32 | low use bits. */
struct kvh_victim_list {
	_Atomic uint64_t victims[KVH_VICTIMS_MAX];
};

/* What holds for one of the lists. */
struct kvh_victim_bounds {
	_Atomic uint32_t count;
	/* Nothing outside the list ranks below this, so that the list's head is the oldest. */
	_Atomic uint64_t limit_rank;
	/* From this time unit on a slot's rank may have fallen by itself (keep, expiry). */
	_Atomic uint64_t change_unit;
};

struct kvh_victims {
	_Atomic uint32_t active;   /* lists[active] is in use */
	_Atomic uint32_t head;     /* its first victim that may still be one */
	_Atomic uint32_t switches; /* of lists, so that a place in one is not taken for another's */
	_Atomic uint64_t fills;    /* ever begun */
	_Atomic uint64_t filler;   /* the fill that runs: its number << 12 | session + 1; 0: none */
	_Alignas(64) struct kvh_victim_bounds bounds[2];
};

struct kvh_ring_key {
	_Atomic uint32_t prefix_id;
	_Atomic uint32_t hash_bytes;
	_Atomic uint64_t word[KVH_STORED_WORDS];
};

struct kvh_slot {
	_Atomic uint64_t ctl; /* core/slots.h */
	_Atomic uint64_t word[KVH_STORED_WORDS];
	_Atomic uint32_t prefix_id;
	_Atomic uint32_t extent_unit;
	_Atomic uint32_t length_bytes;
	_Atomic uint32_t check;
	_Atomic uint64_t use; /* last use 48 | until 16 */
};

struct kvh_bucket {
	_Atomic uint64_t entry[KVH_BUCKET_ENTRIES]; /* tag << 32 | slot + 1; 0: free */
	_Atomic uint64_t overflow; /* entries that passed by; may be too high, never too low */
};

/* Of a span's first region. Derived, guarded by the lock. */
struct kvh_region_state {
	_Atomic uint32_t used_extents;
	_Atomic uint32_t first_slot; /* of the span's slots, chained by links; KVH_NONE: none */
	_Atomic uint32_t hint_word;  /* bitmap words below it are full */
};

/* Of a slot: neighbours in its span; of a free one: next alone. KVH_NONE: none. Lock. */
struct kvh_link {
	_Atomic uint32_t prev;
	_Atomic uint32_t next;
};

_Static_assert(sizeof(struct kvh_slot) == 64, "a slot record is a cache line");
_Static_assert(sizeof(struct kvh_bucket) == 64, "a bucket is a cache line");
_Static_assert(sizeof(struct kvh_prefix_record) == 512, "layout");
_Static_assert(sizeof(struct kvh_session_record) == 8192, "layout");
_Static_assert(sizeof(struct kvh_ring_key) == 40, "layout");
_Static_assert(sizeof(struct kvh_super) <= KVH_UNIT_BYTES, "layout");

/* The parts whose place doesn't depend on the geometry. */
struct kvh_area_fixed {
	union {
		struct kvh_super super;
		unsigned char super_bytes[KVH_UNIT_BYTES];
	};
	struct kvh_prefix_record prefixes[KVH_PREFIXES_MAX];
	struct kvh_session_record sessions[KVH_SESSIONS_MAX];
	struct kvh_ring_key ring[KVH_RING_KEYS];
	struct kvh_victim_list victim_lists[2];
	_Alignas(64) struct kvh_victims victims;
	struct kvh_prefix_state prefix_states[KVH_PREFIXES_MAX];
	struct kvh_class_state classes[KVH_CLASSES];
	_Alignas(64) struct kvh_tally tally;
};

/* Where the parts lie in this process. */
struct kvh_area {
	/* Own copies: those in the area may be scribbled over. */
	struct kvh_geometry geometry;
	uint64_t epoch;
	struct kvh_area_fixed *fixed;
	struct kvh_super *super;
	struct kvh_slot *slots;
	struct kvh_link *links;
	struct kvh_bucket *buckets;
	_Atomic uint64_t *shapes; /* a word a region, core/spans.h */
	struct kvh_region_state *regions;
	_Atomic uint64_t *bitmap;
	_Atomic uint64_t *sums; /* XXH3 of each slot's bytes; NULL without */
	unsigned char *payload;
};

/*
 * What a pool of this many payload bytes needs. KVH_INVALID_PARAMS: below one unit or more than
 * offsets can name.
 */
kvh_status kvh_geometry_make(uint64_t capacity_bytes, bool sums, struct kvh_geometry *geometry);

/* Makes an empty area of zeroed memory. boot_id: of the machine, or zeroes in private memory. */
void kvh_area_format(void *memory, const struct kvh_geometry *geometry, uint64_t epoch,
                     const uint64_t boot_id[2]);

/*
 * Whether the superblock (KVH_UNIT_BYTES of it, anybody's bytes) is that of an area of this version
 * and machine that takes area_bytes; error says what is wrong with it (S-15).
 */
kvh_status kvh_area_check(const void *superblock, uint64_t area_bytes, struct kvh_error *error);
/* Writes a life's record in its place; it counts from its last word on. */
void kvh_area_set_life(void *superblock, const struct kvh_life *life);
/* The life that a checked superblock is in; NULL: both records are damaged. */
const struct kvh_life *kvh_area_life(const void *superblock);

/*
 * Empties an area that nobody else has open and begins its next life; after a crash in the middle
 * it is still in the old one. Attach it again.
 */
void kvh_area_empty(struct kvh_area *area, uint64_t epoch, const uint64_t boot_id[2]);

/*
 * A number for all that a clean close leaves, truth and derived (never 0). Lock held by the last
 * session, or nobody has the area open.
 */
uint64_t kvh_area_mark(const struct kvh_area *area);

/* The area's life must be good. */
void kvh_area_attach(struct kvh_area *area, void *memory);

/* Counts that only the lock's holder changes: readers see old or new, no locked instruction. */
static inline void kvh_count64(_Atomic uint64_t *word, uint64_t delta)
{
	atomic_store_explicit(word, atomic_load_explicit(word, memory_order_relaxed) + delta,
	                      memory_order_relaxed);
}

static inline void kvh_count32(_Atomic uint32_t *word, uint32_t delta)
{
	atomic_store_explicit(word, atomic_load_explicit(word, memory_order_relaxed) + delta,
	                      memory_order_relaxed);
}

static inline unsigned char *kvh_area_extent(const struct kvh_area *area, uint32_t unit)
{
	return area->payload + (uint64_t)unit * KVH_UNIT_BYTES;
}

#endif
