#!/usr/bin/env bash
# Runs compare_fused with ONNX Runtime from the cache; status 77 (skipped) where it cannot be had.
#
#   run_compare_fused.sh BUILD DATA [compare_fused's options...]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
build=$1
data=$2
shift 2
if [ ! -f "$data/cases/CASES.tsv" ]; then
  echo "skipped: '$data' has no cases/CASES.tsv"
  exit 77
fi
packages=$("$here/../../scripts/fetch_onnxruntime.sh") || {
  echo "skipped: ONNX Runtime is not there and cannot be fetched"
  exit 77
}
exec "$build/tests/models/compare_fused" "$data" "$here/fused_layers.cjs" "$packages" \
  "$build/tests/models/fused" "$@"
