"""tf.raw_ops, as far as derived programs use it: keyword parameters alone, operands of one type."""
import numpy

numpy.seterr(all="ignore")


class Tensor:
    def __init__(self, array):
        self.array = numpy.asarray(array)
        self.dtype = self.array.dtype
        self.shape = self.array.shape

    def numpy(self):
        return numpy.ascontiguousarray(self.array)


def _binary(function, kinds):
    def operation(*, x, y):
        assert x.dtype == y.dtype and x.dtype.kind in kinds, (x.dtype, y.dtype)
        return Tensor(function(x.array, y.array))
    return operation


def _unary(function, kinds="f"):
    def operation(*, x):
        assert x.dtype.kind in kinds, x.dtype
        return Tensor(function(x.array))
    return operation


def _reduction(function):
    def operation(*, input, axis, keep_dims):
        return Tensor(function(input.array, axis=tuple(axis), keepdims=keep_dims))
    return operation


AddV2 = _binary(numpy.add, "fiu")
Sub = _binary(numpy.subtract, "f")
Mul = _binary(numpy.multiply, "fi")
RealDiv = _binary(numpy.divide, "f")
Minimum = _binary(numpy.fmin, "f")  # what becomes of a NaN is open
Maximum = _binary(numpy.fmax, "f")
Equal = _binary(numpy.equal, "f")
Less = _binary(numpy.less, "f")
LessEqual = _binary(numpy.less_equal, "f")
LogicalAnd = _binary(numpy.logical_and, "b")
LogicalOr = _binary(numpy.logical_or, "b")
BatchMatMulV2 = _binary(numpy.matmul, "f")
Abs = _unary(numpy.abs)
Neg = _unary(numpy.negative)
Sqrt = _unary(numpy.sqrt)
Floor = _unary(numpy.floor)
Ceil = _unary(numpy.ceil)
Rint = _unary(numpy.rint)
Sign = _unary(numpy.sign)
IsNan = _unary(numpy.isnan)
LogicalNot = _unary(numpy.logical_not, "b")
Sum = _reduction(numpy.sum)
Max = _reduction(numpy.max)
Min = _reduction(numpy.min)


def SelectV2(*, condition, t, e):
    assert condition.dtype.kind == "b" and t.dtype == e.dtype
    return Tensor(numpy.where(condition.array, t.array, e.array))


def Cast(*, x, DstT):
    return Tensor(x.array.astype(DstT))


def Reshape(*, tensor, shape):
    return Tensor(tensor.array.reshape(tuple(shape)))


def Transpose(*, x, perm):
    return Tensor(x.array.transpose(perm))


def StridedSlice(*, input, begin, end, strides):
    assert len(begin) == len(end) == len(strides) == len(input.shape)
    return Tensor(input.array[tuple(slice(*at) for at in zip(begin, end, strides))])


def ConcatV2(*, values, axis):
    assert len({value.dtype for value in values}) == 1 and len(values) > 1
    return Tensor(numpy.concatenate([value.array for value in values], axis))


def PadV2(*, input, paddings, constant_values):
    assert constant_values.shape == () and constant_values.dtype == input.dtype
    return Tensor(numpy.pad(input.array, paddings, constant_values=constant_values.array))


def BroadcastTo(*, input, shape):
    return Tensor(numpy.broadcast_to(input.array, shape))


def GatherV2(*, params, indices, axis):
    assert indices.dtype == numpy.int64
    return Tensor(numpy.take(params.array, indices.array, axis))


def Unpack(*, value, num, axis):
    assert value.shape[axis] == num
    return [Tensor(part) for part in numpy.moveaxis(value.array, axis, 0)]


def Pack(*, values, axis):
    return Tensor(numpy.stack([value.array for value in values], axis))
