/* SPDX-License-Identifier: Apache-2.0 */
/* The memory fabric: walks a value's segments and copies each from or to the extent. */
#include "pool/fabric/memory.h"

#include <string.h>

#include <kvhold/store_ops.h>

#include "base/check.h"

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
	KVH_CHECK(view->templates); /* a layout has at least one */
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

/* One call's constants. */
struct move {
	enum kvh_copy_kernel kernel;
	enum kvh_fabric_direction direction;
	struct segments segments;
	unsigned char *extent;
	const struct kvh_piece *next;
};

/* Segment index as a copy; extent: where its bytes lie there. */
static struct kvh_copy copy_of(enum kvh_fabric_direction direction, const struct segments *segments,
                               size_t index, unsigned char *extent)
{
	struct kvh_segment segment = segment_at(segments, index);

	if (direction == KVH_FABRIC_PUT)
		return (struct kvh_copy){extent, segment.addr, segment.bytes};
	return (struct kvh_copy){segment.addr, extent, segment.bytes};
}

/* What comes after the cursor: the segment that it names, or the next piece. */
static struct kvh_copy ahead_of(const struct move *move, const struct kvh_piece_cursor *at)
{
	struct segments next_segments;

	if (at->segment_index < move->segments.count)
		return copy_of(move->direction, &move->segments, at->segment_index,
		               move->extent + at->extent_done_bytes);
	if (!move->next)
		return (struct kvh_copy){0};
	next_segments = segments_of(move->next->value);
	return copy_of(move->direction, &next_segments, 0, move->next->extent);
}

/* The part of a segment's copy from done_bytes on, at most bytes_max. */
static struct kvh_copy part_of(const struct kvh_copy *copy, size_t done_bytes, size_t bytes_max)
{
	size_t left_bytes = copy->bytes - done_bytes;

	return (struct kvh_copy){(unsigned char *)copy->dst + done_bytes,
	                         (const unsigned char *)copy->src + done_bytes,
	                         left_bytes < bytes_max ? left_bytes : bytes_max};
}

/*
 * Whole short segments in a row, from a segment's start: a tight loop, so that many of their cache
 * misses overlap. Returns their bytes.
 */
static size_t move_short(const struct move *move, struct kvh_piece_cursor *at, size_t bytes_max)
{
	const struct segments segments = move->segments;
	unsigned char *start = move->extent + at->extent_done_bytes;
	unsigned char *end = start;
	size_t index = at->segment_index;

	for (; index < segments.count; index++) {
		struct kvh_copy copy = copy_of(move->direction, &segments, index, end);

		if (copy.bytes >= KVH_COPY_STREAM_BYTES_MIN || copy.bytes > bytes_max)
			break;
		memcpy(copy.dst, copy.src, copy.bytes);
		end += copy.bytes;
		bytes_max -= copy.bytes;
	}
	at->segment_index = index;
	at->extent_done_bytes += (size_t)(end - start);
	return (size_t)(end - start);
}

/* The segment at the cursor, or what is left of it and fits bytes_max. Returns its bytes. */
static size_t move_long(const struct move *move, struct kvh_piece_cursor *at, size_t bytes_max)
{
	unsigned char *start = move->extent + at->extent_done_bytes - at->segment_done_bytes;
	struct kvh_copy whole = copy_of(move->direction, &move->segments, at->segment_index, start);
	struct kvh_copy part = part_of(&whole, at->segment_done_bytes, bytes_max);
	struct kvh_copy ahead;

	at->extent_done_bytes += part.bytes;
	at->segment_done_bytes += part.bytes;
	if (at->segment_done_bytes == whole.bytes) {
		at->segment_index++;
		at->segment_done_bytes = 0;
	}
	ahead = ahead_of(move, at);
	kvh_copy_bytes(move->kernel, &part, &ahead);
	return part.bytes;
}

bool kvh_fabric_memory_move(enum kvh_copy_kernel kernel, enum kvh_fabric_direction direction,
                            const struct kvh_piece *piece, struct kvh_piece_cursor *cursor,
                            size_t bytes_max, const struct kvh_piece *next)
{
	const struct move move = {.kernel = kernel,
	                          .direction = direction,
	                          .segments = segments_of(piece->value),
	                          .extent = piece->extent,
	                          .next = next};

	for (;;) {
		if (cursor->segment_done_bytes == 0)
			bytes_max -= move_short(&move, cursor, bytes_max);
		if (cursor->segment_index == move.segments.count)
			return true;
		if (bytes_max == 0)
			return false;
		bytes_max -= move_long(&move, cursor, bytes_max);
	}
}

void kvh_fabric_memory_prefetch(const struct kvh_piece *piece)
{
	struct segments segments = segments_of(piece->value);
	struct kvh_segment segment = segment_at(&segments, 0);

	if (segment.bytes >= KVH_COPY_STREAM_BYTES_MIN)
		return;
	__builtin_prefetch(segment.addr);
	__builtin_prefetch(piece->extent);
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
