#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Measures the shipped build and keeps all figures of all rounds as JSON. Beside kvhold it measures
# the peer that tools/setup_peer.sh prepares; without one it says why and measures the rest.
#
#   tests/bench/run.sh [options of kvhold bench]     --peer or --no-peer among them: as they say
set -euo pipefail
cd "$(dirname "$0")/../.."
mkdir -p build/report

peer=()
if [[ " $* " != *" --peer"[\ =]* && " $* " != *" --no-peer"[\ =]* ]]; then
	log=$(mktemp)
	trap 'rm -f "$log"' EXIT
	echo "bench: preparing the peer" >&2
	if command=$(tools/setup_peer.sh 2>"$log"); then
		# Seven rounds of each case take longer than the default.
		peer=(--peer "$command" --seconds 300)
	else
		cat "$log" >&2
		peer=(--no-peer "$(tail -n 1 "$log")")
	fi
fi
build/release/kvhold bench --json build/report/bench.json "${peer[@]}" "$@"
