/* SPDX-License-Identifier: Apache-2.0 */
/* A store for the bench that needs lists, as those do that know no layouts; it keeps nothing. */
#include "bench.h"

#include <stdlib.h>
#include <string.h>

#include <kvhold/store_ops.h>

enum { PREFIXES_MAX = 8, TEXT_BYTES = KVH_PREFIX_TEXT_BYTES_MAX + 2 * KVH_BENCH_HASH_BYTES };

struct prefix_text {
	char text[KVH_PREFIX_TEXT_BYTES_MAX];
	size_t bytes;
};

/* Lists of one call, reused by the next; one thread calls at a time. */
struct lists_store {
	struct kvh_store *null; /* interns prefixes */
	struct prefix_text prefixes[PREFIXES_MAX];
	char hex[256][2]; /* of each byte */
	void **addresses;
	size_t *lengths;
	char text[TEXT_BYTES];
	int64_t exists;
	uint64_t total_bytes; /* kept so that no list is optimised away */
};

static kvh_status lists_register(void *self, kvh_region_id region, void *addr, size_t bytes,
                                 enum kvh_memory_kind kind, struct kvh_error *error)
{
	(void)self, (void)region, (void)addr, (void)bytes, (void)kind, (void)error;
	return KVH_OK;
}

static kvh_status lists_unregister(void *self, kvh_region_id region, kvh_deadline deadline_ns)
{
	(void)self, (void)region, (void)deadline_ns;
	return KVH_OK;
}

static kvh_status lists_prefix(void *self, const struct kvh_prefix *prefix, uint32_t *prefix_id,
                               struct kvh_error *error)
{
	struct lists_store *lists = self;
	kvh_status status = kvh_store_prefix(lists->null, prefix, prefix_id, error);

	if (status)
		return status;
	if (*prefix_id >= PREFIXES_MAX)
		return KVH_BUSY;
	memcpy(lists->prefixes[*prefix_id].text, prefix->text, prefix->text_bytes);
	lists->prefixes[*prefix_id].bytes = prefix->text_bytes;
	return KVH_OK;
}

static void make_text(struct lists_store *lists, const struct kvh_key *key)
{
	const struct prefix_text *prefix = &lists->prefixes[key->prefix_id];
	char *out = lists->text + prefix->bytes;

	memcpy(lists->text, prefix->text, prefix->bytes);
	for (size_t i = 0; i < KVH_BENCH_HASH_BYTES; i++)
		memcpy(out + 2 * i, lists->hex[key->hash[i]], 2);
}

static kvh_status lists_exists(void *self, const struct kvh_batch *batch, uint32_t flags,
                               const struct kvh_call *call)
{
	struct lists_store *lists = self;

	(void)flags, (void)call;
	for (size_t i = 0; i < batch->count; i++) {
		make_text(lists, &batch->keys[i]);
		batch->results[i].value = lists->exists;
	}
	return KVH_OK;
}

/* The bytes of one value; its segments are in the lists then. */
static size_t expand(struct lists_store *lists, const struct kvh_value *value)
{
	const struct kvh_layout_view *view = kvh_layout_get_view(value->layout);
	size_t bytes = 0;

	for (size_t i = 0; i < view->template_count; i++) {
		const struct kvh_segment_template *template = &view->templates[i];

		lists->addresses[i] =
			(unsigned char *)template->base + value->block_id * template->stride_bytes;
		lists->lengths[i] = template->bytes;
		bytes += template->bytes;
	}
	return bytes;
}

/* For put and get alike; a get answers with the bytes. */
static void move_all(struct lists_store *lists, const struct kvh_batch *batch, bool is_get)
{
	for (size_t i = 0; i < batch->count; i++) {
		size_t bytes = expand(lists, &batch->values[i]);

		make_text(lists, &batch->keys[i]);
		lists->total_bytes += bytes;
		batch->results[i].value = is_get ? (int64_t)bytes : KVH_OK;
	}
}

static kvh_status lists_put(void *self, const struct kvh_batch *batch,
                            const struct kvh_put_options *options, const struct kvh_call *call)
{
	(void)options, (void)call;
	move_all(self, batch, false);
	return KVH_OK;
}

static kvh_status lists_get(void *self, const struct kvh_batch *batch, const struct kvh_call *call)
{
	(void)call;
	move_all(self, batch, true);
	return KVH_OK;
}

static kvh_status lists_quiesce(void *self, kvh_deadline deadline_ns)
{
	(void)self, (void)deadline_ns;
	return KVH_OK;
}

static void lists_close(void *self)
{
	struct lists_store *lists = self;

	kvh_store_close(lists->null, 0);
	free(lists->addresses);
	free(lists->lengths);
	free(lists);
}

static struct lists_store *create(bool exists)
{
	static const char digits[] = "0123456789abcdef";
	struct lists_store *lists = calloc(1, sizeof(*lists));

	if (!lists)
		return NULL;
	lists->exists = exists;
	for (size_t i = 0; i < 256; i++) {
		lists->hex[i][0] = digits[i / 16];
		lists->hex[i][1] = digits[i % 16];
	}
	lists->addresses = calloc(KVH_SEGMENTS_MAX, sizeof(*lists->addresses));
	lists->lengths = calloc(KVH_SEGMENTS_MAX, sizeof(*lists->lengths));
	if (lists->addresses && lists->lengths &&
	    kvh_store_open("null:", NULL, &lists->null, NULL) == KVH_OK)
		return lists;
	free(lists->addresses);
	free(lists->lengths);
	free(lists);
	return NULL;
}

struct kvh_store *kvh_bench_lists_open(bool exists)
{
	struct kvh_store_ops ops = {.struct_bytes = sizeof(ops),
	                            .name = "lists",
	                            .register_region = lists_register,
	                            .unregister_region = lists_unregister,
	                            .prefix = lists_prefix,
	                            .exists = lists_exists,
	                            .put = lists_put,
	                            .get = lists_get,
	                            .quiesce = lists_quiesce,
	                            .close = lists_close};
	struct lists_store *lists = create(exists);
	struct kvh_error error = {0};
	struct kvh_store *store = NULL;

	if (!lists) {
		kvh_bench_ok("a store with lists", KVH_NO_MEMORY, NULL);
		return NULL;
	}
	kvh_store_ops_fill(&ops);
	if (!kvh_bench_ok("a store with lists",
	                  kvh_store_open_ops(&ops, lists, NULL, &store, &error), &error))
		return NULL;
	return store;
}
