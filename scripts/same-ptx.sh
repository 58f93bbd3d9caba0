#!/usr/bin/env bash
# Do two compilers generate the same code? Each compiles its own sources; kernels are paired by name,
# through a rename table.
#
#     scripts/same-ptx.sh BASE              the commit BASE against this checkout, built in build-dev
#     scripts/same-ptx.sh BASE NEW          two commits, or build folders with a tkc and their source trees
#     scripts/same-ptx.sh --build COMMIT    build it, if need be; print its tkc and its tree ("": this checkout)
#
#     -j N               processes at once (default: all processors)
#     --expected FILE    differences that are intended, as patterns; nothing else may differ
#     --names FILE       the rename table (default: scripts/same-ptx.names of NEW)
#     --archs=A,B        targets (default: sm_80,sm_90a)
#     --only=PATTERN     cases that match, as in FILE
#     --details=FILE     where every difference is written whole (default: differences.txt in the folder below)
#
# Compiled are every .tk file of the tree (kernel by kernel, default sizes, with and without assumptions),
# the options of the rows in tests/, the shapes of the cost tests, and each ONNX model of the tree and of
# $TK_MODELS, as a program and as the program's PTX. scripts/same_ptx.py says how that is compared. Exit
# status: 0 the same, 1 something differs, 2 no comparison.
#
#     TK_SAME_PTX=FOLDER           keeps trees, builds and PTX of commits (default: build-dev/same-ptx)
#     TK_SAME_PTX_PRESET=release   the preset of the builds (default: dev)
#     TK_MODELS=FOLDER             models outside the tree (default: ../shared/models, where that is)
set -u
root=$(cd "$(dirname "$0")/.." && pwd)
cache=${TK_SAME_PTX:-$root/build-dev/same-ptx} preset=${TK_SAME_PTX_PRESET:-dev}
jobs=$(nproc) options=() sides=() only_build=

usage() { sed -n '2,/^set -u/{/^#/!d;s/^# \{0,1\}//;p}' "$0"; exit "$1"; }
fail() { printf 'same-ptx: %s\n' "$*" >&2; exit 2; }

# build TREE FOLDER: make its tkc by the preset; the log is shown when that fails
build() {
    local tree=$1 folder=$2 launcher=()
    mkdir -p "$folder" || fail "$folder cannot be made"
    command -v ccache > /dev/null && launcher=(-DCMAKE_C_COMPILER_LAUNCHER=ccache)
    if ! (cd "$tree" && cmake --preset "$preset" -B "$folder" "${launcher[@]}" &&
        cmake --build "$folder" -j "$jobs" --target tkc) > "$folder/same-ptx.log" 2>&1; then
        tail -20 "$folder/same-ptx.log" >&2
        fail "$tree cannot be built"
    fi
}

# side WHAT: "tkc tree folder name" of a build folder, a commit, or "" for this checkout, a tab between them
side() {
    local what=$1 commit tree folder
    if [ -f "$what/CMakeCache.txt" ]; then
        folder=$(cd "$what" && pwd)
        tree=$(sed -n 's/^CMAKE_HOME_DIRECTORY:INTERNAL=//p' "$folder/CMakeCache.txt")
        [ -x "$folder/tkc" ] || fail "$what holds no tkc"
        printf '%s\t%s\t%s\t\n' "$folder/tkc" "$tree" "$folder"
        return
    fi
    if [ -z "$what" ]; then
        tree=$root folder=$root/build-dev
        [ "$preset" = dev ] || folder=$cache/here-$preset
        build "$tree" "$folder"
        printf '%s\t%s\t%s\t\n' "$folder/tkc" "$tree" "$folder"
        return
    fi
    commit=$(git -C "$root" rev-parse --verify --quiet "$what^{commit}") ||
        fail "$what is neither a commit nor a build folder"
    tree=$cache/trees/${commit:0:12} folder=$tree/build-$preset
    exec 9> "$cache/lock" && flock 9                 # of this subshell: two runs may want one tree
    if [ ! -f "$tree/CMakeLists.txt" ]; then
        git -C "$root" worktree prune
        git -C "$root" worktree add --quiet --force --detach "$tree" "$commit" ||
            fail "no worktree of $what in $cache"
    fi
    if [ ! -x "$folder/tkc" ] || [ ! -f "$folder/same-ptx.built" ]; then
        build "$tree" "$folder" && touch "$folder/same-ptx.built"
    fi
    printf '%s\t%s\t%s\t%s\n' "$folder/tkc" "$tree" "$folder" "$commit"
}

while [ $# -gt 0 ]; do
    case $1 in
        -j) jobs=${2:?-j needs a number}; shift ;;
        -j*) jobs=${1#-j} ;;
        --expected | --names | --archs | --only | --details) options+=("$1=${2:?$1 needs a value}"); shift ;;
        --expected=* | --names=* | --archs=* | --only=* | --details=*) options+=("$1") ;;
        --build) only_build=yes ;;
        -h | --help) usage 0 ;;
        -*) fail "unknown option $1 (--help)" ;;
        *) sides+=("$1") ;;
    esac
    shift
done
[ ${#sides[@]} -ge 1 ] && [ ${#sides[@]} -le 2 ] || usage 2 >&2
command -v python3 > /dev/null || fail "python3 is needed"
mkdir -p "$cache" && cache=$(cd "$cache" && pwd) || fail "$cache cannot be made"

if [ -n "$only_build" ]; then
    base=$(side "${sides[0]}") || exit 2
    cut -f 1,2 <<< "$base"
    exit
fi
base=$(side "${sides[0]}") || exit 2
new=$(side "${sides[1]:-}") || exit 2
models=${TK_MODELS:-$root/../shared/models}
[ -d "$models" ] && models=$(cd "$models" && pwd) || models=
export TKC_CACHE=off
python3 "$root/scripts/same_ptx.py" --base "$base" --new "$new" --cache "$cache" --models "$models" \
    --jobs "$jobs" "${options[@]}"
status=$?

# What commits between the two say of code that they change.
ends=()
for one in "$base" "$new"; do
    commit=$(cut -f 4 <<< "$one")
    ends+=("${commit:-$(git -C "$(cut -f 2 <<< "$one")" rev-parse HEAD)}")
done
git -C "$root" log --reverse --format='%h %s%n%(trailers:key=Changes-code,unfold)' "${ends[0]}..${ends[1]}" |
    awk '/^Changes-code:/ { if (head != "") print head; head = ""; print "    " $0; next } NF { head = $0 }'
exit $status
