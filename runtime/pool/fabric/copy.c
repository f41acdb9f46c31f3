/* SPDX-License-Identifier: Apache-2.0 */
/* Copy kernels: whole 64-byte lines by streaming stores, read as two runs side by side. */
#include "pool/fabric/copy.h"

#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum {
	LINE_BYTES = 64,
	/* A page of 4 KiB: the hardware prefetcher stops there, so two pages are read at once. */
	RUN_BYTES_MAX = 4096,
	/* What is fetched of the next copy's source; the hardware prefetcher finds the rest. */
	AHEAD_BYTES_MAX = 16 * LINE_BYTES
};

#if defined(__x86_64__)

/* Bytes that are fetched on the way; bytes 0: none. */
struct source {
	const unsigned char *src;
	size_t bytes;
};

/*
 * A kernel copies [0, run) and [run, 2 * run) side by side: the memory serves two streams faster
 * than one. dst lies on a line, run_bytes is whole lines; src may lie anywhere.
 */
typedef void (*copy_runs_fn)(unsigned char *dst, const unsigned char *src, size_t run_bytes,
                             struct source ahead);

static void stream_line_sse2(unsigned char *dst, const unsigned char *src)
{
	const __m128i *from = (const __m128i *)(const void *)src;
	__m128i *to = (__m128i *)(void *)dst;
	__m128i a = _mm_loadu_si128(from);
	__m128i b = _mm_loadu_si128(from + 1);
	__m128i c = _mm_loadu_si128(from + 2);
	__m128i d = _mm_loadu_si128(from + 3);

	_mm_stream_si128(to, a);
	_mm_stream_si128(to + 1, b);
	_mm_stream_si128(to + 2, c);
	_mm_stream_si128(to + 3, d);
}

static void copy_runs_sse2(unsigned char *dst, const unsigned char *src, size_t run_bytes,
                           struct source ahead)
{
	for (size_t at = 0; at < run_bytes; at += LINE_BYTES) {
		if (at < ahead.bytes)
			__builtin_prefetch(ahead.src + at);
		stream_line_sse2(dst + at, src + at);
		stream_line_sse2(dst + run_bytes + at, src + run_bytes + at);
	}
}

__attribute__((target("avx2"))) static void
copy_runs_avx2(unsigned char *dst, const unsigned char *src, size_t run_bytes, struct source ahead)
{
	for (size_t at = 0; at < run_bytes; at += LINE_BYTES) {
		const __m256i *from = (const __m256i *)(const void *)(src + at);
		const __m256i *from2 = (const __m256i *)(const void *)(src + run_bytes + at);
		__m256i *to = (__m256i *)(void *)(dst + at);
		__m256i *to2 = (__m256i *)(void *)(dst + run_bytes + at);

		if (at < ahead.bytes)
			__builtin_prefetch(ahead.src + at);
		__m256i a = _mm256_loadu_si256(from);
		__m256i b = _mm256_loadu_si256(from + 1);
		__m256i c = _mm256_loadu_si256(from2);
		__m256i d = _mm256_loadu_si256(from2 + 1);

		_mm256_stream_si256(to, a);
		_mm256_stream_si256(to + 1, b);
		_mm256_stream_si256(to2, c);
		_mm256_stream_si256(to2 + 1, d);
	}
}

/* Half of what is left, in whole lines, a page at most. */
static size_t run_bytes_of(size_t bytes)
{
	size_t half = bytes / 2 / LINE_BYTES * LINE_BYTES;

	return half < RUN_BYTES_MAX ? half : RUN_BYTES_MAX;
}

/*
 * A line that is only partly written is read first, and stores wait behind it: so the ragged lines
 * of the next destination are asked for while this copy runs. Inlined early: gcc drops calls of a
 * function that does nothing but prefetch.
 */
static inline __attribute__((always_inline)) void fetch_ragged_lines(const struct kvh_copy *ahead)
{
	const unsigned char *dst = ahead->dst;

	if (ahead->bytes == 0)
		return;
	if ((uintptr_t)dst % LINE_BYTES)
		__builtin_prefetch(dst, 1);
	if ((uintptr_t)(dst + ahead->bytes) % LINE_BYTES)
		__builtin_prefetch(dst + ahead->bytes, 1);
}

static struct source first_lines(const struct kvh_copy *ahead)
{
	size_t bytes = ahead->bytes < AHEAD_BYTES_MAX ? ahead->bytes : AHEAD_BYTES_MAX;

	return (struct source){ahead->src, bytes};
}

/* memcpy takes the head up to dst's first whole line and the tail. */
static void copy_streaming(copy_runs_fn copy_runs, const struct kvh_copy *copy,
                           const struct kvh_copy *ahead)
{
	unsigned char *dst = copy->dst;
	const unsigned char *src = copy->src;
	size_t bytes = copy->bytes;
	size_t head_bytes = -(uintptr_t)dst % LINE_BYTES;
	struct source fetched = first_lines(ahead);
	size_t run_bytes;

	fetch_ragged_lines(ahead);
	if (head_bytes > 0) {
		memcpy(dst, src, head_bytes);
		dst += head_bytes;
		src += head_bytes;
		bytes -= head_bytes;
	}
	for (; (run_bytes = run_bytes_of(bytes)) > 0; bytes -= 2 * run_bytes) {
		/* Near the end, yet with enough lines left to spread the fetches over. */
		bool is_near_end = bytes < 4 * (size_t)RUN_BYTES_MAX;

		copy_runs(dst, src, run_bytes, is_near_end ? fetched : (struct source){0});
		if (is_near_end)
			fetched.bytes = 0;
		dst += 2 * run_bytes;
		src += 2 * run_bytes;
	}
	if (bytes >= LINE_BYTES) {
		stream_line_sse2(dst, src);
		dst += LINE_BYTES;
		src += LINE_BYTES;
		bytes -= LINE_BYTES;
	}
	if (bytes > 0)
		memcpy(dst, src, bytes);
}

bool kvh_copy_kernel_runs(enum kvh_copy_kernel kernel)
{
	return kernel != KVH_COPY_AVX2 || __builtin_cpu_supports("avx2");
}

void kvh_copy_bytes(enum kvh_copy_kernel kernel, const struct kvh_copy *copy,
                    const struct kvh_copy *ahead)
{
	if (copy->bytes < KVH_COPY_STREAM_BYTES_MIN || kernel == KVH_COPY_PORTABLE)
		memcpy(copy->dst, copy->src, copy->bytes);
	else
		copy_streaming(kernel == KVH_COPY_AVX2 ? copy_runs_avx2 : copy_runs_sse2, copy,
		               ahead);
}

void kvh_copy_fence(void)
{
	_mm_sfence();
}

#else

bool kvh_copy_kernel_runs(enum kvh_copy_kernel kernel)
{
	return kernel == KVH_COPY_PORTABLE;
}

void kvh_copy_bytes(enum kvh_copy_kernel kernel, const struct kvh_copy *copy,
                    const struct kvh_copy *ahead)
{
	(void)kernel;
	(void)ahead;
	memcpy(copy->dst, copy->src, copy->bytes);
}

void kvh_copy_fence(void)
{
	atomic_thread_fence(memory_order_release);
}

#endif

enum kvh_copy_kernel kvh_copy_kernel_best(void)
{
	if (kvh_copy_kernel_runs(KVH_COPY_AVX2))
		return KVH_COPY_AVX2;
	return kvh_copy_kernel_runs(KVH_COPY_SSE2) ? KVH_COPY_SSE2 : KVH_COPY_PORTABLE;
}
