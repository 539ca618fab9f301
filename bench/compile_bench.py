#!/usr/bin/env python3
"""What compiling takes: time and peak memory of `tessera compile`, of made-up graphs by their length, and of given models.

    bench/compile_bench.py build/release/src/tools/tessera chain:2000,20000 branches:2000 vgg16.onnx

Graphs (NAME:SIZE,SIZE...): chain (of unary functions), convolutions (a chain), residual (two convolutions and a sum each),
branches (convolutions of one input, concatenated), split (one input cut, each part worked on, concatenated), attention
(blocks), normalisation (written out as nine operators each), quantised (QDQ convolutions), lstm (steps).
"""
import os
import random
import struct
import subprocess
import sys
import tempfile


def varint(number):
    number &= (1 << 64) - 1
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


def number(field, value):
    return varint(field << 3) + varint(value)


def text(field, value):
    data = value.encode() if isinstance(value, str) else value
    return varint(field << 3 | 2) + varint(len(data)) + data


def attribute(name, value):
    if isinstance(value, int):
        return text(1, name) + number(3, value) + number(20, 2)
    return text(1, name) + b"".join(number(8, each) for each in value) + number(20, 7)


class Graph:
    """An ONNX file, field by field."""

    def __init__(self):
        self.parts = []
        self.random = random.Random(1)

    def node(self, operator, inputs, output, **attributes):
        fields = [text(1, name) for name in inputs] + [text(2, output), text(3, output), text(4, operator)]
        fields += [text(5, attribute(name, value)) for name, value in attributes.items()]
        self.parts.append(text(1, b"".join(fields)))

    def outputs_of(self, operator, inputs, outputs, **attributes):
        fields = [text(1, name) for name in inputs] + [text(2, name) for name in outputs]
        fields += [text(3, outputs[0]), text(4, operator)]
        fields += [text(5, attribute(name, value)) for name, value in attributes.items()]
        self.parts.append(text(1, b"".join(fields)))

    def constant(self, name, dims, data, kind=1):
        self.parts.append(text(5, b"".join(number(1, dim) for dim in dims) + number(2, kind) + text(8, name) +
                               text(9, data)))

    def weights(self, name, dims):
        count = 1
        for dim in dims:
            count *= dim
        self.constant(name, dims, struct.pack(f"<{count}f", *(self.random.gauss(0, 0.1) for _ in range(count))))

    def edge(self, field, name, dims):
        shape = b"".join(text(1, number(1, dim)) for dim in dims)
        self.parts.append(text(field, text(1, name) + text(2, text(1, number(1, 1) + text(2, shape)))))

    def save(self, path, dims, out=None):
        self.edge(11, "x", dims)
        self.edge(12, "y", out or dims)
        with open(path, "wb") as file:
            file.write(number(1, 8) + text(7, b"".join(self.parts) + text(2, "made")) +
                       text(8, text(1, "") + number(2, 17)))


def blocks(size, block):
    """block(graph, i, input, output) one behind the other."""
    graph = Graph()
    for i in range(size):
        block(graph, i, f"v{i}" if i else "x", f"v{i + 1}" if i + 1 < size else "y")
    return graph


IMAGE = [1, 8, 16, 16]
ROWS = [1, 16, 32]
AROUND = [1, 1, 1, 1]


def chain(size, path):
    blocks(size, lambda g, i, a, b: g.node("Sigmoid", [a], b)).save(path, [1, 64])


def convolutions(size, path):
    def block(graph, i, a, b):
        graph.weights(f"w{i}", [8, 8, 3, 3])
        graph.node("Conv", [a, f"w{i}"], b, pads=AROUND)
    blocks(size, block).save(path, IMAGE)


def residual(size, path):
    def block(graph, i, a, b):
        graph.weights(f"w{i}", [8, 8, 3, 3])
        graph.weights(f"u{i}", [8, 8, 3, 3])
        graph.node("Conv", [a, f"w{i}"], f"c{i}", pads=AROUND)
        graph.node("Relu", [f"c{i}"], f"r{i}")
        graph.node("Conv", [f"r{i}", f"u{i}"], f"d{i}", pads=AROUND)
        graph.node("Add", [f"d{i}", a], b)
    blocks(size, block).save(path, IMAGE)


def branches(size, path):
    graph = Graph()
    for i in range(size):
        graph.weights(f"w{i}", [2, 8, 3, 3])
        graph.node("Conv", ["x", f"w{i}"], f"b{i}", pads=AROUND)
    graph.node("Concat", [f"b{i}" for i in range(size)], "y", axis=1)
    graph.save(path, IMAGE, [1, 2 * size, 16, 16])


def split(size, path):
    graph = Graph()
    graph.constant("lengths", [size], struct.pack(f"<{size}q", *([1] * size)), 7)
    graph.outputs_of("Split", ["x", "lengths"], [f"p{i}" for i in range(size)], axis=1)
    for i in range(size):
        graph.node("Sigmoid", [f"p{i}"], f"q{i}")
    graph.node("Concat", [f"q{i}" for i in range(size)], "y", axis=1)
    graph.save(path, [1, size, 4, 4])


def attention(size, path):
    def block(graph, i, a, b):
        for name in "qkv":
            graph.weights(f"w{name}{i}", [32, 32])
            graph.node("MatMul", [a, f"w{name}{i}"], f"{name}x{i}")
        graph.node("Transpose", [f"kx{i}"], f"kt{i}", perm=[0, 2, 1])
        graph.node("MatMul", [f"qx{i}", f"kt{i}"], f"s{i}")
        graph.node("Softmax", [f"s{i}"], f"p{i}", axis=-1)
        graph.node("MatMul", [f"p{i}", f"vx{i}"], f"o{i}")
        graph.node("Add", [f"o{i}", a], b)
    blocks(size, block).save(path, ROWS)


def normalisation(size, path):
    def block(graph, i, a, b):
        if i == 0:
            graph.constant("two", [], struct.pack("<f", 2.0))
            graph.constant("small", [], struct.pack("<f", 1e-5))
        graph.weights(f"g{i}", [32])
        graph.weights(f"b{i}", [32])
        graph.node("ReduceMean", [a], f"m{i}", axes=[-1])
        graph.node("Sub", [a, f"m{i}"], f"d{i}")
        graph.node("Pow", [f"d{i}", "two"], f"q{i}")
        graph.node("ReduceMean", [f"q{i}"], f"e{i}", axes=[-1])
        graph.node("Add", [f"e{i}", "small"], f"f{i}")
        graph.node("Sqrt", [f"f{i}"], f"s{i}")
        graph.node("Div", [f"d{i}", f"s{i}"], f"n{i}")
        graph.node("Mul", [f"n{i}", f"g{i}"], f"o{i}")
        graph.node("Add", [f"o{i}", f"b{i}"], b)
    blocks(size, block).save(path, ROWS)


def quantised(size, path):
    def block(graph, i, a, b):
        if i == 0:
            graph.constant("scale", [], struct.pack("<f", 0.05))
            graph.constant("zero", [], b"\0", 3)
        graph.constant(f"w{i}", [8, 8, 3, 3], graph.random.randbytes(576), 3)
        graph.node("QuantizeLinear", [a, "scale", "zero"], f"q{i}")
        graph.node("DequantizeLinear", [f"q{i}", "scale", "zero"], f"d{i}")
        graph.node("DequantizeLinear", [f"w{i}", "scale", "zero"], f"e{i}")
        graph.node("Conv", [f"d{i}", f"e{i}"], f"c{i}", pads=AROUND)
        graph.node("Relu", [f"c{i}"], b)
    blocks(size, block).save(path, IMAGE)


def lstm(size, path):
    graph = Graph()
    graph.weights("w", [1, 128, 16])
    graph.weights("r", [1, 128, 32])
    graph.node("LSTM", ["x", "w", "r"], "y", hidden_size=32)
    graph.save(path, [size, 1, 16], [size, 1, 1, 32])


GRAPHS = {made.__name__: made for made in
          (chain, convolutions, residual, branches, split, attention, normalisation, quantised, lstm)}


def compile_model(tessera, path, name, folder):
    command = [tessera, "compile", path, "-o", os.path.join(folder, "made.tpkg"), "--json"]
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    message = child.stderr.read()
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    took = usage.ru_utime + usage.ru_stime
    print(f"{name:24} {took:8.2f} s of processor time {usage.ru_maxrss / 1024:8.0f} MB"
          f" (file {os.path.getsize(path) / 2**20:.0f} MB)" + (f"  {message.strip()}" if child.returncode else ""),
          flush=True)
    return child.returncode


def main():
    if len(sys.argv) < 3:
        print(__doc__, file=sys.stderr)
        return 2
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for what in sys.argv[2:]:
            name, _, sizes = what.partition(":")
            if name not in GRAPHS:
                failed |= compile_model(sys.argv[1], what, os.path.basename(what), folder)
                continue
            for size in sizes.split(","):
                path = os.path.join(folder, "made.onnx")
                GRAPHS[name](int(size), path)
                failed |= compile_model(sys.argv[1], path, f"{name} {int(size):,}", folder)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
