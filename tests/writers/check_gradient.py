"""check_gradient.py FOLDER: trains through the derived perceptron there, y = tanh(x w1) w2.

Its gradients must be those of the float32 functions but for the quantisation of the operands (a
few per cent at 7 bits), and descending them must make the loss small.
"""
import sys

import torch

sys.path.insert(0, sys.argv[1])
import derived  # noqa: E402

torch.manual_seed(1)
module = derived.Derived()
x = torch.randn(6, 20)
weights = [torch.randn(20, 12) * 0.3, torch.randn(12, 5) * 0.3]
target = torch.randn(6, 5)


def gradients(function):
    given = [tensor.clone().requires_grad_() for tensor in [x] + weights]
    loss = ((function(*given) - target) ** 2).mean()
    loss.backward()
    return [tensor.grad for tensor in given]


exact = gradients(lambda x, a, b: torch.tanh(x @ a) @ b)
ours = gradients(lambda *given: module(*given)[0])
for name, a, b in zip(("x", "w1", "w2"), exact, ours):
    error = float((a - b).norm() / a.norm())
    print(f"gradient of {name}: relative difference {error:.4f}")
    assert error < 0.05, name

trained = [tensor.clone().requires_grad_() for tensor in weights]
optimiser = torch.optim.Adam(trained, lr=0.02)
for step in range(150):
    loss = ((module(x, *trained)[0] - target) ** 2).mean()
    first = float(loss) if step == 0 else first
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()
print(f"loss {first:.4f} before, {float(loss):.4f} after training")
assert float(loss) < first / 50
