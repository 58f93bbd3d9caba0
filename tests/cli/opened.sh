#!/usr/bin/env bash
# opened.sh TKC SOURCE MODEL: what is opened for reading. A user may name a pipe; what a file names, or what has to be mapped, is a
# regular file, and nothing is waited for. Everything here ends within seconds and says what is wrong.
tkc=$1 source=$2 model=$3
here=$(mktemp -d) || exit 1
trap 'rm -rf "$here"' EXIT
cd "$here" || exit 1
status=0
fail() { echo "$1"; status=1; }
mkfifo pipe pipe.tk pipe.onnx pipe.npy pipe.pb pipe.npz
mkdir folder.onnx folder.npy folder.tk
refused() {                                    # WORDS command...
    local words=$1; shift
    timeout 20 "$@" > said 2>&1 < /dev/null
    local rc=$?
    [ $rc = 1 ] || fail "$*: status $rc"
    grep -qF "$words" said || fail "$*: $(cat said)"
}
copy='kernel copy(x: f32[N], y: out f32[N]) grid (n in N by 32) { y[n] = x[n]; }'
for name in pipe.tk /dev/zero; do
    printf 'import "%s";\n%s\n' $name "$copy" > imports.tk
    refused "not a regular file" "$tkc" imports.tk
done
printf 'import "folder.tk";\n%s\n' "$copy" > imports.tk
refused "Is a directory" "$tkc" imports.tk
for name in pipe /dev/zero; do
    ln -sf $name link.onnx; ln -sf $name link.npy; ln -sf $name link.pb
    refused "not a regular file" "$tkc" link.onnx
    refused "not a regular file" "$tkc" run "$source" --device=eval a=2 x=link.npy
    refused "not a regular file" "$tkc" run "$model" --device=ref x=link.pb
    refused "not a regular file" "$tkc" run "$model" --device=ref x=link.npy
done
for name in pipe.onnx pipe.npz; do
    printf 'graph g(x: f32[N]) -> (y: f32[N]) { weights "%s"; let w: f32[4] = weight("w"); y = copy(w); }\n%s\n' $name "$copy" > weights.tk
    refused "not a regular file" "$tkc" run weights.tk --device=eval x=ones:f32[4]
done
refused "Is a directory" "$tkc" folder.onnx
refused "Is a directory" "$tkc" run "$source" --device=eval a=2 x=folder.npy

"$tkc" "$source" --emit=ast > right || exit 1
"$tkc" - --emit=ast < "$source" | cmp -s right || fail "standard input is not read"
cat "$source" | "$tkc" /dev/stdin --emit=ast | cmp -s right || fail "/dev/stdin is not read"
"$tkc" <(cat "$source") --emit=ast | cmp -s right || fail "a pipe that a user names is not read"
cat "$source" > pipe & timeout 20 "$tkc" pipe --emit=ast | cmp -s right || fail "a named pipe is not read"
exit $status
