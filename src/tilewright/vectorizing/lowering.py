"""The passes from a scalar function to a loop over arrays that computes many elements at once.

    for element in begin … end:         for vector in begin … end, `lanes` elements in each
        out = f(x, y)                       out = f(x, y), as `transforms/lane_writer.py` writes it

Uniform values, the same in all lanes, stay scalar and are hoisted out of the loop where possible.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from tilewright.backends.llvm.cpu_costs import CACHE_LINE
from tilewright.dialects.arith import Division, NumberExtreme
from tilewright.dialects.math import Approximate, Fma
from tilewright.dialects.scf import While
from tilewright.dialects.tt_elementwise import ExternElementwise
from tilewright.dialects.vector import wide_type
from tilewright.ir.attributes import UNIT, Attribute, Keyword, Number
from tilewright.ir.builder import Builder
from tilewright.ir.core import Block, Op, Region, Value
from tilewright.ir.types import PointerType, Type, i1, i8, i64
from tilewright.transforms.cse import cse
from tilewright.transforms.lane_writer import LaneWriter, uniform_values
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
        lanes: the number of elements that an iteration of the loop computes.
    """
    function = function_of(module)
    (result,) = (value.type for value in function.terminator.operands)
    inputs = [argument.type for argument in function.args]
    names = [f"x{number}" for number in range(len(inputs))] + ["mask", "before"] * layout.select + ["out"]
    loop = _Loop(names, [*inputs, *([i1, result] if layout.select else []), result], lanes)
    read = [loop.read(number) if letter == UNIFORM else None for number, letter in enumerate(layout.pattern[:-1])]
    uniform = [argument for argument, value in zip(function.args, read, strict=False) if value is not None]
    with loop.iterations():
        values = [loop.read(n, letter) for n, letter in enumerate(layout.pattern[:-1]) if read[n] is None]
        met = iter(values)
        every = [next(met) if value is None else value for value in read]
        writer = _VectorWriter(loop.builder, lanes, uniform_values(function, uniform))
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
    with loop.iterations(loop.read(0)) as so_far:
        writer = _VectorWriter(loop.builder, 1, set())
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
    def iterations(self, *carried: Value) -> Iterator[Any]:
        """The body of the loop; yields what is carried, if anything is. `next` is what the next iteration gets."""
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
        """The elements of an operand: that of this iteration, or the one that all share."""
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


class _VectorWriter(LaneWriter):
    """Writes for the lanes of a vector; with one lane, for numbers."""

    def __init__(self, builder: Builder, lanes: int, uniform: set[Value]) -> None:
        super().__init__(builder, uniform)
        self.lanes = lanes

    def is_uniform(self, value: Value) -> bool:
        return self.lanes == 1 or super().is_uniform(value)

    def wide_type(self, type: Type) -> Type:
        return wide_type(type, self.lanes)

    def spread(self, number: Value) -> Value:
        return self.emit("vector.broadcast", (number,), self.wide_type(number.type))

    def any(self, flags: Value) -> Value:
        return self.emit("vector.reduction", (flags,), i1, {"kind": Keyword("or")})

    def is_long(self, block: Block) -> bool:
        count = sum(1 for region_op in block for _ in region_op.walk())
        return count >= LONG_SIDE or any(map(is_costly, block))

    def holds(self, condition: Value) -> Value:
        return self.one(condition) if self.lanes == 1 else super().holds(condition)


def is_costly(op: Op) -> bool:
    """Whether anything in the op takes more than a few instructions."""
    return any(isinstance(one, _COSTLY) for one in op.walk())


def is_quick(block: Block) -> bool:
    """Whether the function is so short that its stores may go past the caches. After more work they would wait."""
    return not any(is_costly(op) and op.name != "arith.divf" for op in block)


def is_bound_by_memory(block: Block) -> bool:
    """Whether the function is done before its operands come from memory. Some extremes have one register width."""
    return not any(is_costly(op) or isinstance(op, NumberExtreme) or op.name == "math.sqrt" for op in block)
