/* SPDX-License-Identifier: Apache-2.0 */
/* Result codes: 0 or negative. Mooncake's numbers where they exist, our own from -2000. */
#ifndef KVHOLD_STATUS_H
#define KVHOLD_STATUS_H

#include <stdint.h>

#if defined(__GNUC__)
#define KVH_API __attribute__((visibility("default")))
#else
#define KVH_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/*
 * 0 or negative. A number that a backend returns and that is not listed here is passed on as it
 * is, never folded into another one.
 */
typedef int32_t kvh_status;

enum {
	KVH_OK = 0,

	/* Numbers shared with the Mooncake store. */
	KVH_NO_AVAILABLE_HANDLE = -200, /* no space now; the only code that means pressure */
	KVH_INVALID_KEY = -400,         /* the key can never be stored */
	KVH_INVALID_PARAMS = -600,      /* an argument is wrong; nothing was done */
	KVH_REPLICA_IS_NOT_READY = -703, /* being written by somebody else */
	KVH_OBJECT_NOT_FOUND = -704,
	KVH_OBJECT_ALREADY_EXISTS = -705,
	KVH_OBJECT_HAS_LEASE = -706, /* in use, can't be removed now */
	KVH_LEASE_EXPIRED = -707,
	KVH_TRANSFER_FAIL = -800,
	KVH_CHECKSUM_MISMATCH = -801,
	KVH_RPC_FAIL = -900,
	KVH_RPC_TIMEOUT = -901,
	KVH_NOT_SUPPORTED = -1012,
	KVH_FILE_READ_FAIL = -1102,
	KVH_FILE_WRITE_FAIL = -1103,

	/* Ours. */
	KVH_TIMEOUT = -2000,   /* a deadline passed */
	KVH_CANCELLED = -2001, /* stopped because the caller asked */
	KVH_BUSY = -2002,      /* full or in use; try again later */
	KVH_NO_MEMORY = -2003,
	KVH_CLOSED = -2004,    /* the handle is closing or closed */
	KVH_FORKED = -2005,    /* used in a child process; open again there */
	KVH_NO_ANSWER = -2006, /* preset of every result slot: nobody wrote it (D-5) */
	KVH_IN_DOUBT = -2007,  /* failed, and bytes may still move (D-23) */
	KVH_TOO_LARGE = -2008, /* over a limit of the call or of the staging budget */
	KVH_INTERNAL = -2009   /* a bug of ours; please report it */
};

/*
 * Text of a status, for people: static, never NULL; "unknown status" for a foreign number.
 * Any thread.
 */
KVH_API const char *kvh_strstatus(kvh_status status);

/* Bytes that a kvh_error's text holds, the final 0 included. */
#define KVH_ERROR_TEXT_BYTES 512

/*
 * Words beside a status: what is wrong, where, what to do. The caller owns it and may pass NULL
 * instead. Written only when the call fails; text always ends in 0.
 */
struct kvh_error {
	kvh_status status;
	char text[KVH_ERROR_TEXT_BYTES];
};

#ifdef __cplusplus
}
#endif
#endif
