#!/usr/bin/env bash
# Usage: check_tree.sh SOURCE_DIR [--lines]
# Fails on source files of more than 1000 lines (warns above 600) and on includes that break the project's walls:
# a library of one concern is used in its own files only, and boxes see each other in one direction. Most of the
# second is enforced by include roots (MillraceLibrary.cmake); what shares include/millrace is checked here. Fails, too, on
# two types of one name: compilers and linkers take them for one, whose constructors and containers both then have. With
# --lines also on lines of C++ beyond the columns of .clang-format, but for those with a literal: texts are not cut.
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
complain "ICU outside src/graph/letters.cc" "$(outside '<unicode/' 'src/graph/letters\.cc')"
complain "WebP outside src/codecs/webp.cc" "$(outside '<webp/' 'src/codecs/webp\.cc')"
complain "includes by a path upwards" "$(outside '"\.\./' 'none')"
complain "the runtime must not see a Graph" "$(grep -E '^runtime/.*"millrace/(graph|session|graph_builder)\.h"' <<<"$includes" || true)"
complain "passes must not see the session" "$(grep -E '^passes/.*"millrace/session\.h"' <<<"$includes" || true)"
# A room of passes/ sees itself and rooms of lower floors; the files beside the rooms see all, and rooms see two of them.
rooms_upwards() {
  sed -nE 's|^(passes/([a-z_]+)/[^:]*):[0-9]+: *# *include "passes/(([a-z_]+)/)?([a-z_./]+)".*|\1 \2 \4 \5|p' <<<"$includes" | awk '
    BEGIN {
      floors = "control_flow shapes|unroll rewrite|devices|order access|memory|swaps|planner|emit"
      n = split(floors, floor_rooms, "|")
      for (f = 1; f <= n; ++f) { m = split(floor_rooms[f], rooms, " "); for (r = 1; r <= m; ++r) floor[rooms[r]] = f }
    }
    !($2 in floor) { print $1 ": " $2 " has no floor"; next }
    NF == 3 { if ($3 != "kernel_oracle.h" && !($2 == "emit" && $3 == "device_plan.h")) print $1 " sees passes/" $3; next }
    $2 != $3 && floor[$3] >= floor[$2] { print $1 " sees passes/" $3 "/" $4 }'
}
complain "rooms of passes/ that see upwards" "$(rooms_upwards)"
# "NAMESPACE::NAME: FILE FILE" of types that two files define outside of namespaces without a name.
types_of_one_name() {
  printf '%s\n' "${files[@]}" | grep -E '\.(h|cc|cu)$' | xargs awk '
    FNR == 1 { depth = 0 }
    /^namespace/ { space[++depth] = NF == 2 ? "" : $2; next }
    /^}  \/\/ namespace/ { --depth; next }
    /^(struct|class|union|enum) / && !/;$/ {
      name = $1 == "enum" && ($2 == "class" || $2 == "struct") ? $3 : $2
      for (d = depth; d > 0; --d) { if (space[d] == "") next; name = space[d] "::" name }
      if (name in first && first[name] != FILENAME) print name ": " first[name] " " FILENAME
      first[name] = FILENAME
    }'
}
complain "types of one name" "$(types_of_one_name)"
if [ "${2:-}" = --lines ]; then
  columns=$(sed -n 's/^ColumnLimit: //p' .clang-format)
  complain "lines of more than $columns columns" \
    "$(printf '%s\n' "${files[@]}" | grep -vE '\.(py|sh)$' | xargs grep -nE "^.{$((columns + 1)),}" | grep -v '"' | cut -d: -f1,2 || true)"
fi
exit $failed
