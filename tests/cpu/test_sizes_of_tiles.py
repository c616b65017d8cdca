"""How much code kernels become for tiles of every size: a limit that moves by one shows where a size is just at it.

    row_sums 16x8: 48 ops, 61 instructions, 5f0c11d2
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from code_counts import code_of, ttir
from tilewright.backends.llvm.machine import host_target

CPU = "znver5"
FLOATS, HALVES, BYTES = np.zeros(16, np.float32), np.zeros(16, np.float16), np.zeros(16, np.int8)


@tw.jit
def softmax(x, out, n, R: tl.constexpr, C: tl.constexpr):
    i, j = tl.program_id(0) * R + tl.arange(0, R)[:, None], tl.arange(0, C)[None, :]
    values = tl.exp(tl.load(x + i * n + j, mask=j < n, other=0.0))
    tl.store(out + i * n + j, values / tl.sum(values, 1)[:, None], mask=j < n)


@tw.jit
def shifted(x, out, n, R: tl.constexpr, C: tl.constexpr):
    i, j = tl.program_id(0) * R + tl.arange(0, R)[:, None], tl.arange(0, C)[None, :]
    scale = tl.exp(tl.load(x + j)) + tl.sin(tl.load(x + n + j))
    tl.store(out + i * n + j, tl.load(x + i * n + j) * scale)


@tw.jit
def copied(x, out, n, R: tl.constexpr, C: tl.constexpr):
    i, j = tl.program_id(0) * R + tl.arange(0, R)[:, None], tl.arange(0, C)[None, :]
    tl.store(out + i * n + j, tl.load(x + i * n + j))


@tw.jit
def chained(x, out, n, R: tl.constexpr, C: tl.constexpr):
    """R products one behind the other, needed before and behind a sum."""
    j = tl.program_id(0) * n + tl.arange(0, C)
    values = tl.load(x + j)
    for _ in tl.static_range(R):
        values *= values
    tl.store(out + j, values / tl.sum(values, 0))


@tw.jit
def looped(x, out, n, R: tl.constexpr, C: tl.constexpr, K: tl.constexpr):
    """K steps of a loop, each with R products."""
    j = tl.program_id(0) * C + tl.arange(0, C)
    total = tl.zeros((C,), tl.float32)
    for step in range(K):
        values = tl.load(x + step * n + j)
        for _ in tl.static_range(R):
            values *= values
        total += values
    tl.store(out + j, total)


@tw.jit
def transposed(x, out, n, R: tl.constexpr, C: tl.constexpr):
    i, j = tl.arange(0, R)[:, None], tl.program_id(0) * C + tl.arange(0, C)[None, :]
    tl.store(out + j * n + i, tl.load(x + i * n + j))


@tw.jit
def column_sums(x, out, n, R: tl.constexpr, C: tl.constexpr):
    i, j = tl.arange(0, R)[:, None], tl.arange(0, C)[None, :]
    tl.store(out + tl.arange(0, C), tl.sum(tl.load(x + i * n + j), 0))


@tw.jit
def gathered(x, out, n, R: tl.constexpr, C: tl.constexpr):
    i, j = tl.arange(0, R)[:, None], tl.arange(0, C)[None, :]
    rows = tl.load(out + tl.arange(0, R)).to(tl.int32)[:, None]
    tl.store(out + i * C + j, tl.load(x + rows * n + j, mask=j < n, other=0.0))


@tw.jit
def scanned(x, out, n, R: tl.constexpr, C: tl.constexpr):
    i, j = tl.arange(0, R)[:, None], tl.arange(0, C)[None, :]
    tl.store(out + i * C + j, tl.cumsum(tl.load(x + i * n + j, mask=j < n, other=0.0), 1))


@tw.jit
def ordered(x, out, n, R: tl.constexpr, C: tl.constexpr):
    i, j = tl.arange(0, R)[:, None], tl.arange(0, C)[None, :]
    tl.store(out + i * C + j, tl.sort(tl.load(x + i * n + j)))


@tw.jit
def checked(x, out, n, R: tl.constexpr, C: tl.constexpr):
    i, j = tl.arange(0, R)[:, None], tl.arange(0, C)[None, :]
    values = tl.load(x + i * n + j)
    tl.device_assert(values >= 0, "negative")
    tl.store(out + i * C + j, values)


@tw.jit
def product(x, out, n, R: tl.constexpr, C: tl.constexpr, K: tl.constexpr):
    i, j, k = tl.arange(0, R)[:, None], tl.arange(0, C)[None, :], tl.arange(0, K)
    total = tl.zeros((R, C), tl.int32 if x.dtype.element_ty == tl.int8 else tl.float32)
    for start in range(0, n, K):
        left = tl.load(x + i * n + start + k[None, :])
        total = tl.dot(left, tl.load(x + (start + k[:, None]) * C + j), total)
    tl.store(out + i * C + j, total)


SIZES: dict[Any, tuple[str, ...]] = {
    softmax: ("1x2", "1x16", "1x64", "1x128", "1x1024", "2x16", "4x8", "8x32", "16x4", "2x2048"),
    shifted: ("2x16", "4x8", "8x4", "4x64", "16x32", "8x1024", "4x2048", "4x4096"),
    copied: ("1x128", "1x256", "1x1024", "4x32", "8x32", "16x16", "2x64", "8x16", "4x256"),
    chained: ("1x64", "3x64", "6x64", "7x64", "8x64", "9x64", "11x64", "12x64", "7x256", "8x256"),
    looped: ("1x1024x3", "1x1024x4", "1x1024x5", "21x1024x9", "22x1024x9", "23x1024x9", "24x1024x9"),
    transposed: ("4x4", "8x8", "8x16", "16x8", "4x64", "32x2", "64x16", "2x128"),
    column_sums: ("4x16", "8x8", "16x4", "8x128", "16x256", "2x64"),
    gathered: ("2x4", "4x4", "8x16", "4x64", "4x8", "16x2"),
    scanned: ("1x4", "1x16", "4x8", "4x16", "8x64", "16x2"),
    ordered: ("1x8", "1x16", "4x16", "1x64", "2x256"),
    checked: ("1x16", "4x8", "4x16", "2x32"),
    product: ("1x16x16", "4x16x32", "8x32x16", "16x64x16", "64x128x16", "32x16x64", "128x64x32", "2x256x16"),
}


def lines(kernel: Any, values: np.ndarray[Any, Any]) -> Iterator[str]:
    """The kernel for each of its sizes."""
    for size in SIZES[kernel]:
        constants = dict(zip("RCK", map(int, size.split("x")), strict=False))
        module = ttir(kernel, {"x": values, "out": FLOATS, "n": 64, **constants})
        yield f"{kernel.fn.__name__} {values.dtype} {size}: {code_of(module, host_target(CPU))}\n"


@pytest.mark.quick
@pytest.mark.parametrize("kernel", SIZES, ids=lambda kernel: kernel.fn.__name__)
def test_code_of_tiles(kernel: Any, golden: Callable[[str, str], None]) -> None:
    golden("".join(lines(kernel, FLOATS)), f"cpu/counts/sizes/{kernel.fn.__name__}.txt")


@pytest.mark.quick
@pytest.mark.parametrize("values", [HALVES, BYTES], ids=lambda values: str(values.dtype))
def test_code_of_products(values: np.ndarray[Any, Any], golden: Callable[[str, str], None]) -> None:
    golden("".join(lines(product, values)), f"cpu/counts/sizes/product_{values.dtype}.txt")
