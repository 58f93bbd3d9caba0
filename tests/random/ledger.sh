#!/usr/bin/env bash
# Runs a family of random programs, and adds a line to ledger.tsv.
#
#     tests/random/ledger.sh FAMILY COUNT [BUILD [JOBS]]   BUILD: the folder of the build (default: build-dev); JOBS processes (default: 1)
#
# The families are those of many.sh, which runs the seeds. Seeds go on where the family's last line ended. What fails stands in
# BUILD/random-FAMILY.txt, with the command that runs it again.
#
# The count that the ledger is for is that of programs without a fault: a line with faults ends it, and `since` begins anew at 0 on the next
# one. A fault is mended, with a test; then the family goes on.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
family=${1:?FAMILY}; count=${2:?COUNT}; build=${3:-$here/../../build-dev}; jobs=${4:-1}
ledger=$here/ledger.tsv; log=$build/random-$family.txt
from=$(awk -F'\t' -v f="$family" '$3 == f {n = $5 + 1} END {print n + 0}' "$ledger")
since=$(awk -F'\t' -v f="$family" '$3 == f {n = $7 > 0 ? 0 : $8} END {print n + 0}' "$ledger")
[ "$from" -gt 0 ] || from=1000000
said=$(LOG=$log "$here/many.sh" "$family" "$from" "$count" "$jobs" "$build/bin") || true
printf '%s\n' "$said"
faults=$(tail -n 1 <<< "$said" | sed -n 's/.* \([0-9]*\) failed$/\1/p')
[ -n "$faults" ] || { echo "the run did not end: see $log" >&2; exit 1; }
[ "$faults" -gt 0 ] || since=$((since + count))
[ "$faults" -eq 0 ] || since=0
commit=$(git -C "$here" rev-parse --short HEAD)
printf '%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n' "$(date +%F)" "$commit" "$family" "$from" $((from + count - 1)) "$count" "$faults" "$since" >> "$ledger"
[ "$faults" -eq 0 ]
