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

static unsigned char *engine_at(const struct kvh_bench_lists *lists, size_t object, size_t segment)
{
	size_t block = lists->order[(object + lists->order_shift) % lists->object_count];

	return lists->engine + (segment * lists->object_count + block) * lists->segment_bytes;
}

static unsigned char *extent_at(const struct kvh_bench_lists *lists, size_t object, size_t segment)
{
	return lists->extents + object * lists->extent_stride_bytes +
	       segment * lists->segment_bytes;
}

static bool is_streaming(enum kvh_bench_kernel kernel, const struct kvh_bench_lists *lists)
{
	return kernel != KVH_BENCH_MEMCPY && has_avx2() && lists->segment_bytes >= STREAM_BYTES_MIN;
}

typedef unsigned char *(*place_fn)(const struct kvh_bench_lists *, size_t object, size_t segment);

/* Inlined into both callers, so that the places cost a few instructions and no call. */
static inline __attribute__((always_inline)) void copy_all(enum kvh_bench_kernel kernel,
							   const struct kvh_bench_lists *lists,
							   place_fn to, place_fn from)
{
	bool streams = is_streaming(kernel, lists);

	for (size_t object = 0; object < lists->object_count; object++) {
		for (size_t segment = 0; segment < lists->segment_count; segment++) {
			bool is_last = segment + 1 == lists->segment_count;
			const unsigned char *next = NULL;

			if (kernel == KVH_BENCH_STREAM_AHEAD &&
			    (!is_last || object + 1 < lists->object_count))
				next = from(lists, object + is_last, is_last ? 0 : segment + 1);
			if (streams)
				stream(to(lists, object, segment), from(lists, object, segment),
				       lists->segment_bytes, next);
			else
				memcpy(to(lists, object, segment), from(lists, object, segment),
				       lists->segment_bytes);
		}
	}
	fence();
}

void kvh_bench_limit_put(enum kvh_bench_kernel kernel, const struct kvh_bench_lists *lists)
{
	copy_all(kernel, lists, extent_at, engine_at);
}

void kvh_bench_limit_get(enum kvh_bench_kernel kernel, const struct kvh_bench_lists *lists)
{
	copy_all(kernel, lists, engine_at, extent_at);
}
