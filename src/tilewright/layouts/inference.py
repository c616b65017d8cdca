"""The layouts of results that need no data movement: transposed, reshaped, joined, split, with another rank.

blocked = Blocked((1, 4), (4, 8), (4, 1), (1, 0))
reduced(blocked, 1)                        # #ttg.slice<{dim = 1, parent = …}>
transposed(blocked, (64, 32), (1, 0))      # sizePerThread = [4, 1], …, order = [0, 1]
reshaped(blocked, (64, 32), (2048,))       # threads keep their elements; #ttg.linear if no blocked layout fits
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from math import prod

from tilewright.ir.types import Shape
from tilewright.layouts import blocked
from tilewright.layouts.blocked import Workers, default_blocked
from tilewright.layouts.conversion import to_linear_layout
from tilewright.layouts.distributed import Blocked, DotOperand, GenericLinear, Linear, Slice
from tilewright.layouts.encoding import Distributed, Encoding, Shared
from tilewright.layouts.errors import LayoutError, demand
from tilewright.layouts.keys import Bases
from tilewright.layouts.linear_layout import LinearLayout, from_bases
from tilewright.layouts.queries import equivalent, is_expensive_view, num_ctas, order
from tilewright.layouts.shared import NvmmaShared, PaddedShared, PartitionedShared, SharedLinear, SwizzledShared
from tilewright.layouts.walk import dimension_names, shown


def linear_encoding(layout: LinearLayout) -> Linear:
    """The attribute with this linear layout: `linear` where each bit is one step along one dimension."""
    rows = layout.bases
    return linear_of_bases(*(rows[name] for name in ("register", "lane", "warp", "block")))


def linear_of_bases(*parts: Bases) -> Linear:
    """The attribute with these rows of register, lane, warp and block.

    Raises:
        LayoutError: they reach no whole tile.
    """
    try:
        return Linear(*parts)
    except LayoutError:
        return GenericLinear(*parts)


def reduced(layout: Distributed, axis: int) -> Slice:
    """The layout that is left when dimension `axis` is reduced to one element."""
    return Slice(axis, layout)


def expanded(layout: Distributed, axis: int) -> Distributed:
    """The layout with a new dimension `axis` of extent 1.

    Raises:
        LayoutError: the layout is no slice along this dimension.
    """
    if not isinstance(layout, Slice):
        raise LayoutError(f"the operand of tt.expand_dims must have a slice layout, not #{layout.name}")
    demand(layout.dim == axis, f"the operand of tt.expand_dims is a slice along {layout.dim}, not {axis}")
    return layout.parent


def permuted(values: Sequence[int], axes: Sequence[int]) -> Shape:
    """Value `axes[i]` at place i."""
    return tuple(values[axis] for axis in axes)


def inverse(axes: Sequence[int]) -> Shape:
    """The place where each dimension goes when dimension `axes[i]` goes to place i."""
    return tuple(axes.index(axis) for axis in range(len(axes)))


def transposed(layout: Encoding, shape: Shape, axes: Sequence[int]) -> Encoding:
    """The layout of a tile whose dimension i is dimension `axes[i]` of one with `layout` and `shape`."""
    return _transposed(layout, shape, tuple(axes))


@cache
def _transposed(layout: Encoding, shape: Shape, axes: Shape) -> Encoding:
    demand(len(axes) == layout.rank == len(shape), f"{shown(shape)} and {list(axes)} do not fit #{layout.name}")
    back = inverse(axes)
    found: Encoding
    match layout:
        case _ if axes == tuple(range(len(axes))):
            found = layout
        case Blocked():
            found = blocked.transposed(layout, axes)
        case SwizzledShared():
            swizzle = layout.vec, layout.per_phase, layout.max_phase
            found = type(layout)(*swizzle, permuted(back, layout.order), _permuted_rows(layout.cga, axes))
        case NvmmaShared() if axes == (1, 0):
            flags = not layout.transposed, layout.element_bit_width, layout.fp4_padded, 2
            found = NvmmaShared(layout.swizzling_byte_width, *flags, _permuted_rows(layout.cga, axes))
        case PaddedShared():
            rows = _permuted_rows(layout.offset, axes), _permuted_rows(layout.block, axes)
            found = PaddedShared(layout.pads, *rows, permuted(back, layout.order) if layout.order else ())
        case PartitionedShared():
            found = _transposed_parts(layout, shape, axes)
        case _:
            found = _transposed_linear(layout, shape, axes)
    return found


def _transposed_linear(layout: Encoding, shape: Shape, axes: Shape) -> Encoding:
    names = dimension_names(len(shape))
    columns = to_linear_layout(layout, shape).transpose_outs([names[axis] for axis in axes]).columns
    found = LinearLayout(columns, tuple(zip(names, permuted(shape, axes), strict=True)))
    if isinstance(layout, Shared):
        return SharedLinear(found.bases["offset"], found.bases["block"], layout.alignment)
    return linear_encoding(found)


def _permuted_rows(rows: Sequence[Sequence[int]], axes: Sequence[int]) -> tuple[Shape, ...]:
    return tuple(permuted(row, axes) for row in rows)


def _transposed_parts(layout: PartitionedShared, shape: Shape, axes: Shape) -> PartitionedShared:
    pieces = layout.num_partitions * layout.num_groups
    piece = tuple(size // pieces if dim == layout.partition_dim else size for dim, size in enumerate(shape))
    inner = as_shared(transposed(layout.partition_layout, piece, axes))
    return PartitionedShared(layout.num_partitions, layout.num_groups, axes.index(layout.partition_dim), inner)


@cache
def reshaped(layout: Distributed, shape: Shape, result: Shape, *, wish: Distributed | None = None) -> Distributed:
    """The layout of a tile of `shape` that is seen as one of shape `result`.

    Args:
        layout: of the tile.
        shape: of the tile.
        result: as many elements in another shape.
        wish: the layout that the result should have if it may reorder elements; None if it may not.

    Raises:
        LayoutError: the shapes have different numbers of elements.
    """
    demand(prod(shape) == prod(result), f"{shown(shape)} and {shown(result)} have different numbers of elements")
    if wish is not None and not is_expensive_view(layout, shape, wish, result):
        return wish
    if isinstance(layout, Blocked):
        if shape == result:
            return layout
        workers = Workers(prod(layout.warps_per_cta), prod(layout.threads_per_warp), num_ctas(layout))
        usual = default_blocked(result, workers)
        if layout is default_blocked(shape, workers) and (not layout.cga or _is_view(layout, shape, usual, result)):
            return usual  # with fewer elements than CTAs others may have the copies
    around = _with_or_without_one(layout, shape, result)
    if around is not None:
        return around
    if isinstance(layout, Blocked):
        kept = blocked.reshaped_blocked(layout, shape, result)
        if kept is not None:
            return kept
    return linear_encoding(_seen_as(layout, shape, result))


def _seen_as(layout: Distributed, shape: Shape, result: Shape) -> LinearLayout:
    """The linear layout of a tile of `shape` that is seen as one of shape `result`."""
    return to_linear_layout(layout, shape).reshape_outs(zip(dimension_names(len(result)), result, strict=True))


def _is_view(layout: Distributed, shape: Shape, other: Distributed, result: Shape) -> bool:
    """Whether every element of a tile of `shape` is where it is as one of shape `result` in another layout."""
    return _seen_as(layout, shape, result) == to_linear_layout(other, result)


def _with_or_without_one(layout: Distributed, shape: Shape, result: Shape) -> Distributed | None:
    """The layout where a dimension of extent 1 comes or goes, as for `expanded` and `reduced`; only blocked ones."""
    root = layout
    while isinstance(root, Slice):
        root = root.parent
    if not isinstance(root, Blocked):
        return None
    if isinstance(layout, Slice) and result == (*shape[: layout.dim], 1, *shape[layout.dim :]):
        return layout.parent
    gone = (axis for axis, size in enumerate(shape) if size == 1 and result == (*shape[:axis], *shape[axis + 1 :]))
    axis = next(gone, None)
    return None if axis is None else Slice(axis, layout)


@cache
def joined(layout: Distributed, shape: Shape) -> Distributed:
    """The layout of two tiles of `shape` side by side in a new last dimension; a thread has both elements."""
    rank = len(shape)
    match layout:
        case Slice(dim=dim, parent=parent) if dim == rank:
            before = split_or_none(parent, (*shape, 2))
            if before is not None and equivalent(before, layout, shape):
                return parent
        case Blocked():
            return blocked.joined(layout)
    found = to_linear_layout(layout, shape)
    outs = tuple(zip(dimension_names(rank + 1), (*shape, 2), strict=True))
    columns = {name: tuple(column << 1 for column in columns) for name, columns in found.columns.items()}
    columns["register"] = (1, *columns["register"])
    return linear_encoding(LinearLayout(columns, outs))


@cache
def split(layout: Distributed, shape: Shape) -> Distributed:
    """The layout of the two halves of a tile of `shape` along its last dimension, which is 2.

    Raises:
        LayoutError: the dimension is not 2, or no thread has both elements.
    """
    if isinstance(layout, Blocked) and _ends_in_pairs(layout):
        return blocked.split(layout)
    demand(shape[-1] == 2, f"the last dimension of what tt.split divides must be 2, not {shape[-1]}")
    halved = _halved(layout, shape, len(shape) - 1)
    outs = tuple(zip(dimension_names(len(shape) - 1), shape[:-1], strict=True))
    return linear_encoding(LinearLayout(halved.columns, outs))


def split_or_none(layout: Distributed, shape: Shape) -> Distributed | None:
    """The layouts that `split` gives; None if that raises."""
    try:
        return split(layout, shape)
    except LayoutError:
        return None


def _ends_in_pairs(layout: Blocked) -> bool:
    last = layout.size_per_thread[-1], layout.threads_per_warp[-1], layout.warps_per_cta[-1]
    return last == (2, 1, 1) and not any(row[-1] for row in layout.cga)


def _halved(layout: Distributed, shape: Shape, axis: int) -> LinearLayout:
    """Every second element along `axis`; the register that holds the others goes away."""
    found = to_linear_layout(layout, shape)
    rows = found.bases
    pairs = [bit for bit, row in enumerate(rows["register"]) if row[axis] == 1]
    demand(pairs, f"each thread must have two neighbours along dimension {axis}")
    kept = {**rows, "register": tuple(row for bit, row in enumerate(rows["register"]) if bit not in pairs)}
    outs = [(name, size // 2 if dim == axis else size) for dim, (name, size) in enumerate(found.outs)]
    return from_bases({name: [_scaled(row, axis, 1, 2) for row in some] for name, some in kept.items()}, outs)


def _scaled(row: Sequence[int], axis: int, times: int, over: int) -> list[int]:
    """A step that goes `times` / `over` as far along `axis`."""
    return [step * times // over if dim == axis else step for dim, step in enumerate(row)]


def unpacked_fp4(layout: Distributed, shape: Shape, axis: int) -> Distributed:
    """The layout after each byte of a tile of `shape` has become two numbers along `axis`."""
    if order(layout, shape)[0] == axis:
        match layout:
            case DotOperand(k_width=width):
                return DotOperand(layout.op_index, layout.parent, width * 2)
            case Blocked():
                return _with_size(layout, axis, layout.size_per_thread[axis] * 2)
    found = to_linear_layout(layout, shape)
    outs = [(name, size * 2 if dim == axis else size) for dim, (name, size) in enumerate(found.outs)]
    wide = {name: [_scaled(row, axis, 2, 1) for row in rows] for name, rows in found.bases.items()}
    wide["register"].insert(0, [int(dim == axis) for dim in range(len(shape))])
    return linear_encoding(from_bases(wide, outs))


def packed_fp4(layout: Distributed, shape: Shape, axis: int) -> Distributed:
    """The layout of the bytes that become a tile of `shape`, two numbers along `axis` from each.

    Raises:
        LayoutError: no thread has two neighbours along `axis`.
    """
    if order(layout, shape)[0] == axis:
        problem = f"each thread must have two neighbours along dimension {axis}"
        match layout:
            case DotOperand(k_width=width):
                demand(width > 1, problem)
                return DotOperand(layout.op_index, layout.parent, width // 2)
            case Blocked():
                demand(layout.size_per_thread[axis] > 1, problem)
                return _with_size(layout, axis, layout.size_per_thread[axis] // 2)
    return linear_encoding(_halved(layout, shape, axis))


def _with_size(layout: Blocked, axis: int, size: int) -> Blocked:
    sizes = (*layout.size_per_thread[:axis], size, *layout.size_per_thread[axis + 1 :])
    return Blocked(sizes, layout.threads_per_warp, layout.warps_per_cta, layout.order, layout.cga)


def as_shared(layout: Encoding) -> Shared:
    """`layout`, which is one of shared memory."""
    assert isinstance(layout, Shared), f"#{layout.name} is no layout of shared memory"
    return layout


@cache
def reshaped_memory(layout: Encoding, shape: Shape, result: Shape) -> Shared:
    """The layout of a buffer of `shape` that is seen as one of shape `result`, every element where it is.

    Raises:
        LayoutError: the shapes have different numbers of elements.
    """
    demand(prod(shape) == prod(result), f"{shown(shape)} and {shown(result)} have different numbers of elements")
    layout = as_shared(layout)
    if shape == result:
        return layout
    outs = tuple(zip(dimension_names(len(result)), result, strict=True))
    found = to_linear_layout(layout, shape).reshape_outs(outs)
    if isinstance(layout, NvmmaShared):
        flags = layout.transposed, layout.element_bit_width, layout.fp4_padded, len(result)
        kept = _kept(layout, flags, result, found)
        if kept is not None:
            return kept
    if isinstance(layout, PaddedShared):
        return PaddedShared(layout.pads, found.bases["offset"], found.bases["block"])
    return SharedLinear(found.bases["offset"], found.bases["block"], layout.alignment)


def _kept(
    layout: NvmmaShared, flags: tuple[bool, int, bool, int], shape: Shape, wanted: LinearLayout
) -> NvmmaShared | None:
    """The layout of the same kind for tiles of `shape`, if it says the same."""
    block = tuple(wanted.bases["block"])
    try:
        found = NvmmaShared(layout.swizzling_byte_width, *flags, tuple(map(tuple, block)))
        same = to_linear_layout(found, shape) == wanted
    except LayoutError:
        return None
    return found if same else None
