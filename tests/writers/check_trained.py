"""check_trained.py FOLDER floats|integers: gradients of the parameters of the derived module there.

They must be those of the same layers in float64: float_layers() and integer_layers() of
src/concord/testing/trained_graph.h, the latter with fake quantisation in the usual form. A batch of
three runs must give the gradients of the three together.
"""
import sys

import torch
import torch.nn.functional as F

sys.path.insert(0, sys.argv[1])
import derived  # noqa: E402

torch.manual_seed(1)
module = derived.Derived()
parameters = module.trained()


def float_layers(x, p):
    x = F.conv2d(x, p["wide.weight"], p["wide.bias"], padding=1, groups=4)
    x = F.conv2d(x, p["plain.weight"], p["plain.bias"], groups=2)
    return x @ p["matrix.weight"].T + p["matrix.bias"]


def integer_layers(x, p):
    """Activations in halves of their range: an 8-bit integer less its zero point, over 128."""

    def between(y, lowest, highest, zero_point):
        y = y + (torch.round(y * 128) / 128 - y).detach()
        return torch.clamp(y, (lowest - zero_point) / 128, (highest - zero_point) / 128)

    x = (x - 120) / 128
    x = between(F.conv2d(x, p["conv.weight"], p["conv.bias"], padding=1), -128, 127, -3)
    x = between(F.conv2d(x, p["wide.weight"], p["wide.bias"], padding=1, groups=8), 0, 255, 10)
    x = between(F.conv2d(x, p["grouped.weight"], p["grouped.bias"], padding=1, groups=2), -128, 127, 0)
    x = between(x @ p["matrix.weight"].T + p["matrix.bias"], -128, 127, 1)
    return x @ p["sums.weight"].T + p["sums.bias"]


if sys.argv[2] == "floats":
    layers, limit = float_layers, 0.01
    inputs = torch.randn(6, 4, 5, 6).to(torch.float16)
else:
    layers, limit = integer_layers, 0.001
    inputs = torch.randint(0, 256, (6, 4, 5, 6)).to(torch.uint8)
    with torch.no_grad():  # such that little saturates
        for name, tensor in parameters.items():
            tensor.copy_(torch.randn(tensor.shape) * 0.3 / (tensor[0].numel() ** 0.5))

exact_parameters = {name: tensor.detach().double().requires_grad_() for name, tensor in parameters.items()}


def as_integers(number, name):
    """The numbers that the saved integers stand for, with the gradient of saturation."""
    if number not in derived.ELEMENTS:
        return exact_parameters[name]
    step, zero_point, lowest, highest, _ = derived.ELEMENTS[number]
    step, zero_point = getattr(module, f"v{step}"), getattr(module, f"v{zero_point}")
    within = torch.minimum(torch.maximum(exact_parameters[name], (lowest - zero_point) * step),
                           (highest - zero_point) * step)
    saved = (torch.from_numpy(module.saved(number).astype("float64")) - zero_point) * step
    return within + (saved - within).detach()


exact = layers(inputs.double(), {name: as_integers(number, name) for number, name in derived.TRAINED.items()})
ours = module(inputs)[0]
print(f"results: largest {float(exact.abs().max()):.3f}, "
      f"difference {float((ours - exact).abs().max()):.4f}")
weight = torch.randn(exact.shape).double()
(exact * weight).sum().backward()
(ours.double() * weight).sum().backward()
for name, tensor in parameters.items():
    a, b = exact_parameters[name].grad, tensor.grad.double()
    error = float((a - b).norm() / a.norm())
    print(f"gradient of {name}: relative difference {error:.4f}")
    assert error < limit, name
    assert float(a.norm()) > 0

