// SPDX-License-Identifier: Apache-2.0
// A user's program in C++: prints the version of the library that it runs with.
#include <iostream>

#include <kvhold/kvhold.h>

int main()
{
	if (kvh_strstatus(KVH_OK) == nullptr)
		return 1;
	std::cout << kvh_version_text() << "\n";
}
