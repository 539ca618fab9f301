"""Reads TensorFlow Lite models: tensors with their constants, operators in their order.

The file is one of FlatBuffers: tables whose fields are found by number, as schema.fbs of TensorFlow Lite counts them.
"""
import struct
from dataclasses import dataclass, field

import numpy

DTYPES = {0: numpy.float32, 2: numpy.int32, 3: numpy.uint8, 4: numpy.int64, 9: numpy.int8}
OPERATORS = {1: "AVERAGE_POOL_2D", 2: "CONCATENATION", 3: "CONV_2D", 4: "DEPTHWISE_CONV_2D", 14: "LOGISTIC",
             22: "RESHAPE", 25: "SOFTMAX", 32: "CUSTOM"}


class Table:
    def __init__(self, data, position):
        self.data, self.position = data, position

    def at(self, number):
        """Where the field lies; 0 where the table has none."""
        fields = self.position - struct.unpack_from("<i", self.data, self.position)[0]
        entry = 4 + 2 * number
        if entry >= struct.unpack_from("<H", self.data, fields)[0]:
            return 0
        offset = struct.unpack_from("<H", self.data, fields + entry)[0]
        return self.position + offset if offset else 0

    def number(self, number, form="<i", default=0):
        return struct.unpack_from(form, self.data, self.at(number))[0] if self.at(number) else default

    def _target(self, number):
        at = self.at(number)
        return at + struct.unpack_from("<I", self.data, at)[0] if at else 0

    def table(self, number):
        return Table(self.data, self._target(number)) if self.at(number) else None

    def bytes(self, number, size=1):
        at = self._target(number)
        if not at:
            return b""
        return self.data[at + 4:at + 4 + size * struct.unpack_from("<I", self.data, at)[0]]

    def vector(self, number, dtype=numpy.int32):
        return numpy.frombuffer(self.bytes(number, numpy.dtype(dtype).itemsize), dtype).tolist()

    def tables(self, number):
        at = self._target(number)
        count = struct.unpack_from("<I", self.data, at)[0] if at else 0
        entries = [at + 4 + 4 * i for i in range(count)]
        return [Table(self.data, entry + struct.unpack_from("<I", self.data, entry)[0]) for entry in entries]


@dataclass
class Tensor:
    name: str
    shape: list
    dtype: type
    constant: numpy.ndarray = None
    scale: float = 0.0     # of a quantised tensor
    zero_point: int = 0


@dataclass
class Operator:
    kind: str
    inputs: list           # numbers of tensors
    outputs: list
    options: Table = None


@dataclass
class Model:
    tensors: list = field(default_factory=list)
    operators: list = field(default_factory=list)
    inputs: list = field(default_factory=list)
    outputs: list = field(default_factory=list)


def read_tensor(table, buffers):
    dtype = DTYPES[table.number(1, "<b")]
    tensor = Tensor(table.bytes(3).decode(), table.vector(0), dtype)
    content = buffers[table.number(2, "<I")].bytes(0)
    if content:
        tensor.constant = numpy.frombuffer(content, dtype).reshape(tensor.shape)
    quantised = table.table(4)
    if quantised is not None and quantised.vector(2, numpy.float32):
        tensor.scale = quantised.vector(2, numpy.float32)[0]
        tensor.zero_point = quantised.vector(3, numpy.int64)[0]
    return tensor


def read(path):
    with open(path, "rb") as file:
        data = file.read()
    root = Table(data, struct.unpack_from("<I", data, 0)[0])
    codes = [OPERATORS.get(code.number(0, "<b"), "?") for code in root.tables(1)]
    graph, buffers = root.tables(2)[0], root.tables(4)
    return Model([read_tensor(table, buffers) for table in graph.tables(0)],
                 [Operator(codes[table.number(0, "<I")], table.vector(1), table.vector(2), table.table(4))
                  for table in graph.tables(3)],
                 graph.vector(1), graph.vector(2))
