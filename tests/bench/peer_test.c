/* SPDX-License-Identifier: Apache-2.0 */
/* A peer's answers are taken as they are or refused, and none of its ways to fail is waited for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "bench_peer.h"

#define SECOND_NS UINT64_C(1000000000)

enum { ANSWER_SECONDS = 20, QUIET_SECONDS = 1, OBJECT_BYTES = 4096, OBJECTS = 10 };

static const struct kvh_bench_peer_case puts_of_ten = {KVH_BENCH_PUT, OBJECT_BYTES, 2, OBJECTS};

static struct kvh_bench_peer *open_fake(const char *mode, uint64_t seconds)
{
	char command[512];

	snprintf(command, sizeof(command), "'%s' %s", KVH_FAKE_PEER, mode);
	return kvh_bench_peer_open(kvh_env_posix(), command, seconds * SECOND_NS);
}

static void good_answers_are_taken(void **state)
{
	struct kvh_bench_peer *peer = open_fake("good", ANSWER_SECONDS);
	const struct kvh_bench_peer_case finds = {KVH_BENCH_EXISTS, 64, 1, 1000};
	struct kvh_bench_peer_times times = {0};
	uint64_t spent_ns = 0;

	(void)state;
	assert_non_null(peer);
	assert_string_equal(kvh_bench_peer_name(peer), "fake 1.0");
	for (int i = 0; i < 3; i++) {
		assert_true(kvh_bench_peer_run(peer, &puts_of_ten, &times, &spent_ns));
		assert_true(times.seconds == 0.000001);
		assert_true(times.cpu_seconds == 0.000002);
	}
	assert_true(kvh_bench_peer_run(peer, &finds, &times, &spent_ns));
	assert_true(spent_ns > 0);
	assert_true(kvh_bench_peer_close(peer));
}

static void a_name_is_shown_without_control_characters(void **state)
{
	struct kvh_bench_peer *peer = open_fake("controls", ANSWER_SECONDS);

	(void)state;
	assert_non_null(peer);
	assert_string_equal(kvh_bench_peer_name(peer), "?[2Jname");
	assert_true(kvh_bench_peer_close(peer));
}

static void a_peer_that_does_not_get_ready_is_no_peer(void **state)
{
	static const char *const modes[] = {"refuses", "greets", "stillborn"};

	(void)state;
	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++)
		assert_null(open_fake(modes[i], ANSWER_SECONDS));
	assert_null(open_fake("mute", QUIET_SECONDS));
	assert_null(
		kvh_bench_peer_open(kvh_env_posix(), "/nowhere/peer", ANSWER_SECONDS * SECOND_NS));
}

/* What a peer says or leaves unsaid after "run"; the times stay as they were. */
static void check_refused(const char *mode, uint64_t seconds)
{
	struct kvh_bench_peer *peer = open_fake(mode, seconds);
	struct kvh_bench_peer_times times = {-1, -1};
	uint64_t spent_ns = 0;

	assert_non_null(peer);
	assert_false(kvh_bench_peer_run(peer, &puts_of_ten, &times, &spent_ns));
	assert_true(times.seconds == -1 && times.cpu_seconds == -1);
	/* That it failed was said; its end is no second failure. */
	assert_true(kvh_bench_peer_close(peer));
}

static void nonsense_is_refused(void **state)
{
	static const char *const modes[] = {"errs", "words", "short",   "long",  "endless", "twice",
	                                    "few",  "never", "no_time", "minus", "nan"};

	(void)state;
	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++)
		check_refused(modes[i], ANSWER_SECONDS);
}

static void a_line_that_nobody_asked_for_is_not_the_next_answer(void **state)
{
	struct kvh_bench_peer *peer = open_fake("unasked", ANSWER_SECONDS);
	struct kvh_bench_peer_times times;
	uint64_t spent_ns = 0;
	bool ok = true;

	(void)state;
	assert_non_null(peer);
	/* It comes at once or a little later; either way no third run succeeds. */
	for (int i = 0; i < 3; i++)
		ok = ok && kvh_bench_peer_run(peer, &puts_of_ten, &times, &spent_ns);
	assert_false(ok);
	assert_true(kvh_bench_peer_close(peer));
}

static void death_is_no_answer(void **state)
{
	(void)state;
	check_refused("dies", ANSWER_SECONDS);
	check_refused("leaves", ANSWER_SECONDS);
}

static void silence_is_not_waited_for_longer_than_allowed(void **state)
{
	(void)state;
	check_refused("silent", QUIET_SECONDS);
}

static void a_bad_end_is_reported(void **state)
{
	struct kvh_bench_peer *peer = open_fake("ends_badly", ANSWER_SECONDS);

	(void)state;
	assert_non_null(peer);
	assert_false(kvh_bench_peer_close(peer));
	peer = open_fake("stays", QUIET_SECONDS);
	assert_non_null(peer);
	assert_false(kvh_bench_peer_close(peer));
	assert_true(kvh_bench_peer_close(NULL));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(good_answers_are_taken),
		cmocka_unit_test(a_name_is_shown_without_control_characters),
		cmocka_unit_test(a_peer_that_does_not_get_ready_is_no_peer),
		cmocka_unit_test(nonsense_is_refused),
		cmocka_unit_test(a_line_that_nobody_asked_for_is_not_the_next_answer),
		cmocka_unit_test(death_is_no_answer),
		cmocka_unit_test(silence_is_not_waited_for_longer_than_allowed),
		cmocka_unit_test(a_bad_end_is_reported),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
