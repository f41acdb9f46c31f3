/* SPDX-License-Identifier: Apache-2.0 */
/* The only file that makes eventfds. */
#include "base/eventfd.h"

#include <errno.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

kvh_status kvh_eventfd_create(int *fd)
{
	int made = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);

	if (made < 0)
		return errno == ENOMEM ? KVH_NO_MEMORY : KVH_BUSY;
	*fd = made;
	return KVH_OK;
}

void kvh_eventfd_destroy(int fd)
{
	close(fd);
}

/* Neither can fail but for a descriptor that its user closed against the rule: not ours to stop. */
void kvh_eventfd_set(int fd)
{
	const uint64_t one = 1;
	ssize_t bytes = write(fd, &one, sizeof(one));

	(void)bytes;
}

void kvh_eventfd_clear(int fd)
{
	uint64_t count;
	ssize_t bytes = read(fd, &count, sizeof(count));

	(void)bytes;
}
