/* SPDX-License-Identifier: Apache-2.0 */
/* All of kvhold's public headers. */
#ifndef KVHOLD_KVHOLD_H
#define KVHOLD_KVHOLD_H

#include "device.h"
#include "env.h"
#include "log.h"
#include "queue.h"
#include "status.h"
#include "store.h"
#include "store_ops.h"
#include "worker.h"

#define KVH_VERSION_MAJOR 0
#define KVH_VERSION_MINOR 1
#define KVH_VERSION_PATCH 0
#define KVH_VERSION_TEXT  "0.1.0"

#ifdef __cplusplus
extern "C" {
#endif

/* major << 16 | minor << 8 | patch of the library that runs. Any thread. */
KVH_API uint32_t kvh_version(void);
KVH_API const char *kvh_version_text(void);

#ifdef __cplusplus
}
#endif
#endif
