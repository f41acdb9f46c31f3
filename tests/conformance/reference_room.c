/* SPDX-License-Identifier: Apache-2.0 */
/* The reference store's index and eviction, by scanning everything. */
#include "reference_room.h"

#include <stdlib.h>
#include <string.h>

/* ---- objects ------------------------------------------------------------------------------ */

size_t reference_make_key(const struct reference *ref, const struct kvh_key *key,
                          unsigned char out[4 + KVH_KEY_HASH_BYTES_MAX])
{
	uint32_t prefix_id = ref->mutant == MUTANT_IGNORES_PREFIX ? 0 : key->prefix_id;
	uint32_t bytes = key->hash_bytes;

	if (ref->mutant == MUTANT_COMPARES_31_BYTES && bytes > 31)
		bytes = 31;
	if (ref->mutant == MUTANT_COMPARES_32_BYTES && bytes > 32)
		bytes = 32;
	memcpy(out, &prefix_id, 4);
	memcpy(out + 4, key->hash, bytes);
	return 4 + bytes;
}

void reference_drop(struct reference *ref, struct object *object)
{
	struct object **at = &ref->objects;

	while (*at != object)
		at = &(*at)->next;
	*at = object->next;
	kvh_map_remove(&ref->map, &object->entry);
	if (ref->mutant != MUTANT_LEAKS_SPACE &&
	    !(ref->mutant == MUTANT_ABORT_LEAKS && object->state == HELD))
		ref->used_bytes -= reference_rounded(object->bytes);
	free(object->data);
	free(object);
}

struct object *reference_find(struct reference *ref, const struct kvh_key *key)
{
	unsigned char text[4 + KVH_KEY_HASH_BYTES_MAX];
	size_t bytes = reference_make_key(ref, key, text);
	struct object *object = (struct object *)kvh_map_get(&ref->map, text, bytes);

	if (object && object->state == VALID && object->expire_at_ns &&
	    kvh_now_ns(ref->env) >= object->expire_at_ns && ref->mutant != MUTANT_EXPIRE_BLIND) {
		ref->expired_keys++;
		reference_drop(ref, object);
		return NULL;
	}
	return object;
}

/* ---- eviction ----------------------------------------------------------------------------- */

static void announce(struct reference *ref, const struct object *object)
{
	struct kvh_evicted_key *evicted = &ref->ring[ref->ring_in % RING];

	if (ref->mutant == MUTANT_FEED_DROPS && object->serial % 7 == 0)
		return;
	memset(evicted, 0, sizeof(*evicted));
	evicted->prefix_id = object->prefix_id;
	evicted->hash_bytes = object->hash_bytes < 32 ? object->hash_bytes : 32;
	memcpy(evicted->hash, object->key + 4, evicted->hash_bytes);
	ref->ring_in++;
}

static void evict(struct reference *ref, struct object *object)
{
	announce(ref, object);
	ref->evicted_keys++;
	ref->evicted_bytes += object->bytes;
	reference_drop(ref, object);
}

static bool is_kept(const struct reference *ref, const struct object *object)
{
	if (!object->keep_until_ns || ref->mutant == MUTANT_KEEP_BLIND)
		return false;
	return ref->mutant == MUTANT_KEEP_FOR_EVER || kvh_now_ns(ref->env) < object->keep_until_ns;
}

static bool same_group(const struct reference *ref, const struct object *a, const struct object *b)
{
	const struct kvh_prefix_entry *pa = kvh_prefix_by_id(&ref->prefixes, a->prefix_id);
	const struct kvh_prefix_entry *pb = kvh_prefix_by_id(&ref->prefixes, b->prefix_id);

	return a->grouped && b->grouped && ref->mutant != MUTANT_SPLITS_GROUPS &&
	       pa->family_bytes == pb->family_bytes &&
	       memcmp(pa->bytes, pb->bytes, pa->family_bytes) == 0 &&
	       a->hash_bytes == b->hash_bytes && memcmp(a->key + 4, b->key + 4, a->hash_bytes) == 0;
}

/* As old as the newest member of its group. */
static uint64_t age_of(const struct reference *ref, const struct object *object)
{
	uint64_t use = object->use;

	if (!object->grouped)
		return use;
	for (const struct object *other = ref->objects; other; other = other->next) {
		if (other->use > use && same_group(ref, object, other))
			use = other->use;
	}
	return use;
}

/* Whether a goes before b, with their ages. */
static bool goes_before(const struct reference *ref, const struct object *a, uint64_t a_age,
                        const struct object *b, uint64_t b_age)
{
	bool a_kept = is_kept(ref, a);
	bool b_kept = is_kept(ref, b);

	if (a_kept != b_kept)
		return b_kept;
	if (a->priority != b->priority && ref->mutant != MUTANT_PRIORITY_BLIND)
		return a->priority < b->priority;
	return ref->mutant == MUTANT_EVICTS_YOUNGEST ? a_age > b_age : a_age < b_age;
}

static bool may_go(const struct reference *ref, const struct object *object)
{
	if (ref->mutant == MUTANT_KEEP_IS_A_PIN && is_kept(ref, object))
		return false;
	return object->state == VALID || ref->mutant == MUTANT_EVICTS_HELD;
}

/* prefix_id: only objects of it; KVH_PREFIXES_MAX: of all. */
static struct object *victim(struct reference *ref, uint32_t prefix_id)
{
	struct object *worst = NULL;
	uint64_t worst_age = 0;

	for (struct object *object = ref->objects; object; object = object->next) {
		uint64_t age;

		if (!may_go(ref, object) ||
		    (prefix_id != KVH_PREFIXES_MAX && object->prefix_id != prefix_id))
			continue;
		age = age_of(ref, object);
		if (!worst || goes_before(ref, object, age, worst, worst_age)) {
			worst = object;
			worst_age = age;
		}
	}
	return worst;
}

static void evict_group(struct reference *ref, struct object *first)
{
	struct object *object = ref->objects;

	while (object && first->grouped) {
		struct object *next = object->next;

		if (object != first && object->state == VALID && same_group(ref, first, object))
			evict(ref, object);
		object = next;
	}
	evict(ref, first);
}

static uint64_t used_by(const struct reference *ref, uint32_t prefix_id)
{
	uint64_t bytes = 0;

	for (const struct object *object = ref->objects; object; object = object->next)
		bytes += object->prefix_id == prefix_id ? reference_rounded(object->bytes) : 0;
	return bytes;
}

kvh_status reference_make_room(struct reference *ref, uint32_t prefix_id, uint64_t bytes)
{
	uint64_t quota = ref->mutant == MUTANT_QUOTA_BLIND ? 0 : ref->quotas[prefix_id];
	struct object *object;

	if (ref->mutant == MUTANT_TOO_LARGE_EVICTS && bytes > ref->capacity_bytes) {
		while ((object = victim(ref, KVH_PREFIXES_MAX)))
			evict(ref, object);
	}
	if (bytes > ref->capacity_bytes || (quota && bytes > quota))
		return ref->mutant == MUTANT_TOO_LARGE_AS_NO_SPACE ? KVH_NO_AVAILABLE_HANDLE
		                                                   : KVH_INVALID_PARAMS;
	while (quota && used_by(ref, prefix_id) + bytes > quota) {
		object = victim(ref, prefix_id);
		if (!object)
			return KVH_NO_AVAILABLE_HANDLE;
		evict_group(ref, object);
	}
	while (ref->used_bytes + bytes > ref->capacity_bytes) {
		object = ref->mutant == MUTANT_NEVER_EVICTS ? NULL : victim(ref, KVH_PREFIXES_MAX);
		if (!object)
			return KVH_NO_AVAILABLE_HANDLE;
		evict_group(ref, object);
		while (ref->mutant == MUTANT_EVICTS_ALL && (object = victim(ref, KVH_PREFIXES_MAX)))
			evict(ref, object);
	}
	return KVH_OK;
}
