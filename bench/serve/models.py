"""Small ONNX models, written without any package of Python's."""
import pathlib
import struct

FLOAT, INT64 = 1, 7


def varint(number):
    out = b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    if isinstance(value, str):
        value = value.encode()
    return varint(number << 3 | 2) + varint(len(value)) + value


def value_info(name, dims):
    shape = b"".join(field(1, field(1, dim)) for dim in dims)
    return field(1, name) + field(2, field(1, field(1, FLOAT) + field(2, shape)))


def integers(name, values):
    data = struct.pack(f"<{len(values)}q", *values)
    return field(1, len(values)) + field(2, INT64) + field(8, name) + field(9, data)


def node(operator, inputs, outputs):
    return (b"".join(field(1, name) for name in inputs) + b"".join(field(2, name) for name in outputs)
            + field(4, operator))


def model(nodes, constants, x, y):
    graph = b"".join(field(1, each) for each in nodes) + field(2, "bench")
    graph += b"".join(field(5, each) for each in constants)
    graph += field(11, value_info("x", x)) + field(12, value_info("y", y))
    return field(1, 7) + field(7, graph) + field(8, field(1, "") + field(2, 13))


def write_repository(folder):
    """zero: 4 numbers, as they are; long: 600,000 bytes, of which 4 numbers come back."""
    models = {
        "zero": model([node("Identity", ["x"], ["y"])], [], [1, 4], [1, 4]),
        "long": model([node("Slice", ["x", "begin", "end", "axes"], ["y"])],
                      [integers("begin", [0]), integers("end", [4]), integers("axes", [1])],
                      [1, 150000], [1, 4]),
    }
    for name, data in models.items():
        path = pathlib.Path(folder, name, "1", "model.onnx")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
