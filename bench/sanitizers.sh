#!/usr/bin/env bash
# Builds and runs under sanitizers what runs on threads, streams and other people's files, and prints a line per test.
#   bench/sanitizers.sh [asan] [tsan]      both when none is named; an hour or more of two cores from nothing
# The presets' other tests run the same way: cmake --build --preset asan && ctest --preset asan.
set -euo pipefail
cd "$(dirname "$0")/.."
# Most telling first: the CUDA plugin on a faked CUDA, streams emulated on threads, lanes, disk tier, sessions and planning in
# the background.
tests=(cuda_errors_test cuda_fake_test cuda_crew_test stream_test runtime_test session_test strategies_test cuda_models_test
  files_test shape_rules_test import_fuzz_test cli_test)
status=0
for preset in "${@:-asan tsan}"; do
  for sanitizer in $preset; do
    cmake --preset "$sanitizer" >/dev/null
    for test in "${tests[@]}"; do
      begin=$SECONDS
      if ! cmake --build --preset "$sanitizer" --target "$test" >"build-$sanitizer/$test.log" 2>&1; then
        result="not built, see build-$sanitizer/$test.log"
        status=1
      elif ctest --preset "$sanitizer" -R "^$test\$" >"build-$sanitizer/$test.log" 2>&1; then
        result=clean
      else
        result="FAILED, see build-$sanitizer/$test.log"
        status=1
      fi
      echo "$sanitizer $test: $result ($((SECONDS - begin)) s)"
    done
  done
done
exit "$status"
