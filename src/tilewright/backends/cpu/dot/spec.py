"""The request to a dot micro-kernel, and the element types that it requires of its operands.

The caller keeps three tiles in scratch memory: A of m × k, B of k × n and C of m × n elements.

    DotSpec(m=128, n=128, k=64, a_type=f32, b_type=f32, acc_type=f32, a_stride=64, b_stride=128, c_stride=128)

means C += A·B, all row-major. `a_transposed` says that A is stored as [k][m], `b_transposed` that B is stored as
[n][k]; a stride is then that of the stored rows. Parts of a byte address may be constants or run-time values: `times`,
`plus` and `behind` compute with them.

`spec_of` reads the request of a cpu.dot from its buffers. In vector loops it is the op cpu.matmul, which `put_matmul`
writes and `spec_of_matmul` reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod

from tilewright.backends.cpu.allocate_buffers import bytes_of
from tilewright.backends.cpu.loop_builder import LoopBuilder, known, offset_of
from tilewright.backends.llvm.machine import Target
from tilewright.dialects.cpu import CpuDot, Matmul, tile_of
from tilewright.dialects.tt_memory import pointee_type
from tilewright.ir.attributes import Attribute, DenseArray
from tilewright.ir.core import Block, Value
from tilewright.ir.types import FLOATS, IntType, Type, bf16, f32, f64, i1, i8, i16, i32, i64

Offset = int | Value
"""A number known now, or an i64 known at run time."""
AT_RUN_TIME: Offset
(AT_RUN_TIME,) = Block((i64,)).args
"""Stands for what is known at run time only, where it has no value yet."""


@dataclass(frozen=True, kw_only=True)
class DotSpec:
    """C (+)= A·B for tiles in memory.

    Attributes:
        m, n, k: extents, powers of two.
        a_type, b_type: element types as they lie in memory, from `operand_element_type`.
        acc_type: element type of C: f32, f64, i32 or i64.
        a_stride, b_stride: distance of rows in elements. A value says that the operand is read where the program's
            data lies: rows are far apart, so B is packed panel by panel.
        a_step, b_step: distance of the columns of A and B as they lie, in elements; what is not 1 needs `takes_steps`.
        depth: how many of the k count, from 1 to k; less than k only where `takes_steps` holds for both operands.
        rows: how many of the m rows count, from 0 to m; None: all of them. C holds anything in the others, and where A
            is read in place row by row, they need not exist.
        columns: how many of the n columns count, from 0 to n; None: all of them. C holds anything in the others, and
            where its columns are neighbours, B need not exist behind `columns_read`.
        c_stride: distance of rows of C in elements.
        a_transposed, b_transposed: A lies as [k][m], B lies as [n][k].
        zero_init: C = A·B; what C held before is not read. An i1 where that is known at run time only.
        b_shared: the products behind this one nearly always have the same B.
        a_biased: A's bytes have been xor-ed with 128 already; only where `wants_bias` says so.
    """

    m: int
    n: int
    k: int
    a_type: Type
    b_type: Type
    acc_type: Type
    a_stride: Offset
    b_stride: Offset
    c_stride: int
    a_transposed: bool = False
    b_transposed: bool = False
    b_shared: bool = False
    a_step: Offset = 1
    b_step: Offset = 1
    depth: Offset | None = None
    rows: Offset | None = None
    columns: Offset | None = None
    zero_init: bool | Value = False
    a_biased: bool = False


@dataclass(frozen=True)
class Prefetch:
    """Memory that will be read soon: `rows` rows of `row_bytes` bytes, `row_stride` bytes apart, from `pointer` on.

    `rows` and `row_bytes` are powers of two. The addresses need not be valid.

    Attributes:
        operand: 0: the next A, 1: the next B, 2: where C goes to.
        instead: conditions, each with the memory that is read where it is the first to hold.
    """

    pointer: Value
    row_stride: Offset
    rows: int
    row_bytes: int
    operand: int = 0
    instead: tuple[tuple[Value, Prefetch], ...] = ()


@dataclass(frozen=True)
class MergedProducts:
    """Products of the same shape and distances that are added at once, in order.

    Attributes:
        waits: an i1, whether this one is left to the next iteration, once B is packed.
        count: their number, an i64, this one included.
        table: the address of the addresses of the A and of the packed B of each.
    """

    waits: Value
    count: Value
    table: Value


def operand_element_type(type: Type, target: Target) -> Type:
    """The element type in which both operands of a dot should lie in memory.

    Every value of `type` has the same value in the result type, so converting on the way into scratch is exact.

    Args:
        type: the element type of the program's operand.
        target: the machine.

    Raises:
        ValueError: there is no dot of that type.
    """
    if type is f64 or type is f32:
        return type
    if isinstance(type, IntType) and type.bits in (8, 16, 32, 64):
        return _integer_operand(type, target)
    if type in FLOATS.values():
        fits_bf16 = type is bf16 or type.bits == 8
        return bf16 if fits_bf16 and multiplies_bf16(target) else f32
    raise ValueError(f"no dot of {type.text} operands")


def _integer_operand(type: IntType, target: Target) -> Type:
    if type.bits >= 32:
        return type
    if type.bits == 8 and (target.has_vnni or "dotprod" in target.features):
        return type
    return i32 if target.neon else i16


def wants_bias(type: Type, target: Target) -> bool:
    """Whether a dot of operands that lie in memory as `type` saves a copy of A if A's bytes come xor-ed with 128."""
    return type is i8 and target.has_vnni and "amx-int8" not in target.features


def multiplies_bf16(target: Target) -> bool:
    """Whether the target has a dot product of bf16 pairs into fp32."""
    return target.has_avx512bf16 or (target.neon and "bf16" in target.features)


def times(ops: LoopBuilder, first: Offset, second: Offset) -> Offset:
    """The product; an op only when it is not known now."""
    if isinstance(first, int) and isinstance(second, int):
        return first * second
    return 0 if first == 0 or second == 0 else ops.mul(first, second)


def plus(ops: LoopBuilder, first: Offset, second: Offset) -> Offset:
    """The sum; an op only when it is not known now."""
    if isinstance(first, int) and isinstance(second, int):
        return first + second
    return ops.add(first, second)


def advance(ops: LoopBuilder, pointer: Value, index: Offset, stride: Offset = 1) -> Value:
    """The address `index` times `stride` bytes behind `pointer`."""
    return ops.offset(pointer, times(ops, index, stride))


@contextmanager
def each(ops: LoopBuilder, trips: Offset, *, nonempty: bool = True) -> Iterator[Offset]:
    """Let ops be executed for each index 0 … trips-1, which is given; one trip needs no loop.

    Args:
        ops: where ops go.
        trips: the number of trips.
        nonempty: there is one trip at least.
    """
    if trips == 1:
        yield 0
    else:
        with ops.loop(0, trips, nonempty=nonempty) as loop:
            yield loop.index


def carry(
    ops: LoopBuilder,
    trips: Offset,
    body: Callable[[Offset, list[Value]], Sequence[Value]],
    carried: Sequence[Value],
) -> list[Value]:
    """`each` with `body(index, carried values) -> next values`; returns the carried values after the last trip."""
    if trips == 1:
        return list(body(0, list(carried)))
    with ops.loop(0, trips, carried=carried, nonempty=True) as loop:
        loop.next = body(loop.index, loop.carried)
    return loop.results


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
