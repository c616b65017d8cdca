"""Matrix products: `tt.dot`, `tt.dot_scaled`."""

from __future__ import annotations

from tilewright.dialects.assembly import Groups, Piece, Reading, assembly, type_of
from tilewright.dialects.formats import keyword_text
from tilewright.dialects.layout_rules import layout_of
from tilewright.dialects.rules import keyword_in, tensor
from tilewright.dialects.traits import DotLike
from tilewright.ir.attributes import Attribute, Keyword, Number
from tilewright.ir.core import Op, Value
from tilewright.ir.declare import OpDefinition, declares
from tilewright.ir.errors import VerificationError, require
from tilewright.ir.fields import Flag, Integer, Operands, Word
from tilewright.ir.parser import Parser, Reference
from tilewright.ir.printer import Printer
from tilewright.ir.types import TensorType, Type, i32
from tilewright.layouts.encodings import DotOperand, NvidiaMma

INPUT_PRECISIONS = ("tf32", "tf32x3", "ieee", "bf16x3", "bf16x6")
"""The precisions of products of fp32, numbered as in Triton's enumeration."""
SCALED_TYPES = ("e4m3", "e5m2", "e2m3", "e3m2", "e2m1", "bf16", "fp16")


# tt.dot %a, %b, %c [, inputPrecision = tf32] {…} : A * B -> C


def _read_precision(parser: Parser, reading: Reading) -> None:
    if parser.optional(","):
        parser.expect("inputPrecision")
        parser.expect("=")
        word = parser.one_of(INPUT_PRECISIONS, "an input precision")
        reading.attributes["inputPrecision"] = Keyword(word)


def _write_precision(printer: Printer, op: Op, groups: Groups) -> str:
    word = keyword_text(op, "inputPrecision") if "inputPrecision" in op.attributes else "ieee"
    return "" if word == "ieee" else f", inputPrecision = {word}"


def _verify_dot(op: Op) -> None:
    a, b, c = (tensor(op, value) for value in op.operands)
    require(op.results[0].type is c, op, f"the result must have the accumulator's type {c}")
    rank = len(a.shape)
    require(rank in (2, 3) and len(b.shape) == rank == len(c.shape), op, "needs three tiles of rank 2 or of rank 3")
    batch = a.shape[:-2] == b.shape[:-2] == c.shape[:-2]
    fits = (*a.shape[-2:-1], *b.shape[-1:]) == c.shape[-2:] and a.shape[-1] == b.shape[-2]
    require(batch and fits, op, f"shapes do not fit: {a} * {b} -> {c}")
    if "inputPrecision" in op.attributes:
        keyword_in(op, "inputPrecision", INPUT_PRECISIONS)
    require(a.bits == b.bits, op, f"elements of {a.element} and {b.element} differ in width")
    if a.encoding or b.encoding or c.encoding:
        _verify_dot_layouts(op, a, b, c)


def _verify_dot_layouts(op: Op, a: TensorType, b: TensorType, c: TensorType) -> None:
    left, right, accumulator = (layout_of(type) for type in (a, b, c))
    if left is None and right is None:
        return
    require(left is not None and right is not None, op, "both operands have a layout or none")
    require(accumulator is not None, op, "the accumulator needs a layout")
    if not isinstance(left, DotOperand) and not isinstance(right, DotOperand):
        return
    if not isinstance(left, DotOperand) or not isinstance(right, DotOperand):
        raise VerificationError(op, "both operands have the layout of an operand or none")
    require(left.k_width == right.k_width, op, f"kWidth differs: {left.k_width} and {right.k_width}")
    versions = {
        layout.version_major for layout in (left.parent, right.parent, accumulator) if isinstance(layout, NvidiaMma)
    }
    if versions:
        parts = (left.parent, right.parent, accumulator)
        same = len(versions) == 1 and all(isinstance(layout, NvidiaMma) for layout in parts)
        require(same, op, "operands and accumulator must have the layout of one kind of matrix instruction")


# tt.dot_scaled %a [scale %s], %b [scale %t], %c lhs = e4m3 rhs = e4m3 {…} : A [, S] * B [, T] -> C


def _parse_dot_scaled(parser: Parser, definition: OpDefinition) -> Op:
    operands: list[Reference] = []
    scales: list[Reference | None] = []
    for _ in range(2):
        operands.append(parser.operand())
        scales.append(parser.operand() if parser.keyword("scale") else None)
        parser.expect(",")
    accumulator = parser.operand()
    attributes: dict[str, Attribute] = {}
    for word, name in (("lhs", "a_elem_type"), ("rhs", "b_elem_type")):
        parser.expect(word)
        parser.expect("=")
        attributes[name] = Keyword(parser.one_of(SCALED_TYPES, "an element type"))
    attributes.update(parser.attributes())
    parser.expect(":")
    first = parser.types()
    parser.expect("*")
    second = parser.types()
    parser.expect("->")
    type = parser.type()
    present = [scale for scale in scales if scale is not None]
    references = [*operands, accumulator, *present]
    types: list[Type] = [first[0], second[0], type, *first[1:], *second[1:]]
    attributes["has_scales"] = tuple(scale is not None for scale in scales)
    return Op(definition, parser.resolve_all(references, types), (type,), attributes)


def _print_dot_scaled(printer: Printer, op: Op) -> None:
    a, b, c, *rest = op.operands
    present = op.attributes["has_scales"]
    assert isinstance(present, tuple), "has_scales is a pair of flags"
    names, types = [], []
    for operand, scaled in zip((a, b), present, strict=True):
        scale = rest.pop(0) if scaled else None
        names.append(printer.value(operand) + (f" scale {printer.value(scale)}" if scale else ""))
        types.append(printer.type(operand.type) + (f", {printer.type(scale.type)}" if scale else ""))
    kinds = f"lhs = {keyword_text(op, 'a_elem_type')} rhs = {keyword_text(op, 'b_elem_type')}"
    attributes = printer.attributes(op.attributes, ("a_elem_type", "b_elem_type", "has_scales"))
    operands = f"{names[0]}, {names[1]}, {printer.value(c)}"
    printer.write(f" {operands} {kinds}{attributes} : {types[0]} * {types[1]} -> {printer.type(c.type)}")


def _verify_dot_scaled(op: Op) -> None:
    require(op.results[0].type is op.operands[2].type, op, "the result must have the accumulator's type")
    keyword_in(op, "a_elem_type", SCALED_TYPES)
    keyword_in(op, "b_elem_type", SCALED_TYPES)
    _verify_scaled_shapes(op)


def _verify_scaled_shapes(op: Op) -> None:
    a, b, c = (tensor(op, value) for value in op.operands[:3])
    require(len(a.shape) == len(b.shape) == len(c.shape) >= 2, op, "needs three tiles of one rank, 2 or more")
    left, right = _unpacked(op, "a_elem_type", "lhs_k_pack", a, -1), _unpacked(op, "b_elem_type", "rhs_k_pack", b, -2)
    require(left[-1] == right[-2], op, f"inner extents differ: {left[-1]} and {right[-2]}")
    require((left[-2], right[-1]) == c.shape[-2:], op, f"shapes do not fit: {a} * {b} -> {c}")
    present = op.attributes["has_scales"]
    assert isinstance(present, tuple), "has_scales is a pair of flags"
    outer = [extent for extent, scaled in zip((left[-2], right[-1]), present, strict=True) if scaled]
    for scale, extent in zip(op.operands[3:], outer, strict=True):
        found = tensor(op, scale)
        fits = found.numel == 1 or (found.shape[-2] == extent and left[-1] // found.shape[-1] in (16, 32))
        require(fits, op, f"a scale for {extent}x{left[-1]} cannot be {found}")


def _unpacked(op: Op, kind: str, packed: str, type: TensorType, inner: int) -> list[int]:
    """The shape of an operand with two elements in a byte taken apart."""
    shape = list(type.shape)
    if keyword_text(op, kind) == "e2m1":
        along = inner if op.attributes.get(packed, True) is True else -3 - inner
        shape[along] *= 2
    return shape


@declares(
    "tt.dot",
    verify=_verify_dot,
    **assembly(
        " %a, %b, %c$precision{} : !a * !b -> !c",
        "a b c",
        "d",
        types={"d": type_of("c")},
        defaults={"maxNumImpreciseAcc": Number(0, i32)},
        custom={"precision": Piece(_read_precision, _write_precision, inline=("inputPrecision",))},
    ),
)
class Dot(DotLike):
    """`accumulator` + a · b."""

    __slots__ = ()
    input_precision = Word("inputPrecision", "ieee")
    max_imprecise_sums = Integer("maxNumImpreciseAcc", 0)


@declares(
    "tt.dot_scaled",
    results=1,
    required=("has_scales",),
    parse=_parse_dot_scaled,
    print=_print_dot_scaled,
    verify=_verify_dot_scaled,
)
class DotScaled(DotLike):
    """`accumulator` + (a · scale of a) · (b · scale of b); behind the accumulator stand the scales that there are."""

    __slots__ = ()
    scales = Operands(3)
    a_type, b_type = Word("a_elem_type"), Word("b_elem_type")
    lhs_k_pack, rhs_k_pack = Flag("lhs_k_pack", default=True), Flag("rhs_k_pack", default=True)
    fast_math = Flag("fastMath")

    @property
    def a_scale(self) -> Value | None:
        """The scale of `a`, if it has one."""
        return self.scales[0] if self._has_scales[0] else None

    @property
    def b_scale(self) -> Value | None:
        """The scale of `b`, if it has one."""
        return self.scales[-1] if self._has_scales[1] else None

    @property
    def _has_scales(self) -> tuple[bool, bool]:
        present = self.attributes["has_scales"]
        assert isinstance(present, tuple), "has_scales is a pair of flags"
        return present[0] is True, present[1] is True
