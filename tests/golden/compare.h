/* SPDX-License-Identifier: Apache-2.0 */
/* Compares two step records, field by field, as golden.md lists them. */
#ifndef GOLDEN_COMPARE_H
#define GOLDEN_COMPARE_H

#include "record.h"

enum record_field {
	FIELD_CALLS,
	FIELD_OPS,
	FIELD_KV_EVENTS,
	FIELD_ERROR,
	FIELD_RESULT,
	FIELD_SAVED_OFFSET,
	FIELD_PRESSURE,
	FIELD_SKIPPED,
	FIELD_LIVE_JOBS,
	FIELD_COMPLETED_SAVES,
	FIELD_RETRY_TOKEN_IDS,
	FIELD_FAILED_REQUESTS,
	FIELD_FINISHING,
	FIELD_FINISHED_RECV,
	FIELD_LOAD_ERRORS,
	FIELD_FAILED_BLOCKS,
	FIELD_COUNT,
};

#define FIELD_BIT(field) (1u << (field))
#define FIELDS_ALL       (FIELD_BIT(FIELD_COUNT) - 1)

struct compare_options {
	unsigned fields; /* bits: what to compare */
	/*
	 * The recording is of the older source: load errors are one set of block ids over all
	 * groups, compared with the blocks of the other side's exact pairs (D-20), and reports
	 * of finished sending are left out.
	 */
	bool expect_is_seed;
	/* Only what came before the normal save: tail_call_count calls, tail_error and so on. */
	bool tail_only;
};

struct difference {
	enum record_field field;
	const char *expected;
	const char *observed;
};

/*
 * Bits of the fields that differ; 0 = equal. `first`, if not NULL, gets the first difference.
 * Fields that one side does not have (has_* false) are not compared. Sets are compared as sets,
 * entries without jobs and offsets of 0 count as absent.
 */
unsigned compare_records(struct arena *arena, const struct step_record *expected,
                         const struct step_record *observed, const struct compare_options *options,
                         struct difference *first);
const char *record_field_name(enum record_field field);

#endif
