"""Ops that rearrange tiles: `tt.splat`, `tt.broadcast`, `tt.expand_dims`, `tt.reshape`, `tt.trans`, `tt.join`, …"""

from __future__ import annotations

from functools import cache

from tilewright.dialects.assembly import assembly, mask_like, type_of
from tilewright.dialects.formats import ARROW
from tilewright.dialects.layout_rules import layout_of, require_layout, require_one_layout
from tilewright.dialects.rules import axis_of, order_of, tensor, types_match
from tilewright.dialects.traits import Indexing
from tilewright.ir.attributes import UNIT, Attribute
from tilewright.ir.core import Op
from tilewright.ir.declare import OpDefinition, declare, declares
from tilewright.ir.errors import VerificationError, require
from tilewright.ir.fields import Flag, Integer, Integers, Operand, OptionalOperand, Result
from tilewright.ir.parser import Parser
from tilewright.ir.printer import Printer
from tilewright.ir.types import IntType, TensorType
from tilewright.layouts.conversion import to_linear_layout
from tilewright.layouts.encodings import Distributed, Encoding, LayoutError
from tilewright.layouts.inference import expanded, reshaped, split, transposed
from tilewright.layouts.queries import is_legal_cat

# Rules


def _expanded(layout: Encoding, shape: tuple[int, ...], axis: int) -> Encoding:
    if not isinstance(layout, Distributed):
        raise LayoutError(f"{layout.text} is no layout of tensors")
    return expanded(layout, axis)


def _one_element_type(op: Op) -> None:
    """Check that operands and results have one element type."""
    element = op.operands[0].type.scalar
    for value in (*op.operands[1:], *op.results):
        if value.type.scalar is not element:
            raise VerificationError(op, f"element types differ: {element} and {value.type.scalar}")


def _verify_splat(op: Op) -> None:
    _one_element_type(op)
    if op.operands[0].type.shape:
        raise VerificationError(op, f"needs a scalar, not {op.operands[0].type}")
    tensor(op, op.results[0])


def _verify_unsplat(op: Op) -> None:
    _one_element_type(op)
    require(tensor(op, op.operands[0]).numel == 1, op, "needs a tensor with one element")
    require(op.results[0].type.shape is None, op, "the result must be a scalar")


def _verify_broadcast(op: Op) -> None:
    _one_element_type(op)
    old, new = tensor(op, op.operands[0]), tensor(op, op.results[0])
    same_rank = len(old.shape) == len(new.shape)
    if not same_rank or any(a not in (1, b) for a, b in zip(old.shape, new.shape, strict=True)):
        raise VerificationError(op, f"cannot broadcast {old} to {new}")
    if not _broadcast_alike(old, new):
        require_one_layout(op, old, new)


@cache
def _broadcast_alike(old: TensorType, new: TensorType) -> bool:
    """Whether both layouts put the operand in the same places, copies aside, whatever they are called."""
    before, after = layout_of(old), layout_of(new)
    if before is None or after is None or before.rank != after.rank:
        return False
    try:
        first, second = (to_linear_layout(layout, old.shape).without_zeros("register") for layout in (before, after))
    except LayoutError:
        return False
    return first == second


def _verify_expand_dims(op: Op) -> None:
    _one_element_type(op)
    old, new = tensor(op, op.operands[0]), tensor(op, op.results[0])
    axis = axis_of(op, len(old.shape) + 1)
    if new.shape != (*old.shape[:axis], 1, *old.shape[axis:]):
        raise VerificationError(op, f"expanding axis {axis} of {old} does not give {new}")
    require_layout(op, _expanded, old, new, axis)


def _verify_reshape(op: Op) -> None:
    _one_element_type(op)
    old, new = tensor(op, op.operands[0]), tensor(op, op.results[0])
    require(old.numel == new.numel, op, f"{old} and {new} differ in their number of elements")
    if not (op.attributes.get("allow_reorder") or op.attributes.get("efficient_layout")):
        require_layout(op, reshaped, old, new, new.shape)


def _verify_trans(op: Op) -> None:
    _one_element_type(op)
    old, new = tensor(op, op.operands[0]), tensor(op, op.results[0])
    order = order_of(op, len(old.shape))
    if new.shape != tuple(old.shape[axis] for axis in order):
        raise VerificationError(op, f"transposing {old} by {list(order)} does not give {new}")
    require_layout(op, transposed, old, new, order)


def _verify_join(op: Op) -> None:
    old = tensor(op, op.operands[0])
    types_match(op, op.operands, [old, old], "operands")
    _expect_shape(op, (*old.shape, 2))
    require_layout(op, split, op.results[0].type, old)


def _verify_split(op: Op) -> None:
    _one_element_type(op)
    old = tensor(op, op.operands[0])
    require(old.shape[-1:] == (2,), op, f"the last axis of {old} must have 2 elements")
    require(op.results[0].type is op.results[1].type, op, "both results must have one type")
    _expect_shape(op, old.shape[:-1])
    require_layout(op, split, old, op.results[0].type)


def _verify_cat(op: Op) -> None:
    _one_element_type(op)
    a, b, new = (tensor(op, value) for value in (*op.operands, *op.results))
    rest_fits = a.shape[1:] == b.shape[1:] == new.shape[1:]
    require(rest_fits and a.shape[0] + b.shape[0] == new.shape[0], op, f"{a} and {b} do not give {new}")
    _verify_cat_layouts(op, a, new)


def _verify_cat_layouts(op: Op, a: TensorType, new: TensorType) -> None:
    before, after = layout_of(a), layout_of(new)
    if not isinstance(before, Distributed) or not isinstance(after, Distributed):
        require_one_layout(op, a, new)
        return
    try:
        legal = is_legal_cat(before, a.shape, after, new.shape)
    except LayoutError as error:
        raise VerificationError(op, str(error)) from None
    require(legal, op, "a thread of the result must have as many elements as in both operands")


def _expect_shape(op: Op, shape: tuple[int, ...]) -> None:
    found = op.results[0].type.shape or ()
    require(found == shape, op, f"the result must have shape {list(shape)}, not {list(found)}")


def _verify_gather(op: Op) -> None:
    source, indices, result = (tensor(op, value) for value in (*op.operands, *op.results))
    rank = len(source.shape)
    axis = axis_of(op, rank)
    require(isinstance(indices.element, IntType), op, "the indices must be integers")
    require(result.shape == indices.shape and result.element is source.element, op, f"the result cannot be {result}")
    require_one_layout(op, indices, result)
    same_rank = len(indices.shape) == rank
    fits = same_rank and all(indices.shape[i] <= source.shape[i] for i in range(rank) if i != axis)
    require(fits, op, f"indices {indices} do not fit {source}")


def _verify_histogram(op: Op) -> None:
    require(len(tensor(op, op.results[0]).shape) == 1, op, "the result must have one axis")
    require(isinstance(op.operands[0].type.scalar, IntType), op, "needs integers")
    if len(op.operands) > 1:
        require(op.operands[1].type.shape == op.operands[0].type.shape, op, "the mask must have the operand's shape")


# tt.reshape %a [allow_reorder] [efficient_layout] {…} : T -> U

_RESHAPE_WORDS = ("allow_reorder", "efficient_layout")


def _parse_reshape(parser: Parser, definition: OpDefinition) -> Op:
    reference = parser.operand()
    attributes: dict[str, Attribute] = {}
    while word := parser.keyword(*_RESHAPE_WORDS):
        attributes[word] = True
    attributes.update({name: True if a is UNIT else a for name, a in parser.attributes().items()})
    source = parser.colon_type()
    parser.expect("->")
    return Op(definition, [parser.resolve(reference, source)], (parser.type(),), attributes)


def _print_reshape(printer: Printer, op: Op) -> None:
    words = "".join(f" {word}" for word in _RESHAPE_WORDS if op.attributes.get(word))
    types = f"{printer.type(op.operands[0].type)} -> {printer.type(op.results[0].type)}"
    attributes = printer.attributes(op.attributes, _RESHAPE_WORDS)
    printer.write(f" {printer.value(op.operands[0])}{words}{attributes} : {types}")


class ShapeOp(Op):
    """An op that only moves, repeats or picks elements of `source`."""

    __slots__ = ()
    source = Operand(0)


@declares("tt.splat", results=1, verify=_verify_splat, **ARROW)
class Splat(ShapeOp, Indexing):
    """A tile that repeats the number `source`."""

    __slots__ = ()


@declares(
    "tt.unsplat",
    verify=_verify_unsplat,
    **assembly(" %src{} : !src", "src", "result", types={"result": lambda reading: reading.type("src").scalar}),
)
class Unsplat(ShapeOp):
    """The only element of `source`."""

    __slots__ = ()


@declares("tt.broadcast", results=1, verify=_verify_broadcast, **ARROW)
class Broadcast(ShapeOp, Indexing):
    """Repeats `source` along its axes of one element."""

    __slots__ = ()


@declares("tt.reshape", results=1, parse=_parse_reshape, print=_print_reshape, verify=_verify_reshape)
class Reshape(ShapeOp, Indexing):
    """The elements of `source` in another shape; in order, unless `allow_reorder` says that any order will do."""

    __slots__ = ()
    allow_reorder, efficient_layout = Flag("allow_reorder"), Flag("efficient_layout")


@declares("tt.expand_dims", results=1, verify=_verify_expand_dims, **ARROW)
class ExpandDims(ShapeOp, Indexing):
    """Adds an axis of one element at place `axis`."""

    __slots__ = ()
    axis = Integer("axis")


@declares("tt.trans", results=1, required=("order",), verify=_verify_trans, **ARROW)
class Trans(ShapeOp, Indexing):
    """Axis k of the result is axis `order[k]` of the source."""

    __slots__ = ()
    order = Integers("order")


class Join(Indexing):
    """Two tiles along a new last axis."""

    __slots__ = ()
    lhs, rhs = Operand(0), Operand(1)


class Cat(Indexing):
    """Two tiles, one behind the other."""

    __slots__ = ()
    lhs, rhs = Operand(0), Operand(1)


@declares(
    "tt.split",
    verify=_verify_split,
    **assembly(" %src{} : !src -> !outLHS", "src", "outLHS outRHS", types={"outRHS": type_of("outLHS")}),
)
class Split(ShapeOp, Indexing):
    """The two halves along the last axis."""

    __slots__ = ()
    lhs, rhs = Result(0), Result(1)


@declares(
    "tt.histogram",
    verify=_verify_histogram,
    **assembly(" %src?(, %mask){} : !src -> !result", "src mask?", "result", types={"mask": mask_like("src")}),
)
class Histogram(ShapeOp):
    """The number of elements of `source`, where `mask` holds, that are 0, 1, 2, …"""

    __slots__ = ()
    mask = OptionalOperand(1)


@declares("tt.gather", verify=_verify_gather, **assembly(" %src[%indices]{} : =>", "src indices", "result"))
class Gather(ShapeOp):
    """The elements of `source` at `indices` along `axis`."""

    __slots__ = ()
    indices = Operand(1)
    axis = Integer("axis")


for _name, _kind, _rule in (("tt.join", Join, _verify_join), ("tt.cat", Cat, _verify_cat)):
    declare(
        _name,
        kind=_kind,
        verify=_rule,
        **assembly(" %lhs, %rhs{} : !lhs -> !result", "lhs rhs", "result", types={"rhs": type_of("lhs")}),
    )
