/* SPDX-License-Identifier: Apache-2.0 */
/* Words for the result codes. */
#include <kvhold/status.h>

#include <stddef.h>

struct status_text {
	kvh_status status;
	const char *text;
};

static const struct status_text texts[] = {
	{KVH_OK, "ok"},
	{KVH_NO_AVAILABLE_HANDLE, "no space in the store now"},
	{KVH_INVALID_KEY, "invalid key"},
	{KVH_INVALID_PARAMS, "invalid argument"},
	{KVH_REPLICA_IS_NOT_READY, "object is still being written"},
	{KVH_OBJECT_NOT_FOUND, "object not found"},
	{KVH_OBJECT_ALREADY_EXISTS, "object already exists"},
	{KVH_OBJECT_HAS_LEASE, "object is in use"},
	{KVH_LEASE_EXPIRED, "lease expired"},
	{KVH_TRANSFER_FAIL, "transfer failed"},
	{KVH_CHECKSUM_MISMATCH, "checksum mismatch"},
	{KVH_RPC_FAIL, "remote call failed"},
	{KVH_RPC_TIMEOUT, "remote call timed out"},
	{KVH_NOT_SUPPORTED, "not supported"},
	{KVH_FILE_READ_FAIL, "file read failed"},
	{KVH_FILE_WRITE_FAIL, "file write failed"},
	{KVH_TIMEOUT, "deadline passed"},
	{KVH_CANCELLED, "cancelled by the caller"},
	{KVH_BUSY, "full or in use, try again later"},
	{KVH_NO_MEMORY, "out of memory"},
	{KVH_CLOSED, "handle is closed"},
	{KVH_FORKED, "handle belongs to the parent process"},
	{KVH_NO_ANSWER, "no answer from the store"},
	{KVH_IN_DOUBT, "failed, and bytes may still move"},
	{KVH_TOO_LARGE, "too large, can never fit"},
	{KVH_INTERNAL, "internal error in kvhold, please report it"},
};

const char *kvh_strstatus(kvh_status status)
{
	for (size_t index = 0; index < sizeof(texts) / sizeof(texts[0]); index++) {
		if (texts[index].status == status)
			return texts[index].text;
	}
	return "unknown status";
}
