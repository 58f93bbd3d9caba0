#!/usr/bin/env bash
# setup_steps.sh ROOT: while demo.sh and test.sh install and build they say how far they are, and what was wrong in the end.
. "$1/scripts/setup.sh"
status=0
setup_every=0

steps() {
    echo "Get:1 http://deb.debian.org/debian bookworm/main amd64 re2c amd64 3.0-2 [452 kB]"
    echo "Setting up re2c (3.0-2) ..."
    echo "[1/12] Generating tokens.c"
    echo "[2/12] Building C object lower/CMakeFiles/lower.dir/pass/peel.c.o"
    echo "ninja: noise"
    printf '[12/12] Linking C executable bin/tkc'
}
fails() { steps; echo; echo "peel.c:3: error: what is wrong" >&2; return 7; }

# expect WHAT GOT WANTED
expect() {
    [ "$2" = "$3" ] || { printf '%s:\n%s\nwanted:\n%s\n' "$1" "$2" "$3"; status=1; }
}

shown=$(watched steps | sed 's/^ *[0-9]* s, //')
expect "steps" "$shown" "Get:1 http://deb.debian.org/debian bookworm/main amd64 re2c amd64 3.0-2 [452 kB]
Setting up re2c
step 1 of 12: Generating tokens.c
step 2 of 12: peel.c
step 12 of 12: tkc"

setup_every=100
expect "one line in so many seconds" "$(watched steps | wc -l | tr -d ' ')" "1"

said=$(watched fails 2>&1 >/dev/null)
expect "the status of what fails" "$(watched fails >/dev/null 2>&1; echo $?)" "7"

case $said in *"error: what is wrong"*) ;; *) echo "the error is not shown: $said"; status=1 ;; esac
expect "nothing but steps of what succeeds" "$(watched steps 2>&1 >/dev/null)" ""
# Without root or sudo it says so, and installs nothing.
if have apt-get; then
    said=$(may_install() { false; }; packages=(no-such-package); setup_packages 2>&1)
    expect "no root" "${said#*: }" "these need to be installed, and neither root nor sudo is at hand: no-such-package"
fi
[ $status -eq 0 ] && echo fine
exit $status
