/* SPDX-License-Identifier: Apache-2.0 */
/* Which lines are formatted, and what the caller's function gets. */
#include "unit/base/unit.h"

#include <string.h>

#include "base/logging.h"

struct heard {
	int count;
	enum kvh_log_level level;
	char line[2048];
};

static void hear(void *user, enum kvh_log_level level, const char *line)
{
	struct heard *heard = user;

	heard->count++;
	heard->level = level;
	snprintf(heard->line, sizeof(heard->line), "%s", line);
}

static void levels_up_to_the_limit_are_heard(void **context)
{
	(void)context;
	for (int limit = 0; limit <= KVH_LOG_DEBUG; limit++) {
		int effective = limit ? limit : KVH_LOG_WARN;

		for (int level = KVH_LOG_ERROR; level <= KVH_LOG_DEBUG; level++) {
			struct heard heard = {0};
			struct kvh_log log = {.fn = hear, .user = &heard, .level = limit};

			assert_int_equal(kvh_log_wants(&log, level), level <= effective);
			kvh_log_line(&log, level, "job %d", 3);
			assert_int_equal(heard.count, level <= effective);
			if (heard.count) {
				assert_int_equal(heard.level, level);
				assert_string_equal(heard.line, "job 3");
			}
		}
	}
}

static void without_a_function_nothing_is_wanted(void **context)
{
	struct kvh_log log = {.level = KVH_LOG_DEBUG};

	(void)context;
	assert_false(kvh_log_wants(&log, KVH_LOG_ERROR));
	kvh_log_line(&log, KVH_LOG_ERROR, "nobody");
}

static void long_lines_are_cut(void **context)
{
	struct heard heard = {0};
	struct kvh_log log = {.fn = hear, .user = &heard};
	char words[2000];

	(void)context;
	memset(words, 'w', sizeof(words) - 1);
	words[sizeof(words) - 1] = 0;
	kvh_log_line(&log, KVH_LOG_ERROR, "%s", words);
	assert_in_range(strlen(heard.line), 256, sizeof(words) - 2);
	assert_memory_equal(heard.line, words, strlen(heard.line));
}

static void short_hashes_show_the_first_eight_bytes(void **context)
{
	const uint8_t hash[] = {0x00, 0x1f, 0xa2, 3, 4, 5, 6, 7, 0xff};
	char out[17];

	(void)context;
	assert_string_equal(kvh_hash_short(hash, sizeof(hash), out), "001fa20304050607");
	assert_string_equal(kvh_hash_short(hash, 2, out), "001f");
	assert_string_equal(kvh_hash_short(hash, 0, out), "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(levels_up_to_the_limit_are_heard),
		cmocka_unit_test(without_a_function_nothing_is_wanted),
		cmocka_unit_test(long_lines_are_cut),
		cmocka_unit_test(short_hashes_show_the_first_eight_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
