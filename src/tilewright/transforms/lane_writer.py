"""Vectorization of a scalar function: both sides of branches are executed, and lanes leave loops one by one.

    %2 = scf.if %c { … } else { … }     both sides, then select by %c; a long side only if some lane needs it
    scf.while                           a loop while some lane's condition holds; finished lanes keep their values
    tt.assert %c, "…"                   checked for active lanes

Uniform values, the same in all lanes, stay scalar: they are computed from scalars of the call, constants, and counters
of common loops. A branch or a loop with a uniform condition stays one.

    %0 = arith.addi %n, %c1             uniform if %n is
    %1 = arith.addf %x, %y              not uniform if %x varies
    scf.while                           its carried values are uniform if its condition and their updates are
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from tilewright.dialects.arith import Constant
from tilewright.dialects.builtin import Poison
from tilewright.dialects.scf import For, If, While
from tilewright.dialects.tt_program import Assert
from tilewright.ir.builder import Builder
from tilewright.ir.core import Block, Op, Region, Value, defining
from tilewright.ir.types import TensorType, Type, VectorType, i1


class LaneWriter:
    """Writes the ops of a function on scalars for many lanes; a subclass says what holds the numbers of all lanes.

    Attributes:
        builder: where the ops go.
        active: the lanes that count; None: all.

    Args:
        builder: where the ops go.
        uniform: values that all lanes share.
    """

    def __init__(self, builder: Builder, uniform: set[Value]) -> None:
        self.builder = builder
        self.active: Value | None = None
        self._uniform = uniform
        self._found: dict[Value, Value] = {}

    def bind(self, value: Value, found: Value) -> None:
        """Say what a value is on the lanes."""
        self._found[value] = found

    def run(self, block: Block) -> list[Value]:
        """Write the ops of a block; the operands of its terminator."""
        for op in block:
            if op.definition.terminator:
                return op.operands
            self.builder.location = op.location
            handler = self.HANDLERS.get(op.name)
            self.elementwise(op) if handler is None else handler(self, op)
        raise AssertionError("a block ends with its terminator")

    def emit(self, name: str, operands: Sequence[Any], type: Type, attributes: Any = None) -> Value:
        """The result of a new op."""
        return self.builder.emit(name, operands, [type], dict(attributes or {}))[0]

    # --- what a subclass says ---

    def wide_type(self, type: Type) -> Type:
        """The type of numbers of `type` in all lanes."""
        raise NotImplementedError

    def spread(self, number: Value) -> Value:
        """A number in every lane."""
        raise NotImplementedError

    def any(self, flags: Value) -> Value:
        """Whether the flag of some lane is set, an i1."""
        raise NotImplementedError

    def is_long(self, block: Block) -> bool:
        """Whether a side of a branch should be jumped over where no lane needs it."""
        return False

    # --- values ---

    def is_uniform(self, value: Value) -> bool:
        """Whether all lanes share the value."""
        return value in self._uniform

    def one(self, value: Value) -> Value:
        """The value that all lanes share; what the function uses from around it is what it is."""
        literal = defining(value, Constant)
        if literal is None:
            return self._found.get(value, value)
        return self.builder.constant(literal.number.value, value.type)

    def all(self, value: Value) -> Value:
        """The value in every lane."""
        literal = defining(value, Constant)
        if literal is not None:
            return self.builder.constant(literal.number.value, self.wide_type(value.type))
        return self.wide(self._found.get(value, value))

    def wide(self, found: Value) -> Value:
        """A value that is found, in every lane."""
        is_wide = isinstance(found.type, (VectorType, TensorType)) or self.wide_type(found.type) is found.type
        return found if is_wide else self.spread(found)

    def shaped(self, value: Value, like: Value) -> Value:
        """The value, as one number where all lanes share `like`."""
        return self.one(value) if self.is_uniform(like) else self.all(value)

    def _type(self, value: Value) -> Type:
        return value.type if self.is_uniform(value) else self.wide_type(value.type)

    def _constant(self, op: Constant) -> None:
        """Nothing: constants are made where they are used."""

    def _poison(self, op: Poison) -> None:
        """Bind 0: any value will do, and it is the same in all lanes."""
        self.bind(op.result, self.builder.constant(0, op.result.type))

    def elementwise(self, op: Op) -> None:
        (result,) = op.results
        operands = [self.shaped(operand, result) for operand in op.operands]
        self.bind(result, self.emit(op.name, operands, self._type(result), op.attributes))

    # --- masks ---

    def negated(self, flags: Value) -> Value:
        return self.emit("arith.xori", (flags, self.builder.constant(1, flags.type)), flags.type)

    def _and(self, flags: Value, others: Value | None) -> Value:
        return flags if others is None else self.emit("arith.andi", (flags, others), flags.type)

    @contextmanager
    def _only(self, active: Value | None) -> Iterator[None]:
        outer, self.active = self.active, active
        yield
        self.active = outer

    def _assert(self, op: Assert) -> None:
        self.builder.emit("tt.assert", (self.holds(op.condition),), (), dict(op.attributes))

    def holds(self, condition: Value) -> Value:
        """Whether the condition holds in the lanes that count."""
        if self.is_uniform(condition) and self.active is None:
            return self.one(condition)
        return self.negated(self.any(self._and(self.negated(self.all(condition)), self.active)))

    # --- branches ---

    def _if(self, op: If) -> None:
        if self.is_uniform(op.condition):
            self._jump(op)
            return
        condition = self.all(op.condition)
        sides = []
        for region, chosen in zip(op.regions, (condition, self.negated(condition)), strict=True):
            needed = self._and(chosen, self.active)
            with self._only(needed):
                sides.append(self._side(region, needed))
        for result, yes, no in zip(op.results, *sides, strict=False):
            self.bind(result, self.emit("arith.select", (condition, yes, no), yes.type))

    def _side(self, region: Region, needed: Value) -> list[Value]:
        """The values of a side, computed only if some lane needs it where that takes long."""
        if not region.blocks:
            return []
        if not self.is_long(region.block):
            return [self.all(value) for value in self.run(region.block)]
        some = self.any(needed)
        inside, outside = Block(), Block()
        with self.builder.recording(inside):
            values = [self.all(value) for value in self.run(region.block)]
            self.builder.emit("scf.yield", values)
        with self.builder.recording(outside):
            self.builder.emit("scf.yield", [self.builder.constant(0, value.type) for value in values])
        return self._branch(some, [inside, outside], [value.type for value in values])

    def _jump(self, op: If) -> None:
        """Jump to one side only: all lanes agree."""
        blocks = []
        for region in op.arms:
            blocks.append(Block())
            with self.builder.recording(blocks[-1]):
                given = zip(self.run(region.block), op.results, strict=True)
                self.builder.emit("scf.yield", [self.shaped(value, result) for value, result in given])
        results = self._branch(self.one(op.condition), blocks, [self._type(result) for result in op.results])
        for result, found in zip(op.results, results, strict=True):
            self.bind(result, found)

    def _branch(self, condition: Value, blocks: Sequence[Block], types: Sequence[Type]) -> list[Value]:
        regions = [Region([block]) for block in blocks] + [Region()] * (2 - len(blocks))
        return self.builder.emit("scf.if", (condition,), types, None, regions)

    # --- loops ---

    def _while(self, op: While) -> None:
        if self.is_uniform(op.condition.condition):
            self._agreed(op)
        else:
            self._masked(op)

    def _agreed(self, op: While) -> None:
        """A loop whose end comes for all lanes at once."""
        before, after = Block(map(self._type, op.before.args)), Block(map(self._type, op.results))
        with self._bound(op.before, before):
            condition, *values = self.run(op.before)
            passed = [self.shaped(value, result) for value, result in zip(values, op.results, strict=True)]
            self.builder.emit("scf.condition", (self.one(condition), *passed))
        with self._bound(op.after, after):
            yielded = [self.shaped(v, a) for v, a in zip(self.run(op.after), op.before.args, strict=True)]
            self.builder.emit("scf.yield", yielded)
        self._loop(op, [self.shaped(v, a) for v, a in zip(op.inits, op.before.args, strict=True)], before, after)

    def _masked(self, op: While) -> None:
        """A loop that goes on while any lane does: it carries these lanes, and what the others ended with."""
        flags, carried = self.wide_type(i1), [*map(self._type, op.before.args)]
        before, after = Block([*carried, flags]), Block([*map(self._type, op.results), *carried, flags])
        *held, running = before.args
        with self._bound(op.before, before), self._only(running):
            condition, *values = self.run(op.before)
            still = self._and(self.all(condition), running)
            passed = [self.shaped(value, result) for value, result in zip(values, op.results, strict=True)]
            self.builder.emit("scf.condition", (self.any(still), *passed, *held, still))
        *arguments, still = after.args
        ended = arguments[len(op.results) :]
        with self._bound(op.after, after), self._only(still):
            new = [self.shaped(v, a) for v, a in zip(self.run(op.after), op.before.args, strict=True)]
            kept = [self.emit("arith.select", (still, *pair), pair[0].type) for pair in zip(new, ended, strict=True)]
            self.builder.emit("scf.yield", (*kept, still))
        start = self.builder.constant(1, flags) if self.active is None else self.active
        inits = [self.shaped(v, a) for v, a in zip(op.inits, op.before.args, strict=True)]
        self._loop(op, [*inits, start], before, after)

    def _for(self, op: For) -> None:
        """A loop that counts the same for all lanes."""
        body = Block([op.induction_variable.type, *map(self._type, op.carried)])
        with self._bound(op.body, body):
            yielded = [self.shaped(v, a) for v, a in zip(self.run(op.body), op.carried, strict=True)]
            self.builder.emit("scf.yield", yielded)
        inits = [self.shaped(v, a) for v, a in zip(op.inits, op.carried, strict=True)]
        bounds, types = map(self.one, (op.low, op.high, op.step)), [value.type for value in inits]
        results = self.builder.emit("scf.for", (*bounds, *inits), types, dict(op.attributes), [Region([body])])
        for result, found in zip(op.results, results, strict=True):
            self.bind(result, found)

    @contextmanager
    def _bound(self, block: Block, new: Block) -> Iterator[None]:
        """Record into `new`, whose first arguments are those of `block`."""
        for argument, found in zip(block.args, new.args, strict=False):
            self.bind(argument, found)
        with self.builder.recording(new):
            yield

    def _loop(self, op: While, inits: Sequence[Value], before: Block, after: Block) -> None:
        types = [argument.type for argument in after.args]
        results = self.builder.emit("scf.while", inits, types, None, [Region([before]), Region([after])])
        for result, found in zip(op.results, results, strict=False):
            self.bind(result, found)

    HANDLERS: Mapping[str, Callable[[Any, Any], None]] = {
        "arith.constant": _constant,
        "scf.for": _for,
        "scf.if": _if,
        "scf.while": _while,
        "tt.assert": _assert,
        "ub.poison": _poison,
    }


def uniform_values(block: Block, uniform: Iterable[Value]) -> set[Value]:
    """The uniform values of a function whose arguments `uniform` are."""
    found = set(uniform)
    _visit(block, found)
    return found


def _visit(block: Block, found: set[Value]) -> None:
    for op in block:
        if isinstance(op, If):
            _visit_if(op, found)
        elif isinstance(op, While):
            _visit_while(op, found)
        elif isinstance(op, For):
            found.update([op.induction_variable] if found.issuperset((op.low, op.high, op.step)) else ())
            _visit(op.body, found)
        elif all(operand in found for operand in op.operands):
            found.update(op.results)


def _visit_if(op: If, found: set[Value]) -> None:
    for region in op.arms:
        _visit(region.block, found)
    if op.condition in found and op.results:
        sides = zip(*(region.block.terminator.operands for region in op.regions), strict=True)
        found.update(result for result, pair in zip(op.results, sides, strict=True) if found.issuperset(pair))


def _visit_while(op: While, found: set[Value]) -> None:
    before, after = op.before, op.after
    candidates = [value in found for value in op.inits]
    while True:
        inside = set(found)
        inside.update(argument for argument, holds in zip(before.args, candidates, strict=True) if holds)
        _visit(before, inside)
        condition, passed = op.condition.condition, op.condition.values
        inside.update(argument for argument, value in zip(after.args, passed, strict=True) if value in inside)
        _visit(after, inside)
        agree = condition in inside
        still = [holds and agree and value in inside for holds, value in zip(candidates, op.yielded, strict=True)]
        if still == candidates:
            break
        candidates = still
    found |= inside
    if agree:
        found.update(result for result, value in zip(op.results, passed, strict=True) if value in inside)
