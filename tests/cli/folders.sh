#!/usr/bin/env bash
# folders.sh TKC SOURCE: `tkc test FOLDER` where the folder has links that lead back, links to files, pipes and what is no source.
tkc=$1 source=$2
here=$(mktemp -d) || exit 1
trap 'rm -rf "$here"' EXIT
mkdir "$here/in" "$here/.hidden"
cp "$source" "$here/a.tk"
cp "$source" "$here/in/b.tk"
cp "$source" "$here/.hidden/c.tk"
ln -s a.tk "$here/link.tk"
ln -s . "$here/self"
ln -s .. "$here/in/up"
mkfifo "$here/pipe.tk"
echo 'no source' > "$here/notes.txt"
one=$("$tkc" test "$source" --device=eval | tail -1)
all=$(timeout 60 "$tkc" test "$here" --device=eval | tail -1)
wanted=$((3 * ${one%% *}))
[ "${one%% *}" -gt 0 ] && [ "$all" = "$wanted passed, 0 failed, 0 skipped" ] || { echo "$one; three of it: $all"; exit 1; }
