#!/usr/bin/env bash
# run_browser_test.sh SCRIPTED_SERVER [FOLDER]: the page's test; 77 and a reason where it cannot run.
set -euo pipefail
folder=$(dirname "$0")

browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)
node=$(command -v node || command -v nodejs || true)
if [ -z "$node" ]; then
  echo "skipped: there is no node"
  exit 77
fi
if [ -z "$browser" ]; then
  echo "skipped: there is no chromium (scripts/install_packages.sh browser)"
  exit 77
fi
exec "$node" "$folder/page_test.cjs" "$browser" "$@"
