/* SPDX-License-Identifier: Apache-2.0 */
/* Reading recorded cases of the reference. */
#include "unit/layout/recorded.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

void recorded_each_line(const char *name, void (*fn)(const json_t *line, void *user), void *user)
{
	const char *root = getenv("KVH_TEST_DATA");
	char path[4096];
	char *line = NULL;
	size_t capacity = 0;
	FILE *file;

	assert_non_null(root);
	snprintf(path, sizeof(path), "%s/golden/%s", root, name);
	file = fopen(path, "r");
	if (!file)
		fail_msg("can't open %s", path);
	while (getline(&line, &capacity, file) > 0) {
		json_error_t error;
		json_t *value = json_loads(line, 0, &error);

		if (!value)
			fail_msg("%s: %s", path, error.text);
		fn(value, user);
		json_decref(value);
	}
	free(line);
	fclose(file);
}

const json_t *recorded_member(const json_t *object, const char *name)
{
	const json_t *member = json_object_get(object, name);

	if (!member)
		fail_msg("no member %s", name);
	return member;
}

uint64_t recorded_number(const json_t *object, const char *name)
{
	const json_t *member = recorded_member(object, name);

	assert_true(json_is_integer(member));
	return (uint64_t)json_integer_value(member);
}

bool recorded_bool(const json_t *object, const char *name)
{
	const json_t *member = recorded_member(object, name);

	assert_true(json_is_boolean(member));
	return json_is_true(member);
}

const char *recorded_text(const json_t *object, const char *name)
{
	const json_t *member = recorded_member(object, name);

	assert_true(json_is_string(member));
	return json_string_value(member);
}

static enum kvh_attention kind_of(const char *word)
{
	if (strcmp(word, "full") == 0)
		return KVH_ATTENTION_FULL;
	if (strcmp(word, "sliding_window") == 0)
		return KVH_ATTENTION_SLIDING_WINDOW;
	assert_string_equal(word, "mamba");
	return KVH_ATTENTION_MAMBA;
}

/* The window has two names, and the eagle flag two places, in the recordings. */
static struct kvh_group group_of(const json_t *set_up, size_t index)
{
	const json_t *group = json_array_get(recorded_member(set_up, "groups"), index);
	const json_t *window = json_object_get(group, "sliding_window");
	const json_t *flags = json_object_get(set_up, "eagle_groups");
	const json_t *flag = json_array_get(flags, index);

	if (!window)
		window = json_object_get(group, "window");
	return (struct kvh_group){
		.kind = kind_of(recorded_text(group, "kind")),
		.block_tokens = (uint32_t)recorded_number(group, "block_size"),
		.window_tokens = (uint32_t)json_integer_value(window),
		.eagle = flags ? json_integer_value(flag) != 0
	                       : json_is_true(json_object_get(group, "eagle")),
	};
}

struct kvh_coordinator *recorded_coordinator(const json_t *set_up)
{
	const json_t *retention = json_object_get(set_up, "retention_interval");
	struct kvh_group groups[KVH_GROUPS_MAX];
	struct kvh_coordinator_config config = {
		.groups = groups,
		.group_count = json_array_size(recorded_member(set_up, "groups")),
		.hash_tokens = (uint32_t)recorded_number(set_up, "hash_block_size"),
		.lcm_tokens = (uint32_t)recorded_number(set_up, "lcm_block_size"),
		.partial_hits = recorded_bool(set_up, "partial_hash_hits"),
		.use_eagle = recorded_bool(set_up, "use_eagle"),
		.has_retention = json_is_integer(retention),
		.retention_tokens = (uint32_t)json_integer_value(retention),
	};
	struct kvh_coordinator *coordinator = NULL;
	struct kvh_error error = {0};

	assert_in_range(config.group_count, 1, KVH_GROUPS_MAX);
	for (size_t index = 0; index < config.group_count; index++)
		groups[index] = group_of(set_up, index);
	if (kvh_coordinator_create(&config, &coordinator, &error) != KVH_OK)
		fail_msg("%s", error.text);
	return coordinator;
}
