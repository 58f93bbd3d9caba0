#!/usr/bin/env bash
# told.sh TKC: what `tkc test` says of schedules; and that each schedule of a failure is had again by the options that it says.
set -u
tkc=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failed=0
export TKC_CACHE=off

cat > wrong.tk <<'K'
kernel total(x: f32[N], y: out f32[]) {
    var t = 0.0;
    for i in N { t += x[i]; }
    y[] = t;
}
kernel tiled<B = 64>(x: f32[N], y: out f32[N]) grid (n in N by B) { y[n] = x[n] + 1; }
tune tiled { B in [32, 128]; }
graph both(x: f32[N]) -> (y: f32[N], t: f32[]) {
    y = tiled(x);
    t = total(y);
}
test "sum" for N in [100, 2000] { expect total(ones<f32>(N)) == N + 1; }
test "tiles" { expect tiled(ones<f32>(300)) == 3; }
test "graph" {
    let y, t = both(ones<f32>(500));
    expect t == 0;
    expect y == 2;
}
K

# says TEXT OPTIONS...: what tkc says with them holds the text, a regular expression
says() {
    local text=$1
    shift
    "$tkc" "$@" > out 2>&1
    grep -q -E -e "$text" out && return
    printf 'tkc %s\n    does not say: %s\n' "$*" "$text"
    sed 's/^/    | /' out
    failed=1
}
test_says() {
    local text=$1
    shift
    says "$text" test wrong.tk --device=emu "$@"
}

# As `tkc run` chooses for these sizes and this target.
test_says '^FAIL  wrong.tk: sum 2000, on emu for sm_90a$'
test_says '^      `total`, N = 2000: --with=.*split_k=[0-9]+'
chosen=$(sed -n 's/^      `total`, N = 2000: //p' out)
says "schedule       $chosen" wrong.tk --kernel=total --set=N=2000 --emit=report
test_says '^      `total`, N = 2000: the defaults$' --defaults
test_says '^      `tiled`, N = 300: --set=B=(32|128)$|^      `tiled`, N = 300: the defaults$' -R tiles
test_says '^          `total`: --with=.*split' -R graph
test_says 'on emu for sm_80$' --arch=sm_80

# Options of the command line stand.
test_says '^      `total`, N = 2000: .*--with=split_k=3' --with=split_k=3
test_says '^      `tiled`, N = 300: --set=B=16$' --set=B=16 -R tiles
test_says 'set BX: no launch' --set=BX=16
test_says 'most is for --all-schedules' --most=3

# What is skipped says why; what is drawn is drawn again, and other seeds draw others.
test_says '^skip  wrong.tk: sum 100, --with=pingpong=2: pingpong: only products' --all-schedules -v -R 'sum 100'
test_says '^schedules: seed 5; ' --all-schedules --most=6 --seed=5 -v
grep -E '^(ok|skip|FAIL)' out > first
test_says 'passed' --all-schedules --most=6 --seed=5 -v
grep -E '^(ok|skip|FAIL)' out > second
cmp first second || failed=1
test_says '^schedules: seed 6; ' --all-schedules --most=6 --seed=6 -v
grep -E '^(ok|skip|FAIL)' out > second
cmp -s first second && { echo 'seeds 5 and 6 draw the same'; failed=1; }

# The options of a failure give its launches the same schedules.
"$tkc" test wrong.tk --device=emu --all-schedules --most=12 --seed=1 -v > all
awk '/^FAIL/ { line = $0; getline; getline; print line "\t" $0 }' all | grep -- ', --' > failures
[ "$(wc -l < failures)" -ge 8 ] || { echo 'few failures'; cat all; failed=1; }
while IFS=$'\t' read -r line launch; do
    name=$(sed -E 's/^FAIL  wrong.tk: (.*), on emu.*/\1/' <<< "$line")
    read -ra options <<< "$(sed -E 's/^.* for sm_90a, //' <<< "$line")"
    "$tkc" test wrong.tk --device=emu --seed=1 -R "$name" "${options[@]}" > again 2>&1
    grep -q -F -x -e "$launch" again && continue
    printf '%s\n    %s\n    is not had again by %s\n' "$line" "$launch" "${options[*]}"
    sed 's/^/    | /' again
    failed=1
done < failures
exit $failed
