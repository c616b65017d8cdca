"""Writes and products are limited to the rows and columns of their buffers that are read.

    %c = cpu.alloc
    …  cpu.dot %a, %b, %c                                                    →    cpu.dot %a, %b, %c, min(M, 64), 128
    cpu.nest { tt.store %p, f(cpu.read %c), (rows[:, None] < M) & … }

Where the mask is off, a row or a column of C is never read, if all readers of C are elementwise and store under masks.
Such a row need not be computed, whatever A and B hold there; the same is true of what a nest writes. A reduction along
the rows keeps columns separate, and what is read of a buffer follows from what is read of its copies. The mask has to
be the same as long as C is live, so that a row that is left out once is not read later: it depends only on values that
are defined in a block around C's allocation. A copy for a product is limited to the rows of A, or columns of B, that
the product needs.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import reduce
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

from tilewright.backends.cpu.costs import conjuncts
from tilewright.backends.cpu.loop_builder import LoopBuilder, operand_of
from tilewright.backends.cpu.nest.context import Context
from tilewright.backends.cpu.nest.evaluate import evaluate
from tilewright.backends.cpu.nest.lane_values import LANE, ZERO, ActiveLaneBound
from tilewright.dialects.cpu import CpuDot, GuardedStore, Nest, Read, Write, tile_of
from tilewright.dialects.tt_function import Func
from tilewright.dialects.tt_memory import Store
from tilewright.dialects.tt_program import MakeRange
from tilewright.dialects.tt_reduce import Reduce
from tilewright.dialects.tt_shape import Broadcast, ExpandDims, Splat, Trans
from tilewright.ir.core import Block, Op, Value, tile_type
from tilewright.transforms.functions import functions_of

Axes: TypeAlias = tuple[int | None, ...]
"""For each axis of a buffer, the axis of a tile that it has become; None if it is reduced."""


class Shown(NamedTuple):
    """A store of what is computed of a buffer; where its elements lie in the tile that is stored."""

    store: Store | GuardedStore
    axes: Axes


def demanded_lanes(module: Op) -> bool:
    """Record how much of each write and product of `module` (ttcir) is read; returns whether anything changed."""
    told = [_Function(function).count_all() for function in functions_of(module)]
    return any(told)


class _Function:
    """Counts in one function.

    Attributes:
        written: the scalars that there are at the op at hand.
        numbers: what is known already: by buffer, axis, and the block in which it was computed.
    """

    def __init__(self, function: Func) -> None:
        self._body, self._changed = function.body, False
        self.builder = LoopBuilder(Block(), entry=function.body)
        self.written: set[Value] = set()
        self.numbers: dict[tuple[Value, int, Block], Value] = {}
        self._stores: dict[Value, list[Shown]] = {}
        for buffer in filter(None, map(_filled, reversed(function.ops_of((Write, CpuDot))))):
            if buffer not in self._stores:
                self._stores[buffer] = stores_of(buffer, self._stores)

    def count_all(self) -> bool:
        """Annotate all writes and products with the lanes that are read; returns whether ops were built for it."""
        self.count(self._body)
        return self._changed

    def count(self, block: Block) -> None:
        """Annotate the writes and products of `block` with the lanes that are read."""
        self.written.update(block.args)
        for op in block:
            if isinstance(op, Nest):
                for write in op.body.ops_of(Write):
                    if not write.row:
                        self._tell(write, write.buffer, op)
            elif isinstance(op, CpuDot):
                self._tell(op, op.accumulator, op)
            else:
                for inner in [inner for region in op.regions for inner in region.blocks]:
                    self.count(inner)
            self.written.update(op.results)

    def _tell(self, op: Write | CpuDot, buffer: Value, before: Op) -> None:
        """Give `op`, which fills `buffer`, the numbers of lanes that are read, before `before`, unless all are."""
        shape = tile_of(buffer.type).shape
        self.builder.location = before.location
        b = self.builder
        with b.before(before):
            seen = {axis: self._seen(b, before, buffer, axis) for axis, buffer in self._shown(op, buffer, before)}
            self._changed |= b.block.first is not None
        if any(number is not None for number in seen.values()):
            numbers = (seen.get(axis) or extent for axis, extent in enumerate(shape))
            op.set_operands([*op.operands, *map(b.number, numbers)])

    def _shown(self, op: Write | CpuDot, buffer: Value, nest: Op) -> list[tuple[int, Value]]:
        """The axes along which a part of `buffer` may do for `op`, and the buffers that say which part."""
        rank = len(tile_of(buffer.type).shape)
        if isinstance(op, CpuDot):
            return [(0, buffer), (1, buffer)] if rank == 2 else []
        if not op.elide_copy:
            loops = len(nest.outer) + 1 if isinstance(nest, Nest) else 0
            return [(axis, buffer) for axis in range(loops if loops <= rank else 0)]
        dots = [user for user in buffer.uses if isinstance(user, CpuDot)]
        if len(dots) != 1 or dots[0].a is dots[0].b:
            return []
        (dot,) = dots
        axis, is_transposed = (0, dot.a_transposed) if dot.a is buffer else (1, dot.b_transposed)
        return [] if is_transposed else [(axis, dot.accumulator)]

    def _seen(self, b: LoopBuilder, user: Op, buffer: Value, axis: int) -> Value | None:
        """The number of rows (axis 0) or columns (1) of `buffer` that are seen, from 0 to all; None: perhaps all."""
        blocks, shape = blocks_around(user), tile_of(buffer.type).shape
        known = (self.numbers.get((buffer, axis, block)) for block in blocks)
        found = next((value for value in known if value is not None), None)
        if found is not None or len(shape) not in (1, 2):
            return found
        c = Context(b, operand_of, 1)
        ends = [_end(c, shown, buffer, axis, self.written) for shown in self._stores[buffer]]
        known_ends = dict.fromkeys(end for end in ends if end is not None)
        if None in ends or not ends:
            return None
        found = self.numbers[buffer, axis, blocks[0]] = b.smax(b.smin(reduce(b.smax, known_ends), shape[axis]), 0)
        return found


def _filled(op: Op) -> Value | None:
    """The buffer, other than one for a row of its nest, that `op` puts results into."""
    if isinstance(op, CpuDot):
        return op.accumulator
    return op.buffer if isinstance(op, Write) and not op.row else None


def stores_of(buffer: Value, known: Mapping[Value, list[Shown]] = MappingProxyType({})) -> list[Shown]:
    """All stores of what is computed of `buffer` without mixing rows or columns; none if it is used otherwise, too.

    The last buffers come first, and `known` values are not followed again.
    """
    found: dict[Shown, None] = {}
    seen: set[tuple[Op, Value, Axes]] = set()
    own = _axes_of(buffer)
    waiting = [(user, buffer, own) for user in buffer.uses]
    while waiting:
        op, value, axes = waiting.pop()
        if (op, value, axes) in seen:
            continue
        seen.add((op, value, axes))
        if isinstance(op, (Store, GuardedStore)) and value is op.value and value not in (op.pointer, op.mask):
            found[Shown(op, axes)] = None
        elif axes == own and _keeps_places(op, value):
            continue
        elif isinstance(op, Write) and op.buffer in known and _moved(op, axes) == _axes_of(op.buffer):
            if not known[op.buffer]:
                return []
            found |= dict.fromkeys(known[op.buffer])
        elif (moved := _moved(op, axes)) is not None:
            results = [op.buffer] if isinstance(op, Write) else op.results
            waiting += [(user, result, moved) for result in results for user in result.uses if user is not op]
        else:
            return []
    return list(found)


def _axes_of(buffer: Value) -> Axes:
    """A buffer's axes where none has moved."""
    return tuple(range(len(tile_of(buffer.type).shape)))


def _moved(op: Op, axes: Axes) -> Axes | None:
    """The axes of the results of `op`; None if it mixes the elements in another way, or depends on their indices."""
    if (isinstance(op, (Read, Write)) and not op.row) or op.definition.elementwise:
        return axes
    if isinstance(op, Trans):
        return tuple(None if axis is None else op.order.index(axis) for axis in axes)
    if isinstance(op, ExpandDims):
        return tuple(None if axis is None else axis + (axis >= op.axis) for axis in axes)
    if isinstance(op, Reduce):
        return tuple(None if axis in (None, op.axis) else axis - (axis > op.axis) for axis in axes)
    return None


def _keeps_places(op: Op, buffer: Value) -> bool:
    """Whether `op` computes elements of `buffer` from the same elements, and uses them for nothing else."""
    if isinstance(op, CpuDot):
        return buffer not in (op.a, op.b)
    return isinstance(op, Write) and op.buffer is buffer


def _end(c: Context, shown: Shown, buffer: Value, axis: int, written: Collection[Value]) -> Value | None:
    """The row or column from which on a store does nothing; None if that is not known here."""
    store, place = shown.store, shown.axes[axis]
    c.extent = tile_of(buffer.type).shape[axis]
    axes = [number == place for number in range(len(tile_type(store.value).shape))]
    alone, index = tuple(c.extent if it else 1 for it in axes), tuple(LANE if it else ZERO for it in axes)
    ends = []
    for condition in conjuncts(store.mask) if store.mask is not None and place is not None else ():
        if condition.type.shape != alone or not _is_fixed(condition, buffer, written):
            continue
        on = evaluate(c, condition, index)
        if isinstance(on, ActiveLaneBound) and on.level == 0:
            ends.append(c.b.number(c.end_of(on)))
    return reduce(c.b.smin, ends) if ends else None


def _is_fixed(condition: Value, buffer: Value, written: Collection[Value]) -> bool:
    """Whether `condition` is computed without memory of what is there now and as long as `buffer` lives."""
    waiting, around = [condition], [] if buffer.op is None else blocks_around(buffer.op)
    while waiting:
        value = waiting.pop()
        op = value.op
        if op is None or not isinstance(op.parent, Nest):
            if value.block not in around or value not in written:
                return False
        elif op.definition.elementwise or isinstance(op, (Broadcast, ExpandDims, MakeRange, Splat, Trans)):
            waiting += op.operands
        elif op.name != "arith.constant":
            return False
    return True


def blocks_around(op: Op) -> list[Block]:
    """The blocks that `op` is in, from the innermost one on."""
    blocks: list[Block] = []
    around: Op | None = op
    while around is not None and around.block is not None:
        blocks.append(around.block)
        around = around.parent
    return blocks
