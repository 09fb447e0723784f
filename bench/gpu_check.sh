#!/usr/bin/env bash
# Usage: bench/gpu_check.sh OUT_FOLDER [BUNDLE_FOLDER [PART ...]]
# Builds from source, runs the GPU tests and benches, and writes results.json, summary.md and logs into OUT_FOLDER; the
# last lines printed are a verdict per goal, misses last, and the ends of failing logs. Uses no network: what the machine lacks comes from BUNDLE_FOLDER
# (bench/gpu_bundle.sh; "" for none). A part that fails, hangs or loses the device leaves the others their turn: each
# program runs in a process of its own under a time limit, and so does each part. Exit status 1 when a goal was missed.
#
# Parts, all by default and in this order, with the seconds that each is sure to have of a call's 570; what a part leaves goes to those
# behind it. All together are more than a call: `first`, `second` and `third` name the parts of three calls, each of which is estimated to
# fit one.
# On 16 cores and an H200 at e629d4c build took 182 s, device to launches, but for what of the budgets only its bits count, 3, 61, 11, 44, 80,
# 60 and 2 s, sanitizer and ten of the sizes side by side 119; what only its bits count took 62. Since then sources grew by 30 %, cases by 40 %.
#
#   build        290   the program and the plugin, then the device's tests, then those of the parts nets and sessions where these are
#                      wanted; not in less than it needs, at most MILLRACE_GPU_BUILD_SECONDS (500) and a minute for either tests
#   device        10   opens it, and is refused a budget above its memory and a device that is not visible
#   warm           0   torch.compile fills its caches, beside what follows up to the first part that measures time
#   conformance   90   a process per family of cases, eight at once; those whose kernels never ran on a device first
#   fixtures      20   TensorFlow's graphs: its results; the same bits under strategies and partition sizes; eight at once
#   sanitizer     60   compute-sanitizer's tools on one family of cases after the other, six at once
#   nets          40   random networks: near what they give as they are, the same bits under random plans, steps that fail
#   sessions      60   what sessions promise (tests/session), but for what needs a second device
#   models        60   baseline of four models
#   peers         80   PyTorch eager, plain copies, ResNet-50 with TF32 on both sides
#   budgets      150   60 % of all models, 80 and 45 % of ResNet-50, as streams, copies beside compute; then what only its bits count of
#   launches      10   a chain of tiny nodes, as streams and as a graph
#   more         240   nothing fused, channels last, 32 queues, measured convolutions
#   sizes        120   TensorFlowMem's and TFLMS's tables, two at once
#   others       390   torch.compile, then PyTorch's other ways, and Millrace beside them; 350 s on an H200 without torch.compile
#   stream         0   the stream engine's tests, built and run on the CPU when all else is done
#
# They share the build (MILLRACE_GPU_BUILD, the tree's build-gpu) and OUT_FOLDER, so they may also be run by several calls, each of which
# reports on all that there is by then. A part that is named again does what is missing of it: what a call had no time for or cut
# short. What failed, or took longer than its own limit, is a result. Another build's results are thrown away, but for those of PyTorch.
# A part without time is passed over. Test programs that the build did not come to are built by the parts that run them. Beside every
# LABEL.log is LABEL.status: the exit status, or 124 and which limit ended it. After every part results.json, summary.md and
# logs.tar.gz in OUT_FOLDER are up to date, and copied to the folder MILLRACE_GPU_COPY where that is set (it is made if need be): all there is
# to take away, also of a call that is cut short. MILLRACE_GPU_HOST_MEMORY (90GB) is what a run of a large model may page-lock.
# MILLRACE_GPU_SECONDS (570): no program runs longer than this after the script began. MILLRACE_GPU_COMMIT names the commit where
# the tree came without its history. Folders that are given are relative to the caller's.
#
# Without a device every goal is 'no device' and the exit status is 0. MILLRACE_GPU_DRY_RUN=1 then runs all parts
# nonetheless, small models on the emulated device, which tries the script and measures nothing.
set -uo pipefail
case ${1:-} in
  -h | --help) sed '1d; /^#/!Q; s/^# \{0,1\}//' "$0"; exit 0 ;;
  "" | -*) echo "usage: gpu_check.sh OUT_FOLDER [BUNDLE_FOLDER [PART ...]]; --help tells more" >&2; exit 2 ;;
esac
out=$1
bundle=${2:-}
shift $(($# < 2 ? $# : 2))
known="build device warm conformance fixtures sanitizer nets sessions models peers budgets launches more sizes others stream"
declare -A share=([build]=290 [device]=10 [warm]=0 [conformance]=90 [fixtures]=20 [sanitizer]=60 [nets]=40 [sessions]=60 [models]=60 [peers]=80
  [budgets]=150 [launches]=10 [more]=240 [sizes]=120 [others]=390 [stream]=0)
# Each begins with the build, which takes seconds where it is done, as do the sessions of the third, which may be cut short in the first.
declare -A calls=([first]="build device warm conformance fixtures sanitizer nets sessions" [second]="build models peers budgets launches more"
  [third]="build sessions sizes others stream")
wanted=${*:-$known} parts=" "
for part in $wanted; do parts+="${calls[$part]:-$part} "; done
for part in $parts; do
  [[ " $known " == *" $part "* ]] || { echo "gpu_check: no part '$part', only: $known first second third" >&2; exit 2; }
done
command -v python3 >/dev/null || { echo "gpu_check: python3 is needed" >&2; exit 2; }
tree=$(realpath "$(dirname "$0")/..")
out=$(realpath -m "$out")
bundle=${bundle:+$(realpath -m "$bundle")}
build=$(realpath -m "${MILLRACE_GPU_BUILD:-$tree/build-gpu}")
copy=${MILLRACE_GPU_COPY:+$(realpath -m "$MILLRACE_GPU_COPY")}
cd "$tree" && mkdir -p "$out" ${copy:+"$copy"} || exit 2
jobs=$(nproc)
deadline=$((SECONDS + ${MILLRACE_GPU_SECONDS:-570}))
report() { python3 bench/gpu_report.py "$out" "$@"; }
log() { printf '%s %s\n' "$(date +%T)" "$*"; }
part_end=$deadline
# begins PART: whether the part is wanted. What it runs ends when only the shares of the wanted parts behind it are left of
# the call, not before it has had its own.
begins() {
  [[ $parts == *" $1 "* ]] || return 1
  local part later=0 seen=
  for part in $known; do
    [ -z "$seen" ] || [[ $parts != *" $part "* ]] || later=$((later + share[$part]))
    [ "$part" != "$1" ] || seen=1
  done
  part_end=$((deadline - later))
  [ $part_end -gt $((SECONDS + share[$1])) ] || part_end=$((SECONDS + share[$1]))
  [ "$(left)" -gt 0 ] || { log "$1: no time is left"; return 1; }
  log "$1, within $(left) s"
}
# room COUNT: waits until fewer background jobs run.
room() { while [ "$(jobs -rp | wc -l)" -ge "$1" ]; do wait -n; done; }
# A log that grows as it is read (tar's status 1) is packed as far as it was.
pack_logs() {
  tar -C "$out" --exclude=logs.tar.gz --exclude='*.pb' --warning=no-file-changed "$@" -czf "$out.logs.tar.gz" .
  [ $? -gt 1 ] || mv "$out.logs.tar.gz" "$out/logs.tar.gz"
}
# take_away FILE ...
take_away() { [ -z "$copy" ] || cp "$@" "$copy"; }
# What there is by now: report and logs.
collect() {
  pack_logs
  # Small enough to be taken away wherever it runs: without what is largest where it is not.
  [ "$(stat -c %s "$out/logs.tar.gz" 2>/dev/null || echo 0)" -le 15000000 ] || pack_logs --exclude='*.trace.json' --exclude='*.json'
  local options=()
  [ "$device" = cuda ] || options=(--dry-run)
  report "${options[@]}" >"$out.report"
  local status=$?
  take_away "$out"/results.json "$out"/summary.md "$out"/logs.tar.gz
  return $status
}
# Nothing can run: goals are 'not built'. What was printed before says why.
give_up() {
  report --build-failed >/dev/null
  take_away "$out"/results.json "$out"/summary.md "$out"/*.log
  exit 1
}
# Seconds until the part or the call is over.
left() { echo $((part_end < deadline ? part_end - SECONDS : deadline - SECONDS)); }

# shellcheck source=bench/gpu_limits.sh
. bench/gpu_limits.sh

device=cuda
# Where the toolkit's programs are (compute-sanitizer, nvcc) in images that leave them out of the path.
[ ! -d /usr/local/cuda/bin ] || export PATH=$PATH:/usr/local/cuda/bin
# later_libraries FOLDER: searched behind what is searched by now.
later_libraries() { export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$1; }
# The driver that is found without this variable (it may be a newer one than the system's, of CUDA's compatibility package) stays the
# one that is found with it; then where containers get their driver from.
driver=$(PATH=$PATH:/sbin:/usr/sbin ldconfig -p 2>/dev/null | awk '$1 == "libcuda.so.1" && /x86-64/ { print $NF; exit }')
[ -z "$driver" ] || later_libraries "$(dirname "$driver")"
[ ! -d /usr/local/nvidia/lib64 ] || later_libraries /usr/local/nvidia/lib64
# 0: there is a device. 1: there is none. Else there is one that does not answer, which the goals will say.
timeout --kill-after=5 60 python3 - <<'PY'
import ctypes, glob, sys
try:
    cuda = ctypes.CDLL("libcuda.so.1")
except OSError:
    sys.exit(2 if glob.glob("/dev/nvidia[0-9]*") else 1)
count, no_device = ctypes.c_int(0), 100
status = cuda.cuInit(0) or cuda.cuDeviceGetCount(ctypes.byref(count))
sys.exit(1 if status == no_device else 2 if status != 0 else 0 if count.value > 0 else 1)
PY
probed=$?
[ $probed -lt 2 ] || echo "gpu_check: a device is there, but its driver does not answer" >&2
if [ $probed = 1 ]; then
  echo "no device"
  if [ "${MILLRACE_GPU_DRY_RUN:-0}" != 1 ]; then
    report --no-device
    take_away "$out"/results.json "$out"/summary.md
    exit 0
  fi
  device=cuda_emulated
fi

if [ -n "$bundle" ]; then
  # shellcheck source=bench/gpu_unpack.sh
  . bench/gpu_unpack.sh
fi
millrace=$build/bin/millrace
# Tests ask for it when they are configured, the fixtures when they run.
numpy_python=
for candidate in "$(command -v python3)" /usr/bin/python3; do
  [ -n "$numpy_python" ] || ! "$candidate" -c "import numpy" 2>/dev/null || numpy_python=$candidate
done

train="--fetches=loss:0 --targets=train --init_targets=init --synthetic_feeds"
# generate NAME ARGUMENTS ...: NAME.pb is there only as a whole.
generate() {
  local name=$1
  shift
  [ ! -s "$out/$name.pb" ] || return 0
  limited 60 "$out/$name.model" "$millrace" model "$@" --out="$out/$name.part.pb" && mv "$out/$name.part.pb" "$out/$name.pb"
}
# opens: whether a small model trains on the device.
opens() {
  generate opening lstm --batch=2 --hidden=16 --layers=1 --steps_unrolled=4 --vocab=50 --dropout=0 || return
  # shellcheck disable=SC2086
  watched 30 "$out/opens" "$millrace" run --graph="$out/opening.pb" $train --device=$device --steps=2 --v=1
}

# within COMMAND ...: 124 when the part or the call was over, or had no time for it.
within() {
  local left
  left=$(left)
  [ "$left" -gt 5 ] || return 124
  timeout --kill-after=5 "$left" "$@"
}
make=(ninja -C "$build" -j "$jobs" -k 0)  # goes on where one target does not build
# build_test TEST: with TEST.build.log and TEST.build.status.
build_test() { [ -n "$numpy_python" ] && limited 500 "$out/$1.build" "${make[@]}" "$1"; }
# built TEST: whether it is there and of this build, by now.
built() {
  if [ -x "$build/bin/$1" ] && ! outdated "$build/bin/$1" && ! grep -qsv '^0 ' "$out/$1.build.status"; then return 0; fi
  build_test "$1"
}
if begins build; then
  started=$SECONDS part_end=$((SECONDS + ${MILLRACE_GPU_BUILD_SECONDS:-500}))
  # Of a build that goes on where a former call was cut short, all seconds count; a build that was finished keeps its figure.
  before=$([ "$(cat "$out/build.status" 2>/dev/null || echo 0)" = 0 ] || cat "$out/build.seconds" 2>/dev/null)
  for tool in cmake ninja g++ nvcc; do
    command -v $tool >/dev/null || [ -x /usr/local/cuda/bin/$tool ] || echo "gpu_check: $tool was not found" >&2
  done
  timeout 20 nvidia-smi >"$out/nvidia-smi.log" 2>&1
  architecture=$(timeout 20 nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | head -1 | tr -d ' ')
  [[ $architecture =~ ^[0-9]+\.[0-9]$ ]] || architecture=90
  # Without a Python with NumPy the tests are left out.
  tests=$([ -n "$numpy_python" ] && echo ON || echo OFF)
  # Compilers that are newer than the bundle's headers: what these took for included, and no warning is an error. The common headers are read
  # as text behind these, so that no file lacks one that it does not lack where they are precompiled.
  headers="-include cstdint -include stdexcept -include algorithm"
  # What is measured comes first; tests that do not build leave the rest to be measured.
  {
    within cmake -S . -B "$build" -G Ninja -DMILLRACE_CUDA_ARCHITECTURES="${architecture/./}-real" -DMILLRACE_BENCH=OFF \
      -DMILLRACE_TESTS="$tests" -DMILLRACE_PYTHON="$numpy_python" -DMILLRACE_WERROR=OFF -DMILLRACE_PRECOMPILE=ON \
      -DMILLRACE_UNITY=ON -DCMAKE_CXX_FLAGS="$headers" &&
      within "${make[@]}" millrace_main millrace_cuda_plugin
  } >"$out/build.log" 2>&1
  echo $? >"$out/build.status"
  part_end=$((SECONDS + 60))  # what is not built by then, the parts that need it build
  # What is wrong with the device or its libraries is known before the tests are there.
  opening=$SECONDS
  [ ! -x "$millrace" ] || opens || { echo "gpu_check: the device does not open:" && tail -qn 3 "$out"/opens.{log,*.txt} | cut -c 1-300; } 2>/dev/null
  started=$((started + SECONDS - opening))
  build_test cuda_test
  [ -z "$before" ] && [ -e "$out/build.seconds" ] || echo $((${before:-0} + SECONDS - started)) >"$out/build.seconds"
  log "built in $((SECONDS - started)) s"
  [ "$(cat "$out/build.status")" = 0 ] || grep -m 10 -iE "error|not found|failed|is required" "$out/build.log" | cut -c 1-300
  part_end=$((SECONDS + 60))
  later=()
  [[ $parts != *" nets "* ]] || later+=(random_nets_test failing_steps_test)
  [[ $parts != *" sessions "* ]] || later+=(session_test)
  [ ${#later[@]} = 0 ] || [ -z "$numpy_python" ] || within "${make[@]}" "${later[@]}" >"$out/later.build.log" 2>&1
fi
if [ ! -x "$millrace" ]; then
  echo "gpu_check: not built"
  grep -m 10 -iE "error|not found|failed|is required" "$out/build.log" | cut -c 1-300
  tail -15 "$out/build.log" | cut -c 1-300
  give_up
fi
forget_former_builds

# name, arguments of the generator; bench/peers_gpu.py has counterparts of the first four.
models=(
  "resnet50 resnet --depth=50 --batch=64 --image_size=224"
  "lstm lstm --batch=64 --hidden=1000 --layers=1 --steps_unrolled=100 --vocab=1000 --dropout=0"
  "unet3d unet3d --batch=1"
  "moe_transformer moe_transformer --batch=8 --dropout=0"
  "lstm_dropout lstm --batch=64 --hidden=1000 --layers=1 --steps_unrolled=25 --vocab=1000 --dropout=0.5"
)
# name, budget, arguments: TensorFlowMem's tables, those that take longest first, then TFLMS's resolutions. bench/gpu_report.py names
# them too. No budget is below what a single node needs: the gradient of GoogLeNet's first pool holds 12.05 GB at batch 15; a
# concatenation of the 3D U-Net at 256^3 26 GB.
sizes=(
  "moe_48 12GB moe_transformer --experts=48 --batch=8"
  "resnet_1916_b16 12GB resnet --depth=1916 --batch=16"
  "deepspeech_800 12GB deepspeech --steps_unrolled=800"
  "moe_12 12GB moe_transformer --experts=12 --batch=8"
  "googlenet_2240_b15 16GB googlenet --image_size=2240 --batch=15"
  "googlenet_2240_b11 12GB googlenet --image_size=2240 --batch=11"
  "deepspeech_400 12GB deepspeech --steps_unrolled=400"
  "resnet50_7500 16GB resnet --depth=50 --batch=1 --image_size=7500"
  "deeplab_2048 16GB deeplab --batch=1 --image_size=2048"
  "unet3d_192 16GB unet3d --batch=1 --image_size=192"
  "resnet_1001_b32 12GB resnet --depth=1001 --batch=32"
  "resnet_1001_b16 12GB resnet --depth=1001 --batch=16"
  "resnet_504_b16 12GB resnet --depth=504 --batch=16"
)
if [ $device = cuda_emulated ]; then
  models=("resnet50 resnet --depth=11 --batch=2 --image_size=32 --variant=cifar"
    "lstm lstm --batch=4 --hidden=16 --layers=1 --steps_unrolled=8 --vocab=50 --dropout=0"
    "unet3d unet3d --batch=1 --image_size=8 --channels=2 --levels=2"
    "moe_transformer moe_transformer --batch=2 --hidden=16 --heads=2 --layers=1 --steps_unrolled=4 --vocab=50 --dropout=0"
    "lstm_dropout lstm --batch=2 --hidden=16 --layers=1 --steps_unrolled=4 --vocab=50 --dropout=0.5")
  sizes=("resnet_1001_b32 70% resnet --depth=11 --batch=1 --image_size=32 --variant=cifar")
fi
# Page-locked memory does not come back when a machine runs short of it. Not read from /proc/meminfo: virtual machines
# whose memory grows as it is used show less there.
host_memory=${MILLRACE_GPU_HOST_MEMORY:-90GB}
# What may run at once where no time is measured.
wide=$((jobs < 8 ? jobs : 8))

# graph_of NAME: generates a model's graph.
graph_of() {
  local line
  for line in "${models[@]}"; do
    # shellcheck disable=SC2086
    [ "${line%% *}" != "$1" ] || generate $line || return 1
  done
}
# run_model NAME STRATEGY GRAPH BUDGET SECONDS [FLAG ...]: the run NAME.STRATEGY.GRAPH.BUDGET, where it is not done. Steps enough for
# three rounds of measured times, after each of which a step runs on streams and one is captured; the last ones are what counts.
# `measured`, `unfused`, `last` and `tf32` are baseline with the flags given, `queues` is planned with more of the device's queues.
run_model() {
  local name=$1 strategy=$2 graph=$3 budget=$4 seconds=$5 label=$1.$2.$3.$4 options=() run
  shift 5
  ! is_done "$out/$label" || return 0
  graph_of "$name" || return 1
  case $strategy in planned | queues) strategy=planned ;; *) strategy=baseline ;; esac
  [ "$budget" = 0 ] || options=(--device_memory="$budget%")
  rm -f "$out/$label.json"
  [ "$strategy" != planned ] || options+=(--plan_out="$out/$label.plan.txt")
  # shellcheck disable=SC2206
  run=("$millrace" run --graph="$out/$name.pb" $train --device=$device --steps=40 --replan=wait --cuda_graph="$graph"
    --strategy=$strategy "${options[@]}" "$@" --v=1)
  limited "$seconds" "$out/$label" "${run[@]}" --report_out="$out/$label.json" --profile_out="$out/$label.profile.txt"
  again $? "$out/$label" "${run[@]}"
}

if begins device; then
  opens
  if [ -s "$out/opening.pb" ]; then
    # shellcheck disable=SC2086
    limited 20 "$out/too_large" "$millrace" run --graph="$out/opening.pb" $train --device=$device --device_memory=100000GB &
    # shellcheck disable=SC2086
    limited 20 "$out/hidden" env CUDA_VISIBLE_DEVICES= "$millrace" run --graph="$out/opening.pb" $train --device=cuda &
    wait
  fi
  about=()
  [ $device = cuda ] || about=(emulated)
  python3 bench/gpu_about.py "$out" "${about[@]}"
  collect
fi

peers=(python3 -u bench/peers_gpu.py --steps=8 --timeout=100)
[ $device = cuda ] || peers+=(--cpu --timeout=300 --models=unet3d)
# What torch.compile has compiled before takes a fraction of the time where it is measured. Not a job of this shell's any more: other parts
# do not wait for it.
warming=
if [[ $parts == *" warm "* ]] && ! is_done "$out/warm"; then
  log "warm, beside what follows"
  (part_end=$deadline && limited 200 "$out/warm" "${peers[@]}" --warm --timeout=190) &
  warming=$!
  disown
fi
# Those with kernels that were written or rewritten since a device ran them (71eccd36); those without a kernel on the device.
first_families="linalg device_sizes complex sampling random special cudnn recurrent pool norm picture rare_picture quantize sparse sparse_algebra rank diagonal segment ctc
  layout conv matmul reduction gather_scatter slice array unary binary variable"
last_families="audio clustering decoder errors formats media ragged records string_codes strings"
if begins conformance; then
  # A process per family, some at once: one that loses the device ends alone.
  mkdir -p "$out/conformance"
  if built cuda_test && limited 60 "$out/cuda_test.list" "$build/bin/cuda_test" --gtest_list_tests; then
    awk -v first="${first_families//$'\n'/ }" -v last="$last_families" '
      BEGIN {
        count = split(first, family, " ")
        for (i = 1; i <= count; ++i) { rank[family[i]] = i; rank["more_" family[i]] = count + 1 }
        for (i = split(last, family, " "); i > 0; --i) rank[family[i]] = rank["more_" family[i]] = count + 3
      }
      /^[^ ]/ { suite = $1 }
      /^ / && suite ~ /CudaDeviceTest/ { name = $1; sub(/.*\//, "", name); print (name in rank ? rank[name] : count + 2), suite $1 }' \
      "$out/cuda_test.list.log" | sort -s -n -k 1,1 | cut -d ' ' -f 2 >"$out/conformance/tests.txt"
    while read -r test; do
      ! is_done "$out/conformance/${test##*/}" cuda_test || continue
      room $wide
      watched 100 "$out/conformance/${test##*/}" "$build/bin/cuda_test" --gtest_filter="$test" &
    done <"$out/conformance/tests.txt"
  fi
  wait
  collect
fi

[ -n "$numpy_python" ] || echo "gpu_check: no python3 with NumPy: without fixtures and tests" >&2
# fixture SECONDS BASE MODE NAME ARGUMENT ...: in the background, where it is not done.
fixture() {
  local seconds=$1 base=$2 mode=$3 name=$4
  shift 4
  ! is_done "$base" || return 0
  room $wide
  watched "$seconds" "$base" "$numpy_python" tests/e2e/run_fixture.py "$mode" "$millrace" "tests/e2e/fixtures/$name" "$@" &
}
if [ -n "$numpy_python" ] && begins fixtures; then
  mkdir -p "$out/fixtures" "$out/bits"
  strategies=("--strategy=tensorflowmem --partition_size=1" "--strategy=tensorflowmem --partition_size=50"
    "--strategy=tensorflowmem --device_memory=80%" "--strategy=lru --device_memory=80%" "--strategy=tflms --swapout_threshold=3"
    "--strategy=reactive --occupancy_threshold=0.2 --device_memory=140%" "--strategy=planned --device_memory=70%")
  names=$(cd tests/e2e/fixtures && printf '%s\n' */ | tr -d /)
  echo "$names" >"$out/fixtures/names"
  echo mlp_ref lstm_ptb >"$out/bits/names"
  for name in mlp_ref lstm_ptb; do
    fixture 100 "$out/bits/$name" same_bits $name --in_all=--device=$device "${strategies[@]}"
  done
  for name in $names; do
    fixture 100 "$out/fixtures/$name" agree "$name" --device=$device --strategy=planned --device_memory=60%
  done
  wait
  # What does not agree, once more without a budget, and then without rewrites for the device, which says whose fault it is.
  for name in $names; do
    grep -qsEv "^(0|124)( |$)" "$out/fixtures/$name.status" || continue
    fixture 100 "$out/fixtures/$name.baseline" agree "$name" --device=$device --strategy=baseline
    fixture 100 "$out/fixtures/$name.plain" agree "$name" --device=$device --strategy=baseline --fuse=off --channels_first=off --pack_rows=off
  done
  wait
  collect
fi

# Kernels whose threads share memory or order each other's writes, those first that no sanitizer has seen on a device: decompositions and other
# matrices, boxes of pictures, shuffles, samples; then sums, sorts, losses, transposes, norms.
sanitized="linalg device_sizes picture random sampling rare_picture reduction gather_scatter loss layout array norm segment ctc"
# sanitize TOOL FAMILY: only this project's own kernels, by their names: opening cuBLASLt and cuDNN takes long where every kernel of theirs is
# watched. Errors of calls are no finding: some are asked for, such as whether memory is page-locked.
sanitize() {
  local tool=$1 family=$2 options=(--error-exitcode 9)
  ! is_done "$out/sanitizer/$tool.$family" cuda_test || return 0
  [[ $sanitizer_help != *--kernel-name* ]] || options+=(--kernel-name kernel_substring=millrace)
  [[ $tool != memcheck || $sanitizer_help != *--report-api-errors* ]] || options+=(--report-api-errors no)
  watched 100 "$out/sanitizer/$tool.$family" compute-sanitizer --tool "$tool" \
    "${options[@]}" "$build/bin/cuda_test" --gtest_filter="*CudaDeviceTest.*/$family"
}
if begins sanitizer; then
  mkdir -p "$out/sanitizer"
  echo "$sanitized" >"$out/sanitizer/families"
  rm -f "$out/sanitizer/absent"
  if [ $device != cuda ]; then
    echo "no device" >"$out/sanitizer/absent"
  elif ! command -v compute-sanitizer >/dev/null; then
    echo "compute-sanitizer was not found" >"$out/sanitizer/absent"
  else
    sanitizer_help=$(compute-sanitizer --help 2>&1)
    for family in $sanitized; do
      for tool in memcheck racecheck synccheck; do
        room 6
        sanitize $tool "$family" &
      done
    done
  fi
  wait
  collect
fi

# tests/random: a process per kind.
if begins nets; then
  mkdir -p "$out/nets"
  ready=
  for program in random_nets_test failing_steps_test; do ! built $program || ready+=" $program "; done
  for kind in Recurrent Images Sequences FailingSteps; do
    program=random_nets_test
    [ $kind != FailingSteps ] || program=failing_steps_test
    [[ $ready == *" $program "* ]] || continue
    ! is_done "$out/nets/$kind" $program || continue
    watched 200 "$out/nets/$kind" env MILLRACE_RANDOM_DEVICE=$device MILLRACE_RANDOM_NETS=10 "$build/bin/$program" --gtest_filter="*$kind*" &
  done
  wait
  collect
fi

# tests/session: a process per share of it.
if begins sessions; then
  mkdir -p "$out/sessions"
  left_out=$(awk '/^(streams|cuda|one_gpu) / {print $2}' tests/session/left_out.txt | paste -sd:)
  if built session_test; then
    for share in 0 1 2 3 4 5 6 7; do
      ! is_done "$out/sessions/$share" session_test || continue
      room $wide
      watched 300 "$out/sessions/$share" env MILLRACE_TEST_DEVICE=$device GTEST_TOTAL_SHARDS=8 GTEST_SHARD_INDEX=$share \
        "$build/bin/session_test" --gtest_filter="-$left_out" &
    done
    wait
  fi
  collect
fi

# From here on time is measured.
while [ -n "$warming" ] && kill -0 "$warming" 2>/dev/null; do sleep 1; done

if begins models; then
  for name in resnet50 lstm unet3d moe_transformer; do run_model $name baseline auto 0 60; done
  collect
fi

if begins peers; then
  limited 450 "$out/peers" "${peers[@]}" --json="$out/peers.json" --variants=eager || tail -3 "$out/peers.log"
  run_model resnet50 tf32 auto 0 60 --tf32
  limited 200 "$out/peers_tf32" "${peers[@]}" --json="$out/peers_tf32.json" --variants=eager --tf32 --models=resnet50 ||
    tail -3 "$out/peers_tf32.log"
  collect
fi

if begins budgets; then
  for name in resnet50 lstm unet3d moe_transformer; do run_model $name planned auto 60 60; done
  for budget in 80 45; do run_model resnet50 planned auto $budget 60; done
  collect
  # Copies beside compute, one by one; a step that is traced is not captured.
  # shellcheck disable=SC2086
  is_done "$out/copies" || ! graph_of resnet50 || limited 60 "$out/copies" "$millrace" run --graph="$out/resnet50.pb" $train --device=$device --steps=5 \
    --strategy=planned --recompute=off --device_memory=60% --trace_out="$out/copies.trace.json"
  for name in resnet50 lstm unet3d moe_transformer; do run_model $name baseline off 0 60; done
  collect
  # Only their bits count: some at once.
  for name in lstm unet3d moe_transformer; do
    graph_of $name || continue
    # Below 46 % a single node of the 3D U-Net has no room.
    lowest=45
    [ $name != unet3d ] || lowest=50
    for budget in 80 $lowest; do
      room 3
      run_model $name planned auto "$budget" 100 &
    done
  done
  wait
  graph_of lstm_dropout
  for graph in auto off; do run_model lstm_dropout baseline $graph 0 60 & done
  wait
  collect
fi

if begins launches; then
  python3 bench/chain_graph.py 2000 "$out/chain.pbtxt"
  for graph in on off; do
    label=chain.baseline.$graph.0
    is_done "$out/$label" || limited 60 "$out/$label" "$millrace" run --graph="$out/chain.pbtxt" --fetches=result:0 --synthetic_feeds \
      --device=$device --strategy=baseline --replan=off --steps=25 --cuda_graph=$graph --report_out="$out/$label.json"
  done
  collect
fi

if begins more; then
  # What joining nodes into groups is worth.
  for name in resnet50 unet3d lstm moe_transformer; do run_model $name unfused auto 0 60 --fuse=off; done
  # What turning convolutions around to channels first is worth.
  run_model resnet50 last auto 0 60 --channels_first=off
  # Whether streams that share the eight queues there are by default wait for one another.
  CUDA_DEVICE_MAX_CONNECTIONS=32 run_model resnet50 queues auto 60 60
  collect
  for name in resnet50 lstm moe_transformer unet3d; do run_model $name measured auto 0 120 --measure_convolutions; done
  collect
fi

# size NAME BUDGET ARGUMENT ...: trains it for four steps: kernels are loaded in the first, the second is captured.
size() {
  local name=$1 budget=$2 run
  shift 2
  generate "$name" "$@" || return 1
  rm -f "$out/$name.json"
  # shellcheck disable=SC2206
  run=("$millrace" run --graph="$out/$name.pb" $train --device=$device --steps=4 --device_memory="$budget"
    --host_memory="$host_memory" --v=1)
  limited 200 "$out/$name" "${run[@]}" --report_out="$out/$name.json"
  again $? "$out/$name" "${run[@]}"
  rm -f "$out/$name.pb"
}
if begins sizes; then
  for line in "${sizes[@]}"; do
    ! is_done "$out/${line%% *}" || continue
    [ "$(left)" -gt 5 ] || break
    room 2
    collect
    log "size ${line%% *}"
    # shellcheck disable=SC2086
    size $line &
  done
  wait
  collect
fi

if begins others; then
  for variants in compile eager,offload,checkpoint; do
    limited 500 "$out/peers_$variants" "${peers[@]}" --json="$out/peers.json" --millrace="$millrace" --variants=$variants ||
      tail -3 "$out/peers_$variants.log"
  done
  collect
fi

if begins stream; then
  ! built stream_test || is_done "$out/stream_test" stream_test || limited 90 "$out/stream_test" "$build/bin/stream_test"
fi

rm -f "$out"/*.pb
collect
status=$?
cat "$out.report"
rm -f "$out.report"
exit $status
