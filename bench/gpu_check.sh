#!/usr/bin/env bash
# Usage: bench/gpu_check.sh OUT_FOLDER [BUNDLE_FOLDER]
# Builds from source, runs the GPU tests and benches, and writes results.json, summary.md and logs into OUT_FOLDER; the
# last lines printed are a verdict per goal. Uses no network: what the machine lacks comes from BUNDLE_FOLDER
# (bench/gpu_bundle.sh). Without a device everything is 'not run' and the exit status is 0; a goal missed is 1.
set -uo pipefail
out=${1:?usage: gpu_check.sh OUT_FOLDER [BUNDLE_FOLDER]}
bundle=${2:-}
cd "$(dirname "$0")/.."
mkdir -p "$out"
out=$(cd "$out" && pwd)
build=${MILLRACE_GPU_BUILD:-build-gpu}
jobs=$(nproc)
report() { python3 bench/gpu_report.py "$out" "$@"; }
log() { printf '%s %s\n' "$(date +%T)" "$*"; }

if ! python3 - <<'PY'
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
  report --no-device
  exit 0
fi

if [ -n "$bundle" ]; then
  root=$PWD/$build/root
  mkdir -p "$root"
  for package in "$bundle"/*.deb; do dpkg -x "$package" "$root"; done
  export CMAKE_PREFIX_PATH=$root/usr PATH=$root/usr/bin:$PATH
  export LD_LIBRARY_PATH=$root/usr/lib/x86_64-linux-gnu:$root/usr/lib:${LD_LIBRARY_PATH:-}
  export CPATH=$root/usr/include LIBRARY_PATH=$root/usr/lib/x86_64-linux-gnu
  export PKG_CONFIG_PATH=$root/usr/lib/x86_64-linux-gnu/pkgconfig
fi

log "building"
architecture=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | head -1 | tr -d '.')
{
  cmake -S . -B "$build" -G Ninja -DMILLRACE_CUDA_ARCHITECTURES="${architecture:-90}-real" \
    -DMILLRACE_BENCH=OFF -DCMAKE_CXX_FLAGS=-Wno-error &&
    ninja -C "$build" -j "$jobs" millrace_main millrace_cuda_plugin cuda_test stream_test
} >"$out/build.log" 2>&1 || {
  tail -20 "$out/build.log"
  report --build-failed
  exit 1
}
millrace=$PWD/$build/bin/millrace

log "tests"
timeout 120 "$build/bin/cuda_test" >"$out/cuda_test.log" 2>&1
echo $? >"$out/cuda_test.status"
timeout 60 "$build/bin/stream_test" >"$out/stream_test.log" 2>&1
echo $? >"$out/stream_test.status"

log "models"
# name, arguments of the generator; bench/peers_gpu.py has counterparts of the first two.
models=(
  "resnet50 resnet --depth=50 --batch=64 --image_size=224"
  "lstm lstm --batch=64 --hidden=1000 --layers=1 --steps_unrolled=100 --vocab=1000 --dropout=0"
  "unet3d unet3d --batch=1"
  "moe_transformer moe_transformer --batch=8"
)
train="--fetches=loss:0 --targets=train --init_targets=init --synthetic_feeds --device=cuda"
for line in "${models[@]}"; do
  read -r name arguments <<<"$line"
  # shellcheck disable=SC2086
  "$millrace" model $arguments --out="$out/$name.pb" >"$out/$name.model.log" 2>&1 || continue
  for run in "baseline auto 0" "baseline off 0" "planned auto 80%" "planned auto 60%" "planned auto 45%"; do
    read -r strategy graph budget <<<"$run"
    label=$name.$strategy.$graph.${budget%\%}
    memory=()
    [ "$budget" = 0 ] || memory=(--device_memory="$budget")
    # shellcheck disable=SC2086
    timeout 60 "$millrace" run --graph="$out/$name.pb" $train --steps=8 --strategy="$strategy" --cuda_graph="$graph" \
      "${memory[@]}" --report_out="$out/$label.json" >"$out/$label.log" 2>&1
  done
done

log "caps of the papers"
for line in "resnet_1001_b32 resnet --depth=1001 --batch=32" "resnet_1916_b16 resnet --depth=1916 --batch=16"; do
  read -r name arguments <<<"$line"
  # shellcheck disable=SC2086
  "$millrace" model $arguments --out="$out/$name.pb" >"$out/$name.model.log" 2>&1 || continue
  # shellcheck disable=SC2086
  timeout 60 "$millrace" run --graph="$out/$name.pb" $train --steps=2 --device_memory=12GB \
    --report_out="$out/$name.json" >"$out/$name.log" 2>&1
done

log "peers"
timeout 150 python3 bench/peers_gpu.py --json="$out/peers.json" >"$out/peers.log" 2>&1 || tail -3 "$out/peers.log"

if command -v compute-sanitizer >/dev/null; then
  for tool in memcheck racecheck synccheck; do
    log "compute-sanitizer $tool"
    timeout 60 compute-sanitizer --tool "$tool" --error-exitcode 9 "$build/bin/cuda_test" \
      --gtest_filter='CudaDeviceTest.*' >"$out/$tool.log" 2>&1
    echo $? >"$out/$tool.status"
  done
fi
rm -f "$out"/*.pb
report
