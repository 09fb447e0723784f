#!/usr/bin/env bash
# Usage: bench/gpu_check.sh OUT_FOLDER [BUNDLE_FOLDER [PART ...]]
# Builds from source, runs the GPU tests and benches, and writes results.json, summary.md and logs into OUT_FOLDER; the
# last lines printed are a verdict per goal. Uses no network: what the machine lacks comes from BUNDLE_FOLDER
# (bench/gpu_bundle.sh; "" for none). A part that fails, hangs or loses the device leaves the others their turn: each
# program runs in a process of its own under a time limit, and so does each part. Exit status 1 when a goal was missed.
#
# Parts, all by default and in this order: build conformance fixtures models peers sizes sanitizer stream. They share the build
# (MILLRACE_GPU_BUILD, build-gpu) and OUT_FOLDER, so they may also be run by several calls, each of which reports on all
# that there is by then. A part that is named again does what is missing of it: what a former call was cut short in. After every part results.json, summary.md and logs.tar.gz in OUT_FOLDER are up to date, and copied
# to the folder MILLRACE_GPU_COPY where that is set: all there is to take away, also of a call that is cut short.
# MILLRACE_GPU_HOST_MEMORY (90GB) is what a run of a large model may page-lock. MILLRACE_GPU_SECONDS (570): no program
# runs longer than this after the script began; the build not longer than MILLRACE_GPU_BUILD_SECONDS (500).
#
# Without a device every goal is 'no device' and the exit status is 0. MILLRACE_GPU_DRY_RUN=1 then runs all parts
# nonetheless, small models on the emulated device, which tries the script and measures nothing.
set -uo pipefail
out=${1:?usage: gpu_check.sh OUT_FOLDER [BUNDLE_FOLDER [PART ...]]}
bundle=${2:-}
shift $(($# < 2 ? $# : 2))
known="build conformance fixtures models peers sizes sanitizer stream"
parts=" ${*:-$known} "
for part in $parts; do
  [[ " $known " == *" $part "* ]] || { echo "gpu_check: no part '$part', only: $known" >&2; exit 2; }
done
[ -z "${MILLRACE_GPU_COPY:-}" ] || MILLRACE_GPU_COPY=$(realpath "$MILLRACE_GPU_COPY")
cd "$(dirname "$0")/.."
mkdir -p "$out"
out=$(cd "$out" && pwd)
build=${MILLRACE_GPU_BUILD:-build-gpu}
jobs=$(nproc)
deadline=$((SECONDS + ${MILLRACE_GPU_SECONDS:-570}))
report() { python3 bench/gpu_report.py "$out" "$@"; }
log() { printf '%s %s\n' "$(date +%T)" "$*"; }
part_end=$deadline
# begins PART SECONDS: whether the part is wanted; what it runs ends that long from now.
begins() {
  [[ $parts == *" $1 "* ]] || return 1
  part_end=$((SECONDS + $2))
  log "$1"
}
pack_logs() {
  tar -C "$out" --exclude=logs.tar.gz --exclude='*.pb' "$@" -czf "$out.logs.tar.gz" . && mv "$out.logs.tar.gz" "$out/logs.tar.gz"
}
# What there is by now: report and logs.
collect() {
  pack_logs
  # Small enough to be taken away wherever it runs: without what is largest where it is not.
  [ "$(stat -c %s "$out/logs.tar.gz" 2>/dev/null || echo 0)" -le 15000000 ] || pack_logs --exclude='*.trace.json' --exclude='*.json'
  local options=()
  [ "$device" = cuda ] || options=(--dry-run)
  report "${options[@]}" >"$out.report"
  local status=$?
  [ -z "${MILLRACE_GPU_COPY:-}" ] || cp "$out"/results.json "$out"/summary.md "$out"/logs.tar.gz "$MILLRACE_GPU_COPY"
  return $status
}
# Nothing can run: goals are 'not built'.
give_up() {
  report --build-failed
  [ -z "${MILLRACE_GPU_COPY:-}" ] || cp "$out"/results.json "$out"/summary.md "$out"/*.log "$MILLRACE_GPU_COPY"
  exit 1
}
# Seconds until the part or the call is over.
left() { echo $((part_end < deadline ? part_end - SECONDS : deadline - SECONDS)); }

# limited SECONDS LOG COMMAND ...: its exit status, 124 when it ran too long or there was no time left to start it.
limited() {
  local left limit=$1 log_file=$2
  left=$(left)
  shift 2
  [ "$left" -gt 5 ] || {
    echo "not started: no time left" >"$log_file"
    return 124
  }
  timeout --kill-after=5 $((limit < left ? limit : left)) "$@" >"$log_file" 2>&1
}

device=cuda
# Where the toolkit's programs are (compute-sanitizer, nvcc) in images that leave them out of the path.
[ ! -d /usr/local/cuda/bin ] || export PATH=$PATH:/usr/local/cuda/bin
# Where containers get their driver from.
[ ! -d /usr/local/nvidia/lib64 ] || export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}/usr/local/nvidia/lib64
if ! timeout --kill-after=5 60 python3 - <<'PY'
import ctypes, sys
try:
    cuda = ctypes.CDLL("libcuda.so.1")
    count = ctypes.c_int(0)
    sys.exit(0 if cuda.cuInit(0) == 0 and cuda.cuDeviceGetCount(ctypes.byref(count)) == 0 and count.value > 0 else 1)
except OSError:
    sys.exit(1)
PY
then
  echo "no device"
  if [ "${MILLRACE_GPU_DRY_RUN:-0}" != 1 ]; then
    report --no-device
    exit 0
  fi
  device=cuda_emulated
fi

if [ -n "$bundle" ]; then
  root=$PWD/$build/root
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
    mkdir -p "$root"
    for package in "$bundle"/*.deb; do dpkg -x "$package" "$root"; done
    # Its package file looks for a module where it would have been installed.
    sed -i "s|\"/usr/share/glog|\"$root/usr/share/glog|" "$root"/usr/lib/*/cmake/glog/glog-modules.cmake
    touch "$root/unpacked"
  fi
  # What the machine has of its own goes first: the bundle fills in what is missing.
  system=/usr/lib/x86_64-linux-gnu
  export CMAKE_PREFIX_PATH=$root/usr PATH=$PATH:$root/usr/bin
  export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$system:$root$system:$root/lib/x86_64-linux-gnu:$root/usr/lib:$root$system/blas:$root$system/lapack
  export CPATH=$root/usr/include LIBRARY_PATH=$root$system PKG_CONFIG_PATH=$root$system/pkgconfig
fi
millrace=$PWD/$build/bin/millrace
# Tests ask for it when they are configured, the fixtures when they run.
numpy_python=
for candidate in "$(command -v python3)" /usr/bin/python3; do
  [ -n "$numpy_python" ] || ! "$candidate" -c "import numpy" 2>/dev/null || numpy_python=$candidate
done

# ninja TARGETS ..., which go on where one does not build.
ninja_within() {
  local left
  left=$(left)
  timeout --kill-after=5 $((left > 5 ? left : 5)) ninja -C "$build" -j "$jobs" -k 0 "$@"
}
if begins build "${MILLRACE_GPU_BUILD_SECONDS:-500}"; then
  started=$SECONDS
  for tool in cmake ninja g++ nvcc; do
    command -v $tool >/dev/null || [ -x /usr/local/cuda/bin/$tool ] || echo "gpu_check: $tool was not found" >&2
  done
  timeout 20 nvidia-smi >"$out/nvidia-smi.log" 2>&1
  architecture=$(timeout 20 nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | head -1 | tr -d '. ')
  # Without a Python with NumPy the tests are left out.
  tests=$([ -n "$numpy_python" ] && echo ON || echo OFF)
  # Compilers that are newer than the bundle's headers: what these took for included, and no warning is an error.
  headers="-include cstdint -include stdexcept -include algorithm"
  # What is measured comes first; tests that do not build leave the rest to be measured.
  {
    timeout --kill-after=5 "$(left)" cmake -S . -B "$build" -G Ninja -DMILLRACE_CUDA_ARCHITECTURES="${architecture:-90}-real" -DMILLRACE_BENCH=OFF \
      -DMILLRACE_TESTS=$tests -DMILLRACE_PYTHON="$numpy_python" -DMILLRACE_WERROR=OFF -DMILLRACE_PRECOMPILE=OFF \
      -DCMAKE_CXX_FLAGS="$headers" &&
      ninja_within millrace_main millrace_cuda_plugin
  } >"$out/build.log" 2>&1
  echo $? >"$out/build.status"
  part_end=$((SECONDS + ${MILLRACE_GPU_BUILD_SECONDS:-120}))  # what is not built by then, the parts that need it build
  ninja_within cuda_test stream_test >>"$out/build.log" 2>&1
  echo $((SECONDS - started)) >"$out/build.seconds"
  log "built in $((SECONDS - started)) s"
  [ "$(cat "$out/build.status")" = 0 ] || grep -m 10 -iE "error|not found|failed|is required" "$out/build.log"
fi
if [ ! -x "$millrace" ]; then
  tail -20 "$out/build.log"
  give_up
fi

# name, arguments of the generator; bench/peers_gpu.py has counterparts.
models=(
  "resnet50 resnet --depth=50 --batch=64 --image_size=224"
  "lstm lstm --batch=64 --hidden=1000 --layers=1 --steps_unrolled=100 --vocab=1000 --dropout=0"
  "unet3d unet3d --batch=1"
  "moe_transformer moe_transformer --batch=8 --dropout=0"
)
# name, budget, arguments: TensorFlowMem's tables, those that nothing else fits first, then TFLMS's resolutions. bench/
# gpu_report.py names them too. No budget is below what a single node needs: the gradient of GoogLeNet's second LRN holds four
# tensors, at batch 15 14.5 GB together; a concatenation of the 3D U-Net at 256^3 26 GB.
sizes=(
  "resnet_1916_b16 12GB resnet --depth=1916 --batch=16"
  "moe_48 12GB moe_transformer --experts=48 --batch=8"
  "deepspeech_800 12GB deepspeech --steps_unrolled=800"
  "googlenet_2240_b15 16GB googlenet --image_size=2240 --batch=15"
  "resnet50_7500 16GB resnet --depth=50 --batch=1 --image_size=7500"
  "deeplab_2048 16GB deeplab --batch=1 --image_size=2048"
  "unet3d_192 16GB unet3d --batch=1 --image_size=192"
  "resnet_1001_b32 12GB resnet --depth=1001 --batch=32"
  "resnet_1001_b16 12GB resnet --depth=1001 --batch=16"
  "resnet_504_b16 12GB resnet --depth=504 --batch=16"
  "googlenet_2240_b11 12GB googlenet --image_size=2240 --batch=11"
  "deepspeech_400 12GB deepspeech --steps_unrolled=400"
  "moe_12 12GB moe_transformer --experts=12 --batch=8"
)
if [ $device = cuda_emulated ]; then
  models=("resnet50 resnet --depth=11 --batch=1 --image_size=32 --variant=cifar"
    "lstm lstm --batch=2 --hidden=16 --layers=1 --steps_unrolled=4 --vocab=50 --dropout=0"
    "unet3d unet3d --batch=1 --image_size=8 --channels=2 --levels=2"
    "moe_transformer moe_transformer --batch=2 --hidden=16 --heads=2 --layers=1 --steps_unrolled=4 --vocab=50 --dropout=0")
  sizes=("resnet_1001_b32 70% resnet --depth=11 --batch=1 --image_size=32 --variant=cifar")
fi
# Page-locked memory does not come back when a machine runs short of it. Not read from /proc/meminfo: virtual machines
# whose memory grows as it is used show less there.
host_memory=${MILLRACE_GPU_HOST_MEMORY:-90GB}
train="--fetches=loss:0 --targets=train --init_targets=init --synthetic_feeds --device=$device"

# generate NAME ARGUMENTS ...
generate() {
  local name=$1
  shift
  [ -s "$out/$name.pb" ] || limited 60 "$out/$name.model.log" "$millrace" model "$@" --out="$out/$name.pb"
}

if begins conformance 200; then
  [ -x "$build/bin/cuda_test" ] || ninja_within cuda_test >>"$out/build.log" 2>&1
  # A process per family, some at once: one that loses the device ends alone.
  mkdir -p "$out/conformance"
  "$build/bin/cuda_test" --gtest_list_tests 2>/dev/null | awk '/^[^ ]/{suite=$1} /^ /&&suite~/CudaDeviceTest/{print suite $1}' \
    >"$out/conformance/tests.txt"
  while read -r test; do
    family=${test##*/}
    [ "$(cat "$out/conformance/$family.status" 2>/dev/null)" != 0 ] || continue
    while [ "$(jobs -rp | wc -l)" -ge 4 ]; do wait -n; done
    {
      limited 100 "$out/conformance/$family.log" "$build/bin/cuda_test" --gtest_filter="$test"
      echo $? >"$out/conformance/$family.status"
    } &
  done <"$out/conformance/tests.txt"
  wait
  collect
fi

[ -n "$numpy_python" ] || echo "gpu_check: no python3 with NumPy: without fixtures and tests" >&2
if [ -n "$numpy_python" ] && begins fixtures 150; then
  # TensorFlow's own training graphs: its results, and the same bits in a budget.
  mkdir -p "$out/fixtures"
  for folder in tests/e2e/fixtures/*/; do
    fixture=$(basename "$folder")
    [ "$(cat "$out/fixtures/$fixture.status" 2>/dev/null)" != 0 ] || continue
    while [ "$(jobs -rp | wc -l)" -ge 4 ]; do wait -n; done
    {
      limited 100 "$out/fixtures/$fixture.log" "$numpy_python" tests/e2e/run_fixture.py agree "$millrace" "$folder" --device=$device \
        --strategy=planned --device_memory=60%
      echo $? >"$out/fixtures/$fixture.status"
    } &
  done
  wait
  collect
fi

if begins models 560; then
  # Round by round, so that every model has its first figure before any has its last. Steps enough for two rounds of
  # measured times, after each of which a step runs on streams and one is captured; the last ones are what counts.
  for run in "baseline auto 0" "measured auto 0" "planned auto 60%" "baseline off 0" "planned auto 80%" "planned auto 45%" "last auto 0"; do
    read -r strategy graph budget <<<"$run"
    for line in "${models[@]}"; do
      read -r name arguments <<<"$line"
      # shellcheck disable=SC2086
      generate "$name" $arguments || continue
      label=$name.$strategy.$graph.${budget%\%} seconds=60
      extra=(--strategy="$strategy")
      [ "$strategy" != measured ] || extra=(--strategy=baseline --measure_convolutions) seconds=120
      # What turning convolutions around to channels first is worth.
      [ "$strategy" != last ] || [ "$name" = resnet50 ] || continue
      [ "$strategy" != last ] || extra=(--strategy=baseline --channels_first=off)
      [ "$budget" = 0 ] || extra+=(--device_memory="$budget")
      [ ! -s "$out/$label.json" ] || continue
      # shellcheck disable=SC2086
      limited $seconds "$out/$label.log" "$millrace" run --graph="$out/$name.pb" $train --steps=25 --replan=wait \
        --cuda_graph="$graph" "${extra[@]}" --v=1 --report_out="$out/$label.json"
    done
    log "models: $run"
    collect
  done
  # Copies beside compute, one by one; a step that is traced is not captured.
  # shellcheck disable=SC2086
  [ -s "$out/copies.trace.json" ] || limited 60 "$out/copies.log" "$millrace" run --graph="$out/resnet50.pb" $train --steps=5 --strategy=planned \
    --device_memory=60% --trace_out="$out/copies.trace.json"
  collect
fi

if begins peers 450; then
  small=()
  [ $device = cuda ] || small=(--cpu --timeout=300 --models=unet3d --variants=eager,offload)
  limited 450 "$out/peers.log" python3 -u bench/peers_gpu.py --json="$out/peers.json" --steps=8 --timeout=100 --millrace="$millrace" \
    "${small[@]}" || tail -3 "$out/peers.log"
  collect
fi

if begins sizes "${MILLRACE_GPU_SIZES_SECONDS:-280}"; then
  for line in "${sizes[@]}"; do
    read -r name budget arguments <<<"$line"
    [ "$(left)" -gt 5 ] || break
    [ ! -s "$out/$name.json" ] || continue
    # shellcheck disable=SC2086
    generate "$name" $arguments || continue
    # shellcheck disable=SC2086
    limited 60 "$out/$name.log" "$millrace" run --graph="$out/$name.pb" $train --steps=2 --device_memory="$budget" \
      --host_memory="$host_memory" --v=1 --report_out="$out/$name.json"
    rm -f "$out/$name.pb"
    log "size $name"
    collect
  done
fi

if begins sanitizer 120 && [ $device = cuda ] && command -v compute-sanitizer >/dev/null; then
  for tool in memcheck racecheck synccheck; do
    log "compute-sanitizer $tool"
    [ "$(cat "$out/$tool.status" 2>/dev/null)" != 0 ] || continue
    limited 40 "$out/$tool.log" compute-sanitizer --tool "$tool" --error-exitcode 9 "$build/bin/cuda_test" \
      --gtest_filter='*CudaDeviceTest.*/reduction:*CudaDeviceTest.*/gather_scatter'
    echo $? >"$out/$tool.status"
  done
  collect
fi

if begins stream 90; then
  [ -x "$build/bin/stream_test" ] || ninja_within stream_test >>"$out/build.log" 2>&1
  limited 90 "$out/stream_test.log" "$build/bin/stream_test"
  echo $? >"$out/stream_test.status"
  collect
fi

rm -f "$out"/*.pb
collect
status=$?
cat "$out.report"
rm -f "$out.report"
exit $status
