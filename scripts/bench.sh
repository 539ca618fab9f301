#!/usr/bin/env bash
# Builds and runs the benchmarks: scripts/bench.sh BUILD_FOLDER [FILTER]
set -euo pipefail
build=$1
cmake --build "$build" --target tessera_benchmarks --parallel
found=0
for program in "$build"/bench/*_bench; do
  [ -x "$program" ] || continue
  found=1
  "$program" --benchmark_filter="${2:-.}"
done
[ "$found" -eq 1 ] || {
  echo "there is no benchmark in $build/bench" >&2
  exit 1
}
