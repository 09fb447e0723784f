#!/usr/bin/env bash
# Usage: install_test.sh BUILD_DIR SOURCE_DIR GENERATOR [CMAKE_ARGUMENTS...]
# Installs into a folder of its own, builds the outside program against it and runs both.
set -euo pipefail
build=$1 source=$2 generator=$3
shift 3
prefix=$(mktemp -d)
trap 'rm -rf "$prefix"' EXIT

cmake --install "$build" --prefix "$prefix/usr" >"$prefix/install.log"
cmake -S "$source/tests/install/program" -B "$prefix/build" -G "$generator" -DCMAKE_BUILD_TYPE=Release \
  -DCMAKE_PREFIX_PATH="$prefix/usr" "$@" >"$prefix/configure.log"
cmake --build "$prefix/build" >"$prefix/build.log" || { cat "$prefix/build.log"; exit 1; }
# What the library shows is its own.
strangers=$(find "$prefix/usr" -name 'libmillrace.so' -exec nm -D --defined-only --demangle {} + |
  sed -E 's/^[0-9a-f]+ . //' | grep -vE '^((typeinfo( name)?|vtable|VTT) for )?millrace::' || true)
[ -z "$strangers" ] || { echo "libmillrace.so shows names of others:"; head -20 <<<"$strangers"; exit 1; }
"$prefix/usr/bin/millrace" model resnet --depth=50 --batch=1 --image_size=32 --out="$prefix/resnet.pbtxt"
"$prefix/usr/bin/millrace" plan --graph="$prefix/resnet.pbtxt" --fetches=loss:0 --targets=train --synthetic_feeds \
  --machine="$prefix/usr/share/millrace/machines/titanx.pbtxt" >"$prefix/plan.log"
library=$(find "$prefix/usr" -name 'libmillrace.so' -printf '%h')
"$prefix/build/embedding" "$prefix/resnet.pbtxt" "$library"
# Without CMake.
if command -v pkg-config >/dev/null; then
  export PKG_CONFIG_PATH=$library/pkgconfig
  [ "$(pkg-config --variable=prefix millrace)" -ef "$prefix/usr" ] || { echo "millrace.pc: no prefix"; exit 1; }
  # shellcheck disable=SC2046
  "${CXX:-c++}" -std=c++20 "$source/tests/install/program/small.cc" -o "$prefix/small" $(pkg-config --cflags --libs millrace)
  LD_LIBRARY_PATH=$library "$prefix/small"
fi
# A program that is moved with its libraries still finds them.
mv "$prefix/usr" "$prefix/moved"
LD_LIBRARY_PATH=${library/"$prefix/usr"/"$prefix/moved"} "$prefix/build/embedding" "$prefix/resnet.pbtxt" \
  "${library/"$prefix/usr"/"$prefix/moved"}"
