#!/usr/bin/env bash
# Installs from Debian what the build and the tests need, or the packages that are named; does nothing when all of it is there.
# Needs root.
#   .ci/install_packages.sh [PACKAGE …]
set -euo pipefail

packages=(
  cmake ninja-build g++
  libtbb-dev libprotobuf-dev protobuf-compiler libgoogle-glog-dev libgflags-dev libabsl-dev libdnnl-dev libeigen3-dev
  libboost-dev libfarmhash-dev libre2-dev libxxhash-dev libzip-dev zlib1g-dev libjpeg-dev libpng-dev libgif-dev libwebp-dev libicu-dev libleveldb-dev libsnappy-dev liburing-dev
  libgtest-dev libgmock-dev libbenchmark-dev librsvg2-dev pkg-config python3-numpy
)

[ $# -eq 0 ] || packages=("$@")

missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends "${missing[@]}"
