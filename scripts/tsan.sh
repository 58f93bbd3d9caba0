#!/usr/bin/env bash
# The library's tests under the thread sanitizer: tsan.sh [REGEX of tests]. Kept beside the tests, since the build takes as
# long as all the others. LLVM has no sanitizer in it: what it guards by its own locks is not reported (tsan.supp).
set -e
cd "$(dirname "$0")/.."
cmake --preset tsan "${CMAKE_MORE:--Wno-dev}" > /dev/null
cmake --build build-tsan --target runtime_api runtime_api_graph runtime_api_stages runtime_emu runtime_transfer runtime_assemble runtime_cache runtime_fork
TSAN_OPTIONS="suppressions=$PWD/scripts/tsan.supp halt_on_error=1 second_deadlock_stack=1 die_after_fork=0" \
    ctest --test-dir build-tsan --output-on-failure -R "${1:-^runtime\.(api|api_graph|api_stages|emu|transfer|assemble|cache|fork)$}"
