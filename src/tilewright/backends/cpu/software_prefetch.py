"""Prefetches for loads that a processor's prefetchers do not follow (`prefetch_rows.py`).

                                                 %far = the launch loads more than near caches hold
    scf.for %start = … step 32 {                 scf.for %start = … step 32 {
      scf.for %row = 0 to 32 {                     scf.for %row = 0 to 32 {
        scf.parallel %i = 0 to 32 step 16 {          scf.if %far {
          %x = vector.load %p[%i]            →         scf.parallel %i = 0 to 32 step 16 {
        }                                                %x = vector.load %p[%i]
      }                                                  vector.prefetch %p[%i + 32 rows]
    }                                                  }
                                                     } else { as before }
                                                   }
                                                 }

Hardware prefetchers do not find the rows of a tile, each on another page, if a loop reads another tile of such rows in
each iteration, as sums along columns do; and where each row continues in the next iteration, a page ends soon. So each
row prefetches that of a later iteration, also where iterations keep their sums in registers. And some processors
prefetch nothing for masked loads, so each of them waits for memory: these prefetch the lines ahead. Where prefetching
other pages delays the loads (`prefetches_far_rows`), only rows that continue in the next iteration are prefetched.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod

from tilewright.backends.cpu.address_growth import Growth
from tilewright.backends.cpu.loop_builder import LoopBuilder, offset_of
from tilewright.backends.cpu.loop_facts import ALONG, first_address, lanes_of_row, programs_of, trip_count
from tilewright.backends.cpu.loop_structure import Operand
from tilewright.backends.llvm.cpu_costs import PAGE, CpuCosts
from tilewright.dialects.arith import Select
from tilewright.dialects.scf import For, Parallel
from tilewright.dialects.tt_elementwise import Bitcast
from tilewright.dialects.tt_function import Func
from tilewright.dialects.tt_memory import AddPtr
from tilewright.dialects.vector import Load, MaskedLoad, Prefetch, Store, lanes_of
from tilewright.ir.attributes import Number
from tilewright.ir.core import Block, Op, Value
from tilewright.ir.declare import OPS
from tilewright.ir.types import i64
from tilewright.transforms.matching import is_inside

FROM_NEAR = 3
"""The locality of a prefetch into L1."""

FROM_MEMORY = 2
"""The locality of a prefetch into L2: rows of a tile are often pages apart, and L1 keeps few such lines."""

MIN_BYTES = 32 << 10
"""The least number of bytes of the tiles that are read before the prefetched one."""

MIN_BYTES_IN_REGISTERS = 8 << 10
"""The least number of bytes that a loop with sums in registers reads before the prefetched row."""

MAX_TILE_BYTES = 128 << 10
"""Max bytes of a tile that is prefetched while another one is used: more push each other out of L2."""


def prefetch_unpredicted(function: Func, parallel: Sequence[Parallel], costs: CpuCosts) -> bool:
    """Insert prefetches of what the processor does not prefetch by itself; returns whether there are any.

    Args:
        function: the function.
        parallel: its parallel loops.
        costs: the figures of the processor.
    """
    found = False
    for loop in parallel if costs.prefetched_short_row else ():
        loops = [site for site in _loops_around(loop) if isinstance(site, For)]
        if len(loops) > 1:
            prefetcher, further = _Prefetcher(function, loops[-1]), loops[ALONG not in loops[0].attributes]
            found |= prefetcher.place(is_needed=prefetcher.rows_of(loop, loops[0], further, costs))
    for further in function.ops_of(For) if costs.prefetched_short_row and costs.prefetches_far_rows else ():
        own = [op for op in further.ops_of(Load) if next(_loops_around(op)) is further] if further.results else []
        if own:
            prefetcher = _Prefetcher(function, further)
            found |= prefetcher.place(is_needed=prefetcher.rows_in_registers(own, further, costs))
    for load in function.ops_of(MaskedLoad) if costs.prefetched_under_mask else ():
        around = list(_loops_around(load))
        if around:
            prefetcher = _Prefetcher(function, around[-1])
            found |= prefetcher.place(is_needed=prefetcher.masked_load(load, around[0], costs.prefetched_under_mask))
    return found


class _Prefetcher:
    """Prefetches in loops of which `outermost` is the one around all.

    What they need is computed before it and no further out: where it does not run, it is not needed.
    """

    def __init__(self, function: Func, outermost: For | Parallel) -> None:
        self.function, self.outermost = function, outermost
        self.b = LoopBuilder(Block(), entry=function.body)

    def rows_of(self, loop: Parallel, rows: For, further: For, costs: CpuCosts) -> bool:
        """Let `loop`, along one of several short `rows`, prefetch the rows of a later iteration of `further`.

        Loops with results are left alone: a version of their own takes registers, and cost argmax a third from L2.
        """
        found = {op: row for op in loop.body.ops_of(Load) if (row := first_address(loop, op)) is not None}
        lengths = {op: lanes_of_row(loop) * op.result.type.scalar.bits // 8 for op in found}
        is_prefetched = any(isinstance(op, Prefetch) or (isinstance(op, Store) and op.nontemporal) for op in loop.body)
        if is_prefetched or loop.results or any(is_inside(bound, self.outermost) for bound in further.bounds):
            return False
        b = LoopBuilder(Block(), entry=self.function.body)
        growth = Growth(b, further, "", self.outermost)
        short = (op for op, length in lengths.items() if 0 < length <= costs.prefetched_short_row)
        grown = {op: growth.of(found[op]) for op in short}
        steps = {op: step for op, step in grown.items() if step not in (None, 0) and _is_prefetched(step, costs)}
        count = offset_of(rows.high)
        tile = sum(lengths[op] for op in steps) * (count if isinstance(count, int) else 1)
        if not 0 < tile <= MAX_TILE_BYTES:
            _drop(b.block)
            return False
        ahead: dict[Op, Value] = {
            op: _times(b, step, -(-MIN_BYTES // tile)) for op, step in steps.items() if step is not None
        }
        far = self.b.compare("ugt", self.b.mul(trip_count(self.b, further), tile), costs.max_prefetched_grid)
        put_version(b, loop, far, _with_prefetches(loop, ahead))
        return True

    def rows_in_registers(self, loads: Sequence[Load], further: For, costs: CpuCosts) -> bool:
        """Let `loads`, of rows that each iteration of `further` leaves, prefetch later ones, if the grid is large.

        In others each prefetches what it loads itself: a version of the loop would be as long as the loop.
        """
        growth = Growth(self.b, further, "", self.outermost)
        steps = {op: step for op in loads if isinstance(step := growth.of(op.base), Value)}
        bytes = sum(lanes_of(op.result.type) * op.result.type.scalar.bits // 8 for op in steps)
        if not steps:
            return False
        times = bytes * prod(_known_trips(loop) for loop in _loops_around(further))
        low, high, step = (self.b.extend(bound, i64) for bound in further.bounds)
        read = self.b.mul(self.b.mul(self.b.sub(high, low), programs_of(self.b)), times)
        far = self.b.compare("sgt", read, self.b.mul(step, costs.max_prefetched_grid))
        for op, step in steps.items():
            ahead = self.b.select(far, _times(self.b, step, -(-MIN_BYTES_IN_REGISTERS // bytes)), 0)
            _prefetch(op, op.base, self.b.number(ahead), FROM_MEMORY)
        return True

    def masked_load(self, load: MaskedLoad, loop: For | Parallel, ahead: int) -> bool:
        """Let `load` prefetch what `loop` loads by it when that are `ahead` bytes more."""
        base = load.base.op.chosen if isinstance(load.base.op, Select) else load.base
        if load.stride is not None or not _is_memory_of_program(base, self.function):
            return False
        step = Growth(self.b, loop, "", self.outermost).of(base)
        bytes = lanes_of(load.result.type) * load.result.type.scalar.bits // 8
        if step is None or step == 0:
            return False
        _prefetch(load, base, _times(self.b, step, max(1, ahead // bytes)), FROM_NEAR)
        return True

    def place(self, *, is_needed: bool) -> bool:
        """Put what has been computed in its place, or drop it; returns whether it is needed."""
        assert self.outermost.block is not None, "it stands in a function"
        if is_needed:
            self.outermost.block.splice(self.b.block, self.outermost)
        else:
            _drop(self.b.block)
        return is_needed


def _is_prefetched(step: Operand | None, costs: CpuCosts) -> bool:
    """Whether a row `step` bytes further in the next iteration is prefetched: it continues this one, or may be far."""
    return costs.prefetches_far_rows or (isinstance(step, int) and abs(step) <= PAGE)


def _known_trips(loop: For | Parallel) -> int:
    """The number of iterations of `loop`, or 1 where it is not known now."""
    bounds = [number for bound in loop.bounds if isinstance(number := offset_of(bound), int)]
    return len(range(*bounds)) if len(bounds) == len(loop.bounds) else 1


def _with_prefetches(loop: Parallel, ahead: Mapping[Op, Value]) -> Parallel:
    """A copy of `loop` whose loads prefetch what is so many bytes `ahead`."""
    copy = loop.clone()
    for own, load in zip(list(loop.body), list(copy.body), strict=True):
        if own in ahead and isinstance(load, Load):
            _prefetch(load, load.base, ahead[own], FROM_MEMORY)
    return copy


def put_version(b: LoopBuilder, loop: Parallel, far: Value, copy: Parallel) -> None:
    """Let `copy`, which prefetches, run in the place of `loop` where `far` holds.

    What `b` has computed for that goes there, too: for one more value in all loops there would be a register less.
    """
    after, computed = loop.next, b.block
    loop.unlink()
    with b.before(after), b.branch(far) as branch:
        with branch.then():
            b.splice(computed)
            b.append(copy)
        with branch.otherwise():
            b.append(loop)


def _prefetch(load: Op, base: Value, further: Value, locality: int) -> None:
    """Prefetch, behind `load`, the line `further` bytes behind `base`."""
    prefetch = Op(
        OPS["vector.prefetch"], (base, further), (), {"locality": Number(locality, i64)}, (), (), load.location
    )
    assert load.block is not None, "it stands in a loop"
    load.block.insert(prefetch, load.next)


def _times(b: LoopBuilder, step: Operand, count: int) -> Value:
    return b.number(offset_of(b.mul(b.number(step), count)))


def _drop(block: Block) -> None:
    for op in reversed(list(block)):
        op.erase()


def _is_memory_of_program(address: Value, function: Func) -> bool:
    """Whether `address` is that of an argument, and of no buffer."""
    op = address.op
    while isinstance(op, (AddPtr, Bitcast)):
        address = op.pointer if isinstance(op, AddPtr) else op.operand
        op = address.op
    return address in function.body.args


def _loops_around(op: Op) -> Iterator[For | Parallel]:
    """The loops around, the innermost first."""
    site = op.parent
    while site is not None:
        if isinstance(site, (For, Parallel)):
            yield site
        site = site.parent
