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


def dtype_of(name):
    return getattr(tf, name)


def as_tensor(given):
    return tf.convert_to_tensor(given)


def scalar(number, dtype):
    return tf.constant(number, dtype=dtype_of(dtype))


