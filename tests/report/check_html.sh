#!/bin/bash
# Uses a page of --html_out in headless Chromium as a person would (hover, click, wheel) and checks what it shows.
#   tests/report/check_html.sh PAGE.html [SCREENSHOT.png]
# Exit status: 0 passed, 1 failed, 77 no Chromium (Debian: chromium-headless-shell or chromium).
set -u
page=$(realpath "$1")
browser=
for name in chromium-headless-shell chromium google-chrome; do
  command -v "$name" > /dev/null && browser=$name && break
done
if [ -z "$browser" ]; then
  echo "SKIPPED: no Chromium here" >&2
  exit 77
fi
options=(--headless --no-sandbox --disable-gpu --window-size=1500,1200 --virtual-time-budget=20000)
if [ $# -gt 1 ]; then
  "$browser" "${options[@]}" --screenshot="$2" "file://$page" 2> /dev/null || exit 1
fi
result=$("$browser" "${options[@]}" --dump-dom "file://$page#selftest" 2> /dev/null | sed -n 's|.*<p id="selftest">\([^<]*\)</p>.*|\1|p')
echo "$result"
[[ $result == "selftest passed"* ]]
