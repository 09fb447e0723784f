# shellcheck shell=bash disable=SC2154
# Read by bench/gpu_check.sh: unpacks $bundle into $build/root, and has what is built and run find what is in it.

root=${build:?gpu_check.sh reads this file and says where to build}/root  # is removed below
# All of the bundle, or a status that is not 0.
unpack() {
  rm -rf "$root"
  mkdir -p "$root" || return
  local package
  for package in "$bundle"/*.deb; do dpkg -x "$package" "$root" || return; done
  # Its package file looks for a module where it would have been installed.
  sed -i "s|\"/usr/share/glog|\"$root/usr/share/glog|" "$root"/usr/lib/*/cmake/glog/glog-modules.cmake || return
  touch "$root/unpacked"
}
# Debian 12's libraries need its C library or a later one.
libc=$(ldd --version 2>/dev/null | head -1 | grep -oE '[0-9]+\.[0-9]+$')
if [ "$(printf '%s\n2.34\n' "${libc:-0}" | sort -V | head -1)" != 2.34 ]; then
  echo "gpu_check: the bundle's libraries need glibc 2.34 or later (Debian 12, Ubuntu 22.04), this machine has ${libc:-none}" >&2
  give_up
fi
if ! command -v dpkg >/dev/null; then
  echo "gpu_check: dpkg is needed to unpack the bundle" >&2
  give_up
fi
if [ ! -e "$root/unpacked" ]; then
  if ! compgen -G "$bundle/*.deb" >/dev/null; then
    echo "gpu_check: no .deb in $bundle: is it gathered (bench/gpu_bundle.sh), and carried along though git ignores it?" >&2
    exit 2
  fi
  if ! unpack; then
    rm -rf "$root"
    echo "gpu_check: $bundle could not be unpacked" >&2
    give_up
  fi
fi
# What the machine has of its own goes first: the bundle fills in what is missing.
system=/usr/lib/x86_64-linux-gnu
export CMAKE_PREFIX_PATH=$root/usr PATH=$PATH:$root/usr/bin
later_libraries "$system:$root$system:$root/lib/x86_64-linux-gnu:$root/usr/lib:$root$system/blas:$root$system/lapack"
export CPATH=$root/usr/include LIBRARY_PATH=$root$system PKG_CONFIG_PATH=$root$system/pkgconfig
