"""Loops ask ahead for what they load in ways that a processor's prefetchers do not follow (`prefetch_rows.py`).

                                                 %far = the launch loads more than near caches hold
    scf.for %start = … step 32 {                 scf.for %start = … step 32 {
      scf.for %row = 0 to 32 {                     scf.for %row = 0 to 32 {
        scf.parallel %i = 0 to 32 step 16 {          scf.if %far {
          %x = vector.load %p[%i]            →         scf.parallel %i = 0 to 32 step 16 {
        }                                                vector.prefetch %p[%i + 32 rows]
      }                                                }
    }                                                }
                                                     scf.parallel %i = 0 to 32 step 16 { … }
                                                   }
                                                 }

Nobody guesses the rows of a tile, each of them on another page, when a loop takes another tile of such rows in each
turn, as sums along columns do: each row asks for that of a turn to come. And some processors fetch nothing ahead for
loads under masks, so that each of them waits for memory: these ask for the lines behind.
"""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.backends.cpu.address_growth import Growth
from tilewright.backends.cpu.loop_builder import LoopBuilder, offset_of
from tilewright.backends.cpu.loop_facts import first_address, lanes_of_row, number_in, turns_of
from tilewright.backends.cpu.loop_structure import Operand
from tilewright.backends.llvm.cpu_costs import CpuCosts
from tilewright.dialects.arith import Select
from tilewright.dialects.scf import For, Parallel
from tilewright.dialects.tt_elementwise import Bitcast
from tilewright.dialects.tt_function import Func
from tilewright.dialects.tt_memory import AddPtr
from tilewright.dialects.vector import UNROLL, Load, MaskedLoad, Prefetch, Store, lanes_of
from tilewright.ir.attributes import Number
from tilewright.ir.core import Block, Op, Value
from tilewright.ir.declare import OPS
from tilewright.ir.types import i64
from tilewright.transforms.matching import is_inside

FROM_NEAR = 3
"""The locality of a prefetch into L1."""

FROM_MEMORY = 2
"""The locality of a prefetch into L2: rows of a tile are often pages apart, and L1 keeps few such lines."""

FEWEST = 4096
"""The least number of bytes of the tiles that are read before the one that is asked for."""

MOST = 128 << 10
"""Max bytes of a tile that is asked for while another one is used: more push each other out of L2."""


def ask_for_unguessed(function: Func, costs: CpuCosts) -> bool:
    """Let loops of `function` ask for what the processor does not fetch ahead by itself; returns whether any does."""
    found = False
    for loop in function.ops_of(Parallel) if costs.asked_short_row else ():
        loops = [site for site in _loops_around(loop) if isinstance(site, For)]
        if len(loops) > 1:
            asking = _Asking(function, loops[-1])
            found |= asking.place(is_needed=asking.rows_of(loop, loops[0], loops[1], costs))
    for load in function.ops_of(MaskedLoad) if costs.asked_under_mask else ():
        around = list(_loops_around(load))
        if around:
            asking = _Asking(function, around[-1])
            found |= asking.place(is_needed=asking.behind(load, around[0], costs.asked_under_mask))
    return found


class _Asking:
    """Prefetches in loops of which `outermost` is the one around all.

    What they need is computed in front of it and no further out: where it does not run, nobody needs it.
    """

    def __init__(self, function: Func, outermost: For | Parallel) -> None:
        self.function, self.outermost = function, outermost
        self.b = LoopBuilder(Block(), entry=function.body)

    def rows_of(self, loop: Parallel, rows: For, turns: For, costs: CpuCosts) -> bool:
        """Let `loop`, along one of several short `rows`, ask for the rows of a later one of the `turns`."""
        loads = {row: op for op in loop.body if isinstance(op, Load) and (row := first_address(loop, op)) is not None}
        is_asked = any(isinstance(op, Prefetch) or (isinstance(op, Store) and op.nontemporal) for op in loop.body)
        if is_asked or any(is_inside(bound, self.outermost) for bound in turns.bounds):
            return False
        found, count = False, offset_of(rows.high)
        for row, load in loads.items():
            length = lanes_of_row(loop) * load.result.type.scalar.bits // 8
            tile = length * (count if isinstance(count, int) else 1)
            if 0 < length <= costs.asked_short_row and tile <= MOST:
                found |= self._ask_along(loop, row, turns, (length, tile), costs.asks_ahead)
        return found

    def _ask_along(self, loop: Parallel, row: Value, turns: For, bytes: tuple[int, int], near: int) -> bool:
        """Ask, in front of a loop along `row`, for a row of a later turn, if more than `near` bytes are loaded.

        How far behind it lies is computed in each turn: one more value for all loops would be one register less.

        Args:
            loop, row, turns: the loops, and the address of the first element.
            bytes: the length of the row and of all rows of a turn.
            near: the bytes that near caches hold.
        """
        b, (length, tile) = LoopBuilder(Block(), entry=self.function.body), bytes
        b.location = loop.location
        with b.into(Block()):
            step = Growth(b, turns, "", self.outermost).of(row)
            further, computed = _times(b, step or 0, -(-FEWEST // tile)), b.block
        if step is None or step in (0, length):
            _drop(computed)
            return False
        far = self.b.compare("ugt", self.b.mul(turns_of(self.b, turns), tile), near)
        with b.branch(far) as branch, branch.then():
            b.splice(computed)
            unroll = number_in(loop, UNROLL) or 1
            with b.parallel(*map(offset_of, loop.bounds[:3]), unroll=unroll, facts={}) as asking:
                b.prefetch(b.offset(row, asking.index), further, locality=FROM_MEMORY)
        assert loop.block is not None, "the loop is in a function"
        loop.block.splice(b.block, loop)
        return True

    def behind(self, load: MaskedLoad, loop: For | Parallel, ahead: int) -> bool:
        """Let `load` ask for what `loop` loads by it when that are `ahead` bytes more."""
        base = load.base.op.chosen if isinstance(load.base.op, Select) else load.base
        if load.stride is not None or not _is_memory_of_program(base, self.function):
            return False
        step = Growth(self.b, loop, "", self.outermost).of(base)
        bytes = lanes_of(load.result.type) * load.result.type.scalar.bits // 8
        if step is None or step == 0:
            return False
        further, locality = _times(self.b, step, max(1, ahead // bytes)), Number(FROM_NEAR, i64)
        ask = Op(OPS["vector.prefetch"], (base, further), (), {"locality": locality}, (), (), load.location)
        assert load.block is not None, "it stands in a loop"
        load.block.insert(ask, load.next)
        return True

    def place(self, *, is_needed: bool) -> bool:
        """Put what has been computed in its place, or drop it; returns whether it is needed."""
        assert self.outermost.block is not None, "it stands in a function"
        if is_needed:
            self.outermost.block.splice(self.b.block, self.outermost)
        else:
            _drop(self.b.block)
        return is_needed


def _times(b: LoopBuilder, step: Operand, count: int) -> Value:
    return b.number(offset_of(b.mul(b.number(step), count)))


def _drop(block: Block) -> None:
    for op in reversed(list(block)):
        op.erase()


def _is_memory_of_program(address: Value, function: Func) -> bool:
    """Whether `address` is that of an argument, and of no buffer."""
    while isinstance(address.op, (AddPtr, Bitcast)):
        address = address.op.operands[0]
    return address in function.body.args


def _loops_around(op: Op) -> Iterator[For | Parallel]:
    """The loops around, the innermost first."""
    site = op.parent
    while site is not None:
        if isinstance(site, (For, Parallel)):
            yield site
        site = site.parent
