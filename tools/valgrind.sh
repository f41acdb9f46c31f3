#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs unit tests of build/dev under valgrind: uninitialised memory, which no sanitizer here sees. Left
# out are the tests that only repeat much (property loops, models, crowds, stops) and those of the command.
set -euo pipefail
cd "$(dirname "$0")/.."
export KVH_TEST_DATA=$PWD/tests/data
skip='hit_(property|rate)|coordinator_golden|lookup_golden|core_model|local_threads|shared_(threads|stop|damage)|fabric_|worker_stress'
passed=0
failed=0

for program in build/dev/tests/unit/{base,store,layout,worker,pool}/test_*; do
	if [[ ! -x $program || $program =~ $skip ]]; then
		continue
	fi
	# Processes that a test forks end with what they have: that is what it is about.
	leaks=(--leak-check=full --errors-for-leak-kinds=definite)
	if [[ $program =~ shared_ ]]; then
		leaks=(--leak-check=no)
	fi
	if valgrind -q --error-exitcode=99 "${leaks[@]}" "$program" >build/dev/valgrind.log 2>&1; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		echo "valgrind: $program"
		tail -n 40 build/dev/valgrind.log
	fi
done
echo "$passed passed, $failed failed"
[ "$passed" -gt 0 ] && [ "$failed" -eq 0 ]
