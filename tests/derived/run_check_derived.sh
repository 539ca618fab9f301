#!/usr/bin/env bash
# Derived software everywhere (check_derived.cc), with what can be fetched; status 77 (skipped) where
# that cannot be had.
#
#   run_check_derived.sh BUILD DATA [--quick] [--only WORD]
set -euo pipefail
scripts=$(cd "$(dirname "$0")/../../scripts" && pwd)
build=$1
data=$2
shift 2
"$scripts/fetch_onnxruntime.sh" >/dev/null || {
  echo "skipped: ONNX Runtime is not there and cannot be fetched"
  exit 77
}
models=$("$scripts/fetch_ocr_models.sh") || {
  echo "skipped: the text models are not there and cannot be fetched"
  exit 77
}
exec "$build/tests/derived/check_derived" --data "$data" --text-models "$models" "$@"
