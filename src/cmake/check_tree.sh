#!/usr/bin/env bash
# Usage: check_tree.sh SOURCE_DIR
# Fails on source files of more than 1000 lines (warns above 600) and on includes that break the project's walls:
# a library of one concern is used in its own files only, and boxes see each other in one direction. Most of the
# second is enforced by include roots (MillraceLibrary.cmake); what shares include/millrace is checked here.
set -euo pipefail
cd "$1"
mapfile -t files < <(find include src passes runtime tests bench -name '*.h' -o -name '*.cc' -o -name '*.cu' -o -name '*.py' -o -name '*.sh' | sort)
failed=0

complain() {  # what, then lines of grep
  if [ -n "$2" ]; then
    printf '%s:\n%s\n' "$1" "$2" >&2
    failed=1
  fi
}

lengths=$(wc -l "${files[@]}" | awk '$2 != "total"')
awk '$1 > 600 && $1 <= 1000 {print "warning: " $2 " has " $1 " lines, more than 600"}' <<<"$lengths" >&2
complain "files of more than 1000 lines" "$(awk '$1 > 1000 {print $2 ": " $1}' <<<"$lengths")"

includes=$(grep -nE '^ *# *include' "${files[@]}" || true)
# Lines of `includes` that match $1 outside the files that match $2.
outside() { grep -E "$1" <<<"$includes" | grep -vE "^($2)" || true; }
complain "gflags outside src/main.cc" "$(outside '<gflags/' 'src/main\.cc')"
complain "TBB outside runtime/tbb_task_runner.cc" "$(outside '<(tbb|oneapi)/' 'runtime/tbb_task_runner\.cc|tests/|bench/')"
complain "protobuf outside import, proto and report" "$(outside '<google/protobuf/|"proto/' 'src/(import|proto|report)/|tests/')"
complain "CUDA outside runtime/devices/cuda" "$(outside '<(cuda|cudnn|cublas|nccl)' 'runtime/devices/cuda/')"
complain "includes by a path upwards" "$(outside '"\.\./' 'none')"
complain "the runtime must not see a Graph" "$(grep -E '^runtime/.*"millrace/(graph|session|graph_builder)\.h"' <<<"$includes" || true)"
complain "passes must not see the session" "$(grep -E '^passes/.*"millrace/session\.h"' <<<"$includes" || true)"
exit $failed
