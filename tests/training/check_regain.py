"""check_regain.py LOST GAINED REGAIN_ARGUMENT...: runs examples/training/regain.py.

The narrow format must cost at least LOST of the accuracy, training must bring back at least GAINED,
and the program's outputs must be those of the module in every bit. Status 77, with the reason, where
PyTorch or a file is not there.
"""
import os
import re
import subprocess
import sys
import tempfile

try:
    import numpy  # noqa: F401
    import torch  # noqa: F401
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

lost, gained, *arguments = sys.argv[1:]
for name, value in zip(arguments, arguments[1:]):
    if name in ("--images", "--labels", "--model") and not os.path.exists(value):
        print(f"skipped: '{value}' is not there")
        sys.exit(77)
here = os.path.dirname(os.path.abspath(__file__))
script = os.path.join(here, "..", "..", "examples", "training", "regain.py")
with tempfile.TemporaryDirectory() as folder:
    plot = os.path.join(folder, "regain.html")
    done = subprocess.run([sys.executable, script, "--plot", plot, *arguments],
                          capture_output=True, text=True)
    print(done.stdout + done.stderr)
    assert done.returncode == 0, done.returncode
    with open(plot, encoding="utf-8") as file:
        page = file.read()
reference, before, inside, outside = (
    float(number) for number in re.findall(r"^accuracy, .*: +(\S+)$", done.stdout, re.MULTILINE))
assert before <= reference - float(lost), (reference, before)
assert inside >= before + float(gained), (before, inside)
assert inside == outside, (inside, outside)
assert re.search(r"results of [1-9]\d* test pictures: equal, bit for bit", done.stdout)
assert page.count("<circle") == done.stdout.count("  epoch ") + 1 and "http" not in page.replace(
    "http://www.w3.org/2000/svg", ""), "the page stands alone"
