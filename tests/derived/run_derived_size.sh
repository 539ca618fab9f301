#!/usr/bin/env bash
# The size of what is derived from stored models (derived_size.cc); each that is not there is skipped
# and named.
#
#   run_derived_size.sh PROGRAM DATA
set -euo pipefail
scripts=$(cd "$(dirname "$0")/../../scripts" && pwd)
models=$("$scripts/fetch_ocr_models.sh") || models=absent
exec "$1" --data "$2" --text-models "$models"
