"""The request that a cpu.dot makes of the micro-kernels, read off its buffers."""

from __future__ import annotations

from math import prod

from tilewright.backends.cpu.allocate_buffers import bytes_of
from tilewright.backends.cpu.dot.lower import takes_steps
from tilewright.backends.cpu.dot.spec import DotSpec
from tilewright.backends.llvm.machine import Target
from tilewright.dialects.cpu import CpuDot, tile_of
from tilewright.ir.core import Value


def spec_of(op: CpuDot) -> DotSpec:
    """The spec of one matrix product; a batched dot is `batches_of` of them."""
    a, b, c = (tile_of(v.type) for v in op.operands)
    m, n = c.shape[-2:]
    a_transposed, b_transposed = op.a_transposed, op.b_transposed
    return DotSpec(
        m=m,
        n=n,
        k=a.shape[-2] if a_transposed else a.shape[-1],
        a_type=a.element,
        b_type=b.element,
        acc_type=c.element,
        a_stride=a.shape[-1],
        b_stride=b.shape[-1],
        c_stride=n,
        a_transposed=a_transposed,
        b_transposed=b_transposed,
        zero_init=op.zero_init,
    )


def may_step(buffer: Value, target: Target) -> bool:
    """Whether all dots on `buffer` can read it with its columns apart from each other."""
    dots = [op for op in buffer.uses if isinstance(op, CpuDot)]
    places = [(op, place) for op in dots for place, factor in enumerate((op.a, op.b)) if factor is buffer]
    return all(takes_steps(spec_of(op), place, target) for op, place in places)


def batches_of(op: CpuDot) -> int:
    """The number of matrix products that a cpu.dot stands for."""
    return prod(tile_of(op.accumulator.type).shape[:-2])


def stride_bytes(buffer: Value) -> int:
    """Distance of two matrices of a batch."""
    tile = tile_of(buffer.type)
    return prod(tile.shape[-2:]) * bytes_of(tile.element)
