"""The passes from a function on scalars to a loop over arrays, whose body computes the elements of many lanes at once.

    %2 = scf.if %c { … } else { … }     both sides, then select by %c; a long side only if some lane needs it
    scf.while                           a loop while some lane's condition holds; lanes that are done keep their values
    tt.assert %c, "…"                   of the lanes that count

Uniform values, the same in all lanes, stay scalar and move in front of the loop where they can: they are computed from
scalars of the call, constants, and counters of common loops. A branch or a loop on which all lanes agree stays one.

    %0 = arith.addi %n, %c1             uniform where %n is
    %1 = arith.addf %x, %y              not where %x varies
    scf.while                           what it carries is uniform while its condition and the next values are
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from tilewright.backends.llvm.cpu_costs import CACHE_LINE
from tilewright.dialects.arith import Constant, Division, NumberExtreme
from tilewright.dialects.math import Approximate, Fma
from tilewright.dialects.scf import If, While
from tilewright.dialects.tt_elementwise import ExternElementwise
from tilewright.dialects.tt_program import Assert
from tilewright.dialects.vector import wide_type
from tilewright.ir.attributes import UNIT, Attribute, Keyword, Number
from tilewright.ir.builder import Builder
from tilewright.ir.core import Block, Op, Region, Value, defining
from tilewright.ir.types import PointerType, Type, VectorType, i1, i8, i64
from tilewright.transforms.cse import cse
from tilewright.transforms.licm import licm
from tilewright.vectorizing.build import FOLD, SPAN
from tilewright.vectorizing.program import function_of, module_of

UNIFORM, SPACED, SIDE_BY_SIDE, STREAMED = "u", "s", "v", "w"
LONG_SIDE = 12
"""Min number of ops in a side of a branch that is jumped over where no lane needs it."""
_COSTLY = (Approximate, Division, ExternElementwise, Fma, While)
_BYTES = PointerType(i8)


class Traversal(NamedTuple):
    """The way that a span walks its operands.

    Attributes:
        pattern: a letter per operand, the result last: `v` element by element, side by side; `s` at a distance; `u`
            the same for all; `w` side by side, written past the caches to addresses that are multiples of 64.
        select: the last two inputs are a mask and what the result had before; see `where=`.
    """

    pattern: str
    select: bool = False


def lower_to_span(module: Op, layout: Traversal, lanes: int) -> Op:
    """The module of `@span(operands …, begin, end)`, which computes whole vectors, from element `begin` to `end`.

    Args:
        module: one function on scalars.
        layout: how operands are met. Each becomes a pointer and a distance in bytes.
        lanes: the number of elements that a turn of the loop computes.
    """
    function = function_of(module)
    (result,) = (value.type for value in function.terminator.operands)
    inputs = [argument.type for argument in function.args]
    names = [f"x{number}" for number in range(len(inputs))] + ["mask", "before"] * layout.select + ["out"]
    loop = _Loop(names, [*inputs, *([i1, result] if layout.select else []), result], lanes)
    read = [loop.read(number) if letter == UNIFORM else None for number, letter in enumerate(layout.pattern[:-1])]
    uniform = [argument for argument, value in zip(function.args, read, strict=False) if value is not None]
    with loop.turns():
        values = [loop.read(n, letter) for n, letter in enumerate(layout.pattern[:-1]) if read[n] is None]
        met = iter(values)
        every = [next(met) if value is None else value for value in read]
        writer = _LaneWriter(loop.builder, lanes, uniform_values(function, uniform))
        for argument, value in zip(function.args, every, strict=False):
            writer.bind(argument, value)
        mask, before = every[len(inputs) :] if layout.select else (None, None)
        writer.active = None if mask is None else writer.wide(mask)
        (value,) = writer.run(function)
        computed = writer.all(value)
        if before is not None:
            computed = writer.emit("arith.select", (writer.active, computed, writer.wide(before)), computed.type)
        loop.write(len(names) - 1, computed, layout.pattern[-1])
    return loop.module(SPAN)


def lower_to_fold(module: Op) -> Op:
    """The module of `@fold(total, items, begin, end)`: total = f(… f(f(total, item 0), item 1) …).

    Args:
        module: one function f on two scalars, whose result is of the type of the first.
    """
    function = function_of(module)
    loop = _Loop(("total", "items"), [argument.type for argument in function.args], 1)
    with loop.turns(loop.read(0)) as so_far:
        writer = _LaneWriter(loop.builder, 1, set())
        for argument, value in zip(function.args, (so_far, loop.read(1, SPACED)), strict=True):
            writer.bind(argument, value)
        (value,) = writer.run(function)
        loop.next = [writer.all(value)]
    loop.write(0, loop.results[0], UNIFORM)
    return loop.module(FOLD)


class _Loop:
    """A function with a loop over arrays under construction."""

    def __init__(self, names: Sequence[str], operands: Sequence[Type], lanes: int) -> None:
        self.operands, self.lanes = operands, lanes
        self.block = Block([type for _ in operands for type in (_BYTES, i64)] + [i64, i64])
        parameters = [text for name in names for text in (name, f"{name}_stride")] + ["begin", "end"]
        for argument, name in zip(self.block.args, parameters, strict=True):
            argument.name = name
        self.places = list(zip(self.block.args[:-2:2], self.block.args[1:-2:2], strict=True))
        self.builder = Builder(self.block)
        self.next: list[Value] = []
        self.results: list[Value] = []
        self._index: Value | None = None

    @contextmanager
    def turns(self, *carried: Value) -> Iterator[Any]:
        """The body of the loop; yields what is carried, if anything is. `next` is what the next turn gets."""
        body = Block([i64, *(value.type for value in carried)])
        self._index, *inside = body.args
        self._index.name = "i"
        with self.builder.recording(body):
            yield inside[0] if inside else None
            self.builder.emit("scf.yield", self.next)
        *_, begin, end = self.block.args
        bounds = (begin, end, self.builder.constant(self.lanes, i64), *carried)
        self.results = self.builder.emit("scf.for", bounds, [v.type for v in carried], None, [Region([body])])

    def read(self, number: int, letter: str = UNIFORM) -> Value:
        """The elements of an operand: that of this turn, or the one that all share."""
        type = self.operands[number]
        lanes = 1 if letter == UNIFORM else self.lanes
        (found,) = self.builder.emit("vector.load", self._place(number, letter), [wide_type(_stored(type), lanes)])
        if type is not i1:
            return found
        return self._emit("arith.cmpi", (found, self.builder.constant(0, found.type)), wide_type(i1, lanes), _NE)

    def write(self, number: int, value: Value, letter: str) -> None:
        """Store elements of an operand."""
        if self.operands[number] is i1:
            value = self._emit("arith.extui", (value,), wide_type(i8, self.lanes))
        base, offset, *stride = self._place(number, letter)
        attributes: dict[str, Attribute] = {}
        if letter == STREAMED:
            attributes = {"nontemporal": UNIT, "alignment": Number(CACHE_LINE, i64)}
        self.builder.emit("vector.store", (base, offset, value, *stride), (), attributes)

    def _place(self, number: int, letter: str) -> list[Value]:
        base, stride = self.places[number]
        if letter == UNIFORM:
            return [base, self.builder.constant(0, i64)]
        assert self._index is not None, "elements are met in the loop"
        size = self.builder.constant(_stored(self.operands[number]).bits // 8, i64)
        offset = self._emit("arith.muli", (self._index, stride if letter == SPACED else size), i64)
        return [base, offset, *([stride] if letter == SPACED and self.lanes > 1 else [])]

    def _emit(self, name: str, operands: Sequence[Value], type: Type, attributes: Any = None) -> Value:
        return self.builder.emit(name, operands, [type], attributes)[0]

    def module(self, name: str) -> Op:
        """The module, once the loop is there."""
        module = module_of(name, self.block, ())
        cse(module)
        licm(module)
        return module


_NE = {"predicate": Keyword("ne")}


def _stored(type: Type) -> Type:
    """The type of an element in memory: truth values take a byte."""
    return i8 if type is i1 else type


class _LaneWriter:
    """Writes the ops of a function on scalars for many lanes.

    Args:
        builder: where the ops go.
        lanes: how many elements at once; 1 for scalars.
        uniform: values that all lanes share.
    """

    def __init__(self, builder: Builder, lanes: int, uniform: set[Value]) -> None:
        self.builder, self.lanes = builder, lanes
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
            self.HANDLERS.get(op.name, _LaneWriter._elementwise)(self, op)
        raise AssertionError("a block ends with its terminator")

    def emit(self, name: str, operands: Sequence[Any], type: Type, attributes: Any = None) -> Value:
        """The result of a new op."""
        return self.builder.emit(name, operands, [type], dict(attributes or {}))[0]

    def is_uniform(self, value: Value) -> bool:
        """Whether all lanes share the value."""
        return self.lanes == 1 or value in self._uniform

    def one(self, value: Value) -> Value:
        """The value that all lanes share."""
        literal = defining(value, Constant)
        return self._found[value] if literal is None else self.builder.constant(literal.number.value, value.type)

    def all(self, value: Value) -> Value:
        """The value in every lane."""
        literal = defining(value, Constant)
        if literal is not None:
            return self.builder.constant(literal.number.value, wide_type(value.type, self.lanes))
        return self.wide(self._found[value])

    def wide(self, found: Value) -> Value:
        """A value that is found, in every lane."""
        if self.lanes == 1 or isinstance(found.type, VectorType):
            return found
        return self.emit("vector.broadcast", (found,), wide_type(found.type, self.lanes))

    def shaped(self, value: Value, like: Value) -> Value:
        """The value, as one number where all lanes share `like`."""
        return self.one(value) if self.is_uniform(like) else self.all(value)

    def _type(self, value: Value) -> Type:
        return value.type if self.is_uniform(value) else wide_type(value.type, self.lanes)

    def _constant(self, op: Constant) -> None:
        """Nothing: constants are made where they are used."""

    def _elementwise(self, op: Op) -> None:
        (result,) = op.results
        operands = [self.shaped(operand, result) for operand in op.operands]
        self.bind(result, self.emit(op.name, operands, self._type(result), op.attributes))

    # --- masks ---

    def _any(self, flags: Value) -> Value:
        return self.emit("vector.reduction", (flags,), i1, {"kind": Keyword("or")})

    def _not(self, flags: Value) -> Value:
        return self.emit("arith.xori", (flags, self.builder.constant(1, flags.type)), flags.type)

    def _and(self, flags: Value, others: Value | None) -> Value:
        return flags if others is None else self.emit("arith.andi", (flags, others), flags.type)

    @contextmanager
    def _only(self, active: Value | None) -> Iterator[None]:
        outer, self.active = self.active, active
        yield
        self.active = outer

    def _assert(self, op: Assert) -> None:
        if self.is_uniform(op.condition) and (self.lanes == 1 or self.active is None):
            holds = self.one(op.condition)
        else:
            holds = self._not(self._any(self._and(self._not(self.all(op.condition)), self.active)))
        self.builder.emit("tt.assert", (holds,), (), dict(op.attributes))

    # --- branches ---

    def _if(self, op: If) -> None:
        if self.is_uniform(op.condition):
            self._jump(op)
            return
        condition = self.all(op.condition)
        sides = []
        for region, chosen in zip(op.regions, (condition, self._not(condition)), strict=True):
            needed = self._and(chosen, self.active)
            with self._only(needed):
                sides.append(self._side(region, needed))
        for result, yes, no in zip(op.results, *sides, strict=False):
            self.bind(result, self.emit("arith.select", (condition, yes, no), yes.type))

    def _side(self, region: Region, needed: Value) -> list[Value]:
        """The values of a side, computed only if some lane needs it where that takes long."""
        if not region.blocks:
            return []
        if not _is_long(region.block):
            return [self.all(value) for value in self.run(region.block)]
        some = self._any(needed)
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
        flags, carried = wide_type(i1, self.lanes), [*map(self._type, op.before.args)]
        before, after = Block([*carried, flags]), Block([*map(self._type, op.results), *carried, flags])
        *held, running = before.args
        with self._bound(op.before, before), self._only(running):
            condition, *values = self.run(op.before)
            still = self._and(self.all(condition), running)
            passed = [self.shaped(value, result) for value, result in zip(values, op.results, strict=True)]
            self.builder.emit("scf.condition", (self._any(still), *passed, *held, still))
        *arguments, still = after.args
        ended = arguments[len(op.results) :]
        with self._bound(op.after, after), self._only(still):
            new = [self.shaped(v, a) for v, a in zip(self.run(op.after), op.before.args, strict=True)]
            kept = [self.emit("arith.select", (still, *pair), pair[0].type) for pair in zip(new, ended, strict=True)]
            self.builder.emit("scf.yield", (*kept, still))
        start = self.builder.constant(1, flags) if self.active is None else self.active
        inits = [self.shaped(v, a) for v, a in zip(op.inits, op.before.args, strict=True)]
        self._loop(op, [*inits, start], before, after)

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
        "scf.if": _if,
        "scf.while": _while,
        "tt.assert": _assert,
    }


def _is_long(block: Block) -> bool:
    """Whether computing a side takes longer than a jump."""
    count = sum(1 for region_op in block for _ in region_op.walk())
    return count >= LONG_SIDE or any(map(is_costly, block))


def is_costly(op: Op) -> bool:
    """Whether anything in the op takes more than a few instructions."""
    return any(isinstance(one, _COSTLY) for one in op.walk())


def is_quick(block: Block) -> bool:
    """Whether the function is so short that its stores may go past the caches. Behind more work they would wait."""
    return not any(is_costly(op) and op.name != "arith.divf" for op in block)


def is_bound_by_memory(block: Block) -> bool:
    """Whether the function is done before its operands come from memory. Some extremes have one register width."""
    return not any(is_costly(op) or isinstance(op, NumberExtreme) or op.name == "math.sqrt" for op in block)


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
