#!/bin/sh
# search.sh TARGET CORPUS FOUND OPTIONS...: the same search every time, on every machine. libFuzzer's own depends on the
# order in which a folder lists its files, on the clock (a folder is read again each second) and, by the arguments
# of comparisons, on addresses. What is found is kept in FOUND, an input that fails as FOUND/crash-...
set -eu
target=$1 corpus=$2 found=$3
shift 3
rm -rf "$found" "$found.seeds"
mkdir "$found"
find "$corpus" -type f | LC_ALL=C sort | paste -s -d, >"$found.seeds"
exec "$target" -seed=1 -reload=0 -use_cmp=0 -timeout=60 -seed_inputs="@$found.seeds" -artifact_prefix="$found/" "$@" "$found"
