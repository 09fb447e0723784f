#!/usr/bin/env bash
# Builds and runs under sanitizers what runs on threads, streams and other people's files, and prints a line per test.
# Usage: bench/sanitizers.sh [asan] [tsan]   both when none is named; an hour or more of two cores from nothing
#   MILLRACE_SANITIZE_TESTS="cuda_test stream_test"    these alone (GTEST_FILTER chooses among their cases)
#   MILLRACE_SANITIZE_BOXES="stream;runtime;session"   watches these boxes and the tests; the others are compiled as for
#                                                      a release (ccache has them where a release was built in a folder of this name)
# The presets' other tests run the same way: cmake --build --preset asan && ctest --preset asan.
set -euo pipefail
case ${1:-} in
  -h | --help) sed '1d; /^#/!Q; s/^# \{0,1\}//' "$0"; exit 0 ;;
esac
for preset in "$@"; do
  case $preset in
    asan | tsan) ;;
    *) echo "sanitizers.sh: no preset '$preset'; usage: sanitizers.sh [asan] [tsan]; --help tells more" >&2; exit 2 ;;
  esac
done
cd "$(dirname "$0")/.."
# Most telling first: the CUDA plugin on a faked CUDA, streams emulated on threads, lanes, disk tier, sessions and planning in
# the background.
tests=(${MILLRACE_SANITIZE_TESTS:-cuda_errors_test cuda_fake_test cuda_grid_test cuda_crew_test stream_test runtime_test session_test strategies_test
  cuda_models_test cuda_test files_test shape_rules_test import_fuzz_test cli_test})
boxes=${MILLRACE_SANITIZE_BOXES:-}
configuration=(-DMILLRACE_SANITIZE_BOXES="$boxes")
# One kind of build for what is watched and what is not; in a list of boxes watched ones have flags of their own.
configuration+=(-DCMAKE_BUILD_TYPE="$([ -n "$boxes" ] && echo Release || echo RelWithDebInfo)")
presets=("$@")
[ ${#presets[@]} -gt 0 ] || presets=(asan tsan)
status=0
for preset in "${presets[@]}"; do
  cmake --preset "$preset" "${configuration[@]}" >/dev/null
  for test in "${tests[@]}"; do
    begin=$SECONDS
    if ! cmake --build --preset "$preset" --target "$test" >"build-$preset/$test.log" 2>&1; then
      result="not built, see build-$preset/$test.log"
      status=1
    elif ctest --preset "$preset" -R "^$test\$" --no-tests=error --verbose >"build-$preset/$test.log" 2>&1; then
      # A program whose cases are all skipped ends well, too.
      result=clean
      if ! grep -qE '\[  PASSED  \] [1-9]' "build-$preset/$test.log"; then
        result="no case ran, see build-$preset/$test.log"
        status=1
      fi
    else
      result="FAILED, see build-$preset/$test.log"
      status=1
    fi
    echo "$preset $test: $result ($((SECONDS - begin)) s)"
  done
done
exit "$status"
