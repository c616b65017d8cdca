"""Creation and reshaping of tiles.

arange(0, 128)        tt.make_range {start = 0, end = 128}
full((4, 4), 0, fp32) arith.constant dense<0.0>
join(a, b)            tt.join: a new last axis of extent 2
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from tilewright.ir.attributes import Attribute, DenseArray, Keyword, Number
from tilewright.ir.types import Shape, i32
from tilewright.semantics.active import active
from tilewright.semantics.arithmetic import to_tensor
from tilewright.semantics.broadcasting import broadcast, broadcast_to, expand_dims
from tilewright.semantics.casting import cast
from tilewright.semantics.constexpr import unwrap, unwrap_all
from tilewright.semantics.distributed import distributed_type
from tilewright.semantics.errors import (
    AxisOutOfRange,
    BadArgument,
    BadIndex,
    BadPermutation,
    MustBeConstant,
    MustBeWhole,
    NoSuchProgramAxis,
    NumelDiffers,
    RangeNotPowerOfTwo,
    SameAxisTwice,
    ShapesDiffer,
)
from tilewright.semantics.promotion import number_as
from tilewright.semantics.tile import Tile, build, constant
from tilewright.semantics.types import as_block, block_type, dtype, int32, pointer_type, shaped, uint64
from tilewright.support.diagnostics import SemanticError

AXES = (Keyword("x"), Keyword("y"), Keyword("z"))


def constant_int(value: Any, name: str) -> int:
    """`value` as a compile-time integer.

    Raises:
        SemanticError: it is a run-time value, or no integer.
    """
    value = unwrap(value)
    if isinstance(value, Tile):
        known = active().concrete(value.handle)
        if known is None:
            raise SemanticError(MustBeConstant(name, str(value.type)))
        value = known
    if not isinstance(value, int):
        kind = type(value)
        package = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
        raise SemanticError(MustBeWhole(name, repr(value), f"of type {package}{kind.__name__}"))
    return int(value)


def constant_shape(shape: Any, name: str = "shape") -> Shape:
    """`shape` (a number, or a sequence of them) as compile-time extents."""
    shape = unwrap_all(shape)
    extents = shape if isinstance(shape, tuple) else (shape,)
    return tuple(constant_int(extent, name) for extent in extents)


def checked_axis(axis: Any, rank: int) -> int:
    """`axis` counted from 0."""
    position = constant_int(axis, "axis")
    if not -rank <= position < rank:
        raise SemanticError(AxisOutOfRange(position, rank))
    return position % rank


def program_id(axis: Any) -> Tile:
    """The index of this program along grid axis 0, 1 or 2."""
    return build("tt.get_program_id", [], int32, {"axis": _grid_axis(axis)})


def num_programs(axis: Any) -> Tile:
    """The number of programs along grid axis 0, 1 or 2."""
    return build("tt.get_num_programs", [], int32, {"axis": _grid_axis(axis)})


def _grid_axis(axis: Any) -> Keyword:
    position = constant_int(axis, "axis")
    if not 0 <= position <= 2:
        raise SemanticError(NoSuchProgramAxis(position))
    return AXES[position]


def arange(start: Any, end: Any, layout: Any = None) -> Tile:
    """int32 values start … end - 1; their number must be a power of two. In Gluon the tile has a layout."""
    first, last = constant_int(start, "start"), constant_int(end, "end")
    if not 0 <= first < last <= 2**31:
        raise SemanticError(BadArgument("arange", "start, end", f"({first}, {last})", "0 <= start < end <= 2**31"))
    if last - first & last - first - 1:
        raise SemanticError(RangeNotPowerOfTwo(first, last))
    attributes: dict[str, Attribute] = {"start": Number(first, i32), "end": Number(last, i32)}
    shape = (last - first,)
    kind = block_type(int32, shape) if layout is None else distributed_type(int32, shape, layout)
    return build("tt.make_range", [], kind, attributes)


def full(shape: Any, value: Any, element: Any) -> Tile:
    """A tile of `shape` with `value` (number or scalar) everywhere; the shape `()` gives a scalar."""
    if isinstance(unwrap(shape), int):
        raise SemanticError(BadArgument("full", "shape", unwrap(shape), "a tuple or list of extents: [N]"))
    extents, target = constant_shape(shape), unwrap(element)
    if isinstance(value, Tile):
        if value.type.shape:
            raise SemanticError(BadArgument("full", "value", value.type, "a number or a scalar"))
        return broadcast_to(cast(value, target), extents) if extents else cast(value, target)
    if not isinstance(target, dtype):
        raise SemanticError(BadArgument("full", "dtype", target, "an element type such as tl.float32"))
    if isinstance(target, pointer_type):
        address = to_tensor(unwrap(value))
        pointer = cast(cast(address, uint64), target)
        return broadcast_to(pointer, extents) if extents else pointer
    return constant(number_as(_storable(unwrap(value), target), target), shaped(target, extents))


def _storable(number: Any, target: dtype) -> Any:
    """`number`, which fits the kind of `target`: integers hold no fractions, and unsigned ones nothing negative."""
    if number != 0 and target.integer and target.primitive_bitwidth > 1:
        least, most = (-(2**63), 2**63) if target.signed else (0, 2**64)
        if not isinstance(number, int) or not least <= number < most:
            expected = f"a whole number{'' if target.signed else ', not negative'}; or write tl.cast(value, dtype)"
            raise SemanticError(BadArgument(f"full of {target}", "value", number, expected))
    return number


def unsplat(tile: Tile) -> Tile:
    """The only element of a tile as a scalar."""
    if prod(tile.type.shape) != 1:
        raise SemanticError(NumelDiffers(tile.type.shape, ()))
    return build("tt.unsplat", [tile.handle], tile.type.scalar) if tile.type.shape else tile


def reshape(value: Any, shape: Any, *, allow_reorder: bool = False) -> Tile:
    """The same elements in another shape; with `allow_reorder` in any order that suits the target."""
    tile, extents = to_tensor(value), constant_shape(shape)
    if tile.type.shape == extents:
        return tile
    if prod(tile.type.shape) != prod(extents):
        raise SemanticError(NumelDiffers(tile.type.shape, extents))
    if not extents:
        return unsplat(tile)
    if not tile.type.shape:
        return build("tt.splat", [tile.handle], block_type(tile.type.scalar, extents))
    attributes: dict[str, Attribute] | None = {"allow_reorder": True} if allow_reorder else None
    return build("tt.reshape", [tile.handle], as_block(tile.type).reshaped(extents), attributes)


def expand(value: Any, axis: Any) -> Tile:
    """`value` with new axes of extent 1 at the positions `axis` (one or several) of the result."""
    tile, places = to_tensor(value), constant_shape(axis, "axis")
    rank = len(tile.type.shape) + len(places)
    positions = sorted(checked_axis(place, rank) for place in places)
    if len(set(positions)) != len(positions):
        raise SemanticError(SameAxisTwice(positions))
    for position in positions:
        tile = expand_dims(tile, position)
    return tile


def broadcast_shape(value: Any, shape: Any) -> Tile:
    """`value` stretched to `shape`."""
    tile, extents = to_tensor(value), constant_shape(shape)
    return broadcast_to(tile, extents) if extents else tile


def permute(tile: Tile, order: Any) -> Tile:
    """Axis i of the result is axis `order[i]` of `tile`."""
    rank, axes = len(tile.type.shape), constant_shape(order, "dims")
    if sorted(axes) != list(range(rank)):
        raise SemanticError(BadPermutation(axes, rank))
    if axes == tuple(range(rank)):
        return tile
    result = as_block(tile.type).permuted(axes)
    return build("tt.trans", [tile.handle], result, {"order": DenseArray(i32, axes)})


def transpose(tile: Tile) -> Tile:
    """The last two axes swapped."""
    rank = len(tile.type.shape)
    if rank < 2:
        raise SemanticError(AxisOutOfRange(1, rank))
    return permute(tile, (*range(rank - 2), rank - 1, rank - 2))


def join(lhs: Any, rhs: Any) -> Tile:
    """Both tiles side by side on a new last axis of extent 2."""
    a, b = broadcast(to_tensor(lhs), to_tensor(rhs))
    if a.type is not b.type:
        raise SemanticError(ShapesDiffer("join", a.type, b.type))
    if not a.type.shape:
        one = block_type(a.type.scalar, (1,))
        pair = join(build("tt.splat", [a.handle], one), build("tt.splat", [b.handle], one))
        return reshape(pair, (2,))
    return build("tt.join", [a.handle, b.handle], as_block(a.type).joined())


def split(tile: Tile) -> tuple[Tile, Tile]:
    """The two halves along the last axis, whose extent is 2."""
    shape = tile.type.shape
    if not shape or shape[-1] != 2:
        raise SemanticError(BadArgument("split", "shape", shape, "a last extent of 2"))
    if len(shape) == 1:
        first, second = split(reshape(tile, (1, 2)))
        return unsplat(first), unsplat(second)
    half = as_block(tile.type).halved()
    first_handle, second_handle = active().emit("tt.split", [tile.handle], (half.ir, half.ir))
    return Tile.concrete(first_handle, half), Tile.concrete(second_handle, half)


def cat(lhs: Any, rhs: Any, axis: int, *, can_reorder: bool) -> Tile:
    """Both tiles one after the other along `axis`; `can_reorder` lets the target choose the order of elements."""
    a, b = to_tensor(lhs), to_tensor(rhs)
    if a.type is not b.type or not a.type.shape:
        raise SemanticError(ShapesDiffer("cat", a.type, b.type))
    shape = a.type.shape
    position = checked_axis(axis, len(shape))
    if can_reorder:
        if len(shape) != 1:
            raise SemanticError(BadArgument("cat", "can_reorder", True, "one-dimensional tiles"))
        return build("tt.cat", [a.handle, b.handle], block_type(a.type.scalar, (shape[0] * 2,)))
    rank = len(shape)
    order = (*range(position), rank, *range(position, rank))
    doubled = (*shape[:position], shape[position] * 2, *shape[position + 1 :])
    return reshape(permute(join(a, b), order), doubled)


def gather(source: Tile, index: Tile, axis: Any) -> Tile:
    """`source[…, index[…], …]` along `axis`; the shapes agree everywhere else."""
    shape, wanted = source.type.shape, index.type.shape
    if not index.type.scalar.integer:
        raise SemanticError(BadArgument("gather", "index", index.type, "integers"))
    position = checked_axis(axis, len(shape))
    others = [*shape[:position], *shape[position + 1 :]]
    if len(shape) != len(wanted) or others != [*wanted[:position], *wanted[position + 1 :]]:
        raise SemanticError(ShapesDiffer("gather", source.type, index.type))
    result = index.type.with_element_ty(source.type.scalar)
    return build("tt.gather", [source.handle, index.handle], result, {"axis": Number(position, i32)})


def index_tile(tile: Tile, keys: Any) -> Tile:
    """`tile[keys]`, where every key is `:` or None; as in Triton, a `:` for which there is no axis changes nothing."""
    items: Sequence[Any] = keys if isinstance(keys, tuple) else (keys,)
    for axis, key in enumerate(items):
        item = unwrap(key)
        if item is None:
            tile = expand_dims(tile, axis)
        elif not (isinstance(item, slice) and item == slice(None)):
            raise SemanticError(BadIndex(str(item)))
    return tile
