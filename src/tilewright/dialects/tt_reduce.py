"""Reductions and scans with a region that combines two elements: `tt.reduce`, `tt.scan`, `tt.map_elementwise`."""

from __future__ import annotations

from tilewright.dialects.formats import VALUES
from tilewright.dialects.rules import axis_of, ends_with, number, tensor, types_match
from tilewright.ir.core import Op
from tilewright.ir.declare import Effect, declare, declares
from tilewright.ir.effects import writes_memory
from tilewright.ir.errors import require
from tilewright.ir.fields import Body, Flag, Integer, Operands, RegionOf
from tilewright.ir.types import TensorType, Type, with_shape


def _verify_combine(op: Op, terminator: str) -> int:
    """The operands have one shape, and the region combines two of each element; returns the axis."""
    first = tensor(op, op.operands[0])
    for value in op.operands[1:]:
        require(value.type.shape == first.shape, op, "the operands must have one shape")
    require(bool(op.regions[0].blocks), op, "needs a region that combines two elements")
    elements = [value.type.scalar for value in op.operands]
    block = op.regions[0].block
    types_match(op, block.args, [*elements, *elements], "arguments of its region")
    types_match(op, ends_with(op, block, terminator).operands, elements, "values of its region")
    return axis_of(op, len(first.shape))


def _verify_reduce(op: Op) -> None:
    axis = _verify_combine(op, "tt.reduce.return")
    types_match(op, op.results, [reduced_type(value.type, axis) for value in op.operands], "results")


def reduced_type(type: Type, axis: int) -> Type:
    """The type of `type` without one axis; its layout is the slice of the operand's."""
    shape = type.shape or ()
    left = (*shape[:axis], *shape[axis + 1 :])
    if not left or not isinstance(type, TensorType) or type.encoding is None:
        return with_shape(type, left)
    return TensorType(left, type.element, f"#ttg.slice<{{dim = {axis}, parent = {type.encoding}}}>")


def _verify_scan(op: Op) -> None:
    _verify_combine(op, "tt.scan.return")
    types_match(op, op.results, [value.type for value in op.operands], "results")


def _verify_map(op: Op) -> None:
    """The region maps `pack` neighbours of every operand to as many of every result, all of one shape."""
    shapes = {value.type.shape for value in (*op.operands, *op.results)}
    require(len(shapes) == 1 and None not in shapes, op, "operands and results must be tiles of one shape")
    pack = number(op, "pack")
    require(pack > 0 and pack & (pack - 1) == 0, op, "pack must be a power of two")
    given = [value.type.scalar for value in op.operands for _ in range(pack)]
    types_match(op, op.regions[0].block.args, given, "arguments of its region")
    wanted = [value.type.scalar for value in op.results for _ in range(pack)]
    for inner in op.regions[0].walk():
        if inner.name == "tt.map_elementwise.return":
            types_match(inner, inner.operands, wanted, "values of the region")
        is_harmless = inner.definition.terminator or inner.regions or inner.name == "tt.assert"
        require(bool(is_harmless) or not writes_memory(inner), inner, "cannot stand in tt.map_elementwise")


class Fold(Op):
    """An op that combines the elements of `sources` along `axis` by the function in its region."""

    __slots__ = ()
    sources = Operands()
    axis = Integer("axis")
    combine = Body()


@declares("tt.reduce", regions=1, verify=_verify_reduce)
class Reduce(Fold):
    """Gives what all elements combine to."""

    __slots__ = ()


@declares("tt.scan", regions=1, required=("reverse",), verify=_verify_scan)
class Scan(Fold):
    """Gives what the elements up to each one combine to; from the end if `reverse`."""

    __slots__ = ()
    reverse = Flag("reverse")


@declares("tt.map_elementwise", regions=1, effect=Effect.RECURSIVE, verify=_verify_map)
class MapElementwise(Op):
    """Applies the function in its region to elements, `pack` of them at a time."""

    __slots__ = ()
    sources = Operands()
    pack = Integer("pack")
    function = RegionOf()


for _name in ("tt.reduce.return", "tt.scan.return", "tt.map_elementwise.return"):
    declare(_name, results=0, terminator=True, **VALUES)
