#!/usr/bin/env bash
# Derives each source and runs it in ONNX Runtime. A model that is not there is named; status 77 (skipped)
# where none is, or where ONNX Runtime cannot be had.
#
#   run_derived.sh DERIVE_GRAPH FOLDER SOURCE...     SOURCE: a model, random:SEED, products:FORMAT or zeros
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
derive=$1
folder=$2
shift 2
packages=$("$here/../../scripts/fetch_onnxruntime.sh") || {
  echo "skipped: ONNX Runtime is not there and cannot be fetched"
  exit 77
}
compared=0
absent=0
for source in "$@"; do
  if [[ $source != random:* && $source != products:* && $source != zeros && ! -f $source ]]; then
    echo "'$source' is not there"
    absent=$((absent + 1))
    continue
  fi
  target=$folder/$(basename "$source" .onnx | tr : _)
  mkdir -p "$target"
  if ! "$derive" "$source" "$target" 2>"$target/refused"; then
    # Some random graphs hold what cannot be derived; a model must not.
    cat "$target/refused"
    [[ $source == random:* ]] && grep -q "cannot be derived exactly" "$target/refused" && continue
    exit 1
  fi
  node "$here/check_golden.cjs" "$packages" "$target/derived.onnx" "$target"
  compared=$((compared + 1))
  rm -rf "$target"
done
if [ "$absent" -eq $# ]; then
  echo "skipped: none of the models is there"
  exit 77
fi
[ "$compared" -gt 0 ] || { echo "nothing was compared"; exit 1; }
