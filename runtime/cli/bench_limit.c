/* SPDX-License-Identifier: Apache-2.0 */
/* The bench's limits: the same segments copied by a plain loop, independent of the product's
 * kernels. */
#include "bench.h"

#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum { LINE_BYTES = 64, STREAM_BYTES_MIN = 1024, AHEAD_BYTES = 1024 };

#if defined(__x86_64__)

static void fence(void)
{
	_mm_sfence();
}

static bool has_avx2(void)
{
	return __builtin_cpu_supports("avx2");
}

__attribute__((target("avx2"))) static void stream_line(unsigned char *dst,
                                                        const unsigned char *src)
{
	__m256i low = _mm256_loadu_si256((const __m256i *)(const void *)src);
	__m256i high = _mm256_loadu_si256((const __m256i *)(const void *)(src + 32));

	_mm256_stream_si256((__m256i *)(void *)dst, low);
	_mm256_stream_si256((__m256i *)(void *)(dst + 32), high);
}

/* next: fetched while the last lines are copied; NULL: nothing is. */
__attribute__((target("avx2"))) static void stream(unsigned char *dst, const unsigned char *src,
                                                   size_t bytes, const unsigned char *next)
{
	size_t head_bytes = -(uintptr_t)dst % LINE_BYTES;
	size_t line_bytes = (bytes - head_bytes) / LINE_BYTES * LINE_BYTES;
	size_t ahead_from = line_bytes > AHEAD_BYTES ? line_bytes - AHEAD_BYTES : 0;

	memcpy(dst, src, head_bytes);
	dst += head_bytes;
	src += head_bytes;
	for (size_t at = 0; at < line_bytes; at += LINE_BYTES) {
		if (next && at >= ahead_from)
			__builtin_prefetch(next + (at - ahead_from));
		stream_line(dst + at, src + at);
	}
	memcpy(dst + line_bytes, src + line_bytes, bytes - head_bytes - line_bytes);
}

#else

static void fence(void)
{
}

static bool has_avx2(void)
{
	return false;
}

static void stream(unsigned char *dst, const unsigned char *src, size_t bytes,
                   const unsigned char *next)
{
	(void)next;
	memcpy(dst, src, bytes);
}

#endif

bool kvh_bench_kernel_runs(enum kvh_bench_kernel kernel)
{
	return kernel == KVH_BENCH_MEMCPY || has_avx2();
}

/* Where an object's first segment lies, and how far apart its segments are. */
struct place {
	unsigned char *base;
	size_t step_bytes;
};

static struct place engine_place(const struct kvh_bench_lists *lists, size_t object)
{
	size_t at = object + lists->order_shift;
	size_t block = lists->order[at < lists->object_count ? at : at - lists->object_count];

	return (struct place){lists->engine + block * lists->segment_bytes,
	                      lists->object_count * lists->segment_bytes};
}

static struct place extent_place(const struct kvh_bench_lists *lists, size_t object)
{
	return (struct place){lists->extents + object * lists->extent_stride_bytes,
	                      lists->segment_bytes};
}

static bool is_streaming(enum kvh_bench_kernel kernel, const struct kvh_bench_lists *lists)
{
	return kernel != KVH_BENCH_MEMCPY && has_avx2() && lists->segment_bytes >= STREAM_BYTES_MIN;
}

typedef struct place (*place_fn)(const struct kvh_bench_lists *lists, size_t object);

/* Inlined into both callers, so that the places cost a few instructions and no call. */
static inline __attribute__((always_inline)) void copy_all(enum kvh_bench_kernel kernel,
                                                           const struct kvh_bench_lists *lists,
                                                           place_fn to_place, place_fn from_place)
{
	const size_t bytes = lists->segment_bytes;
	bool streams = is_streaming(kernel, lists);
	bool fetches = streams && kernel == KVH_BENCH_STREAM_AHEAD;

	for (size_t object = 0; object < lists->object_count; object++) {
		struct place to = to_place(lists, object);
		struct place from = from_place(lists, object);
		/* The last object fetches itself again: harmless, and no branch in the loop. */
		bool is_last = object + 1 == lists->object_count;
		const unsigned char *next_object = from_place(lists, object + !is_last).base;

		for (size_t left = lists->segment_count; left > 0; left--) {
			const unsigned char *next =
				left > 1 ? from.base + from.step_bytes : next_object;

			if (streams)
				stream(to.base, from.base, bytes, fetches ? next : NULL);
			else
				memcpy(to.base, from.base, bytes);
			to.base += to.step_bytes;
			from.base += from.step_bytes;
		}
	}
	fence();
}

void kvh_bench_limit_put(enum kvh_bench_kernel kernel, const struct kvh_bench_lists *lists)
{
	copy_all(kernel, lists, extent_place, engine_place);
}

void kvh_bench_limit_get(enum kvh_bench_kernel kernel, const struct kvh_bench_lists *lists)
{
	copy_all(kernel, lists, engine_place, extent_place);
}
