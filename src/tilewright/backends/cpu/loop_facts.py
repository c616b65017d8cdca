"""Facts of a parallel loop from the lowering of nests, for the passes that choose its direction and its prefetches.

    scf.parallel %i = … { … } {cpu.runs = iteration, cpu.stored = 4096 : i64, cpu.moves}

Only loops that all programs of the grid run have `cpu.runs`: the amount of memory they access is known before them.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, TypeAlias

from tilewright.backends.cpu.loop_builder import LoopBuilder, offset_of
from tilewright.backends.cpu.order_programs import order_of
from tilewright.dialects.scf import For, Parallel
from tilewright.dialects.tt_function import Func
from tilewright.dialects.tt_memory import AddPtr
from tilewright.dialects.vector import PLACELESS, Load, MaskedLoad, MaskedStore, Store
from tilewright.ir.attributes import Keyword, Number
from tilewright.ir.core import Block, Op, Value, defining
from tilewright.ir.declare import OPS
from tilewright.ir.types import Type, i32, i64
from tilewright.transforms.matching import is_inside

PROGRAMS = "cpu.programs"
"""Mark of an `scf.for` whose iterations are those of different programs, in order."""
RUNS = "cpu.runs"
"""`program`: each program of the grid runs the nest once; `iteration`: each iteration of the outermost loop does."""
STORED = "cpu.stored"
"""Bytes that one run of the nest stores in this loop, which does nothing else."""
PHASE = "cpu.phase"
"""How many loops of the nest over the same row come first: they have brought what is loaded into the caches."""
MOVES = "cpu.moves"
"""The nest mostly moves memory."""
TILE = "cpu.tile"
"""The loop is for one of several rows that come from memory."""
ROWS = "cpu.rows"
"""Mark of an `scf.for` over rows in any order, also lane by lane: the max number of lanes of a row."""
ALONG = "cpu.along"
"""Mark of an `scf.for` inside one over rows: each iteration continues a row of memory where the last one ended."""
COUNTED = "cpu.counted"
"""Mark of an `scf.for` whose iterations are the rows of a nest that count; the loop behind it does the others."""
VALUE_IS_OUTER, STORE_IS_OUTER = "cpu.value_is_outer", "cpu.store_is_outer"
"""Marks of a store of a nest: the source of its value, or its addresses, has neighbours along the last outer axis."""
TRANSPOSED = "cpu.transposed"
"""Mark of a load of a nest by squares: its elements are neighbours along the other axis than the value of the store."""
SPLITS = "cpu.splits"
"""Mark of a selection of a nest: a row may be split where it goes from one side of the selection to the other."""


Access: TypeAlias = Load | MaskedLoad | Store | MaskedStore


class InvariantBuilder(LoopBuilder):
    """A builder of ops without effects before a loop: as far out as their operands let them, equal ones once."""

    def __init__(self, function: Func) -> None:
        super().__init__(Block(), entry=function.body)
        self.function = function
        self._made: dict[tuple[object, ...], Value] = {}

    def in_front_of(self, loop: Op) -> None:
        """Let ops go to places before `loop`; loops come in program order."""
        self.inner, self.location = loop, loop.location

    def emit(self, name: str, operands: Any, type: Type, attributes: Any = None) -> Value:
        """The result of a new op behind its operands, or of an equal one before the loop."""
        key = name, tuple(operands), type, repr(attributes)
        found = self._made.get(key)
        if found is None:
            op = Op(OPS[name], operands, (type,), attributes, (), (), self.location)
            found = self._made[key] = self._placed(op)
        return found

    def _placed(self, op: Op) -> Value:
        makers = {value.owner for value in op.operands}
        blocks = {maker.block if isinstance(maker, Op) else maker for maker in makers}
        site = self.inner
        while site.block not in blocks and site.block is not self.entry:
            assert site.parent is not None, "the loop is in the function"
            site = site.parent
        if (same := _equal_op(op, site)) is not None:
            op.drop_uses()
            return same.results[0]
        assert site.block is not None, "the loop is in the function"
        return site.block.insert(op, _first_place(site, makers)).results[0]

    def runs(self) -> Value:
        """How often the launch runs the nest of the loop, an i64."""
        loop = self.repeating_loop()
        if loop is not None and PROGRAMS in loop.attributes:
            assert isinstance(loop.parent, For), "the iterations of a program are in one more loop"
            loop = loop.parent
        return programs_of(self) if loop is None else trip_count(self, loop)

    def repeating_loop(self) -> For | None:
        """The loop each iteration of which is a run of the nest; None if each program is."""
        if self.inner.attributes[RUNS] != Keyword("iteration"):
            return None
        site = self.inner
        while not (isinstance(site, For) and (PROGRAMS in site.attributes or site.parent is self.function)):
            assert site.parent is not None, "an iteration is one of a loop of the function"
            site = site.parent
        return site

    def fastest(self) -> str:
        """The axis along which a thread runs neighbours, if each program is a run."""
        return "" if self.repeating_loop() is not None else order_of(self.function)[0]


def programs_of(b: LoopBuilder) -> Value:
    """How many programs the launch has, an i64."""
    axes = [b.emit("tt.get_num_programs", (), i32, {"axis": Keyword(axis)}) for axis in "xyz"]
    x, y, z = (b.extend(extent, i64, signed=False) for extent in axes)
    return b.mul(b.mul(x, y), z)


def trip_count(b: LoopBuilder, loop: For) -> Value:
    """How many iterations of `loop` all programs run that come to it once, an i64."""
    programs = programs_of(b)
    low, high, step = (b.extend(bound, i64) for bound in loop.bounds)
    step = b.smax(step, 1)
    return b.mul(b.udiv(b.add(b.smax(b.sub(high, low), 0), b.sub(step, 1)), step), programs)


def _equal_op(op: Op, site: Op) -> Op | None:
    """An op before `site` that computes what `op` does."""
    name, block, first = op.name, site.block, next(iter(op.operands), None)
    if first is not None and not any(use.name == name and use.block is block for use in first.uses):
        return None
    last = site.previous
    while last is not None:
        if last.name == name and _has_equal_parts(last, op):
            return last
        last = last.previous
    return None


def _first_place(site: Op, makers: Collection[Op | Block]) -> Op:
    """The first op of the block of `site` that nothing in `makers`, and nothing without a place, stands behind."""
    here = [op for op in makers if isinstance(op, Op) and op.block is site.block]
    if len(here) == 1 and here[0].next is not None and here[0].name not in PLACELESS:
        return here[0].next
    first = site.block.first if site.block is not None else None
    while first is not None and first.name in PLACELESS:
        if first in here:
            here.remove(first)
        first = first.next
    if len(here) == 1 and here[0].next is not None:
        return here[0].next
    if not here and first is not None:
        return first
    while (last := site.previous) is not None and last not in makers and last.name not in PLACELESS:
        site = last
    return site


def _has_equal_parts(a: Op, b: Op) -> bool:
    same = a.operands == b.operands and a.attributes == b.attributes
    return same and a.results[0].type is b.results[0].type


def first_address(loop: Parallel, op: Access) -> Value | None:
    """The address of the first element of the row along which `op` goes in `loop`; None if it goes elsewhere."""
    step = defining(op.base, AddPtr)
    goes = step is not None and op.stride is None and offset_of(op.offset) == 0
    if step is None or not goes or step.offset is not loop.induction_variable or is_inside(step.pointer, loop):
        return None
    return step.pointer


def lanes_of_row(loop: Parallel) -> int:
    """The lanes of the row along which the loop goes; 0: not known."""
    low, high = offset_of(loop.low), offset_of(loop.high)
    return high - low if isinstance(low, int) and isinstance(high, int) else 0


def width_of(loop: Parallel) -> int:
    """The lanes of one iteration of the loop."""
    step = offset_of(loop.step)
    assert isinstance(step, int), "a chunk has a known number of lanes"
    return step


def number_in(op: Op, name: str) -> int:
    """The whole number in an attribute; 0 where it is missing."""
    number = op.attributes.get(name)
    return int(number.value) if isinstance(number, Number) else 0
