#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs from Debian what the build, the tests and the linters need and this machine lacks; when
# asked for it, also what the peer of `make bench` needs (tools/setup_peer.sh).
#
#   tools/setup.sh [build] [test] [lint] [peer]     no group: the first three
#
# Asks nothing. Works as root or through sudo. Where nothing is missing it neither needs the
# network nor root, and ends at once.
set -euo pipefail

# The one list of what the project takes from Debian bookworm.
packages_build="gcc libc6-dev make cmake ninja-build pkg-config libxxhash-dev libjansson-dev"
packages_test="g++ binutils git python3 libcmocka-dev libfiu-dev clang-format gcovr"
packages_lint="clang libclang-rt-14-dev clang-tidy cppcheck valgrind"
packages_peer="python3 python3-venv libibverbs1 libcurl4 libnuma1"

usage() {
	echo "usage: tools/setup.sh [build] [test] [lint] [peer]   (no group: the first three)" >&2
	exit 2
}

is_installed() {
	local state
	state=$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null) && [ "$state" = installed ]
}

# A mirror that times out is asked again, three times in all; any other answer is final.
apt() {
	$as_root env DEBIAN_FRONTEND=noninteractive apt-get -q \
		-o Acquire::Retries=3 -o Acquire::http::Timeout=30 -o DPkg::Lock::Timeout=120 "$@"
}

groups=("$@")
[ ${#groups[@]} -gt 0 ] || groups=(build test lint)
wanted=""
for group in "${groups[@]}"; do
	case $group in
	build) wanted+=" $packages_build" ;;
	test) wanted+=" $packages_test" ;;
	lint) wanted+=" $packages_lint" ;;
	peer) wanted+=" $packages_peer" ;;
	*) usage ;;
	esac
done

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
	echo "setup: this script knows Debian only; install by hand the equivalents of:" >&2
	printf '  %s\n' $wanted >&2
	exit 1
fi

missing=()
for package in $wanted; do
	[[ " ${missing[*]:-} " == *" $package "* ]] || is_installed "$package" ||
		missing+=("$package")
done
if [ ${#missing[@]} -eq 0 ]; then
	echo "setup: nothing missing (${groups[*]})"
	exit 0
fi

as_root=""
if [ "$(id -u)" -ne 0 ]; then
	if ! command -v sudo >/dev/null; then
		echo "setup: missing: ${missing[*]}" >&2
		echo "setup: not root and no sudo here; run as root: apt-get install ${missing[*]}" >&2
		exit 1
	fi
	if ! sudo -n true 2>/dev/null && ! [ -t 0 ]; then
		echo "setup: missing: ${missing[*]}" >&2
		echo "setup: sudo wants a password and there is no terminal to ask on;" \
			"run: sudo apt-get install ${missing[*]}" >&2
		exit 1
	fi
	as_root=sudo
fi

echo "setup: installing ${missing[*]}"
apt update
apt install -y --no-install-recommends "${missing[@]}"
for package in "${missing[@]}"; do
	if ! is_installed "$package"; then
		echo "setup: $package is still missing after apt-get install" >&2
		exit 1
	fi
done
echo "setup: installed ${#missing[@]}: ${missing[*]}"
