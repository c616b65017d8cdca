"""Helpers for tiles of TTGIR: numbers of warps and CTAs, queries and changes of layouts, and new ops.

module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:90", …}

convert_operand(op, 0, layout)            # %c = ttg.convert_layout %a : … -> tensor<64xf32, layout>; op %c, …
ops = TileOps(dot)
transposed = ops.transposed(a, (1, 0))        # %t = tt.trans %a {order = array<i32: 1, 0>} : …, its layout transposed
wide = ops.cast("arith.extf", transposed, f32)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from tilewright.dialects.ttg_attributes import TWO_CTAS
from tilewright.dialects.ttg_warp_specialize import warps_of
from tilewright.ir.attributes import Attribute, DenseArray, Number
from tilewright.ir.core import Op, Value, integer_in, tile_type
from tilewright.ir.declare import OPS
from tilewright.ir.types import MemDescType, TensorType, Type, i32
from tilewright.layouts.blocked import Workers
from tilewright.layouts.encodings import Distributed, Encoding, encoding
from tilewright.layouts.inference import expanded, permuted, reshaped, transposed
from tilewright.layouts.queries import cga_layout, memory_order
from tilewright.layouts.shared import SwizzledShared
from tilewright.transforms.op_builder import OpBuilder


def module_of(op: Op) -> Op:
    """The module that `op` is in, or is."""
    while (parent := op.parent) is not None:
        op = parent
    return op


def works_in_pairs(op: Op) -> bool:
    """Whether products of the op's module are those of pairs of CTAs."""
    return bool(module_of(op).attributes.get(TWO_CTAS))


def workers_of(op: Op) -> Workers:
    """The warps, lanes and CTAs that execute `op`."""
    module = module_of(op)
    threads, ctas = integer_in(module, "ttg.threads-per-warp") or 32, integer_in(module, "ttg.num-ctas") or 1
    return Workers(warps_of(op), threads, ctas)


def target_of(module: Op) -> str:
    """The device, as `cuda:90`; empty if the module does not say."""
    target = module.attributes.get("ttg.target")
    return target if isinstance(target, str) else ""


def capability_of(module: Op) -> int:
    """The compute capability of an NVIDIA device: 90 for `cuda:90`; 0 for anything else."""
    kind, _, number = target_of(module).partition(":")
    return int(number) if kind == "cuda" and number.isdigit() else 0


AnyLayout = TypeVar("AnyLayout", bound=Encoding)


def layout_of_type(type: Type) -> Encoding:
    """The layout of tiles of `type`, which must have one."""
    encoded = type.encoding if isinstance(type, TensorType) else None
    assert encoded, f"{type} has no layout"
    return encoding(encoded)


def layout_of(value: Value) -> Encoding:
    """The layout of the tile `value`, which must have one."""
    return layout_of_type(value.type)


def layout_as(value: Value, kind: type[AnyLayout]) -> AnyLayout:
    """The layout of the tile `value`, which is of this class."""
    layout = layout_of(value)
    assert isinstance(layout, kind), f"{layout} is no {kind.__name__}"
    return layout


def distributed_of(value: Value) -> Distributed:
    """The layout of the tile `value`, whose elements are in registers."""
    return layout_as(value, Distributed)


def with_layout(type: Type, layout: Encoding) -> TensorType:
    """The tile `type` with another layout."""
    assert isinstance(type, TensorType), f"{type} is no tile"
    return TensorType(type.shape, type.element, layout.text)


def plain_buffer(value: Value) -> MemDescType:
    """The type of a buffer in shared memory for the elements of the tile `value`, one after the other."""
    tile, layout = tile_type(value), distributed_of(value)
    rows = SwizzledShared(1, 1, 1, memory_order(layout, tile.shape), cga_layout(layout))
    return MemDescType(tile.shape, tile.element, rows.text, mutable=True)


def convert_operand(op: Op, index: int, layout: Encoding) -> None:
    """Let `op` take its operand `index` with `layout`, through a conversion even if that changes nothing."""
    value = op.operands[index]
    converted = Op(OPS["ttg.convert_layout"], (value,), (with_layout(value.type, layout),), location=op.location)
    assert op.block is not None, f"{op.name} is in no block"
    op.block.insert(converted, op)
    op.set_operand(index, converted.result)


def convert_result(value: Value, wanted: Type) -> None:
    """Let the users of the result `value`, which has its final type, see one of type `wanted`."""
    if value.type is wanted or not value.uses:
        return
    op = value.owner
    assert isinstance(op, Op), "a result"
    assert op.block is not None, f"{op.name} is in no block"
    converted = Op(OPS["ttg.convert_layout"], (), (wanted,), location=op.location)
    op.block.insert(converted, op.next)
    value.replace_by(converted.result)
    converted.set_operands([value])


def converted_after(value: Value, layout: Encoding) -> Value:
    """A conversion of `value` to `layout`, right behind what makes it."""
    return put_after(value, Op(OPS["ttg.convert_layout"], (value,), (with_layout(value.type, layout),)))


def put_after(value: Value, op: Op) -> Value:
    """The result of `op`, put where `value` is known from on."""
    owner = value.owner
    if isinstance(owner, Op):
        op.location = owner.location
        return OpBuilder.after(owner).insert(op).result
    return owner.insert(op, owner.first).result


def relayout(op: Op, layout: Encoding, but: Value | None = None) -> None:
    """Let `op` take tiles (`but` one) and give tiles with `layout`; others see no difference."""
    for index, value in enumerate(op.operands):
        if isinstance(value.type, TensorType) and value is not but:
            convert_operand(op, index, layout)
    for value in op.results:
        if isinstance(value.type, TensorType):
            before, value.type = value.type, with_layout(value.type, layout)
            convert_result(value, before)


class TileOps(OpBuilder):
    """Makes ops on tiles; those that take the place of `before` let its users see the layout that they expect."""

    def converted(self, value: Value, layout: Encoding) -> Value:
        """`value` in `layout`."""
        type = with_layout(value.type, layout)
        return value if value.type is type else self.emit("ttg.convert_layout", (value,), type)

    def transposed(self, value: Value, order: Sequence[int]) -> Value:
        """Dimension i of the result is dimension `order[i]` of `value`."""
        tile, layout = tile_type(value), layout_of(value)
        type = TensorType(permuted(tile.shape, order), tile.element, transposed(layout, tile.shape, tuple(order)).text)
        return self.emit("tt.trans", (value,), type, {"order": DenseArray(i32, tuple(order))})

    def reshaped(self, value: Value, shape: tuple[int, ...]) -> Value:
        """The same elements in the same order in another shape."""
        tile = tile_type(value)
        layout = reshaped(distributed_of(value), tile.shape, shape)
        return self.emit("tt.reshape", (value,), TensorType(shape, tile.element, layout.text))

    def expanded(self, value: Value, axis: int) -> Value:
        """`value` with a new dimension of extent 1; its layout must be a slice along it."""
        tile = tile_type(value)
        shape = (*tile.shape[:axis], 1, *tile.shape[axis:])
        type = TensorType(shape, tile.element, expanded(distributed_of(value), axis).text)
        return self.emit("tt.expand_dims", (value,), type, {"axis": Number(axis, i32)})

    def broadcast(self, value: Value, shape: tuple[int, ...]) -> Value:
        """Copies of what has extent 1 along the dimensions that `shape` makes longer."""
        tile = tile_type(value)
        return self.emit("tt.broadcast", (value,), TensorType(shape, tile.element, tile.encoding))

    def finish(self, name: str, operands: Sequence[Value], type: Type, attributes: dict[str, Attribute]) -> Op:
        """A new op takes the place of the one behind: its first result, in the layout that users expect."""
        made = self.op(name, operands, (type,), attributes)
        self.replace(made.results[0])
        return made

    def replace(self, value: Value) -> None:
        """Users of the op behind get `value`, in the layout that they expect; the op goes."""
        assert self.before is not None, "something is replaced"
        old = self.before.results[0]
        value.name = value.name or old.name
        self.before.replace([self.converted(value, layout_of(old))])
