"""Loops that leave the path to the caches idle prefetch rows that the next run of the nest loads.

    scf.parallel %i = … {                            scf.parallel %i = … {
      %x = vector.load %p[%i]                  →       %x = vector.load %p[%i]
                                                       vector.prefetch %p[%i + %stride]
    } {cpu.phase = 1, cpu.runs = program}            } …

If %p is `base + program_id * stride`, the row of the next program is `stride` elements further. A loop that reads a row
for the second time, from L1, has time for the next one. Rows of a tile that goes from memory to memory past the caches
are prefetched while the previous tile is computed: they are often a page apart, so no hardware prefetcher finds them. A
row that memory selects, as an index does, is prefetched a little ahead up to its end, and so is the next program's part
of it. Rows that are only copied into a buffer are prefetched by a version of the loop, for launches that load more than
the near caches hold. Other loads that no hardware prefetcher follows are prefetched on processors that ask for it
(`software_prefetch.py`).
"""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.analysis.memory_accesses import root_of
from tilewright.analysis.value_flow import backward_slice
from tilewright.backends.cpu.address_growth import Growth
from tilewright.backends.cpu.loop_builder import LoopBuilder, offset_of
from tilewright.backends.cpu.loop_facts import (
    PHASE,
    RUNS,
    TILE,
    InvariantBuilder,
    first_address,
    lanes_of_row,
    number_in,
)
from tilewright.backends.cpu.loop_structure import Operand
from tilewright.backends.cpu.program_motion import REMAINDERS
from tilewright.backends.cpu.software_prefetch import FROM_MEMORY, FROM_NEAR, prefetch_unpredicted, put_version
from tilewright.backends.llvm.machine import Target
from tilewright.dialects.arith import Division, IntegerCast
from tilewright.dialects.cpu import Alloc
from tilewright.dialects.scf import For, Parallel
from tilewright.dialects.tt_memory import AddPtr
from tilewright.dialects.vector import Load, Store, lanes_of
from tilewright.ir.attributes import Keyword, Number
from tilewright.ir.core import Block, Op, Value
from tilewright.ir.declare import OPS, Effect
from tilewright.ir.types import i32, i64
from tilewright.transforms.functions import functions_of
from tilewright.transforms.matching import is_inside


def prefetch_rows(module: Op, target: Target) -> bool:
    """Prefetch in the parallel loops of `module` what the next program loads; returns whether any do."""
    found = False
    for function in functions_of(module):
        loops = function.ops_of(Parallel)
        builder, loaded = InvariantBuilder(function), set[Value]()
        for loop in loops:
            loads = loop.body.ops_of(Load)
            rows = {op: row for op in loads if (row := first_address(loop, op)) is not None}
            if RUNS in loop.attributes:
                builder.in_front_of(loop)
                found |= _Rows(builder, loop, target).prefetch(rows, loaded)
            loaded.update(rows.values())
        found |= prefetch_unpredicted(function, loops, target.costs)
    return found


class _Rows:
    """The rows that one loop loads."""

    def __init__(self, builder: InvariantBuilder, loop: Parallel, target: Target) -> None:
        self.b, self.loop, self.costs = builder, loop, target.costs
        self.repeating_loop = builder.repeating_loop()
        outermost = self.repeating_loop or self._row_loop() or loop
        self.growth = Growth(builder, self.repeating_loop, builder.fastest(), outermost)
        self.streams = any(isinstance(op, Store) and op.nontemporal for op in loop.body)
        self.is_tile = self.streams and TILE in loop.attributes

    def prefetch(self, rows: dict[Load, Value], loaded: set[Value]) -> bool:
        """Prefetch those that move from run to run, if there is time; `loaded` are rows of earlier loops."""
        far = {op: row for op, row in rows.items() if row not in loaded} if self.costs.prefetched_indexed_row else {}
        chosen = {op: row for op, row in far.items() if _is_indexed(row)}
        if chosen and self._only_copies():
            self._prefetch_if_far(chosen)
            return True
        found = False
        for op, row in rows.items():
            if op in chosen and self.streams:
                self._prefetch_up_to_the_end(op, row, self.loop.induction_variable)
                found = True
            elif self.is_tile or (self._rereads() and row in loaded):
                further = self._further(op, row)
                if further is not None:
                    self._prefetch(op, further)
                    found = True
        return found

    def _only_copies(self) -> bool:
        """Whether the loop brings elements into a buffer, and does nothing else: from far away they wait."""
        ops = [op for op in self.loop.body if not isinstance(op, (AddPtr, Load)) and not op.definition.terminator]
        return all(isinstance(op, Store) and isinstance(root_of(op.base).op, Alloc) for op in ops)

    def _rereads(self) -> bool:
        """Whether the loop, for the only row of its nest, reads for the second time."""
        return number_in(self.loop, PHASE) == 1 and self._row_loop() is None

    def _row_loop(self) -> Op | None:
        """The innermost loop around, if it is one of the nest's."""
        site = self.loop.parent
        while site is not None and not isinstance(site, For):
            site = site.parent
        return None if site is self.repeating_loop else site

    def _further(self, op: Load, row: Value) -> Operand | None:
        """How many bytes further the next run loads; None if that is the same row, or not known, or too much."""
        length, b = lanes_of_row(self.loop) * op.result.type.scalar.bits // 8, self.b
        around = self._row_loop() or self.repeating_loop
        is_one_of_many = around is None or is_inside(row, around)
        longest = self.costs.prefetched_tile_row if self.is_tile else self.costs.prefetched_row
        if length > longest or (self.is_tile and not is_one_of_many):
            return None
        step = self.growth.of(row)
        if step is None or step == 0 or self.is_tile:
            return step or None
        near = b.compare("ule", b.mul(b.runs(), length), self.costs.max_prefetched_grid)
        return b.select(near, b.number(step), 0)

    def _prefetch_if_far(self, chosen: dict[Load, Value]) -> None:
        """Let a copy of the loop prefetch the `chosen` rows, for launches that load more than near caches hold."""
        copy = self.loop.clone()
        for own, load in zip(list(self.loop.body), list(copy.body), strict=True):
            if own in chosen and isinstance(own, Load) and isinstance(load, Load):
                self._prefetch_up_to_the_end(load, chosen[own], copy.induction_variable)
        row = sum(lanes_of_row(self.loop) * op.result.type.scalar.bits // 8 for op in chosen)
        far = self.b.compare("ugt", self.b.mul(self.b.runs(), row), self.costs.max_prefetched_grid)
        put_version(LoopBuilder(Block(), entry=self.b.entry), self.loop, far, copy)

    def _prefetch_up_to_the_end(self, op: Load, row: Value, at: Value) -> None:
        """Prefetch what `op` loads a little later, but nothing behind the row, or the part that the next run has.

        Args:
            op: the load, in the iteration at the lane `at`.
            row: the address of the row.
            at: the induction variable of the loop.
        """
        ahead = self.costs.prefetched_indexed_row * 8 // op.result.type.scalar.bits
        end = self.b.add(self.loop.high, self._more(op, row, ahead))
        last, b = self.b.number(self.b.sub(end, lanes_of(op.result.type))), LoopBuilder(Block(), entry=self.b.entry)
        lane = b.smin(b.add(at, ahead), last)
        b.prefetch(b.offset(row, lane), locality=FROM_MEMORY)
        assert op.block is not None, "it stands in a loop"
        op.block.splice(b.block, op.next)

    def _more(self, op: Load, row: Value, ahead: int) -> Operand:
        """How many lanes behind the row, at most `ahead`, the next runs have of the same row of memory."""
        b, lanes, axis = self.b, lanes_of_row(self.loop), self.b.fastest()
        step = Growth(b, None, axis, self.loop, keeps_memory=True).of(row) if lanes and axis else None
        if step is None:
            return 0
        kinds = ("tt.get_num_programs", "tt.get_program_id")
        count, number = (b.extend(b.emit(kind, (), i32, {"axis": Keyword(axis)}), i64) for kind in kinds)
        following = b.smin(b.mul(b.sub(b.sub(count, number), 1), lanes), ahead)
        for place in _places_in_rows(row):
            left = b.sub(b.sub(b.extend(place.rhs, i64), b.extend(place.result, i64)), lanes)
            following = b.smax(b.smin(following, left), 0)
        goes_on = b.compare("eq", b.number(step), lanes * op.result.type.scalar.bits // 8)
        return offset_of(b.select(goes_on, following, 0))

    def _prefetch(self, op: Load, further: Operand) -> None:
        operands, locality = (op.base, self.b.number(further)), Number(FROM_MEMORY if self.streams else FROM_NEAR, i64)
        assert op.block is not None, "it stands in a loop"
        op.block.insert(Op(OPS["vector.prefetch"], operands, (), {"locality": locality}, (), (), op.location), op.next)


def _places_in_rows(row: Value) -> Iterator[Division]:
    """The remainders that an address is the sum of, each a place in rows of as many elements as the divisor says."""
    stack = [row]
    while stack:
        op = stack.pop().op
        if isinstance(op, Division) and op.name in REMAINDERS:
            yield op
        elif isinstance(op, (AddPtr, IntegerCast)) or (op is not None and op.name == "arith.addi"):
            stack += op.operands


def _is_indexed(row: Value) -> bool:
    """Whether an address is computed from a number in memory."""
    return any(op.definition.effect is Effect.READ for op in backward_slice(row))
