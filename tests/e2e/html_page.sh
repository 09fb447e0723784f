#!/bin/bash
# The page of a real run, and one of a plan with thousands of nodes, used in headless Chromium: html_page.sh MILLRACE.
# Exit status 77 (skipped) where there is no Chromium.
set -eu
millrace=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
what=(--fetches=loss:0 --targets=train --synthetic_feeds)
"$millrace" model mlp --batch=64 --hidden=256 --layers=6 --out="$folder/mlp.pb" > /dev/null
"$millrace" run --graph="$folder/mlp.pb" --init_targets=init "${what[@]}" --device_memory=80% --strategy=planned \
  --html_out="$folder/mlp.html" > /dev/null
"$millrace" model resnet --depth=302 --batch=2 --image_size=64 --out="$folder/resnet.pb" > /dev/null
"$millrace" plan --graph="$folder/resnet.pb" "${what[@]}" --device_memory=70% --strategy=tensorflowmem --partition_size=100 \
  --html_out="$folder/resnet.html" > /dev/null
for page in mlp resnet; do
  bash "$(dirname "$0")/../report/check_html.sh" "$folder/$page.html"
done
