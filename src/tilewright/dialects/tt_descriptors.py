"""Tensor descriptors: `tt.make_tensor_descriptor`, `tt.descriptor_load`, `tt.descriptor_store`, …"""

from __future__ import annotations

from tilewright.dialects.assembly import assembly, choice
from tilewright.dialects.rules import keyword_in, types_match
from tilewright.dialects.traits import LayoutAnchor, WritesMemory
from tilewright.dialects.tt_memory import CACHE_OPTIONS
from tilewright.ir.core import Op, Value
from tilewright.ir.declare import ANY, Effect, OpDefinition, declares
from tilewright.ir.errors import VerificationError, require
from tilewright.ir.fields import Operand, Operands, Word
from tilewright.ir.parser import Parser
from tilewright.ir.printer import Printer
from tilewright.ir.types import IntType, PointerType, TensorDescType, TensorType, Type, i32, i64

_BLOCK = {"indices": i32}
REDUCTIONS = ("add", "min", "max", "inc", "dec", "and", "or", "xor")


def descriptor_block(value: Value) -> TensorType:
    """The type of the blocks that a tensor descriptor moves."""
    assert isinstance(value.type, TensorDescType), f"{value.type} is no tensor descriptor"
    return value.type.block


def descriptor_type(op: Op, value: Value) -> TensorDescType:
    """The type of `value`, which must be a descriptor."""
    if not isinstance(value.type, TensorDescType):
        raise VerificationError(op, f"needs a tensor descriptor, not {value.type}")
    return value.type


# tt.make_tensor_descriptor %base, [shape], [strides] {…} : <f16>, <tensor<128x64xf16>>


def _parse_make(parser: Parser, definition: OpDefinition) -> Op:
    base = parser.operand()
    parser.expect(",")
    shape = parser.list(parser.operand, "[", "]")
    parser.expect(",")
    strides = parser.list(parser.operand, "[", "]")
    attributes = parser.attributes()
    parser.expect(":")
    pointer = parser.type_body("!tt.ptr") if parser.looks_at("<") else parser.type()
    parser.expect(",")
    result = parser.type_body("!tt.tensordesc") if parser.looks_at("<") else parser.type()
    types: list[Type] = [pointer, *(i32,) * len(shape), *(i64,) * len(strides)]
    return Op(definition, parser.resolve_all([base, *shape, *strides], types), (result,), attributes)


def _print_make(printer: Printer, op: Op) -> None:
    base, *rest = op.operands
    rank = len(rest) // 2
    lists = f"[{printer.values(rest[:rank])}], [{printer.values(rest[rank:])}]"
    attributes = printer.attributes(op.attributes)
    types = f"{printer.type_body(base.type)}, {printer.type_body(op.results[0].type)}"
    printer.write(f" {printer.value(base)}, {lists}{attributes} : {types}")


def _verify_make(op: Op) -> None:
    rank = len(descriptor_type(op, op.results[0]).block.shape)
    require(len(op.operands) == 1 + 2 * rank, op, f"needs shape and strides for {rank} axes")
    types_match(op, op.operands[1:], [i32] * rank + [i64] * rank, "shape and strides")
    require(isinstance(op.operands[0].type, PointerType), op, "the base must be a pointer")


def _verify_load(op: Op) -> None:
    verify_block(op, descriptor_type(op, op.operands[0]).block, op.results[0].type)
    types_match(op, op.operands[1:], [i32] * (len(op.operands) - 1), "indices")


def verify_block(op: Op, block: TensorType, tile: Type) -> None:
    """The tile has the elements of a descriptor's block, perhaps in another shape; the block may give their sign."""
    if not isinstance(tile, TensorType):
        raise VerificationError(op, f"needs a tensor, not {tile}")
    require(tile.element is _without_sign(block), op, f"a block of {block.element} has no elements of {tile.element}")
    require(tile.numel == block.numel, op, f"{tile} and the block {block} differ in their number of elements")


def _without_sign(block: TensorType) -> Type:
    """The type of the elements of tiles: the block of a descriptor may give their sign."""
    return IntType(block.bits) if isinstance(block.element, IntType) else block.element


def _verify_rows(op: Op) -> None:
    """Check an access to rows, each where a tensor of indices says: the block of the descriptor is one of them."""
    block = descriptor_type(op, op.operands[0]).block
    tile, rows = (op.results or op.operands[-1:])[0].type, op.operands[1].type
    require(len(block.shape) == 2 and block.shape[0] == 1, op, f"the block must be one row, not {block}")
    require(len(rows.shape or ()) == 1, op, f"the rows must be given by a tensor with one axis, not {rows}")
    if not isinstance(tile, TensorType) or len(tile.shape) != 2:
        raise VerificationError(op, f"needs a tensor with two axes, not {tile}")
    fits = tile.shape == (*(rows.shape or ()), block.shape[1]) and tile.element is _without_sign(block)
    require(fits, op, f"{rows} rows of the block {block} do not give {tile}")
    require(tile.shape[0] >= 8, op, "needs 8 rows or more")
    columns = 32 // tile.bits * 8 if tile.bits <= 32 else 0
    require(columns and tile.shape[1] >= columns, op, f"needs {columns} columns or more, of at most 32 bits each")


def _verify_store(op: Op) -> None:
    verify_block(op, descriptor_type(op, op.operands[0]).block, op.operands[-1].type)
    types_match(op, op.operands[1:-1], [i32] * (len(op.operands) - 2), "indices")
    if op.name == "tt.descriptor_reduce":
        keyword_in(op, "kind", REDUCTIONS)


@declares(
    "tt.make_tensor_descriptor", operands=(1, ANY), results=1, parse=_parse_make, print=_print_make, verify=_verify_make
)
class MakeTensorDescriptor(Op):
    """A descriptor; behind `base` stand shape and strides, one of each per axis."""

    __slots__ = ()
    base = Operand(0)
    sizes = Operands(1)
    padding = Word("padding", "")

    @property
    def tile(self) -> TensorType:
        """The block that an access moves."""
        return descriptor_type(self, self.results[0]).block

    @property
    def shape(self) -> list[Value]:
        """The extents of the whole tensor."""
        return self.sizes[: len(self.sizes) // 2]

    @property
    def strides(self) -> list[Value]:
        """Elements from one index to the next one, per axis."""
        return self.sizes[len(self.sizes) // 2 :]


class DescriptorAccess(Op):
    """An op that moves a block through `descriptor`."""

    __slots__ = ()
    descriptor = Operand(0)


class DescriptorRead(DescriptorAccess, LayoutAnchor):
    """Gives a tile of it."""

    __slots__ = ()


class DescriptorWrite(DescriptorAccess, WritesMemory):
    """Puts the tile `value` there, or combines it with what is there."""

    __slots__ = ()
    value = Operand(-1)


class RowAccess(DescriptorAccess):
    """An access to parts of `rows`, from `column` on."""

    __slots__ = ()
    rows, column = Operand(1), Operand(2)


@declares(
    "tt.descriptor_load",
    effect=Effect.READ,
    verify=_verify_load,
    **assembly(
        " %desc[%indices*]$cache{} : !desc -> !result",
        "desc indices*",
        "result",
        least=2,
        types=_BLOCK,
        custom={"cache": CACHE_OPTIONS},
    ),
)
class DescriptorLoad(DescriptorRead):
    """The block at `indices`."""

    __slots__ = ()
    indices = Operands(1)


@declares(
    "tt.descriptor_gather",
    effect=Effect.READ,
    verify=_verify_rows,
    **assembly(" %desc[%x_offsets, %y_offset]{} : =>", "desc x_offsets y_offset", "result"),
)
class DescriptorGather(RowAccess, DescriptorRead):
    """Parts of `rows`, from `column` on."""

    __slots__ = ()


class BlockWrite(DescriptorWrite):
    """Moves `value` to the block at `indices`."""

    __slots__ = ()

    @property
    def indices(self) -> list[Value]:
        """The index of the first element of the block."""
        return self.operands[1:-1]


@declares(
    "tt.descriptor_store",
    effect=Effect.READ_WRITE,
    verify=_verify_store,
    **assembly(" %desc[%indices*], %src{} : !desc, !src", "desc indices* src", least=3, types=_BLOCK),
)
class DescriptorStore(BlockWrite):
    """Puts `value` there."""

    __slots__ = ()


@declares(
    "tt.descriptor_reduce",
    effect=Effect.READ_WRITE,
    verify=_verify_store,
    **assembly(
        " $kind, %desc[%indices*], %src{} : !desc, !src",
        "desc indices* src",
        least=3,
        types=_BLOCK,
        custom={"kind": choice("kind", REDUCTIONS, "a reduction")},
    ),
)
class DescriptorReduce(BlockWrite):
    """Combines what is there with `value`, by `operation`."""

    __slots__ = ()
    operation = Word("kind")


@declares(
    "tt.descriptor_scatter",
    effect=Effect.READ_WRITE,
    verify=_verify_rows,
    **assembly(
        " %desc[%x_offsets, %y_offset], %src{} : !desc, !x_offsets, !y_offset, !src", "desc x_offsets y_offset src"
    ),
)
class DescriptorScatter(RowAccess, DescriptorWrite):
    """Puts `value` into parts of `rows`, from `column` on."""

    __slots__ = ()
