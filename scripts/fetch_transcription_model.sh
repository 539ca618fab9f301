#!/usr/bin/env bash
# Fetches the speech recogniser moonshine, tiny, in 8 bits (encoder, merged decoder) from the npm registry,
# once (fetch_npm_files.sh), and writes its vocabulary, which lies in the package's program, as
# vocabulary.txt: a piece a line. Prints the folder.
#
#   folder=$(scripts/fetch_transcription_model.sh)
set -euo pipefail
cache=$("$(dirname "$0")/fetch_npm_files.sh" @moonshine-ai/moonshine-js 0.1.29 \
  1b1d41de625c6ccebc8a14b2fcbc8912e1241aaeec60ca936f4e3335d7087a2754d144559529973f41b28903934c0a836505e5202ee4f9b932f8575793450f96 \
  "22 MB" dist/model/tiny/quantized/encoder_model.onnx \
  dist/model/tiny/quantized/decoder_model_merged.onnx dist/moonshine.min.js)
if [ ! -f "$cache/vocabulary.txt" ]; then
  part=$(mktemp "$cache/vocabulary.XXXXXX")
  # The first three pieces ("<unk>", "<s>", "</s>") in base64 begin it.
  grep -o 'PHVuaz4KPHM+Cjwvcz4K[A-Za-z0-9+/=]*' "$cache/moonshine.min.js" | base64 --decode >"$part"
  chmod 644 "$part"
  mv "$part" "$cache/vocabulary.txt"
fi
echo "$cache"
