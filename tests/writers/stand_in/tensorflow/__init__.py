"""Stands in for TensorFlow where that is not installed: the raw operations that derived programs
use, with their parameters' names, done by NumPy as their documentation says. An operation or a
parameter that is not here is an error.
"""
import numpy

from . import raw_ops
from .raw_ops import Tensor

float16, float32, float64 = (numpy.dtype(f"float{n}") for n in (16, 32, 64))
int8, int16, int32, int64 = (numpy.dtype(f"int{n}") for n in (8, 16, 32, 64))
uint8, uint16, uint32 = (numpy.dtype(f"uint{n}") for n in (8, 16, 32))
bool = numpy.dtype("bool")  # TensorFlow's name


def convert_to_tensor(value):
    return value if isinstance(value, Tensor) else Tensor(numpy.array(value))


def constant(value, dtype):
    return Tensor(numpy.array(value, dtype))
