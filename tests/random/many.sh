#!/usr/bin/env bash
# Runs many seeds of a family of random programs, on several processors.
#
#     tests/random/many.sh FAMILY FROM COUNT JOBS [BIN]     seeds FROM .. FROM + COUNT - 1
#
# FAMILY is loops, dots, products, sums, rows, carried, mixed (the generator without a name) or models.
# BIN is the folder of random_programs and random_models (default: build-dev/bin). The script needs them
# and the usual tools, and no build tree. The preset `release` makes programs with LLVM inside, for
# another machine:
#
#     cmake --preset release && cmake --build --preset release --target random_programs random_models
#
# JOBS processes run at a time, each with 50 seeds (CHUNK=n: n). A seed runs in a process of its own: a
# crash is a fault of that seed, and so are 60 seconds, and the next seed runs. Each failing seed is a
# line `seed N: WORDS`. The last line is `N programs, F failed`, and the status is 0 where F is 0.
# LOG=FILE takes the reports whole, with the text of what fails and the command that runs it again.
set -eu

options() {                            # of the family: the words before FROM COUNT
    case $1 in
    models) echo random_models --apart ;;
    mixed)  echo random_programs --apart --schedules ;;
    loops|dots|products|sums|rows|carried) echo random_programs --apart --schedules "--$1" ;;
    *)      echo "many.sh: there is no family $1" >&2; exit 2 ;;
    esac
}

run_seeds() {                          # FAMILY FROM COUNT BIN: the generator's own report
    local words target=any
    read -ra words <<< "$(options "$1")"
    [ "$1" != models ] || target=
    TKC_CACHE=off timeout -s KILL $(($3 * 65)) "$4/${words[0]}" "${words[@]:1}" "$2" "$3" $target 2>&1
}

ended() { tail -n 1 "$1" | grep -Eq '^[0-9]+ (programs|models), .*failed$'; }

run_chunk() {                          # FAMILY FROM COUNT BIN WORK: WORK/FROM is the report
    local to=$5/$2 seed
    run_seeds "$1" "$2" "$3" "$4" > "$to.run" || true
    if ! ended "$to.run"; then         # the process that starts the others is gone: each seed without it
        : > "$to.run"
        for ((seed = $2; seed < $2 + $3; seed++)); do
            run_seeds "$1" "$seed" 1 "$4" > "$to.one" || true
            if ended "$to.one"; then cat "$to.one" >> "$to.run"
            else printf 'seed %s: its process is killed\n' "$seed" | cat "$to.one" - >> "$to.run"
            fi
        done
        rm -f "$to.one"
    fi
    sed -E '/^[0-9]+ (programs|models), .*failed$/d' "$to.run" > "$to"
    rm "$to.run"
}

if [ "${1-}" = --chunk ]; then
    shift
    count=$5
    [ $(($6 + count)) -le "$4" ] || count=$(($4 - $6))
    run_chunk "$1" "$6" "$count" "$2" "$3"
    exit 0
fi

family=${1:?FAMILY}; from=${2:?FROM}; count=${3:?COUNT}; jobs=${4:?JOBS}
bin=${5:-$(dirname "$0")/../../build-dev/bin}
generator=$(options "$family"); generator=${generator%% *}
[ -x "$bin/$generator" ] || { echo "many.sh: $bin has no $generator" >&2; exit 2; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
if [ "$count" -gt 0 ]; then
    seq "$from" "${CHUNK:-50}" $((from + count - 1)) |
        xargs -P "$jobs" -n 1 bash "$0" --chunk "$family" "$bin" "$work" $((from + count)) "${CHUNK:-50}"
fi
for report in $(find "$work" -type f -printf "%f\n" | sort -n); do cat "$work/$report"; done > "$work.all"
mv "$work.all" "$work/all"
[ -z "${LOG-}" ] || cp "$work/all" "$LOG"
grep -E '^seed [0-9]+[ :]' "$work/all" || true
failed=$(grep -Ec '^seed [0-9]+[ :]' "$work/all" || true)
echo "$count programs, $failed failed"
[ "$failed" -eq 0 ]
