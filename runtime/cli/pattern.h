/* SPDX-License-Identifier: Apache-2.0 */
/* Block contents that can be made again from a number, so that every loaded byte can be compared.
 */
#ifndef KVH_CLI_PATTERN_H
#define KVH_CLI_PATTERN_H

#include <stddef.h>
#include <stdint.h>

enum { KVH_PATTERN_LINE_BYTES = 64 };

/* One number out of two, well mixed. */
uint64_t kvh_pattern_mix(uint64_t a, uint64_t b);

/* bytes: a multiple of KVH_PATTERN_LINE_BYTES. Lines differ from each other and between contents.
 */
void kvh_pattern_fill(void *dst, size_t bytes, uint64_t content);

/* The index of the first line that differs, times its bytes; bytes when all is equal. */
size_t kvh_pattern_check(const void *src, size_t bytes, uint64_t content);

#endif
