#!/usr/bin/env bash
# Prints the project's C++ files, one per line: those that git knows and those it would add.
set -euo pipefail
cd "$(dirname "$0")/.."
git ls-files --cached --others --exclude-standard -- '*.h' '*.cc' | while read -r file; do
  [ -f "$file" ] && echo "$file"
done | sort -u
