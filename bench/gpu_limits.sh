# shellcheck shell=bash disable=SC2154
# Read by bench/gpu_check.sh: runs programs under time limits, and tells what need not run again. It has left(), build and out.

# limited SECONDS BASE COMMAND ...: writes BASE.log and BASE.status, and returns the exit status, 124 when a limit ended it. Where no
# time is left it does not start, and leaves neither.
limited() {
  local limit=$1 base=$2 left started=$SECONDS status note
  left=$(left)
  shift 2
  [ "$left" -gt 5 ] || return 124
  note="took longer than its $limit s"
  [ "$limit" -lt "$left" ] || { limit=$left note="ended after $left s, when its part or the call was over"; }
  timeout --kill-after=5 "$limit" "$@" >"$base.log" 2>&1
  status=$?
  # Killed by `timeout` itself only where the limit has passed.
  [ $status != 137 ] || [ $((SECONDS - started)) -lt "$limit" ] || status=124
  [ $status = 124 ] || note=
  echo "$status $note" >"$base.status"
  return $status
}
# watched SECONDS BASE COMMAND ...: `limited`, with what the driver, cuBLASLt and cuDNN say of errors in BASE.*.txt. Where no time is
# measured.
watched() {
  local seconds=$1 base=$2 status
  shift 2
  limited "$seconds" "$base" env CUDA_LOG_FILE="$base.cuda.txt" CUBLASLT_LOG_LEVEL=1 CUBLASLT_LOG_FILE="$base.cublaslt.txt" \
    CUDNN_LOGLEVEL_DBG=1 CUDNN_LOGDEST_DBG="$base.cudnn.txt" "$@"
  status=$?
  [ $status != 0 ] || rm -f "$base".{cuda,cublaslt,cudnn}.txt
  return $status
}
# again STATUS BASE COMMAND ...: repeats what failed (it was not refused, 2 and 3, or ended by a limit) to hear why.
again() {
  local status=$1 base=$2
  shift 2
  rm -f "$base.again".*
  case $status in 0 | 2 | 3 | 124) ;; *) watched 30 "$base.again" "$@" ;; esac
  return "$status"
}
# outdated FILE [TEST]: whether it is older than the program, the plugin or that test program.
outdated() { [ -n "$(find "$build/bin" \( -name millrace -o -name libmillrace_cuda.so -o -name "${2:-millrace}" \) -newer "$1" -print -quit)" ]; }
# is_done BASE [TEST]: it need not run again.
is_done() {
  local status note
  read -r status note 2>/dev/null <"$1.status" || return 1
  [ "$status" != 124 ] || [[ $note == took* ]] || return 1
  ! outdated "$1.status" "${2:-}"
}
# What former builds gave is not shown as this one's.
forget_former_builds() {
  local status
  [ ! -e "$out/about.json" ] || ! outdated "$out/about.json" || rm -f "$out/about.json"
  find "$out" -name '*.status' ! -name '*build.status' ! -name 'peers*' ! -name warm.status | while read -r status; do
    ! outdated "$status" || rm -f "${status%.status}".*
  done
}
