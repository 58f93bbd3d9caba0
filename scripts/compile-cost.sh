#!/usr/bin/env bash
# What does a compilation cost? Instructions of five fixed compilations, by two compilers, and their ratio.
#
#     scripts/compile-cost.sh BASE [NEW]     commits or build folders, as of scripts/same-ptx.sh; NEW: this checkout
#     MOST=1.05                              the largest ratio that is allowed
#
# Counted is what runs inside `main`, by callgrind, which counts the same from run to run: neither the
# loader nor other work on the machine is seen. Without valgrind, `perf stat` counts all user instructions
# of the process; its figures are larger and vary a little. Both sides are builds of one preset
# ($TK_SAME_PTX_PRESET). Exit status: 0, 1 above MOST, 2 nothing counted.
set -u
root=$(cd "$(dirname "$0")/.." && pwd)
most=${MOST:-1.05} work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT
export TKC_CACHE=off

# name, file, options; of files that were renamed, scripts/same-ptx.names has the old paths
inputs=("softmax examples/softmax.tk --arch=sm_90a"
        "matmul examples/matmul.tk --arch=sm_90a"
        "attention examples/attention.tk --arch=sm_90a"
        "library lang/std/norm.tk --arch=sm_90a"
        "model examples/models/step/model.onnx --emit=tk")

if [ $# -lt 1 ] || [ $# -gt 2 ] || [ "${1#-}" != "$1" ]; then
    sed -n '2,/^set -u/{/^#/!d;s/^# \{0,1\}//;p}' "$0"
    exit 2
fi
if command -v valgrind > /dev/null; then by=callgrind
elif perf stat -x , -e instructions:u true 2>&1 | grep -q '^[0-9]'; then by=perf
else echo "compile-cost: neither valgrind nor perf counts instructions here"; exit 2
fi

# count TKC WORDS..: the instructions of a compilation; nothing when it fails
count() {
    if [ $by = callgrind ]; then
        valgrind --tool=callgrind --toggle-collect=main --callgrind-out-file="$work/out" "$@" -o /dev/null \
            > "$work/log" 2>&1 || return 1
        sed -n 's/^summary: //p' "$work/out"
    else
        perf stat -x , -e instructions:u -o "$work/out" "$@" -o /dev/null > "$work/log" 2>&1 || return 1
        awk -F , '/instructions/ { print $1 }' "$work/out"
    fi
}

# file_in TREE FILE: under the path that the tree has it by
file_in() {
    local old
    if [ -f "$1/$2" ]; then printf '%s\n' "$2"; return; fi
    old=$(awk -v new="$2" '$1 !~ /^#/ && $2 == new { print $1; exit }' "$root/scripts/same-ptx.names")
    printf '%s\n' "${old:-$2}"
}

base=$("$root/scripts/same-ptx.sh" --build "$1") || exit 2
new=$("$root/scripts/same-ptx.sh" --build "${2:-}") || exit 2
worse=0
printf '%-10s %14s %14s %7s\n' "by $by" base new ratio
for input in "${inputs[@]}"; do
    read -r name file options <<< "$input"
    counts=()
    for side in "$base" "$new"; do
        tkc=${side%%$'\t'*} tree=${side#*$'\t'}
        if ! n=$(cd "$tree" && count "$tkc" "$(file_in "$tree" "$file")" $options); then
            cat "$work/log" >&2
            exit 2
        fi
        counts+=("$n")
    done
    awk -v name="$name" -v a="${counts[0]}" -v b="${counts[1]}" -v most="$most" 'BEGIN {
        worse = b > most * a
        printf("%-10s %14d %14d %7.3f%s\n", name, a, b, b / a, worse ? "  above " most : "")
        exit worse }' || worse=1
done
exit $worse
