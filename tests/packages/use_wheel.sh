#!/usr/bin/env bash
# Installs the wheel into a virtual environment of its own and runs a model in it.
#
#   use_wheel.sh PYTHON WHEEL MODEL      MODEL: [3, 4, 5] through a Relu
set -euo pipefail
python=$1 wheel=$(realpath "$2") model=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
unset PYTHONPATH
# NumPy is Debian's.
"$python" -m venv --system-site-packages env
env/bin/pip install --quiet --no-index --no-deps "$wheel"
cat >use.py <<'PYTHON'
import importlib.metadata
import sys

import numpy
import tessera

assert tessera.__file__.startswith(sys.prefix), tessera.__file__
distribution = importlib.metadata.distribution("tessera")
assert distribution.version == tessera.__version__, distribution.version
assert {"LICENSE", "NOTICE"} <= {file.name for file in distribution.files}
for file in distribution.files:
    assert file.locate().is_file(), file
    if file.hash is not None:
        assert file.locate().stat().st_size == file.size, file

network = tessera.Network(sys.argv[1])
array = numpy.linspace(-1, 1, 60, dtype=numpy.float32).reshape(3, 4, 5)
for device in ("sim", "host", "ref"):
    output, = tessera.Session(network, device).run(array).outputs
    assert output.tobytes() == numpy.maximum(array, 0).astype(numpy.float16).astype(numpy.float32).tobytes(), device
pipeline = tessera.Runtime(["host"]).pipeline(network)
assert pipeline.stream().submit(array).wait()[0].shape == (3, 4, 5)
print(f"tessera {tessera.__version__} from {tessera.__file__}")
PYTHON
env/bin/python use.py "$model"
env/bin/pip uninstall --quiet --yes tessera
[ -z "$(find env/lib -name 'tessera*')" ] || {
  echo "FAILED: what is left of the wheel: $(find env/lib -name 'tessera*')"
  exit 1
}
