/* SPDX-License-Identifier: Apache-2.0 */
/* The objects that stand for lock roles. Nothing reads them; clang's analysis needs their names. */
#include "base/lock.h"

struct kvh_lock_role kvh_role_worker;
struct kvh_lock_role kvh_role_queue;
struct kvh_lock_role kvh_role_store;
struct kvh_lock_role kvh_role_pool;
