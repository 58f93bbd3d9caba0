#!/usr/bin/env bash
# Runs on a GPU what test.sh runs on the emulator: kernels, recorded models, and kernels under compute-sanitizer.
#
#     ./test-gpu.sh                        everything
#     ./test-gpu.sh kernels models         parts of it: kernels, operators, models, sanitizer
#
#     TKC=build/tkc                        the compiler: the static release build, which needs nothing but the driver
#     ONNX_DATA=/usr/share/libonnx-testdata/data    ONNX's own tests, whose folder may be copied from elsewhere
#     MODELS=../shared/models              models with recorded inputs and outputs
#     JOBS=$(nproc)                        processes at once
#     DEVICE=cuda                          `emu` tries the script itself without a GPU
#
# Nothing is installed or built. What is not there is passed over, and said. Ends with `N passed, N failed, N skipped`;
# the status is 1 when something failed. The lines of what failed come before.
set -u
cd "$(dirname "$0")" || exit 1
export TKC=${TKC:-build/tkc} DEVICE=${DEVICE:-cuda}
data=${ONNX_DATA:-/usr/share/libonnx-testdata/data} models=${MODELS:-../shared/models} processes=${JOBS:-$(nproc)}
passed=0 failed=0 skipped=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

say() { printf '== %s\n' "$*"; }

# one LOG ARGUMENTS...: tkc with them; a process that ends without counts is a failure
one() {
    local log=$1 status=0
    shift
    timeout 900 "$TKC" "$@" --device="$DEVICE" >"$log" 2>&1 || status=$?
    grep -q -E '^[0-9]+ passed, [0-9]+ failed' "$log" || printf 'FAIL tkc %s: status %d, no counts\n0 passed, 1 failed, 0 skipped\n' "$*" $status >>"$log"
}

# sanitized LOG TOOL FILE: the file's tests under one of compute-sanitizer's tools
sanitized() {
    local status=0
    timeout 900 compute-sanitizer --tool "$2" --error-exitcode 9 "$TKC" test "$3" --device=cuda >"$1" 2>&1 || status=$?
    if [ $status -eq 0 ]; then echo '1 passed, 0 failed, 0 skipped' >>"$1"
    else printf 'FAIL %s of %s: status %d\n0 passed, 1 failed, 0 skipped\n' "$2" "$3" $status >>"$1"
    fi
    sed -i '/^[0-9]* passed, /{$!d}' "$1"                  # tkc's own counts
}
export -f one sanitized

# each TITLE FUNCTION KNOWN: the function with each line of arguments, several at once. KNOWN: a file whose lines begin
# with the names of folders that may fail, or nothing
each() {
    local title=$1 function=$2 known=$3 logs=$work/$1 counts start=$SECONDS
    mkdir -p "$logs"
    awk -v logs="$logs" '{ print logs "/" NR, $0 }' | xargs -P "$processes" -L 1 bash -c "$function \"\$@\"" _
    grep -h '^FAIL' "$logs"/* >"$work/failures"
    if [ -n "$known" ]; then
        sed -n 's|^\([a-z][A-Za-z0-9_]*\).*|/\1/|p' "$known" >"$work/known"
        grep -v -F -f "$work/known" "$work/failures" >"$work/surprises"
    else cp "$work/failures" "$work/surprises"
    fi
    # shellcheck disable=SC2207
    counts=($(cat "$logs"/* | awk '/^[0-9]+ passed, /{ p += $1; s += $5 } END { print p + 0, s + 0 }') $(wc -l <"$work/surprises"))
    passed=$((passed + counts[0])) skipped=$((skipped + counts[1])) failed=$((failed + counts[2]))
    cat "$work/surprises"
    say "$title: ${counts[0]} passed, ${counts[2]} failed, ${counts[1]} skipped, in $((SECONDS - start)) s"
}

# some N WORDS <names: lines of the words and N names each
some() { xargs -r -n "$1" echo "$2"; }

with_tests() { grep -l '^test ' "$@"; }

folders() { find "$@" -name test_data_set_0 -printf '%h\n' | sort; }       # of models with recorded data

kernels() { each kernels one '' < <(with_tests lang/std/*.tk examples/*.tk tests/{std,lower,found}/*.tk | some 1 test); }

operators() {
    local tests=tests/graph
    [ -d "$data/node" ] || { say "operators: there is no $data (Debian: libonnx-testdata)"; return; }
    each operators one $tests/onnx_known_emu.txt < <(folders "$data/node" | some 40 check-onnx)
    each graphs one '' < <(folders "$data"/{simple,pytorch-operator} | some 10 check-onnx)
    each converted one $tests/onnx_known_converted_emu.txt < <(folders "$data/pytorch-converted" | some 10 check-onnx)
}

models() {
    local check='check-onnx --relative-to=output' unusual=tests/graph/unusual
    each unusual one '' < <(folders $unusual tests/graph/{quantised,rotary} examples/models | some 1 "$check")
    each unusual_donated one '' < <(folders $unusual | some 1 "$check --donate")
    each unusual_bf16 one '' < <(folders $unusual | some 1 "$check --dtype=bf16 --rtol=3e-2 --atol=3e-2")
    each unusual_tf32 one '' < <(folders $unusual | some 1 "$check --dtype=tf32 --rtol=1e-2 --atol=1e-2")
    [ -d "$models" ] || { say "models: there is no $models"; return; }
    each models one '' < <(folders "$models" | some 1 "$check")
    each models_donated one '' < <(folders "$models" | some 1 "$check --donate")
    each models_bf16 one '' < <(folders "$models" | some 1 "$check --dtype=bf16 --rtol=1.5e-2")
}

sanitizer() {
    command -v compute-sanitizer >/dev/null || { say "sanitizer: there is no compute-sanitizer (of the CUDA toolkit)"; return; }
    for tool in memcheck racecheck synccheck; do
        each $tool sanitized '' < <(with_tests lang/std/*.tk tests/lower/{loops,across,rows_of_numbers,align,sequence,vectors,anywhere,crossed}.tk | some 1 $tool)
    done
}

"$TKC" --version >/dev/null || { echo "test-gpu.sh: $TKC does not run (./demo.sh builds it)" >&2; exit 2; }
[ "$DEVICE" != cuda ] || "$TKC" devices | grep -q '^cuda .*, sm_' || { printf 'test-gpu.sh: there is no GPU: %s\n' "$("$TKC" devices | head -1)" >&2; exit 2; }
for part in "${@:-kernels operators models sanitizer}"; do
    for name in $part; do
        case $name in
        kernels | operators | models | sanitizer) $name ;;
        *) echo "test-gpu.sh: there is no part $name: kernels, operators, models, sanitizer" >&2; exit 2 ;;
        esac
    done
done

printf '\n%d passed, %d failed, %d skipped\n' "$passed" "$failed" "$skipped"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
