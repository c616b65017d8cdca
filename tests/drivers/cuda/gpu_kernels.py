"""Kernels that tests launch on GPUs that are not there."""

from __future__ import annotations

import tilewright as tw
import tilewright.language as tl


@tw.jit
def add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    total = tl.load(x_ptr + offsets, mask=inside) + tl.load(y_ptr + offsets, mask=inside)
    tl.store(out_ptr + offsets, total, mask=inside)


@tw.jit
def fill(out_ptr, a: tl.int64, b: tl.float32, c: tl.float64, d: tl.int8, e: tl.float16, f: tl.bfloat16, g: tl.int1):
    tl.store(out_ptr, a + b + c + d + e + f + g)


@tw.jit
def wide(a, b, c, n: tl.int32, m: tl.int32, k: tl.int32, scale, bias):
    tl.store(a, tl.load(b) * scale + tl.load(c) * bias + n * m + k)


@tw.jit
def through_descriptor(x_ptr, n, ROWS: tl.constexpr):
    x = tl.make_tensor_descriptor(x_ptr, [n, 32], [32, 1], [ROWS, 32])
    row = tl.program_id(0) * ROWS
    x.store([row, 0], x.load([row, 0]) * 2)


@tw.jit
def nothing(n):
    tl.device_print("n", n)


@tw.jit
def product(a_ptr, b_ptr, out_ptr, STEPS, SIZE: tl.constexpr):
    rows, columns = tl.arange(0, SIZE)[:, None], tl.arange(0, SIZE)[None, :]
    total = tl.zeros((SIZE, SIZE), tl.float32)
    for step in range(STEPS):
        offsets = step * SIZE * SIZE + rows * SIZE + columns
        total = tl.dot(tl.load(a_ptr + offsets), tl.load(b_ptr + offsets), total)
    tl.store(out_ptr + rows * SIZE + columns, total)
