/* SPDX-License-Identifier: Apache-2.0 */
/* The memory fabric: walks a value's segments and copies each from or to the extent. */
#include "pool/fabric/memory.h"

#include <kvhold/store_ops.h>

/* A value's segments, whichever of its two forms says where they are. */
struct segments {
	const struct kvh_segment_template *templates; /* NULL: list */
	uint64_t block_id;
	const struct kvh_segment *list;
	size_t count;
};

static struct segments segments_of(const struct kvh_value *value)
{
	const struct kvh_layout_view *view;

	if (!value->layout)
		return (struct segments){.list = value->segments, .count = value->segment_count};
	view = kvh_layout_get_view(value->layout);
	return (struct segments){.templates = view->templates,
				 .block_id = value->block_id,
				 .count = view->template_count};
}

/* The product fits: the layout was checked for every block it has. */
static struct kvh_segment segment_at(const struct segments *segments, size_t index)
{
	const struct kvh_segment_template *template;
	unsigned char *base;

	if (!segments->templates)
		return segments->list[index];
	template = &segments->templates[index];
	base = template->base;
	return (struct kvh_segment){base + segments->block_id * template->stride_bytes,
				    template->bytes};
}

/* The source of segment index of this piece, or of the next piece's first; extent: where it lies.
 */
static struct kvh_copy_ahead ahead_of(enum kvh_fabric_direction direction,
				      const struct segments *segments, size_t index,
				      const unsigned char *extent, const struct kvh_piece *next)
{
	struct segments next_segments;
	struct kvh_segment segment;

	if (index == segments->count) {
		if (!next)
			return (struct kvh_copy_ahead){0};
		next_segments = segments_of(next->value);
		segments = &next_segments;
		index = 0;
		extent = next->extent;
	}
	segment = segment_at(segments, index);
	return (struct kvh_copy_ahead){direction == KVH_FABRIC_PUT ? segment.addr : extent,
				       segment.bytes};
}

bool kvh_fabric_memory_move(enum kvh_copy_kernel kernel, enum kvh_fabric_direction direction,
			    const struct kvh_piece *piece, struct kvh_piece_cursor *cursor,
			    size_t bytes_max, const struct kvh_piece *next)
{
	const struct segments segments = segments_of(piece->value);

	while (cursor->segment_index < segments.count && bytes_max > 0) {
		struct kvh_segment segment = segment_at(&segments, cursor->segment_index);
		unsigned char *engine = (unsigned char *)segment.addr + cursor->segment_done_bytes;
		unsigned char *extent = piece->extent + cursor->extent_done_bytes;
		size_t left_bytes = segment.bytes - cursor->segment_done_bytes;
		size_t bytes = left_bytes < bytes_max ? left_bytes : bytes_max;
		struct kvh_copy_ahead ahead = {0};

		if (bytes == left_bytes && bytes >= KVH_COPY_STREAM_BYTES_MIN)
			ahead = ahead_of(direction, &segments, cursor->segment_index + 1,
					 extent + bytes, next);
		if (direction == KVH_FABRIC_PUT)
			kvh_copy_bytes(kernel, extent, engine, bytes, ahead);
		else
			kvh_copy_bytes(kernel, engine, extent, bytes, ahead);
		bytes_max -= bytes;
		cursor->extent_done_bytes += bytes;
		cursor->segment_done_bytes += bytes;
		if (bytes == left_bytes) {
			cursor->segment_index++;
			cursor->segment_done_bytes = 0;
		}
	}
	return cursor->segment_index == segments.count;
}

bool kvh_fabric_memory_put_some(const struct kvh_piece *piece, struct kvh_piece_cursor *cursor,
				size_t bytes_max, const struct kvh_piece *next)
{
	return kvh_fabric_memory_move(kvh_copy_kernel_best(), KVH_FABRIC_PUT, piece, cursor,
				      bytes_max, next);
}

bool kvh_fabric_memory_get_some(const struct kvh_piece *piece, struct kvh_piece_cursor *cursor,
				size_t bytes_max, const struct kvh_piece *next)
{
	return kvh_fabric_memory_move(kvh_copy_kernel_best(), KVH_FABRIC_GET, piece, cursor,
				      bytes_max, next);
}

void kvh_fabric_memory_put(const struct kvh_piece *piece, const struct kvh_piece *next)
{
	struct kvh_piece_cursor cursor = {0};

	kvh_fabric_memory_put_some(piece, &cursor, SIZE_MAX, next);
}

void kvh_fabric_memory_get(const struct kvh_piece *piece, const struct kvh_piece *next)
{
	struct kvh_piece_cursor cursor = {0};

	kvh_fabric_memory_get_some(piece, &cursor, SIZE_MAX, next);
}

void kvh_fabric_memory_fence(void)
{
	kvh_copy_fence();
}
