/* SPDX-License-Identifier: Apache-2.0 */
/* The mutants of the reference store, by name, each with the test that must catch it. */
#ifndef KVH_TESTS_MUTANTS_H
#define KVH_TESTS_MUTANTS_H

#include "reference.h"

struct mutant_case {
	enum mutant mutant;
	const char *name;
	const char *caught_by;
};

#define MUTANT(name, test)                                                                         \
	{                                                                                          \
		MUTANT_##name, #name, test                                                         \
	}

static const struct mutant_case mutant_cases[] = {
	MUTANT(DROPS_LAST_BYTE, "what_was_put_comes_back_byte_for_byte"),
	MUTANT(COPIES_STRIDE, "strided_blocks_leave_their_neighbours_alone"),
	MUTANT(IGNORES_BLOCK_ID, "strided_blocks_leave_their_neighbours_alone"),
	MUTANT(TAKES_ANY_LENGTH, "another_length_is_refused_and_nothing_is_read"),
	MUTANT(PACKS_RESULTS, "each_result_stands_at_its_own_key"),
	MUTANT(FORGETS_QUIET, "results_are_quiet_when_nothing_moves_any_more"),
	MUTANT(EXISTS_AS_STORED, "a_second_put_is_told_so_and_changes_nothing"),
	MUTANT(OVERWRITES, "a_second_put_is_told_so_and_changes_nothing"),
	MUTANT(TWIN_TOLD_EXISTS, "a_key_twice_in_a_batch_is_one_object"),
	MUTANT(MISSING_AS_GOT, "a_missing_key_leaves_the_buffer_alone"),
	MUTANT(MISSING_WRITES, "a_missing_key_leaves_the_buffer_alone"),
	MUTANT(COMPARES_31_BYTES, "keys_that_differ_in_one_byte_are_two"),
	MUTANT(COMPARES_32_BYTES, "hashes_of_every_length_are_compared_whole"),
	MUTANT(IGNORES_PREFIX, "the_prefix_is_part_of_the_key"),
	MUTANT(IGNORES_IDENTITY, "the_identity_is_part_of_the_key"),
	MUTANT(STOPS_AT_64, "batches_of_every_size_work"),
	MUTANT(REMOVE_LIES, "a_key_goes_from_absent_to_present_and_back"),
	MUTANT(CLEAR_KEEPS_ONE, "clear_removes_all_and_counts_them"),
	MUTANT(CLEAR_TAKES_HELD, "clear_leaves_held_objects_alone"),
	MUTANT(TIERS_LIE, "tiers_tell_present_from_missing"),
	MUTANT(NEVER_EVICTS, "a_full_store_makes_room_and_keeps_right_bytes"),
	MUTANT(EVICTS_YOUNGEST, "the_oldest_goes_first"),
	MUTANT(EVICTS_ALL, "a_full_store_makes_room_and_keeps_right_bytes"),
	MUTANT(TOO_LARGE_AS_NO_SPACE, "what_can_never_fit_is_no_pressure"),
	MUTANT(TOO_LARGE_EVICTS, "what_can_never_fit_is_no_pressure"),
	MUTANT(LEAKS_SPACE, "removed_space_comes_back"),
	MUTANT(FEED_DROPS, "every_evicted_key_is_in_the_feed"),
	MUTANT(FEED_OVERRUN_SILENT, "a_feed_that_runs_over_says_so"),
	MUTANT(QUOTA_BLIND, "a_prefix_stays_within_its_quota"),
	MUTANT(LOOKUP_TOUCHES, "being_looked_up_protects_nobody"),
	MUTANT(DEDUP_DOES_NOT_TOUCH, "being_asked_for_before_a_put_counts_as_use"),
	MUTANT(GET_DOES_NOT_TOUCH, "being_got_counts_as_use"),
	MUTANT(PRIORITY_BLIND, "a_higher_priority_goes_last"),
	MUTANT(KEEP_BLIND, "kept_objects_go_last"),
	MUTANT(KEEP_FOR_EVER, "a_keep_ends_at_its_time"),
	MUTANT(KEEP_IS_A_PIN, "kept_objects_make_room_when_nothing_else_is_left"),
	MUTANT(EXPIRE_BLIND, "an_expired_object_is_gone"),
	MUTANT(READ_PROLONGS, "an_expired_object_is_gone"),
	MUTANT(SPLITS_GROUPS, "a_lifecycle_group_leaves_as_a_whole"),
	MUTANT(HELD_EXISTS, "a_held_object_is_seen_only_after_commit"),
	MUTANT(HELD_IS_READ, "a_held_object_is_seen_only_after_commit"),
	MUTANT(ABORT_COMMITS, "an_aborted_object_never_was"),
	MUTANT(ABORT_LEAKS, "an_aborted_object_never_was"),
	MUTANT(COMMITS_TWICE, "a_token_works_once"),
	MUTANT(TOKEN_BY_NAME, "an_old_token_does_not_commit_a_newer_put"),
	MUTANT(HELD_AS_EXISTING, "a_second_writer_of_a_held_key_is_told_to_come_back"),
	MUTANT(EVICTS_HELD, "held_objects_are_not_evicted_and_then_there_is_no_room"),
	MUTANT(CLAIMS_HOLD, "what_caps_deny_is_refused_and_what_they_claim_works"),
	MUTANT(PUBLISHES_BEFORE_COPY, "writers_of_one_key_leave_the_bytes_of_one"),
	MUTANT(COUNTS_NOTHING, "counts_say_what_happened"),
	MUTANT(LIST_ENDS_EARLY, "what_was_put_is_listed_once"),
	MUTANT(LIST_REPEATS, "what_was_put_is_listed_once"),
	MUTANT(LIST_CUTS_HASHES, "keys_of_every_length_are_listed_whole"),
	MUTANT(LIST_FORGETS_PREFIX, "a_listed_key_has_the_text_of_its_own_prefix"),
	MUTANT(LIST_ROUNDS_BYTES, "what_was_put_is_listed_once"),
	MUTANT(LIST_SHOWS_HELD, "only_what_a_get_would_find_is_listed"),
	MUTANT(LIST_SHOWS_EXPIRED, "only_what_a_get_would_find_is_listed"),
	MUTANT(LIST_TOUCHES, "being_listed_protects_nobody"),
	MUTANT(LIST_FORGETS_OPTIONS, "a_list_says_how_an_object_was_put"),
	MUTANT(LIST_LOSES_PLACE, "changes_between_two_pages_hide_nobody_else"),
};

enum { MUTANT_CASE_COUNT = sizeof(mutant_cases) / sizeof(mutant_cases[0]) };

#endif
