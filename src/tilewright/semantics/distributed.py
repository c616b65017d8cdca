"""Tiles with a layout, the types of Gluon: the type includes the mapping of elements to threads.

    distributed_type(float32, (128,), BlockedLayout([4], [32], [1], [0]))     tensor<128xf32, #ttg.blocked<{…}>>

Operations on several tiles require one layout, or `AutoLayout`, which takes that of the others. Nothing is converted
implicitly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, TypeVar

from tilewright.ir.types import Shape, TensorType
from tilewright.layouts import inference
from tilewright.layouts.encodings import Blocked, Distributed, Encoding, LayoutError, Slice
from tilewright.semantics.constexpr import unwrap
from tilewright.semantics.errors import LayoutsDiffer, WrongLayout
from tilewright.semantics.layout_values import (
    AutoLayout,
    CoalescedLayout,
    DistributedLayout,
    SliceLayout,
    interned,
    layout_of,
)
from tilewright.semantics.tile import Tile, build
from tilewright.semantics.types import AnyType, block_type, dtype
from tilewright.support.diagnostics import SemanticError

Result = TypeVar("Result")
OPEN = (AutoLayout, CoalescedLayout)
"""Layouts that the compiler fills in."""


class distributed_type(block_type):  # noqa: N801 - Triton's name
    """A tile whose elements are dealt out to threads as `layout` says."""

    __slots__ = ("_layout",)
    _distributed: ClassVar[dict[tuple[dtype, Shape, Encoding], distributed_type]] = {}
    _layout: DistributedLayout

    def __new__(cls, element_ty: dtype, shape: Sequence[int], layout: Any) -> distributed_type:
        value = unwrap(layout)
        if not isinstance(value, DistributedLayout):
            raise SemanticError(WrongLayout(f"expected 'layout' to be a DistributedLayout but got {value}"))
        extents = tuple(int(extent) for extent in shape)
        encoding = checked(lambda: value.encoding)
        key = (element_ty, extents, encoding)
        found = cls._distributed.get(key)
        if found is not None:
            return found
        plain = block_type(element_ty, extents)
        if not isinstance(value, OPEN) and value.rank != len(extents):
            problem = f"shape={list(extents)}, layout={value}, shape rank={len(extents)}, layout rank={value.rank}"
            raise SemanticError(WrongLayout(f"tensor shape and layout rank mismatch: {problem}"))
        self = object.__new__(cls)
        self.element_ty = self.scalar = element_ty
        self.shape, self.numel, self._layout = extents, plain.numel, interned(value)
        self.ir = TensorType(extents, element_ty.ir, encoding.text)
        self.name = f"<{list(extents)}, {element_ty}, {value}>"
        cls._distributed[key] = self
        return self

    def __reduce__(self) -> tuple[Any, Any]:
        return distributed_type, (self.element_ty, self.shape, self._layout)

    @property
    def layout(self) -> DistributedLayout:
        """The thread that holds each element."""
        return self._layout

    def mangle(self) -> str:
        return f"{super().mangle()}L{self._layout.mangle()}L"

    def with_element_ty(self, scalar_ty: dtype) -> block_type:
        """The tile of the same shape and layout with other elements."""
        return distributed_type(scalar_ty, self.shape, self._layout)

    def stretched(self, shape: Shape) -> block_type:
        """The type after extents of 1 became those of `shape`."""
        return distributed_type(self.element_ty, shape, self._layout)

    def expanded(self, axis: int) -> block_type:
        """The type with a new axis of extent 1, along which the layout must be a slice."""
        layout = self._layout
        if not isinstance(layout, OPEN):
            if not isinstance(layout, SliceLayout):
                raise SemanticError(WrongLayout(f"expected expand_dims input to have a SliceLayout, but got: {layout}"))
            if layout.dim != axis:
                problem = f"expected expand_dims input layout to be sliced in axis {axis} but got {layout.dim}"
                raise SemanticError(WrongLayout(problem))
            layout = layout.parent
        return distributed_type(self.element_ty, (*self.shape[:axis], 1, *self.shape[axis:]), layout)

    def reshaped(self, shape: Shape) -> block_type:
        """The type of the same elements in another shape; no element moves to another thread."""
        return self._inferred(shape, lambda layout: inference.reshaped(layout, self.shape, shape))

    def permuted(self, axes: Shape) -> block_type:
        """The type whose axis i is axis `axes[i]` of this one."""
        shape = tuple(self.shape[axis] for axis in axes)
        return self._inferred(shape, lambda layout: inference.transposed(layout, self.shape, axes))

    def joined(self) -> block_type:
        """The type of two such tiles side by side on a new last axis."""
        return self._inferred((*self.shape, 2), lambda layout: inference.joined(layout, self.shape))

    def halved(self) -> block_type:
        """The type of each half along the last axis, whose elements must be in one thread."""
        return self._inferred(self.shape[:-1], lambda layout: _split(layout, self.shape))

    def unpacked(self, axis: int) -> block_type:
        """The type after each element became two of half as many bits along `axis`."""
        shape = tuple(extent * 2 if dim == axis else extent for dim, extent in enumerate(self.shape))
        return self._inferred(shape, lambda layout: inference.unpacked_fp4(layout, self.shape, axis))

    def reduced(self, axis: int) -> AnyType:
        """The type after one axis became a single element."""
        shape = (*self.shape[:axis], *self.shape[axis + 1 :])
        return self._inferred(shape, lambda layout: inference.reduced(layout, axis)) if shape else self.element_ty

    def _inferred(self, shape: Shape, infer: Callable[[Distributed], Encoding]) -> distributed_type:
        if isinstance(self._layout, OPEN):
            return distributed_type(self.element_ty, shape, self._layout)
        encoding = checked(lambda: infer(self._layout.encoding))
        return distributed_type(self.element_ty, shape, layout_of(encoding, shape))


def _split(layout: Distributed, shape: Shape) -> Distributed:
    """The layout of the halves: a slice of a blocked layout, as Triton has it in Gluon only."""
    found = inference.split(layout, shape)
    return Slice(len(shape) - 1, layout) if isinstance(layout, Blocked) else found


def checked(compute: Callable[[], Result]) -> Result:
    """The result of `compute`; rules of layouts that are broken are the program's mistake."""
    try:
        return compute()
    except LayoutError as error:
        raise SemanticError(WrongLayout(str(error))) from error


def common_layout(left: AnyType, right: AnyType) -> DistributedLayout:
    """The common layout of two tiles: theirs, or that of the one that has no `AutoLayout`.

    Raises:
        SemanticError: the layouts differ, or one has none.
    """
    first, second = left.layout, right.layout
    for kind in (left, right):
        if kind.layout is None:
            raise SemanticError(WrongLayout(f"expected broadcast input to be a distributed_type but got: {kind}"))
    if first is second or isinstance(second, AutoLayout):
        found = first
    elif isinstance(first, AutoLayout):
        found = second
    elif isinstance(first, OPEN) or isinstance(second, OPEN):
        raise SemanticError(WrongLayout(f"Layout mismatch in broadcast: {first} vs {second}"))
    else:
        shape = "x".join(str(max(extents)) for extents in zip(left.shape, right.shape, strict=False))
        texts = first.encoding.text, second.encoding.text
        raise SemanticError(LayoutsDiffer(str(first), str(second), *texts, shape))
    assert isinstance(found, DistributedLayout), "tiles have such layouts"
    return found


def settled(tile: Tile, other: Any) -> Tile:
    """`tile`, whose layout is set to that of `other` (a tile or a layout) if it is `AutoLayout`."""
    layout = other.type.layout if isinstance(other, Tile) else other
    if not isinstance(tile.type.layout, AutoLayout) or not isinstance(layout, DistributedLayout):
        return tile
    if isinstance(layout, AutoLayout):
        return tile
    return set_auto_layout(tile, layout)


def set_auto_layout(tile: Tile, layout: DistributedLayout) -> Tile:
    """`tile`, which has `AutoLayout`, in this layout.

    Raises:
        SemanticError: it has another one.
    """
    if not isinstance(layout, DistributedLayout):
        raise SemanticError(WrongLayout(f"set_auto_layout must set to a distributed layout but got {layout}"))
    if not isinstance(tile.type.layout, AutoLayout):
        problem = f"set_auto_layout input must have auto layout but got {tile.type.layout}"
        raise SemanticError(WrongLayout(problem))
    result = distributed_type(tile.type.scalar, tile.type.shape, layout)
    return build("gluon.set_auto_layout", [tile.handle], result)


def aligned_shape(left: Shape, right: Shape) -> Shape:
    """The shape that two tiles with layouts stretch to; their ranks must be equal.

    Raises:
        SemanticError: ranks differ, or two extents of which neither is 1.
    """
    if len(left) != len(right):
        raise SemanticError(WrongLayout(f"Cannot broadcast, rank mismatch: {list(left)}, {list(right)}"))
    for axis, (a, b) in enumerate(zip(left, right, strict=True)):
        if a != b and 1 not in (a, b):
            problem = f"incompatible dimensions at index {axis}: {a} and {b}"
            raise SemanticError(WrongLayout(f"Cannot make_shape_compatible: {problem}"))
    return tuple(b if a == 1 else a for a, b in zip(left, right, strict=True))
