/* SPDX-License-Identifier: Apache-2.0 */
/* A user's program in C: prints the version of the library that it runs with. */
#include <stdio.h>

#include <kvhold/kvhold.h>

int main(void)
{
	if (kvh_version() != (KVH_VERSION_MAJOR << 16 | KVH_VERSION_MINOR << 8 | KVH_VERSION_PATCH))
		return 1;
	puts(kvh_version_text());
	return 0;
}
