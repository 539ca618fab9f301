#!/usr/bin/env bash
# Installs the package from the build folder with pip, without a network, and runs the example of the
# README on it.
#
#   install_test.sh PYTHON PACKAGE_FOLDER WORK_FOLDER
# Status 77 (skipped) where pip or NumPy is absent.
set -euo pipefail
python=$1 package=$2 work=$3
root=$(cd "$(dirname "$0")/../.." && pwd)
rm -rf "$work"
mkdir -p "$work"
for module in numpy pip setuptools wheel; do
  "$python" -c "import $module" 2>/dev/null || {
    echo "skipped: $python has no module $module"
    exit 77
  }
done
"$python" -m pip install --quiet --no-build-isolation --no-index --no-deps \
  --root-user-action=ignore --target "$work/site" "$package"
for file in tessera/__init__.py tessera/__init__.pyi tessera/py.typed; do
  [ -f "$work/site/$file" ] || {
    echo "FAILED: $file is not installed"
    exit 1
  }
done
sed -n '/^```python$/,/^```$/p' "$root/README.md" | sed '1d;$d' >"$work/example.py"
grep -q tessera "$work/example.py" || {
  echo "FAILED: README.md has no example in Python"
  exit 1
}
cp /usr/share/libonnx-testdata/data/node/test_relu/model.onnx "$work/model.onnx"
cd "$work"
cat >>example.py <<'PYTHON'
assert len(outputs) == 8
for array, output in zip(arrays, outputs):
    assert output.tobytes() == numpy.maximum(array, 0).tobytes()
PYTHON
PYTHONPATH=$work/site "$python" example.py
echo "1 passed, 0 failed"
