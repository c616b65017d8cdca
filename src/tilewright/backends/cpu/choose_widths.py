"""Vector widths of nests, and the number of vectors per iteration of each loop.

    "cpu.nest"() <{mode = rows, outer = array<i64>}>    →    "cpu.nest"() <{chunks = array<i64: 4>, lanes = 16, …}>

A vector has as many lanes of the widest computed type as fill a register. A loop processes several vectors per
iteration if they are cheap, which also gives reductions enough independent accumulators. A nest that only moves
elements of buffers to addresses that are in a buffer, too, has one lane, because vectors would only be taken apart.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.backends.cpu.affine import is_affine
from tilewright.backends.cpu.alignment import least_lanes
from tilewright.backends.cpu.costs import ATOMICS, cost, is_tile
from tilewright.backends.cpu.reduction_splitting import Nest, is_bound_by_memory
from tilewright.backends.cpu.row_numbers import adds_lines
from tilewright.backends.llvm.machine import Target
from tilewright.dialects.cpu import Accumulate, Read
from tilewright.dialects.cpu import Nest as NestOp
from tilewright.dialects.traits import WritesMemory
from tilewright.dialects.tt_memory import Load, Store
from tilewright.dialects.tt_reduce import Fold, Reduce
from tilewright.ir.attributes import Number
from tilewright.ir.core import Op, Value, tile_type
from tilewright.ir.types import PointerType, TensorType, i64

MIN_COLUMNS, MAX_COLUMNS = 2, 8
"""Min and max vectors of columns side by side: a few lines of a row one after the other, as processors fetch them."""

UNROLLED = 48
"""Max cost, in vector instructions, up to which chunks are unrolled."""

ITERATIONS = 8
"""Min trip count after unrolling a loop over one tile; unrolling short tiles only grows code."""

WORDS = 8
"""Elements that an iteration of a loop brings from buffers to places of their own."""

LONG = 4
"""Max cost that one op counts for in the choice of unrolling, in vector instructions."""


def choose_widths(module: Op, target: Target) -> bool:
    """Choose vector widths and unroll factors of the nests of `module` (ttcir); returns whether there is one."""
    nests = [op for op in module.ops_of(NestOp) if not op.square]
    for op in nests:
        nest = Nest(op)
        lanes = _lanes(nest, target)
        chunks = [_chunks(nest, target, sinks, extent // min(extent, lanes)) for _, extent, sinks in nest.every_loop()]
        op.mark(lanes=lanes, chunks=chunks)
        for loop in op.body.ops_of(Accumulate):
            at_once = max(1, target.costs.registers // (2 * sum(map(is_tile, loop.results))))
            loop.attributes |= {"at_once": Number(at_once, i64)}
    return bool(nests)


def _lanes(nest: Nest, target: Target) -> int:
    """The lanes of a vector; numbers of a row have none."""
    if any(isinstance(r, ATOMICS) and not adds_lines(r) for r in nest.sinks) or _scatters_words(nest):
        return 1
    computed = [v for op in nest.body.ops() for v in op.results if _is_computed(op, v)]
    stored = [v for r in nest.sinks for v in r.operands if _is_number_tile(v)]
    has_lanes = [v for v in (*computed, *stored) if nest.mode != "rows" or not _is_one_per_row(nest, v)]
    bits = max([8, *(v.type.bits for v in has_lanes)])
    lanes = max(least_lanes(nest.body), _register_bits(nest, target) // bits)
    return lanes if nest.mode == "rows" else _columns(nest, target) * lanes


def _is_one_per_row(nest: Nest, value: Value) -> bool:
    return nest.is_row_level(value) or tile_type(value).shape[-1] == 1


def _columns(nest: Nest, target: Target) -> int:
    """The vectors of columns side by side: what is reduced down them takes a quarter of the registers at most."""
    folds = [sink for sink in nest.sinks if isinstance(sink, Fold)]
    if not all(isinstance(fold, Reduce) for fold in folds):
        return MIN_COLUMNS
    carried = max(1, sum(len(fold.results) for fold in folds))
    computed = [(op, tile_type(v).numel) for op in nest.body.ops() for v in op.results if _is_computed(op, v)]
    whole = max((numel for _, numel in computed), default=0)  # less is computed once for all rows
    size = sum(min(cost(op), LONG) for op, numel in computed if numel == whole) + carried
    most = min(MAX_COLUMNS, target.costs.registers // (4 * carried), UNROLLED // size)
    return max(MIN_COLUMNS, 1 << max(most, 1).bit_length() - 1)


def _chunks(nest: Nest, target: Target, sinks: Sequence[Op], vectors: int) -> int:
    """The vectors of one iteration of the loop of `sinks`, which has so many in all."""
    if _scatters_words(nest) and not nest.op.optimize_size:
        return min(WORDS, vectors)
    if nest.mode != "rows" or nest.op.optimize_size or nest.op.wraps or any(map(_goes_lane_by_lane, sinks)):
        return 1
    needed = {o for r in sinks for o in nest.closures[r]}
    ops = {o for o in needed if not nest.is_row_level(o.result)}
    size = sum(min(cost(o), LONG) for o in ops)
    sums = any(isinstance(o, Reduce) for o in sinks) or any(isinstance(o, Accumulate) for o in needed)
    most = target.costs.chains if sums else target.costs.chunks
    if any(o.name.startswith("math.exp") for o in ops):
        most = min(most, target.costs.chunks_with_powers)
    wanted = next(n for n in (most, 4, 2, 1) if n <= most and (n * size <= UNROLLED or n == 1))
    is_one_tile = not nest.outer and not sums
    return max(1, min(wanted, vectors // ITERATIONS if is_one_tile else vectors))


def _register_bits(nest: Nest, target: Target) -> int:
    """Nests that only move memory take half registers where a full one is two halves anyway.

    Half a register crosses a cache line half as often: a vector add from DRAM runs 10 % faster on Zen 4.
    """
    moves = any(isinstance(r, WritesMemory) for r in nest.sinks) and not any(isinstance(r, Reduce) for r in nest.sinks)
    moves = moves and is_bound_by_memory(nest, nest.body.ops())
    return target.vector_bits // 2 if moves and target.costs.splits_vectors else target.vector_bits


def _goes_lane_by_lane(sink: Op) -> bool:
    """Whether each lane has a place of its own in memory."""
    return isinstance(sink, ATOMICS) or (isinstance(sink, Store) and not is_affine(sink.pointer))


def _scatters_words(nest: Nest) -> bool:
    """Whether all that the nest does is to store elements of buffers at addresses that are read from a buffer."""
    return nest.mode == "rows" and all(
        isinstance(r, Store) and isinstance(r.pointer.op, Read) and isinstance(r.value.op, Read) for r in nest.sinks
    )


def _is_number_tile(value: Value) -> bool:
    return isinstance(value.type, TensorType) and not isinstance(value.type.element, PointerType)


def _is_computed(op: Op, value: Value) -> bool:
    """Whether `value` is computed lane by lane; indices and addresses are not, they stay affine."""
    if not _is_number_tile(value):
        return False
    return "f" in value.type.scalar.text or isinstance(op, (Accumulate, Load, Read, Fold))
