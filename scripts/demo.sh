#!/usr/bin/env bash
# The demo: fetches the models, reads the text in a picture on the virtual processor.
#
#   scripts/demo.sh [BUILD_FOLDER [PICTURE [OPTIONS OF THE ocr PROGRAM...]]]
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
build=${1:-$root/build/release}
picture=${2:-$root/examples/ocr/picture/station.png}
models=$("$root/scripts/fetch_ocr_models.sh")
exec "$build/examples/ocr/ocr" "$picture" --models "$models" --output "$root/out/demo" "${@:3}"
