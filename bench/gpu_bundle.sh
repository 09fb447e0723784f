#!/usr/bin/env bash
# Usage: bench/gpu_bundle.sh FOLDER
# Gathers in FOLDER what bench/gpu_check.sh builds with on a machine that has CUDA, cuDNN, a C++ compiler, CMake and
# Ninja but no network: Debian's packages as .deb files, which the check unpacks beside the build and does not install.
# Needs Debian 12 with its package lists; fails when the folder comes out larger than 60 MB.
set -euo pipefail
folder=${1:?usage: gpu_bundle.sh FOLDER}
mkdir -p "$folder"
cd "$folder"
packages=(
  libtbb-dev libtbb12 libtbbmalloc2 libtbbbind-2-5 libhwloc15
  libprotobuf-dev libprotobuf32 libprotobuf-lite32 libprotoc-dev libprotoc32 protobuf-compiler
  libgoogle-glog-dev libgoogle-glog0v6 libgflags-dev libgflags2.2 libunwind-dev libunwind8
  libabsl-dev libabsl20220623 libboost1.74-dev libdnnl-dev libdnnl2 ocl-icd-libopencl1 libeigen3-dev libfarmhash-dev libfarmhash0 libre2-dev libre2-9 libxxhash-dev libxxhash0
  libzip-dev libzip4 libbz2-1.0 zlib1g-dev zlib1g libjpeg-dev libjpeg62-turbo-dev libjpeg62-turbo libpng-dev libpng16-16 libgif-dev libgif7 libwebp-dev libwebp7 libwebpdemux2 libwebpmux3 libicu-dev libicu72 libleveldb-dev libleveldb1d libsnappy-dev libsnappy1v5
  libgtest-dev libgmock-dev googletest liburing-dev liburing2
  libssl3 liblzma5 libudev1
)
apt-get download -qq "${packages[@]}"
# Nearly a fifth of the bundle would be static libraries of ICU, most of them its data.
unpacked=$(mktemp -d)
dpkg-deb --raw-extract libicu-dev_*.deb "$unpacked"
rm -f libicu-dev_*.deb "$unpacked"/usr/lib/*/*.a
dpkg-deb --build "$unpacked" . >/dev/null
rm -rf "$unpacked"
bytes=$(du -sb . | cut -f1)
echo "$(ls ./*.deb | wc -l) packages, $((bytes / 1000000)) MB in $folder"
if [ "$bytes" -gt 60000000 ]; then
  echo "more than 60 MB" >&2
  exit 1
fi
