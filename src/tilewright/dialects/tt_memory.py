"""Pointers, loads and stores: `tt.addptr`, `tt.load`, `tt.store`, `tt.make_tensor_ptr`, `tt.advance`, …"""

from __future__ import annotations

import re

from tilewright.dialects.arith import Unary
from tilewright.dialects.assembly import Piece, assembly, type_of
from tilewright.dialects.formats import ARROW, keyword_text
from tilewright.dialects.rules import conversion_rule, pointer, types_match
from tilewright.dialects.traits import PointerAccess, WritesMemory
from tilewright.ir.attributes import Attribute, DenseArray, Keyword, Number, Opaque
from tilewright.ir.core import Op, Value
from tilewright.ir.declare import Effect, OpDefinition, declares
from tilewright.ir.errors import VerificationError, require
from tilewright.ir.fields import Flag, Integers, Operand, Operands, OptionalOperand, Word
from tilewright.ir.parser import Parser
from tilewright.ir.printer import Printer
from tilewright.ir.types import IntType, PointerType, TensorType, Type, i1, i32, i64, with_element

CACHE_MODIFIERS = ("none", "ca", "cg", "wb", "cs", "wt", "cv")
EVICTION_POLICIES = ("evict_normal", "evict_first", "evict_last")
PADDINGS = {1: "pad_zero", 2: "pad_nan"}
"""Numbers in the text, keywords in the attribute `padding`."""


def pointee_type(type: Type) -> Type:
    """The type of what a load from `type` gives: `tensor<4x!tt.ptr<f32>>` -> `tensor<4xf32>`, `!tt.ptr<T>` -> T.

    Raises:
        TypeError: when `type` holds no pointers.
    """
    scalar = type.scalar
    if not isinstance(scalar, PointerType):
        raise TypeError(f"{type.text} holds no pointers")
    return with_element(type, scalar.pointee)


def _mask_type(pointee: Type) -> Type:
    return with_element(pointee, i1)


_POLICY = re.compile(r"(cache_modifier|eviction_policy) = (\w+)")
_POLICY_FIELDS = {"cache_modifier": "cache", "eviction_policy": "evict"}


# cacheModifier = ca evictionPolicy = evict_first           and 3.9's {cachePolicy = #tt.cache_policy<…>}


def _parse_cache_options(parser: Parser, attributes: dict[str, Attribute]) -> None:
    """Read the cache options and the attributes behind them."""
    while word := parser.keyword("cacheModifier", "evictionPolicy"):
        parser.expect("=")
        name, values = ("cache", CACHE_MODIFIERS) if word == "cacheModifier" else ("evict", EVICTION_POLICIES)
        attributes[name] = Keyword(parser.one_of(values, f"a {word}"))
    attributes.update(parser.attributes())
    policy = attributes.get("cachePolicy")
    if isinstance(policy, Opaque) and policy.text.startswith("#tt."):
        del attributes["cachePolicy"]
        attributes.update({_POLICY_FIELDS[name]: Keyword(word) for name, word in _POLICY.findall(policy.text)})


def _cache_policy(printer: Printer, op: Op) -> dict[str, Attribute]:
    """The cache options as the one attribute that Triton 3.9 has for them, if the text is for it and there are any."""
    if not printer.version.cache_policy or not ("cache" in op.attributes or "evict" in op.attributes):
        return {}
    cache = keyword_text(op, "cache") if "cache" in op.attributes else "none"
    evict = keyword_text(op, "evict") if "evict" in op.attributes else "evict_normal"
    if (cache, evict) == ("none", "evict_normal"):
        return {}
    return {"cachePolicy": Opaque(f"#tt.cache_policy<cache_modifier = {cache}, eviction_policy = {evict}>")}


def _cache_text(printer: Printer, op: Op) -> str:
    """The cache options with a space in front, if they are no attribute; defaults are left out."""
    if printer.version.cache_policy:
        return ""
    text = ""
    if "cache" in op.attributes and (cache := keyword_text(op, "cache")) != "none":
        text += f" cacheModifier = {cache}"
    if "evict" in op.attributes and (evict := keyword_text(op, "evict")) != "evict_normal":
        text += f" evictionPolicy = {evict}"
    return text


CACHE_OPTIONS = Piece(
    lambda parser, reading: _parse_cache_options(parser, reading.attributes),
    lambda printer, op, groups: _cache_text(printer, op),
    inline=("cache", "evict"),
    extra=_cache_policy,
)
"""` cacheModifier = ca evictionPolicy = evict_first`, and the attributes behind them."""


def _memory_attributes(parser: Parser) -> dict[str, Attribute]:
    attributes: dict[str, Attribute] = {}
    _parse_cache_options(parser, attributes)
    padding = attributes.get("padding")
    if isinstance(padding, Number):
        word = PADDINGS.get(int(padding.value))
        if word is None:
            raise parser.problem(f"there is no padding {padding.value}", parser.position)
        attributes["padding"] = Keyword(word)
    return attributes


def _memory_text(printer: Printer, op: Op) -> str:
    """Options and attributes of a load or store; defaults are left out."""
    if not op.attributes:
        return ""
    shown: dict[str, Attribute] = {
        name: a for name, a in op.attributes.items() if name not in ("cache", "evict") and a is not False
    }
    if isinstance(check := shown.get("boundaryCheck"), DenseArray) and not check.values:
        del shown["boundaryCheck"]
    if isinstance(padding := shown.get("padding"), Keyword):
        number = next(number for number, word in PADDINGS.items() if word == padding.name)
        shown["padding"] = Number(number, i32)
    shown.update(_cache_policy(printer, op))
    return _cache_text(printer, op) + printer.attributes(shown)


def _print_access(printer: Printer, op: Op) -> None:
    printer.write(f" {printer.values(op.operands)}{_memory_text(printer, op)} : {printer.type(op.operands[0].type)}")


# tt.load %p [, %mask [, %other]] options {…} : P


def _parse_load(parser: Parser, definition: OpDefinition) -> Op:
    references = [parser.operand()]
    while parser.optional(",") and parser.looks_at("%"):
        references.append(parser.operand())
    attributes = _memory_attributes(parser)
    type, result = _parse_pointers(parser)
    wanted = (type, _mask_type(result), result)
    return Op(definition, parser.resolve_all(references, wanted[: len(references)]), (result,), attributes)


def _verify_load(op: Op) -> None:
    pointer(op, op.operands[0])
    type = op.operands[0].type
    result = pointee_type(type)
    if op.results[0].type is not result:
        raise VerificationError(op, f"a load from {type} gives {result}, not {op.results[0].type}")
    if len(op.operands) > 1:
        wanted = (_mask_type(result), result)[: len(op.operands) - 1]
        types_match(op, op.operands[1:], wanted, "mask and other")
    _verify_options(op, result)


def _load_effect(op: Op) -> Effect:
    return Effect.READ_WRITE if op.attributes.get("isVolatile") is True else Effect.READ


# tt.store %p, %value [, %mask] options {…} : P


def _parse_store(parser: Parser, definition: OpDefinition) -> Op:
    references = parser.operands()
    attributes = _memory_attributes(parser)
    type, value = _parse_pointers(parser)
    wanted = (type, value, _mask_type(value))
    return Op(definition, parser.resolve_all(references, wanted[: len(references)]), (), attributes)


def _verify_store(op: Op) -> None:
    pointer(op, op.operands[0])
    value = pointee_type(op.operands[0].type)
    types_match(op, op.operands[1:], (value, _mask_type(value))[: len(op.operands) - 1], "value and mask")
    _verify_options(op, value)


def _verify_options(op: Op, value: Type) -> None:
    if not op.attributes:
        return
    check = op.attributes.get("boundaryCheck")
    if isinstance(check, DenseArray):
        rank = len(value.shape or ())
        require(all(0 <= axis < rank for axis in check.values), op, f"boundaryCheck names an axis beyond rank {rank}")


def _parse_pointers(parser: Parser) -> tuple[Type, Type]:
    """`: P`: the type, and what it points at."""
    parser.expect(":")
    start = parser.position
    type = parser.type()
    if not isinstance(type.scalar, PointerType):
        raise parser.error("a type of pointers", start)
    return type, pointee_type(type)


def _verify_addptr(op: Op) -> None:
    base, offset = op.operands
    pointer(op, base)
    if op.results[0].type is not base.type:
        raise VerificationError(op, f"the result must be {base.type}, not {op.results[0].type}")
    if offset.type.shape != base.type.shape or not isinstance(offset.type.scalar, IntType):
        raise VerificationError(op, f"offsets for {base.type} must be integers of its shape, not {offset.type}")


# tt.make_tensor_ptr %base, [shape], [strides], [offsets] {order = …} : <tensor<4x8xf32>>


def _parse_make_tensor_ptr(parser: Parser, definition: OpDefinition) -> Op:
    base = parser.operand()
    lists = []
    for _ in range(3):
        parser.expect(",")
        lists.append(parser.list(parser.operand, "[", "]"))
    attributes = parser.attributes()
    type = _parse_block_pointer(parser)
    assert isinstance(type.pointee, TensorType), "a block pointer points at a tensor"
    wanted: list[Type] = [PointerType(type.pointee.element, type.space)]
    for references, element in zip(lists, (i64, i64, i32), strict=True):
        wanted += [element] * len(references)
    operands = parser.resolve_all([base, *lists[0], *lists[1], *lists[2]], wanted)
    return Op(definition, operands, (type,), attributes)


def _print_make_tensor_ptr(printer: Printer, op: Op) -> None:
    base, *rest = op.operands
    rank = len(rest) // 3
    lists = ", ".join(f"[{printer.values(rest[i : i + rank])}]" for i in range(0, 3 * rank, rank))
    attributes = printer.attributes(op.attributes)
    printer.write(f" {printer.value(base)}, {lists}{attributes} : {printer.type_body(op.results[0].type)}")


def _parse_block_pointer(parser: Parser) -> PointerType:
    """`: <tensor<4x8xf32>>`, or with `!tt.ptr` in front."""
    parser.expect(":")
    start = parser.position
    type = parser.type_body("!tt.ptr") if parser.looks_at("<") else parser.type()
    if not isinstance(type, PointerType) or not isinstance(type.pointee, TensorType):
        raise parser.error("a pointer to a tensor", start)
    return type


def block_type(op: Op, type: Type) -> TensorType:
    """The tile a block pointer points at."""
    if not isinstance(type, PointerType) or not isinstance(type.pointee, TensorType):
        raise VerificationError(op, f"needs a pointer to a tensor, not {type}")
    return type.pointee


def _verify_make_tensor_ptr(op: Op) -> None:
    block = block_type(op, op.results[0].type)
    rank = len(block.shape)
    require(len(op.operands) == 1 + 3 * rank, op, f"needs shape, strides and offsets for {rank} axes")
    space = pointer(op, op.operands[0]).space
    wanted = (PointerType(block.element, space), *(i64,) * (2 * rank), *(i32,) * rank)
    types_match(op, op.operands, wanted, "operands")
    order = op.attributes["order"]
    fits = isinstance(order, DenseArray) and sorted(order.values) == list(range(rank))
    require(fits, op, "order must name every axis once")


# tt.advance %p, [offsets] {…} : <tensor<4x8xf32>>


def _parse_advance(parser: Parser, definition: OpDefinition) -> Op:
    base = parser.operand()
    parser.expect(",")
    offsets = parser.list(parser.operand, "[", "]")
    attributes = parser.attributes()
    type = _parse_block_pointer(parser)
    return Op(definition, parser.resolve_all([base, *offsets], [type, *(i32,) * len(offsets)]), (type,), attributes)


def _print_advance(printer: Printer, op: Op) -> None:
    base, *offsets = op.operands
    attributes = printer.attributes(op.attributes)
    printer.write(
        f" {printer.value(base)}, [{printer.values(offsets)}]{attributes} : {printer.type_body(op.results[0].type)}"
    )


def _verify_advance(op: Op) -> None:
    block = block_type(op, op.operands[0].type)
    types_match(op, op.results, [op.operands[0].type], "result")
    types_match(op, op.operands[1:], [i32] * len(block.shape), "offsets")


@declares(
    "tt.addptr",
    elementwise=True,
    verify=_verify_addptr,
    **assembly(" %ptr, %offset{} : !ptr, !offset", "ptr offset", "result", types={"result": type_of("ptr")}),
)
class AddPtr(Op):
    """A pointer and an offset in elements."""

    __slots__ = ()
    pointer, offset = Operand(0), Operand(1)


@declares(
    "tt.load",
    results=1,
    effect=Effect.READ,
    effect_of=_load_effect,
    parse=_parse_load,
    print=_print_access,
    verify=_verify_load,
)
class Load(PointerAccess):
    """The elements at `pointer` where `mask` holds, `other` elsewhere."""

    __slots__ = ()
    mask, other = OptionalOperand(1), OptionalOperand(2)
    boundary_check = Integers("boundaryCheck")
    padding = Word("padding", "")
    cache, evict = Word("cache", ""), Word("evict", "")
    is_volatile = Flag("isVolatile")


@declares("tt.store", results=0, effect=Effect.WRITE, parse=_parse_store, print=_print_access, verify=_verify_store)
class Store(PointerAccess, WritesMemory):
    """Puts `value` at `pointer` where `mask` holds."""

    __slots__ = ()
    value = Operand(1)
    mask = OptionalOperand(2)
    boundary_check = Integers("boundaryCheck")
    cache, evict = Word("cache", ""), Word("evict", "")


@declares(
    "tt.make_tensor_ptr",
    results=1,
    required=("order",),
    parse=_parse_make_tensor_ptr,
    print=_print_make_tensor_ptr,
    verify=_verify_make_tensor_ptr,
)
class MakeTensorPtr(Op):
    """A block pointer; behind `base` stand shape, strides and offsets, one of each per axis."""

    __slots__ = ()
    base = Operand(0)
    sizes = Operands(1)
    order = Integers("order")

    @property
    def tile(self) -> TensorType:
        """The block that it points at."""
        return block_type(self, self.results[0].type)

    @property
    def shape(self) -> list[Value]:
        """The extents of the whole tensor."""
        return self.sizes[: len(self.sizes) // 3]

    @property
    def strides(self) -> list[Value]:
        """Elements from one index to the next one, per axis."""
        rank = len(self.sizes) // 3
        return self.sizes[rank : 2 * rank]

    @property
    def offsets(self) -> list[Value]:
        """The index of the first element of the block."""
        return self.sizes[2 * len(self.sizes) // 3 :]


@declares("tt.advance", results=1, parse=_parse_advance, print=_print_advance, verify=_verify_advance)
class Advance(Op):
    """A block pointer, moved."""

    __slots__ = ()
    pointer = Operand(0)
    offsets = Operands(1)


class PointerCast(Unary):
    """An address as a number, or the other way round."""

    __slots__ = ()


@declares("tt.int_to_ptr", results=1, elementwise=True, verify=conversion_rule(IntType, PointerType), **ARROW)
class IntToPtr(PointerCast):
    """The address that a number says."""

    __slots__ = ()


@declares("tt.ptr_to_int", results=1, elementwise=True, verify=conversion_rule(PointerType, IntType), **ARROW)
class PtrToInt(PointerCast):
    """The number of an address."""

    __slots__ = ()
