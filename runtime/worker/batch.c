/* SPDX-License-Identifier: Apache-2.0 */
/* Batches: growing, duplicate keys, what is missing, rotation. */
#include "worker/batch.h"

#include <string.h>

#include "base/fault.h"
#include "base/size.h"

void kvh_batch_fini(struct worker_batch *batch)
{
	kvh_free(batch->keys);
	kvh_free(batch->values);
	kvh_free(batch->results);
	kvh_free(batch->items);
	kvh_free(batch->slots);
	memset(batch, 0, sizeof(*batch));
}

/* Replaces one array by a larger one; the old content is kept. */
static bool grow(void **array, size_t count, size_t new_count, size_t bytes)
{
	size_t total;
	void *larger;

	if (!kvh_size_mul(new_count, bytes, &total))
		return false;
	larger = kvh_alloc(total);
	if (!larger)
		return false;
	if (count)
		memcpy(larger, *array, count * bytes);
	kvh_free(*array);
	*array = larger;
	return true;
}

kvh_status kvh_batch_reserve(struct worker_batch *batch, size_t count)
{
	size_t capacity = batch->capacity ? batch->capacity : 64;

	if (count > KVH_BATCH_KEYS_MAX)
		return KVH_TOO_LARGE;
	if (count <= batch->capacity)
		return KVH_OK;
	while (capacity < count)
		capacity *= 2;
	if (!grow((void **)&batch->keys, batch->count, capacity, sizeof(*batch->keys)) ||
	    !grow((void **)&batch->values, batch->count, capacity, sizeof(*batch->values)) ||
	    !grow((void **)&batch->results, batch->count, capacity, sizeof(*batch->results)) ||
	    !grow((void **)&batch->items, batch->count, capacity, sizeof(*batch->items)))
		return KVH_NO_MEMORY;
	batch->capacity = capacity;
	return KVH_OK;
}

static void move_item(struct worker_batch *batch, size_t to, size_t from)
{
	if (to == from)
		return;
	batch->keys[to] = batch->keys[from];
	batch->values[to] = batch->values[from];
	batch->items[to] = batch->items[from];
}

static bool same_key(const struct kvh_key *a, const struct kvh_key *b)
{
	return a->prefix_id == b->prefix_id && a->hash_bytes == b->hash_bytes &&
	       memcmp(a->hash, b->hash, a->hash_bytes) == 0;
}

/* The hash is a digest already: its last bytes spread well enough for a table. */
static size_t slot_of(const struct kvh_key *key, size_t slot_count)
{
	uint64_t word = 0;

	if (key->hash_bytes >= sizeof(word))
		memcpy(&word, key->hash + key->hash_bytes - sizeof(word), sizeof(word));
	else
		memcpy(&word, key->hash, key->hash_bytes);
	word = (word ^ key->prefix_id) * 0x9e3779b97f4a7c15u;
	return (size_t)(word >> 32) & (slot_count - 1);
}

/* An empty table of slot_count slots, a power of two. */
static kvh_status clear_slots(struct worker_batch *batch, size_t slot_count)
{
	if (batch->slot_capacity < slot_count) {
		kvh_free(batch->slots);
		batch->slot_capacity = 0;
		batch->slots = kvh_alloc(slot_count * sizeof(*batch->slots));
		if (!batch->slots)
			return KVH_NO_MEMORY;
		batch->slot_capacity = slot_count;
	}
	memset(batch->slots, 0, slot_count * sizeof(*batch->slots));
	return KVH_OK;
}

kvh_status kvh_batch_drop_duplicates(struct worker_batch *batch)
{
	size_t slot_count = 64;
	size_t kept = 0;
	kvh_status status;

	/* A quarter full at most: a key that meets another costs a comparison and a wrong guess. */
	while (slot_count < batch->count * 4)
		slot_count *= 2;
	status = clear_slots(batch, slot_count);
	if (status)
		return status;
	for (size_t i = 0; i < batch->count; i++) {
		size_t slot = slot_of(&batch->keys[i], slot_count);
		bool found = false;

		while (batch->slots[slot] && !found) {
			found = same_key(&batch->keys[i], &batch->keys[batch->slots[slot] - 1]);
			slot = (slot + 1) & (slot_count - 1);
		}
		if (found)
			continue;
		move_item(batch, kept, i);
		batch->slots[slot] = (uint32_t)++kept;
	}
	batch->count = kept;
	return KVH_OK;
}

void kvh_batch_keep_missing(struct worker_batch *batch)
{
	size_t kept = 0;

	for (size_t i = 0; i < batch->count; i++) {
		if (batch->results[i].value != 1)
			move_item(batch, kept++, i);
	}
	batch->count = kept;
}

/* Reverses entries first .. last - 1. */
static void reverse(struct worker_batch *batch, size_t first, size_t last)
{
	while (first + 1 < last) {
		struct kvh_key key = batch->keys[first];
		struct kvh_value value = batch->values[first];
		struct batch_item item = batch->items[first];

		last--;
		batch->keys[first] = batch->keys[last];
		batch->values[first] = batch->values[last];
		batch->items[first] = batch->items[last];
		batch->keys[last] = key;
		batch->values[last] = value;
		batch->items[last] = item;
		first++;
	}
}

void kvh_batch_rotate(struct worker_batch *batch, size_t by)
{
	if (by == 0 || by >= batch->count)
		return;
	reverse(batch, 0, by);
	reverse(batch, by, batch->count);
	reverse(batch, 0, batch->count);
}

struct kvh_batch kvh_batch_view(const struct worker_batch *batch, size_t first, size_t count)
{
	return (struct kvh_batch){.count = count,
	                          .keys = batch->keys + first,
	                          .values = batch->values + first,
	                          .results = batch->results + first};
}
