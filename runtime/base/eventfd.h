/* SPDX-License-Identifier: Apache-2.0 */
/* A file descriptor that is readable while it is set: Linux's eventfd, at home here. */
#ifndef KVH_BASE_EVENTFD_H
#define KVH_BASE_EVENTFD_H

#include <kvhold/status.h>

/* Not set, closed by exec. KVH_BUSY: no descriptor is free. */
kvh_status kvh_eventfd_create(int *fd);
void kvh_eventfd_destroy(int fd);
/* Neither blocks. clear: also when it is not set. */
void kvh_eventfd_set(int fd);
void kvh_eventfd_clear(int fd);

#endif
