/* SPDX-License-Identifier: Apache-2.0 */
/* What a fuzzer defines. libFuzzer calls it, and so does replay.c where there is no libFuzzer. */
#ifndef KVH_TESTS_FUZZ_FUZZ_H
#define KVH_TESTS_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>

/*
 * Feeds one input (borrowed, not ended by 0) to the code under test. Returns 0; stops the process
 * (KVH_CHECK) when an answer is wrong. Must not depend on earlier inputs.
 */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

#endif
