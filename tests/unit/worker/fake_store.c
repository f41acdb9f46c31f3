/* SPDX-License-Identifier: Apache-2.0 */
/* A store that keeps real bytes, answers as it is told, and writes down what it was asked. */
#include "fake_store.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void must(bool condition, const char *what)
{
	if (condition)
		return;
	fprintf(stderr, "fake store: %s\n", what);
	abort();
}

/* Bytes 0 and 1 are the chain and the number from 1; the rest differs from hash to hash. */
void fake_hash(unsigned chain, unsigned index, uint8_t *hash, uint32_t hash_bytes)
{
	uint64_t word = (uint64_t)chain << 32 | (index + 1);

	hash[0] = (uint8_t)chain;
	hash[1] = (uint8_t)(index + 1);
	for (uint32_t i = 2; i < hash_bytes; i++) {
		word = word * 6364136223846793005u + 1442695040888963407u;
		hash[i] = (uint8_t)(word >> 56);
	}
}

unsigned fake_hash_index(const uint8_t *hash)
{
	return hash[1] - 1u;
}

void fake_log(struct fake_store *fake, const char *format, ...)
{
	va_list args;
	int bytes;

	va_start(args, format);
	bytes = vsnprintf(fake->log + fake->log_bytes, sizeof(fake->log) - fake->log_bytes, format,
	                  args);
	va_end(args);
	must(bytes >= 0 && (size_t)bytes < sizeof(fake->log) - fake->log_bytes, "log is full");
	fake->log_bytes += (size_t)bytes;
}

const char *fake_take_log(struct fake_store *fake)
{
	static char taken[FAKE_LOG_BYTES];

	memcpy(taken, fake->log, fake->log_bytes + 1);
	fake->log_bytes = 0;
	fake->log[0] = 0;
	return taken;
}

static unsigned number_after(const char *text, const char *name)
{
	const char *found = strstr(text, name);

	return found ? (unsigned)strtoul(found + strlen(name), NULL, 10) : 0;
}

static void log_keys(struct fake_store *fake, const char *name, const struct kvh_batch *batch)
{
	fake_log(fake, "%s", name);
	for (size_t i = 0; i < batch->count; i++) {
		const char *text = fake->prefixes[batch->keys[i].prefix_id].text;
		unsigned tp = number_after(text, "@tp_rank:");
		unsigned group = number_after(text, "@group:");

		fake_log(fake, " ");
		if (tp)
			fake_log(fake, "t%u", tp);
		if (group)
			fake_log(fake, "g%u", group);
		fake_log(fake, "%s%u", tp || group ? ":" : "",
		         fake_hash_index(batch->keys[i].hash));
	}
	fake_log(fake, "\n");
}

struct fake_object *fake_find(struct fake_store *fake, uint32_t prefix_id, const uint8_t *hash,
                              uint32_t hash_bytes)
{
	for (size_t i = 0; i < fake->object_count; i++) {
		struct fake_object *object = &fake->objects[i];

		if (object->prefix_id == prefix_id && object->hash_bytes == hash_bytes &&
		    memcmp(object->hash, hash, hash_bytes) == 0)
			return object;
	}
	return NULL;
}

void fake_store_bytes(struct fake_store *fake, uint32_t prefix_id, const uint8_t *hash,
                      uint32_t hash_bytes, const void *bytes, size_t byte_count)
{
	struct fake_object *object = fake_find(fake, prefix_id, hash, hash_bytes);

	if (!object) {
		must(fake->object_count < FAKE_OBJECTS_MAX && hash_bytes <= 32, "too many objects");
		object = &fake->objects[fake->object_count++];
		*object = (struct fake_object){.prefix_id = prefix_id, .hash_bytes = hash_bytes};
		memcpy(object->hash, hash, hash_bytes);
	}
	free(object->bytes);
	object->bytes = malloc(byte_count);
	must(object->bytes != NULL, "no memory");
	memcpy(object->bytes, bytes, byte_count);
	object->byte_count = byte_count;
}

void fake_remove(struct fake_store *fake, struct fake_object *object)
{
	must(object != NULL, "no such object to remove");
	free(object->bytes);
	*object = fake->objects[--fake->object_count];
}

int fake_prefix_id(const struct fake_store *fake, const char *text, const char *identity)
{
	for (size_t i = 0; i < fake->prefix_count; i++) {
		const struct fake_prefix *prefix = &fake->prefixes[i];

		if (strcmp(prefix->text, text) == 0 &&
		    (!identity || (prefix->identity_bytes == strlen(identity) &&
		                   memcmp(prefix->identity, identity, strlen(identity)) == 0)))
			return (int)i;
	}
	return -1;
}

void fake_answer_values(struct fake_store *fake, enum fake_fn fn, const int64_t *values,
                        size_t count)
{
	struct fake_answer *answer = &fake->answers[fn][fake->answer_count[fn]++];

	must(fake->answer_count[fn] <= FAKE_ANSWERS_MAX && count <= FAKE_VALUES_MAX, "answers");
	*answer = (struct fake_answer){.count = count};
	if (count)
		memcpy(answer->values, values, count * sizeof(*values));
}

void fake_answer_unquiet(struct fake_store *fake, enum fake_fn fn, uint64_t keys)
{
	fake->answers[fn][fake->answer_count[fn] - 1].unquiet = keys;
}

void fake_answer_fails(struct fake_store *fake, enum fake_fn fn, kvh_status status)
{
	fake->answers[fn][fake->answer_count[fn] - 1].status = status;
}

void fake_answer_status(struct fake_store *fake, enum fake_fn fn, kvh_status status)
{
	fake_answer_values(fake, fn, NULL, 0);
	fake_answer_fails(fake, fn, status);
}

static const struct fake_answer *next_answer(struct fake_store *fake, enum fake_fn fn)
{
	static const struct fake_answer none;

	if (fake->answer_next[fn] == fake->answer_count[fn])
		return &none;
	return &fake->answers[fn][fake->answer_next[fn]++];
}

static uint8_t *gather(const struct kvh_value *value, size_t *byte_count)
{
	const struct kvh_layout_view *view = kvh_layout_get_view(value->layout);
	uint8_t *bytes = malloc(view->value_bytes);
	size_t at = 0;

	must(bytes != NULL, "no memory");
	for (size_t i = 0; i < view->template_count; i++) {
		const struct kvh_segment_template *t = &view->templates[i];

		memcpy(bytes + at, (char *)t->base + value->block_id * t->stride_bytes, t->bytes);
		at += t->bytes;
	}
	*byte_count = at;
	return bytes;
}

static void scatter(const struct kvh_value *value, const uint8_t *bytes)
{
	const struct kvh_layout_view *view = kvh_layout_get_view(value->layout);

	for (size_t i = 0; i < view->template_count; i++) {
		const struct kvh_segment_template *t = &view->templates[i];

		memcpy((char *)t->base + value->block_id * t->stride_bytes, bytes, t->bytes);
		bytes += t->bytes;
	}
}

static int64_t put_one(struct fake_store *fake, const struct kvh_key *key,
                       const struct kvh_value *value)
{
	size_t byte_count;
	uint8_t *bytes = gather(value, &byte_count);

	fake_store_bytes(fake, key->prefix_id, key->hash, key->hash_bytes, bytes, byte_count);
	free(bytes);
	return 0;
}

static int64_t get_one(struct fake_store *fake, const struct kvh_key *key,
                       const struct kvh_value *value)
{
	const struct fake_object *object =
		fake_find(fake, key->prefix_id, key->hash, key->hash_bytes);

	if (!object)
		return KVH_OBJECT_NOT_FOUND;
	if (object->byte_count != kvh_layout_value_bytes(value->layout))
		return KVH_INVALID_PARAMS;
	scatter(value, object->bytes);
	return (int64_t)object->byte_count;
}

static int64_t do_one(struct fake_store *fake, enum fake_fn fn, const struct kvh_batch *batch,
                      size_t i)
{
	const struct kvh_key *key = &batch->keys[i];

	if (fn == FAKE_EXISTS)
		return fake_find(fake, key->prefix_id, key->hash, key->hash_bytes) != NULL;
	return fn == FAKE_PUT ? put_one(fake, key, &batch->values[i])
	                      : get_one(fake, key, &batch->values[i]);
}

static kvh_status serve(struct fake_store *fake, enum fake_fn fn, const char *name,
                        const struct kvh_batch *batch)
{
	const struct fake_answer *answer;

	log_keys(fake, name, batch);
	if (fake->hook)
		fake->hook(fake->hook_user, fn);
	answer = next_answer(fake, fn);
	for (size_t i = 0; i < (answer->status ? answer->count : batch->count); i++) {
		int64_t value = i < answer->count ? answer->values[i] : FAKE_DO_IT;

		if (value == FAKE_DO_IT)
			batch->results[i].value = do_one(fake, fn, batch, i);
		else if (value != FAKE_SILENT)
			batch->results[i].value = value;
		if (i < FAKE_VALUES_MAX && answer->unquiet >> i & 1)
			batch->results[i].flags &= ~(uint32_t)KVH_RESULT_QUIET;
	}
	if (fake->after)
		fake->after(fake->hook_user, fn);
	return answer->status;
}

static void caps(void *self, struct kvh_store_caps *out)
{
	const struct fake_store *fake = self;
	size_t struct_bytes = out->struct_bytes;

	*out = fake->caps;
	out->struct_bytes = struct_bytes;
}

static kvh_status register_region(void *self, kvh_region_id region, void *addr, size_t bytes,
                                  enum kvh_memory_kind kind, struct kvh_error *error)
{
	struct fake_store *fake = self;

	(void)region, (void)addr, (void)bytes, (void)kind, (void)error;
	if (++fake->register_calls == fake->register_fails_at)
		return fake->register_status;
	fake->registered_count++;
	return KVH_OK;
}

static kvh_status unregister_region(void *self, kvh_region_id region, kvh_deadline deadline_ns)
{
	struct fake_store *fake = self;

	(void)region, (void)deadline_ns;
	if (!fake->unregister_status)
		fake->registered_count--;
	return fake->unregister_status;
}

static kvh_status prefix(void *self, const struct kvh_prefix *in, uint32_t *id,
                         struct kvh_error *error)
{
	struct fake_store *fake = self;
	struct fake_prefix *made = &fake->prefixes[fake->prefix_count];

	(void)error;
	must(fake->prefix_count < FAKE_PREFIXES_MAX, "too many prefixes");
	must(in->identity_bytes <= sizeof(made->identity), "identity too long");
	memset(made, 0, sizeof(*made));
	memcpy(made->text, in->text, in->text_bytes);
	if (in->identity_bytes)
		memcpy(made->identity, in->identity, in->identity_bytes);
	made->identity_bytes = in->identity_bytes;
	made->family_bytes = in->family_bytes;
	for (size_t i = 0; i < fake->prefix_count; i++) {
		const struct fake_prefix *known = &fake->prefixes[i];

		if (strcmp(known->text, made->text) == 0 &&
		    known->identity_bytes == made->identity_bytes &&
		    memcmp(known->identity, made->identity, made->identity_bytes) == 0) {
			*id = (uint32_t)i;
			return KVH_OK;
		}
	}
	*id = (uint32_t)fake->prefix_count++;
	return KVH_OK;
}

static kvh_status exists(void *self, const struct kvh_batch *batch, uint32_t flags,
                         const struct kvh_call *call)
{
	struct fake_store *fake = self;

	(void)call;
	fake->last_exists_flags = flags;
	return serve(fake, FAKE_EXISTS, "exists", batch);
}

static kvh_status put(void *self, const struct kvh_batch *batch,
                      const struct kvh_put_options *options, const struct kvh_call *call)
{
	struct fake_store *fake = self;

	(void)call;
	fake->last_put_flags = options->flags;
	return serve(fake, FAKE_PUT, "put", batch);
}

static kvh_status get(void *self, const struct kvh_batch *batch, const struct kvh_call *call)
{
	struct fake_store *fake = self;

	fake->last_get_deadline_ns = call->deadline_ns;
	return serve(fake, FAKE_GET, "get", batch);
}

static kvh_status tiers(void *self, const struct kvh_key *keys, size_t count, enum kvh_tier *out,
                        const struct kvh_call *call)
{
	struct fake_store *fake = self;
	const struct fake_answer *answer = next_answer(fake, FAKE_TIERS);
	const struct kvh_batch batch = {.count = count, .keys = keys};

	(void)call;
	log_keys(fake, "tiers", &batch);
	for (size_t i = 0; !answer->status && i < count; i++)
		out[i] = i < answer->count ? (enum kvh_tier)answer->values[i] : KVH_TIER_UNKNOWN;
	return answer->status;
}

static kvh_status take_evicted(void *self, struct kvh_evicted_key *keys, size_t capacity,
                               size_t *count, bool *lost)
{
	struct fake_store *fake = self;

	*count = fake->evicted_count < capacity ? fake->evicted_count : capacity;
	if (*count) {
		memcpy(keys, fake->evicted, *count * sizeof(*keys));
		fake->evicted += *count;
	}
	fake->evicted_count -= *count;
	*lost = fake->evicted_lost;
	fake->evicted_lost = false;
	return KVH_OK;
}

static kvh_status quiesce(void *self, kvh_deadline deadline_ns)
{
	const struct fake_store *fake = self;

	(void)deadline_ns;
	return fake->quiesce_status;
}

static void close_fake(void *self)
{
	struct fake_store *fake = self;

	fake->closed = true;
}

void fake_init(struct fake_store *fake)
{
	memset(fake, 0, sizeof(*fake));
	fake->caps = (struct kvh_store_caps){
		.lifecycle = true, .tiers = true, .evicted = true, .stop_ms_max = 10};
}

void fake_fini(struct fake_store *fake)
{
	for (size_t i = 0; i < fake->object_count; i++)
		free(fake->objects[i].bytes);
	fake->object_count = 0;
}

const struct kvh_store_ops *fake_ops(void)
{
	static const struct kvh_store_ops ops = {.struct_bytes = sizeof(ops),
	                                         .name = "fake",
	                                         .caps = caps,
	                                         .register_region = register_region,
	                                         .unregister_region = unregister_region,
	                                         .prefix = prefix,
	                                         .exists = exists,
	                                         .put = put,
	                                         .get = get,
	                                         .tiers = tiers,
	                                         .take_evicted = take_evicted,
	                                         .quiesce = quiesce,
	                                         .close = close_fake};

	return &ops;
}
