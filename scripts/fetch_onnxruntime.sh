#!/usr/bin/env bash
# Installs onnxruntime-node (test-only: the float32 reference of the agreement tests and benchmarks)
# and the package that it needs into a cache outside the source tree, once: the version is pinned, and
# the packages' digests are checked. Prints the folder that holds node_modules.
set -euo pipefail

version=1.30.0
size="114 MB"
# SHA-512 of each package.
node=b7086cd42d82fc1164cf5c9ce4e634288536194aba0d444eee10f86f1e50d90cb79c0309c115d6f31537355733136f5503d96894b3987a9a03f1f8d318e7c8ab
common=edf7555a30080f5755847fc6f2a2b700f011ba7578564045a024003fbaa9e1691a6f49aba2bbe673eb2a893fa62973b30ea7633798fefd9f676f883334f59cc8
cache=${TESSERA_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/tessera}/onnxruntime-node-$version

# Several may call it at once; one installs, the others wait.
if [ ! -f "$cache/complete" ]; then
  mkdir -p "$cache"
  exec 9>"$cache.lock"
  if command -v flock >/dev/null; then flock 9; fi
fi
if [ ! -f "$cache/complete" ]; then
  command -v npm >/dev/null || {
    echo "fetching onnxruntime-node needs npm; scripts/install_packages.sh build installs it" >&2
    exit 1
  }
  echo "fetching onnxruntime-node@$version ($size) into $cache" >&2
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  fetch() { # NAME SHA512
    (cd "$work" && npm pack --silent "$1@$version" >/dev/null)
    found=$(sha512sum "$work/$1-$version.tgz" | cut -d' ' -f1)
    if [ "$found" != "$2" ]; then
      echo "$1@$version: SHA-512 is $found, expected $2; nothing was installed" >&2
      exit 1
    fi
    mkdir -p "$work/node_modules/$1"
    tar -xzf "$work/$1-$version.tgz" -C "$work/node_modules/$1" --strip-components=1
  }
  fetch onnxruntime-common "$common"
  fetch onnxruntime-node "$node"
  rm -rf "$cache/node_modules"
  mv "$work/node_modules" "$cache/"
  touch "$cache/complete"
fi
echo "$cache"
