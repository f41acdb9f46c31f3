#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A peer of `kvhold bench` that measures nothing, and misbehaves as it is told.
#
#   fake_peer.sh MODE [FILE]     FILE: its process id is written there
mode=$1
[ -z "$2" ] || echo $$ >"$2"

case $mode in
mute) exec sleep 60 ;;
refuses) echo "error no such library" && exit 1 ;;
greets) echo "hello there" ;;
controls) printf 'ready \033[2Jname\n' ;;
stillborn) exit 3 ;;
*) echo "ready fake 1.0" ;;
esac

while read -r word op object_bytes _ count; do
	[ "$word" = run ] || break
	checked=$count
	[ "$op" = exists ] || checked=$((object_bytes * count))
	case $mode in
	silent) exec sleep 60 ;;
	dies) kill -9 $$ ;;
	leaves) exit 3 ;;
	errs) echo "error WRONG BYTES" ;;
	words) echo "done soon enough $checked" ;;
	short) echo "done 0.000001 0.000001" ;;
	long) echo "done 0.000001 0.000001 $checked more" ;;
	endless) head -c 4096 /dev/zero | tr '\0' 'x' ;;
	twice) printf 'done 0.000001 0.000001 %s\ndone 0.000001 0.000001 %s\n' "$checked" "$checked" ;;
	unasked) echo "done 0.000001 0.000001 $checked" && sleep 0.1 && echo "and more" ;;
	few) echo "done 0.000001 0.000001 $((checked - 1))" ;;
	never) echo "done 1000 0.000001 $checked" ;;
	no_time) echo "done 0 0.000001 $checked" ;;
	minus) echo "done 0.000001 -1 $checked" ;;
	nan) echo "done nan 0.000001 $checked" ;;
	*) echo "done 0.000001 0.000002 $checked" ;;
	esac
done
case $mode in
stays) exec sleep 60 ;;
ends_badly) exit 5 ;;
esac
