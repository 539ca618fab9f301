"""How long emulation by rounding takes: the products of a network as x [M, K] times w [K, N] in float32,
both operands rounded to blocks of 128 with a shared exponent and 11 bits first, as libraries for
Microscaling in PyTorch do it.

usage: emulation.py THREADS ROUNDS < lines of "M K N COUNT"       prints milliseconds (median)
"""
import sys
import time

import torch

BLOCK, BITS = 128, 11


def quantise(x):
    """Blocks along the last axis."""
    rows, terms = x.shape
    padded = torch.nn.functional.pad(x, (0, -terms % BLOCK)).reshape(rows, -1, BLOCK)
    exponent = torch.floor(torch.log2(padded.abs().amax(-1, keepdim=True) + 2.0**-126))
    step = torch.exp2(exponent + 1 - BITS)
    limit = 2.0**BITS - 1
    rounded = torch.clamp(torch.round(padded / step), -limit, limit) * step
    return rounded.reshape(rows, -1)[:, :terms]


def main():
    torch.set_num_threads(int(sys.argv[1]))
    rounds = int(sys.argv[2])
    products = []
    for line in sys.stdin:
        m, k, n, count = map(int, line.split())
        products.append((torch.randn(m, k), torch.randn(n, k), count))
    times = []
    with torch.no_grad():
        for _ in range(rounds + 1):
            begin = time.perf_counter()
            for x, w, count in products:
                for _ in range(count):
                    torch.matmul(quantise(x), quantise(w).T)
            times.append(1000 * (time.perf_counter() - begin))
    print(sorted(times[1:])[rounds // 2])


main()
