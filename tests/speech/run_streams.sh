#!/usr/bin/env bash
# All recordings of a folder side by side through the pipeline give what one chunk after the other
# gives: the same probabilities to the last digit, the same segments. Two kernels of every kind, and
# a processor that keeps wall time.
#
#   run_streams.sh SPEECH_PROGRAM RECORDINGS
# Status 77 (skipped) where the recordings or npm are absent.
set -euo pipefail
speech=$1 recordings=$2
root=$(cd "$(dirname "$0")/../.." && pwd)
[ -d "$recordings" ] || {
  echo "skipped: there is no folder $recordings with recordings"
  exit 77
}
command -v npm >/dev/null || {
  echo "skipped: npm is needed to fetch the model"
  exit 77
}
model=$("$root/scripts/fetch_vad_model.sh")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$speech" "$recordings" --model "$model" --device host --plain --json >"$work/plain.json"
"$speech" "$recordings" --model "$model" --device host --kernels 2 --json >"$work/host.json"
"$speech" "$recordings" --model "$model" --device sim --kernels 2 --json >"$work/sim.json"
"$speech" "$recordings" --model "$model" --device sim --pace 0.1 --trace "$work/trace.json" \
  --json >"$work/paced.json"
/usr/bin/python3 - "$work" <<'PYTHON'
import json
import sys

def recordings(name):
    with open(f"{sys.argv[1]}/{name}.json") as file:
        return json.load(file)["recordings"]

plain = recordings("plain")
chunks = sum(len(recording["probabilities"]) for recording in plain)
segments = sum(len(recording["segments"]) for recording in plain)
assert len(plain) > 1 and chunks > 100 and segments > 1, (len(plain), chunks, segments)
for name in ("host", "sim", "paced"):
    found = recordings(name)
    for ours, theirs in zip(found, plain, strict=True):
        assert ours == theirs, f"{name}: {ours['path']} differs"
    print(f"{name}: {len(found)} recordings, {chunks} chunks, {segments} segments, all equal")
PYTHON
