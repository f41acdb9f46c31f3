/* SPDX-License-Identifier: Apache-2.0 */
/* JSON field readers of the golden tests. */
#include "jread.h"

void jread_fail(struct jread *in, const char *field, const char *what)
{
	if (in->error == NULL)
		in->error = arena_text(in->arena, "field '%s': %s", field, what);
}

bool jread_present(json_t *object, const char *field)
{
	json_t *value = json_object_get(object, field);

	return value != NULL && !json_is_null(value);
}

int64_t jread_int(struct jread *in, json_t *object, const char *field)
{
	json_t *value = json_object_get(object, field);

	if (!json_is_integer(value)) {
		jread_fail(in, field, "an integer is needed");
		return 0;
	}
	return json_integer_value(value);
}

int64_t jread_int_or(struct jread *in, json_t *object, const char *field, int64_t otherwise)
{
	return jread_present(object, field) ? jread_int(in, object, field) : otherwise;
}

bool jread_bool_or(struct jread *in, json_t *object, const char *field, bool otherwise)
{
	json_t *value = json_object_get(object, field);

	if (!jread_present(object, field))
		return otherwise;
	if (json_is_integer(value))
		return json_integer_value(value) != 0;
	if (!json_is_boolean(value))
		jread_fail(in, field, "true or false is needed");
	return json_is_true(value);
}

const char *jread_text_or(struct jread *in, json_t *object, const char *field,
                          const char *otherwise)
{
	json_t *value = json_object_get(object, field);

	if (!jread_present(object, field))
		return otherwise;
	if (!json_is_string(value)) {
		jread_fail(in, field, "a string is needed");
		return "";
	}
	return arena_text(in->arena, "%s", json_string_value(value));
}

const char *jread_text(struct jread *in, json_t *object, const char *field)
{
	const char *text = jread_text_or(in, object, field, NULL);

	if (text == NULL) {
		jread_fail(in, field, "a string is needed");
		return "";
	}
	return text;
}

json_t *jread_array(struct jread *in, json_t *object, const char *field)
{
	json_t *value = json_object_get(object, field);

	if (!jread_present(object, field))
		return NULL;
	if (!json_is_array(value)) {
		jread_fail(in, field, "a list is needed");
		return NULL;
	}
	return value;
}

struct ints jread_int_list(struct jread *in, json_t *array, const char *field)
{
	struct ints list = {0};
	json_t *value;
	size_t i;

	for (i = 0; i < json_array_size(array); i++) {
		value = json_array_get(array, i);
		if (!json_is_integer(value))
			jread_fail(in, field, "a list of integers is needed");
		ints_push(in->arena, &list, json_integer_value(value));
	}
	return list;
}

struct texts jread_text_list(struct jread *in, json_t *array, const char *field)
{
	struct texts list = {0};
	json_t *value;
	size_t i;

	for (i = 0; i < json_array_size(array); i++) {
		value = json_array_get(array, i);
		if (!json_is_string(value)) {
			jread_fail(in, field, "a list of strings is needed");
			return list;
		}
		texts_push(in->arena, &list, arena_text(in->arena, "%s", json_string_value(value)));
	}
	return list;
}
