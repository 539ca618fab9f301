#!/usr/bin/env bash
# Installs onnxruntime-node (test-only: the float32 reference of the agreement tests and benchmarks)
# into a cache outside the source tree, once. Prints the folder that holds node_modules.
set -euo pipefail

version=1.30.0
cache=${TESSERA_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/tessera}/onnxruntime-node-$version

# Several may call it at once; one installs, the others wait.
if [ ! -f "$cache/complete" ]; then
  mkdir -p "$cache"
  exec 9>"$cache.lock"
  if command -v flock >/dev/null; then flock 9; fi
fi
if [ ! -f "$cache/complete" ]; then
  command -v npm >/dev/null || {
    echo "fetching onnxruntime-node needs npm" >&2
    exit 1
  }
  echo "installing onnxruntime-node@$version into $cache" >&2
  (cd "$cache" && npm install --silent --no-audit --no-fund --ignore-scripts --prefix . \
    "onnxruntime-node@$version" >/dev/null)
  touch "$cache/complete"
fi
echo "$cache"
