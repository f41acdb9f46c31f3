#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Configures, builds and tests one preset: tools/check.sh asan
set -euo pipefail
cd "$(dirname "$0")/.."
preset=${1:?which preset? see cmake --list-presets}

cmake --preset "$preset"
cmake --build --preset "$preset" --parallel "$(nproc)"
# Results of an earlier run must not count for this one.
rm -rf "build/$preset/results"
ctest --preset "$preset" --output-junit "$PWD/build/$preset/results/ctest.xml"
