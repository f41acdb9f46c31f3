#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes build/report/index.html and report.json from what tools/coverage.sh left.
set -euo pipefail
cd "$(dirname "$0")/.."
build=build/coverage

# A C function has no exceptions of its own; -fexceptions only adds edges that no test can take.
# Only the testing library is measured: the tests never run the other one's objects.
gcovr --root . --object-directory "$build" --filter 'runtime/' --exclude-throw-branches \
	--exclude-unreachable-branches --json-summary "$build/coverage.json" \
	"$build/runtime/CMakeFiles/kvhold_testing.dir"
python3 reports/make_report.py --build "$build" --out build/report
