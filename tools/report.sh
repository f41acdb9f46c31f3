#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs the fast tests under coverage and makes build/report/index.html and report.json.
set -euo pipefail
cd "$(dirname "$0")/.."
build=build/coverage

cmake --preset coverage
cmake --build --preset coverage --parallel "$(nproc)"
# Counters and results of an earlier run must not count for this one.
rm -rf "$build"/{results,tests.json,coverage.json}
find "$build" -name '*.gcda' -delete
# The listing follows the run and its label filter, so that both name the same tests.
ctest --preset coverage --output-junit "$PWD/$build/results/ctest.xml"
ctest --preset coverage --show-only=json-v1 >"$build/tests.json"
# A C function has no exceptions of its own; -fexceptions only adds edges that no test can take.
# Only the testing library is measured: the tests never run the other one's objects.
gcovr --root . --object-directory "$build" --filter 'runtime/' --exclude-throw-branches \
	--exclude-unreachable-branches --json-summary "$build/coverage.json" \
	"$build/runtime/CMakeFiles/kvhold_testing.dir"
python3 reports/make_report.py --build "$build" --out build/report
