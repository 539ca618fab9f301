#!/usr/bin/env bash
# What the language model answers is what it answers in ONNX Runtime, token by token.
#
#   run_chat.sh CHAT_PROGRAM DEVICE ARCHITECTURE
# Status 77 (skipped) where npm or node is absent.
set -euo pipefail
program=$1 device=$2 arch=$3 count=24
here=$(cd "$(dirname "$0")" && pwd)
scripts=$here/../../scripts
for tool in npm node; do
  command -v "$tool" >/dev/null || {
    echo "skipped: $tool is needed to fetch the model and for ONNX Runtime"
    exit 77
  }
done
model=$("$scripts/fetch_chat_model.sh")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$program" "What is the capital of France?" --tokens "$count" --model "$model" \
  --device "$device" --arch "$arch" --json >"$work/answer.json"
prompt=$(/usr/bin/python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["prompt_tokens"])' \
  "$work/answer.json")
wanted=$(NODE_PATH=$("$scripts/fetch_onnxruntime.sh")/node_modules \
  node "$here/chat.cjs" "$model/model_quantized.onnx" "$prompt" "$count")
/usr/bin/python3 - "$work/answer.json" "$wanted" <<'PYTHON'
import json
import sys

with open(sys.argv[1]) as file:
    answer = json.load(file)
wanted = json.loads(sys.argv[2])
assert len(wanted) > 8, wanted
assert answer["tokens"] == wanted, (answer["tokens"], wanted)
print(len(wanted), "tokens, as in float32:", answer["text"])
PYTHON
