"""Kernels whose tiles or programs are large: what is sorted, scanned, reduced, moved, multiplied, or long.

    for case in CASES: case.compile()      # a cold cache each time

The bar is one second from source to code, on one core; `measure_hard.py` measures it, and the tests count lines.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import tilewright as tw
import tilewright.language as tl


@tw.jit
def sort_kernel(x_ptr, out_ptr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, DESCENDING: tl.constexpr):
    offsets = tl.arange(0, ROWS)[:, None] * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    tl.store(out_ptr + offsets, tl.sort(tl.load(x_ptr + offsets), descending=DESCENDING))


@tw.jit
def sort_line_kernel(x_ptr, out_ptr, N: tl.constexpr, DESCENDING: tl.constexpr):
    offsets = tl.arange(0, N)
    tl.store(out_ptr + offsets, tl.sort(tl.load(x_ptr + offsets), descending=DESCENDING))


@tw.jit
def topk_kernel(x_ptr, out_ptr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, K: tl.constexpr):
    rows = tl.arange(0, ROWS)[:, None]
    x = tl.load(x_ptr + rows * COLUMNS + tl.arange(0, COLUMNS)[None, :])
    tl.store(out_ptr + rows * K + tl.arange(0, K)[None, :], tl.topk(x, K))


@tw.jit
def affine(a, b, c, d):
    return a * c, b * c + d


@tw.jit
def scan_kernel(x_ptr, y_ptr, out_ptr, SHAPE: tl.constexpr, AXIS: tl.constexpr, REVERSE: tl.constexpr):
    i = tl.arange(0, SHAPE[0])[:, None, None]
    j = tl.arange(0, SHAPE[1])[None, :, None]
    k = tl.arange(0, SHAPE[2])[None, None, :]
    offsets = (i * SHAPE[1] + j) * SHAPE[2] + k
    a, b = tl.associative_scan((tl.load(x_ptr + offsets), tl.load(y_ptr + offsets)), AXIS, affine, reverse=REVERSE)
    tl.store(out_ptr + offsets, a + b)


@tw.jit
def cum_kernel(x_ptr, out_ptr, A: tl.constexpr, B: tl.constexpr, AXIS: tl.constexpr, REVERSE: tl.constexpr):
    offsets = tl.arange(0, A)[:, None] * B + tl.arange(0, B)[None, :]
    x = tl.load(x_ptr + offsets)
    tl.store(out_ptr + offsets, tl.cumsum(x, AXIS, reverse=REVERSE) + tl.cumprod(x, AXIS, reverse=REVERSE))


@tw.jit
def histogram_kernel(x_ptr, out_ptr, N: tl.constexpr, BINS: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, N))
    tl.store(out_ptr + tl.arange(0, BINS), tl.histogram(x, BINS))


@tw.jit
def gather_kernel(x_ptr, index_ptr, out_ptr, A: tl.constexpr, B: tl.constexpr, AXIS: tl.constexpr):
    offsets = tl.arange(0, A)[:, None] * B + tl.arange(0, B)[None, :]
    tl.store(out_ptr + offsets, tl.gather(tl.load(x_ptr + offsets), tl.load(index_ptr + offsets), AXIS))


@tw.jit
def argmax_kernel(x_ptr, out_ptr, A: tl.constexpr, B: tl.constexpr, AXIS: tl.constexpr, LEFT: tl.constexpr):
    offsets = tl.arange(0, A)[:, None] * B + tl.arange(0, B)[None, :]
    found, where = tl.max(tl.load(x_ptr + offsets), AXIS, return_indices=True, return_indices_tie_break_left=LEFT)
    kept = tl.arange(0, A if AXIS == 1 else B)
    tl.store(out_ptr + kept, found + where)


@tw.jit
def reduce_3d_kernel(x_ptr, out_ptr, A: tl.constexpr, B: tl.constexpr, C: tl.constexpr, AXIS: tl.constexpr):
    i = tl.arange(0, A)[:, None, None]
    j = tl.arange(0, B)[None, :, None]
    k = tl.arange(0, C)[None, None, :]
    x = tl.load(x_ptr + (i * B + j) * C + k)
    total = tl.sum(x, AXIS, keep_dims=True) + tl.max(x, AXIS, keep_dims=True)
    tl.store(out_ptr + (i * B + j) * C + k, x - total)


@tw.jit
def chain_kernel(x_ptr, out_ptr, N: tl.constexpr, LENGTH: tl.constexpr):
    offsets = tl.arange(0, N)
    x = tl.load(x_ptr + offsets)
    y = x
    for i in tl.static_range(LENGTH):
        y = tl.where(y > i, y * 0.5 + x, y - x * i)
    tl.store(out_ptr + offsets, y)


@tw.jit
def functions_kernel(x_ptr, out_ptr, N: tl.constexpr):
    offsets = tl.arange(0, N)
    x = tl.load(x_ptr + offsets)
    tl.store(out_ptr + offsets, tl.exp(x) + tl.sin(x) * tl.log(x) + tl.erf(x) / tl.sqrt(x) + tl.cos(x))


@tw.jit
def softmax_kernel(x_ptr, out_ptr, n, N: tl.constexpr):
    offsets = tl.arange(0, N)
    x = tl.load(x_ptr + offsets, offsets < n, other=-float("inf"))
    e = tl.exp(x - tl.max(x, 0))
    tl.store(out_ptr + offsets, e / tl.sum(e, 0), offsets < n)


@tw.jit
def transpose_kernel(x_ptr, out_ptr, A: tl.constexpr, B: tl.constexpr):
    i, j = tl.arange(0, A), tl.arange(0, B)
    x = tl.load(x_ptr + i[:, None] * B + j[None, :])
    tl.store(out_ptr + j[:, None] * A + i[None, :], tl.trans(x) * 2)


@tw.jit
def reshape_kernel(x_ptr, out_ptr, N: tl.constexpr):
    offsets = tl.arange(0, N)
    x = tl.load(x_ptr + offsets)
    low, high = tl.split(tl.reshape(x, [N // 64, 32, 2]))
    y = tl.interleave(low + high, low - high)
    y = tl.permute(tl.reshape(y, [64, N // 512, 8]), [2, 0, 1])
    y = tl.join(tl.ravel(y), x)
    tl.store(out_ptr + offsets[:, None] * 2 + tl.arange(0, 2)[None, :], y)


@tw.jit
def dot_kernel(a_ptr, b_ptr, c_ptr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, STEPS, PRECISION: tl.constexpr):
    i, j, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    c = tl.zeros([M, N], tl.float32)
    for step in range(STEPS):
        a = tl.load(a_ptr + i[:, None] * (K * STEPS) + k[None, :] + step * K)
        b = tl.load(b_ptr + (k[:, None] + step * K) * N + j[None, :])
        c = tl.dot(a, b, c, input_precision=PRECISION)
    tl.store(c_ptr + i[:, None] * N + j[None, :], c)


@tw.jit
def dot_scaled_kernel(a_ptr, sa_ptr, b_ptr, sb_ptr, c_ptr, N: tl.constexpr, A: tl.constexpr, B: tl.constexpr):
    packed_a: tl.constexpr = N // 2 if A == "e2m1" else N
    packed_b: tl.constexpr = N // 2 if B == "e2m1" else N
    i, s = tl.arange(0, N), tl.arange(0, N // 32)
    a = tl.load(a_ptr + i[:, None] * packed_a + tl.arange(0, packed_a)[None, :])
    b = tl.load(b_ptr + tl.arange(0, packed_b)[:, None] * N + i[None, :])
    scales = i[:, None] * (N // 32) + s[None, :]
    c = tl.dot_scaled(a, tl.load(sa_ptr + scales), A, b, tl.load(sb_ptr + scales), B)
    tl.store(c_ptr + i[:, None] * N + i[None, :], c)


@tw.jit
def branches_kernel(x_ptr, out_ptr, n, N: tl.constexpr, COUNT: tl.constexpr):
    offsets = tl.arange(0, N)
    x = tl.load(x_ptr + offsets)
    for i in tl.static_range(COUNT):
        if n % (i + 2) == 0:
            x += tl.sum(x) * i
        elif n % (i + 3) == 1:
            x = tl.where(x > i, x, -x)
        else:
            x -= i
    tl.store(out_ptr + offsets, x)


@tw.jit
def unrolled_kernel(x_ptr, out_ptr, N: tl.constexpr, COUNT: tl.constexpr):
    offsets = tl.arange(0, N)
    total = tl.zeros([N], tl.float32)
    for i in tl.static_range(COUNT):
        total += tl.load(x_ptr + i * N + offsets) * tl.sum(total)
    tl.store(out_ptr + offsets, total)


@tw.jit
def loops_kernel(x_ptr, out_ptr, N: tl.constexpr, COUNT: tl.constexpr):
    offsets = tl.program_id(0) * N + tl.arange(0, N)
    x = tl.load(x_ptr + offsets)
    steps = tl.load(x_ptr).to(tl.int32)
    for i in tl.static_range(COUNT):
        for j in range(steps):
            x += tl.load(x_ptr + offsets + j * i)
    tl.store(out_ptr + offsets, x)


@tw.jit
def loads_kernel(x_ptr, out_ptr, n, N: tl.constexpr, COUNT: tl.constexpr):
    offsets = tl.arange(0, N)
    for i in tl.static_range(COUNT):
        x = tl.load(x_ptr + i * N + offsets, offsets < n)
        tl.store(out_ptr + i * N + offsets, x * x + i, offsets < n)


@tw.jit
def pointers_kernel(x_ptr, out_ptr, N: tl.constexpr, COUNT: tl.constexpr):
    pointers = x_ptr + tl.arange(0, N)
    total = tl.zeros([N], tl.float32)
    for _ in tl.static_range(COUNT):
        total += tl.load(pointers)
        pointers += N
    tl.store(out_ptr + tl.arange(0, N), total)


@tw.jit
def sorts_kernel(x_ptr, out_ptr, N: tl.constexpr, COUNT: tl.constexpr):
    offsets = tl.arange(0, N)
    x = tl.load(x_ptr + offsets)
    for i in tl.static_range(COUNT):
        x = tl.sort(x) + (offsets & i)
    tl.store(out_ptr + offsets, x)


@tw.jit
def scalars_kernel(x_ptr, out_ptr, COUNT: tl.constexpr):
    for i in tl.static_range(COUNT):
        tl.store(out_ptr + i, tl.load(x_ptr + i) * 2)


@tw.jit
def masks_kernel(x_ptr, out_ptr, n, N: tl.constexpr, COUNT: tl.constexpr):
    offsets = tl.arange(0, N)
    place = offsets
    for i in tl.static_range(COUNT):
        place = (place + i) + (place - n)
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets, place < n), place > -n)


@tw.jit
def views_kernel(x_ptr, out_ptr, N: tl.constexpr, COUNT: tl.constexpr):
    offsets = tl.arange(0, N)
    x = tl.load(x_ptr + offsets)
    for _ in tl.static_range(COUNT):
        x = tl.reshape(tl.broadcast_to(tl.expand_dims(x, 0), [1, N]), [N])
    tl.store(out_ptr + offsets, x)


@dataclass(frozen=True)
class Case:
    """A kernel and what it is compiled for.

    Attributes:
        name: says what is large.
        kernel: compiled anew by each `compile`.
        types: of the elements behind each pointer.
        constants: constexpr parameters.
        numbers: parameters that are no pointers.
    """

    name: str
    kernel: Any
    types: tuple[str, ...]
    constants: dict[str, Any]
    numbers: dict[str, int] = field(default_factory=dict)

    def compile(self) -> Any:
        """The kernel, compiled from its source; TRITON_ALWAYS_COMPILE has to be set."""
        arrays = [np.zeros(64, name) for name in self.types]
        return tw.jit(self.kernel.fn).warmup(*arrays, **self.numbers, **self.constants, grid=(1,))


def cases() -> Iterator[Case]:
    """All of them."""
    f4, i4 = "float32", "int32"
    for dtype in ("int8", "uint16", "int32", "uint64", "float16", "float32", "float64"):
        both = (dtype, dtype)
        yield Case(f"sort 1024 {dtype}", sort_line_kernel, both, {"N": 1024, "DESCENDING": dtype < "i"})
        yield Case(f"sort 64x1024 {dtype}", sort_kernel, both, {"ROWS": 64, "COLUMNS": 1024, "DESCENDING": dtype > "i"})
    for size in (4096, 32768):
        yield Case(f"sort {size}", sort_line_kernel, (f4, f4), {"N": size, "DESCENDING": True})
    for dtype in (f4, i4, "float16"):
        yield Case(f"topk 8x4096, 64 {dtype}", topk_kernel, (dtype, dtype), {"ROWS": 8, "COLUMNS": 4096, "K": 64})
    for shape, axis in (((1, 1, 65536), 2), ((1, 256, 256), 1), ((16, 32, 128), 0), ((16, 32, 128), 2)):
        for reverse in (False, True):
            constants = {"SHAPE": shape, "AXIS": axis, "REVERSE": reverse}
            yield Case(f"scan {shape} axis {axis}{' back' * reverse}", scan_kernel, (f4,) * 3, constants)
    for axis in (0, 1):
        for dtype in (f4, "int16"):
            constants = {"A": 256, "B": 1024, "AXIS": axis, "REVERSE": bool(axis)}
            yield Case(f"cumsum and cumprod axis {axis} {dtype}", cum_kernel, (dtype, dtype), constants)
        yield Case(f"gather 256x256 axis {axis}", gather_kernel, (f4, i4, f4), {"A": 256, "B": 256, "AXIS": axis})
        yield Case(
            f"argmax axis {axis}", argmax_kernel, (f4, f4), {"A": 256, "B": 1024, "AXIS": axis, "LEFT": bool(axis)}
        )
    yield Case("histogram 65536, 1024", histogram_kernel, (i4, i4), {"N": 65536, "BINS": 1024})
    for axis in range(3):
        yield Case(
            f"reduce 32x64x128 axis {axis}", reduce_3d_kernel, (f4, f4), {"A": 32, "B": 64, "C": 128, "AXIS": axis}
        )
    yield from large()
    yield from products()
    yield from long()


def large() -> Iterator[Case]:
    """Tiles of up to 1,048,576 elements."""
    two = ("float32", "float32")
    yield Case("chain of 256 ops, 1M", chain_kernel, two, {"N": 1 << 20, "LENGTH": 64})
    yield Case("chain of 2,000 ops, 1M", chain_kernel, two, {"N": 1 << 20, "LENGTH": 500})
    yield Case("functions, 1M", functions_kernel, two, {"N": 1 << 20})
    yield Case("softmax 65,536", softmax_kernel, two, {"N": 65536}, {"n": 60000})
    yield Case("softmax 1M", softmax_kernel, two, {"N": 1 << 20}, {"n": 60000})
    yield Case("transpose 1024x1024", transpose_kernel, two, {"A": 1024, "B": 1024})
    yield Case("transpose 4096x256", transpose_kernel, two, {"A": 4096, "B": 256})
    yield Case("reshape, join, split 512K", reshape_kernel, two, {"N": 1 << 19})


def products() -> Iterator[Case]:
    """Products of large tiles."""
    f4 = "float32"
    tile = {"M": 256, "N": 256, "K": 128}
    for dtype in (f4, "float16"):
        yield Case(
            f"dot 256x256x128 {dtype}", dot_kernel, (dtype, dtype, f4), {**tile, "PRECISION": "ieee"}, {"STEPS": 4}
        )
    for precision in ("tf32x3", "bf16x6"):
        yield Case(
            f"dot 256x256x128 {precision}", dot_kernel, (f4,) * 3, {**tile, "PRECISION": precision}, {"STEPS": 4}
        )
    for a, b in (("e2m1", "e2m1"), ("e4m3", "e2m1"), ("e4m3", "e5m2")):
        yield Case(f"dot_scaled {a} {b}", dot_scaled_kernel, (*("uint8",) * 4, f4), {"N": 128, "A": a, "B": b})


def long() -> Iterator[Case]:
    """Long programs."""
    two = ("float32", "float32")
    yield Case("32 branches of three", branches_kernel, two, {"N": 1024, "COUNT": 32}, {"n": 7})
    yield Case("64 steps, unrolled", unrolled_kernel, two, {"N": 1024, "COUNT": 64})
    yield Case("128 steps, unrolled", unrolled_kernel, two, {"N": 1024, "COUNT": 128})
    yield Case("256 steps, unrolled", unrolled_kernel, two, {"N": 1024, "COUNT": 256})
    yield Case("128 loops in a row", loops_kernel, two, {"N": 1024, "COUNT": 128})
    yield Case("64 masked loads and stores", loads_kernel, two, {"N": 1024, "COUNT": 64}, {"n": 1000})
    yield Case("256 masked loads and stores", loads_kernel, two, {"N": 1024, "COUNT": 256}, {"n": 1000})
    yield Case("128 loads at moving pointers", pointers_kernel, two, {"N": 1024, "COUNT": 128})
    yield Case("4 sorts of 1024", sorts_kernel, two, {"N": 1024, "COUNT": 4})
    yield Case("512 scalar loads and stores", scalars_kernel, two, {"COUNT": 512})
    yield Case("a mask that uses each of 40 steps twice", masks_kernel, two, {"N": 1024, "COUNT": 40}, {"n": 7})
    yield Case("2,000 views", views_kernel, two, {"N": 1024, "COUNT": 2000})
    yield Case("2,000 ops", chain_kernel, two, {"N": 1024, "LENGTH": 500})


CASES = tuple(cases())
