/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fault points: places where tests and scenarios make the production code fail. The shipped library
 * has none (KVH_FAULTS is not defined there and every point is 0 to the compiler).
 *
 * A point is a place; what happens there is the rule's choice: a result code, a delay, a crash. All
 * points are listed once, in fault_points.def, with the effects that make sense there.
 */
#ifndef KVH_BASE_FAULT_H
#define KVH_BASE_FAULT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum kvh_fault_point {
#define KVH_FAULT_POINT(id, name, effects) KVH_FAULT_##id,
#include "fault_points.def"
#undef KVH_FAULT_POINT
	KVH_FAULT_POINT_COUNT
};

/* Effects that a point can show (fault_points.def). */
enum {
	KVH_EFFECT_CODE = 1 << 0,  /* the operation fails with the rule's code */
	KVH_EFFECT_DELAY = 1 << 1, /* the caller is held there */
	KVH_EFFECT_SHORT = 1 << 2, /* fewer bytes or answers than asked */
	KVH_EFFECT_CRASH = 1 << 3  /* the process or actor ends there */
};

#ifdef KVH_FAULTS

/* Set while any rule is armed; a disabled libfiu point costs 70 ns, this load costs one. */
extern uint32_t kvh_faults_armed;

/*
 * Whether the point fires now for this key (a key, request or "", borrowed). Returns the rule's
 * number, 0 if it does not fire. May call the armed decider, which must not block.
 */
int64_t kvh_fault_fire(enum kvh_fault_point point, const void *key, size_t key_bytes);

#define KVH_FAULT(point, key, key_bytes)                                                           \
	(__builtin_expect(__atomic_load_n(&kvh_faults_armed, __ATOMIC_RELAXED) != 0, 0)            \
	         ? kvh_fault_fire(KVH_FAULT_##point, (key), (key_bytes))                           \
	         : (int64_t)0)

/* A place where the process may die: any number of a rule kills it there. */
#define KVH_CRASH_POINT(point)                                                                     \
	do {                                                                                       \
		if (KVH_FAULT(point, "", 0))                                                       \
			kvh_fault_crash();                                                         \
	} while (0)

/* As kill -9 would: no handler, no flush. */
_Noreturn void kvh_fault_crash(void);

/* ---- for tests and faults/ ------------------------------------------------------------ */

/* Decides whether a point fires: writes the number and returns true. Must not block. */
typedef bool (*kvh_fault_decider_fn)(void *user, enum kvh_fault_point point, const void *key,
                                     size_t key_bytes, int64_t *number);

/*
 * Arming is for one thread, and not while points are being passed. The first arming after a
 * disarming sets the counters to 0. False: refused (a line on stderr says why), nothing is armed by
 * the call; always so with KVH_PRODUCTION=1 in the environment (B43).
 */

/* Arms one decider for all points. NULL: takes the decider away, always true. */
bool kvh_fault_arm(kvh_fault_decider_fn decider, void *user);

/*
 * Arms a point by name to fire on its nth passing from now (1 = next), once. It comes before the
 * decider and replaces what was armed so for this point. Refused: unknown names, nth 0, number 0.
 */
bool kvh_fault_arm_nth(const char *name, uint64_t nth, int64_t number);
void kvh_fault_disarm_all(void);

/*
 * How often a point was passed while anything was armed, and how often it fired. KVH_FAULT_LOG in
 * the environment (read when arming) names a file that gets the name of each point that fires, once
 * a process.
 */
uint64_t kvh_fault_passed(enum kvh_fault_point point);
uint64_t kvh_fault_fired(enum kvh_fault_point point);

const char *kvh_fault_name(enum kvh_fault_point point);
/* -1: no such point. */
int kvh_fault_find(const char *name);
unsigned kvh_fault_effects(enum kvh_fault_point point);

#else

#define KVH_FAULT(point, key, key_bytes) ((void)(key), (void)(key_bytes), (int64_t)0)
#define KVH_CRASH_POINT(point)           ((void)0)

#endif

/* malloc and calloc that a fault point can make fail. NULL is a failure, also for 0 bytes. */
void *kvh_alloc(size_t bytes);
void *kvh_calloc(size_t count, size_t bytes);
void kvh_free(void *memory);

#endif
