#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# clang-tidy (checks and reasons: .clang-tidy) and cppcheck over the C files of runtime/ and
# tests/. A finding fails; a false one is silenced where it stands, with its reason.
#
#   tools/lint.sh [FILE...]     no file: all of them
set -euo pipefail
cd "$(dirname "$0")/.."

cmake --preset clang
files=("$@")
# tests/package/consumer is built against an installed kvhold only.
[ ${#files[@]} -gt 0 ] ||
	mapfile -t files < <(git ls-files 'runtime/*.c' 'tests/*.c' ':!tests/package/consumer')

# Files that no target builds are not in the compile database and would be read without flags.
database=build/clang/compile_commands.json
for file in "${files[@]}"; do
	if ! grep -q "\"file\": \"$PWD/$file\"" "$database"; then
		echo "lint: $file is built by no target" >&2
		exit 1
	fi
done

# Both tools run, so that one run shows every finding.
status=0
echo "lint: clang-tidy over ${#files[@]} files"
printf '%s\0' "${files[@]}" | xargs -0 -n 2 -P "$(nproc)" \
	clang-tidy -p build/clang --quiet --warnings-as-errors='*' || status=1

echo "lint: cppcheck"
mkdir -p build/cppcheck
cppcheck --project="$database" --cppcheck-build-dir=build/cppcheck -j "$(nproc)" --quiet \
	--enable=warning,performance,portability --inline-suppr --error-exitcode=1 \
	--suppress=missingIncludeSystem --library=tools/cppcheck.cfg || status=1

[ $status -eq 0 ] && echo "lint: no finding"
exit $status
