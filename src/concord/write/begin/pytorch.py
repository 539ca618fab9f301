"""A program as a PyTorch module, equal to it in every bit on a CPU.

    module = Derived()                   # the weights lie beside this file
    results = module(*inputs)            # tensors (or NumPy arrays) of the ports' formats

Inputs with K times the rows of INPUTS (their first extent) are K runs, one behind another, and
give K times the rows.

PyTorch has no unsigned numbers of 16 and 32 bits: such ports are int32 and int64 tensors.

The module can be trained through (straight-through estimation): its forward pass is the program's,
roundings included; with --trainable, weights and biases are parameters, which the forward pass
rounds and quantises as the compiler does. In the backward pass a rounding counts as nothing, the step of a quantised block
as a constant, and a table as the slope it has around the element. An element that is exactly zero
behind a rounding passes no gradient.
"""
import json
import os
import sys

import numpy
import torch

# Products of matrices in float32 must be float32 all through.
torch.set_float32_matmul_precision("highest")


class _Straight(torch.autograd.Function):
    """function(x) forwards, x itself backwards."""

    @staticmethod
    def forward(ctx, x, function):
        return function(x)

    @staticmethod
    def backward(ctx, gradient):
        return gradient, None


class _LookUp(torch.autograd.Function):
    """table[places(key)]; its gradient is the slope between neighbours of the key."""

    @staticmethod
    def forward(ctx, table, key, places, one_sided, dtype):
        ctx.table, ctx.places, ctx.one_sided, ctx.dtype = table, places, one_sided, dtype
        ctx.save_for_backward(key)
        return gather(table, places(key), 0)

    @staticmethod
    def backward(ctx, gradient):
        (key,) = ctx.saved_tensors
        step = torch.clamp(torch.abs(key) / 32, min=2.0**-10)
        largest = torch.finfo(ctx.dtype).max
        lowest = 0.0 if ctx.one_sided else -largest

        def neighbour(x):
            return torch.clamp(x, lowest, largest).to(ctx.dtype).to(key.dtype)

        above, below = neighbour(key + step), neighbour(key - step)
        rise = gather(ctx.table, ctx.places(above), 0) - gather(ctx.table, ctx.places(below), 0)
        slope = rise.to(key.dtype) / (above - below)
        slope = torch.where(torch.isfinite(slope), slope, torch.zeros_like(slope))
        return None, gradient * slope, None, None, None


def straight(function, x):
    return _Straight.apply(x, function)


def look_up(table, key, places, one_sided, dtype):
    return _LookUp.apply(table, key, places, one_sided, dtype)


def gather(a, indices, axis):
    flat = torch.index_select(a, axis, indices.reshape(-1))
    return flat.reshape(a.shape[:axis] + indices.shape + a.shape[axis + 1:])


def pad(a, fill, before, dims):
    result = fill.expand(dims).clone()
    result[tuple(slice(b, b + n) for b, n in zip(before, a.shape))] = a
    return result


def running_sum(a, axis):
    """Each sum rounded: torch.cumsum adds float32 in float64."""
    parts = list(torch.unbind(a, axis))
    for i in range(1, len(parts)):
        parts[i] = parts[i - 1] + parts[i]
    return torch.stack(parts, axis)


def dtype_of(name):
    carried = {"uint16": "int32", "uint32": "int64"}
    return getattr(torch, carried.get(name, name))


def as_tensor(given):
    """A NumPy array in the type PyTorch has for it; a tensor as it is."""
    if not isinstance(given, numpy.ndarray):
        return given
    wider = {"uint16": "int32", "uint32": "int64"}
    return torch.from_numpy(given.astype(wider.get(given.dtype.name, given.dtype), copy=True))


def run_by_run(one_run, given):
    """As many runs as the inputs have rows for, their results one behind another."""
    given = [as_tensor(tensor) for tensor in given]
    counts = {tensor.shape[0] // dims[0] if dims and tensor.dim() == len(dims) and
              tensor.shape[0] % max(dims[0], 1) == 0 and dims[0] > 0 else 1
              for tensor, (_, _, dims) in zip(given, INPUTS)}
    count = counts.pop() if len(counts) == 1 else 1
    if count <= 1:
        return one_run(*given)
    runs = [one_run(*parts) for parts in zip(*(torch.chunk(tensor, count) for tensor in given))]
    return tuple(torch.cat([result if result.dim() else result[None] for result in results])
                 for results in zip(*runs))


def scalar(number, dtype):
    return torch.tensor(number, dtype=dtype_of(dtype))


def write_safetensors(path, arrays):
    """Arrays by name: the length of the header, the header as JSON, the bytes."""
    header, blob = {}, b""
    for name, array in arrays.items():
        array = array.astype(array.dtype.newbyteorder("<"))
        kind = {"f": "F", "i": "I", "u": "U"}[array.dtype.kind]
        header[name] = {"dtype": f"{kind}{8 * array.dtype.itemsize}", "shape": list(array.shape),
                        "data_offsets": [len(blob), len(blob) + array.nbytes]}
        blob += array.tobytes()
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    temporary = f"{path}.{os.urandom(8).hex()}.partial"
    try:
        with open(temporary, "xb") as file:
            file.write(len(text).to_bytes(8, "little") + text + blob)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError:
        if os.path.exists(temporary):
            os.remove(temporary)
        raise


