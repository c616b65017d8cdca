"""Kernels that are measured and are no examples: element-wise functions, and the sum of a long vector."""

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
