#!/usr/bin/env bash
# Runs a family of random programs, and adds a line to ledger.tsv.
#
#     tests/random/ledger.sh FAMILY COUNT [BUILD]          BUILD: the folder of the build (default: build-dev)
#
# Families: loops, dots, products, sums, rows, carried, mixed (the generator without a name), models. Seeds go on where the family's last line ended. Each
# seed runs in a process of its own. What fails stands in BUILD/random-FAMILY.txt, with the command that runs it again.
#
# The count that the ledger is for is that of programs without a fault: a line with faults ends it, and `since` begins anew at 0 on the next
# one. A fault is mended, with a test; then the family goes on.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
family=${1:?FAMILY}; count=${2:?COUNT}; build=${3:-$here/../../build-dev}
ledger=$here/ledger.tsv; log=$build/random-$family.txt
from=$(awk -F'\t' -v f="$family" '$3 == f {n = $5 + 1} END {print n + 0}' "$ledger")
since=$(awk -F'\t' -v f="$family" '$3 == f {n = $7 > 0 ? 0 : $8} END {print n + 0}' "$ledger")
[ "$from" -gt 0 ] || from=1000000
case $family in
models) run=("$build/bin/random_models" --apart "$from" "$count") ;;
mixed)  run=("$build/bin/random_programs" --apart --schedules "$from" "$count" any) ;;
*)      run=("$build/bin/random_programs" --apart --schedules "--$family" "$from" "$count" any) ;;
esac
TKC_CACHE=off "${run[@]}" > "$log" 2>&1 || true
tail -n 1 "$log"
faults=$(tail -n 1 "$log" | sed -n 's/.* \([0-9]*\) failed$/\1/p')
[ -n "$faults" ] || { echo "the run did not end: see $log" >&2; exit 1; }
[ "$faults" -gt 0 ] || since=$((since + count))
[ "$faults" -eq 0 ] || since=0
commit=$(git -C "$here" rev-parse --short HEAD)
printf '%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n' "$(date +%F)" "$commit" "$family" "$from" $((from + count - 1)) "$count" "$faults" "$since" >> "$ledger"
[ "$faults" -eq 0 ]
