#!/usr/bin/env bash
# Usage: bench/gpu_bundle.sh FOLDER
# Gathers in FOLDER what bench/gpu_check.sh builds with on a machine that has CUDA, cuDNN, a C++ compiler, CMake and
# Ninja but no network: what it needs of Debian's packages, as one .deb, which the check unpacks beside the build and does not install.
# Other .deb files in FOLDER are removed, as the check would unpack them too. Needs Debian 12 with its package lists and g++; fails, and
# leaves none, when the bundle and the tree that travels with it are larger together than MILLRACE_GPU_TRAVELS bytes (64 MiB).
set -euo pipefail
case ${1:-} in
  -h | --help) sed '1d; /^#/!Q; s/^# \{0,1\}//' "$0"; exit 0 ;;
esac
if [ $# != 1 ] || [[ $1 == "" || $1 == -* ]]; then
  echo "usage: gpu_bundle.sh FOLDER; --help tells more" >&2
  exit 2
fi
folder=$1
mkdir -p "$folder"
folder=$(realpath "$folder")
tree=$(realpath "$(dirname "$0")/..")
limit=${MILLRACE_GPU_TRAVELS:-67108864}
packages=(
  libtbb-dev libtbb12 libtbbmalloc2 libtbbbind-2-5 libhwloc15
  libprotobuf-dev libprotobuf32 libprotobuf-lite32 libprotoc32 protobuf-compiler
  libgoogle-glog-dev libgoogle-glog0v6 libgflags-dev libgflags2.2 libunwind-dev libunwind8
  libabsl-dev libabsl20220623 libboost1.74-dev libdnnl-dev libdnnl2 ocl-icd-libopencl1 libeigen3-dev
  libfarmhash-dev libfarmhash0 libre2-dev libre2-9 libxxhash-dev libxxhash0
  libzip-dev libzip4 libbz2-1.0 zlib1g-dev zlib1g libjpeg-dev libjpeg62-turbo-dev libjpeg62-turbo libpng-dev libpng16-16 libgif-dev libgif7
  libwebp-dev libwebp7 libwebpdemux2 libwebpmux3 libicu-dev libicu72 libleveldb-dev libleveldb1d libsnappy-dev libsnappy1v5
  libgtest-dev libgmock-dev liburing-dev liburing2
  libssl3 liblzma5 libudev1
)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/downloads" "$work/root"
(cd "$work/downloads" && apt-get download -qq "${packages[@]}")
for package in "$work"/downloads/*.deb; do dpkg-deb --extract "$package" "$work/root"; done
cd "$work/root"
libraries=usr/lib/x86_64-linux-gnu

rm -rf usr/share/{doc,doc-base,icu,lintian,man}
# Of ICU the library of strings and its data, of OpenSSL what libzip asks for.
rm -rf $libraries/libicu{i18n,io,test,tu}.* $libraries/icu $libraries/libssl.* $libraries/{engines-3,ossl-modules}
# Static libraries, but for those that a package file of CMake wants to see.
find . -name '*.a' | while read -r archive; do
  grep -rqF "/$(basename "$archive")\"" $libraries/cmake || rm "$archive"
done
# Boost's headers that the sources include, with what these include; all of its configurations, as another compiler takes others.
mkdir "$work/boost"
git -C "$tree" grep --untracked -hoE '#include <boost/[^>]+>' -- '*.cc' '*.h' | sort -u >"$work/boost.cc"
g++ -std=c++20 -isystem usr/include -M "$work/boost.cc" | grep -oE 'usr/include/boost/[^ ]+' | sort -u >"$work/headers"
cp --parents -r usr/include/boost/{config,version.hpp} "$work/boost"
xargs cp --parents -t "$work/boost" <"$work/headers"
rm -rf usr/include/boost
mv "$work/boost/usr/include/boost" usr/include/boost

mkdir DEBIAN
printf '%s\n' "Package: millrace-gpu-bundle" "Version: 1" "Architecture: amd64" "Maintainer: nobody <nobody@localhost>" \
  "Description: what bench/gpu_check.sh builds with" >DEBIAN/control
rm -f "$folder"/*.deb
dpkg-deb --root-owner-group -Zxz -z9 --build . "$folder/bundle.deb" >/dev/null

bundle=$(stat -c %s "$folder/bundle.deb")
# Of files that were removed and are still known to git stat has nothing to say.
travels=$(cd "$tree" && git ls-files -z --cached --others --exclude-standard | { xargs -0 stat -c %s 2>/dev/null || true; } |
  awk '{ sum += $1 } END { print sum }')
sum=$((bundle + travels))
echo "${#packages[@]} packages: $bundle bytes in $folder; the tree: $travels; together $sum of $limit"
if [ "$sum" -gt "$limit" ]; then
  rm "$folder/bundle.deb"
  echo "gpu_bundle: more than $limit bytes" >&2
  exit 1
fi
