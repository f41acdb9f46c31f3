/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rebuild: everything derived, from the truth alone (S-7). Whoever stopped in the middle of a turn,
 * or of a rebuild, left slots in one of their states: that is all this looks at (S-23).
 */
#include "base/fault.h"
#include "pool/core/evict.h"
#include "pool/core/find.h"
#include "pool/core/index.h"
#include "pool/core/prefixes.h"
#include "pool/core/ring.h"
#include "pool/core/sessions.h"
#include "pool/core/spans.h"
#include "pool/core/victims.h"

enum { BATCH_SLOTS = 64 };

#define DMA_QUARANTINE_NS UINT64_C(10000000000)

#define LOAD(word)         atomic_load_explicit(&(word), memory_order_relaxed)
#define STORE(word, value) atomic_store_explicit(&(word), (value), memory_order_relaxed)

static void reset_index(struct kvh_area *area)
{
	for (uint32_t i = 0; i < area->geometry.bucket_count; i++) {
		struct kvh_bucket *bucket = &area->buckets[i];

		/* Reads alone don't touch fresh memory. */
		for (unsigned k = 0; k < KVH_BUCKET_ENTRIES; k++)
			if (LOAD(bucket->entry[k]))
				STORE(bucket->entry[k], 0);
		if (LOAD(bucket->overflow))
			STORE(bucket->overflow, 0);
	}
}

static void reset_derived(struct kvh_core *core) KVH_REQUIRES(kvh_role_pool)
{
	struct kvh_area *area = &core->area;

	reset_index(area);
	kvh_spans_reset(area);
	kvh_prefixes_reset(area);
	kvh_victims_reset(area);
	STORE(area->fixed->tally.free_slot, KVH_NONE);
	STORE(area->fixed->tally.used_slots, 0);
	STORE(area->super->slots_ever, kvh_slots_ever(area));
	/* Those of the living count on while this runs: they commit without the lock. */
	for (uint32_t i = 0; i < KVH_SESSIONS_MAX; i++)
		if (!kvh_session_is_live(area, i))
			STORE(area->fixed->sessions[i].reserved_slots, 0);
}

static void stored_key(const struct kvh_core *core, const struct kvh_slot *slot, uint64_t hash,
                       struct kvh_stored_key *key)
{
	for (unsigned i = 0; i < KVH_STORED_WORDS; i++)
		key->word[i] = LOAD(slot->word[i]);
	key->prefix_id = LOAD(slot->prefix_id);
	key->hash = hash;
	key->likely_slot = KVH_NONE;
	key->text_bytes = kvh_slot_text_bytes(&core->area, slot);
	key->text =
		kvh_area_extent(&core->area, LOAD(slot->extent_unit)) + LOAD(slot->length_bytes);
}

/* Uses count up: one from the future, of a damaged file, would keep its object for ever (S-15). */
static void bound_use(struct kvh_area *area, struct kvh_slot *slot)
{
	uint64_t use = atomic_load_explicit(&slot->use, memory_order_acquire);

	/* Whoever touches it now has drawn its use before. */
	if (use >> 16 >= atomic_load(&area->super->use_counter))
		STORE(slot->use, use & 0xffff);
}

/* A slot that a rebuild looks at, and where the index has its key. */
struct found_slot {
	uint32_t index;
	uint64_t hash;
};

/* The slot keeps its extent. False: its record is bad, or another slot has its key or extent. */
static bool adopt(struct kvh_core *core, const struct found_slot *found, uint64_t ctl, bool indexed)
	KVH_REQUIRES(kvh_role_pool)
{
	uint32_t index = found->index;
	struct kvh_area *area = &core->area;
	struct kvh_slot *slot = &area->slots[index];
	struct kvh_stored_key key;
	uint32_t unit = LOAD(slot->extent_unit);
	uint64_t other, extent_bytes;

	if (!kvh_slot_is_good(area, slot, ctl))
		return false;
	stored_key(core, slot, found->hash, &key);
	if (indexed && kvh_find_locked(core, &key, &other) != KVH_NONE)
		return false;
	if (!kvh_extent_claim(
		    area, unit,
		    kvh_units_of(area, (uint64_t)LOAD(slot->length_bytes) + key.text_bytes), index))
		return false;
	if (indexed)
		kvh_index_insert(area, key.hash, index);
	bound_use(area, slot);
	extent_bytes =
		(uint64_t)kvh_span_extent_units(area, kvh_span_of(area, unit)) * KVH_UNIT_BYTES;
	kvh_count64(&area->fixed->prefix_states[key.prefix_id].used_bytes, extent_bytes);
	kvh_count32(&area->fixed->tally.used_slots, 1);
	return true;
}

static bool in_quarantine(const struct kvh_area *area, uint64_t ctl, uint64_t now_ns)
{
	uint32_t owner = kvh_ctl_owner(ctl);
	uint64_t dead_ns;

	if (!(kvh_ctl_flags(ctl) & KVH_SLOT_DMA) || owner == 0 || owner > KVH_SESSIONS_MAX)
		return false;
	dead_ns = LOAD(area->fixed->sessions[owner - 1].dead_ns);
	return dead_ns && now_ns < dead_ns + DMA_QUARANTINE_NS;
}

static bool rebuild_reserved(struct kvh_core *core, const struct found_slot *found, uint64_t ctl,
                             uint64_t now_ns) KVH_REQUIRES(kvh_role_pool)
{
	bool live = kvh_owner_is_live(&core->area, ctl);

	if (kvh_ctl_flags(ctl) & KVH_SLOT_ABANDONED)
		return false;
	/* A dead writer's key is free, its extent only when no device writes any more. */
	if ((!live && !in_quarantine(&core->area, ctl, now_ns)) || !adopt(core, found, ctl, live))
		return false;
	if (!live)
		kvh_count32(&core->area.fixed->sessions[kvh_ctl_owner(ctl) - 1].reserved_slots, 1);
	return true;
}

/* False: the slot is to be FREE. */
static bool rebuild_slot(struct kvh_core *core, const struct found_slot *found, uint64_t now_ns)
	KVH_REQUIRES(kvh_role_pool)
{
	struct kvh_area *area = &core->area;
	struct kvh_slot *slot = &area->slots[found->index];
	uint64_t ctl = LOAD(slot->ctl);
	bool good;

	switch (kvh_ctl_state(ctl)) {
	case KVH_SLOT_RESERVED:
		return rebuild_reserved(core, found, ctl, now_ns);
	case KVH_SLOT_DYING:
		if (!kvh_slot_is_good(area, slot, ctl))
			break;
		/* As in an eviction: a reader either sees DYING or is seen here. */
		kvh_fence_full();
		if (!kvh_slot_is_pinned(area, found->index)) {
			/* Perhaps a second time: at least once (S-13). */
			kvh_ring_push(area, slot);
			return false;
		}
		ctl = kvh_ctl_with_state(ctl, KVH_SLOT_VALID);
		atomic_store(&slot->ctl, ctl);
		/* fall through */
	case KVH_SLOT_VALID:
		good = adopt(core, found, ctl, true);
		if (good)
			return true;
		break;
	default:
		break;
	}
	kvh_count64(&area->fixed->tally.dropped_slots, 1);
	return false;
}

static void free_slot(struct kvh_area *area, uint32_t index) KVH_REQUIRES(kvh_role_pool)
{
	uint64_t ctl = LOAD(area->slots[index].ctl);

	/* Perhaps of a living writer, whose record is bad: its commit and this exclude each other.
	 */
	while (kvh_ctl_state(ctl) != KVH_SLOT_FREE &&
	       !kvh_slot_move(&area->slots[index], ctl, kvh_ctl_free(ctl)))
		ctl = LOAD(area->slots[index].ctl);
	/* Abandoned ones are counted no more. */
	if (kvh_ctl_state(ctl) == KVH_SLOT_RESERVED && !(kvh_ctl_flags(ctl) & KVH_SLOT_ABANDONED) &&
	    kvh_owner_is_live(area, ctl))
		atomic_fetch_sub(&area->fixed->sessions[kvh_ctl_owner(ctl) - 1].reserved_slots, 1);
	STORE(area->links[index].next, LOAD(area->fixed->tally.free_slot));
	STORE(area->fixed->tally.free_slot, index);
}

/* The index is where the time goes: each slot's place in it is fetched before it is its turn. */
static void rebuild_slots(struct kvh_core *core, uint32_t first, uint32_t count, uint64_t now_ns)
	KVH_REQUIRES(kvh_role_pool)
{
	struct kvh_area *area = &core->area;
	struct found_slot found[BATCH_SLOTS];

	for (uint32_t i = 0; i < count; i++) {
		const struct kvh_slot *slot = &area->slots[first + i];
		uint64_t words[KVH_STORED_WORDS];

		for (unsigned k = 0; k < KVH_STORED_WORDS; k++)
			words[k] = LOAD(slot->word[k]);
		/* The blocks come last to first, which no processor foresees. */
		if (first >= BATCH_SLOTS)
			__builtin_prefetch(slot - BATCH_SLOTS);
		found[i].index = first + i;
		found[i].hash =
			kvh_stored_hash(area, words, LOAD(slot->prefix_id), core->hash_mask);
		__builtin_prefetch(&area->buckets[kvh_index_bucket(area, found[i].hash)], 1);
	}
	for (uint32_t i = count; i-- > 0;) {
		uint64_t ctl = LOAD(area->slots[first + i].ctl);

		if (kvh_ctl_state(ctl) != KVH_SLOT_FREE && rebuild_slot(core, &found[i], now_ns))
			continue;
		KVH_CRASH_POINT(POOL_REBUILD_SLOT);
		free_slot(area, first + i);
	}
}

void kvh_core_rebuild(struct kvh_core *core, uint64_t now_ns)
{
	struct kvh_area *area = &core->area;
	uint64_t counter = LOAD(area->super->rebuild_counter) | 1;
	uint32_t count;

	atomic_store(&area->super->rebuild_counter, counter);
	KVH_CRASH_POINT(POOL_REBUILD);
	reset_derived(core);
	KVH_CRASH_POINT(POOL_REBUILD_RESET);
	for (uint32_t end = kvh_slots_ever(area); end > 0; end -= count) {
		count = end < BATCH_SLOTS ? end : BATCH_SLOTS;
		rebuild_slots(core, end - count, count, now_ns);
	}
	kvh_spans_settle(area);
	KVH_CRASH_POINT(POOL_REBUILD_SETTLED);
	atomic_store(&area->super->rebuild_counter, counter + 1);
}

/* ---- sessions that ended --------------------------------------------------------------- */

void kvh_core_session_dies(struct kvh_core *core, uint32_t session, uint64_t serial,
                           uint64_t now_ns)
{
	struct kvh_session_record *record = &core->area.fixed->sessions[session];

	if (kvh_session_serial(&core->area, session) != serial)
		return;
	if (!atomic_load(&record->dead_ns))
		atomic_store(&record->dead_ns, now_ns);
	KVH_CRASH_POINT(POOL_SESSION_DIES);
	atomic_fetch_and(&core->area.super->live_sessions[session / 64],
	                 ~(UINT64_C(1) << session % 64));
}

/* Its reservations that can go now; *held counts those that can't yet. Without the lock. */
static size_t find_reserved(struct kvh_core *core, uint32_t session, uint64_t now_ns,
                            struct kvh_core_ref refs[KVH_TURN_KEYS_MAX], size_t *held)
{
	size_t count = 0;

	*held = 0;
	for (uint32_t i = 0; i < kvh_slots_ever(&core->area) && count < KVH_TURN_KEYS_MAX; i++) {
		uint64_t ctl = atomic_load(&core->area.slots[i].ctl);

		if (kvh_ctl_state(ctl) != KVH_SLOT_RESERVED || kvh_ctl_owner(ctl) != session + 1)
			continue;
		if (in_quarantine(&core->area, ctl, now_ns))
			++*held;
		else
			refs[count++] = (struct kvh_core_ref){.slot = i, .ctl = ctl};
	}
	return count;
}

static void free_session(struct kvh_area *area, uint32_t session) KVH_REQUIRES(kvh_role_pool)
{
	for (uint32_t block = 0; block < KVH_PIN_BLOCKS; block++)
		for (unsigned i = 0; i < KVH_TURN_KEYS_MAX; i++)
			STORE(kvh_pin_block(area, session, block)->slot_plus_1[i], 0);
	STORE(area->fixed->sessions[session].blocks_used, 0);
	STORE(area->fixed->sessions[session].reserved_slots, 0);
	KVH_CRASH_POINT(POOL_REAPED);
	atomic_store(&area->fixed->sessions[session].serial, 0);
}

enum kvh_reap_step kvh_core_reap(struct kvh_core *core, uint32_t session, uint64_t serial,
                                 uint64_t now_ns, kvh_deadline deadline_ns)
{
	struct kvh_core_ref refs[KVH_TURN_KEYS_MAX];
	enum kvh_reap_step step = KVH_REAP_DONE;
	size_t held, count = find_reserved(core, session, now_ns, refs, &held);

	if (!kvh_core_take(core, deadline_ns))
		return KVH_REAP_LOCKED;
	/* Another one may have been faster, and the record is a new session's. */
	if (kvh_session_serial(&core->area, session) == serial &&
	    !kvh_session_is_live(&core->area, session)) {
		for (size_t i = 0; i < count; i++)
			kvh_release(core, refs[i].slot, refs[i].ctl);
		if (count == KVH_TURN_KEYS_MAX)
			step = KVH_REAP_AGAIN;
		else if (held)
			step = KVH_REAP_LATER;
		else
			free_session(&core->area, session);
	}
	kvh_core_give(core);
	return step;
}
