#!/usr/bin/env bash
# The demo: fetches the models, reads the text in a picture on the virtual processor.
#
#   scripts/demo.sh [BUILD_FOLDER [PICTURE [OPTIONS OF THE ocr PROGRAM...]]]
# Writes to out/demo below the project's folder.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
build=$(realpath "${1:-$root/build/release}")
picture=$(realpath "${2:-$root/examples/ocr/picture/station.png}")
options=("${@:3}")
# Without options also on four cores of a card.
if [ ${#options[@]} -eq 0 ]; then options=(--cores 4); fi
models=$("$root/scripts/fetch_ocr_models.sh")
cd "$root"
exec "$build/examples/ocr/ocr" "$picture" --models "$models" --output out/demo "${options[@]}"
