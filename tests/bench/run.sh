#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Measures the shipped build and keeps all figures of all rounds as JSON in build/report/bench*.json.
# Beside kvhold it measures the peer that tools/setup_peer.sh prepares; without one it says why and
# measures the rest. Without options the copies and the keys are measured once more, in a pool that
# processes share.
#
#   tests/bench/run.sh [options of kvhold bench]     --peer or --no-peer among them: as they say
set -euo pipefail
cd "$(dirname "$0")/../.."
mkdir -p build/report
pool=bench.$$
log=$(mktemp)
trap 'rm -f "$log" "/dev/shm/kvhold.$pool"' EXIT

peer=()
if [[ " $* " != *" --peer"[\ =]* && " $* " != *" --no-peer"[\ =]* ]]; then
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

[ $# -eq 0 ] || exit 0
for part in copies keys; do
	echo
	build/release/kvhold bench --json "build/report/bench_shared_$part.json" --only "$part" \
		--seconds 150 --store "local:$pool?size=2GiB" --no-peer "it stands beside the private pool"
done
