#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The crowds of processes on one shared pool, a minute each, in builds that are there already:
# tools/stress.sh clang asan
set -euo pipefail
cd "$(dirname "$0")/.."
for preset in "${@:?which presets? they must have been built by tools/check.sh}"; do
	(cd "build/$preset" && ctest --output-on-failure --no-tests=error -R '^crash\.stress.*_all$')
done
