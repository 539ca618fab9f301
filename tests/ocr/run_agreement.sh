#!/usr/bin/env bash
# Draws the pictures, fetches models and ONNX Runtime, and compares lines and tensors.
#
#   run_agreement.sh lines|cosine|float32|demo|folder BUILD_FOLDER [options of the program]
# Status 77 (skipped) where node or npm is absent.
set -euo pipefail
what=$1
build=$2
shift 2
root=$(cd "$(dirname "$0")/../.." && pwd)
command -v node >/dev/null && command -v npm >/dev/null || {
  echo "skipped: node and npm are needed for the float32 reference"
  exit 77
}
models=$("$root/scripts/fetch_ocr_models.sh")
packages=$("$root/scripts/fetch_onnxruntime.sh")
script=$root/bench/onnxruntime/onnxruntime_server.cjs
pictures=$build/tests/ocr/pictures
if [ ! -f "$pictures/complete" ]; then
  python=/usr/bin/python3
  "$python" "$root/tests/ocr/make_pictures.py" "$pictures"
  touch "$pictures/complete"
fi
station=$root/examples/ocr/picture/station.png
case $what in
  lines)
    "$build/tests/ocr/ocr_agreement" "$pictures" "$models" "$packages" "$script" \
      "$root/tests/ocr/explained.txt" "$@"
    ;;
  cosine)
    "$build/tests/ocr/ocr_cosine" "$models" "$packages" "$script" "$station" \
      "$pictures"/text{05,20,35}.png --cosine-min 0.9995 "$@"
    ;;
  float32)
    "$build/tests/ocr/ocr_cosine" "$models" "$packages" "$script" "$pictures/text35.png" \
      --arch f32 --rtol 1e-3 --atol 1e-5 "$@"
    ;;
  demo)
    # What is for folders is refused, not ignored.
    refused=$("$build/examples/ocr/ocr" "$station" --models "$models" --pace 1 2>&1) && status=0 || status=$?
    if [ "$status" -ne 1 ] || ! grep -q -- "--pace is for a folder of pictures" <<<"$refused"; then
      echo "FAILED: status $status, $refused"
      exit 1
    fi
    "$build/examples/ocr/ocr" "$station" --models "$models" --output "$build/tests/ocr/demo" "$@" \
      | tee "$build/tests/ocr/demo.txt"
    sed -nE 's/^ *[0-9]+ +[0-9.]+ %  (.*)/\1/p' "$build/tests/ocr/demo.txt" \
      | diff - "$root/examples/ocr/picture/station.txt"
    echo "1 passed, 0 failed"
    ;;
  folder)
    # A folder through the pipeline: the lines, boxes and confidences of one picture after the other,
    # and one file that is no picture does not stop the others.
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    cp "$pictures"/text{05,20,35}.png "$work/"
    echo "no picture" >"$work/text10.png"
    read_folder() {
      status=0
      "$build/examples/ocr/ocr" "$work" --models "$models" --frame 640x320 --json "${@:2}" \
        >"$work/$1.json" 2>"$work/$1.err" || status=$?
      if [ "$status" -ne 1 ] ||
        ! grep -q "1 of 4 pictures could not be read" "$work/$1.err"; then
        echo "FAILED: status $status"
        cat "$work/$1.err"
        exit 1
      fi
    }
    read_folder plain --device host --plain
    read_folder streamed "$@"
    /usr/bin/python3 - "$work" <<'PYTHON'
import json
import sys

plain, streamed = (json.load(open(f"{sys.argv[1]}/{name}.json"))["pictures"]
                   for name in ("plain", "streamed"))
assert [len(picture["lines"]) > 0 for picture in plain] == [True, False, True, True], plain
assert "text10.png" in plain[1]["error"], plain[1]
for ours, theirs in zip(streamed, plain, strict=True):
    ours["error"] = ours["error"].replace(" (stage 'decode')", "")
    assert ours == theirs, (ours, theirs)
PYTHON
    echo "1 passed, 0 failed"
    ;;
esac
