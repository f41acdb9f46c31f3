/* SPDX-License-Identifier: Apache-2.0 */
/* Small things that every part of the bench needs: time, memory, orders, hashes, failures. */
#include "bench.h"

#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "cli.h"

uint64_t kvh_bench_now(const struct kvh_bench *bench)
{
	return bench->env->ops->now_ns(bench->env->ctx);
}

uint64_t kvh_bench_own_ns(const struct kvh_bench *bench)
{
	return kvh_bench_now(bench) - bench->peer_ns;
}

double kvh_bench_cpu_seconds(void)
{
	struct timespec used;

	if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used))
		return 0;
	return (double)used.tv_sec + (double)used.tv_nsec * 1e-9;
}

bool kvh_bench_goes_on(const struct kvh_bench *bench, uint32_t rounds_done, uint64_t case_ns,
                       uint64_t case_limit_ns)
{
	uint64_t now_ns = kvh_bench_own_ns(bench);
	uint64_t spent_ns = now_ns - bench->started_ns;
	uint32_t rounds_min = bench->peer ? bench->rounds : KVH_BENCH_ROUNDS_MIN;

	if (rounds_done == 0)
		return true;
	if (rounds_done >= bench->rounds || spent_ns > bench->limit_ns)
		return false;
	if (now_ns - case_ns < case_limit_ns)
		return true;
	return rounds_done < rounds_min && spent_ns < bench->limit_ns / 2;
}

unsigned char *kvh_bench_map(size_t bytes)
{
	void *memory =
		mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		return NULL;
	/* Only a wish: with small pages the figures are still right. */
	(void)madvise(memory, bytes, MADV_HUGEPAGE);
	memset(memory, 1, bytes);
	return memory;
}

void kvh_bench_unmap(unsigned char *memory, size_t bytes)
{
	if (memory)
		munmap(memory, bytes);
}

static uint64_t mix(uint64_t value)
{
	value += UINT64_C(0x9e3779b97f4a7c15);
	value = (value ^ (value >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	value = (value ^ (value >> 27)) * UINT64_C(0x94d049bb133111eb);
	return value ^ (value >> 31);
}

void kvh_bench_shuffle(uint32_t *order, size_t count)
{
	for (size_t i = 0; i < count; i++)
		order[i] = (uint32_t)i;
	for (size_t i = count; i > 1; i--) {
		size_t other = mix(i) % i;
		uint32_t kept = order[i - 1];

		order[i - 1] = order[other];
		order[other] = kept;
	}
}

void kvh_bench_hash(uint8_t hash[KVH_BENCH_HASH_BYTES], uint64_t series, uint64_t index)
{
	uint64_t word = mix(series << 32 | index);

	for (size_t i = 0; i < KVH_BENCH_HASH_BYTES; i += sizeof(word)) {
		memcpy(hash + i, &word, sizeof(word));
		word = mix(word);
	}
}

bool kvh_bench_ok(const char *what, kvh_status status, const struct kvh_error *error)
{
	if (status == KVH_OK)
		return true;
	kvh_cli_complain("bench", "%s: %s%s%s", what, kvh_strstatus(status), error ? ": " : "",
	                 error ? error->text : "");
	return false;
}
