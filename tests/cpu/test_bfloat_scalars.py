"""Scalars of bf16 that live in several blocks of machine code keep their bits: LLVM has no registers for them.

Where the machine has AVX512-BF16, LLVM would go from block to block by an instruction that takes subnormals for 0.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from lowered_code import code_on
from machine_levels import run_here
from tilewright.backends.llvm.machine import host_target

CPUS = run_here("x86-64-v3", "znver4")
SUBNORMAL = 0x0001


@tw.jit
def carried(x, out, n):
    value = tl.load(x)
    for i in range(n):
        value = tl.where(i > 100, value + value, value)
    tl.store(out, value)


@tw.jit
def repeated(x, out):
    value = tl.cast(tl.load(x), tl.bfloat16, bitcast=True)
    tl.store(out + tl.arange(0, 16)[:, None], value)


@code_on("x86-64-v3")
def test_subnormal_numbers_and_nans() -> None:
    for bits in (1, 0x8001, 0x7F, 0x7F81, 0xFFFF):
        x = np.array([bits], np.uint16)
        out = np.zeros(16, np.uint16)
        carried[(1,)](x.view(ml_dtypes.bfloat16), out.view(ml_dtypes.bfloat16), 5)
        assert out[0] == bits
        repeated[(1,)](x.view(np.int16), out.view(ml_dtypes.bfloat16))
        assert (out == bits).all()


@tw.jit(noinline=True)
def store_if(places, value, n):
    if n > 0:
        tl.store(places, value)
    return value


@tw.jit
def across_blocks(tiles, x, out, sums, n, given: tl.bfloat16):
    r = tl.arange(0, 32)
    value = tl.load(x)
    carried = value
    tile = tl.load(tiles + r[:, None] * 32 + r[None, :])
    tl.store(sums + r[:, None] * 32 + r[None, :], tl.dot(tile, tile))
    if n > 0:
        tl.store(out, value)
    else:
        tl.store(out + 1, value)
    for i in range(n):
        if tl.load(sums + i) > 100:
            carried = value
        else:
            value = carried
        tl.store(out + 2 + i % 2, carried)
    while n > 1:
        n -= 1
        if n == 3:
            tl.store(out + 4, given)
    tl.store(out + 5, value)
    tl.store(out + 7, store_if(out + 6, carried, n))


@pytest.mark.parametrize("cpu", CPUS)
@pytest.mark.parametrize("n", [5, 0])
def test_subnormals_beside_products(n: int, cpu: str) -> None:
    tiles, sums = np.ones((32, 32), ml_dtypes.bfloat16), np.zeros((32, 32), np.float32)
    x, out = np.array([SUBNORMAL], np.uint16).view(ml_dtypes.bfloat16), np.zeros(8, ml_dtypes.bfloat16)
    with tw.knobs.tilewright.scope():
        tw.knobs.tilewright.cpu = cpu
        kernel = tw.jit(across_blocks.fn)[(1,)](tiles, x, out, sums, n, 2.0**-133)
    stored = {0, 2, 3, 4, 5, 6, 7} if n else {1, 5, 7}
    assert out.view(np.uint16).tolist() == [SUBNORMAL * (place in stored) for place in range(8)]
    assert (sums == 32).all()
    assert ("avx512bf16" in kernel.asm["llir"]) == ("avx512bf16" in host_target(cpu).features)
