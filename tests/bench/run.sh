#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Measures the shipped build and keeps all figures of all rounds as JSON.
#
#   tests/bench/run.sh [options of kvhold bench]
set -euo pipefail
cd "$(dirname "$0")/../.."
mkdir -p build/report
exec build/release/kvhold bench --json build/report/bench.json "$@"
