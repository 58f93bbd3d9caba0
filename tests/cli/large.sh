#!/usr/bin/env bash
# large.sh TKC: programs that are long in one way each (statements, loops, branches, stores, calls) compile in time that follows their length.
tkc=$1
here=$(mktemp -d) || exit 1
trap 'rm -rf "$here"' EXIT
most=15                                  # seconds of processor time, some ten times what each takes

head='kernel k(x: f32[N], s: i32, y: inout f32[N]) grid (n in N by 256) { var t = x[n];'
lines() { for ((i = 0; i < $1; i++)); do echo "${2//@/$i}"; done; }
program() {
    case $1 in
    statements) echo "$head"; lines 4000 't = t * x[n + 3] + @.5;'; echo 'y[n] = t; }' ;;
    loads)      echo "$head"; lines 1000 't = t * x[n + @] + @.5;'; echo 'y[n] = t; }' ;;
    stores)     echo "$head"; lines 1000 'y[n] = y[n + @] + t;'; echo '}' ;;
    branches)   echo "$head"; lines 1000 'if s > @ { t += x[n + @]; }'; echo 'y[n] = t; }' ;;
    loops)      echo 'kernel k(x: f32[N, D], y: out f32[N]) grid (n in N by 4) { var t = zeros(n);'
                lines 300 'for d in D by 128 { t += sum(x[n + @, d] over d); }'; echo 'y[n] = t; }' ;;
    calls)      echo 'fn f0(x) = x * 1.5;'
                lines 5 'fn f@_(x) = f@(f@(f@(f@(x + 1))));' | sed 's/f4_/g/; s/f3_/f4/; s/f2_/f3/; s/f1_/f2/; s/f0_/f1/'
                echo 'kernel k(x: f32[N], y: out f32[N]) grid (n in N by 256) { y[n] = g(x[n]); }' ;;
    esac
}
status=0
for kind in statements loads stores branches loops calls; do
    program $kind > "$here/$kind.tk"
    for arch in sm_80 sm_90a; do
        (ulimit -t $most; "$tkc" "$here/$kind.tk" --arch=$arch -o "$here/out.ptx" 2> "$here/words") && [ -s "$here/out.ptx" ] && continue
        echo "$kind, $arch: status $?"; head -5 "$here/words"; status=1
    done
done
exit $status
