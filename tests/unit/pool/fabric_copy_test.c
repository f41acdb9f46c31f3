/* SPDX-License-Identifier: Apache-2.0 */
/* Each copy kernel against memcpy: every byte, nothing beside it, nothing read past the end. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <cmocka.h>

#include "pool/fabric/copy.h"

enum {
	LINE_BYTES = 64,
	BYTES_MAX = 4200, /* past a page, so runs of every length up to half of it */
	CANARY_BYTES = 2 * LINE_BYTES,
	BIG_BYTES = 5 * 8192,
	CANARY = 0xa5
};

static const enum kvh_copy_kernel kernels[] = {KVH_COPY_PORTABLE, KVH_COPY_SSE2, KVH_COPY_AVX2};

#define KERNEL_COUNT (sizeof(kernels) / sizeof(kernels[0]))

/* Lies on a line; bytes differ from their neighbours and from the canary. */
static unsigned char *lines_create(size_t bytes)
{
	unsigned char *lines = aligned_alloc(LINE_BYTES, (bytes / LINE_BYTES + 1) * LINE_BYTES);

	assert_non_null(lines);
	return lines;
}

static void fill_pattern(unsigned char *bytes, size_t count)
{
	for (size_t i = 0; i < count; i++)
		bytes[i] = (unsigned char)((i * 167 + (i >> 8) * 13) % CANARY);
}

/* Copies to canary + dst_shift and checks that memory; room: bytes of dst that were filled. */
static void check_copy(enum kvh_copy_kernel kernel, unsigned char *dst, size_t dst_shift,
                       const unsigned char *src, size_t bytes)
{
	unsigned char canary[CANARY_BYTES + LINE_BYTES];
	unsigned char *to = dst + CANARY_BYTES + dst_shift;
	const struct kvh_copy copy = {to, src, bytes};
	const struct kvh_copy ahead = {to + 1, src, bytes};

	memset(canary, CANARY, sizeof(canary));
	memset(to - CANARY_BYTES, CANARY, bytes + 2 * CANARY_BYTES);
	kvh_copy_bytes(kernel, &copy, &ahead);
	kvh_copy_fence();
	if (memcmp(to, src, bytes) != 0 || memcmp(to - CANARY_BYTES, canary, CANARY_BYTES) != 0 ||
	    memcmp(to + bytes, canary, CANARY_BYTES) != 0)
		fail_msg("kernel %d, %zu bytes to a line + %zu", (int)kernel, bytes, dst_shift);
}

static void each_kernel_copies_every_length_at_every_alignment(void **state)
{
	unsigned char *src = lines_create(BYTES_MAX + LINE_BYTES);
	unsigned char *dst = lines_create(BYTES_MAX + 2 * CANARY_BYTES + LINE_BYTES);

	(void)state;
	fill_pattern(src, BYTES_MAX + LINE_BYTES);
	for (size_t k = 0; k < KERNEL_COUNT; k++) {
		if (!kvh_copy_kernel_runs(kernels[k]))
			continue;
		for (size_t bytes = 0; bytes <= BYTES_MAX; bytes++) {
			/* Every source alignment comes with every destination alignment. */
			for (size_t shift = 0; shift < LINE_BYTES; shift++)
				check_copy(kernels[k], dst, shift,
				           src + (shift + bytes) % LINE_BYTES, bytes);
		}
	}
	free(dst);
	free(src);
}

static void each_kernel_copies_lengths_around_whole_runs(void **state)
{
	unsigned char *src = lines_create(BIG_BYTES + LINE_BYTES);
	unsigned char *dst = lines_create(BIG_BYTES + 2 * CANARY_BYTES + LINE_BYTES);

	(void)state;
	fill_pattern(src, BIG_BYTES + LINE_BYTES);
	for (size_t k = 0; k < KERNEL_COUNT; k++) {
		if (!kvh_copy_kernel_runs(kernels[k]))
			continue;
		for (size_t runs = 1; runs < BIG_BYTES / 4096; runs++) {
			for (size_t bytes = runs * 4096 - 130; bytes <= runs * 4096 + 130; bytes++)
				check_copy(kernels[k], dst, bytes % LINE_BYTES,
				           src + bytes * 7 % LINE_BYTES, bytes);
		}
	}
	free(dst);
	free(src);
}

/* A page of bytes whose next byte can be neither read nor written. */
static unsigned char *guarded_end(size_t pages)
{
	size_t page_bytes = 4096;
	unsigned char *map = mmap(NULL, (pages + 1) * page_bytes, PROT_READ | PROT_WRITE,
	                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(map != MAP_FAILED);
	assert_int_equal(mprotect(map + pages * page_bytes, page_bytes, PROT_NONE), 0);
	return map + pages * page_bytes;
}

static void each_kernel_stays_before_an_unmapped_page(void **state)
{
	unsigned char *src_end = guarded_end(2);
	unsigned char *dst_end = guarded_end(2);

	(void)state;
	fill_pattern(src_end - 2 * 4096, 2 * (size_t)4096);
	for (size_t k = 0; k < KERNEL_COUNT; k++) {
		if (!kvh_copy_kernel_runs(kernels[k]))
			continue;
		for (size_t bytes = 1; bytes <= 2 * 4096; bytes++) {
			/* Also the fetch ahead may point past the end. */
			const struct kvh_copy ahead = {dst_end + 1, src_end, LINE_BYTES};
			const struct kvh_copy copy = {dst_end - bytes, src_end - bytes, bytes};

			kvh_copy_bytes(kernels[k], &copy, &ahead);
			assert_memory_equal(dst_end - bytes, src_end - bytes, bytes);
		}
	}
	munmap(src_end - 2 * 4096, 3 * (size_t)4096);
	munmap(dst_end - 2 * 4096, 3 * (size_t)4096);
}

static void the_best_kernel_runs_here(void **state)
{
	(void)state;
	assert_true(kvh_copy_kernel_runs(kvh_copy_kernel_best()));
	assert_true(kvh_copy_kernel_runs(KVH_COPY_PORTABLE));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_kernel_copies_every_length_at_every_alignment),
		cmocka_unit_test(each_kernel_copies_lengths_around_whole_runs),
		cmocka_unit_test(each_kernel_stays_before_an_unmapped_page),
		cmocka_unit_test(the_best_kernel_runs_here),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
