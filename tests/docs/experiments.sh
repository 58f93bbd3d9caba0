#!/bin/sh
# The log of experiments is sound, answers queries, and scripts/experiments.py names what is wrong with a file or a query.
#
#     experiments.sh ROOT
python=$(python3 -S -c 'import sys; print(sys.executable)' 2>/dev/null) || { echo "skipped: no python3"; exit 0; }
script=$1/scripts/experiments.py
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
failures=0

# says WHAT PATTERN ARGUMENTS...: the output of the script has a line that matches
says() {
    what=$1 pattern=$2
    shift 2
    "$python" -S "$script" "$@" >"$work/out" 2>&1
    if ! grep -q -- "$pattern" "$work/out"; then
        echo "$what: no line matches '$pattern' in"
        head -5 "$work/out"
        failures=$((failures + 1))
    fi
}

# row CELLS...: a line of a file of experiments
row() {
    (IFS='	'; printf '%s\n' "$*")
}

"$python" -S "$script" --check || failures=$((failures + 1))

# Queries whose answers are known.
says "a figure" "^matmul 8192^3, NN	722	TFLOP/s	cuBLAS	684$" \
    --id matmul-002a --format tsv --columns case,value,unit,peer,peer_value
says "an entry by its subject's part" "^matmul.8bit-001b	1452	1449$" \
    --subject matmul --case "8192.3 NT" --format tsv --columns id,value,peer_value
says "since and verdict" "^attention-[0-9]*	2026-11-28	kept$" \
    --subject attention --since 2026-11-28 --verdict kept --heads --format tsv --columns id,date,verdict
says "markdown" "^| rows-017 | kept |$" --id rows-017 --format markdown --columns id,verdict
says "records" "^verdict     rejected$" --id rows-019
says "counts" "^    rejected " --list
says "help" "stream-?K" --help

# Every entry that a page or a source names is there.
cut -f1 "$1/bench/experiments.tsv" >"$work/ids"
grep -hoE '\b(matmul(\.8bit|\.mma_sync)?|[a-z]+|third-party)-[0-9]{3}[a-z]?\b' "$1"/docs/decisions/*.md "$1"/docs/*.md |
    sort -u | while read -r id; do grep -qxF "$id" "$work/ids" || echo "$id"; done >"$work/unknown"
if [ -s "$work/unknown" ]; then
    echo "pages name entries that are not in bench/experiments.tsv: $(tr '\n' ' ' <"$work/unknown")"
    failures=$((failures + 1))
fi

# Queries that cannot be answered.
says "no such subject" "--subject 'matmult' is none of: attention, " --subject matmult
says "no such verdict" "--verdict 'yes' is none of: kept, measured, open, rejected" --verdict yes
says "no such column" "--columns 'price' is none of: " --columns id,price
says "no such format" "--format 'json' is none of: markdown, records, " --format json
says "no such GPU" "no row of these is of --gpu 'B200', only of: H100, H200" --gpu B200
says "no day" "--since 'yesterday' is not a day" --since yesterday
says "no pattern" "--case '(' is not a regular expression" --case "("
says "no id" "--id 'matmul' is not an id" --id matmul
says "nothing found" "no row matches" --case "no such case"
says "no file" "cannot read .*: No such file" --file "$work/none.tsv"

# Files that are not sound. Each fault is named with its line; all of them in one run.
head -1 "$1/bench/experiments.tsv" >"$work/header"
{
    cat "$work/header"
    row rows-001 2026-11-28 "" H200 rows softmax pairs "" "" "" "" kept Faster. ""
    row rows-001a 2026-11-28 "" H200 rows "softmax 4096" "as rows-001" 12.5 us before 13 kept Faster. ""
    row rows-002 "" "" "" rows sort "" "" "" "" "" open Slow. ""
} >"$work/good.tsv"
{
    cat "$work/good.tsv"
    row rows-003 "" "" "" rows sort "" "" "" "" "" open Slow.
    row rows-4 "" "" "" rows sort "" "" "" "" "" open Slow. ""
    row cols-005 "" "" "" rows sort "" "" "" "" "" open Slow. ""
    row rows-002 "" "" "" rows sort "" "" "" "" "" open Slow. ""
    row rows-008a "" "" "" rows sort "" "" "" "" "" open Slow. ""
    row rows-001b "" "" "" rows sort "" "" "" "" "" open Slow. ""
    row rows-010 28.11. "" "" rows sort "" "" "" "" "" open Slow. ""
    row rows-011 "" "" H200 rows sort "" 12 us "" "" open Slow. ""
    row rows-012 "" "" "" rows sort "" "" "" "" "" yes Slow. ""
    row rows-013 2026-11-28 "" H200 rows sort "" 12 miles "" "" open Slow. ""
    row rows-014 2026-11-28 "" H200 rows sort "" "12 to 13" us "" "" open Slow. ""
    row rows-015 2026-11-28 "" H200 rows sort "" 12 "" "" "" open Slow. ""
    row rows-016 2026-11-28 "" H200 rows sort "" 12 us "" 13 open Slow. ""
    row rows-017 "" "" "" rows sort "" "" "" "" "" open "" ""
    row rows-018 "" "" "" rows sort "" "" "" "" "" open Slow. bench/results/none.txt
    row rows-019 "" HEAD "" rows sort "" "" "" "" "" open " Slow." ""
} >"$work/bad.tsv"
says "a sound file" "3 rows, 2 entries: sound" --check --file "$work/good.tsv"
says "faults" "bad.tsv:5: 13 cells instead of 14" --check --file "$work/bad.tsv"
while IFS= read -r fault; do
    if ! grep -qF -- "bad.tsv:$fault" "$work/out"; then
        echo "--check does not say: $fault"
        failures=$((failures + 1))
    fi
done <<'FAULTS'
6: id 'rows-4' is not a subject, three digits
7: id 'cols-005' does not begin with its subject 'rows'
8: id 'rows-002' stands in line 4 already
9: 'rows-008a' stands before its head 'rows-008', or has none
10: 'rows-001b' does not follow the other rows of 'rows-001'
11: date '28.11.' is not a day
12: a figure without a date
13: verdict 'yes' is none of kept, rejected, open, measured
14: unit 'miles' is none of us, ms
15: value is not a plain number: '12 to 13'
16: value is given, but unit is empty
17: peer_value is given, but peer is empty
18: note is empty
19: source 'bench/results/none.txt' does not exist
20: commit 'HEAD' is not 7 to 40 hexadecimal digits
20: note has spaces at an end
FAULTS
if "$python" -S "$script" --check --file "$work/bad.tsv" >/dev/null; then echo "--check of a faulty file succeeds"; failures=$((failures + 1)); fi
sed '1s/unit/units/' "$work/good.tsv" >"$work/columns.tsv"
says "columns" "columns.tsv:1: the first line is not the columns" --check --file "$work/columns.tsv"

if [ $failures -ne 0 ]; then exit 1; fi
echo ok
