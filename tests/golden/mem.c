/* SPDX-License-Identifier: Apache-2.0 */
/* The arena: a list of separately allocated pieces, so that sanitizers see every overrun. */
#include "mem.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct piece {
	struct piece *next;
	max_align_t bytes[];
};

struct arena {
	struct piece *pieces;
};

static void *must_allocate(size_t bytes)
{
	void *memory = calloc(1, bytes);

	if (memory == NULL) {
		fputs("golden: out of memory\n", stderr);
		abort();
	}
	return memory;
}

struct arena *arena_open(void)
{
	return must_allocate(sizeof(struct arena));
}

void arena_close(struct arena *arena)
{
	while (arena->pieces != NULL) {
		struct piece *piece = arena->pieces;

		arena->pieces = piece->next;
		free(piece);
	}
	free(arena);
}

void *arena_take(struct arena *arena, size_t count, size_t bytes)
{
	size_t all_bytes;
	struct piece *piece;

	if (__builtin_mul_overflow(count, bytes, &all_bytes) ||
	    __builtin_add_overflow(all_bytes, sizeof(*piece), &all_bytes)) {
		fputs("golden: size overflow\n", stderr);
		abort();
	}
	piece = must_allocate(all_bytes);
	piece->next = arena->pieces;
	arena->pieces = piece;
	return piece->bytes;
}

void *arena_grow(struct arena *arena, void *at, size_t count, size_t *room, size_t bytes)
{
	void *larger;

	if (count < *room)
		return at;
	*room = *room == 0 ? 4 : *room * 2;
	larger = arena_take(arena, *room, bytes);
	if (count > 0)
		memcpy(larger, at, count * bytes);
	return larger;
}

char *arena_text(struct arena *arena, const char *format, ...)
{
	va_list args;
	int length;
	char *text;

	va_start(args, format);
	length = vsnprintf(NULL, 0, format, args);
	va_end(args);
	if (length < 0)
		abort();
	text = arena_take(arena, (size_t)length + 1, 1);
	va_start(args, format);
	vsnprintf(text, (size_t)length + 1, format, args);
	va_end(args);
	return text;
}

void ints_push(struct arena *arena, struct ints *list, int64_t value)
{
	list->at = arena_grow(arena, list->at, list->count, &list->room, sizeof(*list->at));
	list->at[list->count++] = value;
}

bool ints_has(const struct ints *list, int64_t value)
{
	for (size_t i = 0; i < list->count; i++)
		if (list->at[i] == value)
			return true;
	return false;
}

void ints_remove(struct ints *list, int64_t value)
{
	size_t kept = 0;

	for (size_t i = 0; i < list->count; i++)
		if (list->at[i] != value)
			list->at[kept++] = list->at[i];
	list->count = kept;
}

void texts_push(struct arena *arena, struct texts *list, const char *text)
{
	list->at = arena_grow(arena, list->at, list->count, &list->room, sizeof(*list->at));
	list->at[list->count++] = text;
}

bool texts_has(const struct texts *list, const char *text)
{
	for (size_t i = 0; i < list->count; i++)
		if (strcmp(list->at[i], text) == 0)
			return true;
	return false;
}

void texts_add(struct arena *arena, struct texts *list, const char *text)
{
	if (!texts_has(list, text))
		texts_push(arena, list, text);
}

void texts_remove(struct texts *list, const char *text)
{
	size_t kept = 0;

	for (size_t i = 0; i < list->count; i++)
		if (strcmp(list->at[i], text) != 0)
			list->at[kept++] = list->at[i];
	list->count = kept;
}

int64_t floor_to(int64_t value, int64_t unit)
{
	return value / unit * unit;
}

int64_t ceil_div(int64_t value, int64_t unit)
{
	return (value + unit - 1) / unit;
}
