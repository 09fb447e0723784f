#!/usr/bin/env bash
# Installs what is needed, builds everything into build/, runs every test. Fast when nothing changed.
# The last line is 'N passed, N skipped, N failed'; the exit status is 1 if any failed or the build did.
set -euo pipefail
cd "$(dirname "$0")/.."

bash .ci/install_packages.sh
# The test of pages needs a browser; without one it is among the skipped.
bash .ci/install_packages.sh chromium-headless-shell || echo "no chromium-headless-shell: e2e_html_page will be skipped" >&2
# A build of its own has device code of one kind of device and PTX for the others: assembling it for each is a third of the CUDA build.
one_device=()
if [ ! -e build/CMakeCache.txt ]; then one_device=("-DMILLRACE_CUDA_ARCHITECTURES=80-virtual;90-real;100-virtual"); fi
cmake --preset release "${one_device[@]}" >/dev/null
cmake --build --preset release
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
