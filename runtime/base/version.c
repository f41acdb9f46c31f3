/* SPDX-License-Identifier: Apache-2.0 */
/* The version of the library that runs, which may differ from the headers a caller was built with.
 */
#include <kvhold/kvhold.h>

uint32_t kvh_version(void)
{
	return (uint32_t)KVH_VERSION_MAJOR << 16 | (uint32_t)KVH_VERSION_MINOR << 8 |
	       (uint32_t)KVH_VERSION_PATCH;
}

const char *kvh_version_text(void)
{
	return KVH_VERSION_TEXT;
}
