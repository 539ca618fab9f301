#!/usr/bin/env bash
# Fetches the voice detector silero_vad (version 6) from the npm registry, once (fetch_npm_files.sh).
# Prints the model's path.
#
#   model=$(scripts/fetch_vad_model.sh)
set -euo pipefail
cache=$("$(dirname "$0")/fetch_npm_files.sh" @ricky0123/vad-web 0.0.31 \
  78f56af13bc1db5b1d1d2c5531938421ff4955aecc018a5a21a35778682c3ce88c08df316cf09d1762d2e5a623ed5451dd9c73bad79d815f59a6557ae4803516 \
  "5 MB" dist/silero_vad_v6.onnx)
echo "$cache/silero_vad_v6.onnx"
