"""Writes small ONNX models with random weights, a chain of convolutions each, by itself: the wire format
of protocol buffers is a list of (number of the field, value)."""
import struct

import numpy


def varint(number):
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


def message(*fields):
    """Integers as they are, text and messages with their length in front."""
    out = b""
    for number, value in fields:
        if isinstance(value, int):
            out += varint(number << 3) + varint(value)
        else:
            data = value.encode() if isinstance(value, str) else value
            out += varint(number << 3 | 2) + varint(len(data)) + data
    return out


def value_info(name, shape):
    """An extent below 0 is open."""
    dims = message(*((1, message((1, extent)) if extent >= 0 else b"") for extent in shape))
    return message((1, name), (2, message((1, message((1, 1), (2, dims))))))  # 1: float32


def tensor(name, array):
    dims = [(1, extent) for extent in array.shape]
    data = struct.pack(f"<{array.size}f", *array.ravel().tolist())
    return message(*dims, (2, 1), (8, name), (9, data))


def ints(name, values):
    return message((1, name), *((8, value) for value in values), (20, 7))


def write(path, input_shape, layers, seed=1):
    """layers: (channels, stride) of each 3x3 convolution; "x" in, "y" out. Values are those of f16."""
    random = numpy.random.default_rng(seed)
    nodes, initializers = [], []
    shape, name = list(input_shape), "x"
    for i, (channels, stride) in enumerate(layers):
        weights = random.standard_normal((channels, shape[1], 3, 3)) / 4
        initializers.append(tensor(f"w{i}", weights.astype(numpy.float16).astype(numpy.float32)))
        output = "y" if i + 1 == len(layers) else f"t{i}"
        nodes.append(message((1, name), (1, f"w{i}"), (2, output), (3, f"conv{i}"), (4, "Conv"),
                             (5, ints("pads", [1, 1, 1, 1])), (5, ints("strides", [stride] * 2))))
        name = output
        shape = [1, channels, (shape[2] - 1) // stride + 1, (shape[3] - 1) // stride + 1]
    graph = message(*((1, node) for node in nodes), (2, "test"),
                    *((5, initializer) for initializer in initializers),
                    (11, value_info("x", input_shape)), (12, value_info("y", shape)))
    with open(path, "wb") as file:
        file.write(message((1, 8), (7, graph), (8, message((2, 13)))))
    return path
