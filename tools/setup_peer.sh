#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Prepares the peer of `make bench`: Mooncake's store from the Python package index, pinned, in an
# environment of its own. Prints the command of the peer, for `kvhold bench --peer`; what it does
# goes to stderr. Where all is there it needs neither the network nor root. After an interruption it
# goes on where it was.
#
#   tools/setup_peer.sh [FOLDER]     default: build/peer-venv
set -euo pipefail
cd "$(dirname "$0")/.."

package=mooncake-transfer-engine-non-cuda
version=0.3.13.post1
venv=${1:-$PWD/build/peer-venv}
python=$venv/bin/python

fail() {
	echo "setup_peer: $*" >&2
	exit 1
}

# The pinned version is there and its libraries load.
is_ready() {
	[ -x "$python" ] && "$python" - $package $version >&2 2>"$1" <<-'END'
		import importlib.metadata
		import sys

		import mooncake.store

		found = importlib.metadata.version(sys.argv[1])
		sys.exit(f"version {found}" if found != sys.argv[2] else 0)
	END
}

mkdir -p "$(dirname "$venv")"
reason=$(mktemp)
trap 'rm -f "$reason"' EXIT
if ! is_ready "$reason"; then
	# What is missing shows below: a package may be there without Debian's knowing.
	tools/setup.sh peer >&2 || echo "setup_peer: going on without it" >&2
	"$python" -m pip --version >/dev/null 2>&1 || python3 -m venv --clear "$venv" >&2 ||
		fail "python3 -m venv does not work here"
	# The wheel alone: the store's binding and the master need nothing of what it depends on.
	timeout 600 "$python" -m pip install --quiet --no-deps --only-binary :all: --retries 2 \
		--timeout 30 "$package==$version" >&2 ||
		fail "pip install $package==$version does not work here"
	is_ready "$reason" || fail "$package does not load: $(tail -n 1 "$reason")"
fi
printf '%q %q\n' "$python" "$PWD/tools/bench_mooncake.py"
