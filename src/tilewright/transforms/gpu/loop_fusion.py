"""The fusion of a loop and its inner loops into one loop, for `fuse_nested_loops`.

    for i in I: A(i); for j in J: B(i, j); C(i)

    i, T = I.start - I.step, 0
    for _ in range(len(I) * max(1, len(J))):
        if T == 0:                      i += I.step; A(i); j = J.start
        if 0 <= T < len(J):             B(i, j); j += J.step
        if T == max(1, len(J)) - 1:     C(i)
        T = 0 if T == max(1, len(J)) - 1 else T + 1

Several inner loops follow one another, each starting in the iteration in which the one before it ends. Values that one
part computes and another uses are carried by the fused loop. If the length of an inner loop depends on i, lengths are
computed in each iteration of the outer loop, and their sum in a loop in front.

An inner loop without iterations must have no used results: the fused loop has no place to reset them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import copy
from typing import NamedTuple

from tilewright.analysis.live_ranges import ancestor_in
from tilewright.dialects.scf import For, If
from tilewright.ir.attributes import Attribute, Number
from tilewright.ir.builder import ConstantPool
from tilewright.ir.core import Block, Op, Region, Value, typed
from tilewright.ir.types import FloatType, IndexType, IntType, MemDescType, Type, i1, i32
from tilewright.transforms.matching import is_in, is_inside
from tilewright.transforms.op_builder import OpBuilder


class Inner(NamedTuple):
    """An inner loop.

    Attributes:
        loop: the op.
        bounds: the ops of the outer loop that compute its bounds, if these change across iterations.
        varies: they do.
        runs: it is known to run at least one iteration.
    """

    loop: For
    bounds: Sequence[Op] = ()
    varies: bool = False
    runs: bool = False


class Place(OpBuilder):
    """An insertion point, with the constants of the function."""

    def __init__(self, before: Op, pool: ConstantPool) -> None:
        super().__init__(before)
        self.pool = pool

    def at(self, block: Block, before: Op | None = None) -> Place:
        """Another insertion point: the end of `block`, or before one of its ops."""
        other = copy(self)
        other.block, other.before = block, before
        return other

    def number(self, value: int, type: Type) -> Value:
        return self.pool.value(value, type)

    def resized(self, value: Value, type: Type) -> Value:
        """An integer as one of `type`."""
        if value.type is type:
            return value
        name = "arith.trunci" if value.type.bits > type.bits else "arith.extsi"
        if isinstance(value.type, IndexType) or isinstance(type, IndexType):
            name = "arith.index_cast"
        return self.emit(name, (value,), type)

    def trip_count(self, low: Value, high: Value, step: Value) -> Value:
        """The number of iterations that a loop runs; zero and less mean none."""
        return self.compute("arith.ceildivsi", self.compute("arith.subi", high, low), step)

    def anything(self, type: Type) -> Value:
        """A don't-care value: zero, which is cheaper than an undefined one, or an undefined pointer or buffer."""
        if not isinstance(type, MemDescType) and isinstance(type.scalar, IntType | FloatType | IndexType):
            return self.pool.value(0, type)
        return self.emit("ub.poison", (), type)

    def branch(self, condition: Value, arm: Block, otherwise: Sequence[Value]) -> If:
        """`scf.if condition {arm} else {yield otherwise}`; the arm has its terminator."""
        regions = [Region([arm]), Region()]
        if otherwise:
            self.at(regions[1].add(Block())).op("scf.yield", otherwise)
        return typed(self.op("scf.if", (condition,), [value.type for value in otherwise], None, regions), If)


class Part(NamedTuple):
    """Ops of the outer loop between inner loops, and their results that others use."""

    ops: list[Op]
    outputs: list[Value]


def _parts(body: Block, loops: Sequence[Op]) -> list[Part]:
    """The parts of `body`: the ops before each of `loops`, and those behind the last."""
    groups: list[list[Op]] = [[]]
    for op in body:
        if op in loops:
            groups.append([])
        elif op is not body.last:
            groups[-1].append(op)
    return [Part(ops, _outputs(ops, body)) for ops in groups]


def _outputs(ops: Sequence[Op], body: Block) -> list[Value]:
    own = set(ops)
    results = (value for op in ops for value in op.results)
    return [value for value in results if any(ancestor_in(user, body) not in own for user in value.uses)]


def _replace_outside(old: Value, new: Value, arm: Op) -> None:
    """Let the users of `old` that are not in `arm` use `new`."""
    for user in list(old.uses):
        if not is_in(user, arm):
            user.set_operands([new if value is old else value for value in user.operands])


def _copied(ops: Iterable[Op], place: Place, mapping: dict[Value, Value]) -> None:
    for op in ops:
        if op.results[0] not in mapping:
            place.insert(op.clone(mapping))


class Fusion:
    """The fusion of the loop `outer` with `inners`, some of the loops directly inside, in order."""

    def __init__(self, outer: For, inners: Sequence[Inner], pool: ConstantPool) -> None:
        self.outer, self.inners, self.pool = outer, inners, pool
        self.low, self.high, self.step = outer.bounds
        self.initial = outer.inits
        self.varies = any(inner.varies for inner in inners)
        counters = [loop.induction_variable for loop in (outer, *(inner.loop for inner in inners))]
        self.type = IntType(max(counter.type.bits for counter in counters))
        self.body = outer.body
        self.parts = _parts(self.body, [inner.loop for inner in inners])
        self.fixed = [[not is_inside(init, outer) for init in inner.loop.inits] for inner in inners]
        """Per inner loop, whether each initial value comes from outside: those are reset at the end, not the start."""
        self.front = Place(outer, pool)
        self.fused = Block()
        self.at = self.front.at(self.fused)
        self.lengths: list[Value] = []
        """The trip counts of the inner loops."""
        self.whole: Value = self.zero
        """The number of iterations of the fused loop that make one of the outer loop."""

    @property
    def zero(self) -> Value:
        return self.front.number(0, self.type)

    @property
    def one(self) -> Value:
        return self.front.number(1, self.type)

    def run(self) -> For:
        """Build the fused loop in the place of the outer one; returns the fused loop."""
        total = self._total()
        inits = self._inits()
        for value in (self.zero, *inits):
            self.fused.add_argument(value.type)
        _, *arguments = self.fused.args
        for old, new in zip(self.outer.carried, self._slice(arguments, "outer"), strict=True):
            old.replace_by(new)
        yielded = self._body(arguments)
        self.at.op("scf.yield", yielded)
        operands = [self.zero, total, self.one, *inits]
        loop = self.front.op("scf.for", operands, [v.type for v in inits], self._attributes(), [Region([self.fused])])
        loop.location = self.outer.location
        for old, new in zip(self.outer.results, self._slice(loop.results, "outer"), strict=True):
            old.replace_by(new)
        for inner in self.inners:
            inner.loop.erase()
        self.outer.erase()
        return typed(loop, For)

    # What goes round

    def _slice(self, values: Sequence[Value], group: str) -> list[Value]:
        """The values of one group, out of all carried ones."""
        loops = [inner.loop for inner in self.inners]
        sizes = {
            "T": 1,
            "i": 1,
            "outer": len(self.initial),
            "lengths": len(loops) * self.varies,
            "whole": 1 * self.varies,
            "counters": len(loops),
            "inner": sum(len(loop.results) for loop in loops),
            "outputs": sum(len(part.outputs) for part in self.parts[:-1]),
        }
        start = 0
        for name, size in sizes.items():
            if name == group:
                return list(values[start : start + size])
            start += size
        raise AssertionError(f"no values are called {group}")

    def _inits(self) -> list[Value]:
        front = self.front
        previous = front.compute("arith.subi", self.low, self.step)
        inits = [self.zero, previous, *self.initial]
        if self.varies:
            inits += [*self.lengths, self.whole]
        inits += [front.anything(inner.loop.induction_variable.type) for inner in self.inners]
        for inner, fixed in zip(self.inners, self.fixed, strict=True):
            starts = zip(inner.loop.inits, fixed, strict=True)
            inits += [init if is_fixed else front.anything(init.type) for init, is_fixed in starts]
        return inits + [front.anything(value.type) for part in self.parts[:-1] for value in part.outputs]

    def _attributes(self) -> dict[str, Attribute]:
        loops = [self.outer, *(inner.loop for inner in self.inners)]
        kept = ("tt.disallow_acc_multi_buffer", "tt.warp_specialize")
        found = {name: loop.attributes[name] for name in kept for loop in loops if name in loop.attributes}
        stages = [loop.attributes.get("tt.num_stages") for loop in loops]
        most = max((int(each.value) for each in stages if isinstance(each, Number)), default=1)
        return {**found, "tt.num_stages": Number(most, i32)} if most > 1 else found

    # Lengths

    def _total(self) -> Value:
        """The number of iterations that the fused loop runs; sets the lengths as they are before it."""
        front = self.front
        steps = front.trip_count(self.low, self.high, self.step)
        if self.varies and len(self.inners) > 1:  # then `whole` may be negative
            steps = front.compute("arith.maxsi", steps, front.number(0, steps.type))
        for inner in self.inners:
            known = self.zero if inner.varies else front.resized(front.trip_count(*inner.loop.bounds), self.type)
            self.lengths.append(known)
        fixed = [length for inner, length in zip(self.inners, self.lengths, strict=True) if not inner.varies]
        self.whole = self._sum(front, fixed, len(self.inners) - 1)
        if self.whole is self.zero:
            total = self.zero
        else:
            total = front.compute("arith.muli", front.resized(steps, self.type), self.whole)
        return self._varying_total(total) if self.varies else total

    def _sum(self, at: Place, lengths: Sequence[Value], overlap: int, start: Value | None = None) -> Value:
        """max(1, lengths[0]) + … - overlap."""
        total = start
        for length in lengths:
            clamped = at.compute("arith.maxsi", length, self.one)
            total = clamped if total is None else at.compute("arith.addi", total, clamped)
        if total is None:
            return at.number(-overlap, self.type)
        return at.compute("arith.subi", total, at.number(overlap, self.type)) if overlap else total

    def _varying_total(self, total: Value) -> Value:
        """`total`, and the iterations of the loops whose lengths vary, summed up in a loop."""
        block = Block([self.outer.induction_variable.type, self.type])
        at = self.front.at(block)
        counter, so_far = block.args
        lengths = self._varying_lengths(at, counter)
        known = [length for length in lengths if length is not None]
        at.op("scf.yield", [self._sum(at, known, 0, so_far)])
        operands = [self.low, self.high, self.step, total]
        return self.front.op("scf.for", operands, (self.type,), None, [Region([block])]).result

    def _varying_lengths(self, at: Place, counter: Value) -> list[Value | None]:
        """The lengths that vary, in the iteration of the outer loop with `counter`."""
        mapping = {self.outer.induction_variable: counter}
        found: list[Value | None] = []
        for inner in self.inners:
            if not inner.varies:
                found.append(None)
                continue
            _copied(inner.bounds, at, mapping)
            low, high, step = (mapping.get(value, value) for value in inner.loop.bounds)
            found.append(at.resized(at.trip_count(low, high, step), self.type))
        return found

    # The body

    def _body(self, arguments: Sequence[Value]) -> list[Value]:
        """Build the body; returns what it yields."""
        ticks, counter = arguments[:2]
        previous = iter(self._slice(arguments, "inner"))
        kept = iter(self._slice(arguments, "outputs"))
        counters: list[Value] = []
        results: list[list[Value]] = []
        outputs: list[Value] = []
        for k, inner in enumerate(self.inners):
            start = self._sum(self.at, self.lengths[:k], k) if k else self.zero
            last = [next(previous) for _ in inner.loop.results]
            names = [next(kept) for _ in self.parts[k].outputs]
            begun = self._begin(k, self.at.compare("eq", ticks, start), last, names, arguments)
            if k == 0:
                counter = begun.results[-1 - self.varies * (1 + len(self.lengths))]
            stepped = self._step(inner, ticks, start, self.lengths[k], begun.results[0], last)
            counters.append(stepped.results[0])
            results.append(stepped.results[1:])
            outputs += begun.results[1 : 1 + len(names)]
        ended = self._end(ticks, arguments, results)
        after = self.at.compute("arith.addi", ticks, self.one)
        again = self.at.compute("arith.select", ended.condition, self.zero, after)
        resets = iter(ended.results[len(self.initial) :])
        inner_values = [
            next(resets) if is_fixed else value
            for values, fixed in zip(results, self.fixed, strict=True)
            for value, is_fixed in zip(values, fixed, strict=True)
        ]
        lengths = [*self.lengths, self.whole] if self.varies else []
        return [again, counter, *ended.results[: len(self.initial)], *lengths, *counters, *inner_values, *outputs]

    def _begin(
        self, k: int, condition: Value, last: Sequence[Value], names: Sequence[Value], arguments: Sequence[Value]
    ) -> If:
        """`scf.if`: what stands before inner loop k, and its start; the first also advances the outer loop.

        Results: the inner counter, outputs, what the loop starts with; of the first the outer counter and lengths.
        """
        loop, part, arm = self.inners[k].loop, self.parts[k], Block()
        at = self.front.at(arm)
        advanced, waiting = self._advance(at, arguments) if k == 0 else ([], [])
        arm.splice(part.ops)
        starts = _unless(loop.inits, self.fixed[k])
        at.op("scf.yield", [loop.low, *part.outputs, *starts, *advanced])
        otherwise = [self._slice(arguments, "counters")[k], *names, *_unless(last, self.fixed[k]), *waiting]
        branch = self.at.branch(condition, arm, otherwise)
        first = 1 + len(names) + len(starts)
        if advanced:
            _replace_outside(self.outer.induction_variable, branch.results[first], branch)
            self.outer.induction_variable.replace_by(advanced[0])
            *self.lengths, self.whole = branch.results[first + 1 :] or (*self.lengths, self.whole)
        for old, new in zip(part.outputs, branch.results[1:], strict=False):
            _replace_outside(old, new, branch)
        self._enter(k, branch.results[0], branch.results[1 + len(names) : first], last)
        return branch

    def _advance(self, at: Place, arguments: Sequence[Value]) -> tuple[list[Value], list[Value]]:
        """The next outer counter and, where they vary, lengths; and what these are between steps of the outer loop."""
        counter = at.compute("arith.addi", arguments[1], self.step)
        if not self.varies:
            return [counter], [arguments[1]]
        found = self._varying_lengths(at, counter)
        lengths = [old if new is None else new for old, new in zip(self.lengths, found, strict=True)]
        whole = self._sum(at, [new for new in found if new is not None], 0, self.whole)
        kept = [*self._slice(arguments, "lengths"), *self._slice(arguments, "whole")]
        return [counter, *lengths, whole], [arguments[1], *kept]

    def _enter(self, k: int, counter: Value, starts: Sequence[Value], last: Sequence[Value]) -> None:
        """Let the body of inner loop k use what it starts with in the first iteration and what goes round in others."""
        loop, fresh = self.inners[k].loop, iter(starts)
        loop.induction_variable.replace_by(counter)
        for argument, old, is_fixed in zip(loop.carried, last, self.fixed[k], strict=True):
            argument.replace_by(old if is_fixed else next(fresh))

    def _step(
        self, inner: Inner, ticks: Value, start: Value, length: Value, counter: Value, last: Sequence[Value]
    ) -> If:
        """`scf.if`: an iteration of an inner loop, if it is due. Results: the inner counter, those of the loop."""
        condition = self.at.number(1, i1)
        if not inner.runs:
            end = length if start is self.zero else self.at.compute("arith.addi", start, length)
            begun, before_end = self.at.compare("sge", ticks, start), self.at.compare("slt", ticks, end)
            condition = self.at.compute("arith.andi", begun, before_end)
        arm = Block()
        arm.splice(inner.loop.body)
        after = self.at.at(arm, arm.terminator).compute("arith.addi", counter, inner.loop.step)
        arm.terminator.set_operands([after, *arm.terminator.operands])
        branch = self.at.branch(condition, arm, [counter, *last])
        for old, new in zip(inner.loop.results, branch.results[1:], strict=True):
            old.replace_by(new)
        return branch

    def _end(self, ticks: Value, arguments: Sequence[Value], results: Sequence[Sequence[Value]]) -> If:
        """`scf.if`: what stands behind the last inner loop. Results: of the outer loop, then what is reset."""
        condition = self.at.compare("eq", ticks, self.at.compute("arith.subi", self.whole, self.one))
        arm = Block()
        arm.splice(self.parts[-1].ops)
        resets: list[Value] = []
        others: list[Value] = []
        for inner, values, fixed in zip(self.inners, results, self.fixed, strict=True):
            varies = [not is_fixed for is_fixed in fixed]
            resets += _unless(inner.loop.inits, varies)
            others += _unless(values, varies)
        self.at.at(arm).op("scf.yield", [*self.body.terminator.operands, *resets])
        return self.at.branch(condition, arm, [*self._slice(arguments, "outer"), *others])


def _unless(values: Sequence[Value], skipped: Sequence[bool]) -> list[Value]:
    return [value for value, is_skipped in zip(values, skipped, strict=True) if not is_skipped]
