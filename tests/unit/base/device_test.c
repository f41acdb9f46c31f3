/* SPDX-License-Identifier: Apache-2.0 */
/* The host device, and device tables that lack functions. */
#include "unit/base/unit.h"

#include <string.h>

#include "device/device.h"

static const struct kvh_device_ops *host;

static void host_memory_is_host_memory(void **context)
{
	enum kvh_memory_kind kind = KVH_MEMORY_DEVICE;
	int local = 0;

	(void)context;
	assert_ptr_equal(kvh_device_host(), kvh_device_host());
	assert_int_equal(host->classify(NULL, &local, &kind), KVH_OK);
	assert_int_equal(kind, KVH_MEMORY_HOST);
	assert_int_equal(host->classify(NULL, NULL, &kind), KVH_INVALID_PARAMS);
	assert_int_equal(host->classify(NULL, &local, NULL), KVH_INVALID_PARAMS);
}

static void pins_check_their_arguments(void **context)
{
	char memory[8] = {0};

	(void)context;
	assert_int_equal(host->pin_host(NULL, memory, sizeof(memory)), KVH_OK);
	assert_int_equal(host->unpin_host(NULL, memory), KVH_OK);
	assert_int_equal(host->pin_host(NULL, NULL, 8), KVH_INVALID_PARAMS);
	assert_int_equal(host->pin_host(NULL, memory, 0), KVH_INVALID_PARAMS);
	assert_int_equal(host->pin_host(NULL, memory, SIZE_MAX), KVH_INVALID_PARAMS);
	assert_int_equal(host->unpin_host(NULL, NULL), KVH_INVALID_PARAMS);
}

static void host_memory_has_no_dmabuf(void **context)
{
	uint64_t offset_bytes = 7;
	char memory[8] = {0};
	int fd = -1;

	(void)context;
	assert_int_equal(host->export_dmabuf(NULL, memory, 8, &fd, &offset_bytes),
	                 KVH_NOT_SUPPORTED);
	assert_int_equal(fd, -1);
	assert_int_equal(offset_bytes, 7);
}

static void copies_have_ended_when_start_returns(void **context)
{
	char from[] = "abcdefgh";
	char to[9] = "--------";
	const struct kvh_copy copies[] = {{to, from + 4, 4}, {to + 4, from, 4}, {NULL, NULL, 0}};
	uint64_t token = 0;

	(void)context;
	assert_int_equal(host->copy_start(NULL, copies, COUNT_OF(copies), &token), KVH_OK);
	assert_string_equal(to, "efghabcd");
	assert_int_equal(host->copy_wait(NULL, token, 1), KVH_OK);
	assert_int_equal(host->copy_wait(NULL, token + 1, 0), KVH_INVALID_PARAMS);
	assert_int_equal(host->copy_start(NULL, NULL, 0, &token), KVH_OK);
}

static void one_wrong_copy_stops_the_batch_before_the_first_byte(void **context)
{
	char from[] = "abcd";
	char to[] = "----";
	const struct kvh_copy wrong[] = {{NULL, from, 4}, {to, NULL, 4}, {to, from, SIZE_MAX}};
	uint64_t token = 99;

	(void)context;
	for (size_t index = 0; index < COUNT_OF(wrong); index++) {
		const struct kvh_copy copies[] = {{to, from, 4}, wrong[index]};

		assert_int_equal(host->copy_start(NULL, copies, 2, &token), KVH_INVALID_PARAMS);
	}
	assert_int_equal(host->copy_start(NULL, NULL, 1, &token), KVH_INVALID_PARAMS);
	assert_int_equal(host->copy_start(NULL, wrong, 0, NULL), KVH_INVALID_PARAMS);
	assert_string_equal(to, "----");
	assert_int_equal(token, 99);
}

static void a_job_without_an_event_waits_for_nothing(void **context)
{
	int event = 0;

	(void)context;
	assert_int_equal(host->event_wait(NULL, NULL, 0), KVH_OK);
	assert_int_equal(host->event_wait(NULL, &event, 0), KVH_NOT_SUPPORTED);
}

static kvh_status own_classify(void *ctx, const void *addr, enum kvh_memory_kind *kind)
{
	(void)ctx;
	(void)addr;
	*kind = KVH_MEMORY_DEVICE;
	return KVH_OK;
}

static kvh_status own_copy_start(void *ctx, const struct kvh_copy *copies, size_t count,
                                 uint64_t *token)
{
	(void)ctx;
	(void)copies;
	(void)count;
	*token = 5;
	return KVH_OK;
}

static kvh_status own_copy_wait(void *ctx, uint64_t token, kvh_deadline deadline_ns)
{
	(void)ctx;
	(void)deadline_ns;
	return token == 5 ? KVH_OK : KVH_TRANSFER_FAIL;
}

static void assert_full(const struct kvh_device_ops *ops)
{
	assert_int_equal(ops->struct_bytes, sizeof(*ops));
	assert_true(ops->classify && ops->pin_host && ops->unpin_host && ops->export_dmabuf);
	assert_true(ops->copy_start && ops->copy_wait && ops->event_wait);
}

static void an_empty_table_becomes_the_host_device(void **context)
{
	const struct kvh_device_ops empty = {.struct_bytes = sizeof(empty)};
	struct kvh_device_ops full;

	(void)context;
	assert_int_equal(kvh_device_ops_fill(&empty, &full), KVH_OK);
	assert_memory_equal(&full, host, sizeof(full));
}

static void host_copies_never_stand_in_for_device_copies(void **context)
{
	const struct kvh_device_ops given = {.struct_bytes = sizeof(given),
	                                     .classify = own_classify};
	char from[] = "abcd";
	char to[] = "----";
	const struct kvh_copy copy = {to, from, 4};
	struct kvh_device_ops full;
	uint64_t token = 0;

	(void)context;
	assert_int_equal(kvh_device_ops_fill(&given, &full), KVH_OK);
	assert_full(&full);
	assert_ptr_equal(full.classify, own_classify);
	assert_int_equal(full.copy_start(NULL, &copy, 1, &token), KVH_NOT_SUPPORTED);
	assert_int_equal(full.copy_wait(NULL, token, 0), KVH_NOT_SUPPORTED);
	assert_string_equal(to, "----");
}

static void host_answers_never_stand_in_for_device_addresses(void **context)
{
	const struct kvh_device_ops given = {.struct_bytes = sizeof(given),
	                                     .copy_start = own_copy_start,
	                                     .copy_wait = own_copy_wait};
	enum kvh_memory_kind kind = KVH_MEMORY_PINNED_HOST;
	struct kvh_device_ops full;

	(void)context;
	assert_int_equal(kvh_device_ops_fill(&given, &full), KVH_OK);
	assert_full(&full);
	assert_ptr_equal(full.copy_start, own_copy_start);
	assert_ptr_equal(full.copy_wait, own_copy_wait);
	assert_int_equal(full.classify(NULL, &kind, &kind), KVH_NOT_SUPPORTED);
	assert_int_equal(kind, KVH_MEMORY_PINNED_HOST);
}

static void tables_of_other_versions_are_read_to_their_own_end(void **context)
{
	struct {
		struct kvh_device_ops ops;
		void *later;
	} newer = {.ops = {.struct_bytes = sizeof(newer), .classify = own_classify}};
	/* Ends before copy_start: what lies there is not the table's. */
	const struct kvh_device_ops older = {.struct_bytes =
	                                             offsetof(struct kvh_device_ops, copy_start),
	                                     .copy_start = own_copy_start};
	struct kvh_device_ops full;

	(void)context;
	assert_int_equal(kvh_device_ops_fill(&newer.ops, &full), KVH_OK);
	assert_full(&full);
	assert_ptr_equal(full.classify, own_classify);
	assert_int_equal(kvh_device_ops_fill(&older, &full), KVH_OK);
	assert_memory_equal(&full, host, sizeof(full));
}

static void wrong_tables_are_refused(void **context)
{
	const struct kvh_device_ops wrong[] = {
		{.struct_bytes = 0},
		{.struct_bytes = sizeof(size_t) + 1},
		{.struct_bytes = sizeof(struct kvh_device_ops), .copy_start = own_copy_start},
		{.struct_bytes = sizeof(struct kvh_device_ops), .copy_wait = own_copy_wait},
		{.struct_bytes = sizeof(struct kvh_device_ops), .unpin_host = host->unpin_host},
	};
	struct kvh_device_ops full = {.struct_bytes = 3};

	(void)context;
	for (size_t index = 0; index < COUNT_OF(wrong); index++)
		assert_int_equal(kvh_device_ops_fill(&wrong[index], &full), KVH_INVALID_PARAMS);
	assert_int_equal(kvh_device_ops_fill(NULL, &full), KVH_INVALID_PARAMS);
	assert_int_equal(kvh_device_ops_fill(host, NULL), KVH_INVALID_PARAMS);
	assert_int_equal(full.struct_bytes, 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(host_memory_is_host_memory),
		cmocka_unit_test(pins_check_their_arguments),
		cmocka_unit_test(host_memory_has_no_dmabuf),
		cmocka_unit_test(copies_have_ended_when_start_returns),
		cmocka_unit_test(one_wrong_copy_stops_the_batch_before_the_first_byte),
		cmocka_unit_test(a_job_without_an_event_waits_for_nothing),
		cmocka_unit_test(an_empty_table_becomes_the_host_device),
		cmocka_unit_test(host_copies_never_stand_in_for_device_copies),
		cmocka_unit_test(host_answers_never_stand_in_for_device_addresses),
		cmocka_unit_test(tables_of_other_versions_are_read_to_their_own_end),
		cmocka_unit_test(wrong_tables_are_refused),
	};

	host = kvh_device_host()->ops;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
