/* SPDX-License-Identifier: Apache-2.0 */
/* Small helpers over step records. */
#include "record.h"

#include <string.h>

const char *store_fn_name(enum store_fn fn)
{
	static const char *const names[] = {"exist", "put", "get", "replica_desc", "event_sync"};

	return names[fn];
}

struct named_ints *named_list_find(const struct named_list *list, const char *name)
{
	for (size_t i = 0; i < list->count; i++)
		if (strcmp(list->at[i].name, name) == 0)
			return &list->at[i];
	return NULL;
}

struct named_ints *named_list_add(struct arena *arena, struct named_list *list, const char *name)
{
	struct named_ints *entry = named_list_find(list, name);

	if (entry != NULL)
		return entry;
	list->at = arena_grow(arena, list->at, list->count, &list->room, sizeof(*list->at));
	entry = &list->at[list->count++];
	*entry = (struct named_ints){.name = name};
	return entry;
}

void failed_list_add(struct arena *arena, struct failed_list *list, struct failed_block block)
{
	for (size_t i = 0; i < list->count; i++)
		if (list->at[i].group == block.group && list->at[i].index == block.index &&
		    list->at[i].block == block.block)
			return;
	list->at = arena_grow(arena, list->at, list->count, &list->room, sizeof(*list->at));
	list->at[list->count++] = block;
}
