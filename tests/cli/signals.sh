#!/usr/bin/env bash
# signals.sh TKC SOURCE: what a program that is told to end leaves behind. A ptxas that takes forever is at work when the signal comes.
tkc=$1 source=$2
here=$(mktemp -d) || exit 1
trap 'rm -rf "$here"' EXIT
mkdir "$here/bin" "$here/tmp"
printf '#!/bin/sh\necho $$ > "%s/pid"\nexec sleep 60\n' "$here" > "$here/bin/ptxas"
chmod +x "$here/bin/ptxas"
fail() { echo "$signal: $1"; exit 1; }
ulimit -c 0
for signal in INT:130 TERM:143 HUP:129 QUIT:131 USR1:138 ALRM:142 ABRT:134; do
    wanted=${signal#*:} signal=${signal%:*}
    rm -f "$here/pid"
    TMPDIR=$here/tmp PATH=$here/bin:$PATH env --default-signal=$signal "$tkc" "$source" --emit=cubin -o "$here/out" &
    tkc_pid=$!
    for _ in $(seq 300); do [ -s "$here/pid" ] && break; sleep 0.1; done
    [ -s "$here/pid" ] || fail "ptxas was not started"
    kill -$signal $tkc_pid
    wait $tkc_pid 2> /dev/null
    status=$?
    [ $status = $wanted ] || fail "status $status, not $wanted"
    [ -z "$(ls -A "$here/tmp")" ] || fail "left $(ls -A "$here/tmp")"
    [ -z "$(ls "$here" | grep '^out')" ] || fail "left $(ls "$here")"
    kill -0 "$(cat "$here/pid")" 2> /dev/null && fail "ptxas is still at work"
done
exit 0
