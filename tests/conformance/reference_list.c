/* SPDX-License-Identifier: Apache-2.0 */
/* The reference store's list: newest put first, the cursor is the serial of the last one told. */
#include <string.h>

#include "reference_room.h"

static bool is_listed(const struct reference *ref, const struct object *object)
{
	if (object->state == HELD)
		return ref->mutant == MUTANT_LIST_SHOWS_HELD;
	return !object->expire_at_ns || kvh_now_ns(ref->env) < object->expire_at_ns ||
	       ref->mutant == MUTANT_LIST_SHOWS_EXPIRED;
}

static uint64_t seconds_left(const struct reference *ref, uint64_t until_ns)
{
	uint64_t now_ns = kvh_now_ns(ref->env);

	return until_ns > now_ns ? (until_ns - now_ns + 999999999) / 1000000000 : 0;
}

static void tell(struct reference *ref, struct object *object, uint32_t flags, uint8_t *hash,
                 struct kvh_listed *listed)
{
	uint32_t cut = ref->mutant == MUTANT_LIST_CUTS_HASHES ? 32 : KVH_KEY_HASH_BYTES_MAX;

	memset(listed, 0, sizeof(*listed));
	listed->key = (struct kvh_key){
		.hash = hash,
		.hash_bytes = object->hash_bytes < cut ? object->hash_bytes : cut,
		.prefix_id = ref->mutant == MUTANT_LIST_FORGETS_PREFIX ? 0 : object->prefix_id};
	memcpy(hash, object->key + 4, listed->key.hash_bytes);
	listed->bytes = ref->mutant == MUTANT_LIST_ROUNDS_BYTES ? reference_rounded(object->bytes)
	                                                        : object->bytes;
	listed->uses_since = ref->counter - object->use;
	listed->status = flags & KVH_LIST_VERIFY ? KVH_NOT_SUPPORTED : KVH_OK;
	if (ref->mutant == MUTANT_LIST_TOUCHES)
		object->use = ++ref->counter;
	if (ref->mutant == MUTANT_LIST_FORGETS_OPTIONS)
		return;
	listed->keep_seconds = seconds_left(ref, object->keep_until_ns);
	listed->expire_seconds = seconds_left(ref, object->expire_at_ns);
	listed->priority = object->priority;
	listed->flags = object->grouped ? KVH_LISTED_LIFECYCLE_GROUP : 0;
}

/* Whether the page before this one, which ended at serial last, had told of it. */
static bool was_told(const struct reference *ref, const struct object *object, uint64_t last)
{
	if (!last)
		return false;
	return ref->mutant == MUTANT_LIST_REPEATS ? object->serial > last : object->serial >= last;
}

/* A list that finds its place by an object has lost it when that object is gone. */
static bool place_is_lost(const struct reference *ref, uint64_t last)
{
	if (ref->mutant != MUTANT_LIST_LOSES_PLACE || !last)
		return false;
	for (const struct object *object = ref->objects; object; object = object->next)
		if (object->serial == last)
			return false;
	return true;
}

static void fill(struct reference *ref, const struct kvh_list *list, uint64_t *cursor,
                 size_t *count)
{
	uint64_t last = *cursor;
	size_t hashes_bytes = 0;

	*cursor = 0;
	if (place_is_lost(ref, last))
		return;
	for (struct object *object = ref->objects; object; object = object->next) {
		if (!is_listed(ref, object) || was_told(ref, object, last))
			continue;
		if (*count == list->capacity ||
		    hashes_bytes + object->hash_bytes > list->hashes_bytes) {
			*cursor = ref->mutant == MUTANT_LIST_ENDS_EARLY ? 0 : last;
			return;
		}
		tell(ref, object, list->flags, list->hashes + hashes_bytes,
		     &list->objects[(*count)++]);
		hashes_bytes += object->hash_bytes;
		last = object->serial;
	}
}

kvh_status reference_list(void *self, const struct kvh_list *list, uint64_t *cursor, size_t *count,
                          const struct kvh_call *call)
{
	struct reference *ref = self;

	(void)call;
	ref->env->ops->mutex_lock(ref->env->ctx, ref->lock);
	fill(ref, list, cursor, count);
	ref->env->ops->mutex_unlock(ref->env->ctx, ref->lock);
	return KVH_OK;
}
