# shellcheck shell=bash
# Sourced by demo.sh and test.sh: says things, finds what is missing, installs it.
#
#     . scripts/setup.sh
#     setup_packages             what the build needs, through apt, only if something is missing
#     setup_build release build  build/tkc, the static release build
#
# On a Debian 12 system with root or sudo nothing has to be there but git. On other systems the
# programs are looked for, and what is missing is named.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root" || exit 1

say()  { printf '== %s\n' "$*"; }
die()  { printf '%s: %s\n' "$(basename "$0")" "$*" >&2; exit 1; }
have() { command -v "$1" >/dev/null 2>&1; }
jobs() { nproc 2>/dev/null || echo 2; }

packages=(cmake ninja-build gcc libc6-dev libstdc++-12-dev pkg-config re2c lemon
          protobuf-c-compiler libprotobuf-c-dev libonnx-testdata libonnx-dev
          llvm-22-dev llvm-22-tools lld-22 clang-22 libclang-rt-22-dev libcmocka-dev libzstd-dev zlib1g-dev)

as_root() {
    if [ "$(id -u)" -eq 0 ]; then "$@"
    elif have sudo && { [ -t 0 ] || sudo -n true 2>/dev/null; }; then sudo "$@"
    else die "these need to be installed, and neither root nor sudo is at hand: ${missing[*]}"
    fi
}

installed() { [ "$(dpkg-query -W -f '${Status}' "$1" 2>/dev/null)" = "install ok installed" ]; }

apt_install() {
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends -qq "${missing[@]}"
}

setup_packages() {
    if ! have apt-get; then
        missing=()
        for program in cmake ninja cc pkg-config re2c lemon protoc-c; do have "$program" || missing+=("$program"); done
        [ ${#missing[@]} -eq 0 ] || die "this is no Debian, and these are missing: ${missing[*]}"
        return
    fi
    missing=()
    for package in "${packages[@]}"; do installed "$package" || missing+=("$package"); done
    [ ${#missing[@]} -gt 0 ] || return 0
    say "installing ${missing[*]}"
    log=$(mktemp)
    if ! apt_install >"$log" 2>&1; then            # no lists yet, or old ones
        say "refreshing the package lists"
        as_root apt-get update -qq >>"$log" 2>&1 || true
        if ! apt_install >>"$log" 2>&1; then
            tail -20 "$log" >&2
            grep -q llvm-22 "$log" && echo "llvm-22 comes from Debian's own bookworm-security: is it in the sources?" >&2
            die "apt-get could not install what is missing"
        fi
    fi
    rm -f "$log"
}

# quietly COMMAND...: its output only when it fails
quietly() {
    local log status=0
    log=$(mktemp)
    "$@" >"$log" 2>&1 || status=$?
    [ $status -eq 0 ] || { grep -E 'error|Error|warning: unused|FAILED|undefined' "$log" | head -40 >&2; tail -20 "$log" >&2; }
    rm -f "$log"
    return $status
}

# setup_build PRESET FOLDER ARGUMENTS...: configured, with ${setup_options[@]} besides, then built
setup_build() {
    local preset=$1 folder=$2 start=$SECONDS
    shift 2
    say "building $folder (preset $preset)"
    quietly cmake --preset "$preset" ${setup_options[@]+"${setup_options[@]}"} || die "cmake could not configure $folder"
    quietly cmake --build "$folder" -j "$(jobs)" "$@" || die "the build of $folder failed"
    say "built in $((SECONDS - start)) s"
}
