#!/usr/bin/env bash
# Fetches the voice detector silero_vad (version 6) from the npm registry, once: the package's
# version is pinned, its digest is checked, and the model lies in a cache outside the source tree.
# Prints the model's path.
#
#   model=$(scripts/fetch_vad_model.sh)
set -euo pipefail

package=@ricky0123/vad-web
version=0.0.31
sha512=78f56af13bc1db5b1d1d2c5531938421ff4955aecc018a5a21a35778682c3ce88c08df316cf09d1762d2e5a623ed5451dd9c73bad79d815f59a6557ae4803516
cache=${TESSERA_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/tessera}/vad-web-$version

if [ ! -f "$cache/complete" ]; then
  command -v npm >/dev/null || {
    echo "fetching the model needs npm; scripts/install_packages.sh build installs it" >&2
    exit 1
  }
  mkdir -p "$cache"
  echo "fetching $package@$version (5 MB) into $cache" >&2
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  (cd "$work" && npm pack --silent "$package@$version" >/dev/null)
  archive=$(ls "$work"/*.tgz)
  found=$(sha512sum "$archive" | cut -d' ' -f1)
  if [ "$found" != "$sha512" ]; then
    echo "$package@$version: SHA-512 is $found, expected $sha512; nothing was installed" >&2
    exit 1
  fi
  tar -xzf "$archive" -C "$work"
  cp "$work/package/dist/silero_vad_v6.onnx" "$cache/"
  touch "$cache/complete"
fi
echo "$cache/silero_vad_v6.onnx"
