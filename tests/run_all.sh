#!/usr/bin/env bash
# Installs what is needed, builds everything into build/, runs every test. Fast when nothing changed.
# The last line is 'N passed, N skipped, N failed'; the exit status is 1 if any failed or the build did.
set -euo pipefail
cd "$(dirname "$0")/.."

bash .ci/install_packages.sh
# The test of pages needs a browser, which comes while the rest is built; without one it is among the skipped.
bash .ci/install_packages.sh chromium-headless-shell || echo "no chromium-headless-shell: e2e_html_page will be skipped" >&2 &
trap wait EXIT  # also where the build fails: no package is installed behind the caller's back
# A build of its own has device code for the device that is there, or else the PTX that any can take: no kernel's text asks for
# which device it is compiled, and one with code of 9.0 takes ten times as long (fused.cu: 30 s, 3 as PTX).
# Several files are compiled as one then, since it is all built once.
configuration=()
if [ ! -e build/CMakeCache.txt ]; then
  if nvidia-smi -L >/dev/null 2>&1; then devices=native; else devices=80-virtual; fi
  configuration=("-DMILLRACE_CUDA_ARCHITECTURES=$devices" -DMILLRACE_UNITY=ON)
fi
cmake --preset release "${configuration[@]}" >/dev/null
cmake --build --preset release
wait
log=build/test.log
status=0
ctest --test-dir build --output-on-failure -j "$(nproc)" | tee "$log" || status=1
total=$(sed -n 's/.*tests passed, [0-9]* tests failed out of \([0-9]*\)/\1/p' "$log")
if [ -z "$total" ] || [ "$total" -eq 0 ]; then
  echo "no test ran" >&2
  exit 1
fi
failed=$(sed -n 's/.*tests passed, \([0-9]*\) tests failed out of.*/\1/p' "$log")
skipped=$(grep -c '\*\*\*Skipped' "$log" || true)
echo "$((total - failed - skipped)) passed, $skipped skipped, $failed failed"
exit "$status"
