/* SPDX-License-Identifier: Apache-2.0 */
/* Which process runs, to notice that a handle was carried over a fork (KVH_FORKED). */
#ifndef KVH_BASE_PROCESS_H
#define KVH_BASE_PROCESS_H

#include <stdint.h>

/* Never 0. A system call: once per call from an engine, not once per block. */
uint64_t kvh_process_id(void);

#endif
