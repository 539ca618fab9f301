#!/usr/bin/env bash
# Makes the Debian packages and the Python wheel of a build; they lie in BUILD_FOLDER/packages.
#
#   scripts/make_packages.sh [BUILD_FOLDER]      build/release
set -euo pipefail
build=$(realpath "${1:-$(dirname "$0")/../build/release}")
packages=$build/packages
rm -rf "$packages"
mkdir -p "$packages"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch" "$packages/_CPack_Packages"' EXIT

(cd "$build" && cpack) >"$scratch/cpack.log" 2>&1 || {
  cat "$scratch/cpack.log" >&2
  exit 1
}

# The wheel is made of a copy: setuptools writes into the folder that it builds.
if [ -d "$build/python/tessera" ]; then
  python=$(sed -n 's/^TESSERA_PYTHON:INTERNAL=//p' "$build/CMakeCache.txt")
  mkdir "$scratch/python"
  (cd "$build/python" && cp -r pyproject.toml setup.py README.md LICENSE NOTICE tessera "$scratch/python/")
  rm -rf "$scratch/python/tessera/__pycache__"
  strip --strip-unneeded "$scratch"/python/tessera/_native.*.so
  "$python" -m pip wheel --quiet --no-build-isolation --no-index --no-deps \
    --wheel-dir "$packages" "$scratch/python"
fi
find "$packages" -maxdepth 1 -type f | sort
