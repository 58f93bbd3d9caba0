#!/usr/bin/env bash
# run_line.sh ROOT: what demo.sh takes of a file's comment: words, never commands, and no file.
. "$1/scripts/run_line.sh"
here=$(mktemp -d) || exit 1
trap 'rm -rf "$here"' EXIT
cd "$here" || exit 1
status=0
takes() {                                      # LINE WANTED
    local words
    printf '// A kernel.\n//     tkc run x.tk %s\n// tkc run second\n' "$1" > x.tk
    run_words words x.tk 2> said
    local got=""
    for word in "${words[@]}"; do got="$got<$word>"; done
    [ "$got" = "$2" ] || { echo "$1: $got, not $2"; status=1; }
    [ "$(ls)" = "$(printf 'said\nx.tk')" ] || { echo "$1: left $(ls)"; status=1; rm -rf -- *; }
}
takes "--kernel=k x=random:f32[3,10] 'label=randint(0,10):i64[3]' eps=1e-5 k=-1" "<--kernel=k><x=random:f32[3,10]><label=randint(0,10):i64[3]><eps=1e-5><k=-1>"
takes '--set D=16 "x=iota(0,3):i32[3]" --random-weights --graph=g' "<--set><D=16><x=iota(0,3):i32[3]><--random-weights><--graph=g>"
takes 'x=ones:f32[]' "<x=ones:f32[]>"
for line in '$(touch bad)' '`touch bad`' '"$(touch bad)"' 'x=1; touch bad' 'x=1 && touch bad' 'x=1 | tee bad' '> bad' 'x=${HOME}' 'x=~' '*' \
            'x=$((1+1))' "x='1" 'x=1 --save=x=bad.npy' '--save x=bad.npy' 'y=bad.npy' 'x=/etc/passwd' '-o bad' '--trace=bad' '--device=cuda' 'words[$(touch bad)]=1' \
            '--set -o' 'x=random:f32[$(touch bad)]' 'x=<(touch bad)'; do
    takes "$line" ""
done
for file in "$1"/examples/*.tk; do               # those of the examples are taken as they stand
    run_words words "$file" 2> said
    [ -s said ] && { cat said; status=1; }
done
printf 'a\033[31mb\177c\302\233d\te\303\251\n' | printable | cmp -s - <(printf 'a[31mbc?d\te\303\251\n') || { echo "escapes are printed"; status=1; }
grep -n 'eval ' "$1/demo.sh" "$1/scripts/run_line.sh" && { echo "something is evaluated"; status=1; }
exit $status
