"""Layouts drawn as in Triton: the thread that holds each element, and the element that each place holds.

tensor_view(layout, (2, 4))         # of a tile in registers: thread and register of each element

    [[T0:0, T0:1, T1:0, T1:1]
    [ T2:0, T2:1, T3:0, T3:1]]

Extents are those of the layout's matrix: if a tile is smaller than the layout, elements have several holders.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import product
from math import prod

from tilewright.layouts.conversion import to_linear_layout
from tilewright.layouts.encoding import Shared
from tilewright.layouts.encodings import Encoding
from tilewright.layouts.linear_layout import LinearLayout

HOLDERS = ("block", "warp", "lane", "register")
"""The dimensions that number a place in registers, slowest first."""


def tensor_view(layout: Encoding, shape: Sequence[int]) -> str:
    """A table over all elements of a tile.

    Args:
        layout: that of the tile, or of a buffer in shared memory.
        shape: its extents; powers of two.

    Returns:
        the thread and register that hold each element (`B1:` before it names the CTA, `|` stands between several), or
        the element at each place of shared memory. Lines end with a line feed.

    Raises:
        LayoutError: tiles of this shape cannot have the layout.
    """
    linear = to_linear_layout(layout, tuple(shape))
    if isinstance(layout, Shared):
        cells = [f"({':'.join(element)})" for _, element in _places(linear)]
        return _table(cells, linear.shape, ",")
    return _table(_holders(linear), linear.shape, ", ")


def hardware_view(layout: Encoding, shape: Sequence[int]) -> str:
    """The elements that each place holds, place by place; arguments and errors as for `tensor_view`.

    Returns:
        a paragraph per warp with a line per register and the lanes side by side, or a line per place of shared memory.
    """
    linear = to_linear_layout(layout, tuple(shape))
    return "".join(_memory_lines(linear) if isinstance(layout, Shared) else _warp_lines(linear))


def _element(linear: LinearLayout, **place: int) -> list[str]:
    """The coordinates of the element at a place, each as wide as its extent."""
    coordinates = linear.apply(**{name: value for name, value in place.items() if name in linear.columns})
    return [str(value).rjust(len(str(extent))) for value, extent in zip(coordinates, linear.shape, strict=True)]


def _places(linear: LinearLayout) -> Iterator[tuple[tuple[int, int], list[str]]]:
    """CTA, place in its memory, and the element there."""
    blocks = linear.in_size("block")
    for block, offset in product(range(blocks), range(prod(linear.shape) // blocks)):
        yield (block, offset), _element(linear, block=block, offset=offset)


def _holders(linear: LinearLayout) -> list[str]:
    """The holders of each element, in row-major order."""
    blocks, warps, lanes, registers = (linear.in_size(name) for name in HOLDERS)
    held: dict[int, list[str]] = defaultdict(list)
    for block, warp, lane, register in product(range(blocks), range(warps), range(lanes), range(registers)):
        thread = warp * lanes + lane
        name = f"B{block}:T{thread}:{register}" if blocks > 1 else f"T{thread}:{register}"
        pairs = (block, blocks), (thread, warps * lanes), (register, registers)
        spaces = sum(len(str(greatest)) - len(str(value)) for value, greatest in pairs)
        place = dict(zip(HOLDERS, (block, warp, lane, register), strict=True))
        image = linear.image({key: value for key, value in place.items() if key in linear.columns})
        held[image].append(" " * spaces + name)
    return ["|".join(held[element]) for element in range(prod(linear.shape))]


def _table(cells: Sequence[str], shape: Sequence[int], separator: str) -> str:
    """Cells in row-major order, with brackets around each axis and a line for each row."""
    width, lines = shape[-1], []
    rows = len(cells) // width
    for row in range(rows):
        begins, ends = _axes_at(row, shape[:-1]), _axes_at(row + 1, shape[:-1])
        indent = " " * (len(shape) - 1 - begins)
        content = separator.join(cells[row * width : (row + 1) * width])
        lines.append(f"{'[' * (begins + 1)}{indent}{content}{']' * (ends + 1)}\n")
    return "".join(lines)


def _axes_at(row: int, extents: Sequence[int]) -> int:
    """How many axes, from the last one on, begin again at a row."""
    count = 0
    for extent in reversed(extents):
        if row % extent:
            break
        row //= extent
        count += 1
    return count


def _memory_lines(linear: LinearLayout) -> Iterator[str]:
    for (block, offset), element in _places(linear):
        if not offset:
            yield f"Block: {block}:\n"
        yield f"Offset: {offset} -> ({','.join(element)})\n"


def _warp_lines(linear: LinearLayout) -> Iterator[str]:
    blocks, warps, lanes, registers = (linear.in_size(name) for name in HOLDERS)
    for block, warp in product(range(blocks), range(warps)):
        if blocks > 1 and not warp:
            yield f"Block{block}:\n"
        yield f"Warp{warp}:\n"
        for register in range(registers):
            held = (_element(linear, block=block, warp=warp, lane=lane, register=register) for lane in range(lanes))
            yield ", ".join(f"({','.join(element)})" for element in held) + "\n"
