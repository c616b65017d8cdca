"""The request of a cpu.dot to the micro-kernels, read from its buffers, and its form in vector loops."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from tilewright.backends.cpu.allocate_buffers import bytes_of
from tilewright.backends.cpu.dot.spec import DotSpec, Prefetch
from tilewright.backends.cpu.loop_builder import LoopBuilder, known, offset_of
from tilewright.dialects.cpu import CpuDot, Matmul, tile_of
from tilewright.dialects.tt_memory import pointee_type
from tilewright.ir.attributes import Attribute, DenseArray
from tilewright.ir.core import Value
from tilewright.ir.types import i1, i64

FLAGS = ("a_transposed", "b_transposed", "b_shared")


def spec_of(op: CpuDot) -> DotSpec:
    """The spec of one matrix product; a batched dot is `batches_of` of them."""
    a, b, c = (tile_of(v.type) for v in (op.a, op.b, op.accumulator))
    m, n = c.shape[-2:]
    rows, columns = op.seen or (None, None)
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
        b_shared=op.b_shared,
        rows=None if rows is None or known(rows) == m else rows,
        columns=None if columns is None or known(columns) == n else columns,
        zero_init=op.zero_init,
    )


def batches_of(op: CpuDot) -> int:
    """The number of matrix products that a cpu.dot stands for."""
    return prod(tile_of(op.accumulator.type).shape[:-2])


def stride_bytes(buffer: Value) -> int:
    """Distance of two matrices of a batch."""
    tile = tile_of(buffer.type)
    return prod(tile.shape[-2:]) * bytes_of(tile.element)


def put_matmul(b: LoopBuilder, spec: DotSpec, places: Sequence[Value], soon: Sequence[Prefetch]) -> None:
    """Build the op for a product at the addresses of A, B and C; `soon` is what is read next."""
    types = spec.a_type, spec.b_type, spec.acc_type
    counts = ((spec.depth, spec.k), (spec.rows, spec.m), (spec.columns, spec.n))
    numbers = [spec.a_stride, spec.a_step, spec.b_stride, spec.b_step]
    numbers += [extent if count is None else count for count, extent in counts]
    extents = DenseArray(i64, tuple(n for tile in soon for n in (tile.operand, tile.rows, tile.row_bytes)))
    attributes: dict[str, Attribute] = {"shape": DenseArray(i64, (spec.m, spec.n, spec.k))}
    attributes |= {name: True for name in FLAGS if getattr(spec, name)} | ({"soon_extents": extents} if soon else {})
    operands = [b.pointing(place, type) for place, type in zip(places, types, strict=True)]
    operands += [b.number(number) for number in numbers]
    operands.append(b.constant(spec.zero_init, i1) if isinstance(spec.zero_init, bool) else spec.zero_init)
    operands += [value for tile in soon for value in (tile.pointer, b.number(tile.row_stride))]
    b.do("cpu.matmul", operands, attributes)


def spec_of_matmul(op: Matmul) -> tuple[DotSpec, list[Prefetch]]:
    """The request that `put_matmul` was given: numbers that are constants are known."""
    m, n, k = op.shape
    a, b, c = (pointee_type(value.type) for value in (op.a, op.b, op.sums))
    zero_init = known(op.zero_init)
    spec = DotSpec(
        m=m,
        n=n,
        k=k,
        a_type=a,
        b_type=b,
        acc_type=c,
        a_stride=offset_of(op.a_stride),
        b_stride=offset_of(op.b_stride),
        c_stride=n,
        a_transposed=op.a_transposed,
        b_transposed=op.b_transposed,
        b_shared=op.b_shared,
        a_step=offset_of(op.a_step),
        b_step=offset_of(op.b_step),
        depth=None if known(op.depth) == k else offset_of(op.depth),
        rows=None if known(op.rows) == m else op.rows,
        columns=None if known(op.columns) == n else op.columns,
        zero_init=op.zero_init if zero_init is None else bool(zero_init),
    )
    extents = op.soon_extents
    tiles = zip(op.soon[::2], op.soon[1::2], extents[::3], extents[1::3], extents[2::3], strict=True)
    return spec, [Prefetch(place, offset_of(step), rows, bytes, which) for place, step, which, rows, bytes in tiles]
