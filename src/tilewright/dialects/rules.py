"""Rules that the verifiers of several op kinds share; each raises VerificationError."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from tilewright.ir.attributes import DenseArray, Keyword, Number
from tilewright.ir.core import Block, Op, Value
from tilewright.ir.errors import VerificationError, require
from tilewright.ir.types import FloatType, IndexType, IntType, MemDescType, PointerType, TensorType, Type


def same_type(op: Op) -> None:
    """All operands and results have one type."""
    type = op.results[0].type
    for value in op.operands:
        if value.type is not type:
            raise VerificationError(op, f"operands and result must have one type, not {value.type} and {type}")


def integer_type(op: Op) -> None:
    """All operands and the result have one type, of integers."""
    same_type(op)
    if not isinstance(op.results[0].type.scalar, (IntType, IndexType)):
        raise VerificationError(op, f"needs integers, not {op.results[0].type}")


def float_type(op: Op) -> None:
    """All operands and the result have one type, of floating point numbers."""
    same_type(op)
    if not isinstance(op.results[0].type.scalar, FloatType):
        raise VerificationError(op, f"needs floating point numbers, not {op.results[0].type}")


def same_shape(op: Op) -> None:
    """The operand and the result have one shape."""
    source, result = op.operands[0].type, op.results[0].type
    if source.shape != result.shape:
        raise VerificationError(op, f"operand and result differ in shape: {source} and {result}")


def same_form(op: Op) -> None:
    """The operand and the result have one shape and one layout."""
    same_shape(op)
    source, result = op.operands[0].type, op.results[0].type
    if isinstance(source, TensorType) and isinstance(result, TensorType) and source.encoding != result.encoding:
        raise VerificationError(op, f"operand and result differ in layout: {source} and {result}")


def conversion_rule(
    source: type[Type] | tuple[type[Type], ...], target: type[Type] | tuple[type[Type], ...], compare: str = ""
) -> Callable[[Op], None]:
    """A rule for conversions from elements of class `source` to `target`; `compare` relates the widths (< > =)."""

    def verify(op: Op) -> None:
        same_form(op)
        old, new = op.operands[0].type.scalar, op.results[0].type.scalar
        if not isinstance(old, source) or not isinstance(new, target):
            raise VerificationError(op, f"cannot convert {old} to {new}")
        if compare and not _WIDTHS[compare](old.bits, new.bits):
            raise VerificationError(op, f"must {_WIDTH_RULES[compare]}, not convert {old} to {new}")

    return verify


_WIDTH_RULES = {"<": "widen", ">": "narrow", "=": "keep the width"}
_WIDTHS: dict[str, Callable[[int, int], bool]] = {
    "<": lambda old, new: old < new,
    ">": lambda old, new: old > new,
    "=": lambda old, new: old == new,
}


def tensor(op: Op, value: Value) -> TensorType:
    """The type of `value`, which must be a tensor."""
    type = value.type
    if not isinstance(type, TensorType):
        raise VerificationError(op, f"needs a tensor, not {type}")
    return type


def pointer(op: Op, value: Value) -> PointerType:
    """The element type of `value`, which must be a pointer."""
    scalar = value.type.scalar
    if not isinstance(scalar, PointerType):
        raise VerificationError(op, f"needs pointers, not {value.type}")
    return scalar


def memdesc(op: Op, value: Value) -> MemDescType:
    """The type of `value`, which must be a buffer."""
    type = value.type
    if not isinstance(type, MemDescType):
        raise VerificationError(op, f"needs a buffer, not {type}")
    return type


def mutable_memdesc(op: Op, value: Value) -> MemDescType:
    """The type of `value`, which must be a buffer that may be written to."""
    type = memdesc(op, value)
    require(type.mutable, op, f"cannot write to {type}, which is not mutable")
    return type


def number(op: Op, name: str) -> int:
    """The integer in attribute `name`."""
    attribute = op.attributes.get(name)
    if not isinstance(attribute, Number) or not isinstance(attribute.value, int):
        raise VerificationError(op, f"attribute {name} must be an integer")
    return attribute.value


def axis_of(op: Op, rank: int) -> int:
    """Attribute `axis`, which must name one of `rank` axes."""
    axis = number(op, "axis")
    require(0 <= axis < rank, op, f"axis {axis} is out of range for rank {rank}")
    return axis


def order_of(op: Op, rank: int) -> tuple[int, ...]:
    """Attribute `order`, which must name each of `rank` axes once."""
    order = op.attributes["order"]
    if not isinstance(order, DenseArray) or sorted(order.values) != list(range(rank)):
        raise VerificationError(op, f"order must name each of {rank} axes once")
    return order.values


def types_of(values: Iterable[Value]) -> list[Type]:
    return [value.type for value in values]


def types_match(op: Op, found: Iterable[Value], wanted: Iterable[Type], what: str) -> None:
    """The types of `found` are `wanted`."""
    have, want = types_of(found), list(wanted)
    if have != want:
        raise VerificationError(op, f"{what}: expected ({_names(want)}), found ({_names(have)})")


def ends_with(op: Op, block: Block, terminator: str) -> Op:
    """The last op of `block`, which must be of kind `terminator`."""
    last = block.last
    if last is None or last.name != terminator:
        raise VerificationError(op, f"its region must end with {terminator}")
    return last


def _names(types: Iterable[Type]) -> str:
    return ", ".join(type.text for type in types)


def keyword_in(op: Op, name: str, words: Collection[str]) -> None:
    """Attribute `name` is one of the keywords `words`."""
    keyword = op.attributes.get(name)
    if not isinstance(keyword, Keyword) or keyword.name not in words:
        raise VerificationError(op, f"attribute {name} must be one of {', '.join(words)}")
