# What of a Python file is not its library's. Above stand dtype_of(), as_tensor() and scalar() of the
# library, below the tables and class Derived.


def take(given):
    """The inputs, checked."""
    if len(given) != len(INPUTS):
        raise ValueError(f"{len(given)} inputs given, there are {len(INPUTS)}")
    taken = []
    for tensor, (name, dtype, dims) in zip(given, INPUTS):
        tensor = as_tensor(tensor)
        if tensor.dtype != dtype_of(dtype) or tuple(tensor.shape) != dims:
            raise ValueError(f"input '{name}' is {tensor.dtype} {tuple(tensor.shape)}, "
                             f"needed {dtype_of(dtype)} {dims}")
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
        yield number, as_tensor(array.astype(dtype))
    for number, dtype, text in NUMBERS:
        yield number, scalar(float.fromhex(text), dtype)


def main(paths):
    """Raw files, one per port."""
    if len(paths) != len(INPUTS) + len(OUTPUTS):
        names = [name for name, _, _ in INPUTS + OUTPUTS]
        sys.exit("usage: python3 derived.py " + " ".join(f"'{name}'" for name in names) +
                 "   (raw files, one a port)")
    given = [numpy.fromfile(path, dtype).reshape(dims)
             for path, (_, dtype, dims) in zip(paths, INPUTS)]
    results = Derived().results(*given)
    for path, result, (_, dtype, _) in zip(paths[len(INPUTS):], results, OUTPUTS):
        result.astype(dtype).tofile(path)


