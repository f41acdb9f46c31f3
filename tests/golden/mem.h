/* SPDX-License-Identifier: Apache-2.0 */
/* One arena per scenario and the growing lists that the golden tests are made of. */
#ifndef GOLDEN_MEM_H
#define GOLDEN_MEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Everything taken from an arena lives until arena_close(); running out of memory aborts. */
struct arena;

struct ints {
	int64_t *at;
	size_t count;
	size_t room;
};

struct texts {
	const char **at;
	size_t count;
	size_t room;
};

struct arena *arena_open(void);
void arena_close(struct arena *arena);

/* Zeroed memory for `count` elements of `bytes` each. */
void *arena_take(struct arena *arena, size_t count, size_t bytes);
/* Grows `at` to hold one more element; returns the (possibly moved) array. */
void *arena_grow(struct arena *arena, void *at, size_t count, size_t *room, size_t bytes);
char *arena_text(struct arena *arena, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

void ints_push(struct arena *arena, struct ints *list, int64_t value);
bool ints_has(const struct ints *list, int64_t value);
void ints_remove(struct ints *list, int64_t value);
void texts_push(struct arena *arena, struct texts *list, const char *text);
bool texts_has(const struct texts *list, const char *text);
/* Adds the text only if the list, used as a set, lacks it. */
void texts_add(struct arena *arena, struct texts *list, const char *text);
void texts_remove(struct texts *list, const char *text);

int64_t floor_to(int64_t value, int64_t unit);
int64_t ceil_div(int64_t value, int64_t unit);

#endif
