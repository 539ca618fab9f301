#!/usr/bin/env bash
# The demo's model that reads lines of text, as a service: fetches it, lays out a model repository, and serves it.
#
#   scripts/serve_demo.sh [BUILD_FOLDER [OPTIONS OF tessera serve...]]
# Writes to out/serve below the project's folder. examples/serve/read_line.py asks it.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
build=$(realpath "${1:-$root/build/release}")
options=("${@:2}")
models=$("$root/scripts/fetch_ocr_models.sh")
repository=$root/out/serve/models
mkdir -p "$repository/line/1"
cp "$models/ch_PP-OCRv4_rec_infer.onnx" "$repository/line/1/model.onnx"
cp "$models/ppocr_keys_v1.txt" "$root/out/serve/characters.txt"
echo '{"shapes": {"x": [1, 3, 48, 320]}}' > "$repository/line/config.json"
exec "$build/src/tools/tessera" serve --model-repository "$repository" "${options[@]}"
