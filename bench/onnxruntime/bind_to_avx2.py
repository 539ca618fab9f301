#!/usr/bin/env python3
"""Copies ONNX Runtime 1.30.0 for Node.js (Linux, x86-64) so that the copy takes AVX2 at most.

ONNX Runtime has no option that binds it to an instruction set. The copy's library jumps over what it does
where the processor has AVX-512: the choice of matrix kernels, and what other operators ask about the processor.

usage: bind_to_avx2.py FOLDER OUT     FOLDER: what scripts/fetch_onnxruntime.sh prints; OUT: a new folder

Example:
  bench/onnxruntime/bind_to_avx2.py $(scripts/fetch_onnxruntime.sh) /tmp/onnxruntime_avx2
  tessera bench --suite host-vs-ort --instructions avx2 --onnxruntime /tmp/onnxruntime_avx2
"""

import pathlib
import shutil
import sys

LIBRARY = "node_modules/onnxruntime-node/bin/napi-v6/linux/x64/libonnxruntime.so.1"

# What surrounds a conditional jump, and the jump, which become as many empty instructions.
JUMPS = [
    # leaf 7 has AVX-512F, and the system keeps its registers
    ("41 f7 c2 00 00 01 00 74 0e 4c 89 c0 48 f7 d0 a8 e0", "0f 84 9e 00 00 00"),
    # the system keeps the registers of AVX and AVX-512
    ("41 81 fe e6 00 00 00", "74 6f"),
]


def bind(library: bytearray) -> None:
    for before, jump in JUMPS:
        place = bytes.fromhex(before) + bytes.fromhex(jump)
        found = library.count(place)
        if found != 1:
            sys.exit(f"{LIBRARY}: {found} places like '{before} {jump}', expected one; is it version 1.30.0?")
        end = library.index(place) + len(place)
        length = len(bytes.fromhex(jump))
        library[end - length : end] = b"\x90" * length


def main() -> None:
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    source, target = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    library = bytearray((source / LIBRARY).read_bytes())
    bind(library)
    others = shutil.ignore_patterns("darwin", "win32", "arm64")
    shutil.copytree(source / "node_modules", target / "node_modules", ignore=others)
    copy = target / LIBRARY
    copy.unlink()
    copy.write_bytes(library)


if __name__ == "__main__":
    main()
