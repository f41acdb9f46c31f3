#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs one cmocka program so that people can read its outcome and the reports can parse it.
#
#   run_cmocka.sh FOLDER PROGRAM [ARG...]
#
# The program leaves GROUP.xml (one per test group) and fault_points.txt (the points that fired)
# in FOLDER, which is emptied first: cmocka never overwrites a result.
set -u

folder=$1
shift
mkdir -p "$folder" || exit 1
rm -f "$folder"/*.xml "$folder"/fault_points.txt

CMOCKA_MESSAGE_OUTPUT=XML CMOCKA_XML_FILE="$folder/%g.xml" \
	KVH_FAULT_LOG="$folder/fault_points.txt" "$@"
status=$?
if [ $status -ne 0 ]; then
	cat "$folder"/*.xml 2>/dev/null
	echo "exit status $status; to see it in plain words: $*"
fi
exit $status
