"""The tensor memory of sm_100: 128 rows of columns of 4 bytes, and the layouts in which warps load and store it.

    accumulator = TensorMemory(block_m=128, block_n=64, column_stride=1)
    tensor_memory_layout(accumulator, (128, 64)).ins           # ("row", "col", "block")
    access_layout(accumulator, (128, 64), bits=32, warps=4)    # #ttg.linear<{…}>: a lane has a row

Warp i of each group of four reaches rows 32i to 32i+31 only.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from functools import cache
from math import prod

from tilewright.ir.types import Shape
from tilewright.layouts.distributed import Linear
from tilewright.layouts.encoding import encoding
from tilewright.layouts.errors import demand
from tilewright.layouts.keys import cga_layout
from tilewright.layouts.linear_layout import LinearLayout, from_bases, identity_1d, log2, zeros_1d
from tilewright.layouts.shared import TensorMemory, TensorMemoryScales
from tilewright.layouts.walk import dimension_names, shape_of_block, shown

Memory = TensorMemory | TensorMemoryScales
WORD = 32
ROWS = 128


class Access(Enum):
    """The shape that one load or store gives a warp: lanes by bits of a row."""

    ROWS_32 = "32x32b"
    ROWS_16_64 = "16x64b"
    ROWS_16_128 = "16x128b"
    ROWS_16_256 = "16x256b"


def with_stride(layout: TensorMemory, bits: int) -> TensorMemory:
    """The layout as 3.9 writes it; 3.5.1's depends on the width of the elements."""
    if layout.column_stride:
        return layout
    splits = layout.split_m, layout.split_n
    return TensorMemory(
        layout.block_m, layout.block_n, WORD // bits if layout.unpacked else 1, cga=cga_layout(splits, splits, (0, 1))
    )


def tensor_memory_layout(layout: TensorMemory, shape: Shape) -> LinearLayout:
    """Map from row, col (in elements) and block to places in the tile. A row without elements is a copy of others."""
    demand(layout.column_stride, "a layout with unpacked has no linear layout before the width of elements is known")
    inside = shape_of_block(shape, layout.cga)
    rows, columns = inside
    block_n = min(layout.block_n, columns)
    row = [(1 << bit, 0) for bit in range(4)]
    column = [(0, 0)] * log2(layout.column_stride) + [(0, 1 << bit) for bit in range(log2(block_n))]
    covered = [layout.block_m, block_n]
    if layout.block_m == 64 and not layout.two_ctas:
        # The second sixteen rows of each warp hold the next block, if there is one.
        other = (64, 0) if rows > 64 else (0, block_n) if columns > block_n else (0, 0)
        row += [other, (16, 0), (32, 0)]
        covered = [max(64, 2 * other[0]), max(block_n, 2 * other[1])]
    else:
        row += [(1 << bit, 0) for bit in range(4, log2(layout.block_m))]
        if layout.block_m == 64:
            demand(block_n > 1, "two blocks with 64 rows each need two columns or more")
            row.append(column.pop())
    demand(rows >= covered[0] and columns >= covered[1], f"#{layout.name} has blocks larger than {shown(inside)}")
    column += [(covered[0] << bit, 0) for bit in range(log2(rows // covered[0]))]
    column += [(0, covered[1] << bit) for bit in range(log2(columns // covered[1]))]
    return _with_blocks({"row": row, "col": column}, layout, shape)


def scales_layout(layout: TensorMemoryScales, shape: Shape) -> LinearLayout:
    """The `tensor_memory_layout` of scales: pieces of 32 rows by 4 bytes, of which each of four warps has a copy."""
    rows, columns = shape_of_block(shape, layout.cga)
    row = [(1 << bit, 0) for bit in range(5)] + [(0, 0)] * 2
    column = [(0, 1), (0, 2), (32, 0)]
    column += [(64 << bit, 0) for bit in range(log2(max(rows // 64, 1)))]
    column += [(0, 4 << bit) for bit in range(log2(max(columns // 4, 1)))]
    parts = {
        name: [(a if a < rows else 0, b if b < columns else 0) for a, b in steps]
        for name, steps in (("row", row), ("col", column))
    }
    return _with_blocks(parts, layout, shape)


def _with_blocks(parts: dict[str, list[tuple[int, int]]], layout: Memory, shape: Shape) -> LinearLayout:
    inside = shape_of_block(shape, layout.cga)
    block = [tuple(step * size for step, size in zip(row, inside, strict=True)) for row in layout.cga]
    return from_bases({**parts, "block": block}, tuple(zip(dimension_names(2), shape, strict=True)))


@cache
def access_layout(
    layout: Memory, shape: Shape, *, bits: int, warps: int, access: Access = Access.ROWS_32
) -> Linear | None:
    """The layout in which warps load or store a tile; None if this access cannot reach it.

    Args:
        layout: of the tile in tensor memory.
        shape: its extents.
        bits: of an element.
        warps: the number of warps.
        access: the lanes and columns that one instruction reaches.

    Raises:
        LayoutError: there are not four warps, or a power of two times as many.
    """
    demand(warps >= 4 and warps & (warps - 1) == 0, f"tensor memory needs 4 warps, or 8, …, not {warps}")
    found = _accessed(linear_memory(layout, shape, bits), access, warps, bits)
    return None if found is None else Linear(*(found.bases[name] for name in ("register", "lane", "warp", "block")))


def split_layout(layout: Memory, shape: Shape, *, bits: int) -> Linear | None:
    """A long tile's layout for eight warps, the second four in the other half of the rows; None if there is none."""
    found = access_layout(layout, shape, bits=bits, warps=8)
    if found is None:
        return None
    for dim in (0, 1):
        still = [not row[dim] for row in (*found.warp[:3], found.lane[4])]
        if still[3] != still[2] and still[0] == still[1] == still[3]:
            lane, warp = (*found.lane[:4], found.warp[2]), (*found.warp[:2], found.lane[4])
            return Linear(found.register, lane, warp, found.block)
    return None


def compatible_layouts(layout: Memory, shape: Shape, *, bits: int, warps: int) -> list[Linear]:
    """All layouts in which a tile can be loaded or stored."""
    found = [access_layout(layout, shape, bits=bits, warps=warps, access=access) for access in _PREFERENCE]
    found += [split_layout(layout, shape, bits=bits)] if warps == 8 else []
    return [candidate for candidate in found if candidate is not None]


_PREFERENCE = (Access.ROWS_32, Access.ROWS_16_256, Access.ROWS_16_128, Access.ROWS_16_64)


def _accessed(memory: LinearLayout, access: Access, warps: int, bits: int) -> LinearLayout | None:
    """The map from register, lane, warp and block to the tile: elements are packed to words, which the access moves."""
    if bits == WORD:
        return _of_words(memory, access, warps)
    packed, rest, width = _packed(memory, bits)
    if rest is None:
        return None
    found = _accessed(rest, access, warps, width)
    if found is None or packed == 1:
        return found
    return (identity_1d(packed, "register", memory.out_names[1]) * found).transpose_outs(memory.out_names)


def _packed(memory: LinearLayout, bits: int) -> tuple[int, LinearLayout | None, int]:
    """The number of elements in one register, what is left of the memory, and its width: a word, or less.

    Nothing is left where columns are neither packed nor padded to words.
    """
    last = memory.out_names[1]
    packed, rest = 1, memory
    while bits * packed * 2 <= WORD:
        divided = memory.divide_left(identity_1d(packed * 2, "col", last))
        if divided is None:
            break
        packed, rest = packed * 2, divided
    if packed > 1:
        return packed, rest, bits * packed
    hole = zeros_1d(WORD // bits, "col", last)
    pairs = memory.divide_left(hole * identity_1d(2, "col", last)) if bits == 16 else None
    if pairs is not None:
        return 2, pairs, WORD
    return 1, memory if memory.in_size("col") == 1 else memory.divide_left(hole), WORD


def _of_words(memory: LinearLayout, access: Access, warps: int) -> LinearLayout | None:
    tile = _TILES[access]()
    columns = memory.in_size("col") // tile.out_size("col")
    if columns == 0:
        return None
    whole = access is Access.ROWS_32
    half_empty = memory.columns["row"][4] == 0
    reached = (tile * identity_1d(1, "block", "block")).compose(memory)
    lanes = reached.columns["lane"][:-1] if whole else reached.columns["lane"]
    if not LinearLayout({"register": reached.columns["register"], "lane": lanes}, reached.outs).is_injective:
        return None
    missing = "" if whole or half_empty else "warp" if warps > 4 else "register"
    across = warps // (8 if missing == "warp" else 4)
    idle = across // min(columns, across)
    across //= idle
    columns //= across
    if columns > 1 and whole and half_empty:
        # Lane 16 would see what lane 0 sees: it takes the second half of the columns.
        tile = from_bases({"register": [], "lane": [(1 << bit, 0) for bit in range(4)]}, [("row", 16), ("col", 1)])
        tile = tile * identity_1d(columns // 2, "register", "col") * identity_1d(2, "lane", "col")
    elif columns > 1:
        tile = tile * identity_1d(columns, "register", "col")
    rows = {name: list(steps) for name, steps in tile.bases.items()}
    rows["warp"] = [(32, 0), (64, 0)]
    if missing:
        rows[missing].append((16, 0))
    tile = from_bases(rows, [("row", ROWS), ("col", tile.out_size("col"))])
    tile = tile * identity_1d(across, "warp", "col") * zeros_1d(idle, "warp", "col")
    return (tile * identity_1d(memory.in_size("block"), "block", "block")).compose(memory)


def _tile(register: list[tuple[int, int]], lane: list[tuple[int, int]], rows: int, columns: int) -> LinearLayout:
    return from_bases({"register": register, "lane": lane}, [("row", rows), ("col", columns)])


_TILES: dict[Access, Callable[[], LinearLayout]] = {
    Access.ROWS_32: lambda: _tile([], [(1 << bit, 0) for bit in range(5)], 32, 1),
    Access.ROWS_16_64: lambda: _tile([], [(8, 0), (0, 1), (1, 0), (2, 0), (4, 0)], 16, 2),
    Access.ROWS_16_128: lambda: _tile([(8, 0)], [(0, 1), (0, 2), (1, 0), (2, 0), (4, 0)], 16, 4),
    Access.ROWS_16_256: lambda: _tile([(0, 1), (8, 0)], [(0, 2), (0, 4), (1, 0), (2, 0), (4, 0)], 16, 8),
}


def tensor_memory_encoding(text: str | None) -> Memory:
    """The layout of tensor memory that `text` describes."""
    layout = encoding(text or "")
    assert isinstance(layout, Memory), f"{text} is no layout of tensor memory"
    return layout


def allocated(layout: Memory, shape: Shape, bits: int) -> tuple[int, int]:
    """Rows and columns of 4 bytes that a buffer takes; of three dimensions the first counts its copies."""
    memory = linear_memory(layout, shape[-2:], bits)
    rows, columns = memory.in_size("row"), memory.in_size("col") * bits // WORD
    if memory.columns["row"][4] == 0:
        rows //= 2
    return rows, columns * (shape[0] if len(shape) == 3 else 1)


def held_bits(layout: Memory, shape: Shape, bits: int) -> int:
    """The size of a buffer, equal for all views of one: copies and holes count, too."""
    return prod(shape[:-2]) * ROWS * linear_memory(layout, shape[-2:], bits).in_size("col") * bits


def linear_memory(layout: Memory, shape: Shape, bits: int) -> LinearLayout:
    """The map from row, col and block to the tile, for elements of this width."""
    if isinstance(layout, TensorMemoryScales):
        return scales_layout(layout, shape)
    return tensor_memory_layout(with_stride(layout, bits), shape)
