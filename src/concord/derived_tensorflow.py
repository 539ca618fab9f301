"""A program in TensorFlow's raw operations, equal to it in every bit on a CPU.

    module = Derived()                   # the weights lie beside this file
    results = module(*inputs)            # tensors (or NumPy arrays) of the ports' formats

Run it eagerly: optimisers of graphs may reorder additions. TensorFlow's threads may flush
subnormal float32 numbers to zero; nothing else is computed in numbers as small.
"""
import os
import sys

import numpy
import tensorflow as tf


def minimum(x, y):
    """NaN wins, on either side."""
    least = tf.raw_ops.Minimum(x=x, y=y)
    nan = tf.raw_ops.AddV2(x=x, y=y)
    return tf.raw_ops.SelectV2(condition=tf.raw_ops.IsNan(x=x), t=nan, e=tf.raw_ops.SelectV2(
        condition=tf.raw_ops.IsNan(x=y), t=nan, e=least))


def maximum(x, y):
    most = tf.raw_ops.Maximum(x=x, y=y)
    nan = tf.raw_ops.AddV2(x=x, y=y)
    return tf.raw_ops.SelectV2(condition=tf.raw_ops.IsNan(x=x), t=nan, e=tf.raw_ops.SelectV2(
        condition=tf.raw_ops.IsNan(x=y), t=nan, e=most))


def square_root(x):
    """By way of float64: the float32 operation may be an approximation."""
    wide = tf.raw_ops.Sqrt(x=tf.raw_ops.Cast(x=x, DstT=tf.float64))
    return tf.raw_ops.Cast(x=wide, DstT=x.dtype)


def reciprocal(x):
    """A division: the operation of that name may be an approximation."""
    return tf.raw_ops.RealDiv(x=tf.constant(1, dtype=x.dtype), y=x)


def running_sum(a, axis, terms):
    """Each sum rounded, in order."""
    parts = list(tf.raw_ops.Unpack(value=a, num=terms, axis=axis))
    for i in range(1, terms):
        parts[i] = tf.raw_ops.AddV2(x=parts[i - 1], y=parts[i])
    return tf.raw_ops.Pack(values=parts, axis=axis)


def take(given):
    """The inputs, checked."""
    if len(given) != len(INPUTS):
        raise ValueError(f"{len(given)} inputs given, there are {len(INPUTS)}")
    taken = []
    for tensor, (name, dtype, dims) in zip(given, INPUTS):
        tensor = tf.convert_to_tensor(tensor)
        if tensor.dtype != getattr(tf, dtype) or tuple(tensor.shape) != dims:
            raise ValueError(f"input '{name}' is {tensor.dtype} {tuple(tensor.shape)}, "
                             f"needed {dtype} {dims}")
        taken.append(tensor)
    return taken


def read_constants():
    """(number, tensor) of every constant."""
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), WEIGHTS), "rb") as file:
        blob = file.read()
    if len(blob) != WEIGHTS_BYTES:
        raise ValueError(f"'{WEIGHTS}' has {len(blob)} bytes, needed {WEIGHTS_BYTES}")
    for number, stored, dtype, dims, offset in CONSTANTS:
        count = int(numpy.prod(dims, dtype=numpy.int64))
        array = numpy.frombuffer(blob, stored, count, offset).reshape(dims)
        yield number, tf.convert_to_tensor(array.astype(dtype))
    for number, dtype, text in NUMBERS:
        yield number, tf.constant(float.fromhex(text), dtype=getattr(tf, dtype))


def main(paths):
    """Raw files, one a port."""
    if len(paths) != len(INPUTS) + len(OUTPUTS):
        names = [name for name, _, _ in INPUTS + OUTPUTS]
        sys.exit("usage: python3 derived.py " + " ".join(f"'{name}'" for name in names) +
                 "   (raw files, one a port)")
    given = [numpy.fromfile(path, dtype).reshape(dims)
             for path, (_, dtype, dims) in zip(paths, INPUTS)]
    results = Derived()(*given)
    for path, result in zip(paths[len(INPUTS):], results):
        result.numpy().tofile(path)


