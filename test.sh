#!/usr/bin/env bash
# Installs what is missing, builds, and runs all tests that need no GPU.
#
#     ./test.sh                everything: sanitized build and short fuzzing, then the release build's tests
#     ./test.sh -R softmax     ctest's arguments: the release build's tests alone
#
# Ends with `N passed, N failed, N skipped` over both builds; the status is 1 when something failed. On two
# cores: builds 3 minutes, sanitized tests and fuzzing 2.5, the release build's tests 5.
set -u
. "$(dirname "$0")/scripts/setup.sh"

passed=0 failed=0 skipped=0

# run_tests FOLDER ARGUMENTS...: ctest, counted
run_tests() {
    local folder=$1 log
    shift
    log=$(mktemp)
    ctest --test-dir "$folder" -j "$(jobs)" --output-on-failure --timeout 600 "$@" 2>&1 | tee "$log"
    passed=$((passed + $(grep -c -E '^ *[0-9]+/[0-9]+ Test .* Passed ' "$log")))
    skipped=$((skipped + $(grep -c -E '^ *[0-9]+/[0-9]+ Test .*\*\*\*Skipped' "$log")))
    failed=$((failed + $(grep -E '^ *[0-9]+/[0-9]+ Test ' "$log" | grep -c -v -E ' Passed |\*\*\*Skipped')))
    grep -q -E '^ *[0-9]+/[0-9]+ Test ' "$log" || say "no test was run in $folder"
    rm -f "$log"
}

sanitized() {
    setup_build fuzz build-fuzz
    run_tests build-fuzz -LE 'cli|examples|ptx'
}

setup_packages
# Warnings are errors with the compilers of Debian 12, gcc 12 and clang 22; others know other warnings.
case $(gcc -dumpversion 2>/dev/null) in 12*) setup_options=(-DTKC_WERROR=ON) ;; esac
[ $# -gt 0 ] || sanitized
setup_build release build
run_tests build "$@"

printf '\n%d passed, %d failed, %d skipped\n' "$passed" "$failed" "$skipped"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
