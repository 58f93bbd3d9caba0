#!/usr/bin/env bash
# written.sh TKC SOURCE MODEL: what happens to a file that is written again: its mode, links that lead to it, pipes, what it must not lose.
tkc=$1 source=$2 model=$3
here=$(mktemp -d) || exit 1
trap 'rm -rf "$here"' EXIT
cd "$here" || exit 1
umask 022
status=0
fail() { echo "$1"; status=1; }
emit() { "$tkc" "$source" --emit=ast "$@"; }
emit -o right || exit 1
holds() { cmp -s right "$1" || fail "$1 does not hold the result"; }
mode() { [ "$(stat -c %a "$1")" = "$2" ] || fail "$1 has mode $(stat -c %a "$1"), not $2"; }

mode right 644
echo old > kept; chmod 640 kept
emit -o kept; holds kept; mode kept 640
echo old > run; chmod 755 run
emit -o run; holds run; mode run 755

mkdir in
echo old > in/target; chmod 600 in/target
ln -s in/target link; ln -s "$here/link" chain; ln -s in/new dangling; ln -s loop loop
emit -o link; holds in/target; mode in/target 600
[ -L link ] || fail "a link became a file"
echo old > in/target
emit -o chain; holds in/target
[ -L chain ] && [ -L link ] || fail "a link of a chain became a file"
emit -o dangling; holds in/new; [ -L dangling ] || fail "a dangling link became a file"
emit -o loop 2> said && fail "a link to itself was written"
grep -q 'loop: Too many levels of symbolic links' said || fail "of a link to itself: $(cat said)"

if [ "$(id -u)" != 0 ]; then
    echo old > protected; chmod 444 protected
    emit -o protected 2> said && fail "a protected file was written"
    [ "$(cat protected)" = old ] || fail "a protected file lost what it held"
fi
mkdir folder
emit -o folder 2> said && fail "a folder was written"
emit -o no/such 2> said && fail "a file in no folder was written"

# what is no regular file is written in place
mkfifo pipe
cat pipe > piped & emit -o pipe; wait $!
holds piped; [ -p pipe ] || fail "a pipe became a file"
emit -o /dev/stdout > through; holds through
emit -o /dev/fd/3 3> third; holds third
emit -o /proc/self/fd/1 > own; holds own
echo first > more; emit -o /dev/stdout >> more
{ echo first; cat right; } | cmp -s - more || fail "/dev/stdout that appends did not append"
[ -e /dev/full ] && emit -o /dev/full 2> said && fail "a full device was written"

# a tensor as .pb and as .npy is replaced as a whole, too
for end in pb npy; do
    echo old > "y.$end"; chmod 640 "y.$end"; ln -s "y.$end" "z.$end"
    "$tkc" run "$model" --device=ref x=ones:f32[2,3] "y=z.$end" > said 2>&1 || fail "$end: $(cat said)"
    [ -L "z.$end" ] || fail "z.$end is no link any more"
    mode "y.$end" 640
    grep -q old "y.$end" && fail "y.$end was not written"
    (ulimit -f 0; "$tkc" run "$model" --device=ref x=ones:f32[2,3] "y=y.$end" > said 2>&1) && fail "y.$end was written beyond the limit"
    [ -s "y.$end" ] || fail "y.$end was lost by a write that failed"
done
left=$(find . -name '*.??????' -newer right | grep -E '\.[A-Za-z0-9]{6}$')
[ -z "$left" ] || fail "left behind: $left"
exit $status
