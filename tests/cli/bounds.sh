#!/usr/bin/env bash
# bounds.sh TKC: files of many gigabytes that hold nothing are refused by their size; five lines that ask for any amount of code end soon.
tkc=$1
here=$(mktemp -d) || exit 1
trap 'rm -rf "$here"' EXIT
status=0
fails() { echo "$1"; status=1; }
refused() {                                # WHAT WORDS COMMAND..: exit status 1 and the words, within 5 s and 400 MB
    what=$1 words=$2; shift 2
    said=$(ulimit -t 5; ulimit -v 4000000; "$@" 2>&1 > /dev/null); code=$?
    [ $code = 1 ] || fails "$what: status $code"
    case $said in *"$words"*) ;; *) fails "$what: $said" ;; esac
}
for kind in tk ptx tkx; do
    truncate -s 3G "$here/sparse.$kind" || exit 0
    refused "a sparse .$kind file" "3221225472 bytes, more than the limit source-bytes allows" "$tkc" "$here/sparse.$kind"
done
truncate -s 3G "$here/sparse.onnx"
refused "a sparse model" "larger than 2 GiB" "$tkc" "$here/sparse.onnx"
echo 'import "sparse.tk";' > "$here/imports.tk"
refused "an import of it" "more than the limit source-bytes allows" "$tkc" "$here/imports.tk"

# Tiles of three axes by any number of warps, alone, in a loop, scanned, sorted, folded.
kernel() {
    echo "kernel k(x: bf16[V, C, D], idx: i32[N], y: $1, s: f32[C, D]) grid (n in N by $2) {"
    echo "let c = C by $3; let d = D by $3; $4 }"
}
try() {                                    # within 20 s of processor time: code, or E0505, or E0501
    for warps in 1 4 32; do
        said=$(ulimit -t 20; "$tkc" "$1" --with=warps=$warps -o "$here/out.ptx" 2>&1); code=$?
        [ $code = 0 ] && continue
        case $code:$said in 1:*E0505*|1:*E0501*) ;; *) fails "$2, $warps warps: status $code: $said" ;; esac
    done
}
for tile in "8 32" "65 192" "64 256" "33 1000" "1024 1024"; do
    while IFS='|' read -r name out body; do
        kernel "$out" $tile "$body" > "$here/k.tk"
        try "$here/k.tk" "$name of $tile"
    done << 'END'
copied|inout bf16[N, C, D]|y[n, c, d] = x[idx[n], c, d];
looped|out f32[N, C, D]|for r in 4 { y[n, c, d] = erf(x[idx[n] + r, c, d]); }
carried|out f32[N, C, D]|var t = zeros(n, c, d); for r in V { t += x[idx[n] + r, c, d]; } y[n, c, d] = t;
softmax|out f32[N, C, D]|for r in 4 { let t = x[idx[n] + r, c, d] as f32; let e = exp(t - max(t over d)); y[n, c, d] = e / sum(e over d); }
scanned|out f32[N, C, D]|for r in 4 { y[n, c, d] = cumsum(x[idx[n] + r, c, d] over d); }
sorted|inout bf16[N, C, D]|y[n, c, d] = sort(x[idx[n], c, d] over d);
folded|out f32[N]|for r in 4 { y[n] = sum(x[idx[n] + r, c, d] * s[c, d] over c, d); }
divided|inout bf16[N, C, D]|y[n, c, d] = (x[idx[n], c, d] / (s[c, d] + 1) + tanh(s[d, c])) as bf16;
END
done
exit $status
