#!/usr/bin/env bash
# Installs onnxruntime-node (test-only: the float32 reference of the agreement tests and benchmarks)
# into a cache outside the source tree, once. Prints the folder that holds node_modules.
set -euo pipefail

version=1.30.0
cache=${TESSERA_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/tessera}/onnxruntime-node-$version

if [ ! -f "$cache/complete" ]; then
  command -v npm >/dev/null || {
    echo "fetching onnxruntime-node needs npm" >&2
    exit 1
  }
  echo "installing onnxruntime-node@$version into $cache" >&2
  mkdir -p "$cache"
  (cd "$cache" && npm install --silent --no-audit --no-fund --ignore-scripts --prefix . \
    "onnxruntime-node@$version" >/dev/null)
  touch "$cache/complete"
fi
echo "$cache"
