#!/usr/bin/env bash
# The wheel: its name says what it is for, its record has every file, and it works where it is installed.
#
#   wheel_test.sh PACKAGES_FOLDER
# Status 77 (skipped) where the Python package was not built.
set -euo pipefail
packages=$1
here=$(cd "$(dirname "$0")" && pwd)
build=$(dirname "$packages")
python=$(sed -n 's/^TESSERA_PYTHON:INTERNAL=//p' "$build/CMakeCache.txt")
wheel=$(find "$packages" -name '*.whl')
[ -n "$wheel" ] || {
  echo "skipped: this build has no Python package"
  exit 77
}
"$python" - "$wheel" <<'PYTHON'
import base64
import csv
import hashlib
import io
import sys
import sysconfig
import zipfile

name = sys.argv[1].rsplit("/", 1)[1]
tags = name[:-len(".whl")].split("-")[2:]
python = f"cp{sys.version_info.major}{sys.version_info.minor}"
platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
assert tags == [python, python, platform], (tags, [python, python, platform])
with zipfile.ZipFile(sys.argv[1]) as wheel:
    assert wheel.testzip() is None
    record = next(file for file in wheel.namelist() if file.endswith("/RECORD"))
    rows = {row[0]: row[1:] for row in csv.reader(io.StringIO(wheel.read(record).decode()))}
    assert set(rows) == set(wheel.namelist()), set(rows) ^ set(wheel.namelist())
    for file, (digest, size) in rows.items():
        if file == record:
            continue
        content = wheel.read(file)
        found = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        assert (digest, int(size)) == (f"sha256={found}", len(content)), file
PYTHON
"$here/use_wheel.sh" "$python" "$wheel" /usr/share/libonnx-testdata/data/node/test_relu/model.onnx
