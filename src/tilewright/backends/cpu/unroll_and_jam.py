"""Unroll and jam: several iterations of a parallel loop become one.

    %s = scf.parallel %i = %a to %b step %w -> (T) {        %k:2 = scf.for %i = %a to %b step 2*%w
      %x = vector.load %p[%i]                                   iter_args(%u = 0, %v = 0) {
      %y = A(%x)                                              %x = vector.load %p[%i]
      scf.reduce(%y) { + }                                    %y = A(%x)
      vector.store %y, %q[%i]                          ->     %u1 = %u + %y
    } {vector.unroll = 2}                                     %x1 = vector.load %p[%i + %w]
                                                              %y1 = A(%x1)
                                                              %v1 = %v + %y1
                                                              vector.store %y, %q[%i]
                                                              vector.store %y1, %q[%i + %w]
                                                            }
                                                            %s = %k#0 + %k#1

The loads of all jammed iterations precede their stores. Each iteration has its own accumulators, so that none waits for
another. An address at a constant distance from one of the first iteration is computed from that, without another
counter, and common values, such as the scale of a group of elements, are computed once. If only one iteration is left,
there is no loop, and constants are folded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from tilewright.backends.cpu.iteration_order import in_order
from tilewright.backends.cpu.loop_builder import LoopBuilder, known, offset_of
from tilewright.backends.cpu.loop_facts import number_in, width_of
from tilewright.backends.cpu.loop_structure import Operand
from tilewright.backends.cpu.nest.combine import Combine
from tilewright.backends.llvm.cpu_costs import CACHE_LINE
from tilewright.dialects.scf import Parallel, Reduce
from tilewright.dialects.traits import WritesMemory
from tilewright.dialects.tt_memory import pointee_type
from tilewright.dialects.vector import UNROLL, Load, Prefetch, lanes_of
from tilewright.ir.core import Op, Value
from tilewright.ir.effects import is_pure
from tilewright.transforms.functions import functions_of

Found: TypeAlias = dict[Reduce, list[Sequence[Value]]]
"""For each reduction and iteration, values."""
Join: TypeAlias = Callable[[Reduce, int, list[Value]], Sequence[Value]]
"""A function of a reduction, an iteration and its values, which says what to go on with."""


def unroll_and_jam(module: Op) -> bool:
    """Turn the parallel loops of `module` into loops and straight-line code; returns whether there were any."""
    found = False
    for function in functions_of(module):
        loops = function.ops_of(Parallel)
        builder = LoopBuilder(function.body) if loops else None
        for loop in loops:
            assert builder is not None, "there are loops"
            _Unrolled(builder, loop).build()
        found |= bool(loops)
    return found


class _Unrolled:
    """One loop that is being unrolled.

    Attributes:
        factor: how many of its iterations become one.
        straight: these are all that there are.
        moves: the one iteration that is built takes the ops themselves, not copies of them.
        steps: addresses at the counter, from somewhere else; later iterations step on from that of the first one.
        counts: the counter is needed for something else.
        shared: what has the same results in all iterations that become one.
    """

    def __init__(self, builder: LoopBuilder, loop: Parallel) -> None:
        self.b, self.loop = builder, loop
        low, high, step = offset_of(loop.low), offset_of(loop.high), width_of(loop)
        self.low, self.high, self.step = low, high, step
        self.factor = number_in(loop, UNROLL) or 1
        if not (_is_multiple(high, self.factor * step) and _is_multiple(low, self.factor * step)):
            self.factor = 1
        self.straight = isinstance(low, int) and isinstance(high, int) and high - low == self.factor * step
        self.combines = {op: Combine(in_order(op, loop)) for op in loop.reductions}
        self.identities = {op: c.identity(lanes_of(op.values[0].type), builder) for op, c in self.combines.items()}
        self.steps = {op for op in loop.body.ops() if _is_step(op, loop)}
        self.counts = not self.steps.issuperset(loop.induction_variable.uses)
        self.shared = self._shared() if self.factor > 1 else set()
        self.moves = self.factor == 1 and not self.straight and None not in self.identities.values()

    def _shared(self) -> set[Op]:
        """The ops with the same results in all iterations that become one: quotients of the counter, and their users.

        Iterations store last, so what is loaded from one place is one number.
        """
        found, width = set[Op](), self.factor * self.step
        for op in self.loop.body.ops():
            if is_pure(op) or isinstance(op, Load):
                is_quotient = _divides(op, self.loop.induction_variable, width)
                inside = [v for v in op.operands if v.block is self.loop.body]
                if is_quotient or (inside and all(v.op in found for v in inside)):
                    found.add(op)
        return found

    def build(self) -> None:
        """Put what the loop becomes in its place."""
        loop, b = self.loop, self.b
        with b.before(loop):
            results = self._straight() if self.straight else self._loop()
        for old, new in zip(loop.results, results, strict=True):
            old.replace_by(new)
        loop.erase()

    def _straight(self) -> list[Value]:
        """All iterations one after the other; returns the results."""
        return self._together(self._iterations(self.loop.low, lambda reduction, iteration, new: new), self.combines)

    def _loop(self) -> list[Value]:
        """The loop with fewer iterations; returns the results."""
        b, loop, width = self.b, self.loop, self.factor * self.step
        flip = None if loop.backwards is None else self._flip(loop.backwards, width)

        def iterations(index: Value, join: Join) -> list[Value]:
            found = self._iterations(index if flip is None else b.xor(index, flip), join)
            return [value for rows in found.values() for values in rows for value in values]

        low, nonempty = self.low, bool(self.combines)
        if None in self.identities.values():  # the first iterations are what sums begin with
            carried = iterations(loop.low, lambda reduction, iteration, new: new)
            low, nonempty = offset_of(b.add(loop.low, width)), False
        else:
            carried = [value for start in self.identities.values() for value in (start or ()) * self.factor]
        with b.loop(low, self.high, width, carried=carried, nonempty=nonempty) as frame:
            sums = self._by_iteration(frame.carried)
            frame.next = iterations(frame.index, lambda r, n, new: self.combines[r].apply(b, sums[r][n], new))
        return self._together(self._by_iteration(frame.results), {op: Combine(op) for op in self.combines})

    def _flip(self, backwards: Value, width: int) -> Value | None:
        """The bits that are exchanged in counters, so that the last one comes first where `backwards` holds."""
        is_power = isinstance(self.high, int) and self.low == 0 and self.high.bit_count() == width.bit_count() == 1
        return self.b.select(backwards, self.b.sub(self.loop.high, width), 0) if is_power else None

    def _by_iteration(self, values: Sequence[Value]) -> Found:
        """The values that a loop carries, for each reduction and iteration."""
        rest = iter(values)
        return {r: [[next(rest) for _ in r.values] for _ in range(self.factor)] for r in self.combines}

    def _together(self, found: Found, combines: Mapping[Reduce, Combine]) -> list[Value]:
        """The results of all iterations combined."""
        return [value for r, iterations in found.items() for value in combines[r].together(self.b, iterations)]

    def _iterations(self, index: Value, join: Join) -> Found:
        """Build the iterations from `index` on, first what they compute, then what they store.

        Returns what `join` makes of the values of each reduction in each iteration.
        """
        b, (*ops, _) = self.b, self.loop.body
        found: Found = {reduction: [] for reduction in self.combines}
        stores: list[tuple[Op, dict[Value, Value]]] = []
        firsts: dict[Value, Value] = {}
        for iteration in range(self.factor):
            mapping = dict[Value, Value]()
            if iteration == 0 or self.counts or self.straight:
                mapping[self.loop.induction_variable] = b.add(index, iteration * self.step)
            if self.moves:
                self.loop.induction_variable.replace_by(index)
            for op in ops:
                b.location = op.location
                if isinstance(op, Reduce):
                    found[op].append(join(op, iteration, [mapping.get(value, value) for value in op.values]))
                elif isinstance(op, WritesMemory):
                    stores.append((op, mapping))
                elif iteration and op in self.shared:
                    mapping.update((result, firsts[result]) for result in op.results)
                elif iteration and op in self.steps and not self.straight:
                    mapping[op.result] = self._later_address(firsts[op.result], iteration, op.result.name)
                elif not isinstance(op, Prefetch) or self._begins_line(op, iteration):
                    self._copy(op, mapping)
            firsts = firsts or mapping
        for op, mapping in stores:
            b.append(self._taken(op, mapping))
        return found

    def _taken(self, op: Op, mapping: dict[Value, Value]) -> Op:
        """The op that stands for `op` in an iteration."""
        if not self.moves:
            return op.clone(mapping)
        op.unlink()
        return op

    def _later_address(self, first: Value, iteration: int, name: str | None) -> Value:
        """The address of an iteration, from that of the first one."""
        found = self.b.emit("tt.addptr", (first, self.b.number(iteration * self.step)), first.type)
        found.name = name
        return found

    def _begins_line(self, op: Prefetch, iteration: int) -> bool:
        """Whether what the iteration asks for is not in the cache line of the iteration before."""
        return iteration * self.step * pointee_type(op.base.type).bits // 8 % CACHE_LINE == 0

    def _copy(self, op: Op, mapping: dict[Value, Value]) -> None:
        fold = _FOLDS.get(op.name) if self.straight else None
        if fold is not None and any(known(mapping.get(value, value)) is not None for value in op.operands):
            mapping[op.result] = fold(self.b, op, [mapping.get(value, value) for value in op.operands])
        else:
            self.b.append(self._taken(op, mapping))


def _is_step(op: Op, loop: Parallel) -> bool:
    """Whether an op gives the address of a place at the counter of `loop`, behind one that does not change in it."""
    if op.name != "tt.addptr":
        return False
    base, offset = op.operands
    return offset is loop.induction_variable and base.block is not loop.body


def _divides(op: Op, counter: Value, width: int) -> bool:
    """Whether `op` divides a counter by a multiple of `width`, rounding down."""
    if op.name != "arith.shrui":
        return False
    shifted, amount = op.operands
    by = known(amount) if shifted is counter else None
    return isinstance(by, int) and (1 << by) % width == 0


def _is_multiple(number: Operand, factor: int) -> bool:
    """Whether an i64 is known to be a multiple of `factor`: loops end there, at x & -factor, or x * factor."""
    if isinstance(number, int):
        return number % factor == 0
    op = number.op
    bits = offset_of(op.operands[1]) if op is not None and op.name in ("arith.andi", "arith.muli") else 1
    return isinstance(bits, int) and bits % factor == 0


def _stepped(b: LoopBuilder, op: Op, operands: list[Value]) -> Value:
    pointer, offset = operands
    return pointer if known(offset) == 0 else b.emit(op.name, operands, op.result.type)


def _shifted(b: LoopBuilder, op: Op, operands: list[Value]) -> Value:
    value, by = operands
    number = known(by)
    return b.lshr(value, number if isinstance(number, int) else by)


_FOLDS: dict[str, Callable[[LoopBuilder, Op, list[Value]], Value]] = {
    "arith.addi": lambda b, op, operands: b.add(*operands),
    "arith.andi": lambda b, op, operands: b.and_(*operands),
    "arith.extsi": lambda b, op, operands: b.extend(operands[0], op.result.type.scalar),
    "arith.extui": lambda b, op, operands: b.extend(operands[0], op.result.type.scalar, signed=False),
    "arith.muli": lambda b, op, operands: b.mul(*operands),
    "arith.shrui": _shifted,
    "arith.subi": lambda b, op, operands: b.sub(*operands),
    "arith.trunci": lambda b, op, operands: b.extend(operands[0], op.result.type.scalar),
    "arith.xori": lambda b, op, operands: b.xor(*operands),
    "tt.addptr": _stepped,
    "vector.broadcast": lambda b, op, operands: b.splat(operands[0], lanes_of(op.result.type)),
}
"""The values of ops some of whose operands are known, by the name of the op."""
