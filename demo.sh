#!/usr/bin/env bash
# Installs what is missing, builds build/tkc, and shows what it does: for a few examples the source, the
# PTX, a run and the check, on the best device there is (the emulator when there is no GPU).
#
#     ./demo.sh                      the usual examples
#     ./demo.sh examples/softmax.tk  these
set -u
. "$(dirname "$0")/scripts/setup.sh"
. "$(dirname "$0")/scripts/run_line.sh"

usual=(vector_add softmax matmul attention)

# The heart of the PTX: from the first global load, or from the entry.
ptx_excerpt() {
    local first
    first=$(grep -n -m1 -E '^\s*(@%?p[0-9]* )?(ld\.global|cp\.async)' "$1" | cut -d: -f1)
    [ -n "$first" ] || first=$(grep -n -m1 '\.entry' "$1" | cut -d: -f1)
    sed -n "${first:-1},$((${first:-1} + 11))p" "$1"
}

show() {
    local file=$1 name ptx start status=0
    name=$(basename "$file" .tk)
    ptx=$(mktemp)
    printf '\n================ %s\n\n' "$file" | printable
    printable <"$file"
    start=$(date +%s%N)
    build/tkc "$file" --emit=ptx -o "$ptx" || { rm -f "$ptx"; return 1; }
    printf '\n---------------- PTX, made in %d ms (%d lines)\n\n' $((($(date +%s%N) - start) / 1000000)) "$(wc -l <"$ptx")"
    ptx_excerpt "$ptx"
    rm -f "$ptx"
    local words
    run_words words "$file"
    if [ ${#words[@]} -gt 0 ]; then
        printf '\n---------------- tkc run %s %s\n\n' "$file" "${words[*]}"
        build/tkc run --device="$device" "$file" "${words[@]}" || status=1
    fi
    printf '\n---------------- check: tkc test %s --device=%s\n\n' "$file" "$device"
    build/tkc test "$file" --device="$device" || status=1
    return $status
}

setup_packages
setup_build release build --target tkc
say "build/tkc: $(build/tkc --version), $(($(stat -c %s build/tkc) / 1000000)) MB"
build/tkc devices
# A GPU is described; where there is none, the line says why: "cuda   cuda: no NVIDIA driver".
if build/tkc devices | grep '^cuda ' | grep -q -v 'cuda: '; then device=cuda; else device=emu; fi
say "running on $device"

files=("$@")
if [ ${#files[@]} -eq 0 ]; then
    for name in "${usual[@]}"; do [ -f "examples/$name.tk" ] && files+=("examples/$name.tk"); done
fi
[ ${#files[@]} -gt 0 ] || die "there are no examples"

failed=()
for file in "${files[@]}"; do
    [ -f "$file" ] || die "$file: no such file"
    case $file in -*) file=./$file ;; esac             # no option
    show "$file" || failed+=("$file")
done
printf '\n'
[ ${#failed[@]} -eq 0 ] || die "failed: ${failed[*]}"
say "all ${#files[@]} examples agree with their tests on $device"
