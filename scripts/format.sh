#!/usr/bin/env bash
# Formats the C++ files (--write), or fails and names those that are not formatted (--check).
set -euo pipefail
cd "$(dirname "$0")/.."
case "${1:-}" in
  --write) scripts/sources.sh | xargs -r clang-format-19 -i ;;
  --check) scripts/sources.sh | xargs -r clang-format-19 --dry-run --Werror ;;
  *)
    echo "usage: scripts/format.sh --write|--check" >&2
    exit 2
    ;;
esac
