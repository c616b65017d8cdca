"""A fusion group under construction: its loops, its sinks, and the nest that it becomes.

Two shapes of nest, for sinks over a tile of shape (d0, …, dn):

    rows:     for each index of (d0, …, dn-1):  loop over the last axis, vectors along it
    columns:  for each index of all axes but `axis`, vectors along the last of them:  loop over `axis`

Reductions and scans along the last axis, and everything else, make rows; reductions and scans along another axis
make columns, so that memory is still read along the contiguous axis.
"""

from __future__ import annotations

from typing import NamedTuple

from tilewright.backends.cpu.alignment import INNER, Tags, asked_for, axis_of, operand_tags
from tilewright.backends.cpu.costs import ATOMICS, inputs, is_lazy_tile, is_tile, tile_operand, touches_tiles
from tilewright.dialects.cpu import Accumulate, Alloc, Read, Write
from tilewright.dialects.traits import WritesMemory
from tilewright.dialects.tt_memory import Load
from tilewright.dialects.tt_reduce import Fold, Reduce, Scan
from tilewright.ir.attributes import Attribute, DenseArray, Keyword, Number
from tilewright.ir.core import Block, Op, Region, Value
from tilewright.ir.declare import Effect
from tilewright.ir.types import i64

MAX_SINKS = 32
"""Max sinks of a nest: each is compared with those before."""


class Domain(NamedTuple):
    """The loops that a sink needs. `axis` is the reduced axis of columns, -1 for rows."""

    mode: str
    outer: tuple[int, ...]
    inner: int
    axis: int


def domain_of(sink: Op) -> Domain:
    """The loops for `sink`, from the tile that it runs over."""
    value = tile_operand(sink)
    shape = value.type.shape
    assert shape, f"{sink.name} has no tile operand"
    if isinstance(sink, Fold):
        axis = axis_of(sink)
        if axis != len(shape) - 1:
            return Domain("columns", shape[:axis] + shape[axis + 1 :], shape[axis], axis)
    return Domain("rows", shape[:-1], shape[-1], -1)


def reads_elsewhere(sink: Op, buffer: Value) -> bool:
    """Whether `sink` reads `buffer` at other elements than its own."""
    return any(isinstance(op, Read) and op.buffer is buffer and not aligned for op, aligned in asked_for(sink))


class FusionGroup:
    """Roots that will share their loops.

    Attributes:
        domain: the loops, as the first sink asked for them.
        sinks: in program order.
        pending: results of sinks, and scalars computed from them, which do not exist outside the nest yet.
        written: buffers that the nest writes.
        clobbers: the nest changes global memory.
        uneven: its loads from addresses that are no base + index · stride.
        accumulated: results of the cpu.accumulate that it begins with, if it does.
        kept: values that it also writes to a buffer.
    """

    def __init__(self, domain: Domain) -> None:
        self.domain = domain
        self.sinks: list[Op] = []
        self.pending: set[Value] = set()
        self.written: set[Value] = set()
        self.clobbers = False
        self.uneven: list[Load] = []
        self.accumulated: set[Value] = set()
        self.kept: dict[Value, Value] = {}

    @property
    def may_be_skipped(self) -> bool:
        """Whether the nest only copies a tile for a dot, which may turn out to lie well where it is."""
        return any(isinstance(sink, Write) and sink.elide_copy for sink in self.sinks)

    def add(self, sink: Op) -> None:
        self.sinks.append(sink)
        self.pending.update(sink.results)
        self.clobbers |= isinstance(sink, WritesMemory)
        if isinstance(sink, Write):
            self.written.add(sink.buffer)
        elif isinstance(sink, Accumulate):
            self.accumulated.update(sink.results)

    def accepts(self, sink: Op, domain: Domain) -> bool:
        """Whether `sink` may share the loops. It may use only the current row of the nest's own results."""
        if isinstance(sink, (*ATOMICS, Scan)) or len(self.sinks) >= MAX_SINKS:
            return False
        if self.accumulated and (isinstance(sink, WritesMemory) or self._comes_after_reductions(sink)):
            return False
        mine = self.domain
        rank = len(mine.outer)
        tags: Tags
        if (domain.mode, domain.outer, domain.axis) == (mine.mode, mine.outer, mine.axis):
            tags = self._full_tags(domain)
        elif (*domain.outer, domain.inner) == mine.outer and domain.mode == "rows" and not isinstance(sink, Reduce):
            tags = tuple(range(rank))
            if not any(self.needs_pending(v) for v in sink.operands):
                return False
        else:
            return False
        if isinstance(sink, Write) and any(reads_elsewhere(other, sink.buffer) for other in self.sinks):
            return False
        values = [sink.value] if isinstance(sink, Write) else sink.operands
        return all(self.is_aligned(v, tags, set()) for v in values)

    def _full_tags(self, domain: Domain) -> Tags:
        outer: list[int | None] = list(range(len(domain.outer)))
        outer.insert(len(outer) if domain.axis < 0 else domain.axis, INNER)
        return tuple(outer)

    def _comes_after_reductions(self, sink: Op) -> bool:
        """Whether `sink` needs both what is accumulated and another result: the one is gone when the other is there."""
        others = self.pending - self.accumulated
        return all(any(self._needs(v, wanted) for v in sink.operands) for wanted in (self.accumulated, others))

    def needs_pending(self, value: Value) -> bool:
        """Whether `value` is computed from results of the nest."""
        return self._needs(value, self.pending)

    def _needs(self, value: Value, wanted: set[Value]) -> bool:
        """Whether `value` is computed from one of these results."""
        if not wanted:
            return False
        stack, seen = [value], set()
        while stack:
            v = stack.pop()
            if v in wanted:
                return True
            op = v.op
            if op is not None and op not in seen and is_lazy_tile(op):
                seen.add(op)
                stack.extend(op.operands)
        return False

    def is_aligned(self, value: Value, tags: Tags, seen: set[tuple[Value, Tags]]) -> bool:
        """Whether everything that the nest itself computes is used at the index (`tags`) where it is computed."""
        if (value, tags) in seen:
            return True
        seen.add((value, tags))
        if value in self.accumulated:
            return tags == self._full_tags(self.domain)
        if value in self.pending and is_tile(value):
            return tags == tuple(range(len(self.domain.outer)))
        op = value.op
        if op is None or not is_lazy_tile(op):
            return True
        if isinstance(op, Read) and op.buffer in self.written:
            return False
        return all(self.is_aligned(v, t, seen) for v, t in operand_tags(op, tags))

    # ------------------------------------------------------------------ building

    def lazy_values(self) -> list[Value]:
        """Everything the sinks are computed from, and the sinks' results, operands before users."""
        order: list[Value] = []
        seen: set[Op] = set()
        for sink in self.sinks:
            if sink not in seen:
                self._visit(sink, seen, order)
        return order

    def _visit(self, op: Op, seen: set[Op], order: list[Value]) -> None:
        seen.add(op)
        for value in inputs(op):
            maker = value.op
            if maker is not None and maker not in seen and self._belongs(value):
                self._visit(maker, seen, order)
        order.extend(op.results)

    def _belongs(self, value: Value) -> bool:
        """Whether the op of `value` is copied into the nest."""
        op = value.op
        if op is None:
            return False
        return is_lazy_tile(op) or value in self.pending or _is_scalar_constant(op)

    def fits(self, value: Value) -> bool:
        """Whether the nest's loops run over the elements of `value`, or over its rows."""
        shape, outer, axis = value.type.shape or (), self.domain.outer, self.domain.axis
        if shape == outer:
            return True
        return (
            len(shape) == len(outer) + 1 and shape[:axis] + shape[axis + 1 :] == outer
            if axis >= 0
            else shape[:-1] == outer
        )

    def keep(self, value: Value, buffer: Value) -> None:
        """Write `value` to `buffer` too, and let later users read it there."""
        self.kept[value] = buffer

    def build(self, before: Op) -> Op:
        """Insert the nest before `before`, with copies of all that its sinks need; the sinks are gone then.

        Users of kept values and of scalar results outside use reads and results of the nest.
        """
        block = before.block
        assert block is not None
        body = Block()
        mapping: dict[Value, Value] = {}
        for op in self._ops_to_copy():
            body.append(op.clone(mapping))
            for result in op.results:
                if result in self.kept:
                    body.append(Op.create("cpu.write", (mapping[result], self.kept[result]), location=op.location))
        scalars = [r for sink in self.sinks for r in sink.results if not is_tile(r) and r not in self.accumulated]
        body.append(Op.create("cpu.yield", [mapping[r] for r in scalars]))
        nest = Op.create(
            "cpu.nest",
            (),
            [r.type for r in scalars],
            self._attributes(),
            [Region([body])],
            location=self.sinks[0].location,
        )
        block.insert(nest, before)
        self._rewire(nest, scalars, before)
        return nest

    def _attributes(self) -> dict[str, Attribute]:
        domain = self.domain
        axis: dict[str, Attribute] = {"axis": Number(domain.axis, i64)} if domain.axis >= 0 else {}
        return {"mode": Keyword(domain.mode), "outer": DenseArray(i64, domain.outer), **axis}

    def _ops_to_copy(self) -> list[Op]:
        """The ops to copy, operands before users; first those that need no result of the nest: loads precede stores."""
        order: dict[Op, None] = {}
        values = [*(v for sink in self.sinks for v in inputs(sink)), *self.kept]
        for early in (True, False):
            for value in values:
                if not (early and self.needs_pending(value)):
                    self._copy(value, order)
        return list(order | dict.fromkeys(self.sinks))

    def _copy(self, value: Value, order: dict[Op, None]) -> None:
        op = value.op
        if op is None or op in order or not self._belongs(value):
            return
        for value in inputs(op):
            self._copy(value, order)
        order[op] = None

    def _rewire(self, nest: Op, scalars: list[Value], before: Op) -> None:
        block = before.block
        assert block is not None
        sinks = set(self.sinks)
        for old, new in zip(scalars, nest.results, strict=True):
            new.name = old.name
            old.replace_by(new)
        for value, buffer in self.kept.items():
            read = block.insert(Op.create("cpu.read", (buffer,), (value.type,), location=before.location), before)
            read.result.name = value.name
            value.replace_by(read.result)
        for sink in self.sinks:
            sink.erase()
        self._move_scalars(sinks, nest, before)

    def _move_scalars(self, sinks: set[Op], nest: Op, before: Op) -> None:
        """Move scalars computed from results of the nest, which stood before it, behind it, in order."""
        block = nest.block
        assert block is not None
        moved = [v.op for v in self.pending if v.op is not None and v.op not in sinks and v.op.block is block]
        if not moved:
            return
        wanted = set(moved)
        for op in [op for op in block if op in wanted]:
            op.unlink()
            block.insert(op, before)


def _is_scalar_constant(op: Op) -> bool:
    return op.definition.constant and op.definition.effect is Effect.NONE and not touches_tiles(op)


def erase_dead(block: Block) -> None:
    """Erase the lazy ops that have no users left: nests have copied them."""
    waiting = list(block)
    while waiting:
        op = waiting.pop()
        if op.block is block and (isinstance(op, Alloc) or is_lazy_tile(op)) and not any(r.uses for r in op.results):
            waiting.extend(value.op for value in op.operands if value.op is not None)
            op.erase()
