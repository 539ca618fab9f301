#!/usr/bin/env bash
# A line of the demo's picture, read by the service and asked for by curl, as README.md shows it.
#
#   run_served.sh BUILD_FOLDER
# Ends with 77 where models, curl or Pillow are missing.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
build=$1
skip() {
  echo "skipped: $1"
  exit 77
}
command -v curl >/dev/null || skip "there is no curl"
/usr/bin/python3 -c 'import PIL' 2>/dev/null || skip "there is no Pillow"
"$root/scripts/fetch_ocr_models.sh" >/dev/null 2>&1 || skip "the models cannot be fetched"

work=$(mktemp -d)
"$root/scripts/serve_demo.sh" "$build" --http-port 0 --seconds 120 >"$work/events" &
server=$!
trap 'kill $server 2>/dev/null || true; wait $server || true; rm -rf "$work"' EXIT
for _ in $(seq 600); do
  grep -q '^line: ready' "$work/events" && break
  kill -0 $server || { cat "$work/events"; exit 1; }
  sleep 0.1
done
url=$(grep -o 'http://[0-9.:]*' "$work/events")
line=$root/examples/serve/read_line.py
found=$(/usr/bin/python3 -B "$line" request "$root/examples/ocr/picture/station.png" 50 396 352 436 |
  curl -s "$url/v2/models/line/infer" --data-binary @- |
  /usr/bin/python3 -B "$line" text "$root/out/serve/characters.txt")
echo "$found"
[ "$found" = "Lost property: room 203" ]
