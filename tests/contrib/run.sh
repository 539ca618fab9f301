#!/usr/bin/env bash
# Every case of contrib_models.cc has in ONNX Runtime the outputs that it has here.
#
#   run.sh CONTRIB_MODELS_PROGRAM
# Status 77 (skipped) where npm or node is absent.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
for tool in npm node; do
  command -v "$tool" >/dev/null || {
    echo "skipped: $tool is needed for ONNX Runtime"
    exit 77
  }
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$1" "$work"
NODE_PATH=$("$here/../../scripts/fetch_onnxruntime.sh")/node_modules node "$here/compare.cjs" "$work"
