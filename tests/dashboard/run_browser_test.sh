#!/usr/bin/env bash
# run_browser_test.sh TEST PROGRAM [FOLDER]: the test of a page (page_test.cjs: PROGRAM is scripted_server;
# pool_test.cjs: tessera); 77 and a reason where it cannot run.
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
test=$1
shift
exec "$node" "$folder/$test" "$browser" "$@"
