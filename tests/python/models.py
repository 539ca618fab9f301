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


def with_axis(number):
    return message((1, "axis"), (3, number), (20, 2))


def write_decoder(path, width=16, seed=1):
    """One head of attention: softmax(x k^T + mask) v. Inputs x [1, 1, width], past.k and past.v [1, rows, width], mask [1, 1,
    rows]; outputs y, present.k and present.v, which have the row that x gives behind the past ones."""
    random = numpy.random.default_rng(seed)
    weights = [(name, random.standard_normal((width, width)) / 4) for name in ("w", "u")]
    initializers = [tensor(name, value.astype(numpy.float16).astype(numpy.float32)) for name, value in weights]
    nodes = []

    def node(kind, inputs, output, *attributes):
        nodes.append(message(*((1, name) for name in inputs), (2, output), (4, kind),
                             *((5, attribute) for attribute in attributes)))

    node("MatMul", ("x", "w"), "k")
    node("MatMul", ("x", "u"), "v")
    node("Concat", ("past.k", "k"), "present.k", with_axis(1))
    node("Concat", ("past.v", "v"), "present.v", with_axis(1))
    node("Transpose", ("present.k",), "kt", ints("perm", [0, 2, 1]))
    node("MatMul", ("x", "kt"), "scores")
    node("Add", ("scores", "mask"), "masked")
    node("Softmax", ("masked",), "weights", with_axis(2))
    node("MatMul", ("weights", "present.v"), "y")
    inputs = {"x": (1, 1, width), "past.k": (1, -1, width), "past.v": (1, -1, width), "mask": (1, 1, -1)}
    outputs = {"y": (1, 1, width), "present.k": (1, -1, width), "present.v": (1, -1, width)}
    graph = message(*((1, one) for one in nodes), (2, "decoder"), *((5, one) for one in initializers),
                    *((11, value_info(*one)) for one in inputs.items()),
                    *((12, value_info(*one)) for one in outputs.items()))
    with open(path, "wb") as file:
        file.write(message((1, 8), (7, graph), (8, message((2, 13)))))
    return path
