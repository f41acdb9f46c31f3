#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the coverage preset and runs the fast tests under it: what tools/report.sh reads.
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
