#!/usr/bin/env bash
# Runs the test items of the whole tree with every schedule that their launches can have, on the emulator, for each target:
# what a test run has no time for (hours on two cores). `tkc test --help` says what --all-schedules tries.
#
#     scripts/all-schedules.sh [PATH...]     these files and folders; without any: examples, the library, all of tests/
#
#     TKC=build/tkc                          the compiler
#     ARCHS="sm_80 sm_90a sm_100a sm_120a"   targets
#     SEED=0                                 of data and of what is drawn; another one tries other combinations
#     MOST=0                                 so many schedules of each test; 0: all
#     JOBS=$(nproc)                          processes at once
#     LOGS=all-schedules                     a folder for what each process says
#
# The lines of each failure, with the options that run it again, then the seed and the counts; the status is 1 when something
# failed, or when a process ended without counts.
set -u
here=$(cd "$(dirname "$0")/.." && pwd)
export TKC=${TKC:-$here/build/tkc} SEED=${SEED:-0} MOST=${MOST:-0} LOGS=${LOGS:-all-schedules} TKC_CACHE=off
archs=${ARCHS:-sm_80 sm_90a sm_100a sm_120a} processes=${JOBS:-$(nproc)}
mkdir -p "$LOGS" && rm -f "$LOGS"/*.log

# one ARCH PATH: a process and its log
one() {
    local arch=$1 path=$2 log status=0 most=()
    log=$LOGS/$(basename "$(dirname "$path")").$(basename "$path").$arch.log
    [ "$MOST" -gt 0 ] && most=(--most="$MOST")
    "$TKC" test "$path" --device=emu --arch="$arch" --all-schedules --seed="$SEED" "${most[@]}" --diag=short > "$log" 2>&1 || status=$?
    grep -q -E '^[0-9]+ passed, [0-9]+ failed' "$log" || printf 'FAIL  %s for %s: status %d, no counts\n' "$path" "$arch" $status >> "$log"
}
export -f one

if [ $# -gt 0 ]; then paths=("$@")
else
    mapfile -t paths < <(grep -l -E '^test ' "$here"/examples/*.tk "$here"/tests/*/*.tk
                         grep -l -E '^test ' "$here"/lang/std/*.tk | sed -E 's|.*/(.*)\.tk|std/\1|')
fi
for path in "${paths[@]}"; do
    for arch in $archs; do printf '%s %s\n' "$arch" "$path"; done
done | xargs -P "$processes" -L 1 bash -c 'one "$@"' _

grep -h -A 3 '^FAIL' "$LOGS"/*.log
cat "$LOGS"/*.log | awk -v seed="$SEED" '/^[0-9]+ passed, /{ p += $1; f += $3; s += $5 }
    END { printf "seed %s: %d passed, %d failed, %d skipped\n", seed, p, f, s }'
! grep -q '^FAIL' "$LOGS"/*.log
