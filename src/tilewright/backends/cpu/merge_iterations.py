"""Several iterations of a loop along k become one product, where loading and storing C dominates short iterations.

    scf.for %k = … {                        scf.for %k = … {
      "cpu.matmul"(%a, %b, %c, …)     →       %waits = the next iteration is there, and both read A and B where they lie
    }                                         … %table[%waiting] is %a, %panels
                                              "cpu.matmul"(%a, %b, %c, …, %waits, %waiting + 1, %table)
                                              … %waiting is one more, or 0 if this iteration does not wait
                                            }

A deferred product packs its B, and leaves everything else to the next iteration, whose blocks of C include all deferred
ones. Nothing in the loop writes memory except copies of operands, and a product is deferred only if neither its
iteration nor the next one has any, so what it reads is still there. Each iteration has its own memory for its packed B;
see `keep_panels`.
"""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.analysis.live_ranges import ancestor_in
from tilewright.analysis.memory_accesses import root_of
from tilewright.backends.cpu.dot.plan import plan_of
from tilewright.backends.cpu.dot.spec import spec_of_matmul
from tilewright.backends.cpu.loop_builder import LoopBuilder, known, operand_of
from tilewright.backends.cpu.next_iteration import NextIteration
from tilewright.backends.llvm.elementwise import is_elementwise
from tilewright.backends.llvm.machine import Target
from tilewright.dialects.cpu import Alloc, Matmul, Nest
from tilewright.dialects.scf import For, If
from tilewright.dialects.tt_elementwise import Bitcast
from tilewright.dialects.tt_function import Func
from tilewright.ir.attributes import DenseArray
from tilewright.ir.core import Block, Op, Value
from tilewright.ir.types import i64
from tilewright.transforms.functions import functions_of
from tilewright.transforms.matching import is_inside

MAX_MERGED = 4
"""Max iterations that are multiplied at once by vectors, a power of two: with two, int8 takes 2 % longer."""
MIN_BYTES = 32 << 10
"""Min bytes of C: a smaller one stays in the L1 cache, so that waiting gains nothing."""
WAITING, ZERO, TABLE = 0, 8, 16
"""Places of what iterations leave to the next one, in bytes: how many wait, whether their sums begin at zero, and for
each the addresses of its A and of its packed B."""
ENTRY = 16
"""Bytes of an iteration's addresses."""


def merge_iterations(module: Op, target: Target) -> bool:
    """Merge iterations of products of `module` (vector loops) that keep their B; returns whether any were."""
    found = False
    for function in functions_of(module):
        for op in function.ops_of(Matmul):
            loop = op.parent
            most = merged_iterations(op, loop, function, target) if op.keeps and isinstance(loop, For) else 1
            if most > 1 and isinstance(loop, For):
                _Merge(function, loop, op, most).merge()
                found = True
    return found


def merged_iterations(op: Matmul, loop: For, function: Func, target: Target) -> int:
    """How many iterations of `loop`, in whose body `op` stands, may be multiplied at once, a power of two."""
    plan = plan_of(spec_of_matmul(op)[0], target)
    if plan is not None and plan.by.tiles:
        return plan.merged_by_tiles if _may_wait(op, loop, function) else 1
    if plan is None or plan.by.group == 1 or plan.packs_a or plan.groups > target.costs.merged_groups:
        return 1
    is_large = op.shape[0] * op.shape[1] * plan.by.accumulator.bits >= 8 * MIN_BYTES
    return MAX_MERGED if is_large and _may_wait(op, loop, function) else 1


def _may_wait(op: Matmul, loop: For, function: Func) -> bool:
    """Whether the operands of `op`, in the body of `loop`, are known to be there an iteration later."""
    places = [in_place(factor, function) for factor in (op.a, op.b)]
    if (known(loop.step) or 0) <= 0 or not _only_multiplies(op, loop) or not all(places):
        return False
    ahead = NextIteration(LoopBuilder(Block()), loop, (), operand_of)
    conditions = [condition for place in places if place for condition in place if condition is not None]
    fixed = [_there(op.a_stride), _there(op.a_step), op.rows, op.columns, op.depth]
    return all(map(ahead.knows, conditions)) and all(_is_fixed(value, loop) for value in fixed)


def in_place(factor: Value, function: Func) -> tuple[Value | None] | None:
    """Whether a factor is read in the program's memory: a condition, or always. None: never, or unknown."""
    op = factor.op
    if isinstance(op, If) and len(op.arms) == 2:
        there, copy = (arm.block.terminator.operands[op.results.index(factor)] for arm in op.arms)
        is_either = root_of(there) in function.body.args and isinstance(root_of(copy).op, Alloc)
        return (op.condition,) if is_either else None
    return (None,) if root_of(factor) in function.body.args else None


def _only_multiplies(op: Matmul, loop: For) -> bool:
    """Whether the loop does nothing in memory but this product and copies of operands."""
    inside = [user for user in users_of(root_of(op.sums)) if ancestor_in(user, loop.body) is not None]
    nests = [inner for inner in loop.walk() if isinstance(inner, Nest)]
    products = [inner for inner in loop.walk() if isinstance(inner, Matmul)]
    return inside == products == [op] and all(nest.copy is not None for nest in nests)


def users_of(buffer: Value) -> Iterator[Op]:
    """The ops that use a buffer, or its address."""
    for user in buffer.uses:
        if isinstance(user, Bitcast):
            yield from users_of(user.result)
        else:
            yield user


def _there(number: Value) -> Value:
    """The value of a stride where the operand is read in place."""
    op = number.op
    return op.arms[0].block.terminator.operands[op.results.index(number)] if isinstance(op, If) else number


def _is_fixed(value: Value, loop: For) -> bool:
    """Whether a scalar is the same in all iterations."""
    if not is_inside(value, loop):
        return True
    op = value.op
    return op is not None and is_elementwise(op) and all(_is_fixed(operand, loop) for operand in op.operands)


class _Merge:
    """Lets the iterations of a loop wait for each other, up to `most` of them."""

    def __init__(self, function: Func, loop: For, op: Matmul, most: int) -> None:
        self.function, self.loop, self.op, self.most = function, loop, op, most
        self.b = LoopBuilder(Block(), entry=function.body)
        self.b.location = op.location

    def merge(self) -> None:
        """Give the product what earlier iterations left to it, and leave it to the next one where that may be."""
        b, op, loop = self.b, self.op, self.loop
        state = b.stack(TABLE + self.most * ENTRY)
        with b.before(loop):
            b.store(b.constant(0, i64), state, WAITING, align=8)
        with b.before(op):
            waits, count, zero = self._takes(state)
            op.wait([waits, count, b.offset(state, TABLE)], zero)
        with b.before(op.next):
            b.store(b.select(waits, count, 0), state, WAITING, align=8)
            b.store(b.extend(zero, i64, signed=False), state, ZERO, align=8)
        self._ask_for_all()

    def _takes(self, state: Value) -> tuple[Value, Value, Value]:
        """Whether the product waits, the number of iterations up to it, and whether their sums begin at zero."""
        b, op = self.b, self.op
        assert op.panels is not None, "it keeps its B"
        waiting = b.load(i64, state, WAITING, align=8)
        entry = b.offset(state, b.mul(waiting, ENTRY))
        for number, pointer in enumerate((op.a, op.panels)):
            b.store(b.address(pointer), entry, TABLE + 8 * number, align=8)
        begins = b.compare("ne", b.load(i64, state, ZERO, align=8), 0)
        zero = b.select(b.compare("eq", waiting, 0), op.zero_init, begins)
        waits = b.and_(b.compare("slt", waiting, self.most - 1), self._reads_in_place())
        return waits, b.add(waiting, 1), zero

    def _reads_in_place(self) -> Value:
        """An i1: there is a next iteration, and neither this one nor that one copies A or B."""
        b, loop = self.b, self.loop
        found = b.compare("sgt", b.sub(loop.high, loop.induction_variable), loop.step)
        ahead = NextIteration(b, loop, (), operand_of)
        for factor in (self.op.a, self.op.b):
            for condition in in_place(factor, self.function) or ():
                if condition is not None:
                    found = b.and_(b.and_(found, condition), ahead.value(condition))
        return found

    def _ask_for_all(self) -> None:
        """Request the A and B of so many iterations ahead: columns of A go on to the right, rows of B below."""
        if self.op.asked_operands[:2] == (0, 1):
            a, rows, bytes, b, rows_of_b, *others = self.op.soon_extents
            extents = (a, rows, self.most * bytes, b, self.most * rows_of_b, *others)
            self.op.attributes["soon_extents"] = DenseArray(i64, extents)
