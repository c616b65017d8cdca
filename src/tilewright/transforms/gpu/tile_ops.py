"""Making ops on tiles in front of another op; types of views follow from what they are views of.

ops = TileOps(dot)
turned = ops.transposed(a, (1, 0))        # %t = tt.trans %a {order = array<i32: 1, 0>} : …, its layout transposed
wide = ops.cast("arith.extf", turned, f32)
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.ir.attributes import Attribute, DenseArray, Number
from tilewright.ir.core import Op, Value, tile_type
from tilewright.ir.types import TensorType, Type, i32
from tilewright.layouts.encodings import Encoding
from tilewright.layouts.inference import expanded, permuted, reshaped, transposed
from tilewright.transforms.gpu.relayout import distributed_of, layout_of, with_layout
from tilewright.transforms.op_builder import OpBuilder


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
