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

as_root() { if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo "$@"; fi; }

# Whether as_root can do anything: asked first, as what comes later goes to a log.
may_install() { [ "$(id -u)" -eq 0 ] || { have sudo && { [ -t 0 ] || sudo -n true 2>/dev/null; }; }; }

installed() { [ "$(dpkg-query -W -f '${Status}' "$1" 2>/dev/null)" = "install ok installed" ]; }

apt_install() {
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends -q "${missing[@]}"
}

# The steps of apt and ninja, with the seconds since the first: on a terminal in one line that is written anew, else a line
# at most every ${setup_every:-15} seconds.
show_steps() {
    local line step count start=$SECONDS next=0 columns=80
    if [ -t 1 ]; then columns=$(tput cols 2>/dev/null || echo 80); fi
    while IFS= read -r line || [ -n "$line" ]; do
        case $line in
            '['*/*'] '*)
                count=${line%%]*} step=${line#*] }
                count=${count#[} step=${step##*/}
                step="step ${count/\// of }: ${step%.o}" ;;
            Get:* | Unpacking\ * | Setting\ up\ *) step=${line%% (*} ;;
            *) continue ;;
        esac
        if [ -t 1 ]; then
            printf '\r\033[K%.*s' "$((columns - 1))" "   $((SECONDS - start)) s, $step"
        elif [ $((SECONDS - start)) -ge $next ]; then
            printf '   %d s, %s\n' $((SECONDS - start)) "$step"
            next=$((SECONDS - start + ${setup_every:-15}))
        fi
    done
    if [ -t 1 ]; then printf '\r\033[K'; fi
}

# logged FILE COMMAND...: its output is added to the file, its steps are shown
logged() {
    local file=$1
    shift
    "$@" 2>&1 | tee -a "$file" | show_steps
    return "${PIPESTATUS[0]}"
}

# watched COMMAND...: its steps as they come, and what it said when it fails
watched() {
    local log status=0
    log=$(mktemp)
    logged "$log" "$@" || status=$?
    [ $status -eq 0 ] || { grep -E 'error|Error|warning: unused|FAILED|undefined' "$log" | head -40 >&2; tail -20 "$log" >&2; }
    rm -f "$log"
    return $status
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
    may_install || die "these need to be installed, and neither root nor sudo is at hand: ${missing[*]}"
    as_root true || die "sudo refused"             # asks for the password, if it does
    say "installing ${#missing[@]} packages (of LLVM some hundred MB): ${missing[*]}"
    log=$(mktemp)
    if ! logged "$log" apt_install; then            # no lists yet, or old ones
        say "refreshing the package lists"
        as_root apt-get update -qq >>"$log" 2>&1 || true
        if ! logged "$log" apt_install; then
            tail -20 "$log" >&2
            grep -q llvm-22 "$log" && echo "llvm-22 comes from Debian's own bookworm-security: is it in the sources?" >&2
            die "apt-get could not install what is missing"
        fi
    fi
    rm -f "$log"
}

# setup_build PRESET FOLDER ARGUMENTS...: configured, with ${setup_options[@]} besides, then built
setup_build() {
    local preset=$1 folder=$2 start=$SECONDS
    shift 2
    say "building $folder (preset $preset) on $(jobs) cores: some minutes the first time"
    watched cmake --preset "$preset" ${setup_options[@]+"${setup_options[@]}"} || die "cmake could not configure $folder"
    watched cmake --build "$folder" -j "$(jobs)" "$@" || die "the build of $folder failed"
    say "built in $((SECONDS - start)) s"
}
