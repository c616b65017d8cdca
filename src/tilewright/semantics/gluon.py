"""Layouts in Gluon's programs: conversions, and layouts as matrices."""

from __future__ import annotations

from typing import Any

from tilewright.layouts.conversion import to_linear_layout
from tilewright.layouts.movement import reorders_registers
from tilewright.layouts.tensor_memory import WORD, linear_memory
from tilewright.semantics.distributed import OPEN, checked, distributed_type
from tilewright.semantics.errors import WrongLayout
from tilewright.semantics.layout_values import (
    AutoLayout,
    DistributedLayout,
    DistributedLinearLayout,
    Layout,
    Numbers,
    Rows,
    linear_layout,
)
from tilewright.semantics.shared_layouts import (
    SharedLayout,
    SharedLinearLayout,
    TensorMemoryLayout,
    TensorMemoryScalesLayout,
)
from tilewright.semantics.tile import Tile, build
from tilewright.support.diagnostics import SemanticError


class TensorMemoryLinearLayout(Layout):
    """A layout of tensor memory as rows of steps, to be printed."""

    rows: Rows
    cols: Rows
    shape: Numbers


def converted(tile: Tile, layout: Any, *, trivial: bool) -> Tile:
    """`tile` in another layout; with `trivial` an error if elements would have to move.

    Raises:
        SemanticError: no tile with a layout, or no layout.
    """
    if not isinstance(tile, Tile) or not isinstance(tile.type, distributed_type):
        kind = tile.type if isinstance(tile, Tile) else type(tile).__name__
        raise SemanticError(WrongLayout(f"expected convert_layout input to be a distributed_type but got: {kind}"))
    if not isinstance(layout, DistributedLayout):
        raise SemanticError(WrongLayout(f"expected 'layout' to be a DistributedLayout but got {layout}"))
    result = distributed_type(tile.type.scalar, tile.type.shape, layout)
    if trivial and not is_trivial(tile.type, layout):
        problem = f"layout conversion from {tile.type.layout} to {layout} is not trivial."
        shown = [str(linear_value(value, tile.type.shape)) for value in (tile.type.layout, layout)]
        raise SemanticError(WrongLayout("\n".join([problem, "The linear layouts are:", *shown])))
    return build("ttg.convert_layout", [tile.handle], result)


def is_trivial(kind: distributed_type, layout: DistributedLayout) -> bool:
    """Whether each thread has the elements of a tile that it has in `layout`."""
    if isinstance(kind.layout, OPEN) or isinstance(layout, OPEN):
        return False
    return checked(lambda: reorders_registers(kind.layout.encoding, layout.encoding, kind.shape))


def linear_value(layout: Any, shape: tuple[int, ...]) -> Layout:
    """The layout of tiles of `shape` as rows per bit of register, lane, warp and CTA, or of the place in memory."""
    if not isinstance(layout, Layout):
        problem = f"Expected a DistributedLayout, SharedLayout, or TensorMemoryLayout, got {layout}"
        raise SemanticError(WrongLayout(problem))
    if isinstance(layout, (AutoLayout, DistributedLinearLayout, SharedLinearLayout)):
        return layout
    encoding: Any = checked(lambda: layout.encoding)
    if isinstance(layout, (TensorMemoryLayout, TensorMemoryScalesLayout)):
        memory = checked(lambda: linear_memory(encoding, shape, WORD // getattr(layout, "col_stride", 4))).bases
        return TensorMemoryLinearLayout(memory["row"], memory["col"], shape)
    rows = checked(lambda: to_linear_layout(encoding, shape)).bases
    if isinstance(layout, SharedLayout):
        return SharedLinearLayout(rows["offset"], rows["block"], encoding.alignment)
    return linear_layout([rows[name] for name in ("register", "lane", "warp", "block")], shape)
