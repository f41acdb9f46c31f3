/* SPDX-License-Identifier: Apache-2.0 */
/* Layouts: segment templates checked once for all block ids. */
#include <string.h>

#include "base/error.h"
#include "base/fault.h"
#include "base/size.h"
#include "store_internal.h"

/* Bytes from the first block's segment to the end of the last one's. */
static bool template_span(const struct kvh_segment_template *one, uint64_t block_count,
                          size_t *span_bytes)
{
	return block_count - 1 <= SIZE_MAX &&
	       kvh_size_mul_add((size_t)(block_count - 1), one->stride_bytes, one->bytes,
	                        span_bytes);
}

static const struct kvh_region *region_of(struct kvh_store *store,
                                          const struct kvh_segment_template *one, size_t span_bytes)
	KVH_REQUIRES(kvh_role_store)
{
	return kvh_region_find(atomic_load(&store->regions), (uintptr_t)one->base, span_bytes);
}

static kvh_status check_template(const struct kvh_segment_template *one, size_t index,
                                 uint64_t block_count, struct kvh_error *error)
{
	size_t span_bytes;

	if (one->bytes == 0)
		return kvh_fail(error, KVH_INVALID_PARAMS, "layout: template %zu has 0 bytes",
		                index);
	if (block_count > 1 && one->stride_bytes < one->bytes)
		return kvh_fail(error, KVH_INVALID_PARAMS,
		                "layout: template %zu has %zu bytes but a stride of %zu: its "
		                "blocks overlap",
		                index, one->bytes, one->stride_bytes);
	if (!template_span(one, block_count, &span_bytes))
		return kvh_fail(error, KVH_INVALID_PARAMS,
		                "layout: template %zu: %llu blocks pass the end of memory", index,
		                (unsigned long long)block_count);
	return KVH_OK;
}

/* The template was checked: its span is known to fit. */
static kvh_status bind_template(struct kvh_layout *layout, size_t index, struct kvh_error *error)
	KVH_REQUIRES(kvh_role_store)
{
	const struct kvh_segment_template *one = &layout->templates[index];
	const struct kvh_region *region;
	size_t span_bytes = 0;

	template_span(one, layout->view.block_count, &span_bytes);
	region = region_of(layout->store, one, span_bytes);
	if (!region)
		return kvh_fail(error, KVH_INVALID_PARAMS,
		                "layout: template %zu with its %llu blocks (%zu bytes) does not "
		                "lie in one registered region",
		                index, (unsigned long long)layout->view.block_count, span_bytes);
	if (index > 0 && region->kind != layout->view.kind)
		return kvh_fail(error, KVH_INVALID_PARAMS,
		                "layout: template %zu lies in memory of kind %d, those before in "
		                "kind %d",
		                index, (int)region->kind, (int)layout->view.kind);
	layout->view.kind = region->kind;
	++*region->template_count;
	return KVH_OK;
}

static void unbind_templates(struct kvh_layout *layout, size_t count) KVH_REQUIRES(kvh_role_store)
{
	for (size_t i = 0; i < count; i++) {
		size_t span_bytes = 0;

		template_span(&layout->templates[i], layout->view.block_count, &span_bytes);
		/* It can't be gone: its count was not 0. */
		--*region_of(layout->store, &layout->templates[i], span_bytes)->template_count;
	}
}

static kvh_status bind_layout(struct kvh_layout *layout, struct kvh_error *error)
{
	struct kvh_store *store = layout->store;
	kvh_status status = KVH_OK;
	size_t bound_count = 0;

	kvh_store_lock(store);
	if (store->regions_changing)
		status = kvh_fail(error, KVH_BUSY, "layout: another thread changes the regions");
	while (status == KVH_OK && bound_count < layout->view.template_count) {
		status = bind_template(layout, bound_count, error);
		if (status == KVH_OK)
			bound_count++;
	}
	if (status)
		unbind_templates(layout, bound_count);
	else
		store->layout_count++;
	kvh_store_unlock(store);
	return status;
}

static kvh_status check_templates(const struct kvh_segment_template *templates, size_t count,
                                  uint64_t block_count, size_t *value_bytes,
                                  struct kvh_error *error)
{
	size_t sum = 0;

	for (size_t i = 0; i < count; i++) {
		kvh_status status = check_template(&templates[i], i, block_count, error);

		if (status)
			return status;
		if (!kvh_size_add(sum, templates[i].bytes, &sum))
			return kvh_fail(error, KVH_INVALID_PARAMS,
			                "layout: the bytes of a value overflow at template %zu", i);
	}
	*value_bytes = sum;
	return KVH_OK;
}

kvh_status kvh_layout_create(struct kvh_store *store, const struct kvh_segment_template *templates,
                             size_t template_count, uint64_t block_count,
                             struct kvh_layout **layout, struct kvh_error *error)
{
	struct kvh_layout *made;
	size_t value_bytes = 0;
	kvh_status status;

	if (!store || !templates || !layout || template_count == 0 || block_count == 0)
		return kvh_fail(error, KVH_INVALID_PARAMS,
		                "layout: the store, templates, their count, the block count and "
		                "the place for it must be given");
	if (template_count > KVH_SEGMENTS_MAX)
		return kvh_fail(error, KVH_INVALID_PARAMS,
		                "layout: %zu templates; at most %d segments make a value",
		                template_count, KVH_SEGMENTS_MAX);
	status = kvh_store_usable(store);
	if (status)
		return kvh_fail(error, status, "layout: the store is closing, or was forked");
	status = check_templates(templates, template_count, block_count, &value_bytes, error);
	if (status)
		return status;
	made = kvh_alloc(sizeof(*made) + template_count * sizeof(*templates));
	if (!made)
		return kvh_fail(error, KVH_NO_MEMORY, "layout: no memory for %zu templates",
		                template_count);
	*made = (struct kvh_layout){
		.view = {.templates = made->templates,
	                 .template_count = template_count,
	                 .value_bytes = value_bytes,
	                 .block_count = block_count},
		.store = store,
	};
	memcpy(made->templates, templates, template_count * sizeof(*templates));
	status = bind_layout(made, error);
	if (status) {
		kvh_free(made);
		return status;
	}
	*layout = made;
	return KVH_OK;
}

void kvh_layout_destroy(struct kvh_layout *layout)
{
	struct kvh_store *store;

	/* In a child nothing of the parent's store can be used, nor the layout: it is left. */
	if (!layout || kvh_store_usable(layout->store) == KVH_FORKED)
		return;
	store = layout->store;
	kvh_store_lock(store);
	unbind_templates(layout, layout->view.template_count);
	store->layout_count--;
	kvh_store_unlock(store);
	kvh_free(layout);
}

size_t kvh_layout_value_bytes(const struct kvh_layout *layout)
{
	return layout ? layout->view.value_bytes : 0;
}

const struct kvh_layout_view *kvh_layout_get_view(const struct kvh_layout *layout)
{
	return &layout->view;
}
