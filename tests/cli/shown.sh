#!/usr/bin/env bash
# shown.sh TKC: a model, sources, tensors and PTX whose names would command a terminal, or are 100,000 letters long. Nothing that is
# printed for people has a control character in it, or a word that nobody reads; programs keep what they need.
tkc=$1
here=$(mktemp -d) || exit 1
trap 'rm -rf "$here"' EXIT
cd "$here" || exit 1
status=0
export TKC_CACHE=off

# ---- models, byte by byte: a varint, a field of bytes, a field that is a number
vi() { local n=$1; while ((n > 127)); do printf "\\x$(printf %02x $((n & 127 | 128)))"; n=$((n >> 7)); done; printf "\\x$(printf %02x "$n")"; }
bytes() { vi $(($1 << 3 | 2)); vi "$(stat -c %s "$2")"; cat "$2"; }
text() { printf '%s' "$2" > text.part; bytes "$1" text.part; }
number() { vi $(($1 << 3)); vi "$2"; }
value() {                                      # FILE NAME: f32[2, DIM]
    number 1 2 > dim.part; { bytes 1 dim.part; text 2 "$3" > named.part; bytes 1 named.part; } > shape.part
    { number 1 1; bytes 2 shape.part; } > tensor.part
    bytes 1 tensor.part > type.part
    { text 1 "$2"; bytes 2 type.part; } > "$1"
}
model() {                                      # FILE NAME: every name in it begins with NAME; the rest: attribute's text, operator
    value in.part "$2_x" "$2_d"; value out.part "$2_y" "$2_d"
    { text 1 "${2}_attr"; text 4 "$3"; number 20 3; } > attr.part
    { text 1 "$2_x"; text 2 "$2_y"; text 3 "$2_node"; text 4 "$4"; [ -z "$3" ] || bytes 5 attr.part; } > node.part
    { bytes 1 node.part; text 2 "$2_graph"; bytes 11 in.part; bytes 12 out.part; } > graph.part
    { text 1 ""; number 2 17; } > opset.part
    { number 1 8; text 2 "$2_producer"; bytes 7 graph.part; bytes 8 opset.part; } > "$1"
    rm -f -- *.part
}
esc=$'\033[31mred\033]0;title\007'
c1=$'c1\302\2331mX'
bidi=$'a\342\200\256b'
line=$'two\nlines'
long=$(head -c 100000 /dev/zero | tr '\0' q)

# Runs it, and looks at all that it says. CODE: 1 where the text is a program, which may hold long names.
clean() {                                      # CODE command...
    local code=$1; shift
    timeout 60 "$@" > said 2>&1 < /dev/null
    local rc=$?
    if [ $rc -gt 2 ]; then echo "${*:0:4}: status $rc"; status=1; fi
    [ -s said ] || { echo "${*:0:4}: nothing was said"; status=1; }
    if LC_ALL=C grep -q $'[\001-\010\013-\037\177]\|\302[\200-\237]\|\342\200[\250-\256]' said; then
        echo "${*:0:4}: a control character"; LC_ALL=C grep -m2 $'[\001-\010\013-\037\177]\|\302[\200-\237]\|\342\200[\250-\256]' said | cat -v | cut -c1-200; status=1
    fi
    [ "$code" = 1 ] || ! grep -qE '[^ ]{2000}' said || { echo "${*:0:4}: a word of $(grep -oE '[^ ]{2000,}' said | head -1 | wc -c) letters"; status=1; }
}
i=0
for name in "$esc" "$c1" "$bidi" "$line" "$long"; do
    i=$((i + 1))
    model "m$i.onnx" "$name" "" Relu           # a good one
    model "a$i.onnx" n "$name" Relu            # an attribute's text
    model "o$i.onnx" "$name" "" "$name"        # an operator that there is not
    for file in m a o; do
        clean 0 "$tkc" "$file$i.onnx" --emit=graph
        clean 0 "$tkc" "$file$i.onnx" --emit=fusion
        clean 0 "$tkc" run "$file$i.onnx" --device=ref
        clean 0 "$tkc" run "$file$i.onnx" --device=ref nothing=1
    done
    [ "$name" = "$long" ] && continue          # no argument of a command
    clean 0 "$tkc" "m$i.onnx" --emit=tk
    clean 0 "$tkc" run "m$i.onnx" --device=ref "${name}_x=ones:f32[2,3]"
    clean 0 "$tkc" run "m$i.onnx" --device=eval "${name}_x=ones:f32[2,3]"
    clean 0 "$tkc" run "m$i.onnx" --device=eval "${name}_x=ones:f32[2,3]" --profile
    clean 0 "$tkc" diff "m$i.onnx" --device=eval "${name}_x=ones:f32[2,3]"
    mkdir -p "f/$name" && cp "m$i.onnx" "f/$name/model.onnx" && clean 0 "$tkc" check-onnx f --device=ref
    clean 0 "$tkc" "$name.tk"                  # a file's name
    clean 0 "$tkc" "$name.tk" --diag=json
    clean 0 "$tkc" "--$name"
    clean 0 "$tkc" "$name" x
    printf 'kernel k(x: f32[N], y: out f32[N]) grid (n in N by 32) { y[n] = x[n] + unknown; }\n' > "$name.tk"
    for form in rich short json; do clean 0 "$tkc" "$name.tk" --diag=$form; done
    clean 0 "$tkc" test "$name.tk" --device=eval
    printf 'kernel k(x: f32[N], y: out f32[N]) where N %% 4 == 0 grid (n in N by 32) { y[n] = x[n]; }\ntest "t" { let r = k(x = ones<f32>(8)); expect r.y == 2.0; }\n' > "$name.tk"
    clean 1 "$tkc" "$name.tk"
    grep -vqE $'^(//|\\.|[ \t]|\\$|[{}()]|@|$)' said && { echo "a path breaks a line of PTX"; status=1; }
    clean 0 "$tkc" "$name.tk" --emit=report
    clean 0 "$tkc" test "$name.tk" --device=eval
    clean 0 "$tkc" run "$name.tk" --device=eval x=ones:f32[3]
    clean 0 "$tkc" run "$name.tk" --device=eval "x=$name.npy"
done
for name in "$esc" "$c1" "$bidi" "$long"; do   # within a source
    printf 'kernel k(x: f32[N], y: out f32[N]) grid (n in N by 32) { assert(x[n] > 2.0, "%s"); print("%s", x[n]); y[n] = x[n] + %s; }\n' "$name" "$name" "$name" > s.tk
    for form in rich short json; do clean 0 "$tkc" s.tk --diag=$form; done
    for stage in tokens ast; do clean 0 "$tkc" s.tk --emit=$stage; done
    printf 'import "%s";\nkernel k(x: f32[N], y: out f32[N]) grid (n in N by 32) { assert(x[n] > 2.0, "%s"); print("%s", x[n]); y[n] = x[n]; }\ntest "%s" { let r = k(x = ones<f32>(8)); }\n' "$name" "$name" "$name" "$name" > t.tk
    clean 0 "$tkc" t.tk
    sed -i 1d t.tk
    for device in eval emu; do
        clean 0 "$tkc" run t.tk --device=$device x=ones:f32[3]
        clean 0 "$tkc" test t.tk --device=$device
    done
    printf '.version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 p) { %s; ret; }\n' "$name" > p.ptx
    clean 0 "$tkc" p.ptx
    clean 0 "$tkc" run p.ptx --grid=1 --block=32 zeros:f32[4]
    printf '// tk: kernel k entry k\n// tk: param %s\n.version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 p) { ret; }\n' "$name" > h.ptx
    clean 0 "$tkc" run h.ptx zeros:f32[4]
    printf '\223NUMPY\001\000\166\000{"descr": "%s", "fortran_order": False, "shape": (3,), }' "${name:0:60}" > n.npy
    clean 0 "$tkc" run t.tk --device=eval x=n.npy
done
exit $status
