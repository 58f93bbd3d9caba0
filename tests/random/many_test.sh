#!/usr/bin/env bash
# many.sh over a generator that fails at seed 7, ends the process of seed 63's chunk, and is killed at seed 64 even alone.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat > "$work/random_models" <<'END'
#!/usr/bin/env bash
[ "$1" = --apart ] || exit 2
failed=0
for ((s = $2; s < $2 + $3; s++)); do
    [ "$s" -ne 7 ] || { printf 'seed 7: 1, not 2\nMatMul x0 w1 -> t2\n\n'; failed=1; }
    [ "$s" -ne 63 ] || [ "$3" -eq 1 ] || kill -KILL $$
    [ "$s" -ne 64 ] || kill -KILL $$
done
echo "$3 models, $failed failed"
[ "$failed" -eq 0 ]
END
chmod +x "$work/random_models"
cp "$here/many.sh" "$work/many.sh"
cd "$work"
status=0
LOG=$work/log CHUNK=20 ./many.sh models 3 99 4 "$work" > got 2>/dev/null || status=$?
diff got - <<'END'
seed 7: 1, not 2
seed 64: its process is killed
99 programs, 2 failed
END
[ "$status" -eq 1 ]
grep -q MatMul log
[ "$(CHUNK=20 ./many.sh models 8 55 2 .)" = '55 programs, 0 failed' ]
if ./many.sh modelling 8 55 2 . 2> said; then exit 1; fi
grep -q 'no family modelling' said
