"""Expansion of a value into several others, through all control flow.

    %p:2 = scf.for … iter_args(%a = %x, %q = %d) {          %p:6 = scf.for … iter_args(%a = %x, %b = %base, …) {
      %e = f(%q)                                      ->      %e = f'(%b, …)
      scf.yield %a, %q                                        scf.yield %a, %b, …

`Expansion` handles loops, conditions, calls, functions and `arith.select`; a subclass says which types are expanded
into which, and has a rewrite for every op that makes or reads such a value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, ClassVar

from tilewright.dialects.arith import Select
from tilewright.dialects.builtin import Poison
from tilewright.dialects.cf import Branch, CondBranch
from tilewright.dialects.scf import Condition, Yield
from tilewright.dialects.traits import ControlFlow
from tilewright.dialects.tt_function import Call, Func, Return
from tilewright.ir.attributes import Attribute, NameLocation, Number
from tilewright.ir.core import Block, Op, Value
from tilewright.ir.types import FunctionType, TensorType, Type, i32, i64
from tilewright.transforms.functions import functions_of
from tilewright.transforms.matching import number_of
from tilewright.transforms.op_builder import OpBuilder

PASSED_ON = (ControlFlow, Yield, Condition, Call, Return, Branch, CondBranch)
"""Ops that only hand values on: they take and give the parts instead."""


class Emitter(OpBuilder):
    """Creates ops on numbers, and on tiles without layouts."""

    def widened(self, value: Value) -> Value:
        """An integer as i64; constants become constants."""
        number = number_of(value)
        if number is not None:
            return self.constant(number.value, i64)
        return value if value.type is i64 else self.emit("arith.extsi", (value,), i64)

    def splat(self, value: Value, shape: tuple[int, ...]) -> Value:
        return self.emit("tt.splat", (value,), TensorType(shape, value.type))

    def range(self, extent: int) -> Value:
        """0, 1, 2, … as i64."""
        bounds: dict[str, Attribute] = {"start": Number(0, i32), "end": Number(extent, i32)}
        narrow = self.emit("tt.make_range", (), TensorType((extent,), i32), bounds)
        return self.emit("arith.extsi", (narrow,), TensorType((extent,), i64))

    def broadcast(self, tile: Value, shape: tuple[int, ...]) -> Value:
        type = TensorType(shape, tile.type.scalar)
        return tile if tile.type is type else self.emit("tt.broadcast", (tile,), type)

    def along(self, axis: int, rank: int, column: Value, *, reshape: bool = False) -> Value:
        """A tile of one axis as one that extends along `axis` of `rank`; by one `tt.reshape` if that is wanted."""
        if reshape and rank > 1:
            extents = [1] * rank
            extents[axis] = (column.type.shape or (1,))[0]
            return self.emit("tt.reshape", (column,), TensorType(tuple(extents), column.type.scalar))
        for i in range(rank):
            if i != axis:
                shape = column.type.shape or ()
                type = TensorType((*shape[:i], 1, *shape[i:]), column.type.scalar)
                column = self.emit("tt.expand_dims", (column,), type, {"axis": Number(i, i32)})
        return column


class Expansion:
    """The expansion of values of some types, in one function at a time.

    Attributes:
        parts: per expanded value the values it consists of.
        replaced: ops to erase at the end, in order.
    """

    rewrites: ClassVar[Mapping[str, Callable[[Any, Any], None]]] = {}
    """The rewriting of an op with such operands or results, per op name."""

    def __init__(self) -> None:
        self.parts: dict[Value, list[Value]] = {}
        self.replaced: list[Op] = []

    def part_types(self, type: Type) -> list[Type] | None:
        """The types of the parts that stand for a value of `type`; None if it stays."""
        raise NotImplementedError

    def part_names(self, value: Value) -> Sequence[str]:
        """The suffixes of the parts' names, behind the name of the value."""
        return ("",) * len(self.part_types(value.type) or ())

    def expand(self, module: Op) -> bool:
        """Expand in all functions of `module`; returns whether there was anything to expand."""
        found = False
        for function in functions_of(module):
            found |= self.expand_function(function)
        return found

    def expand_function(self, function: Func) -> bool:
        """Expand the values of one function; returns whether there were any."""
        self.parts, self.replaced = {}, []
        for block in function.region.blocks:
            self.expand_block(block)
        for op in reversed(self.replaced):
            op.erase()
        changed = bool(self.parts)
        return self._expand_signature(function) or changed

    def expand_block(self, block: Block) -> None:
        """Expand the values of one block, and of those inside it."""
        block.args = self._expanded_values(block.args, block)
        for op in block:
            rewrite = self.rewrites.get(op.name)
            if isinstance(op, PASSED_ON):
                self.hand_on_parts(op)
            elif rewrite is not None and any(self._is_expanded(v.type) for v in chain(op.operands, op.results)):
                rewrite(self, op)
            elif isinstance(op, Select) and self._is_expanded(op.result.type):
                self._select(op)
            elif isinstance(op, Poison) and self._is_expanded(op.result.type):
                self._poison(op)

    def hand_on_parts(self, op: Op) -> None:
        """Let a loop, a condition, a call or a terminator take and give parts."""
        if any(self._is_expanded(value.type) for value in op.operands):
            op.set_operands(list(chain.from_iterable(self.parts.get(value, [value]) for value in op.operands)))
        op.results = self._expanded_values(op.results, op)
        for region in op.regions:
            for block in region.blocks:
                self.expand_block(block)

    def _is_expanded(self, type: Type) -> bool:
        return self.part_types(type) is not None

    def _expanded_values(self, values: list[Value], owner: Op | Block) -> list[Value]:
        """Arguments or results with the parts of expanded values in their place."""
        if not any(self._is_expanded(value.type) for value in values):
            return values
        expanded: list[Value] = []
        for value in values:
            types = self.part_types(value.type)
            if types is None:
                expanded.append(value)
                continue
            names = self.part_names(value)
            parts = [_part(value, owner, type, name) for type, name in zip(types, names, strict=True)]
            self.parts[value] = parts
            expanded += parts
        for i, value in enumerate(expanded):
            value.index = i
        return expanded

    def _select(self, op: Select) -> None:
        at = Emitter(op)
        condition, a, b = op.operands
        self.parts[op.result] = [
            x if x is y else at.emit("arith.select", (condition, x, y), x.type)
            for x, y in zip(self.parts[a], self.parts[b], strict=True)
        ]
        self.replaced.append(op)

    def _poison(self, op: Poison) -> None:
        at = Emitter(op)
        self.parts[op.result] = [at.emit("ub.poison", (), type) for type in self.part_types(op.result.type) or ()]
        self.replaced.append(op)

    def _expand_signature(self, function: Func) -> bool:
        """Let a function that takes or returns expanded values say that it takes and returns their parts."""
        type = function.type
        if not any(map(self._is_expanded, (*type.inputs, *type.outputs))):
            return False
        if "arg_attrs" in function.attributes:
            expanded: list[dict[str, Attribute]] = []
            for argument, attributes in zip(type.inputs, function.argument_attributes, strict=True):
                types = self.part_types(argument)
                expanded += [attributes] if types is None else [{} for _ in types]
            function.argument_attributes = expanded
        inputs, outputs = (
            tuple(chain.from_iterable(self.part_types(part) or [part] for part in types))
            for types in (type.inputs, type.outputs)
        )
        function.type = FunctionType(inputs, outputs)
        return True


def _part(value: Value, owner: Op | Block, type: Type, name: str) -> Value:
    part = Value(type, owner, 0, f"{value.name}.{name}" if value.name and name else value.name)
    location = value.location
    if isinstance(location, NameLocation) and name:
        location = NameLocation(f"{location.name}.{name}", location.child)
    part.location = location
    return part


class BlockOfMemory:
    """A block of a larger tensor in memory, as a tile of pointers with a mask, in Triton's form.

    Shape and strides are those of the tensor, as i64, and `block` is the shape of the block. With `reshape`, tiles of
    one axis get the others by one `tt.reshape`, instead of by `tt.expand_dims` one by one.
    """

    def __init__(
        self,
        at: Emitter,
        base: Value,
        shape: Sequence[Value],
        strides: Sequence[Value],
        block: tuple[int, ...],
        *,
        reshape: bool = False,
    ) -> None:
        self.at, self.base, self.shape, self.strides, self.block = at, base, shape, strides, block
        self._reshape = reshape

    def along(self, axis: int, column: Value) -> Value:
        """A tile of one axis as one that extends along `axis` of the block."""
        return self.at.along(axis, len(self.block), column, reshape=self._reshape)

    def positions(self, offset: Value, axis: int) -> Value:
        """offset, offset + 1, … along `axis`."""
        at, extent = self.at, self.block[axis]
        start = at.splat(offset, (extent,))
        return self.along(axis, at.compute("arith.addi", start, at.range(extent)))

    def pointers(self, positions: Iterable[Value]) -> Value:
        """base + the sum of positions * stride; per axis the positions are a tile that extends along it."""
        at = self.at
        pointers = at.splat(self.base, self.block)
        for position, stride in zip(positions, self.strides, strict=True):
            step = at.splat(stride, position.type.shape or ())
            offset = at.broadcast(at.compute("arith.muli", position, step), self.block)
            pointers = at.emit("tt.addptr", (pointers, offset), pointers.type)
        return pointers

    def mask(self, positions: Sequence[Value], axes: Sequence[int]) -> Value | None:
        """0 <= position < shape on each of `axes`; None if there is none."""
        at = self.at
        mask: Value | None = None
        for axis in axes:
            position = positions[axis]
            extents = position.type.shape or ()
            zero = at.splat(at.constant(0, i64), extents)
            low = self.at.compare("sge", position, zero)
            high = self.at.compare("slt", position, at.splat(self.shape[axis], extents))
            inside = at.broadcast(at.compute("arith.andi", low, high), self.block)
            mask = inside if mask is None else at.compute("arith.andi", mask, inside)
        return mask
