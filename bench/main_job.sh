#!/usr/bin/env bash
# The main job: ResNet-50 trains on the CPU device, whole and within half of that memory, and the results are compared
# bit by bit. Installs packages and builds what is missing into build/. Usage: bench/main_job.sh, with the model's flags in the environment:
#   DEPTH (50) BATCH (8) IMAGE_SIZE (224) BUDGET (50%: of baseline's peak) STEPS (3)
set -euo pipefail
case ${1:-} in
  -h | --help) sed '1d; /^#/!Q; s/^# \{0,1\}//' "$0"; exit 0 ;;
esac
if [ $# != 0 ]; then
  echo "usage: [DEPTH=N] [BATCH=N] [IMAGE_SIZE=N] [BUDGET=SIZE] [STEPS=N] main_job.sh; --help tells more" >&2
  exit 2
fi
cd "$(dirname "$0")/.."

bash .ci/install_packages.sh
cmake --preset release >/dev/null
cmake --build --preset release --target millrace_main
graph=build/resnet.pb
build/bin/millrace model resnet --depth="${DEPTH:-50}" --batch="${BATCH:-8}" --image_size="${IMAGE_SIZE:-224}" --out="$graph"
build/bin/millrace compare --graph="$graph" --synthetic_feeds --fetches=loss:0 --targets=train --init_targets=init \
  --steps="${STEPS:-3}" --strategies=baseline,tensorflowmem,lru,planned --device_memory="${BUDGET:-50%}"
