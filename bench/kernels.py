"""Kernels that are measured and are no examples: element-wise functions, the sum of a long vector, a scaled product."""

from __future__ import annotations

import tilewright as tw
import tilewright.language as tl


@tw.jit
def exp_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    tl.store(out_ptr + offsets, tl.exp(tl.load(x_ptr + offsets, mask=inside)), mask=inside)


@tw.jit
def gelu_tanh_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    x = tl.load(x_ptr + offsets, mask=inside)
    # (1 + tanh(y)) / 2 is sigmoid(2y)
    tl.store(out_ptr + offsets, x * tl.sigmoid(1.5957691216057308 * (x + 0.044715 * x * x * x)), mask=inside)


@tw.jit
def gelu_erf_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    x = tl.load(x_ptr + offsets, mask=inside)
    tl.store(out_ptr + offsets, 0.5 * x * (1 + tl.erf(x * 0.7071067811865476)), mask=inside)


@tw.jit
def sum_kernel(x_ptr, sums_ptr, n, BLOCK: tl.constexpr):
    """One sum per block."""
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    block = tl.load(x_ptr + offsets, mask=offsets < n, other=0.0)
    tl.store(sums_ptr + tl.program_id(0), tl.sum(block, axis=0))


@tw.jit
def scaled_product_kernel(
    a_ptr, a_scale_ptr, b_ptr, b_scale_ptr, out_ptr, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):
    """a @ b.T, of rows in e5m2 and rows in e2m1, with a scale for every 32 elements."""
    rows = tl.program_id(0) * BM + tl.arange(0, BM)[:, None]
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    groups = tl.arange(0, BK // 32)[None, :]
    total = tl.zeros((BM, BN), tl.float32)
    for start in range(0, k, BK):
        a = tl.load(a_ptr + rows * k + start + tl.arange(0, BK)[None, :])
        b = tl.load(b_ptr + columns[None, :] * (k // 2) + start // 2 + tl.arange(0, BK // 2)[:, None])
        a_scale = tl.load(a_scale_ptr + rows * (k // 32) + start // 32 + groups)
        b_scale = tl.load(b_scale_ptr + columns[:, None] * (k // 32) + start // 32 + groups)
        total = tl.dot_scaled(a, a_scale, "e5m2", b, b_scale, "e2m1", total)
    tl.store(out_ptr + rows * n + columns[None, :], total)
