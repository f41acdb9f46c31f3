/* SPDX-License-Identifier: Apache-2.0 */
/* Result codes, error texts, the version and failed checks. */
#include "unit/base/unit.h"

#include <string.h>

#include <kvhold/kvhold.h>

#include "base/check.h"
#include "base/error.h"

static const kvh_status all_codes[] = {
	KVH_OK,
	KVH_NO_AVAILABLE_HANDLE,
	KVH_INVALID_KEY,
	KVH_INVALID_PARAMS,
	KVH_REPLICA_IS_NOT_READY,
	KVH_OBJECT_NOT_FOUND,
	KVH_OBJECT_ALREADY_EXISTS,
	KVH_OBJECT_HAS_LEASE,
	KVH_LEASE_EXPIRED,
	KVH_TRANSFER_FAIL,
	KVH_CHECKSUM_MISMATCH,
	KVH_RPC_FAIL,
	KVH_RPC_TIMEOUT,
	KVH_NOT_SUPPORTED,
	KVH_FILE_READ_FAIL,
	KVH_FILE_WRITE_FAIL,
	KVH_TIMEOUT,
	KVH_CANCELLED,
	KVH_BUSY,
	KVH_NO_MEMORY,
	KVH_CLOSED,
	KVH_FORKED,
	KVH_NO_ANSWER,
	KVH_IN_DOUBT,
	KVH_TOO_LARGE,
	KVH_INTERNAL,
};

static void every_status_has_its_own_text(void **context)
{
	(void)context;
	for (size_t a = 0; a < COUNT_OF(all_codes); a++) {
		const char *text = kvh_strstatus(all_codes[a]);

		assert_true(strlen(text) > 0);
		assert_string_not_equal(text, "unknown status");
		for (size_t b = 0; b < a; b++)
			assert_string_not_equal(text, kvh_strstatus(all_codes[b]));
	}
}

static void foreign_numbers_have_a_text_too(void **context)
{
	const kvh_status foreign[] = {1, -1, -199, -2010, INT32_MIN, INT32_MAX};

	(void)context;
	for (size_t index = 0; index < COUNT_OF(foreign); index++)
		assert_string_equal(kvh_strstatus(foreign[index]), "unknown status");
}

static void fail_fills_the_error_and_returns_the_status(void **context)
{
	struct kvh_error error;

	(void)context;
	memset(&error, 0x5a, sizeof(error));
	assert_int_equal(kvh_fail(&error, KVH_BUSY, "%s: %d", "queue", 7), KVH_BUSY);
	assert_int_equal(error.status, KVH_BUSY);
	assert_string_equal(error.text, "queue: 7");
	assert_int_equal(kvh_fail(NULL, KVH_CLOSED, "nobody listens"), KVH_CLOSED);
}

static void fail_can_wrap_the_text_it_replaces(void **context)
{
	struct kvh_error error;

	(void)context;
	kvh_fail(&error, KVH_BUSY, "inner");
	kvh_fail(&error, KVH_TIMEOUT, "outer: %s", error.text);
	assert_string_equal(error.text, "outer: inner");
}

static void long_errors_are_cut_and_end_in_0(void **context)
{
	char words[2 * KVH_ERROR_TEXT_BYTES];
	struct kvh_error error;

	(void)context;
	memset(words, 'w', sizeof(words) - 1);
	words[sizeof(words) - 1] = 0;
	kvh_fail(&error, KVH_BUSY, "%s", words);
	assert_int_equal(strlen(error.text), KVH_ERROR_TEXT_BYTES - 1);
	assert_memory_equal(error.text, words, KVH_ERROR_TEXT_BYTES - 1);
}

static void version_number_and_text_agree(void **context)
{
	char text[32];
	uint32_t version = kvh_version();

	(void)context;
	snprintf(text, sizeof(text), "%u.%u.%u", version >> 16, version >> 8 & 0xff,
	         version & 0xff);
	assert_string_equal(text, kvh_version_text());
	assert_string_equal(text, KVH_TESTS_PROJECT_VERSION);
}

static void fail_a_check(void)
{
	KVH_CHECK(getpid() == 0);
}

static void pass_a_check(void)
{
	KVH_CHECK(getpid() != 0);
}

static void a_failed_check_stops_the_process(void **context)
{
	(void)context;
	assert_stops(fail_a_check);
	assert_int_equal(end_of_child(pass_a_check), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_status_has_its_own_text),
		cmocka_unit_test(foreign_numbers_have_a_text_too),
		cmocka_unit_test(fail_fills_the_error_and_returns_the_status),
		cmocka_unit_test(fail_can_wrap_the_text_it_replaces),
		cmocka_unit_test(long_errors_are_cut_and_end_in_0),
		cmocka_unit_test(version_number_and_text_agree),
		cmocka_unit_test(a_failed_check_stops_the_process),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
