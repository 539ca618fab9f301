#!/usr/bin/env bash
# A recording's words are those that ONNX Runtime writes, token by token.
#
#   run_transcribe.sh TRANSCRIBE_PROGRAM DEVICE RECORDING.wav NETWORKS_FOLDER
# Status 77 (skipped) where the recording, npm or node is absent.
set -euo pipefail
program=$1 device=$2 recording=$3 networks=$4
here=$(cd "$(dirname "$0")" && pwd)
scripts=$here/../../scripts
[ -f "$recording" ] || {
  echo "skipped: there is no recording $recording"
  exit 77
}
for tool in npm node; do
  command -v "$tool" >/dev/null || {
    echo "skipped: $tool is needed to fetch the model and for ONNX Runtime"
    exit 77
  }
done
model=$("$scripts/fetch_transcription_model.sh")
wanted=$(NODE_PATH=$("$scripts/fetch_onnxruntime.sh")/node_modules \
  node "$here/transcribe.cjs" "$model" "$recording")
"$program" "$recording" --model "$model" --device "$device" --networks "$networks" --json |
  /usr/bin/python3 -c '
import json
import sys

wanted = json.loads(sys.argv[1])
recording = json.load(sys.stdin)["recordings"][0]
assert len(wanted) > 10, wanted
assert recording["tokens"] == wanted, (recording["tokens"], wanted)
assert recording["complete"]
print(len(wanted), "tokens, as in float32:", recording["text"])
' "$wanted"
