"""check_training.py LOSS_RATIO ACCURACY TRAIN_ARGUMENT...: runs examples/training/train.py.

The loss of the training through the derived module must fall to LOSS_RATIO of what it was, the
trained program must reach ACCURACY, and its outputs must be those of the module in every bit.
Status 77, with the reason, where PyTorch or a file of pictures is not there.
"""
import os
import re
import subprocess
import sys

try:
    import numpy  # noqa: F401
    import torch  # noqa: F401
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

loss_ratio, accuracy, *arguments = sys.argv[1:]
for name, value in zip(arguments, arguments[1:]):
    if name in ("--images", "--labels") and not os.path.exists(value):
        print(f"skipped: '{value}' is not there")
        sys.exit(77)
here = os.path.dirname(os.path.abspath(__file__))
script = os.path.join(here, "..", "..", "examples", "training", "train.py")
done = subprocess.run([sys.executable, script, *arguments], capture_output=True, text=True)
print(done.stdout + done.stderr)
assert done.returncode == 0, done.returncode
through = done.stdout.split("through the derived module")[1]
losses = [float(loss) for loss in re.findall(r"loss (\S+)", through)]
assert losses[-1] < float(loss_ratio) * losses[0], losses
inside = re.search(r"accuracy, derived module: +(\S+)", through).group(1)
outside = re.search(r"accuracy, \w+ +\(the program\): +(\S+)", through).group(1)
assert inside == outside and float(outside) >= float(accuracy), (inside, outside)
assert re.search(r"results of [1-9]\d* test pictures: equal, bit for bit", through)
