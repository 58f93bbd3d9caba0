#!/usr/bin/env bash
# ptx_head.sh TKC SOURCE: PTX whose head and code say different things of the machine parameters: whoever launches it would read or
# write past them. Refused with words, on whatever side it was edited.
tkc=$1 source=$2
here=$(mktemp -d) || exit 1
trap 'rm -rf "$here"' EXIT
cd "$here" || exit 1
status=0
"$tkc" "$source" --general -o good.ptx || exit 1
run() { timeout 60 "$tkc" run "$1" --device=emu x=iota:f32[10] y=ones:f32[10] > said 2>&1; }
run good.ptx || { cat said; exit 1; }
last=$(grep -c '^// tk: slot' good.ptx)
refused() {                                    # WORDS SED-SCRIPT
    sed "$2" good.ptx > bad.ptx
    cmp -s good.ptx bad.ptx && { echo "$2 changes nothing"; status=1; return; }
    run bad.ptx && { echo "$2: it ran"; status=1; }
    grep -q "$1" said || { echo "$2: $(cat said)"; status=1; }
}
other='takes other machine parameters than its head says'
refused "$other" "/^\/\/ tk: slot $((last - 1)):/d"
refused "$other" "/^\/\/ tk: slot $((last - 1)):/{s/^.*$/&\n\/\/ tk: slot $last: 8 bytes, N/}"
refused "$other" 's/^\t\.param .*vector_add_param_0,$/\t.param .align 8 .b8 vector_add_param_0[4000],/'
refused "$other\|refuses\|expected" "s/vector_add_param_$((last - 1))\$/&,\n\t.param .u64 more/"
refused 'is not a launch' 's/^\(\/\/ tk: slot 0: \)8 bytes/\14 bytes/'
exit $status
